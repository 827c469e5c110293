// SPDX-License-Identifier: Apache-2.0
/* Nodes and constants that passes put before a node. What is made is called after that node and the
 * operator, by names that nothing else has. New values have element types, but no shapes yet. */
#ifndef DEMI_MAKE_NODE_H
#define DEMI_MAKE_NODE_H

#include "pass.h"

typedef struct Make {
    PassCtx *ctx;
    Node *at;         /* what is made stands before it, in its graph */
    const char *stem; /* names begin with it */
} Make;

/* A node of that domain (NULL: ai.onnx) with that many inputs, omitted so far, and one result. */
Node *make_node(const Make *make, const char *op, Sym domain, uint32_t inputs);

/* A further result of such a node. */
Value *make_output(const Make *make, Node *node, Dtype dtype);

/* op(operands) of ai.onnx, NULL for what is omitted; its result. */
Value *make_op(const Make *make, const char *op, Value *const *operands, uint32_t count,
               Dtype dtype);

/* A constant: an initializer, or, in bodies of functions and before version 4 of the IR, which have
 * none without an input, the result of a Constant. */
Value *make_constant(const Make *make, const Tensor *tensor);

/* A list of int64. */
Value *make_ints(const Make *make, const int64_t *items, uint32_t count);

#endif
