// SPDX-License-Identifier: Apache-2.0
/* The generator of random operators: MT19937 (Matsumoto and Nishimura 1998), seeded and drawn from
 * as numpy's RandomState does, which ONNX's reference uses: a given `seed` gives its numbers. */
#ifndef DEMI_KERNEL_RANDOM_H
#define DEMI_KERNEL_RANDOM_H

#include "kernel.h"

enum { RANDOM_STATE = 624 };

typedef struct Random {
    uint32_t state[RANDOM_STATE];
    uint32_t next;   /* in state; RANDOM_STATE: to be renewed */
    bool has_normal; /* normal deviates come in pairs */
    double normal;
} Random;

/* Seeds up to 2^32 - 1 are one word of the key; larger ones two. */
void kernel_random_seed(Random *random, uint64_t seed);
/* Uniform in [0, 1), a multiple of 2^-53. */
double kernel_random_real(Random *random);
/* Of the normal distribution of mean 0 and variance 1 (Marsaglia's polar method). */
double kernel_random_normal(Random *random);

#endif
