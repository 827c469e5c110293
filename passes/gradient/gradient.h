// SPDX-License-Identifier: Apache-2.0
/* Gradients: the backward graph of values, in standard operators of the model's opset.
 *
 * Reverse mode: every node between the xs and the ys is differentiated once, the last one first, by
 * its operator's GRADIENT row. What flows into one value from several readers is summed
 * once, in the order of the readers from the last to the first, so that equal graphs give equal
 * bytes. Operands that were broadcast get the sum over what they were broadcast along.
 */
#ifndef DEMI_GRADIENT_H
#define DEMI_GRADIENT_H

#include "pass.h"

/* What is to be differentiated. Element types are known (FACT_DTYPES), shapes as far as they can be:
 * where a rule needs one that is not, that is an error. */
typedef struct GradientAsk {
    Node *at;         /* the backward graph is put before it; what the ys are computed from stands
                            before it, or in graphs around it */
    Value *const *ys; /* [y_count] of floats */
    Value *const
        *seeds;       /* [y_count], of the ys' shapes and types: what the sum of products with the
                            ys is differentiated; NULL: 1 for each element */
    Value *const *xs; /* [x_count] of floats */
    Value *const *zs; /* [z_count]: nothing before them is looked at, nor before the xs */
    uint32_t y_count, x_count, z_count;
    bool through; /* xs may depend on each other: gradients are of all ways to the ys, through other
                     xs too. Otherwise each x counts as given, and what is before it as constant */
} GradientAsk;

/* gradients[i], of the shape and type of xs[i]; NULL where no y depends on it. A gradient may be an
 * operand of the ask, or one value may be the gradient of several. ERR_MODEL names the first node
 * that has none, and why; nodes were made by then. */
bool gradient_expand(PassCtx *ctx, const GradientAsk *ask, Value **gradients, Err *err);

/* Removes what was made between two nodes of a graph, and nothing reads; `before` is NULL where the
 * first node was made, too. */
void gradient_sweep(PassCtx *ctx, const Node *before, Node *at);

/* The nodes that the ys are computed from, operands first, those of outer graphs too; nothing before
 * the xs and zs. In `arena`. */
typedef VEC(Node *) GradientNodes;
GradientNodes gradient_nodes(const GradientAsk *ask, Arena *arena);

/* True where what flows from a node may flow into its operand i, so also of nodes without a rule, which
 * gradient_expand refuses by name. With `known` only where there is a rule for the node as it is. */
bool gradient_flows(const Node *node, uint32_t i, bool known);

/* What a node reads: its operands, then what its subgraphs capture. In `arena`. */
Value **gradient_reads(const Node *node, Arena *arena, uint32_t *count);

#endif
