// SPDX-License-Identifier: Apache-2.0
/* read-kv-cache: attention reads keys and values of the past, and those behind them, where they lie.
 *
 *   Attention(Q, Concat(pastK, K), Concat(pastV, V), Keep, Bias)
 *     ->  Attention(Q, K, V, Keep, Bias, pastK, pastV)
 *
 * The Concats stay for who else reads them, which in a decoder is nobody but the caller: what he gets is
 * written past the caches then (kernel_move.c), and nothing is read of it. Both are along the axis of rows,
 * of two tensors, and have as many rows of the past and behind it. Of demi.fused's Attention, so behind
 * fuse-attention; what it reads parts of one tensor of has no past. Not for devices, whose kernels read one
 * tensor.
 */
#include "fuse_graph.h"

/* Of an operand: how many axes are named, and which of them is that of rows (operators/fused.def). */
enum { HEAD_AXES = 4, HEAD_ROWS = 2 };

/* What an operand of attention is joined of. */
typedef struct Joined {
    Value *past, *now;
    int64_t axis; /* of rows, in both */
} Joined;

static int64_t rows_axis(const Node *attention, const char *axes, const Value *value) {
    uint32_t count;
    const int64_t *listed = attr_ints(node_attr(attention, axes), &count);
    return !listed              ? fuse_rank(value) - HEAD_AXES + HEAD_ROWS
           : count == HEAD_AXES ? listed[HEAD_ROWS]
                                : -1;
}

static bool find_joined(const Node *attention, uint32_t input, const char *axes, Joined *found) {
    const Value *value = fuse_input(attention, input);
    const Node *concat = value ? value->producer : NULL;
    if (!fuse_is(concat, "Concat") || concat->graph != attention->graph || concat->input_count != 2)
        return false;
    found->past = fuse_input(concat, 0);
    found->now = fuse_input(concat, 1);
    found->axis = rows_axis(attention, axes, value);
    const int64_t rank = fuse_rank(value), joined = node_attr_int(concat, "axis", 1);
    return found->past && found->now && found->axis >= 0 && found->axis < rank &&
           fuse_rank(found->past) == rank && fuse_rank(found->now) == rank &&
           found->axis == (joined < 0 ? joined + rank : joined) && fuse_takes(found->past) &&
           fuse_takes(found->now);
}

static bool same_rows(const Value *a, int64_t i, const Value *b, int64_t k) {
    return dim_same(&value_type(a)->dims[i], &value_type(b)->dims[k]);
}

static void visit(Fuse *fuse, Node *node) {
    enum { PAST = 5, INPUTS = 7 }; /* operators/fused.def */
    Joined k, v;
    if (fuse->faithful || !sym_equals(node->domain, FUSED_DOMAIN) ||
        !sym_equals(node->op_type, "Attention") || node_attr(node, "parts") ||
        fuse_input(node, PAST) || !find_joined(node, 1, "k_axes", &k) ||
        !find_joined(node, 2, "v_axes", &v) || !same_rows(k.past, k.axis, v.past, v.axis) ||
        !same_rows(k.now, k.axis, v.now, v.axis))
        return;
    node_resize_inputs(node, INPUTS);
    node_set_input(node, 1, k.now);
    node_set_input(node, 2, v.now);
    node_set_input(node, PAST, k.past);
    node_set_input(node, PAST + 1, v.past);
    fuse->ctx->counts->rewrites++;
}

FUSE_PASS(read_kv_cache, "read-kv-cache", "let attention read the KV cache in place, for plans",
          visit);
