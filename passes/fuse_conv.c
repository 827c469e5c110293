// SPDX-License-Identifier: Apache-2.0
/* fuse-conv: what follows a convolution goes into its kernel.
 *
 *   act(Add(Add(Conv(X, W, B), bias), Z))  ->  demi.fused.Conv(X, W, B + bias, Z) {activation}
 *
 * Each part may be absent; the adds come in any order. `bias` is a value of one element a channel
 * (all other dims 1; or broadcast from axis 1, as before opset 7), Z one of exactly the result's
 * shape. The activations are fuse_activation.c's. Faithful: an activation of a float32 result
 * alone.
 */
#include "fuse_graph.h"

/* What was found behind a convolution. */
typedef struct Chain {
    Node *nodes[8]; /* the convolution first */
    size_t count;
    Value *bias, *residual; /* NULL: none */
    FuseActivation activation;
} Chain;

static const Value *result_of(const Chain *chain) {
    return chain->nodes[chain->count - 1]->outputs[0];
}

/* ---- biases ---------------------------------------------------------------------------------- */

/* True where `value`, added to y, is one number a channel: [C, 1, …] from the right. */
static bool is_channels(const Value *value, const Value *y, const Node *add) {
    int64_t rank = fuse_rank(value), of = fuse_rank(y), channels = fuse_dim(y, 1);
    if (of < 2 || channels < 1) return false;
    if (fuse_opset(add) < 7)
        return rank == 1 && fuse_dim(value, 0) == channels && add->inputs[1].value == value &&
               node_attr_int(add, "broadcast", 0) && node_attr_int(add, "axis", -1) == 1;
    int64_t axis = rank - (of - 1); /* of the channels */
    if (rank > of || axis < 0) return false;
    for (int64_t i = 0; i < rank; i++)
        if (fuse_dim(value, i) != (i == axis ? channels : 1)) return false;
    return true;
}

/* The bias as a vector. */
static Value *as_vector(Fuse *fuse, Node *at, Value *bias) {
    static const int64_t any = -1;
    Arena *arena = &fuse->ctx->model->arena;
    if (fuse_rank(bias) == 1) return bias;
    int64_t count = 1;
    for (int64_t i = 0; i < fuse_rank(bias); i++) count *= fuse_dim(bias, i);
    Dim *dim = ARENA_NEW(arena, Dim);
    *dim = (Dim){.kind = DIM_KNOWN, .size = count};
    Value *const operands[2] = {bias, fuse_new_ints(fuse, at->graph, &any, 1)};
    return fuse_make(fuse, at, "Reshape", operands,
                     type_new_shaped(arena, type_dtype(bias->type), dim, 1));
}

static Value *whole_bias(Fuse *fuse, Node *at, const Chain *chain) {
    Value *own = fuse_input(chain->nodes[0], 2);
    if (!chain->bias) return own;
    Value *more = as_vector(fuse, at, chain->bias);
    Value *const operands[2] = {own, more};
    return own ? fuse_make(fuse, at, "Add", operands, more->type) : more;
}

/* ---- the chain ------------------------------------------------------------------------------- */

static bool take_add(Chain *chain) {
    const Value *y = result_of(chain);
    Node *add = fuse_reader(y);
    if (!fuse_is(add, "Add")) return false;
    Value *other = fuse_other(add, y);
    if (!other || !add->outputs[0] || type_dtype(other->type) != type_dtype(y->type)) return false;
    if (!chain->bias && is_channels(other, y, add))
        chain->bias = other;
    else if (!chain->residual && fuse_same_shape(other, y))
        chain->residual = other;
    else
        return false;
    chain->nodes[chain->count++] = add;
    return true;
}

static void visit(Fuse *fuse, Node *conv) {
    Chain chain = {.nodes = {conv}, .count = 1};
    if (!fuse_is(conv, "Conv") || conv->input_count < 2 || !fuse_takes(conv->outputs[0])) return;
    while (!fuse->faithful && take_add(&chain)) continue;
    if (fuse_find_activation(fuse, result_of(&chain), &chain.activation))
        for (uint32_t i = 0; i < chain.activation.node_count; i++)
            chain.nodes[chain.count++] = chain.activation.nodes[i];
    else
        chain.activation.name = NULL;
    if (chain.count == 1) return;
    Node *last = chain.nodes[chain.count - 1];
    Value *bias = whole_bias(fuse, last, &chain);
    Node *made = fuse_new(fuse, last, "Conv", conv, 4);
    node_share_lists(made, conv);
    node_set_input(made, 0, fuse_input(conv, 0));
    node_set_input(made, 1, fuse_input(conv, 1));
    node_set_input(made, 2, bias);
    node_set_input(made, 3, chain.residual);
    fuse_set_activation(made, &chain.activation);
    fuse_replace(fuse, made, chain.nodes, chain.count);
}

FUSE_PASS(fuse_conv, "fuse-conv",
          "fuse convolutions with bias, residual, and activation, for plans", visit);
