// SPDX-License-Identifier: Apache-2.0
/* One Slice of two, one Split of several; see merge_slices.h. Since opset 10, where places are
 * operands. */
#include "merge_slices.h"

#include "fuse_graph.h"
#include "simplify_graph.h"

enum { STARTS = 1, ENDS, AXES, STEPS, MOST_AXES = 64, MOST_PARTS = 64, SPLIT_SINCE = 13 };

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

/* ---- a Split --------------------------------------------------------------------------------- */

/* One axis of a value, from place to place. */
typedef struct Part {
    int64_t axis, start, end;
} Part;

static int64_t clamp(int64_t place, int64_t size) {
    if (place < 0) place += size;
    return place < 0 ? 0 : place > size ? size : place;
}

static bool has_slicing_reader(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (simplify_is(use->node, "Slice") || simplify_is(use->node, "Squeeze")) return true;
    return false;
}

/* What a Slice of one axis takes, where it is not empty. */
static bool read_part(PassCtx *ctx, const Node *slice, Part *part) {
    Places places;
    if (!slice || !fuse_record(slice) || has_slicing_reader(slice->outputs[0]) ||
        !read_places(ctx, slice, &places) || places.count != 1 || places.steps[0] != 1)
        return false;
    const int64_t size = fuse_dim(slice->inputs[0].value, places.axes[0]);
    *part = (Part){places.axes[0], clamp(places.starts[0], size), clamp(places.ends[0], size)};
    return size > 0 && part->start < part->end;
}

/* The Slice of x that begins at `start` of that axis; its end in *end. */
static Node *find_part(PassCtx *ctx, const Value *x, const Node *like, int64_t axis, int64_t start,
                       int64_t *end) {
    for (const Use *use = x->uses; use; use = use->next) {
        Part part;
        if (use->index != 0 || !use->node || use->node->graph != like->graph ||
            fuse_opset(use->node) != fuse_opset(like) || !read_part(ctx, use->node, &part) ||
            part.axis != axis || part.start != start)
            continue;
        *end = part.end;
        return use->node;
    }
    return NULL;
}

static void put_split(PassCtx *ctx, Value *x, int64_t axis, Node *const *slices,
                      const int64_t *sizes, uint32_t count) {
    Fuse fuse = {.ctx = ctx};
    Node *first = x->producer ? node_after(x->producer) : x->graph->first;
    Node *split = node_new(x->graph, first, sym_intern_cstr(&ctx->model->syms, "Split"), NULL);
    split->name = slices[0]->name;
    node_resize_inputs(split, 2);
    node_resize_outputs(split, count);
    node_set_input(split, 0, x);
    node_set_input(split, 1, fuse_new_ints(&fuse, x->graph, sizes, count));
    node_set_attr_int(split, "axis", axis);
    for (uint32_t i = 0; i < count; i++) {
        Value *result = slices[i]->outputs[0];
        node_set_output(slices[i], 0, NULL);
        node_set_output(split, i, result);
        node_remove_unswept(slices[i]);
    }
    ctx->counts->rewrites++;
}

bool slices_become_split(PassCtx *ctx, const Node *slice) {
    Node *slices[MOST_PARTS];
    int64_t sizes[MOST_PARTS], at = 0;
    uint32_t count = 0;
    Part part;
    if (!simplify_is(slice, "Slice") || fuse_opset(slice) < SPLIT_SINCE ||
        !model_has_free_initializers(ctx->model) || !read_part(ctx, slice, &part))
        return false;
    Value *x = slice->inputs[0].value;
    const int64_t size = fuse_dim(x, part.axis);
    if (x->graph != slice->graph) return false;
    while (at < size && count < MOST_PARTS) {
        int64_t end;
        slices[count] = find_part(ctx, x, slice, part.axis, at, &end);
        if (!slices[count]) return false;
        sizes[count++] = end - at;
        at = end;
    }
    if (at != size || count < 2) return false;
    put_split(ctx, x, part.axis, slices, sizes, count);
    return true;
}
