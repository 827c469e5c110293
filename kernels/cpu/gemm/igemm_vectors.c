// SPDX-License-Identifier: Apache-2.0
/* What vectors of each instruction set have for igemm.h, and the choice among them. */
#include "igemm.h"

#define SIMD_OFFERS igemm_floats
#include "simd_offers.inc"
#define SIMD_OFFERS igemm_quads
#include "simd_offers.inc"
#define SIMD_OFFERS igemm_pairs
#include "simd_offers.inc"
#define SIMD_OFFERS igemm_bfloats
#include "simd_offers.inc"
#define SIMD_OFFERS igemm_rounds
#include "simd_offers.inc"

/* NULL where there is none for this processor's kind: only of quads and bfloats, which nobody asks for then. */
const IgemmIsa *igemm_isa_by_vectors(IgemmKind kind, IsaSet cpu) {
    static const void *const *const *const offers[IGEMM_KIND_COUNT] = {
        [IGEMM_FLOAT] = igemm_floats_offers,
        [IGEMM_QUADS] = igemm_quads_offers,
        [IGEMM_PAIRS] = igemm_pairs_offers,
        [IGEMM_BFLOATS] = igemm_bfloats_offers,
    };
    return isa_pick(offers[kind], cpu);
}

IgemmKind igemm_bytes_kind(IsaSet cpu) {
    return igemm_isa_by_vectors(IGEMM_QUADS, cpu) ? IGEMM_QUADS : IGEMM_PAIRS;
}

bool igemm_has_bfloats(IsaSet cpu) {
    return igemm_isa_by_vectors(IGEMM_BFLOATS, cpu);
}

void igemm_round_rows(const IgemmNarrow *rows, const float *from) {
    const IgemmRound *rounding = isa_pick(igemm_rounds_offers, isa_here());
    rounding->rows(rows, from);
}
