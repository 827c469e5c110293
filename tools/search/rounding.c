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

/* The number that an element of a few bits stands for. */
static float decoded(Dtype type, uint64_t bits) {
    double number = NAN;
    dtype_to_double(type, bits, &number);
    return (float)number;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Of types that are no integers, which have no zero points. */
static void round_floats(Dtype type, float scale, float *to, const float *from, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        to[i] = dtype_from_double(type, (double)(from[i] / scale), &bits)
                    ? decoded(type, bits) * scale
                    : NAN;
    }
}

static void round_values(const Rounding *r, float *to, const float *from, uint64_t count) {
    QdqScale scale;
    if (!qdq_scale_of_range(r->type, r->symmetric, r->low, r->high, &scale)) {
        for (uint64_t i = 0; i < count; i++) to[i] = NAN; /* no range can hold it */
        return;
    }
    if (!dtype_is_integer(r->type)) {
        round_floats(r->type, scale.scale, to, from, count);
        return;
    }
    const RoundSteps steps = {scale.scale, (float)(qdq_least(r->type) - scale.zero),
                              (float)(qdq_most(r->type) - scale.zero)};
    round_steps(to, from, count, steps);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Elements of as many bits, the first in the low ones, as tensors have them. */
static uint64_t stored_bits(const unsigned char *bytes, uint64_t i, uint32_t bits) {
    uint64_t found = 0;
    if (bits == 8) return bytes[i];
    for (uint32_t b = 0; b < bits; b++) {
        const uint64_t at = i * bits + b;
        found |= (uint64_t)(bytes[at / 8] >> at % 8 & 1) << b;
    }
    return found;
}

/* The scale, or zero point, of element (outer, axis, inner). */
static uint64_t scale_at(const Rounding *r, uint64_t o, uint64_t a, uint64_t i) {
    const uint64_t blocks = r->block ? (r->axis + r->block - 1) / r->block : 0;
    return r->block ? (o * blocks + a / r->block) * r->inner + i : a;
}

/* Of types that are not spread evenly, or have zero points: as they are stored. */
static void restore_weights(const Rounding *r, const QdqWeights *weights, float *to) {
    const bool zeros = quantized_has_zeros(r->type) && r->block;
    const uint32_t bits = dtype_bits(r->type);
    qdq_store_weights(weights, r->scales, zeros ? r->zeros : NULL, r->bytes);
    for (uint64_t o = 0; o < r->outer; o++)
        for (uint64_t a = 0; a < r->axis; a++)
            for (uint64_t i = 0; i < r->inner; i++) {
                const uint64_t at = (o * r->axis + a) * r->inner + i, scale = scale_at(r, o, a, i);
                const float number = decoded(r->type, stored_bits(r->bytes, at, bits));
                to[at] = (number - (zeros ? (float)r->zeros[scale] : 0)) * r->scales[scale];
            }
}

static float largest(const float *items, uint64_t count) {
    float peak = 0;
    for (uint64_t i = 0; i < count; i++) peak = fmaxf(peak, fabsf(items[i]));
    return peak;
}

static void round_weights(const Rounding *r, float *to, const float *from) {
    const bool own = r->format && r->block; /* scales of the format's own */
    QdqWeights weights = {.items = from,
                          .outer = r->outer,
                          .axis = r->axis,
                          .inner = r->inner,
                          .block = r->block,
                          .dtype = r->type,
                          .floats = DTYPE_FLOAT,
                          .stored = own ? r->format->scales : DTYPE_UNDEFINED};
    if (own && r->format->two_level)
        weights.whole = qdq_whole_scale(&weights, largest(from, r->outer * r->axis * r->inner));
    if (r->block)
        qdq_find_block_scales(&weights, r->scales, r->zeros);
    else
        qdq_find_channel_scales(&weights, NULL, r->scales);
    if (rounding_is_stored(r->type)) {
        restore_weights(r, &weights, to);
        return;
    }
    const float high = (float)qdq_most(r->type), low = r->block ? -high - 1 : -high;
    for (uint64_t o = 0; o < r->outer; o++)
        for (uint64_t a = 0; a < r->axis; a++) {
            const uint64_t at = (o * r->axis + a) * r->inner;
            const float *scales = r->scales + scale_at(r, o, a, 0);
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
