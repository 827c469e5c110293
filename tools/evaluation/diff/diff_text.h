// SPDX-License-Identifier: Apache-2.0
/* Types and attributes as short text, equal where they are equal. */
#ifndef DEMI_DIFF_TEXT_H
#define DEMI_DIFF_TEXT_H

#include "graph.h"

/* Such as float[N,3], seq(float); "?" where unknown. */
const char *diff_type_text(Arena *arena, const Type *type);

/* "float[3,3]" of a tensor. */
const char *diff_tensor_text(Arena *arena, const Tensor *tensor);

/* All of a number, string, list or type; of tensors the type and shape, of graphs "graph". */
const char *diff_attr_text(Arena *arena, const Attr *attr);

#endif
