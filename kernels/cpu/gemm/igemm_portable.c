// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels of igemm.h in plain C: vectors of 4, which compilers make SSE's or NEON's of. */
#include <math.h>
#include <string.h>

#include "igemm.h"
#include "simd.h"

typedef struct Four {
    float lane[4];
} Four;

#define FOUR_EACH(expression)                                                                      \
    Four result;                                                                                   \
    for (int i = 0; i < 4; i++) result.lane[i] = (expression);                                     \
    return result

static inline Four four_load(const float *from) {
    Four result;
    memcpy(&result, from, sizeof result);
    return result;
}
static inline void four_store(float *to, Four value) {
    memcpy(to, &value, sizeof value);
}
/* Fewer than four; not inline: they are few, and are in the code of all vectors. */
static __attribute__((noinline)) Four four_load_some(const float *from, uint64_t lanes) {
    Four result = {{0, 0, 0, 0}};
    memcpy(&result, from, lanes * sizeof *from);
    return result;
}
static __attribute__((noinline)) void four_store_some(float *to, uint64_t lanes, Four value) {
    memcpy(to, &value, lanes * sizeof *to);
}
static inline Four four_fill(float x) {
    FOUR_EACH(x);
}
static inline Four four_step(Four acc, Four a, Four b) {
    FOUR_EACH(acc.lane[i] + a.lane[i] * b.lane[i]);
}
static inline Four four_add(Four a, Four b) {
    FOUR_EACH(a.lane[i] + b.lane[i]);
}
static inline Four four_mul(Four a, Four b) {
    FOUR_EACH(a.lane[i] * b.lane[i]);
}
static inline Four four_max(Four a, Four b) {
    FOUR_EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
static inline Four four_min(Four a, Four b) {
    FOUR_EACH(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}

typedef struct FourIndex {
    int32_t lane[4];
} FourIndex;

static inline FourIndex four_index(const int32_t *from) {
    FourIndex result;
    memcpy(&result, from, sizeof result);
    return result;
}
static inline Four four_pick(Four v, FourIndex index) {
    FOUR_EACH(v.lane[index.lane[i]]);
}

#define TILE_TARGET
#define TILE_NAME(x)                igemm_##x
#define TILE_LANES                  4
#define TILE_VEC                    Four
#define TILE_ZERO                   four_fill(0)
#define TILE_LOAD(p)                four_load(p)
#define TILE_STORE(p, v)            four_store(p, v)
#define TILE_FILL(p)                four_fill(*(p))
#define TILE_SPREAD(x)              four_fill(x)
#define TILE_STEP(acc, a, b)        four_step(acc, a, b)
#define TILE_ADD(a, b)              four_add(a, b)
#define TILE_MUL(a, b)              four_mul(a, b)
#define TILE_MAX(a, b)              four_max(a, b)
#define TILE_MIN(a, b)              four_min(a, b)
#define TILE_MASK                   uint64_t
#define TILE_MASK_OF(lanes)         (lanes)
#define TILE_LOAD_SOME(p, mask)     four_load_some(p, mask)
#define TILE_STORE_SOME(p, mask, v) four_store_some(p, mask, v)
#define TILE_LINE_VECS              1
#define TILE_INDEX                  FourIndex
#define TILE_INDEX_OF(p)            four_index(p)
#define TILE_PICK(v, index)         four_pick(v, index)
#include "igemm_tile.inc"
#include "igemm_channels.inc"

/* Cases of r rows and v vectors. */
#define CASES(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(1, 2) X(2, 2) X(3, 2) X(4, 2)
#define TABLE(name)                                                                                \
    static IgemmTileFunction *const name##_one[] = {name##_1_1, name##_2_1, name##_3_1,            \
                                                    name##_4_1};                                   \
    static IgemmTileFunction *const name##_two[] = {name##_1_2, name##_2_2, name##_3_2, name##_4_2};
#define ISA(name, by_pixel, by_line)                                                               \
    {                                                                                              \
        .lanes = 4, .vecs = 2, .most = {4, 4, 0, 0},                                               \
        .tiles = {name##_one, name##_two, NULL, NULL}, .pixels = by_pixel, .line = by_line         \
    }

CASES(IGEMM_CASE)

/* ---- bytes ----------------------------------------------------------------------------------- */

typedef struct Sums {
    int32_t lane[4];
} Sums;

static inline Sums sums_load(const int32_t *from) {
    Sums result;
    memcpy(&result, from, sizeof result);
    return result;
}
static inline Sums sums_fill(int32_t word) {
    return (Sums){{word, word, word, word}};
}
/* acc + a's two int16 by b's, in every lane, modulo 2^32 */
static inline Sums sums_step(Sums acc, Sums a, Sums b) {
    int16_t x[8], y[8];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    for (int i = 0; i < 4; i++) {
        uint32_t sum = (uint32_t)(x[2 * i] * y[2 * i]);
        sum += (uint32_t)(x[2 * i + 1] * y[2 * i + 1]);
        acc.lane[i] = (int32_t)((uint32_t)acc.lane[i] + sum);
    }
    return acc;
}
static float bounded(float v, float low, float high) {
    v = low > v ? low : v;
    return high < v ? high : v;
}
static float add_byte(const IgemmByteSum *sum, const char *z, float v) {
    const int32_t byte = sum->is_signed ? *(const int8_t *)z : *(const uint8_t *)z;
    return rintf(bounded(v, sum->low, sum->high)) * sum->v_factor +
           ((float)byte * sum->z_factor + sum->shift);
}
static void finish_row(const IgemmTile *tile, uint32_t r, const Sums *sums, uint32_t vecs) {
    const IgemmScale *s = &tile->scale;
    for (uint32_t i = 0; i < vecs * 4 && i < tile->columns; i++) {
        const uint32_t whole = (uint32_t)sums[i / 4].lane[i % 4] + (uint32_t)s->offset[i];
        float v = (float)(int32_t)whole * s->factor[i] + s->shift[i];
        if (s->sum) v = add_byte(s->sum, tile->z_bytes + r * s->sum->z_row + i, v);
        v = bounded(v, tile->low, tile->high);
        if (s->to == DTYPE_FLOAT)
            ((float *)tile->y)[r * tile->y_row + i] = v;
        else
            ((uint8_t *)tile->y)[r * tile->y_row + i] =
                (uint8_t)((uint32_t)(v == v ? (int32_t)rintf(v) : 0) + (uint32_t)s->zero);
    }
}

static void finish(const IgemmTile *tile, Sums acc[IGEMM_ROWS_MOST][IGEMM_VECS_MOST], uint32_t rows,
                   uint32_t vecs) {
    for (uint32_t r = 0; r < rows; r++) finish_row(tile, r, acc[r], vecs);
}

#define BYTES_TARGET
#define BYTES_NAME(x)                       pairs_##x
#define BYTES_LANES                         4
#define BYTES_VEC                           Sums
#define BYTES_ZERO                          sums_fill(0)
#define BYTES_LOAD(p)                       sums_load(p)
#define BYTES_STORE(p, v)                   memcpy(p, &(v), sizeof(v))
#define BYTES_FILL(p)                       sums_fill(p)
#define BYTES_STEP(acc, a, b)               sums_step(acc, a, b)
#define BYTES_FINISH(tile, acc, rows, vecs) finish(tile, acc, rows, vecs)
#include "igemm_bytes.inc"
CASES(BYTES_CASE)

TABLE(igemm)
TABLE(pairs)

const IgemmIsa *igemm_isa_portable(IgemmKind kind) {
    static const IgemmIsa floats = ISA(igemm, igemm_pixels, igemm_line),
                          pairs = ISA(pairs, NULL, NULL);
    return kind == IGEMM_FLOAT ? &floats : &pairs;
}
