// SPDX-License-Identifier: Apache-2.0
/* Which operands are parameters (training_parameters.def), and where their elements come from: the
 * tensors behind nodes that only move data (Transpose, Slice, Concat, Cast and the like: WORK_MOVES in
 * op_record.h) and have a gradient, as exporters write them between an initializer and the layer that
 * reads it. */
#ifndef DEMI_TRAINING_MOVES_H
#define DEMI_TRAINING_MOVES_H

#include "pass.h"

typedef struct TrainingRow {
    const char *op;
    uint32_t operands; /* a bit each */
    uint64_t least;    /* elements */
} TrainingRow;

/* The row of a node's operator; NULL where none of its operands is a parameter. */
const TrainingRow *training_row(const Node *node);
bool training_row_has(const TrainingRow *row, uint32_t operand); /* false of NULL */

typedef VEC(Value *) TrainingSources;
typedef VEC(Node *) TrainingMovers;

typedef struct TrainingMoves {
    Arena *scratch;
    uint32_t *seen;     /* [value_count] by value: the number of the last walk that met it */
    uint32_t *passed;   /* [node_count] by node: the same */
    size_t value_count; /* as it was when this was made, and so: */
    size_t node_count;
    uint32_t walk;        /* the number of the walk at hand */
    TrainingSources list; /* of the last walk */
    TrainingMovers nodes; /* of the last walk, operands first */
} TrainingMoves;

/* For the values and nodes that there are now: walks do not go through later ones. */
TrainingMoves training_moves(PassCtx *ctx);

/* True where the node gives elements of its operand i, and what flows into them flows back to it; but
 * not where that operand is a parameter itself, as a table is that a Gather reads. */
bool training_moves_operand(const Node *node, uint32_t i);

/* Walks back from a value: `list` has the initializers of floats and what Constant nodes give of them,
 * each once, and `nodes` the nodes between. A value that anything else gives ends the walk there. */
void training_walk(TrainingMoves *moves, Value *value);

#endif
