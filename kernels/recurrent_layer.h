// SPDX-License-Identifier: Apache-2.0
/* What the operands and attributes of an RNN, GRU or LSTM say, for kernels of any backend. */
#ifndef DEMI_RECURRENT_LAYER_H
#define DEMI_RECURRENT_LAYER_H

#include "kernel.h"

typedef enum RecurrentKind { RECURRENT_RNN, RECURRENT_GRU, RECURRENT_LSTM } RecurrentKind;

typedef enum ActivationKind {
    ACT_NONE,
    ACT_RELU,
    ACT_TANH,
    ACT_SIGMOID,
    ACT_AFFINE,
    ACT_LEAKY_RELU,
    ACT_THRESHOLDED_RELU,
    ACT_SCALED_TANH,
    ACT_HARD_SIGMOID,
    ACT_ELU,
    ACT_SOFTSIGN,
    ACT_SOFTPLUS
} ActivationKind;

typedef struct GateActivation {
    ActivationKind kind;
    double alpha, beta;
} GateActivation;

typedef struct RecurrentSizes {
    uint64_t length, batch, input, hidden, directions;
    uint64_t width;   /* gates * hidden */
    bool batch_first; /* X is (batch, length, input), Y (batch, length, directions, hidden) */
} RecurrentSizes;

/* Checks X, W, R, B and P against each other. `turned`: weights are (directions, input, width) and
 * (directions, hidden, width). False with the error set. */
bool recurrent_sizes(KernelCall *call, RecurrentKind kind, bool turned, RecurrentSizes *sizes);

/* all: [2 * 3], of direction d from 3 d on. False with the error set. */
bool recurrent_activations(KernelCall *call, RecurrentKind kind, uint64_t directions,
                           GateActivation *all);

#endif
