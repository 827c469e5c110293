// SPDX-License-Identifier: Apache-2.0
/* What kernels of recurrent.cu take; C and C++. */
#ifndef DEMI_RECURRENT_ARGS_H
#define DEMI_RECURRENT_ARGS_H

#include <stdint.h>

enum {
    RECURRENT_WARPS = 4, /* of a block: hidden units */
    RECURRENT_BATCH = 4, /* sequences that a warp has, for which it reads weights once */
};

typedef struct RecurrentGate {
    int32_t op; /* a UnaryOp */
    float p, q;
} RecurrentGate;

/* One step in time of all directions and sequences. States are float, (directions, batch, hidden); those
 * of the next step are other memory. A block is (32 RECURRENT_WARPS) threads; blocks are of units,
 * sequences, directions. */
typedef struct RecurrentArgs {
    const float *products;    /* of all inputs and weights: a row each, of all directions' gates */
    const void *r, *bias, *p; /* as the operator has them; bias and p may be NULL */
    const int32_t *lengths;   /* of sequences; NULL: all are whole */
    const void *h_first, *c_first; /* as the operator has them, NULL: 0 */
    const float *h, *c;            /* before the step */
    float *h_next, *c_next;
    float *update, *reset;     /* of a GRU in two launches: gate z, and gate r times h */
    void *y, *h_last, *c_last; /* the operator's results; NULL where nobody wants them */
    int32_t step, length, batch, hidden, directions;
    int32_t backward;    /* the first direction is; the second always is */
    int32_t batch_first; /* as layout = 1 */
    int32_t couple;
    int32_t r_type, bias_type, p_type, h_first_type, c_first_type, y_type, h_last_type, c_last_type;
    float clip; /* 0: none */
    RecurrentGate gates[2][3];
} RecurrentArgs;

#endif
