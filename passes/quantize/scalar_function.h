// SPDX-License-Identifier: Apache-2.0
/* Elementwise operators of ai.onnx as functions of numbers, in double, as their definitions have them.
 * What they are asked for is where a function stays the same, not what a kernel gives to the bit. */
#ifndef DEMI_SCALAR_FUNCTION_H
#define DEMI_SCALAR_FUNCTION_H

#include "graph.h"

enum { SCALAR_OPERANDS = 3 };

typedef struct ScalarFunction {
    int op;
    double p, q;                       /* attributes */
    double otherwise[SCALAR_OPERANDS]; /* operands that are absent */
} ScalarFunction;

/* False where it is an operator that is not known here, or an attribute is of another type. */
bool scalar_function_of(const Node *node, ScalarFunction *function);

double scalar_function_at(const ScalarFunction *function, const double x[SCALAR_OPERANDS]);

#endif
