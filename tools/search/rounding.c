// SPDX-License-Identifier: Apache-2.0
/* Rounding of elements; see rounding.h. */
#include "rounding.h"

#include <math.h>

#include "half.h"
#include "qdq_scale.h"
#include "round_steps.h"

enum { BLOCK = 1024 };

static void through(Dtype type, float *to, const float *from, uint64_t count) {
    uint16_t block[BLOCK];
    for (uint64_t i = 0; i < count; i += BLOCK) {
        const size_t size = count - i < BLOCK ? (size_t)(count - i) : BLOCK;
        reduced_convert_from_float(type, block, from + i, size);
        reduced_convert_to_float(type, to + i, block, size);
    }
}

/* ---- integers -------------------------------------------------------------------------------- */

static void round_values(const Rounding *r, float *to, const float *from, uint64_t count) {
    QdqScale scale;
    if (!qdq_scale_of_range(r->type, false, r->low, r->high, &scale)) {
        for (uint64_t i = 0; i < count; i++) to[i] = NAN; /* no range can hold it */
        return;
    }
    const RoundSteps steps = {scale.scale, (float)(qdq_least(r->type) - scale.zero),
                              (float)(qdq_most(r->type) - scale.zero)};
    round_steps(to, from, count, steps);
}

static void round_weights(const Rounding *r, float *to, const float *from) {
    const QdqWeights weights = {.items = from,
                                .outer = r->outer,
                                .axis = r->axis,
                                .inner = r->inner,
                                .block = r->block,
                                .dtype = r->type,
                                .floats = DTYPE_FLOAT};
    const uint64_t blocks = r->block ? (r->axis + r->block - 1) / r->block : 0;
    if (r->block)
        qdq_find_block_scales(&weights, r->scales, NULL);
    else
        qdq_find_channel_scales(&weights, NULL, r->scales);
    const float high = (float)qdq_most(r->type), low = r->block ? -high - 1 : -high;
    for (uint64_t o = 0; o < r->outer; o++)
        for (uint64_t a = 0; a < r->axis; a++) {
            const uint64_t at = (o * r->axis + a) * r->inner;
            const float *scales =
                r->block ? r->scales + (o * blocks + a / r->block) * r->inner : r->scales + a;
            for (uint64_t i = 0; r->block && i < r->inner; i++) {
                const RoundSteps steps = {scales[i], low, high};
                round_steps(to + at + i, from + at + i, 1, steps);
            }
            const RoundSteps steps = {scales[0], low, high};
            if (!r->block) round_steps(to + at, from + at, r->inner, steps);
        }
}

/* By channel, without blocks. */
static void take_drift(const Rounding *r, float *to, const float *from) {
    const uint64_t step = r->axis * r->inner;
    for (uint64_t a = 0; a < r->axis; a++) {
        double drift = 0;
        for (uint64_t at = a * r->inner; at < r->outer * step; at += step)
            for (uint64_t i = at; i < at + r->inner; i++) drift += (double)to[i] - (double)from[i];
        const float less = (float)(drift / (double)(r->outer * r->inner));
        for (uint64_t at = a * r->inner; at < r->outer * step; at += step)
            for (uint64_t i = at; i < at + r->inner; i++) to[i] -= less;
    }
}

void rounding_apply(void *rounding, void *to, const void *from, uint64_t count) {
    const Rounding *r = rounding;
    if (dtype_is_reduced(r->type))
        through(r->type, to, from, count);
    else if (r->axis)
        round_weights(r, to, from);
    else
        round_values(r, to, from, count);
    if (r->even) take_drift(r, to, from);
}
