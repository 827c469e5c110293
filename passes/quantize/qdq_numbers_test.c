// SPDX-License-Identifier: Apache-2.0
/* Weights in pieces, by several threads, become what they do as a whole; and what scales of blocks are
 * worth. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qdq_round.h"
#include "qdq_stream.h"
#include "unit_test.h"

typedef struct Case {
    uint64_t outer, axis, inner, block;
    Dtype dtype, stored;
} Case;

static uint64_t count_of(const Case *c) {
    return c->outer * c->axis * c->inner;
}

/* About normal, the same each time. */
static void fill(float *items, uint64_t count) {
    uint32_t state = 1;
    for (uint64_t i = 0; i < count; i++) {
        float sum = 0;
        for (int k = 0; k < 6; k++) {
            state = state * 1664525u + 1013904223u;
            sum += (float)(state >> 8) * 0x1p-24f - 0.5f;
        }
        items[i] = sum;
    }
}

typedef struct Found {
    float *scales;
    uint8_t *zeros;
    unsigned char *bytes;
    uint64_t scale_count, size;
} Found;

static Found new_found(Arena *arena, const QdqWeights *w) {
    Found f = {.scale_count = qdq_scale_count(w)};
    dtype_bytes(w->dtype, w->outer * w->axis * w->inner, &f.size);
    f.scales = ARENA_ARRAY(arena, float, f.scale_count);
    f.zeros = ARENA_ARRAY(arena, uint8_t, f.scale_count);
    f.bytes = arena_alloc(arena, f.size);
    return f;
}

/* With the scale of all scales only where there are items. */
static QdqWeights layout_of(const Case *c, const float *items) {
    QdqWeights w = {.items = items,
                    .outer = c->outer,
                    .axis = c->axis,
                    .inner = c->inner,
                    .block = c->block,
                    .dtype = c->dtype,
                    .floats = DTYPE_FLOAT,
                    .stored = c->stored};
    float peak = 0;
    for (uint64_t i = 0; items && i < count_of(c); i++) peak = fmaxf(peak, fabsf(items[i]));
    if (items && c->stored == DTYPE_FLOAT8E4M3FN) w.whole = qdq_whole_scale(&w, peak);
    return w;
}

static void find_whole(const QdqWeights *w, const Found *f) {
    if (w->block)
        qdq_find_block_scales(w, f->scales, f->zeros);
    else
        qdq_find_channel_scales(w, NULL, f->scales);
    qdq_store_weights(w, f->scales, f->zeros, f->bytes);
}

/* Reads a part of a stream here and there, in pieces that begin at multiples of `unit` bytes. */
static void check_part(QdqStream *stream, QdqPart part, const void *whole, uint64_t size,
                       uint64_t unit) {
    Source *source = qdq_stream_source(stream, part, size, "w");
    const uint64_t steps[] = {size, 131072, 4092, 40};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const uint64_t step = steps[i] / unit * unit;
        for (uint64_t at = 0, now, round = 0; step && at < size && round < 40; at += now, round++) {
            unsigned char *bytes = malloc(step + 1);
            now = size - at < step ? size - at : step;
            assert_true(source_read(source, at, bytes, now, NULL));
            assert_memory_equal(bytes, (const char *)whole + at, now);
            free(bytes);
        }
    }
}

/* Made as they are read, they are the same; all the float weights were looked at before. */
static void check_stream(const QdqNumbers *numbers, const Found *whole) {
    const QdqWeights *w = &numbers->layout;
    QdqStreams *streams = qdq_streams_new(&test_arena);
    QdqNumbers later = *numbers;
    uint64_t size;
    later.bytes = NULL;
    later.finite = false;
    if (w->block) later.scales = NULL;
    assert_true(qdq_numbers_find(&later, 1, &test_arena, NULL));
    assert_true(later.finite);
    QdqStream *stream = qdq_streams_add(streams, &later);
    qdq_streams_begin(streams);
    check_part(stream, QDQ_NUMBERS, whole->bytes, whole->size, dtype_bits(w->dtype) == 16 ? 2 : 1);
    if (!w->block) return;
    const uint64_t each = qdq_scale_size(w), scales_size = whole->scale_count * each;
    unsigned char *scales = arena_alloc(&test_arena, scales_size);
    qdq_store_scales(w, whole->scales, whole->scale_count, scales);
    check_part(stream, QDQ_SCALES, scales, scales_size, each);
    dtype_bytes(w->dtype, whole->scale_count, &size);
    unsigned char *zeros = arena_alloc(&test_arena, size);
    for (uint64_t i = 0; quantized_has_zeros(w->dtype) && i < whole->scale_count; i++)
        qdq_put_code(zeros, dtype_bits(w->dtype), i, whole->zeros[i]);
    check_part(stream, QDQ_ZEROS, zeros, size, 1);
}

TEST(pieces_are_the_whole) {
    static const Case cases[] = {
        {1, 300, 700, 0, DTYPE_INT8, 0},
        {700, 300, 1, 0, DTYPE_INT8, 0},
        {50, 64, 49, 0, DTYPE_INT8, 0},
        {1, 1, 200001, 0, DTYPE_INT8, 0},
        {1, 3, 100000, 0, DTYPE_INT16, 0},
        {1, 5, 7, 0, DTYPE_INT8, 0},
        {1, 1003, 257, 32, DTYPE_UINT4, 0},
        {1003, 257, 1, 32, DTYPE_UINT4, 0},
        {1, 999, 333, 3, DTYPE_UINT4, 0},
        {999, 333, 1, 7, DTYPE_INT4, 0},
        {1, 2500, 130, 2000, DTYPE_INT4, 0},
        {1, 700, 300, 16, DTYPE_INT8, 0},
        {300, 700, 1, 0, DTYPE_UINT16, 0},
        {1, 10, 9, 32, DTYPE_FLOAT8E4M3FN, 0},
        /* and of several threads */
        {1, 1000, 701, 0, DTYPE_INT8, 0},
        {1000, 701, 1, 0, DTYPE_INT8, 0},
        {1, 1000, 701, 32, DTYPE_UINT4, 0},
        {1000, 701, 1, 32, DTYPE_INT4, 0},
        /* in tiles beside each other */
        {1, 100, 20001, 32, DTYPE_UINT4, 0},
        {1, 70, 30000, 64, DTYPE_INT4, 0},
        {1, 3, 300001, 3, DTYPE_INT8, 0},
        /* with scales of their own types */
        {1, 1003, 257, 32, DTYPE_FLOAT8E4M3FN, DTYPE_FLOAT8E8M0},
        {1003, 257, 1, 32, DTYPE_FLOAT4E2M1, DTYPE_FLOAT8E8M0},
        {1, 1003, 257, 16, DTYPE_FLOAT4E2M1, DTYPE_FLOAT8E4M3FN},
        {1003, 257, 1, 16, DTYPE_FLOAT4E2M1, DTYPE_FLOAT8E4M3FN},
        {1003, 255, 1, 16, DTYPE_UINT2, 0},
        {1, 999, 333, 3, DTYPE_INT2, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        float *items = ARENA_ARRAY(&test_arena, float, count_of(c));
        fill(items, count_of(c));
        const QdqWeights w = layout_of(c, items);
        const int64_t dims[1] = {(int64_t)count_of(c)};
        const Found whole = new_found(&test_arena, &w), found = new_found(&test_arena, &w);
        QdqNumbers numbers = {
            .tensor = tensor_new_raw(&test_arena, DTYPE_FLOAT, dims, 1, items, count_of(c) * 4),
            .layout = layout_of(c, NULL),
            .scales = found.scales,
            .zeros = found.zeros,
            .bytes = found.bytes};
        find_whole(&w, &whole);
        assert_true(qdq_numbers_find(&numbers, 1, &test_arena, NULL));
        assert_true(numbers.finite);
        assert_memory_equal(whole.scales, found.scales, whole.scale_count * sizeof(float));
        assert_memory_equal(whole.zeros, found.zeros, whole.scale_count);
        assert_memory_equal(whole.bytes, found.bytes, whole.size);
        if (qdq_can_stream(&w)) check_stream(&numbers, &whole);
        arena_free(&test_arena);
    }
}

TEST(what_is_not_finite_is_found) {
    enum { COUNT = 200000 };
    float *items = ARENA_ARRAY(&test_arena, float, COUNT);
    const int64_t dims[1] = {COUNT};
    QdqNumbers both[2];
    for (int i = 0; i < 2; i++) {
        fill(items, COUNT);
        items[150001] = i ? NAN : 1;
        both[i] = (QdqNumbers){
            .tensor = tensor_new_raw(&test_arena, DTYPE_FLOAT, dims, 1, items, COUNT * 4),
            .layout = {.outer = 200,
                       .axis = 1000,
                       .inner = 1,
                       .dtype = DTYPE_INT8,
                       .floats = DTYPE_FLOAT}};
        const Found found = new_found(&test_arena, &both[i].layout);
        both[i].scales = found.scales;
        both[i].zeros = found.zeros;
        both[i].bytes = found.bytes;
    }
    assert_true(qdq_numbers_find(both, 2, &test_arena, NULL));
    assert_true(both[0].finite);
    assert_false(both[1].finite);
}

/* ---- sums --------------------------------------------------------------------------------------- */

static void check_drifts(uint64_t outer, uint64_t axis, uint64_t inner, uint64_t groups) {
    const int64_t dims[1] = {(int64_t)(outer * axis * inner)};
    float *items = ARENA_ARRAY(&test_arena, float, outer *axis *inner);
    float *factors = ARENA_ARRAY(&test_arena, float, groups *outer *inner + 1);
    fill(items, outer * axis * inner);
    for (uint64_t i = 0; i <= groups * outer * inner; i++)
        factors[i] = (float)((double)(i * 7 % 19) / 9 - 1);
    const QdqWeights w = {.items = items,
                          .outer = outer,
                          .axis = axis,
                          .inner = inner,
                          .dtype = DTYPE_INT8,
                          .floats = DTYPE_FLOAT};
    const Found found = new_found(&test_arena, &w);
    const QdqDrift drift = {.weights = factors + 1,
                            .growths = factors,
                            .groups = groups,
                            .unit = 3,
                            .sums = ARENA_ARRAY(&test_arena, double, axis)};
    QdqNumbers numbers = {
        .tensor = tensor_new_raw(&test_arena, DTYPE_FLOAT, dims, 1, items, (uint64_t)dims[0] * 4),
        .layout = w,
        .scales = found.scales,
        .zeros = found.zeros,
        .bytes = found.bytes};
    VEC_PUSH(&test_arena, &numbers.drifts, drift);
    VEC_PUSH(&test_arena, &numbers.drifts, drift);
    numbers.drifts.items[1].sums = ARENA_ARRAY(&test_arena, double, axis);
    assert_true(qdq_numbers_find(&numbers, 1, &test_arena, NULL));
    for (uint64_t a = 0; a < axis; a++) {
        const float *own = factors + a / (axis / groups) * outer * inner;
        double sum = 0;
        for (uint64_t o = 0; o < outer; o++)
            for (uint64_t i = 0; i < inner; i++) {
                const uint64_t at = (o * axis + a) * inner + i;
                const double grown =
                    (double)(int8_t)found.bytes[at] * (double)found.scales[a] - (double)items[at];
                sum += 3 * (grown * (double)own[o * inner + i] +
                            (double)items[at] * (double)own[o * inner + i + 1]);
            }
        assert_true(fabs(sum - drift.sums[a]) < 0.05 * (double)found.scales[a]);
        assert_true(drift.sums[a] == numbers.drifts.items[1].sums[a]);
    }
}

TEST(drifts_are_what_sums_grow_by) {
    check_drifts(1, 300, 700, 1);
    check_drifts(1, 300, 700, 3);
    check_drifts(1, 300, 9, 300);
    check_drifts(1, 300, 1, 300);
    check_drifts(1, 70000, 1, 700);
    check_drifts(700, 300, 1, 1);
    check_drifts(1, 1, 100003, 1);
    check_drifts(3, 500, 400, 1);
    check_drifts(900, 700, 1, 1);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Of blocks in one piece, in uint4; importance: of the places of a block, or NULL. */
static double error_of(const QdqWeights *w, const float *scales, const uint8_t *zeros,
                       const float *importance) {
    double sum = 0;
    for (uint64_t i = 0; i < w->axis; i++) {
        const float scale = scales[i / w->block], zero = (float)zeros[i / w->block];
        const float number = fminf(fmaxf(nearbyintf(w->items[i] / scale) + zero, 0), 15);
        const double off = (double)((number - zero) * scale) - (double)w->items[i];
        sum += off * off * (double)(importance ? importance[i % w->block] : 1);
    }
    return sum;
}

/* Least and greatest become 0 and 15. */
static void by_ends(const QdqWeights *w, float *scales, uint8_t *zeros) {
    for (uint64_t b = 0; b < w->axis / w->block; b++) {
        float low = 0, high = 0;
        for (uint64_t i = b * w->block; i < (b + 1) * w->block; i++) {
            low = fminf(low, w->items[i]);
            high = fmaxf(high, w->items[i]);
        }
        scales[b] = (high - low) / 15;
        zeros[b] = (uint8_t)nearbyintf(-low / scales[b]);
    }
}

TEST(blocks_are_better_than_by_ends) {
    enum { COUNT = 32000, BLOCK = 32 };
    static float items[COUNT], scales[COUNT / BLOCK], others[COUNT / BLOCK];
    static uint8_t zeros[COUNT / BLOCK], other_zeros[COUNT / BLOCK];
    const QdqWeights w = {.items = items,
                          .outer = 1,
                          .axis = COUNT,
                          .inner = 1,
                          .block = BLOCK,
                          .dtype = DTYPE_UINT4,
                          .floats = DTYPE_FLOAT};
    fill(items, COUNT);
    by_ends(&w, others, other_zeros);
    qdq_find_block_scales(&w, scales, zeros);
    assert_true(error_of(&w, scales, zeros, NULL) < 0.93 * error_of(&w, others, other_zeros, NULL));
}

TEST(blocks_heed_importance) {
    enum { COUNT = 32000, BLOCK = 32 };
    static float items[COUNT], scales[COUNT / BLOCK], others[COUNT / BLOCK];
    static uint8_t zeros[COUNT / BLOCK], other_zeros[COUNT / BLOCK];
    float importance[BLOCK];
    QdqWeights w = {.items = items,
                    .outer = 1,
                    .axis = COUNT,
                    .inner = 1,
                    .block = BLOCK,
                    .dtype = DTYPE_UINT4,
                    .floats = DTYPE_FLOAT};
    fill(items, COUNT);
    for (int i = 0; i < BLOCK; i++) importance[i] = 1;
    qdq_find_block_scales(&w, others, other_zeros);
    w.importance = importance;
    qdq_find_block_scales(&w, scales, zeros);
    assert_memory_equal(scales, others, sizeof scales);
    assert_memory_equal(zeros, other_zeros, sizeof zeros);
    for (int i = 0; i < BLOCK; i++) importance[i] = ldexpf(1, -(i % 8));
    qdq_find_block_scales(&w, scales, zeros);
    assert_true(error_of(&w, scales, zeros, importance) <
                0.99 * error_of(&w, others, other_zeros, importance));
}

TEST(blocks_lie_any_way) {
    enum { ROWS = 70, COLUMNS = 37, BLOCK = 32, BLOCKS = 3 };
    static float items[ROWS * COLUMNS], turned[ROWS * COLUMNS];
    float scales[BLOCKS * COLUMNS], others[BLOCKS * COLUMNS];
    uint8_t zeros[BLOCKS * COLUMNS], other_zeros[BLOCKS * COLUMNS];
    const QdqWeights w = {.items = items,
                          .outer = 1,
                          .axis = ROWS,
                          .inner = COLUMNS,
                          .block = BLOCK,
                          .dtype = DTYPE_UINT4,
                          .floats = DTYPE_FLOAT};
    const QdqWeights t = {turned, COLUMNS, ROWS, 1, BLOCK, DTYPE_UINT4, DTYPE_FLOAT, 0, 0, NULL};
    fill(items, ROWS * COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++) turned[i % COLUMNS * ROWS + i / COLUMNS] = items[i];
    qdq_find_block_scales(&w, scales, zeros);
    qdq_find_block_scales(&t, others, other_zeros);
    for (int i = 0; i < BLOCKS * COLUMNS; i++) {
        const int k = i % COLUMNS * BLOCKS + i / COLUMNS;
        assert_true(scales[i] == others[k]);
        assert_int_equal(zeros[i], other_zeros[k]);
    }
}

TEST(blocks_of_any_size_have_scales) {
    static const float items[3][4] = {
        {3e38f, -3e38f, 1e38f, 0}, {1e-39f, 0, -1e-40f, 0}, {0, 0, 0, 0}};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            float scale;
            uint8_t zero = 0;
            const QdqWeights w = {.items = items[i],
                                  .outer = 1,
                                  .axis = 4,
                                  .inner = 1,
                                  .block = 4,
                                  .dtype = k ? DTYPE_INT4 : DTYPE_UINT4,
                                  .floats = DTYPE_FLOAT};
            qdq_find_block_scales(&w, &scale, &zero);
            assert_true(isfinite(scale) && scale >= 1.17549435e-38f);
            assert_in_range(zero, 0, 15);
            if (i == 2) assert_true(scale == 1);
        }
}

/* ---- scales that have a type of their own ------------------------------------------------------ */

/* What a block loses with that scale, each number being the nearest. */
static double loss_of(const float *items, uint64_t count, float scale) {
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t code = 0;
        double number = 0;
        dtype_from_double(DTYPE_FLOAT4E2M1, (double)(items[i] / scale), &code);
        dtype_to_double(DTYPE_FLOAT4E2M1, code, &number);
        const double off = number * (double)scale - (double)items[i];
        sum += off * off;
    }
    return sum;
}

/* The OCP Microscaling Formats' 6.3: floor(log2(largest)) - emax, of which float4e2m1 has 2. */
static float scale_of_ocp(const float *items, uint64_t count) {
    float most = 0;
    for (uint64_t i = 0; i < count; i++) most = fmaxf(most, fabsf(items[i]));
    return ldexpf(1, ilogbf(most) - 2);
}

/* Powers of two that no neighbor is better than, nor the specification's. */
TEST(powers_of_two_lose_the_least) {
    enum { COUNT = 32000, BLOCK = 32 };
    static float items[COUNT], scales[COUNT / BLOCK];
    double found = 0, specified = 0;
    const QdqWeights w = {.items = items,
                          .outer = 1,
                          .axis = COUNT,
                          .inner = 1,
                          .block = BLOCK,
                          .dtype = DTYPE_FLOAT4E2M1,
                          .floats = DTYPE_FLOAT,
                          .stored = DTYPE_FLOAT8E8M0};
    fill(items, COUNT);
    qdq_find_block_scales(&w, scales, NULL);
    for (uint64_t b = 0; b < COUNT / BLOCK; b++) {
        const float *block = items + b * BLOCK;
        const double loss = loss_of(block, BLOCK, scales[b]);
        assert_true(scales[b] == ldexpf(1, ilogbf(scales[b])));
        assert_true(loss <= loss_of(block, BLOCK, 2 * scales[b]) * 1.0001);
        assert_true(loss <= loss_of(block, BLOCK, scales[b] / 2) * 1.0001);
        found += loss;
        specified += loss_of(block, BLOCK, scale_of_ocp(block, BLOCK));
    }
    assert_true(found < 0.97 * specified);
}

/* Scales of two levels are those that are stored, and lose less than those that make the largest weight 6. */
TEST(two_levels_lose_less) {
    enum { COUNT = 32000, BLOCK = 16 };
    static float items[COUNT], scales[COUNT / BLOCK];
    double found = 0, plain = 0;
    fill(items, COUNT);
    QdqWeights w = {.items = items,
                    .outer = 1,
                    .axis = COUNT,
                    .inner = 1,
                    .block = BLOCK,
                    .dtype = DTYPE_FLOAT4E2M1,
                    .floats = DTYPE_FLOAT,
                    .stored = DTYPE_FLOAT8E4M3FN};
    w.whole = qdq_whole_scale(&w, 3);
    qdq_find_block_scales(&w, scales, NULL);
    for (uint64_t b = 0; b < COUNT / BLOCK; b++) {
        uint8_t code;
        double number = 0;
        float most = 0;
        qdq_store_scales(&w, &scales[b], 1, &code);
        assert_true(dtype_to_double(DTYPE_FLOAT8E4M3FN, code, &number));
        assert_true((float)number * w.whole == scales[b]);
        for (uint64_t i = 0; i < BLOCK; i++) most = fmaxf(most, fabsf(items[b * BLOCK + i]));
        found += loss_of(items + b * BLOCK, BLOCK, scales[b]);
        plain += loss_of(items + b * BLOCK, BLOCK, most / 6);
    }
    assert_true(found < 0.9 * plain);
}

/* Every code of a small kind, what lies between two of them, and what is past all. */
TEST(small_floats_are_rounded_as_dtypes_are) {
    static const Dtype kinds[] = {DTYPE_FLOAT8E4M3FN, DTYPE_FLOAT4E2M1};
    uint32_t state = 7;
    for (int i = 0; i < 200000; i++) {
        state = state * 1664525u + 1013904223u;
        const float number =
            ldexpf((float)(int32_t)state * 0x1p-31f, (int)(state % 29) - 16) * (i % 3 ? 1 : 0.125f);
        for (int k = 0; k < 2; k++) {
            uint64_t want = 0;
            const SmallFloat small = small_float_of(kinds[k]);
            assert_true(dtype_from_double(kinds[k], (double)number, &want));
            assert_int_equal(small_code(&small, number), want);
        }
    }
}
