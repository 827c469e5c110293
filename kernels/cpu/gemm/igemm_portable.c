// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels of igemm.h in plain C: vectors of 4, which compilers make SSE's or NEON's of. */
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

static inline Four four_load(const float *from, uint64_t lanes) {
    Four result = {{0, 0, 0, 0}};
    memcpy(&result, from, lanes * sizeof *from);
    return result;
}
static inline void four_store(float *to, uint64_t lanes, Four value) {
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
static inline Four four_max(Four a, Four b) {
    FOUR_EACH(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
static inline Four four_min(Four a, Four b) {
    FOUR_EACH(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}

#define TILE_TARGET
#define TILE_NAME(x)                igemm_##x
#define TILE_LANES                  4
#define TILE_VEC                    Four
#define TILE_ZERO                   four_fill(0)
#define TILE_LOAD(p)                four_load(p, 4)
#define TILE_STORE(p, v)            four_store(p, 4, v)
#define TILE_FILL(p)                four_fill(*(p))
#define TILE_SPREAD(x)              four_fill(x)
#define TILE_STEP(acc, a, b)        four_step(acc, a, b)
#define TILE_ADD(a, b)              four_add(a, b)
#define TILE_MAX(a, b)              four_max(a, b)
#define TILE_MIN(a, b)              four_min(a, b)
#define TILE_MASK                   uint64_t
#define TILE_MASK_OF(lanes)         (lanes)
#define TILE_LOAD_SOME(p, mask)     four_load(p, mask)
#define TILE_STORE_SOME(p, mask, v) four_store(p, mask, v)
#include "igemm_tile.inc"

/* clang-format off */
IGEMM_CASE(1, 1) IGEMM_CASE(2, 1) IGEMM_CASE(3, 1) IGEMM_CASE(4, 1)
IGEMM_CASE(1, 2) IGEMM_CASE(2, 2) IGEMM_CASE(3, 2) IGEMM_CASE(4, 2)

const IgemmIsa *igemm_isa_portable(void) {
    static IgemmTileFunction *const one[] = {igemm_1_1, igemm_2_1, igemm_3_1, igemm_4_1};
    static IgemmTileFunction *const two[] = {igemm_1_2, igemm_2_2, igemm_3_2, igemm_4_2};
    static const IgemmIsa isa = {4, 2, {4, 4, 0, 0}, {one, two, NULL, NULL}, igemm_pixels};
    return &isa;
}
/* clang-format on */
