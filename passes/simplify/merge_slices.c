// SPDX-License-Identifier: Apache-2.0
/* One Slice of two; see merge_slices.h. Since opset 10, where places are operands. */
#include "merge_slices.h"

#include "fuse_graph.h"
#include "simplify_graph.h"

enum { STARTS = 1, ENDS, AXES, STEPS, MOST_AXES = 64 };

/* Where a Slice begins and ends, by axis. */
typedef struct Places {
    uint64_t count;
    int64_t *starts, *ends, *axes, *steps;
} Places;

static bool read_axes(PassCtx *ctx, const Node *slice, Places *places) {
    const int64_t rank = fuse_rank(slice->inputs[0].value);
    uint64_t count = places->count;
    places->axes = ARENA_ARRAY(ctx->scratch, int64_t, MOST_AXES);
    for (uint64_t i = 0; i < count; i++) places->axes[i] = (int64_t)i;
    if (fuse_input(slice, AXES) &&
        !simplify_read_ints(ctx, fuse_input(slice, AXES), MOST_AXES, &places->axes, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (places->axes[i] < 0 && rank < 0) return false;
        if (places->axes[i] < 0) places->axes[i] += rank;
    }
    return count == places->count;
}

static bool read_places(PassCtx *ctx, const Node *slice, Places *places) {
    uint64_t ends, count = 0;
    if (!simplify_is(slice, "Slice") || fuse_opset(slice) < 10 || !fuse_input(slice, 0) ||
        !simplify_read_ints(ctx, fuse_input(slice, STARTS), MOST_AXES, &places->starts,
                            &places->count) ||
        !simplify_read_ints(ctx, fuse_input(slice, ENDS), MOST_AXES, &places->ends, &ends) ||
        ends != places->count || !read_axes(ctx, slice, places))
        return false;
    if (fuse_input(slice, STEPS))
        return simplify_read_ints(ctx, fuse_input(slice, STEPS), MOST_AXES, &places->steps,
                                  &count) &&
               count == places->count;
    places->steps = ARENA_ARRAY(ctx->scratch, int64_t, MOST_AXES);
    for (uint64_t i = 0; i < places->count; i++) places->steps[i] = 1;
    return true;
}

/* The places of both, in one; false where they have an axis in common. */
static bool join(PassCtx *ctx, const Places *a, const Places *b, Places *both) {
    uint64_t count = a->count + b->count;
    for (uint64_t i = 0; i < a->count; i++)
        for (uint64_t k = 0; k < b->count; k++)
            if (a->axes[i] == b->axes[k]) return false;
    both->count = count;
    both->starts = ARENA_ARRAY(ctx->scratch, int64_t, count + 1);
    both->ends = ARENA_ARRAY(ctx->scratch, int64_t, count + 1);
    both->axes = ARENA_ARRAY(ctx->scratch, int64_t, count + 1);
    both->steps = ARENA_ARRAY(ctx->scratch, int64_t, count + 1);
    for (uint64_t i = 0; i < count; i++) {
        const Places *from = i < a->count ? a : b;
        uint64_t at = i < a->count ? i : i - a->count;
        both->starts[i] = from->starts[at];
        both->ends[i] = from->ends[at];
        both->axes[i] = from->axes[at];
        both->steps[i] = from->steps[at];
    }
    return true;
}

static bool has_steps(const Places *places) {
    for (uint64_t i = 0; i < places->count; i++)
        if (places->steps[i] != 1) return true;
    return false;
}

static bool is_read_by_slices(const Value *value) {
    if (value->referenced) return false;
    for (const Use *use = value->uses; use; use = use->next)
        if (!simplify_is(use->node, "Slice") || use->index != 0) return false;
    return true;
}

bool slices_merge(PassCtx *ctx, Node *outer) {
    Node *inner = outer->inputs[0].value->producer;
    Places before, after, both;
    Fuse fuse = {.ctx = ctx};
    if (!inner || !model_has_free_initializers(ctx->model) ||
        !is_read_by_slices(outer->inputs[0].value) || !read_places(ctx, inner, &before) ||
        !read_places(ctx, outer, &after) || !join(ctx, &before, &after, &both))
        return false;
    const uint32_t count = (uint32_t)both.count;
    node_resize_inputs(outer, has_steps(&both) ? STEPS + 1 : STEPS);
    node_set_input(outer, 0, inner->inputs[0].value);
    node_set_input(outer, STARTS, fuse_new_ints(&fuse, outer->graph, both.starts, count));
    node_set_input(outer, ENDS, fuse_new_ints(&fuse, outer->graph, both.ends, count));
    node_set_input(outer, AXES, fuse_new_ints(&fuse, outer->graph, both.axes, count));
    if (has_steps(&both))
        node_set_input(outer, STEPS, fuse_new_ints(&fuse, outer->graph, both.steps, count));
    ctx->counts->rewrites++;
    return true;
}
