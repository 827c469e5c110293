// SPDX-License-Identifier: Apache-2.0
/* QuantizeLinear and DequantizeLinear that demi puts into a graph, and their constants: one place
 * that makes, names and marks them. The mark is the metadata OWN_QUANTIZER; strip-qdq goes by it. */
#ifndef DEMI_QDQ_NODE_H
#define DEMI_QDQ_NODE_H

#include "pass.h"

/* What it says of a DequantizeLinear: of a value, or of weights, whose float constant it
 * stands for. A QuantizeLinear is of a value. */
#define QDQ_MARK_VALUE   "value"
#define QDQ_MARK_WEIGHTS "weights"

/* True where the node is one of these that demi put there itself. */
bool qdq_is_own(const Node *node, const char *mark);

/* A constant called like `of`, and so: an initializer, or before IR version 4 a Constant node. The
 * tensor's dims are those of the type. */
Value *qdq_constant(PassCtx *ctx, const Value *of, const char *suffix, const Tensor *tensor);

/* The operands of a node beside the first. */
typedef struct QdqOperands {
    Value *scale, *zero; /* zero may be NULL */
    int32_t axis;        /* -1: none */
    uint64_t block;      /* 0: none */
    Dtype output;        /* UNDEFINED: that of the scale */
} QdqOperands;

/* Puts the operator before `before` (last where NULL) in the graph. `result` must not have a
 * producer. The node is called like its result. */
Node *qdq_insert(PassCtx *ctx, const char *op, Value *from, const QdqOperands *operands,
                 Value *result);

/* Removes a constant that all readers have left. */
void qdq_drop_unread(Value *value);

/* A value called `of` and so, of of's type with that element type. */
Value *qdq_value(PassCtx *ctx, const Value *of, const char *suffix, Dtype dtype);

#endif
