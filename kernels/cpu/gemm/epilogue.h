// SPDX-License-Identifier: Apache-2.0
/* What follows a convolution or matrix product in the same kernel: y = act(y + bias + residual).
 *
 * The sum is made in this order and rounded after each step, and the activations are those of the
 * operators of their names, so a float result has the same bits whether the epilogue runs on tiles
 * within the product's loops or on the whole result afterwards. Quick ones are as such operators of fast
 * plans (quick_rows.h).
 */
#ifndef DEMI_EPILOGUE_H
#define DEMI_EPILOGUE_H

#include "kernel.h"
#include "op_attrs.h"

typedef struct Epilogue {
    const float *bias;     /* NULL: none */
    bool bias_of_rows;     /* bias[row]; otherwise bias[column] */
    const float *residual; /* NULL: none; may be the result's own memory */
    uint64_t residual_row; /* elements between its rows */
    Activation activation;
    float p, q;
    bool quick; /* the activation, in plans that are not faithful */
} Epilogue;

/* A block of a result, at (row, column) of the matrix that bias and residual are for. */
typedef struct EpilogueBlock {
    float *y;
    uint64_t y_row; /* elements between rows */
    uint64_t row, column, rows, columns;
} EpilogueBlock;

/* True where there is nothing to do. */
static inline bool epilogue_is_empty(const Epilogue *epilogue) {
    return !epilogue->bias && !epilogue->residual && epilogue->activation == ACTIVATION_NONE;
}

/* An activation as bounds, low <= y <= high with NaN kept, and what it is where it is none (`rest`
 * has neither bias nor residual). NULL: no bounds. */
typedef struct EpilogueBounds {
    float low, high;
    Epilogue rest;
} EpilogueBounds;

/* By activation: what is done to each element of a block; NULL for ACTIVATION_NONE. */
typedef void EpilogueActivate(const Epilogue *epilogue, const EpilogueBlock *block);
extern EpilogueActivate *const epilogue_exact[ACTIVATION_COUNT];
extern EpilogueActivate *const epilogue_quick[ACTIVATION_COUNT];

EpilogueBounds epilogue_bounds(const Epilogue *epilogue);

/* In place, in the calling thread: for tiles that are in the cache. */
void epilogue_apply(const Epilogue *epilogue, const EpilogueBlock *block);

/* The same for a whole result, by as many threads as are worth it. */
void epilogue_run(const KernelCall *call, const Epilogue *epilogue, const EpilogueBlock *whole);

/* Parameters of that activation from `count` given ones, with its defaults. False where there are
 * too many. */
bool epilogue_params(Epilogue *epilogue, const float *given, uint64_t count);

#endif
