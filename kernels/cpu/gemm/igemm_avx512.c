// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels of igemm.h in AVX-512: up to 24 of 32 registers are sums. Quads need VNNI, bfloats
 * AVX512_BF16. */
#include <string.h>

#include "byte_result_avx512.h"

#if defined(__x86_64__) || defined(__i386__)

#define TILE_TARGET                 AVX512_TARGET
#define TILE_NAME(x)                igemm_##x
#define TILE_LANES                  16
#define TILE_VEC                    __m512
#define TILE_ZERO                   _mm512_setzero_ps()
#define TILE_LOAD(p)                _mm512_loadu_ps(p)
#define TILE_STORE(p, v)            _mm512_storeu_ps(p, v)
#define TILE_FILL(p)                _mm512_set1_ps(*(p))
#define TILE_SPREAD(x)              _mm512_set1_ps(x)
#define TILE_STEP(acc, a, b)        _mm512_fmadd_ps(a, b, acc)
#define TILE_ADD(a, b)              _mm512_add_ps(a, b)
#define TILE_MUL(a, b)              _mm512_mul_ps(a, b)
#define TILE_MAX(a, b)              _mm512_max_ps(a, b)
#define TILE_MIN(a, b)              _mm512_min_ps(a, b)
#define TILE_MASK                   __mmask16
#define TILE_MASK_OF(lanes)         avx512_some(lanes)
#define TILE_LOAD_SOME(p, mask)     _mm512_maskz_loadu_ps(mask, p)
#define TILE_STORE_SOME(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#define TILE_LINE_VECS              2
#define TILE_INDEX                  __m512i
#define TILE_INDEX_OF(p)            _mm512_loadu_si512(p)
#define TILE_PICK(v, index)         _mm512_permutexvar_ps(index, v)
#include "igemm_tile.inc"
#include "igemm_channels.inc"

/* Cases of r rows and v vectors. */
/* clang-format off */
#define CASES(X)                                                                                   \
    X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1)      \
    X(12, 1)                                                                                       \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2)      \
    X(12, 2)                                                                                       \
    X(1, 3) X(2, 3) X(3, 3) X(4, 3) X(5, 3) X(6, 3) X(7, 3) X(8, 3)                                \
    X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4)
/* clang-format on */
#define TABLE(name)                                                                                \
    static IgemmTileFunction *const name##_one[] = {                                               \
        name##_1_1, name##_2_1, name##_3_1, name##_4_1,  name##_5_1,  name##_6_1,                  \
        name##_7_1, name##_8_1, name##_9_1, name##_10_1, name##_11_1, name##_12_1};                \
    static IgemmTileFunction *const name##_two[] = {                                               \
        name##_1_2, name##_2_2, name##_3_2, name##_4_2,  name##_5_2,  name##_6_2,                  \
        name##_7_2, name##_8_2, name##_9_2, name##_10_2, name##_11_2, name##_12_2};                \
    static IgemmTileFunction *const name##_three[] = {name##_1_3, name##_2_3, name##_3_3,          \
                                                      name##_4_3, name##_5_3, name##_6_3,          \
                                                      name##_7_3, name##_8_3};                     \
    static IgemmTileFunction *const name##_four[] = {name##_1_4, name##_2_4, name##_3_4,           \
                                                     name##_4_4, name##_5_4, name##_6_4};
#define ISA(name, two, by_pixel, by_line)                                                          \
    {                                                                                              \
        .lanes = 16, .vecs = 4, .most = {12, 12, 8, 6},                                            \
        .tiles = {name##_one, name##_two, name##_three, name##_four}, .twins = two,                \
        .pixels = by_pixel, .line = by_line                                                        \
    }

CASES(IGEMM_CASE)
IGEMM_TWINS(4)

/* ---- bytes ----------------------------------------------------------------------------------- */

#define VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2,avx512vnni")))

/* A bit for each column that there is, of at most 64. */
AVX512_TARGET static inline __attribute__((always_inline)) __mmask64
columns_of(const IgemmTile *t) {
    return t->columns < 64 ? ((__mmask64)1 << t->columns) - 1 : ~(__mmask64)0;
}

/* Those of vector v. */
AVX512_TARGET static inline __attribute__((always_inline)) __mmask16 lanes_of(const IgemmTile *tile,
                                                                              uint32_t v) {
    return (__mmask16)(columns_of(tile) >> 16 * v);
}

/* What is said of a tile's columns, read once: results could be any of it for all that the compiler
 * knows. */
typedef struct ByteColumns {
    __m512 factor[IGEMM_VECS_MOST], shift[IGEMM_VECS_MOST];
    __m512i offset[IGEMM_VECS_MOST];
    __mmask16 lanes[IGEMM_VECS_MOST];
} ByteColumns;

AVX512_TARGET static inline __attribute__((always_inline)) ByteColumns
byte_columns(const IgemmTile *tile, const uint32_t vecs) {
    const IgemmScale *s = &tile->scale;
    ByteColumns columns;
    TILE_UNROLL
    for (uint32_t v = 0; v < vecs; v++) {
        const __mmask16 mask = columns.lanes[v] = lanes_of(tile, v);
        columns.factor[v] = _mm512_maskz_loadu_ps(mask, s->factor + v * 16);
        columns.shift[v] = _mm512_maskz_loadu_ps(mask, s->shift + v * 16);
        columns.offset[v] = _mm512_maskz_loadu_epi32(mask, s->offset + v * 16);
    }
    return columns;
}

AVX512_TARGET static inline __attribute__((always_inline)) __m512 scaled(const ByteColumns *columns,
                                                                         uint32_t v, __m512i sum) {
    sum = _mm512_add_epi32(sum, columns->offset[v]);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), columns->factor[v], columns->shift[v]);
}

AVX512_TARGET static inline __attribute__((always_inline)) void
store_bytes(const IgemmTile *tile, uint32_t r, const ByteEnd *end, const __m512 *v) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_permutexvar_epi32(order, byte_end_pack(end, v));
    _mm512_mask_storeu_epi8((char *)tile->y + r * tile->y_row, columns_of(tile), bytes);
}

/* What is said of bytes that are added; those of int8 are moved by 128. */
typedef struct ByteSum {
    __m512 low, high, v_factor, z_factor, shift;
    __m128i flip;
} ByteSum;

AVX512_TARGET static inline __attribute__((always_inline)) ByteSum
byte_sum(const IgemmByteSum *sum) {
    const float moved = sum->is_signed ? 128 * sum->z_factor : 0;
    return (ByteSum){
        _mm512_set1_ps(sum->low),           _mm512_set1_ps(sum->high),
        _mm512_set1_ps(sum->v_factor),      _mm512_set1_ps(sum->z_factor),
        _mm512_set1_ps(sum->shift - moved), _mm_set1_epi8((char)(sum->is_signed << 7))};
}

AVX512_TARGET static inline __attribute__((always_inline)) __m512
add_bytes(const ByteSum *sum, __m128i bytes, __m512 v) {
    const __m512 z = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, sum->flip)));
    v = _mm512_min_ps(sum->high, _mm512_max_ps(sum->low, v));
    v = _mm512_cvtepi32_ps(_mm512_cvtps_epi32(v));
    return _mm512_fmadd_ps(v, sum->v_factor, _mm512_fmadd_ps(z, sum->z_factor, sum->shift));
}

/* Once for all micro-kernels of so many vectors. */
AVX512_TARGET static inline __attribute__((always_inline)) void
finish_sums(const IgemmTile *given, const __m512i *sums, uint32_t rows, const uint32_t vecs) {
    const IgemmTile own = *given, *tile = &own; /* which y can't be a part of */
    const IgemmByteSum *from = tile->scale.sum;
    const ByteSum sum = byte_sum(from);
    const ByteEnd end = byte_end(&tile->scale, tile->low, tile->high);
    const ByteColumns columns = byte_columns(tile, vecs);
    const char *z = tile->z_bytes;
    const uint64_t z_row = from->z_row;
    for (uint32_t r = 0; r < rows; r++, sums += vecs, z += z_row) {
        __m512 v[IGEMM_VECS_MOST];
        TILE_UNROLL
        for (uint32_t i = 0; i < IGEMM_VECS_MOST; i++)
            v[i] = i < vecs ? add_bytes(&sum, _mm_maskz_loadu_epi8(columns.lanes[i], z + i * 16),
                                        scaled(&columns, i, sums[i]))
                            : v[0];
        store_bytes(tile, r, &end, v);
    }
}

AVX512_TARGET static __attribute__((noinline)) void
finish_sum_of(const IgemmTile *tile, const __m512i *sums, uint32_t rows, uint32_t vecs) {
    if (vecs == 4)
        finish_sums(tile, sums, rows, 4);
    else if (vecs == 3)
        finish_sums(tile, sums, rows, 3);
    else if (vecs == 2)
        finish_sums(tile, sums, rows, 2);
    else
        finish_sums(tile, sums, rows, 1);
}

AVX512_TARGET static __attribute__((noinline)) void
finish_floats(const IgemmTile *tile, const __m512i *sums, uint32_t rows, uint32_t vecs) {
    const __m512 low = _mm512_set1_ps(tile->low), high = _mm512_set1_ps(tile->high);
    const ByteColumns columns = byte_columns(tile, vecs);
    for (uint32_t r = 0; r < rows; r++, sums += vecs)
        for (uint32_t i = 0; i < vecs; i++)
            _mm512_mask_storeu_ps(
                (float *)tile->y + r * tile->y_row + i * 16, columns.lanes[i],
                _mm512_min_ps(high, _mm512_max_ps(low, scaled(&columns, i, sums[i]))));
}

AVX512_TARGET static inline __attribute__((always_inline)) void
finish(const IgemmTile *given, __m512i acc[IGEMM_ROWS_MOST][IGEMM_VECS_MOST], const uint32_t rows,
       const uint32_t vecs) {
    const IgemmTile own = *given, *tile = &own; /* which y can't be a part of */
    if (tile->scale.to == DTYPE_FLOAT || tile->scale.sum) {
        __m512i sums[IGEMM_ROWS_MOST * IGEMM_VECS_MOST];
        TILE_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            TILE_UNROLL
            for (uint32_t i = 0; i < vecs; i++) sums[r * vecs + i] = acc[r][i];
        }
        if (tile->scale.sum)
            finish_sum_of(given, sums, rows, vecs);
        else
            finish_floats(given, sums, rows, vecs);
        return;
    }
    const ByteEnd end = byte_end(&tile->scale, tile->low, tile->high);
    const ByteColumns columns = byte_columns(tile, vecs);
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        __m512 v[IGEMM_VECS_MOST];
        TILE_UNROLL
        for (uint32_t i = 0; i < IGEMM_VECS_MOST; i++)
            v[i] = i < vecs ? scaled(&columns, i, acc[r][i]) : v[0];
        store_bytes(tile, r, &end, v);
    }
}

#define BYTES_LANES                         16
#define BYTES_VEC                           __m512i
#define BYTES_ZERO                          _mm512_setzero_si512()
#define BYTES_LOAD(p)                       _mm512_loadu_si512(p)
#define BYTES_STORE(p, v)                   _mm512_storeu_si512(p, v)
#define BYTES_FILL(p)                       _mm512_set1_epi32(p)
#define BYTES_FINISH(tile, acc, rows, vecs) finish(tile, acc, rows, vecs)

#define BYTES_TARGET          VNNI_TARGET
#define BYTES_NAME(x)         quads_##x
#define BYTES_STEP(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)
#include "igemm_bytes.inc"
CASES(BYTES_CASE)

#undef BYTES_TARGET
#undef BYTES_NAME
#undef BYTES_STEP
#undef BYTES_CASE
#define BYTES_TARGET          AVX512_TARGET
#define BYTES_NAME(x)         pairs_##x
#define BYTES_STEP(acc, a, b) _mm512_add_epi32(acc, _mm512_madd_epi16(a, b))
#include "igemm_bytes.inc"
CASES(BYTES_CASE)

/* ---- bfloats --------------------------------------------------------------------------------- */

#define BFLOAT_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2,avx512bf16")))

/* The upper halves, rounded as products are: subnormals are 0. A NaN stays one. */
BFLOAT_TARGET static inline __attribute__((always_inline)) __m256i bfloats_round(__m512 v) {
    return (__m256i)_mm512_cvtneps_pbh(v);
}

BFLOAT_TARGET void igemm_round_rows(const IgemmNarrow *n, const float *from) {
    uint16_t *y = n->y;
    for (uint32_t r = 0; r < n->rows; r++, y += n->y_row, from += n->width)
        for (uint32_t c = 0; c < n->columns; c += 16) {
            const __mmask16 mask = avx512_some(n->columns - c < 16 ? n->columns - c : 16);
            const __m512 wide = _mm512_maskz_loadu_ps(mask, from + c);
            _mm256_mask_storeu_epi16(y + c, mask, bfloats_round(wide));
        }
}

BFLOAT_TARGET static inline __attribute__((always_inline)) __m512 bfloats_wide(const uint16_t *from,
                                                                               __mmask16 mask) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

#undef TILE_TARGET
#define TILE_TARGET BFLOAT_TARGET
#undef CHANNELS_NAME
#undef CHANNELS_ITEM
#undef CHANNELS_LOAD
#undef CHANNELS_STORE
#undef CHANNELS_LOAD_SOME
#undef CHANNELS_STORE_SOME
#undef CHANNELS_WIDE
#define CHANNELS_WIDE                   1
#define CHANNELS_NAME(x)                bfloats_##x
#define CHANNELS_ITEM                   uint16_t
#define CHANNELS_LOAD(p)                bfloats_wide(p, 0xffff)
#define CHANNELS_STORE(p, v)            _mm256_mask_storeu_epi16(p, 0xffff, bfloats_round(v))
#define CHANNELS_LOAD_SOME(p, mask)     bfloats_wide(p, mask)
#define CHANNELS_STORE_SOME(p, mask, v) _mm256_mask_storeu_epi16(p, mask, bfloats_round(v))
#include "igemm_channels.inc"

/* What ends sums is the same for all rows: read once, it stays in registers. */
typedef struct BfloatEnd {
    __m512 bias[IGEMM_VECS_MOST], low, high;
    __mmask16 columns[IGEMM_VECS_MOST];
} BfloatEnd;

BFLOAT_TARGET static inline __attribute__((always_inline)) BfloatEnd
bfloat_end(const IgemmTile *tile, const uint32_t vecs) {
    BfloatEnd end = {.low = _mm512_set1_ps(tile->low), .high = _mm512_set1_ps(tile->high)};
    TILE_UNROLL
    for (uint32_t v = 0; v < vecs; v++) {
        end.columns[v] = lanes_of(tile, v);
        end.bias[v] = _mm512_set1_ps(-0.0f); /* changes nothing */
        if (tile->bias) end.bias[v] = _mm512_maskz_loadu_ps(end.columns[v], tile->bias + v * 16);
    }
    return end;
}

BFLOAT_TARGET static inline __attribute__((always_inline)) __m512 bfloat_bound(const BfloatEnd *end,
                                                                               __m512 sum) {
    return _mm512_min_ps(end->high, _mm512_max_ps(end->low, sum));
}

/* Of a residual of either type, and to either. */
BFLOAT_TARGET static inline __attribute__((always_inline)) void
finish_any_bfloats(const IgemmTile *given, const uint32_t rows, const uint32_t vecs,
                   __m512 acc[IGEMM_ROWS_MOST][IGEMM_VECS_MOST]) {
    const IgemmTile own = *given, *tile = &own; /* which y can't be a part of */
    const BfloatEnd end = bfloat_end(tile, vecs);
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        TILE_UNROLL
        for (uint32_t v = 0; v < vecs; v++) {
            const uint64_t z = r * tile->z_row + v * 16, y = r * tile->y_row + v * 16;
            const __mmask16 mask = end.columns[v];
            __m512 sum = _mm512_add_ps(acc[r][v], end.bias[v]);
            if (tile->z) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, tile->z + z));
            if (tile->z_bfloats) sum = _mm512_add_ps(sum, bfloats_wide(tile->z_bfloats + z, mask));
            sum = bfloat_bound(&end, sum);
            if (tile->swish) sum = TILE_NAME(swish)(sum);
            if (tile->narrow)
                _mm256_mask_storeu_epi16((uint16_t *)tile->y + y, mask, bfloats_round(sum));
            else
                _mm512_mask_storeu_ps((float *)tile->y + y, mask, sum);
        }
    }
}

/* Rows of whole vectors to bfloat16. What there is to be added and done is known at every use. */
BFLOAT_TARGET static inline __attribute__((always_inline)) void
narrow_rows(const IgemmTile *tile, const uint32_t rows, const uint32_t vecs,
            __m512 acc[IGEMM_ROWS_MOST][IGEMM_VECS_MOST], const bool adds, const bool swish) {
    const BfloatEnd end = bfloat_end(tile, vecs);
    const uint64_t y_row = tile->y_row, z_row = tile->z_row;
    const uint16_t *z = tile->z_bfloats;
    uint16_t *y = tile->y;
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++, y += y_row, z += adds ? z_row : 0) {
        TILE_UNROLL
        for (uint32_t v = 0; v < vecs; v++) {
            __m512 sum = _mm512_add_ps(acc[r][v], end.bias[v]);
            if (adds) sum = _mm512_add_ps(sum, bfloats_wide(z + v * 16, 0xffff));
            sum = bfloat_bound(&end, sum);
            if (swish) sum = TILE_NAME(swish)(sum);
            _mm256_storeu_si256((__m256i_u *)(y + v * 16), bfloats_round(sum));
        }
    }
}

/* Most of them: to bfloat16, of whole vectors of columns. */
BFLOAT_TARGET static inline __attribute__((always_inline)) void
finish_bfloats(const IgemmTile *tile, const uint32_t rows, const uint32_t vecs,
               __m512 acc[IGEMM_ROWS_MOST][IGEMM_VECS_MOST]) {
    const bool plain = tile->narrow && tile->columns >= vecs * 16 && !tile->z;
    if (!plain || (tile->z_bfloats && tile->swish))
        finish_any_bfloats(tile, rows, vecs, acc);
    else if (tile->z_bfloats)
        narrow_rows(tile, rows, vecs, acc, true, false);
    else if (tile->swish)
        narrow_rows(tile, rows, vecs, acc, false, true);
    else
        narrow_rows(tile, rows, vecs, acc, false, false);
}

#undef BYTES_TARGET
#undef BYTES_NAME
#undef BYTES_STEP
#undef BYTES_CASE
#undef BYTES_VEC
#undef BYTES_ZERO
#undef BYTES_LOAD
#undef BYTES_STORE
#undef BYTES_FILL
#undef BYTES_FINISH
#define BYTES_TARGET                        BFLOAT_TARGET
#define BYTES_NAME(x)                       bfloats_##x
#define BYTES_VEC                           __m512
#define BYTES_ZERO                          _mm512_setzero_ps()
#define BYTES_LOAD(p)                       _mm512_loadu_ps((const float *)(const void *)(p))
#define BYTES_STORE(p, v)                   _mm512_storeu_ps((float *)(void *)(p), v)
#define BYTES_FILL(p)                       _mm512_castsi512_ps(_mm512_set1_epi32(p))
#define BYTES_STEP(acc, a, b)               _mm512_dpbf16_ps(acc, (__m512bh)(a), (__m512bh)(b))
#define BYTES_FINISH(tile, acc, rows, vecs) finish_bfloats(tile, rows, vecs, acc)
#include "igemm_bytes.inc"
CASES(BYTES_CASE)
BYTES_TWINS(4)

TABLE(igemm)
TABLE(quads)
TABLE(pairs)
TABLE(bfloats)
static IgemmTileFunction *const igemm_twins[] = {igemm_twin_1, igemm_twin_2},
                                *const bfloats_twins[] = {bfloats_twin_1, bfloats_twin_2};

const IgemmIsa *igemm_isa_avx512(IgemmKind kind) {
    static const IgemmIsa isas[IGEMM_KIND_COUNT] = {
        [IGEMM_FLOAT] = ISA(igemm, igemm_twins, igemm_pixels, igemm_line),
        [IGEMM_QUADS] = ISA(quads, NULL, NULL, NULL),
        [IGEMM_PAIRS] = ISA(pairs, NULL, NULL, NULL),
        [IGEMM_BFLOATS] = ISA(bfloats, bfloats_twins, bfloats_pixels, bfloats_line),
    };
    return &isas[kind];
}

#else

const IgemmIsa *igemm_isa_avx512(IgemmKind kind) {
    (void)kind;
    return NULL;
}

void igemm_round_rows(const IgemmNarrow *rows, const float *from) {
    (void)rows, (void)from; /* of processors that have bfloats */
}

#endif
