// SPDX-License-Identifier: Apache-2.0
/* What a placement of casts costs: the measure that the exact solver minimizes and that reports
 * show.
 *
 *     cost = bytes_converted + 4096 a cast + bytes of constants in fp32
 *            + bytes of other values in fp32 / 8
 *
 * all of one run of the model. A cast of n elements reads 4n bytes and writes 2n, or the other way
 * round: 6n bytes converted. It is a node of its own besides, which costs some 4 kB's worth of time
 * however small the value is, so that of two placements that convert about as much the one with
 * fewer casts wins. A value that an operator gives in fp32 counts 4n bytes, at an eighth: moving
 * data through many nodes in fp32 is worth a larger cast sooner or later, but converting costs
 * accuracy as well as time, so not at once. A constant that is stored in fp32 counts in full: its
 * bytes are in the file and in memory, whatever a run reads of them.
 *
 * Dimensions: a known one counts as it is, a symbolic or unknown one as 64, an unknown rank as 4096
 * elements in all, an empty tensor as one element. What matters is the ratio of values to each
 * other, and batch-like dimensions that all have cancel. Rows of a constant table do not cancel
 * against it: where their number is unknown they count as a quarter of it at most.
 */
#ifndef DEMI_PLACEMENT_COST_H
#define DEMI_PLACEMENT_COST_H

#include "arena.h"
#include "graph.h"

enum {
    COST_BYTES_A_CAST = 4096, /* what a cast costs besides the bytes it converts */
    COST_CONVERTED = 12,      /* in half bytes, the solver's unit: an element that is converted, */
    COST_FP32 = 1,            /* one that is given in fp32, */
    COST_STORED = 8,          /* one of a constant that is stored in fp32, */
    COST_CAST = 2 * COST_BYTES_A_CAST, /* and a cast */
};

typedef struct PlacementCost {
    uint64_t casts;           /* each shared cast once */
    uint64_t bytes_converted; /* that they read and write */
    uint64_t bytes_fp32;      /* of values that stay fp32, casts' results apart, */
    uint64_t bytes_stored;    /* of these, of constants */
} PlacementCost;

/* The sum above in bytes, rounded down. */
uint64_t placement_cost_sum(PlacementCost cost);

/* Adds a cast of that value, or the value as one that stays fp32, or is a constant that does. */
void placement_cost_add_cast(PlacementCost *cost, const Value *value);
void placement_cost_add_fp32(PlacementCost *cost, const Value *value);
void placement_cost_add_stored(PlacementCost *cost, const Value *value);

/* True where the node takes some of the rows of its first operand, chosen when it runs. */
bool node_takes_rows(const Node *node);

/* Elements of a value as above, at most 2^40. */
uint64_t placement_elements(const Value *value);

/* The cost of a model as it is, all graphs and functions: the casts that demi inserted, and the
 * float32 values that other nodes give or that constants hold. A cast of the model's own that now
 * gives or takes 16 bits moves no more than before: it counts as any node. Types must be known;
 * `scratch` may be reused afterwards. */
PlacementCost placement_cost_of_model(const Model *model, Arena *scratch);

#endif
