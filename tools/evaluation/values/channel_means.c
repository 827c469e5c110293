// SPDX-License-Identifier: Apache-2.0
/* See channel_means.h. A tensor's own sums are taken in its order, and added up as fixed-point numbers. */
#include "channel_means.h"

#include <math.h>

#include "row_clones.h"

static const double LARGEST = 0x1p53; /* of a tensor's sum */

/* ---- numbers --------------------------------------------------------------------------------- */

static void add_sum(ChannelSum *to, ChannelSum from) {
    to->part += from.part;
    to->whole += from.whole + (to->part < from.part);
}

/* `sum` is not larger than LARGEST. */
static ChannelSum sum_of(double sum) {
    const double whole = floor(sum), part = (sum - whole) * 0x1p64;
    if (part >= 0x1p64) return (ChannelSum){(int64_t)whole + 1, 0};
    return (ChannelSum){(int64_t)whole, (uint64_t)part};
}

/* Of elements next to each other, by lanes. */
ROW_CLONES static double row_sum(const float *items, uint64_t count) {
    enum { LANES = 16, RUN = 1024 };
    double sum = 0;
    for (uint64_t at = 0; at < count; at += RUN) {
        const uint64_t end = count - at < RUN ? count : at + RUN;
        float sums[LANES] = {0};
        uint64_t i = at;
        for (; i + LANES <= end; i += LANES)
            for (unsigned k = 0; k < LANES; k++) sums[k] += items[i + k];
        for (; i < end; i++) sum += (double)items[i];
        for (unsigned k = 0; k < LANES; k++) sum += (double)sums[k];
    }
    return sum;
}

ROW_CLONES static void add_row(const float *items, uint64_t count, double *restrict sums) {
    ROW_LOOP
    for (uint64_t i = 0; i < count; i++) sums[i] += (double)items[i];
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* False where the channels are others than before. */
static bool take_count(ChannelMeans *means, uint64_t count, Arena *arena) {
    if (!means->count) {
        means->count = count;
        means->sums = ARENA_ARRAY(arena, ChannelSum, count);
    }
    means->broken = means->broken || means->count != count;
    return !means->broken;
}

/* What rounding adds to elements, a piece at a time. */
static double row_errors(const float *items, uint64_t count, const RoundSteps *steps) {
    enum { PIECE = 1024 };
    float errors[PIECE];
    double sum = 0;
    for (uint64_t at = 0; at < count; at += PIECE) {
        const uint64_t some = count - at < PIECE ? count - at : PIECE;
        round_steps(errors, items + at, some, *steps);
        for (uint64_t i = 0; i < some; i++) errors[i] -= items[at + i];
        sum += row_sum(errors, some);
    }
    return sum;
}

static void add_row_errors(const float *items, uint64_t count, const RoundSteps *steps,
                           double *sums) {
    for (uint64_t i = 0; i < count; i++) sums[i] += row_errors(items + i, 1, steps);
}

static void add_elements(const ChannelMeans *means, const float *items, uint64_t outer,
                         uint64_t inner, const RoundSteps *steps, double *sums) {
    for (uint64_t o = 0; o < outer; o++) {
        const float *at = items + o * means->count * inner;
        if (inner == 1 && steps) add_row_errors(at, means->count, steps, sums);
        if (inner == 1 && !steps) add_row(at, means->count, sums);
        for (uint64_t c = 0; inner != 1 && c < means->count; c++)
            sums[c] +=
                steps ? row_errors(at + c * inner, inner, steps) : row_sum(at + c * inner, inner);
    }
}

void channel_means_add(ChannelMeans *means, const DemiData *tensor, const RoundSteps *steps,
                       Arena *arena) {
    const int64_t rank = tensor->rank, axis = means->axis < 0 ? rank + means->axis : means->axis;
    uint64_t outer = 1, inner = 1;
    if (axis < 0 || axis >= rank) means->broken = true;
    if (means->broken) return;
    for (int64_t i = 0; i < axis; i++) outer *= (uint64_t)tensor->dims[i];
    for (int64_t i = axis + 1; i < rank; i++) inner *= (uint64_t)tensor->dims[i];
    if (!outer || !inner || !tensor->dims[axis]) return;
    if (!take_count(means, (uint64_t)tensor->dims[axis], arena)) return;
    Arena *within = arena_child(arena);
    double *sums = ARENA_ARRAY(within, double, means->count);
    add_elements(means, tensor->data, outer, inner, steps, sums);
    for (uint64_t c = 0; c < means->count && !means->broken; c++) {
        means->broken = !(fabs(sums[c]) <= LARGEST);
        if (!means->broken) add_sum(&means->sums[c], sum_of(sums[c]));
    }
    means->places += outer * inner;
    arena_free(within);
}

void channel_means_join(ChannelMeans *means, const ChannelMeans *other, Arena *arena) {
    means->broken = means->broken || other->broken;
    if (means->broken || !other->count || !take_count(means, other->count, arena)) return;
    for (uint64_t c = 0; c < means->count; c++) add_sum(&means->sums[c], other->sums[c]);
    means->places += other->places;
}

double *channel_means_find(const ChannelMeans *means, Arena *arena) {
    if (means->broken || !means->count) return NULL;
    double *found = ARENA_ARRAY(arena, double, means->count);
    for (uint64_t c = 0; c < means->count; c++)
        found[c] = ((double)means->sums[c].whole + (double)means->sums[c].part * 0x1p-64) /
                   (double)means->places;
    return found;
}
