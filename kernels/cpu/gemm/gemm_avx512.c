// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels and loops of gemm.h in AVX-512: tiles of 8 rows by 3 vectors of 16, so 24 of 32
 * registers are sums. Pairs use VNNI's fused instruction where the processor has it. */
#include "gemm.h"
#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

#define TARGET     AVX512_TARGET
#define INLINE     inline __attribute__((always_inline))
#define TARGET_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2,avx512vnni")))

/* Tiles of a row count a line. */
/* clang-format off */
#define CASES(X)                                                                                   \
    X(1, 1) X(1, 2) X(1, 3)                                                                        \
    X(2, 1) X(2, 2) X(2, 3)                                                                        \
    X(3, 1) X(3, 2) X(3, 3)                                                                        \
    X(4, 1) X(4, 2) X(4, 3)                                                                        \
    X(5, 1) X(5, 2) X(5, 3)                                                                        \
    X(6, 1) X(6, 2) X(6, 3)                                                                        \
    X(7, 1) X(7, 2) X(7, 3)                                                                        \
    X(8, 1) X(8, 2) X(8, 3)
/* clang-format on */
#define TABLE(f, transposed_tiles, transposed_columns)                                             \
    {                                                                                              \
        8, 3, 16,                                                                                  \
            {                                                                                      \
                {f(1_1), f(1_2), f(1_3)}, {f(2_1), f(2_2), f(2_3)}, {f(3_1), f(3_2), f(3_3)},      \
                {f(4_1), f(4_2), f(4_3)}, {f(5_1), f(5_2), f(5_3)}, {f(6_1), f(6_2), f(6_3)},      \
                {f(7_1), f(7_2), f(7_3)}, {f(8_1), f(8_2), f(8_3)},                                \
            },                                                                                     \
            transposed_tiles, transposed_columns                                                   \
    }

#define TILE_ROWS           8
#define TILE_VECS           3
#define TILE_LANES          16
#define TILE_MASK           __mmask16
#define TILE_MASK_OF(lanes) avx512_some(lanes)

#define TILE_TARGET                   TARGET
#define FLOAT_NAME(x)                 float_##x
#define TILE_NAME(x)                  FLOAT_NAME(x)
#define TILE_VEC                      __m512
#define TILE_IN                       float
#define TILE_OUT                      float
#define TILE_ZERO                     _mm512_setzero_ps()
#define TILE_LOAD(p)                  _mm512_loadu_ps(p)
#define TILE_FILL(x)                  _mm512_set1_ps(x)
#define TILE_STEP(acc, a, b)          _mm512_fmadd_ps(a, b, acc)
#define TILE_ADD(a, b)                _mm512_add_ps(a, b)
#define TILE_C_FILL(x)                _mm512_set1_ps(x)
#define TILE_C_LOAD(p)                _mm512_loadu_ps(p)
#define TILE_C_STORE(p, v)            _mm512_storeu_ps(p, v)
#define TILE_C_LOAD_SOME(p, mask)     _mm512_maskz_loadu_ps(mask, p)
#define TILE_C_STORE_SOME(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#include "gemm_tile.inc"
CASES(TILE_CASE)

#undef TILE_NAME
#undef TILE_VEC
#undef TILE_IN
#undef TILE_OUT
#undef TILE_ZERO
#undef TILE_LOAD
#undef TILE_FILL
#undef TILE_STEP
#undef TILE_ADD
#undef TILE_C_FILL
#undef TILE_C_LOAD
#undef TILE_C_STORE
#undef TILE_C_LOAD_SOME
#undef TILE_C_STORE_SOME
#undef TILE_CASE

#define PAIRS_NAME(x)                 pairs_##x
#define TILE_NAME(x)                  PAIRS_NAME(x)
#define TILE_VEC                      __m512i
#define TILE_IN                       int32_t
#define TILE_OUT                      int32_t
#define TILE_ZERO                     _mm512_setzero_si512()
#define TILE_LOAD(p)                  _mm512_loadu_si512(p)
#define TILE_FILL(x)                  _mm512_set1_epi32(x)
#define TILE_STEP(acc, a, b)          _mm512_add_epi32(acc, _mm512_madd_epi16(a, b))
#define TILE_ADD(a, b)                _mm512_add_epi32(a, b)
#define TILE_C_FILL(x)                _mm512_set1_epi32(x)
#define TILE_C_LOAD(p)                _mm512_loadu_si512(p)
#define TILE_C_STORE(p, v)            _mm512_storeu_si512(p, v)
#define TILE_C_LOAD_SOME(p, mask)     _mm512_maskz_loadu_epi32(mask, p)
#define TILE_C_STORE_SOME(p, mask, v) _mm512_mask_storeu_epi32(p, mask, v)
#include "gemm_tile.inc"
CASES(TILE_CASE)

#undef TILE_CASE
#undef TILE_NAME
#undef TILE_STEP
#undef TILE_TARGET
#define TILE_TARGET          TARGET_DOT
#define VNNI_NAME(x)         vnni_##x
#define TILE_NAME(x)         VNNI_NAME(x)
#define TILE_STEP(acc, a, b) _mm512_dpwssd_epi32(acc, a, b)
#include "gemm_tile.inc"
CASES(TILE_CASE)

/* ---- tiles of few columns -------------------------------------------------------------------- */

/* C's elements as sums of products of vectors along k. */
TARGET static inline __attribute__((always_inline)) void transposed(const GemmTile *tile,
                                                                    uint32_t row, uint32_t column,
                                                                    const uint32_t rows,
                                                                    const uint32_t columns) {
    const float *a = (const float *)tile->a + row * tile->a_row;
    const float *b = (const float *)tile->b + column * tile->b_column;
    __m512 acc[8][3];
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        TILE_UNROLL
        for (uint32_t j = 0; j < columns; j++) acc[r][j] = _mm512_setzero_ps();
    }
    for (uint64_t k = 0; k < tile->depth; k += 16) {
        const __mmask16 mask = tile->depth - k >= 16 ? 0xffff : avx512_some(tile->depth - k);
        __m512 y[3];
        TILE_UNROLL
        for (uint32_t j = 0; j < columns; j++)
            y[j] = _mm512_maskz_loadu_ps(mask, b + j * tile->b_column + k);
        TILE_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            const __m512 x = _mm512_maskz_loadu_ps(mask, a + r * tile->a_row + k);
            TILE_UNROLL
            for (uint32_t j = 0; j < columns; j++) acc[r][j] = _mm512_fmadd_ps(x, y[j], acc[r][j]);
        }
    }
    TILE_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        TILE_UNROLL
        for (uint32_t j = 0; j < columns; j++) {
            float *c = (float *)tile->c + (row + r) * tile->c_row + column + j;
            float before = tile->add ? *c : tile->bias ? ((const float *)tile->bias)[row + r] : 0;
            *c = before + _mm512_reduce_add_ps(acc[r][j]);
        }
    }
}

TARGET static void transposed_columns(const GemmTile *tile) {
    uint32_t r = 0;
    for (; r + 8 <= tile->rows; r += 8) {
        uint32_t j = 0;
        for (; j + 3 <= tile->columns; j += 3) transposed(tile, r, j, 8, 3);
        for (; j < tile->columns; j++) transposed(tile, r, j, 8, 1);
    }
    for (; r < tile->rows; r++)
        for (uint32_t j = 0; j < tile->columns; j++) transposed(tile, r, j, 1, 1);
}

const GemmIsa *gemm_isa_avx512(GemmKind kind) {
    static const GemmIsa floats = TABLE(FLOAT_NAME, transposed_columns, 8),
                         pairs = TABLE(PAIRS_NAME, NULL, 0), vnni = TABLE(VNNI_NAME, NULL, 0);
    if (kind == GEMM_FLOAT) return &floats;
    return __builtin_cpu_supports("avx512vnni") ? &vnni : &pairs;
}

/* ---- loops ----------------------------------------------------------------------------------- */

TARGET static void panels(float *to, const float *from, uint64_t row, const GemmBlock *block) {
    if (block->width != 48) {
        gemm_panels_portable(to, from, row, block);
        return;
    }
    const uint64_t whole = block->lanes / 48 * 48, panel = 48 * block->depth;
    for (uint64_t k = 0; k < block->depth; k++, from += row, to += 48) {
        float *at = to;
        for (uint64_t j = 0; j < whole; j += 48, at += panel) {
            __m512 x = _mm512_loadu_ps(from + j), y = _mm512_loadu_ps(from + j + 16);
            __m512 z = _mm512_loadu_ps(from + j + 32);
            _mm512_storeu_ps(at, x);
            _mm512_storeu_ps(at + 16, y);
            _mm512_storeu_ps(at + 32, z);
        }
        for (uint64_t j = whole; j < block->lanes; j += 16) {
            __mmask16 mask = block->lanes - j >= 16 ? 0xffff : avx512_some(block->lanes - j);
            _mm512_storeu_ps(at + (j - whole), _mm512_maskz_loadu_ps(mask, from + j));
        }
    }
}

/* ---- a vector and a matrix ------------------------------------------------------------------- */

typedef enum Element { ELEMENT_FLOAT, ELEMENT_HALF, ELEMENT_BRAIN } Element;

typedef struct Vector {
    float *y;
    const void *matrix;
    const float *x;
    uint64_t row, rows, columns;
} Vector;

/* Elements [i, i + 16) of a matrix's row, in float; those that the mask leaves out are not read, and
 * are 0. */
TARGET static INLINE __m512 wide(const void *from, uint64_t i, __mmask16 mask,
                                 const Element element) {
    if (element == ELEMENT_FLOAT) return _mm512_maskz_loadu_ps(mask, (const float *)from + i);
    const uint16_t *at = (const uint16_t *)from + i;
    const __m256i bits = mask == 0xffff ? _mm256_loadu_si256((const __m256i *)(const void *)at)
                                        : _mm256_maskz_loadu_epi16(mask, at);
    if (element == ELEMENT_HALF) return _mm512_cvtph_ps(bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* Where row r begins. */
static INLINE const char *row_at(const Vector *v, uint64_t r, const Element element) {
    return (const char *)v->matrix + r * v->row * (element == ELEMENT_FLOAT ? 4 : 2);
}

/* The sums of the lanes of eight vectors. */
TARGET static INLINE __m256 sums_of_eight(const __m512 *v) {
    __m512 four[2];
    TILE_UNROLL
    for (uint32_t i = 0; i < 2;
         i++, v += 4) { /* in each quarter: the quarter's sum of each of four */
        const __m512 low =
            _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
        const __m512 high =
            _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
        const __m512d a = _mm512_castps_pd(low), b = _mm512_castps_pd(high);
        four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                                _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    const __m512 halves = _mm512_add_ps(_mm512_shuffle_f32x4(four[0], four[1], 0x44),
                                        _mm512_shuffle_f32x4(four[0], four[1], 0xee));
    return _mm512_castps512_ps256(_mm512_add_ps(_mm512_shuffle_f32x4(halves, halves, 0x88),
                                                _mm512_shuffle_f32x4(halves, halves, 0xdd)));
}

/* Two vectors' lanes at even places, or at odd ones; and those of their first or second halves in turn. */
TARGET static INLINE __m512 every_other(__m512 low, __m512 high, const int32_t odd) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(low, _mm512_add_epi32(even, _mm512_set1_epi32(odd)), high);
}
TARGET static INLINE __m512 in_turn(__m512 even, __m512 odd, const int32_t half) {
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(even, _mm512_add_epi32(first, _mm512_set1_epi32(8 * half)), odd);
}

/* Adds the products of 32 elements of a row with x's: of 16 and 16, or of bfloat16, which takes half as
 * many instructions, of those at even places and those at odd ones. */
TARGET static INLINE void add_products(__m512 *sum, const char *row, uint64_t k, const __m512 *x,
                                       const Element element) {
    if (element == ELEMENT_BRAIN) {
        const __m512i words = _mm512_loadu_si512(row + k * 2), odd = _mm512_set1_epi32(-0x10000);
        sum[0] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)), x[0], sum[0]);
        sum[1] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(words, odd)), x[1], sum[1]);
    } else {
        sum[0] = _mm512_fmadd_ps(wide(row, k, 0xffff, element), x[0], sum[0]);
        sum[1] = _mm512_fmadd_ps(wide(row, k + 16, 0xffff, element), x[1], sum[1]);
    }
}

/* Eight rows at once: x is loaded once for them. Of bfloat16, `split` is x with its even places before its
 * odd ones in each 32, or NULL. */
enum { DOTS = 8, SPLIT_MOST = 2048 };
TARGET static INLINE void eight_dots(const Vector *v, uint64_t first, const float *split,
                                     const Element element) {
    const bool brain = element == ELEMENT_BRAIN, turns = brain && !split;
    const float *from = split ? split : v->x;
    const uint64_t size = element == ELEMENT_FLOAT ? 4 : 2;
    const char *m[DOTS];
    __m512 sum[DOTS][2], sums[DOTS];
    TILE_UNROLL
    for (uint32_t r = 0; r < DOTS; r++) {
        m[r] = row_at(v, first + r, element);
        sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    }
    const uint64_t next = (uint64_t)(m[1] - m[0]) * DOTS; /* bytes to the rows behind these */
    uint64_t k = 0;
    for (; v->columns - k >= 32; k += 32) {
        const __m512 low = _mm512_loadu_ps(from + k), high = _mm512_loadu_ps(from + k + 16);
        const __m512 x[2] = {turns ? every_other(low, high, 0) : low,
                             turns ? every_other(low, high, 1) : high};
        TILE_UNROLL
        for (uint32_t r = 0; r < DOTS; r++) {
            _mm_prefetch(m[r] + next + k * size, _MM_HINT_T0);
            if (element == ELEMENT_FLOAT) _mm_prefetch(m[r] + next + k * 4 + 64, _MM_HINT_T0);
            add_products(sum[r], m[r], k, x, element);
        }
    }
    TILE_UNROLL
    for (uint32_t r = 0; brain && r < DOTS; r++) { /* sums have the bits that floats' have */
        const __m512 low = in_turn(sum[r][0], sum[r][1], 0);
        sum[r][1] = in_turn(sum[r][0], sum[r][1], 1);
        sum[r][0] = low;
    }
    for (; k < v->columns; k += 16) {
        const __mmask16 mask = v->columns - k >= 16 ? 0xffff : avx512_some(v->columns - k);
        const __m512 x = _mm512_maskz_loadu_ps(mask, v->x + k);
        TILE_UNROLL
        for (uint32_t r = 0; r < DOTS; r++)
            sum[r][0] = _mm512_fmadd_ps(wide(m[r], k, mask, element), x, sum[r][0]);
    }
    TILE_UNROLL
    for (uint32_t r = 0; r < DOTS; r++) sums[r] = _mm512_add_ps(sum[r][0], sum[r][1]);
    _mm256_storeu_ps(v->y + first,
                     _mm256_add_ps(_mm256_loadu_ps(v->y + first), sums_of_eight(sums)));
}

/* All rows but less than eight; how many there were. */
TARGET static INLINE uint64_t dots_by_eight(const Vector *v, const Element element) {
    float split[SPLIT_MOST];
    uint64_t r = 0;
    if (element == ELEMENT_BRAIN && v->rows >= 2 * DOTS && v->columns <= SPLIT_MOST) {
        for (uint64_t k = 0; v->columns - k >= 32; k += 32) {
            const __m512 low = _mm512_loadu_ps(v->x + k), high = _mm512_loadu_ps(v->x + k + 16);
            _mm512_storeu_ps(split + k, every_other(low, high, 0));
            _mm512_storeu_ps(split + k + 16, every_other(low, high, 1));
        }
        for (; v->rows - r >= DOTS; r += DOTS) eight_dots(v, r, split, element);
    }
    for (; v->rows - r >= DOTS; r += DOTS) eight_dots(v, r, NULL, element);
    return r;
}

TARGET static INLINE void all_dots(const Vector *v, const Element element) {
    uint64_t r = dots_by_eight(v, element);
    for (; r < v->rows; r++) {
        const char *m = row_at(v, r, element);
        __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                         _mm512_setzero_ps()};
        uint64_t k = 0;
        for (; v->columns - k >= 64; k += 64) {
            TILE_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                sum[i] = _mm512_fmadd_ps(wide(m, k + 16 * i, 0xffff, element),
                                         _mm512_loadu_ps(v->x + k + 16 * i), sum[i]);
        }
        for (; k < v->columns; k += 16) {
            __mmask16 mask = v->columns - k >= 16 ? 0xffff : avx512_some(v->columns - k);
            sum[0] = _mm512_fmadd_ps(wide(m, k, mask, element),
                                     _mm512_maskz_loadu_ps(mask, v->x + k), sum[0]);
        }
        v->y[r] += _mm512_reduce_add_ps(
            _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
    }
}

/* y += the sum of SWEEP rows from row k on, each times its x. */
enum { SWEEP = 8 };
TARGET static INLINE void sweep(const Vector *v, uint64_t k, const Element element) {
    const uint64_t line = element == ELEMENT_FLOAT ? 16 : 32; /* elements */
    const char *m = row_at(v, k, element);
    const uint64_t step = v->row * (element == ELEMENT_FLOAT ? 4 : 2);
    __m512 x[SWEEP];
    TILE_UNROLL
    for (uint32_t r = 0; r < SWEEP; r++) x[r] = _mm512_set1_ps(v->x[k + r]);
    for (uint64_t j = 0; j < v->columns; j += 16) {
        const __mmask16 mask = v->columns - j >= 16 ? 0xffff : avx512_some(v->columns - j);
        if (j % line == 0) { /* the rows that are next */
            TILE_UNROLL
            for (uint32_t r = SWEEP; r < 2 * SWEEP; r++)
                _mm_prefetch(m + r * step + j * 64 / line, _MM_HINT_T0);
        }
        __m512 sum = _mm512_maskz_loadu_ps(mask, v->y + j);
        TILE_UNROLL
        for (uint32_t r = 0; r < SWEEP; r++)
            sum = _mm512_fmadd_ps(x[r], wide(m + r * step, j, mask, element), sum);
        _mm512_mask_storeu_ps(v->y + j, mask, sum);
    }
}

TARGET static INLINE void all_gemv(const Vector *v, const Element element) {
    uint64_t k = 0;
    for (; v->rows - k >= SWEEP; k += SWEEP) sweep(v, k, element);
    for (; k < v->rows; k++) {
        const char *m = row_at(v, k, element);
        for (uint64_t j = 0; j < v->columns; j += 16) {
            __mmask16 mask = v->columns - j >= 16 ? 0xffff : avx512_some(v->columns - j);
            __m512 sum = _mm512_maskz_loadu_ps(mask, v->y + j);
            sum = _mm512_fmadd_ps(_mm512_set1_ps(v->x[k]), wide(m, j, mask, element), sum);
            _mm512_mask_storeu_ps(v->y + j, mask, sum);
        }
    }
}

#define VECTORS(name, element)                                                                     \
    TARGET static void name##dots(float *y, const void *matrix, uint64_t row, const float *x,      \
                                  uint64_t rows, uint64_t columns) {                               \
        all_dots(&(Vector){y, matrix, x, row, rows, columns}, element);                            \
    }                                                                                              \
    TARGET static void name##gemv(float *y, const void *matrix, uint64_t row, const float *x,      \
                                  uint64_t rows, uint64_t columns) {                               \
        all_gemv(&(Vector){y, matrix, x, row, rows, columns}, element);                            \
    }
VECTORS(, ELEMENT_FLOAT)
VECTORS(half_, ELEMENT_HALF)
VECTORS(brain_, ELEMENT_BRAIN)

const GemmLoops *gemm_loops_avx512(void) {
    static const GemmLoops table = {gemm_transpose_avx2, panels,    dots,       gemv,
                                    half_dots,           half_gemv, brain_dots, brain_gemv};
    return &table;
}

#else

const GemmIsa *gemm_isa_avx512(GemmKind kind) {
    (void)kind;
    return NULL;
}
const GemmLoops *gemm_loops_avx512(void) {
    return NULL;
}

#endif
