// SPDX-License-Identifier: Apache-2.0
/* From graph objects to the arguments of shape functions, and back: the one place where the plain
 * data of rewrite/shape meets nodes, types and tensors. Used by infer-shapes and by whatever else
 * needs a node's attributes as its family's struct.
 *
 * A symbolic dimension's number (ShapeNum.symbol) is the address of its interned name, so equal
 * names of one model are equal dimensions.
 */
#ifndef DEMI_SHAPE_ARGS_H
#define DEMI_SHAPE_ARGS_H

#include "graph.h"
#include "shape.h"

/* The row that serves a node at its graph's opsets; NULL for operators of unknown domains and
 * calls of functions. */
const ShapeRow *shape_args_row(const Node *node);

/* The node's attributes as the row's struct, in `arena`; lists are borrowed from the node. An
 * attribute of the wrong type counts as absent. NULL where an attribute that matters is a parameter
 * of the function the node lies in: its value is not known. */
const void *shape_args_attrs(const Node *node, const ShapeRow *row, Arena *arena);

/* What a type says: of its innermost tensor, for sequences and optionals. Negative and nameless
 * dims are unknown. Dims are allocated in `arena`. */
ShapeOperand shape_args_of_type(const Type *type, Arena *arena);

/* A constant's shape, and its contents where it is small: integers, bools, and floats. */
ShapeOperand shape_args_of_tensor(const Tensor *tensor, Arena *arena);
/* Its shape alone. */
ShapeOperand shape_args_of_dims(const Tensor *tensor, Arena *arena);

/* `type` with its innermost tensor's shape replaced where `shape` differs; dtype, kinds, and what
 * else is known of equal dims stay. `type` itself where nothing changes. NULL and TYPE_NONE become
 * a tensor without dtype, unless the operand is wrapped. New types are allocated in `arena`. */
const Type *shape_args_to_type(Arena *arena, const Type *type, const ShapeOperand *shape);

#endif
