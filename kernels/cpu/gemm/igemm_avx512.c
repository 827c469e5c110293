// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels of igemm.h in AVX-512: up to 24 of 32 registers are sums. */
#include "igemm.h"
#include "simd.h"

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
#define TILE_MAX(a, b)              _mm512_max_ps(a, b)
#define TILE_MIN(a, b)              _mm512_min_ps(a, b)
#define TILE_MASK                   __mmask16
#define TILE_MASK_OF(lanes)         avx512_some(lanes)
#define TILE_LOAD_SOME(p, mask)     _mm512_maskz_loadu_ps(mask, p)
#define TILE_STORE_SOME(p, mask, v) _mm512_mask_storeu_ps(p, mask, v)
#include "igemm_tile.inc"

/* clang-format off */
IGEMM_CASE(1, 1) IGEMM_CASE(2, 1) IGEMM_CASE(3, 1) IGEMM_CASE(4, 1) IGEMM_CASE(5, 1)
IGEMM_CASE(6, 1) IGEMM_CASE(7, 1) IGEMM_CASE(8, 1) IGEMM_CASE(9, 1) IGEMM_CASE(10, 1)
IGEMM_CASE(11, 1) IGEMM_CASE(12, 1)
IGEMM_CASE(1, 2) IGEMM_CASE(2, 2) IGEMM_CASE(3, 2) IGEMM_CASE(4, 2) IGEMM_CASE(5, 2)
IGEMM_CASE(6, 2) IGEMM_CASE(7, 2) IGEMM_CASE(8, 2) IGEMM_CASE(9, 2) IGEMM_CASE(10, 2)
IGEMM_CASE(11, 2) IGEMM_CASE(12, 2)
IGEMM_CASE(1, 3) IGEMM_CASE(2, 3) IGEMM_CASE(3, 3) IGEMM_CASE(4, 3) IGEMM_CASE(5, 3)
IGEMM_CASE(6, 3) IGEMM_CASE(7, 3) IGEMM_CASE(8, 3)
IGEMM_CASE(1, 4) IGEMM_CASE(2, 4) IGEMM_CASE(3, 4) IGEMM_CASE(4, 4) IGEMM_CASE(5, 4)
IGEMM_CASE(6, 4)

const IgemmIsa *igemm_isa_avx512(void) {
    static IgemmTileFunction *const one[] = {
        igemm_1_1, igemm_2_1, igemm_3_1, igemm_4_1, igemm_5_1, igemm_6_1,
        igemm_7_1, igemm_8_1, igemm_9_1, igemm_10_1, igemm_11_1, igemm_12_1};
    static IgemmTileFunction *const two[] = {
        igemm_1_2, igemm_2_2, igemm_3_2, igemm_4_2, igemm_5_2, igemm_6_2,
        igemm_7_2, igemm_8_2, igemm_9_2, igemm_10_2, igemm_11_2, igemm_12_2};
    static IgemmTileFunction *const three[] = {
        igemm_1_3, igemm_2_3, igemm_3_3, igemm_4_3, igemm_5_3, igemm_6_3, igemm_7_3, igemm_8_3};
    static IgemmTileFunction *const four[] = {
        igemm_1_4, igemm_2_4, igemm_3_4, igemm_4_4, igemm_5_4, igemm_6_4};
    static const IgemmIsa isa = {16, 4, {12, 12, 8, 6}, {one, two, three, four}, igemm_pixels};
    return &isa;
}
/* clang-format on */

#else

const IgemmIsa *igemm_isa_avx512(void) {
    return NULL;
}

#endif
