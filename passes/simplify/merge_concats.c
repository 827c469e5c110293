// SPDX-License-Identifier: Apache-2.0
/* One Concat of several; see merge_concats.h. */
#include "merge_concats.h"

#include "fuse_graph.h"
#include "simplify_graph.h"

enum { AXIS_OPSET = 4, NO_AXIS = INT64_MIN };

/* From the front, where the rank is known; before opset 4 the axis may be left out. */
static int64_t axis_of(const Node *concat) {
    const int64_t rank = fuse_rank(concat->outputs[0]);
    const int64_t axis = node_attr_int(concat, "axis", NO_AXIS);
    if (axis == NO_AXIS || axis >= 0) return axis;
    return rank < 0 ? NO_AXIS : axis + rank;
}

/* The Concat that gives operand i, which nothing else reads; NULL where there is none. */
static const Node *inner_of(const Node *outer, uint32_t i) {
    const Value *value = outer->inputs[i].value;
    const Node *inner = value ? value->producer : NULL;
    const int64_t axis = axis_of(outer);
    if (!simplify_is(inner, "Concat") || fuse_reader(value) != outer || axis == NO_AXIS ||
        fuse_opset(outer) < AXIS_OPSET || axis_of(inner) != axis)
        return NULL;
    return inner;
}

static void merge(PassCtx *ctx, Node *outer, uint32_t at) {
    Node *inner = outer->inputs[at].value->producer;
    const uint32_t count = inner->input_count, behind = outer->input_count - at - 1;
    Value **values = ARENA_ARRAY(ctx->scratch, Value *, count + behind);
    for (uint32_t i = 0; i < count; i++) values[i] = inner->inputs[i].value;
    for (uint32_t i = 0; i < behind; i++) values[count + i] = outer->inputs[at + 1 + i].value;
    node_resize_inputs(outer, at + count + behind);
    for (uint32_t i = 0; i < count + behind; i++) node_set_input(outer, at + i, values[i]);
    node_remove_unswept(inner);
    ctx->counts->rewrites++;
}

void concats_merge(PassCtx *ctx, Node *outer) {
    uint32_t i = 0;
    while (i < outer->input_count)
        if (inner_of(outer, i))
            merge(ctx, outer, i);
        else
            i++;
}
