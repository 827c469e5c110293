// SPDX-License-Identifier: Apache-2.0
/* What the passes of `demi simplify` share: taking a node out so that nothing notices, and putting
 * constants where nodes were.
 *
 * Graphs inside functions are left alone: what their values are is some call's matter. So are names
 * that are part of an interface, values that bindings or annotations name, and the order of what
 * stays.
 */
#ifndef DEMI_SIMPLIFY_GRAPH_H
#define DEMI_SIMPLIFY_GRAPH_H

#include "pass.h"

/* Bytes that a pass may add for a node that it takes away, where constants come to be larger than
 * those they replace: about what a node takes in a file. */
enum { SIMPLIFY_GROW = 1024 };

/* True where the node is that operator of ai.onnx, no function of the model. */
bool simplify_is(const Node *node, const char *op);

/* How many values of the model have a name. */
typedef struct NameCounts {
    const uint32_t *counts; /* [size], by Sym.number */
    size_t size;
} NameCounts;
NameCounts names_count(PassCtx *ctx);
/* True where no other value is called so, or the name was made since: the value can be read, or
 * lie, in any graph that is inside its own, or around. */
bool name_is_single(const NameCounts *names, const Value *value);

/* Lets all that reads `result`, which a node gives, read `value` instead, which is of the same type
 * and comes before that node in its graph or one around. An output's name moves to `value`. False,
 * and nothing happens, where a name would be lost, or a graph would give out what no node of it makes,
 * which engines refuse, or one value twice, which some compute wrongly. */
bool value_bypass(Value *result, Value *value);

/* Output i of a node that is to go is what `value` is: by value_bypass, or else by an Identity before
 * the node. */
void result_become(PassCtx *ctx, Node *node, uint32_t i, Value *value);

/* True where constants may take the place of all that the node gives and something reads. */
bool node_may_become_constant(const Node *node);

/* Removes such a node: its output i becomes a constant of tensors[i], which is in the model's arena;
 * NULL where nothing reads it. Constants are initializers; before IR version 4, where those have to
 * be inputs, Constant nodes. */
void node_become_constant(PassCtx *ctx, Node *node, const Tensor *const *tensors);

/* The numbers of a constant of integers, `most` at most, in scratch; false where it is not one, or
 * longer, or damaged. `value` may be NULL. */
bool simplify_read_ints(PassCtx *ctx, const Value *value, uint64_t most, int64_t **items,
                        uint64_t *count);

/* False where the model's initializers have to be inputs, too. */
bool model_has_free_initializers(const Model *model);

#endif
