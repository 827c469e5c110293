// SPDX-License-Identifier: Apache-2.0
/* Names of sizes that have none: what is not known of a value has one of its own all the same, so that
 * the same size is found again where it is handed on. They are odd numbers, which no symbol of a model
 * is, and must not get into types. Whoever gives them sees to it that a name is one size: values in
 * loops have others in each iteration, those in functions in each call. */
#ifndef DEMI_SIZE_NAMES_H
#define DEMI_SIZE_NAMES_H

#include "shape_args.h"

enum { SIZE_NAME_FIRST = 1 };

/* Names the unknown sizes of a tensor, from *next on. Those of a sequence's tensors may differ, and
 * get none. */
void size_names_give(Arena *arena, ShapeOperand *shape, uint64_t *next);

/* The same as it may stand in a type. */
const ShapeOperand *size_names_drop(Arena *arena, const ShapeOperand *shape);

#endif
