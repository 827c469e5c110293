// SPDX-License-Identifier: Apache-2.0
/* Between the graph's types and the schemas' view of them. */
#ifndef DEMI_OP_TYPES_H
#define DEMI_OP_TYPES_H

#include "graph.h"
#include "op_record.h"
#include "ops.h"

/* A type of that kind and element type that keeps shapes, denotations and unknown fields of `known`
 * where it is of the same kind; a new one without shape else. `known` may be NULL. */
const Type *type_refine(Arena *arena, const Type *known, OpType type);

/* The schema of the operator the node calls, at the opset its graph imports, or as the model's
 * declared_ops have it; NULL for unknown operators and domains. Does not look for functions of the
 * model. */
const OpSchema *node_schema(const Node *node);

/* What the node's operator is (op_record.h), whatever its version; NULL for operators that are
 * unknown or of the user's own. As node_schema, it looks for no functions. */
const OpRecord *node_record(const Node *node);

/* True for a Cast of one input to one output. NULL is none. */
bool node_is_cast(const Node *node);

/* True for a Cast that demi itself put there (metadata demi.inserted). */
bool node_is_own_cast(const Node *node);

/* The metadata of nodes that demi itself put in to quantize, such as QuantizeLinear and DequantizeLinear; true
 * for those. */
#define OWN_QUANTIZER "demi.quantized"
bool node_is_own_quantizer(const Node *node);

/* What it says of nodes that quantize rows when the model runs, and of those that scale products of such rows. */
#define QUANTIZER_OF_ROWS     "row"
#define QUANTIZER_OF_PRODUCTS "product of rows"

/* True where a graph output of the main graph, of a function or of a training graph reads the
 * value: its name is then part of an interface. Outputs of nested graphs go by position. */
bool value_is_named_output(const Value *value);

#endif
