// SPDX-License-Identifier: Apache-2.0
/* Constants wherever they are: an initializer that is not a graph input, or the output of a
 * Constant node, in any graph. Real exports keep weights in Constant nodes as often as in
 * initializers, so every pass asks here instead of looking at initializers alone. */
#ifndef DEMI_CONSTANTS_H
#define DEMI_CONSTANTS_H

#include "graph.h"

/* The constant's tensor: of an initializer or a Constant node's `value`, value_float, value_floats,
 * value_int, value_ints (these as new tensors in `arena`). NULL where value is not constant, or is
 * a sparse or string constant, or its attribute is a function's parameter. */
const Tensor *constant_tensor(const Value *value, Arena *arena);

/* True where value is an initializer that no caller can override and no training gives other numbers,
 * or comes from a Constant node. */
bool value_is_constant(const Value *value);

/* The number of a one-element float, float16 or bfloat16 constant. */
bool constant_scalar(const Value *value, float *number);

/* Makes `tensor` the constant's data, in place of what it has. value must be a constant. */
void constant_replace(Value *value, const Tensor *tensor);

#endif
