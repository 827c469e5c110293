// SPDX-License-Identifier: Apache-2.0
/* The inputs of --random SEED: the same on every machine, in every command, for every run.
 *
 * Element i of the input NAME is drawn by h = mix(key + (i + 1) * 0x9e3779b97f4a7c15), all modulo
 * 2^64, with key = mix(SEED + FNV-1a64(NAME)) and mix SplitMix64's finalizer. So it depends neither
 * on the other inputs nor on the dtype. From h:
 *
 *     floats           the sum of h's four 16-bit parts, less its mean 131070, divided by its
 * standard deviation 37837.227: near normal, within 3.5, rounded once to the dtype float8e8m0 2 to
 * the power of the integer below that int8, uint8, narrower ints   the lowest bits of h: the whole
 * range wider integers   h mod 3: 0, 1 or 2, which index almost anything bool             the
 * lowest bit of h string           "s0" to "s9", by h mod 10
 *
 * What reads an input may ask for more (runtime/input_use.h): integers from low to high are
 * low + h mod (high - low + 1), and the next one, or low, where that is a value to avoid; masks,
 * counts and axes are the same for every seed. Sequences hold two tensors, item k drawn as the input
 * "NAME[k]"; optionals are present. Sizes that the model leaves open are input_sizes.h's matter.
 */
#ifndef DEMI_RANDOM_VALUES_H
#define DEMI_RANDOM_VALUES_H

#include "arena.h"
#include "demi_runtime.h"
#include "err.h"
#include "input_use.h"

/* `use` has no bound by name any more; open sizes are 1. ERR_USAGE where the rank or type is not
 * known. */
typedef struct RandomInput {
    const DemiPlanIo *io;
    InputUse use;
    uint64_t seed;
} RandomInput;
bool random_value(Arena *arena, const RandomInput *input, DemiData *value, Err *err);

#endif
