// SPDX-License-Identifier: Apache-2.0
/* fuse-matmul: what follows a matrix product goes into its kernel.
 *
 *   act(Add(Add(MatMul(A, B), bias), Z))
 *     ->  demi.fused.MatMul(A, B, bias, Z) {activation}
 *   act(Add(Gemm(A, B, C), Z))
 *     ->  demi.fused.MatMul(A, B, C, Z) {alpha, transA, transB, activation}
 *   act(Reshape(Gemm(A, B, C), shape))
 *     ->  Reshape(demi.fused.MatMul(A, B, C) {activation}, shape)
 *
 * Each part may be absent, of a Gemm by a constant B all of them: Gemm itself packs nothing. The
 * adds come in any order. `bias` has one element a column (all other dims 1), B is not a vector then;
 * Z has exactly the result's shape; C is either of both, with beta 1. The activations are
 * fuse_activation.c's. Faithful: an activation of a float32 result without C alone. */
#include "constants.h"
#include "fuse_graph.h"

typedef struct Chain {
    Node *nodes[8]; /* the product first */
    size_t count;
    Value *bias, *residual; /* NULL: none */
    FuseActivation activation;
    Node *reshape; /* between the product and its activation, or NULL */
} Chain;

static const Value *result_of(const Chain *chain) {
    return chain->nodes[chain->count - 1]->outputs[0];
}

/* True where `value`, added to the product y, is one number a column. */
static bool is_columns(const Value *value, const Value *y) {
    int64_t rank = fuse_rank(value), columns = fuse_dim(y, -1);
    if (rank < 1 || rank > fuse_rank(y) || columns < 1) return false;
    for (int64_t i = 0; i < rank; i++)
        if (fuse_dim(value, i) != (i == rank - 1 ? columns : 1)) return false;
    return true;
}

/* Gives what is added its place; false where it has none. */
static bool take_term(Chain *chain, Value *term, const Value *y) {
    const Value *b = fuse_input(chain->nodes[0], 1);
    if (type_dtype(term->type) != type_dtype(y->type)) return false;
    if (!chain->bias && fuse_rank(b) >= 2 && is_columns(term, y))
        chain->bias = term;
    else if (!chain->residual && fuse_same_shape(term, y))
        chain->residual = term;
    else
        return false;
    return true;
}

static bool take_add(Chain *chain) {
    const Value *y = result_of(chain);
    Node *add = fuse_reader(y);
    if (!fuse_is(add, "Add")) return false;
    Value *other = fuse_other(add, y);
    if (fuse_opset(add) < 7 && node_attr_int(add, "broadcast", 0)) return false;
    if (!other || !take_term(chain, other, y)) return false;
    chain->nodes[chain->count++] = add;
    return true;
}

/* C, and whether the rest of Gemm is what a fused product can do. */
static bool take_gemm(const Fuse *fuse, Chain *chain) {
    const Node *gemm = chain->nodes[0];
    Value *c = fuse_input(gemm, 2);
    float alpha, beta;
    if (!fuse_attr_float(gemm, "alpha", 1, &alpha) || !fuse_attr_float(gemm, "beta", 1, &beta))
        return false;
    if (!c) return true;
    return !fuse->faithful && beta == 1 && fuse_opset(gemm) >= 7 &&
           take_term(chain, c, gemm->outputs[0]);
}

static void copy_gemm(Node *made, const Node *gemm) {
    float alpha;
    if (fuse_attr_float(gemm, "alpha", 1, &alpha) && alpha != 1)
        node_set_attr_float(made, "alpha", alpha);
    if (node_attr_int(gemm, "transA", 0)) node_set_attr_int(made, "transA", 1);
    if (node_attr_int(gemm, "transB", 0)) node_set_attr_int(made, "transB", 1);
}

/* True where the node is a product that a fused one can stand for, with Gemm's C as a term. */
static bool begin(const Fuse *fuse, Node *product, Chain *chain) {
    *chain = (Chain){.nodes = {product}, .count = 1};
    bool gemm = fuse_is(product, "Gemm");
    return (gemm || fuse_is(product, "MatMul")) && product->input_count >= 2 &&
           fuse_takes(product->outputs[0]) && (!gemm || take_gemm(fuse, chain));
}

/* The activation, which may come behind a Reshape: it looks at each element alone. */
static void take_activation(const Fuse *fuse, Chain *chain) {
    const Value *y = result_of(chain);
    Node *reader = fuse_reader(y);
    if (fuse_find_activation(fuse, y, &chain->activation)) {
        for (uint32_t i = 0; i < chain->activation.node_count; i++)
            chain->nodes[chain->count++] = chain->activation.nodes[i];
        return;
    }
    chain->activation.name = NULL;
    if (!fuse_is(reader, "Reshape") || fuse_input(reader, 0) != y) return;
    if (fuse_find_activation(fuse, reader->outputs[0], &chain->activation))
        chain->reshape = reader;
    else
        chain->activation.name = NULL;
}

/* The Reshape gives what the activation behind it gave. */
static void end_reshape(Fuse *fuse, const Chain *chain) {
    uint32_t count = chain->activation.node_count;
    Node *last = chain->activation.nodes[count - 1];
    Value *result = last->outputs[0];
    node_set_output(last, 0, NULL);
    while (count-- > 0) node_remove_unswept(chain->activation.nodes[count]);
    node_set_output(chain->reshape, 0, result);
    fuse_set_dtype(fuse, chain->reshape->inputs[0].value, type_dtype(result->type));
}

static Node *make(Fuse *fuse, const Chain *chain) {
    const Node *product = chain->nodes[0];
    Node *made = fuse_new(fuse, chain->nodes[chain->count - 1], "MatMul", product, 4);
    node_set_input(made, 0, fuse_input(product, 0));
    node_set_input(made, 1, fuse_input(product, 1));
    node_set_input(made, 2, chain->bias);
    node_set_input(made, 3, chain->residual);
    if (fuse_is(product, "Gemm")) copy_gemm(made, product);
    fuse_set_activation(made, &chain->activation);
    fuse_replace(fuse, made, chain->nodes, chain->count);
    if (chain->reshape) end_reshape(fuse, chain);
    return made;
}

Node *fuse_matmul_alone(Fuse *fuse, Node *product) {
    Chain chain;
    return begin(fuse, product, &chain) ? make(fuse, &chain) : NULL;
}

/* A constant, or one in another type, which is computed when compiling. NULL is neither. */
static bool is_settled(const Value *value) {
    if (value && node_is_cast(value->producer)) value = value->producer->inputs[0].value;
    return value && value_is_constant(value);
}

/* True for a Gemm by a constant, which the fused kernels pack once for all runs. */
static bool is_packable(const Fuse *fuse, const Node *product) {
    return !fuse->faithful && fuse_is(product, "Gemm") && is_settled(fuse_input(product, 1)) &&
           !node_attr_int(product, "transA", 0);
}

static void visit(Fuse *fuse, Node *product) {
    Chain chain;
    if (!begin(fuse, product, &chain)) return;
    while (!fuse->faithful && take_add(&chain)) continue;
    take_activation(fuse, &chain);
    if (chain.count > 1 || chain.reshape || is_packable(fuse, product)) make(fuse, &chain);
}

FUSE_PASS(fuse_matmul, "fuse-matmul",
          "fuse matrix products with bias, residual, and activation, for plans", visit);
