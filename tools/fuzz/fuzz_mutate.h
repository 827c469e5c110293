// SPDX-License-Identifier: Apache-2.0
/* Changes to a valid model that leave most of it as it was: what fuzzers of bytes hardly ever hit.
 */
#ifndef DEMI_FUZZ_MUTATE_H
#define DEMI_FUZZ_MUTATE_H

#include "graph.h"

/* Numbers of a seed, the same everywhere. */
typedef struct FuzzRng {
    uint64_t state;
} FuzzRng;

/* Below `bound`; 0 where that is 0. */
uint32_t fuzz_below(FuzzRng *rng, uint32_t bound);
/* A seed that bytes stand for. */
uint64_t fuzz_hash(const uint8_t *data, size_t size);

/* Makes `count` changes: operands, attributes, operators, types, opsets, casts, marks of demi's
 * own. The model may be invalid then; it is linked soundly. */
void fuzz_mutate(Model *model, FuzzRng *rng, unsigned count, Arena *scratch);

/* Some name of the model's: of a node, value or operator; never NULL. */
const char *fuzz_name(const Model *model, FuzzRng *rng, Arena *scratch);

#endif
