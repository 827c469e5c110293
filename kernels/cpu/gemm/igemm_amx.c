// SPDX-License-Identifier: Apache-2.0
/* Whether a process has AMX's tiles: Linux gives it their registers when it asks for them (since 5.16). */
#define _DEFAULT_SOURCE /* syscall */
#include <stdatomic.h>

#include "igemm.h"

#if defined(__x86_64__) && defined(__linux__)

#include <sys/syscall.h>
#include <unistd.h>

static bool ask(void) {
    enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

#else

static bool ask(void) {
    return false;
}

#endif

/* Asked once a process; who asks at the same time hears the same. */
static bool has_tiles(void) {
    enum { UNKNOWN, NO, YES };
    static atomic_int known = UNKNOWN;
    int found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == UNKNOWN) {
        found = isa_runs(ISA_AMX, isa_here()) && ask() ? YES : NO;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found == YES;
}

#define SIMD_OFFERS igemm_tile_quads
#include "simd_offers.inc"
#define SIMD_OFFERS igemm_tile_bfloats
#include "simd_offers.inc"

const IgemmIsa *igemm_isa_by_tiles(IgemmKind kind) {
    if (!has_tiles()) return NULL;
    return isa_pick(kind == IGEMM_QUADS ? igemm_tile_quads_offers : igemm_tile_bfloats_offers,
                    isa_here());
}
