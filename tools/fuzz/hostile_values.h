// SPDX-License-Identifier: Apache-2.0
/* Pools of values that break things, and numbers that draw from them: the same for a seed
 * everywhere. */
#ifndef DEMI_HOSTILE_VALUES_H
#define DEMI_HOSTILE_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "demi_runtime.h"
#include "dtype.h"

typedef struct Rng {
    uint64_t state;
} Rng;

uint64_t rng_below(Rng *rng, uint64_t bound); /* 0 where bound is 0 */
bool rng_chance(Rng *rng, unsigned percent);

enum { HOSTILE_RANK = 6 };
typedef struct HostileShape {
    uint32_t rank;
    int64_t dims[HOSTILE_RANK];
} HostileShape;

/* Mostly small and even; at times empty with huge dims beside. At most 4096 elements. */
HostileShape hostile_shape(Rng *rng);
/* Rank 1 (at times 0), as lists of dims, axes or indices are. */
HostileShape hostile_list(Rng *rng);
/* UINT64_MAX where it would be more. */
uint64_t hostile_count(uint32_t rank, const int64_t *dims);
/* Takes its last dims away, one at least, until it has few elements. */
void hostile_cut(HostileShape *shape);

/* Elements drawn from the pools, in memory of exactly their size. */
DemiData hostile_tensor(Arena *arena, Rng *rng, Dtype dtype, const HostileShape *shape);

/* For an attribute of that name of an operator on tensors of about that rank. */
int64_t hostile_int(Rng *rng, const char *name, uint32_t rank);
float hostile_float(Rng *rng);
const char *hostile_word(Rng *rng);

#endif
