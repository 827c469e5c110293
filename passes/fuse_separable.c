// SPDX-License-Identifier: Apache-2.0
/* fuse-separable: a convolution by channel, with the products of each pixel's channels before and
 * behind it, for plans.
 *
 *   ConvLast(ConvLast(ConvLast(X, V, C) {inner}, W, B) {group = M, act}, U, D, Z) {outer}
 *     ->  demi.fused.SeparableConvLast(X, W, B, V, C, U, D, Z) {group = M, act, inner, outer}
 *
 * V and U are of single pixels, without strides, groups and padding; one of both may be absent, as may
 * biases, activations and Z. All is float, or bfloat16 of an even number of channels. What is between is
 * made a band of rows at a time, in the cache: only where it is too large for that as it is, as bands
 * take time, too. Behind choose-layouts.
 */
#include "fuse_graph.h"

enum {
    MOST_DEPTH = 1024,         /* channels, of one pass of the kernel */
    LEAST_BETWEEN = 512 << 10, /* bytes of what is between, for an image */
    OPEN_SIDE = 64,            /* of a side that is not known */
};

/* Data and weights of one type. */
static bool is_of_type(const Node *node) {
    const Dtype dtype = type_dtype(node->outputs[0]->type);
    for (uint32_t i = 0; i < 4; i++) {
        const Value *input = fuse_input(node, i);
        if (input && i != 2 && type_dtype(input->type) != dtype) return false;
    }
    return dtype == DTYPE_FLOAT || dtype == DTYPE_BFLOAT16;
}

static bool is_conv(const Node *node) {
    return node && sym_equals(node->domain, FUSED_DOMAIN) &&
           sym_equals(node->op_type, "ConvLast") && node->output_count == 1 && node->outputs[0] &&
           fuse_input(node, 0) && fuse_input(node, 1) && fuse_rank(fuse_input(node, 1)) == 4 &&
           is_of_type(node);
}

/* False where a list has another number than `number`, or is none. */
static bool is_all(const Node *node, const char *name, int64_t number) {
    const Attr *attr = node_attr(node, name);
    uint32_t count = 0;
    const int64_t *items = attr ? attr_ints(attr, &count) : NULL;
    for (uint32_t i = 0; i < count; i++)
        if (items[i] != number) return false;
    return !attr || items;
}

/* A product of each pixel's channels. */
static bool is_product(const Node *node) {
    if (!is_conv(node)) return false;
    const Value *weights = fuse_input(node, 1);
    const int64_t depth = fuse_dim(weights, 1);
    return depth > 0 && depth <= MOST_DEPTH && fuse_dim(weights, 2) == 1 &&
           fuse_dim(weights, 3) == 1 && fuse_dim(weights, 0) > 0 &&
           node_attr_int(node, "group", 1) == 1 && is_all(node, "strides", 1) &&
           is_all(node, "pads", 0);
}

static bool is_by_channel(const Node *node) {
    if (!is_conv(node) || fuse_input(node, 3)) return false;
    const Value *weights = fuse_input(node, 1);
    const int64_t channels = fuse_dim(weights, 0);
    return channels > 0 && fuse_dim(weights, 1) == 1 && fuse_dim(weights, 2) > 0 &&
           fuse_dim(weights, 3) > 0 && node_attr_int(node, "group", 1) == channels;
}

/* True where the cache would lose it before it is read. */
static bool is_large(const Value *between) {
    double size = type_dtype(between->type) == DTYPE_FLOAT ? sizeof(float) : sizeof(uint16_t);
    if (fuse_rank(between) != 4) return false;
    for (int64_t i = 1; i < 4; i++) {
        const int64_t dim = fuse_dim(between, i);
        size *= dim < 0 ? OPEN_SIDE : (double)dim;
    }
    return size >= LEAST_BETWEEN;
}

/* The activation of one of the nodes as one of `made`'s, by the names of its attributes. */
static void set_activation(Fuse *fuse, Node *made, const Node *from, const char *const names[2]) {
    const Attr *name = node_attr(from, "activation"),
               *params = node_attr(from, "activation_params");
    Bytes text;
    uint32_t count;
    const float *numbers = params ? attr_floats(params, &count) : NULL;
    if (name && attr_string(name, &text))
        node_set_attr_string(
            made, names[0],
            arena_printf(fuse->ctx->scratch, "%.*s", (int)text.size, (const char *)text.data));
    if (numbers) node_set_attr_floats(made, names[1], numbers, count);
}

/* The product that makes what the convolution alone reads, or NULL. */
static Node *product_before(const Node *conv) {
    const Value *x = fuse_input(conv, 0);
    Node *node = x->producer;
    const bool is_it = node && node->graph == conv->graph && is_product(node) &&
                       !fuse_input(node, 3) && fuse_reader(x) == conv;
    return is_it && fuse_dim(fuse_input(node, 1), 0) == fuse_dim(fuse_input(conv, 1), 0) ? node
                                                                                         : NULL;
}

static Node *product_behind(const Node *conv) {
    Node *node = fuse_reader(conv->outputs[0]);
    const bool is_it = is_product(node) && fuse_input(node, 0) == conv->outputs[0] &&
                       fuse_input(node, 3) != conv->outputs[0];
    return is_it && fuse_dim(fuse_input(node, 1), 1) == fuse_dim(fuse_input(conv, 1), 0) ? node
                                                                                         : NULL;
}

/* Of bfloat16, words are of two channels. All are of one type, as each is and hands it on. */
static bool suits_words(const Node *conv, const Node *before) {
    if (type_dtype(conv->outputs[0]->type) == DTYPE_FLOAT) return true;
    return fuse_dim(fuse_input(conv, 1), 0) % 2 == 0 &&
           (!before || fuse_dim(fuse_input(before, 1), 1) % 2 == 0);
}

static void visit(Fuse *fuse, Node *conv) {
    static const char *const inner[] = {"inner_activation", "inner_params"};
    static const char *const outer[] = {"outer_activation", "outer_params"};
    if (fuse->faithful || !is_by_channel(conv)) return;
    Node *before = product_before(conv), *behind = product_behind(conv);
    const bool large = (before && is_large(before->outputs[0])) || is_large(conv->outputs[0]);
    if ((!before && !behind) || !large || !suits_words(conv, before)) return;
    Node *nodes[3], *last = behind ? behind : conv;
    size_t count = 0;
    Node *made = fuse_new(fuse, last, "SeparableConvLast", last, 8);
    node_share_lists(made, conv);
    node_set_input(made, 0, fuse_input(before ? before : conv, 0));
    node_set_input(made, 1, fuse_input(conv, 1));
    node_set_input(made, 2, fuse_input(conv, 2));
    for (uint32_t i = 1; i < 3 && before; i++) node_set_input(made, 2 + i, fuse_input(before, i));
    for (uint32_t i = 1; i < 4 && behind; i++) node_set_input(made, 4 + i, fuse_input(behind, i));
    if (before) set_activation(fuse, made, before, inner);
    if (behind) set_activation(fuse, made, behind, outer);
    if (before) nodes[count++] = before;
    nodes[count++] = conv;
    if (behind) nodes[count++] = behind;
    fuse_replace(fuse, made, nodes, count);
}

FUSE_PASS(fuse_separable, "fuse-separable", "fuse separable convolutions and tile them, for plans",
          visit);
