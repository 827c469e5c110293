// SPDX-License-Identifier: Apache-2.0
/* byte_channels.h: every instruction set the machine has against sums in double, for channels around
 * those of blocks, rows anywhere in memory, bytes of both kinds and results of all three. */
#include <math.h>
#include <string.h>

#include "byte_channels.h"
#include "unit_test.h"

enum { END = 17, POOL = 9 };

static uint32_t state = 5;
static uint32_t random_below(uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * end) >> 32);
}

/* Rows that lie in a shuffled order, at any address. */
typedef struct Places {
    const void *const *at; /* [rows][taps] */
    uint64_t taps;
} Places;

static void find(const void *source, uint64_t first, uint32_t count, const void **to) {
    const Places *places = source;
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t t = 0; t < places->taps; t++)
            to[t * count + i] = places->at[(first + i) * places->taps + t];
}

typedef struct Case {
    uint64_t rows, taps, channels;
    bool is_signed, bounds, moved; /* moved: offsets are for bytes moved by 128 */
    Dtype to;
} Case;

typedef struct Numbers {
    float *factor, *shift;
    int32_t *offset;
    int8_t *w;
} Numbers;

static Numbers random_numbers(Arena *arena, const Case *c) {
    Numbers n = {ARENA_ARRAY(arena, float, c->channels), ARENA_ARRAY(arena, float, c->channels),
                 ARENA_ARRAY(arena, int32_t, c->channels),
                 arena_alloc(arena, c->taps * c->channels)};
    for (uint64_t i = 0; i < c->taps * c->channels; i++)
        n.w[i] = (int8_t)((int)random_below(256) - 128);
    for (uint64_t i = 0; i < c->channels; i++) {
        n.factor[i] = (float)(random_below(2000) + 1) / (float)(c->taps * 100000);
        n.shift[i] = (float)random_below(100) / 10 - 5;
        n.offset[i] = (int32_t)random_below(4000) - 2000;
    }
    return n;
}

/* What the definition gives, before it is rounded. */
static double expected(const Case *c, const Numbers *n, const Places *places, uint64_t place) {
    const uint64_t channel = place % c->channels;
    int64_t sum = n->offset[channel];
    for (uint64_t t = 0; t < c->taps; t++) {
        const void *row = places->at[place / c->channels * c->taps + t];
        const uint8_t byte = ((const uint8_t *)row)[channel];
        const int value = c->is_signed ? (int8_t)byte + (c->moved ? 128 : 0) : byte;
        sum += value * n->w[channel * c->taps + t];
    }
    const double v = (double)sum * (double)n->factor[channel] + (double)n->shift[channel];
    return c->bounds ? fmin(fmax(v, -20.25), 31.5) : v;
}

static void check(const Case *c, const unsigned char *y, uint64_t place, double v) {
    if (c->to == DTYPE_FLOAT) {
        float got;
        memcpy(&got, y + place * sizeof got, sizeof got);
        if (!(fabs((double)got - v) <= 1e-4)) fail_msg("%g, expected %g", (double)got, v);
        return;
    }
    const double least = c->to == DTYPE_INT8 ? -128 : 0;
    const double want = fmin(fmax(v + 3, least), least + 255);
    const int got = c->to == DTYPE_INT8 ? (int8_t)y[place] : y[place];
    if (!(fabs(got - want) <= 0.5001)) fail_msg("%d, expected %g", got, want);
}

static void run_isa(const Case *c, const ByteChannelsIsa *isa) {
    Arena arena;
    Err err = {0};
    arena_init(&arena, &test_trap);
    const Numbers n = random_numbers(&arena, c);
    uint8_t *x = arena_alloc(&arena, (POOL + 1) * c->channels);
    const void **at = ARENA_ARRAY(&arena, const void *, c->rows * c->taps);
    for (uint64_t i = 0; i < (POOL + 1) * c->channels; i++) x[i] = (uint8_t)random_below(256);
    for (uint64_t i = 0; i < c->rows * c->taps; i++)
        at[i] = x + random_below((uint32_t)(POOL * c->channels + 1));
    char *weights = arena_alloc(&arena, byte_channels_size(isa, c->channels, c->taps) + 64);
    weights += 64 - (uintptr_t)weights % 64;
    byte_channels_pack(isa, weights, n.w, c->channels, c->taps);
    const Places places = {at, c->taps};
    const IgemmScale scale = {
        .factor = n.factor, .shift = n.shift, .offset = n.offset, .zero = 3, .to = c->to};
    const Epilogue bounds = {.activation = ACTIVATION_CLIP, .p = -20.25f, .q = 31.5f};
    const uint64_t count = c->rows * c->channels * (c->to == DTYPE_FLOAT ? sizeof(float) : 1);
    unsigned char *y = arena_alloc(&arena, count + 1);
    KernelCall call = {.scratch = &arena, .err = &err};
    const Igemm g = {.rows = c->rows,
                     .taps = c->taps,
                     .columns = c->channels,
                     .find = find,
                     .source = &places,
                     .weights = weights,
                     .y = y,
                     .y_row = c->channels,
                     .epilogue = c->bounds ? &bounds : NULL,
                     .scale = &scale,
                     .is_signed = c->is_signed};
    y[count] = END;
    assert_true(byte_channels_run(&call, &g, isa));
    assert_int_equal(y[count], END);
    for (uint64_t i = 0; i < c->rows * c->channels; i++)
        check(c, y, i, expected(c, &n, &places, i));
    arena_free(&arena);
}

static void run_all(Case c) {
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_runs(isa, isa_here())) continue;
        c.moved = igemm_bytes_kind(isa_needs(isa)) == IGEMM_QUADS;
        run_isa(&c, byte_channels_isa(isa_needs(isa)));
    }
}

TEST(test_blocks) {
    static const Dtype results[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_FLOAT};
    for (uint32_t i = 0; i < 400; i++)
        run_all((Case){.rows = 1 + random_below(40),
                       .taps = 1 + random_below(26),
                       .channels = 1 + random_below(i % 4 ? 70 : 300),
                       .is_signed = random_below(2),
                       .bounds = random_below(2),
                       .to = results[i % 3]});
    for (uint64_t channels = 1; channels < 200; channels++)
        run_all((Case){.rows = 7, .taps = 9, .channels = channels, .to = DTYPE_UINT8});
}
