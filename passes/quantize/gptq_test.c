// SPDX-License-Identifier: Apache-2.0
/* Rounding by moments, against sums that are taken directly: what it costs is what it says, and never more than
 * rounding to nearest does, of any form that weights have. */
#include "gptq.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qdq_scale.h"
#include "unit_test.h"

typedef struct Case {
    uint64_t size, channels, block;
    Dtype dtype;
    bool turned;
} Case;

static const Dtype types[] = {DTYPE_INT8,         DTYPE_UINT4,      DTYPE_INT4,
                              DTYPE_FLOAT8E4M3FN, DTYPE_FLOAT4E2M1, DTYPE_UINT2};
enum { TYPES = sizeof types / sizeof *types };

static float random_number(uint32_t *state) {
    float sum = 0;
    for (int k = 0; k < 6; k++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (float)(*state >> 8) * 0x1p-24f - 0.5f;
    }
    return sum;
}

/* Sums of x x^T of vectors whose elements depend on each other, as those of real models do. */
static float *random_moments(uint64_t size, uint32_t seed) {
    float *moments = ARENA_ARRAY(&test_arena, float, size *size),
          *x = ARENA_ARRAY(&test_arena, float, size);
    uint32_t state = seed;
    for (uint64_t v = 0; v < 2 * size + 3; v++) {
        const float common = 2 * random_number(&state);
        for (uint64_t i = 0; i < size; i++)
            x[i] = common + random_number(&state) * (float)(1 + i % 5) + (i ? x[i - 1] / 2 : 0);
        for (uint64_t i = 0; i < size; i++)
            for (uint64_t k = 0; k < size; k++) moments[i * size + k] += x[i] * x[k];
    }
    return moments;
}

/* Blocks of float4 have scales of both types that formats store them in. */
static Dtype stored_of(const Case *c) {
    if (c->dtype != DTYPE_FLOAT4E2M1 || !c->block) return DTYPE_UNDEFINED;
    return c->turned ? DTYPE_FLOAT8E4M3FN : DTYPE_FLOAT8E8M0;
}

static QdqWeights layout_of(const Case *c, const float *items) {
    QdqWeights w = {.items = items,
                    .outer = 1,
                    .axis = c->size,
                    .inner = 1,
                    .block = c->block,
                    .dtype = c->dtype,
                    .stored = stored_of(c)};
    if (w.stored == DTYPE_FLOAT8E4M3FN) w.whole = qdq_whole_scale(&w, 3);
    if (c->block) {
        w.outer = c->turned ? c->channels : 1;
        w.inner = c->turned ? 1 : c->channels;
    } else {
        w.axis = c->channels;
        w.outer = c->turned ? 1 : c->size;
        w.inner = c->turned ? c->size : 1;
    }
    return w;
}

typedef struct Weights {
    GptqWeights w;
    float *items;
    uint64_t scale_count, bytes;
} Weights;

/* Rounded to nearest. */
static Weights new_weights(const Case *c, uint32_t seed) {
    const int64_t dims[2] = {(int64_t)(c->turned ? c->channels : c->size),
                             (int64_t)(c->turned ? c->size : c->channels)};
    const uint64_t count = c->size * c->channels;
    Weights new = {.items = ARENA_ARRAY(&test_arena, float, count)};
    uint32_t state = seed;
    for (uint64_t i = 0; i < count; i++) new.items[i] = random_number(&state);
    const QdqWeights layout = layout_of(c, new.items);
    new.scale_count = qdq_scale_count(&layout);
    dtype_bytes(c->dtype, count, &new.bytes);
    new.w = (GptqWeights){
        .tensor =
            tensor_new_raw(&test_arena, DTYPE_FLOAT, dims, 2, new.items, count * sizeof(float)),
        .size = c->size,
        .all = c->channels,
        .channels = c->channels,
        .turned = c->turned,
        .block = c->block,
        .dtype = c->dtype,
        .stored = layout.stored,
        .whole = layout.whole,
        .scales = ARENA_ARRAY(&test_arena, float, new.scale_count),
        .zeros = ARENA_ARRAY(&test_arena, uint8_t, new.scale_count),
        .bytes = arena_alloc(&test_arena, new.bytes),
    };
    if (c->block)
        qdq_find_block_scales(&layout, new.w.scales, new.w.zeros);
    else
        qdq_find_channel_scales(&layout, NULL, new.w.scales);
    qdq_store_weights(&layout, new.w.scales, new.w.zeros, new.w.bytes);
    return new;
}

/* What a stored element stands for, as DequantizeLinear has it. */
static double stored_at(const Weights *w, uint64_t place, uint64_t channel) {
    const GptqWeights *g = &w->w;
    const uint64_t element = g->turned ? channel * g->size + place : place * g->all + channel;
    const uint64_t blocks = g->block ? (g->size + g->block - 1) / g->block : 1,
                   block = g->block ? place / g->block : 0;
    const uint64_t scale = !g->block   ? channel
                           : g->turned ? channel * blocks + block
                                       : block * g->all + channel;
    const unsigned bits = dtype_bits(g->dtype);
    const uint64_t code = g->bytes[element * bits / 8] >> element * bits % 8;
    double number;
    assert_true(dtype_to_double(g->dtype, code, &number));
    if (g->dtype == DTYPE_UINT4 || g->dtype == DTYPE_UINT2) number -= g->zeros[scale];
    return number * (double)g->scales[scale];
}

/* e^T H e of a channel. */
static double channel_cost(const Weights *w, const float *moments, uint64_t channel) {
    const GptqWeights *g = &w->w;
    double *errors = ARENA_ARRAY(&test_arena, double, g->size), cost = 0;
    for (uint64_t k = 0; k < g->size; k++) {
        const uint64_t element = g->turned ? channel * g->size + k : k * g->all + channel;
        errors[k] = (double)w->items[element] - stored_at(w, k, channel);
    }
    for (uint64_t i = 0; i < g->size; i++)
        for (uint64_t k = 0; k < g->size; k++)
            cost += errors[i] * (double)moments[i * g->size + k] * errors[k];
    return cost;
}

static double *costs_of(const Weights *w, const float *moments) {
    double *costs = ARENA_ARRAY(&test_arena, double, w->w.channels);
    for (uint64_t c = 0; c < w->w.channels; c++) costs[c] = channel_cost(w, moments, c);
    return costs;
}

static double sum_of(const double *items, uint64_t count) {
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) sum += items[i];
    return sum;
}

static GptqCost round_by(const Weights *w, const float *moments, unsigned threads) {
    Workers *workers = workers_new(&test_arena, threads);
    MomentFactor factor;
    GptqCost cost = {0};
    assert_true(moment_factor_find(&factor, moments,
                                   (MomentSizes){w->w.size, w->w.block, 2 * w->w.size}, workers,
                                   &test_arena));
    assert_true(gptq_round(&w->w, &factor, workers, &cost, &test_arena, NULL));
    return cost;
}

/* How much of the cost is left. */
static double check_costs(const Case *c, uint32_t seed) {
    const float *moments = random_moments(c->size, seed);
    const Weights w = new_weights(c, seed);
    const double *before = costs_of(&w, moments);
    const GptqCost cost = round_by(&w, moments, 2);
    const double *after = costs_of(&w, moments);
    for (uint64_t i = 0; i < c->channels; i++)
        assert_true(after[i] <= before[i] * (1 + 1e-4) + 1e-9);
    const double was = sum_of(before, c->channels), is = sum_of(after, c->channels);
    assert_true(fabs(cost.nearest - was) <= 2e-3 * was + 1e-6);
    assert_true(fabs(cost.chosen - is) <= 2e-3 * was + 1e-6);
    return is / was;
}

TEST(test_costs_less) {
    static const uint64_t sizes[] = {1, 2, 5, 33, 70, 130}, blocks[] = {0, 4, 32},
                          channels[] = {1, 3, 67};
    double sum = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < 6 * 3 * 3 * TYPES * 2; i++) {
        const Case c = {sizes[i % 6], channels[i / 6 % 3], blocks[i / 18 % 3],
                        types[i / 54 % TYPES], i / 54 / TYPES};
        const double left = check_costs(&c, (uint32_t)i + 1);
        if (c.size < 30) continue; /* little can be made up for */
        sum += left;
        count++;
    }
    assert_true(sum / count < 0.35);
}

/* Where nothing depends on anything, nearest is the best. */
TEST(test_even_moments_are_nearest) {
    for (size_t i = 0; i < 2 * TYPES * 2; i++) {
        const Case c = {70, 9, i % 2 ? 32 : 0, types[i / 2 % TYPES], i / 2 / TYPES};
        float *moments = ARENA_ARRAY(&test_arena, float, c.size *c.size);
        for (uint64_t k = 0; k < c.size; k++) moments[k * c.size + k] = 3;
        const Weights w = new_weights(&c, 7);
        const unsigned char *was = arena_copy(&test_arena, w.w.bytes, w.bytes);
        round_by(&w, moments, 2);
        assert_memory_equal(w.w.bytes, was, w.bytes);
    }
}

/* What is always 0 says nothing: such places stay as they are, and give others nothing. */
TEST(test_places_without_input) {
    const Case c = {40, 5, 0, DTYPE_INT8, false};
    float *moments = random_moments(c.size, 3);
    for (uint64_t k = 0; k < c.size * c.size; k++)
        if (k / c.size % 3 == 1 || k % c.size % 3 == 1) moments[k] = 0;
    const Weights w = new_weights(&c, 3);
    const unsigned char *was = arena_copy(&test_arena, w.w.bytes, w.bytes);
    const double before = sum_of(costs_of(&w, moments), c.channels);
    round_by(&w, moments, 1);
    for (uint64_t k = 0; k < c.size; k++)
        for (uint64_t n = 0; k % 3 == 1 && n < c.channels; n++)
            assert_int_equal(w.w.bytes[k * c.channels + n], was[k * c.channels + n]);
    assert_true(sum_of(costs_of(&w, moments), c.channels) < 0.6 * before);
}

TEST(test_threads_change_nothing) {
    for (int i = 0; i < 4; i++) {
        const Case c = {200, 300, i % 2 ? 32 : 0, i % 2 ? DTYPE_UINT4 : DTYPE_INT8, i / 2};
        const float *moments = random_moments(c.size, 11);
        const Weights one = new_weights(&c, 5), other = new_weights(&c, 5);
        round_by(&one, moments, 1);
        round_by(&other, moments, 4);
        assert_memory_equal(one.w.bytes, other.w.bytes, one.bytes);
        assert_memory_equal(one.w.scales, other.w.scales, one.scale_count * sizeof(float));
        assert_memory_equal(one.w.zeros, other.w.zeros, one.scale_count);
    }
}

/* Of the channels of one group, those of others stay. */
TEST(test_some_channels) {
    const Case c = {18, 12, 0, DTYPE_INT8, true};
    const float *moments = random_moments(c.size, 2);
    Weights w = new_weights(&c, 2);
    const unsigned char *was = arena_copy(&test_arena, w.w.bytes, w.bytes);
    const double *before = costs_of(&w, moments);
    w.w.first = 4;
    w.w.channels = 3;
    round_by(&w, moments, 1);
    w.w.first = 0;
    w.w.channels = 12;
    const double *after = costs_of(&w, moments);
    assert_memory_equal(w.w.bytes, was, 4 * c.size);
    assert_memory_equal(w.w.bytes + 7 * c.size, was + 7 * c.size, 5 * c.size);
    assert_true(sum_of(after + 4, 3) < 0.5 * sum_of(before + 4, 3));
}

/* No choice of numbers costs less than the least, which trying all finds; and most are near it. */
TEST(test_beside_all_choices) {
    enum { SIZE = 3, CODES = 16 };
    double found = 0, least = 0, nearest = 0;
    for (uint32_t seed = 1; seed < 40; seed++) {
        const Case c = {SIZE, 1, SIZE, DTYPE_UINT4, true};
        const float *moments = random_moments(SIZE, seed);
        const Weights w = new_weights(&c, seed);
        nearest += channel_cost(&w, moments, 0);
        round_by(&w, moments, 1);
        const double cost = channel_cost(&w, moments, 0);
        double best = cost;
        for (unsigned i = 0; i < CODES * CODES * CODES; i++) {
            w.w.bytes[0] = (unsigned char)(i & 255);
            w.w.bytes[1] = (unsigned char)(i >> 8);
            best = fmin(best, channel_cost(&w, moments, 0));
        }
        found += cost;
        least += best;
    }
    assert_true(found < 2.5 * least && found < 0.6 * nearest);
}
