// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels of igemm.h in AVX2 with FMA: up to 12 of 16 registers are sums. */
#include "igemm.h"
#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)

#define TILE_TARGET                 AVX2_TARGET
#define TILE_NAME(x)                igemm_##x
#define TILE_LANES                  8
#define TILE_VEC                    __m256
#define TILE_ZERO                   _mm256_setzero_ps()
#define TILE_LOAD(p)                _mm256_loadu_ps(p)
#define TILE_STORE(p, v)            _mm256_storeu_ps(p, v)
#define TILE_FILL(p)                _mm256_broadcast_ss(p)
#define TILE_SPREAD(x)              _mm256_set1_ps(x)
#define TILE_STEP(acc, a, b)        _mm256_fmadd_ps(a, b, acc)
#define TILE_ADD(a, b)              _mm256_add_ps(a, b)
#define TILE_MAX(a, b)              _mm256_max_ps(a, b)
#define TILE_MIN(a, b)              _mm256_min_ps(a, b)
#define TILE_MASK                   __m256i
#define TILE_MASK_OF(lanes)         avx2_some(lanes)
#define TILE_LOAD_SOME(p, mask)     _mm256_maskload_ps(p, mask)
#define TILE_STORE_SOME(p, mask, v) _mm256_maskstore_ps(p, mask, v)
#include "igemm_tile.inc"

/* clang-format off */
IGEMM_CASE(1, 1) IGEMM_CASE(2, 1) IGEMM_CASE(3, 1) IGEMM_CASE(4, 1) IGEMM_CASE(5, 1)
IGEMM_CASE(6, 1) IGEMM_CASE(7, 1) IGEMM_CASE(8, 1) IGEMM_CASE(9, 1) IGEMM_CASE(10, 1)
IGEMM_CASE(1, 2) IGEMM_CASE(2, 2) IGEMM_CASE(3, 2) IGEMM_CASE(4, 2) IGEMM_CASE(5, 2)
IGEMM_CASE(6, 2)
IGEMM_CASE(1, 3) IGEMM_CASE(2, 3) IGEMM_CASE(3, 3) IGEMM_CASE(4, 3)
IGEMM_CASE(1, 4) IGEMM_CASE(2, 4) IGEMM_CASE(3, 4)

const IgemmIsa *igemm_isa_avx2(void) {
    static IgemmTileFunction *const one[] = {
        igemm_1_1, igemm_2_1, igemm_3_1, igemm_4_1, igemm_5_1,
        igemm_6_1, igemm_7_1, igemm_8_1, igemm_9_1, igemm_10_1};
    static IgemmTileFunction *const two[] = {
        igemm_1_2, igemm_2_2, igemm_3_2, igemm_4_2, igemm_5_2, igemm_6_2};
    static IgemmTileFunction *const three[] = {igemm_1_3, igemm_2_3, igemm_3_3, igemm_4_3};
    static IgemmTileFunction *const four[] = {igemm_1_4, igemm_2_4, igemm_3_4};
    static const IgemmIsa isa = {8, 2, {10, 6, 4, 3}, {one, two, three, four}, igemm_pixels};
    return &isa;
}
/* clang-format on */

#else

const IgemmIsa *igemm_isa_avx2(void) {
    return NULL;
}

#endif
