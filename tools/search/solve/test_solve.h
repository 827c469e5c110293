// SPDX-License-Identifier: Apache-2.0
/* What the tests of this folder share: random numbers, problems, and an arena that ends a test where
 * memory does. */
#ifndef DEMI_TEST_SOLVE_H
#define DEMI_TEST_SOLVE_H

#include <math.h>
#include <string.h>

#include "solve_trace.h"
#include "unit_test.h"

/* Usage: TEST_ARENA(arena); … arena_free(&arena); */
#define TEST_ARENA(name)                                                                           \
    static MemTrap name##_trap;                                                                    \
    static Arena name;                                                                             \
    if (setjmp(name##_trap.env)) fail_msg("out of memory");                                        \
    arena_init(&name, &name##_trap)

static inline uint32_t random_next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static inline uint32_t random_below(uint64_t *state, uint32_t limit) {
    return random_next(state) % limit;
}

/* From 0 to 1. */
static inline double random_unit(uint64_t *state) {
    return (double)random_next(state) / 2147483648.0;
}

/* Sums of few terms, in another order. */
static inline void assert_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-9 * (1 + fabs(a) + fabs(b)))) fail_msg("%.17g is not %.17g", a, b);
}

/* The next assignment of all, as numbers count; false after the last. */
static inline bool next_assignment(const SolveProblem *p, uint8_t *assignment) {
    for (uint32_t g = 0; g < p->groups; g++) {
        if (++assignment[g] < p->candidates) return true;
        assignment[g] = 0;
    }
    return false;
}

#endif
