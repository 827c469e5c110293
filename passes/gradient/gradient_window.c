// SPDX-License-Identifier: Apache-2.0
/* Gradients of convolutions and pools.
 *
 * A window that slides over an axis of `in` elements, `out` times, reads in + before + behind of them
 * exactly, where `behind` is what the sizes say: it may be more than the node's own padding (ceil_mode)
 * or negative (elements that no window reads). With these two numbers, whatever gave them (pads,
 * auto_pad, output_shape), sums of windows are transposed by ConvTranspose and the other way round. */
#include <string.h>

#include "gradient_rule.h"

typedef struct Window {
    uint32_t axes; /* spatial ones */
    int64_t groups;
    Value *weights; /* (channels of narrow, or of the input of ConvTranspose, …); ones of pools */
    int64_t *in, *out, *kernel, *strides, *dilations;
    int64_t *before, *behind; /* [axes] */
} Window;

enum { WINDOW_MOST = 1 << 24 }; /* of sizes, strides and the like */

static int64_t item_or(const int64_t *items, uint32_t count, uint32_t i, int64_t otherwise) {
    return items && i < count ? items[i] : otherwise;
}

static int64_t reach_of(const Window *w, uint32_t i) {
    return (w->kernel[i] - 1) * w->dilations[i] + 1;
}

/* The padding before, as auto_pad has it of what sizes ask for in all. */
static void set_pads(Grad *g, Window *w) {
    uint32_t count;
    const int64_t *pads = grad_list(g, "pads", &count);
    const bool upper = grad_is(g, "auto_pad", "SAME_UPPER");
    const bool same = upper || grad_is(g, "auto_pad", "SAME_LOWER");
    for (uint32_t i = 0; i < w->axes; i++) {
        const int64_t all = (w->out[i] - 1) * w->strides[i] + reach_of(w, i) - w->in[i];
        const int64_t some = all > 0 ? all : 0;
        w->before[i] = same ? (upper ? some / 2 : some - some / 2) : item_or(pads, count, i, 0);
        w->behind[i] = all - w->before[i];
    }
}

/* Padding, groups and powers. */
static bool check_rest(Grad *g) {
    static const char *const names[] = {"pads", "output_padding"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        uint32_t count;
        const int64_t *items = grad_list(g, names[k], &count);
        for (uint32_t i = 0; i < count; i++)
            if (items[i] < 0 || items[i] > WINDOW_MOST) grad_refuse(g, "of this padding");
    }
    const int64_t groups = grad_int(g, "group");
    if (op_schema_attr(g->schema, "group") && (groups < 1 || groups > WINDOW_MOST))
        grad_refuse(g, "of these groups");
    return !g->failed;
}

/* The window that slides over `wide`, giving `narrow`; its kernel is as large as its weights, or as the
 * attribute says. */
static bool read_window(Grad *g, Window *w, Value *wide, Value *narrow) {
    const uint32_t rank = grad_rank(g, wide);
    uint32_t kernels, strides, dilations;
    const int64_t *kernel = grad_list(g, "kernel_shape", &kernels);
    const int64_t *stride = grad_list(g, "strides", &strides);
    const int64_t *dilation = grad_list(g, "dilations", &dilations);
    if (rank < 3) {
        grad_refuse(g, "of no spatial axis");
        return false;
    }
    w->axes = rank - 2;
    int64_t **const lists[] = {&w->in,        &w->out,    &w->kernel, &w->strides,
                               &w->dilations, &w->before, &w->behind};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        *lists[i] = ARENA_ARRAY(g->make.ctx->scratch, int64_t, w->axes + 1);
    for (uint32_t i = 0; i < w->axes; i++) {
        w->in[i] = grad_size(g, wide, i + 2);
        w->out[i] = grad_size(g, narrow, i + 2);
        w->kernel[i] =
            w->weights ? grad_size(g, w->weights, i + 2) : item_or(kernel, kernels, i, 1);
        w->strides[i] = item_or(stride, strides, i, 1);
        w->dilations[i] = item_or(dilation, dilations, i, 1);
    }
    for (uint32_t i = 0; i < w->axes; i++)
        for (size_t k = 0; k < 5; k++) {
            const int64_t size = (*lists[k])[i];
            if (size < 1 || size > WINDOW_MOST) grad_refuse(g, "of these sizes");
        }
    return !g->failed && check_rest(g);
}

/* ---- sums of windows, and back --------------------------------------------------------------- */

static void set_window(Node *node, const Window *w, const int64_t *strides,
                       const int64_t *dilations) {
    node_set_attr_ints(node, "strides", strides, w->axes);
    node_set_attr_ints(node, "dilations", dilations, w->axes);
}

static void set_both_pads(Grad *g, Node *node, const Window *w) {
    int64_t *pads = ARENA_ARRAY(g->make.ctx->scratch, int64_t, 2 * w->axes + 1);
    for (uint32_t i = 0; i < w->axes; i++) {
        pads[i] = w->before[i];
        pads[w->axes + i] = w->behind[i] < 0 ? 0 : w->behind[i];
    }
    node_set_attr_ints(node, "pads", pads, 2 * w->axes);
}

/* The value without the last elements, which no window reads. */
static Value *read_part(Grad *g, const Window *w, Value *value) {
    for (uint32_t i = 0; i < w->axes; i++)
        if (w->behind[i] < 0) {
            Value *start = grad_int_list(g, 0), *end = grad_int_list(g, w->in[i] + w->behind[i]);
            value = GRAD(g, "Slice", value, start, end, grad_int_list(g, i + 2));
        }
    return value;
}

/* What each window sums up, weighted: of `wide`'s shape to `narrow`'s. */
static Value *gathered(Grad *g, const Window *w, Value *wide) {
    Value *sums = GRAD(g, "Conv", read_part(g, w, wide), w->weights);
    set_window(sums->producer, w, w->strides, w->dilations);
    set_both_pads(g, sums->producer, w);
    node_set_attr_int(sums->producer, "group", w->groups);
    return sums;
}

/* The transpose: what each element gets from all windows that read it. */
static Value *spread(Grad *g, const Window *w, Value *narrow) {
    Value *parts = GRAD(g, "ConvTranspose", narrow, w->weights);
    int64_t *more = ARENA_ARRAY(g->make.ctx->scratch, int64_t, w->axes + 1);
    for (uint32_t i = 0; i < w->axes; i++) more[i] = w->behind[i] < 0 ? -w->behind[i] : 0;
    set_window(parts->producer, w, w->strides, w->dilations);
    set_both_pads(g, parts->producer, w);
    node_set_attr_ints(parts->producer, "output_padding", more, w->axes);
    node_set_attr_int(parts->producer, "group", w->groups);
    return parts;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* The first two axes exchanged. */
static Value *channels_first(Grad *g, Value *value, uint32_t rank) {
    int64_t *perm = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    perm[0] = 1;
    perm[1] = 0;
    return grad_transpose(g, value, perm, rank);
}

/* What windows read of (N, groups * C, …) as (C, groups * N, …): channels of a group become samples. */
static Value *groups_apart(Grad *g, const Window *w, Value *wide) {
    const uint32_t rank = w->axes + 3;
    int64_t *dims = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    int64_t *joined = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    int64_t *perm = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    dims[0] = 0;
    dims[1] = w->groups;
    dims[2] = joined[0] = grad_size(g, w->weights, 1);
    joined[1] = -1;
    for (uint32_t i = 0; i < rank; i++) perm[i] = i < 3 ? 2 - i : i;
    for (uint32_t i = 0; i < w->axes; i++)
        dims[3 + i] = joined[2 + i] = w->in[i] + (w->behind[i] < 0 ? w->behind[i] : 0);
    Value *parts = GRAD(g, "Reshape", wide, grad_ints(g, dims, rank));
    parts = grad_transpose(g, parts, perm, rank);
    return GRAD(g, "Reshape", parts, grad_ints(g, joined, rank - 1));
}

/* What flows into weights (of narrow's channels, of wide's in a group, …): the window's strides and
 * dilations change their roles, and samples are what is summed over. */
static Value *weights_flow(Grad *g, const Window *w, Value *wide, Value *narrow) {
    wide = read_part(g, w, wide);
    wide = w->groups == 1 ? channels_first(g, wide, w->axes + 2) : groups_apart(g, w, wide);
    Value *turned = channels_first(g, narrow, w->axes + 2);
    Value *flow = GRAD(g, "Conv", wide, turned);
    set_window(flow->producer, w, w->dilations, w->strides);
    set_both_pads(g, flow->producer, w);
    node_set_attr_int(flow->producer, "group", w->groups);
    return channels_first(g, flow, w->axes + 2);
}

/* A bias is added to every place of a channel. */
static void give_bias(Grad *g, uint32_t rank) {
    int64_t *axes = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < rank; i++)
        if (i != 1) axes[count++] = i;
    grad_give(g, 2, grad_reduce_away(g, "ReduceSum", grad_flow(g, 0), (GradAxes){axes, count}));
}

void gradient_conv(Grad *g) {
    Value *x = grad_in(g, 0), *dy = grad_flow(g, 0);
    Window w = {.weights = grad_in(g, 1), .groups = grad_int(g, "group")};
    if (grad_wants(g, 2)) give_bias(g, grad_rank(g, x));
    if (!read_window(g, &w, x, grad_out(g, 0))) return;
    set_pads(g, &w);
    if (grad_wants(g, 0)) grad_give(g, 0, spread(g, &w, dy));
    if (grad_wants(g, 1)) grad_give(g, 1, weights_flow(g, &w, x, dy));
}

/* The padding before, which is what is cut off there: with output_shape, a share of what its sizes
 * say in all, as auto_pad has it. */
static void set_transposed_pads(Grad *g, Window *w) {
    uint32_t count, shape, more;
    const int64_t *pads = grad_list(g, "pads", &count);
    const int64_t *extra = grad_list(g, "output_padding", &more);
    const bool upper = grad_is(g, "auto_pad", "SAME_UPPER");
    const bool shaped = grad_list(g, "output_shape", &shape) != NULL || upper ||
                        grad_is(g, "auto_pad", "SAME_LOWER");
    for (uint32_t i = 0; i < w->axes; i++) {
        const int64_t full = (w->out[i] - 1) * w->strides[i] + reach_of(w, i);
        const int64_t added = full + item_or(extra, more, i, 0) - w->in[i];
        const int64_t some = added > 0 ? added : 0;
        w->before[i] = shaped ? (upper ? some / 2 : some - some / 2) : item_or(pads, count, i, 0);
        w->behind[i] = full - w->in[i] - w->before[i];
    }
}

void gradient_conv_transpose(Grad *g) {
    Value *x = grad_in(g, 0), *dy = grad_flow(g, 0);
    Window w = {.weights = grad_in(g, 1), .groups = grad_int(g, "group")};
    if (grad_wants(g, 2)) give_bias(g, grad_rank(g, x));
    if (!read_window(g, &w, grad_out(g, 0), x)) return;
    set_transposed_pads(g, &w);
    if (grad_wants(g, 0)) grad_give(g, 0, gathered(g, &w, dy));
    if (grad_wants(g, 1)) grad_give(g, 1, weights_flow(g, &w, dy, x));
}

/* Columns are what windows over the image read: a convolution whose every channel reads one place of
 * the window. */
void gradient_col2im(Grad *g) {
    Value *block = grad_in(g, 2), *places = GRAD(g, "ReduceProd", block);
    node_set_attr_int(places->producer, "keepdims", 1);
    Value *square = GRAD(g, "Concat", places, places);
    node_set_attr_int(square->producer, "axis", 0);
    Value *zero = grad_number(g, 0, grad_flow(g, 0));
    Value *unit = GRAD(g, "EyeLike", GRAD(g, "Expand", zero, square));
    const int64_t single[] = {-1, 1};
    Value *kernel = GRAD(g, "Concat", grad_ints(g, single, 2), block);
    node_set_attr_int(kernel->producer, "axis", 0);
    Value *image = GRAD(g, "Concat", grad_ints(g, single, 2), grad_in(g, 1));
    node_set_attr_int(image->producer, "axis", 0);
    Value *columns = GRAD(g, "Conv", GRAD(g, "Reshape", grad_flow(g, 0), image),
                          GRAD(g, "Reshape", unit, kernel));
    grad_keep_attrs(g, columns->producer);
    grad_give(g, 0, grad_reshape_like(g, columns, grad_in(g, 0)));
}

/* ---- pools that sum -------------------------------------------------------------------------- */

/* (1, 1, kernel), all 1. */
static Value *window_ones(Grad *g, const Window *w, const int64_t *sizes, const Value *like) {
    int64_t *dims = ARENA_ARRAY(g->make.ctx->scratch, int64_t, w->axes + 3);
    dims[0] = dims[1] = 1;
    for (uint32_t i = 0; i < w->axes; i++) dims[2 + i] = sizes[i];
    Value *one = grad_number(g, 1, like);
    return GRAD_AS(g, "Expand", type_dtype(like->type), one, grad_ints(g, dims, w->axes + 2));
}

/* Every channel on its own: (N * C, 1, …). */
static Value *alone(Grad *g, const Window *w, Value *value, const int64_t *sizes) {
    int64_t *dims = ARENA_ARRAY(g->make.ctx->scratch, int64_t, w->axes + 3);
    dims[0] = -1;
    dims[1] = 1;
    for (uint32_t i = 0; i < w->axes; i++) dims[2 + i] = sizes[i];
    return GRAD(g, "Reshape", value, grad_ints(g, dims, w->axes + 2));
}

/* What flows into each element, of what flows into the sum of each window. */
static Value *unpooled(Grad *g, const Window *w, Value *flow) {
    Window ones = *w;
    ones.weights = window_ones(g, w, w->kernel, flow);
    Value *parts = spread(g, &ones, alone(g, w, flow, w->out));
    return grad_reshape_like(g, parts, grad_in(g, 0));
}

/* How many elements each window's mean is of, as (1, 1, out …): those of the input, or of its padding
 * too, but never what lies behind that. */
static Value *window_sizes(Grad *g, const Window *w) {
    uint32_t count;
    const int64_t *pads = grad_list(g, "pads", &count);
    const bool counts_pads = grad_int(g, "count_include_pad");
    const bool automatic = !grad_is(g, "auto_pad", "NOTSET");
    Window cells = *w;
    Arena *scratch = g->make.ctx->scratch;
    cells.in = ARENA_ARRAY(scratch, int64_t, w->axes + 1);
    cells.before = ARENA_ARRAY(scratch, int64_t, w->axes + 1);
    cells.behind = ARENA_ARRAY(scratch, int64_t, w->axes + 1);
    for (uint32_t i = 0; i < w->axes; i++) {
        const int64_t own = automatic ? (w->behind[i] > 0 ? w->behind[i] : 0)
                                      : item_or(pads, count, w->axes + i, 0);
        const int64_t added = counts_pads ? w->before[i] + own : 0;
        cells.in[i] = w->in[i] + added;
        cells.before[i] = counts_pads ? 0 : w->before[i];
        cells.behind[i] = w->before[i] + w->behind[i] - added - cells.before[i];
    }
    Value *wide = window_ones(g, &cells, cells.in, grad_flow(g, 0));
    cells.weights = window_ones(g, w, w->kernel, grad_flow(g, 0));
    return gathered(g, &cells, wide);
}

void gradient_average_pool(Grad *g) {
    Window w = {.groups = 1};
    if (!read_window(g, &w, grad_in(g, 0), grad_out(g, 0))) return;
    set_pads(g, &w);
    grad_give(g, 0, unpooled(g, &w, GRAD(g, "Div", grad_flow(g, 0), window_sizes(g, &w))));
}

/* y is the p-th root of a sum of p-th powers. */
static Value *root_flow(Grad *g) {
    Value *p = grad_number(g, (double)grad_int(g, "p"), grad_flow(g, 0));
    return GRAD_CALC(g, "dy * Pow(Where(y == 0, 1, y), 1 - p)", p);
}

static Value *power_flow(Grad *g, Value *flow) {
    Value *p = grad_number(g, (double)grad_int(g, "p"), grad_flow(g, 0));
    Value *x = grad_in(g, 0);
    return GRAD_CALC(g, "p * Sign(q) * Pow(Abs(q), r - 1)", flow, x, p);
}

void gradient_lp_pool(Grad *g) {
    Window w = {.groups = 1};
    if (!read_window(g, &w, grad_in(g, 0), grad_out(g, 0))) return;
    set_pads(g, &w);
    grad_give(g, 0, power_flow(g, unpooled(g, &w, root_flow(g))));
}

void gradient_global_lp_pool(Grad *g) {
    grad_give(g, 0, power_flow(g, root_flow(g)));
}

/* ---- pools of all places --------------------------------------------------------------------- */

static uint32_t spatial_axes(Grad *g, int64_t **axes) {
    const uint32_t rank = grad_rank(g, grad_in(g, 0));
    *axes = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = 2; i < rank; i++) (*axes)[i - 2] = i;
    return rank > 2 ? rank - 2 : 0;
}

void gradient_global_average_pool(Grad *g) {
    int64_t *axes;
    const uint32_t count = spatial_axes(g, &axes);
    Value *x = grad_in(g, 0);
    Value *size = grad_reduce(g, "ReduceSum", grad_fill(g, 1, x), (GradAxes){axes, count});
    Value *share = GRAD(g, "Div", grad_flow(g, 0), size);
    grad_give(g, 0, GRAD(g, "Expand", share, grad_shape(g, x)));
}

/* Those that are equally large share what flows. */
void gradient_global_max_pool(Grad *g) {
    int64_t *axes;
    const uint32_t rest = spatial_axes(g, &axes);
    Value *dy = grad_flow(g, 0);
    Value *hits = grad_cast(g, GRAD_CALC(g, "x == y", NULL), type_dtype(dy->type));
    Value *count = grad_reduce(g, "ReduceSum", hits, (GradAxes){axes, rest});
    grad_give(g, 0, GRAD_CALC(g, "dy * p / q", hits, count));
}

/* ---- pools that choose ----------------------------------------------------------------------- */

/* The places, which another MaxPool tells where the node itself does not. */
static Value *max_places(Grad *g) {
    if (grad_out(g, 1)) return grad_out(g, 1);
    Node *again = make_node(&g->make, sym_text(g->node->op_type), NULL, 1);
    node_set_input(again, 0, grad_in(g, 0));
    grad_keep_attrs(g, again);
    make_output(&g->make, again, type_dtype(grad_in(g, 0)->type));
    return make_output(&g->make, again, DTYPE_INT64);
}

void gradient_max_pool(Grad *g) {
    if (grad_int(g, "storage_order")) {
        grad_refuse(g, "of places in column-major order");
        return;
    }
    if (!grad_flow(g, 0)) return;
    Value *places = max_places(g);
    grad_give(g, 0, grad_scatter_flat(g, grad_in(g, 0), places, grad_flow(g, 0)));
}

void gradient_max_unpool(Grad *g) {
    if (grad_in(g, 2)) {
        grad_refuse(g, "with output_shape");
        return;
    }
    Value *flat = GRAD(g, "Reshape", grad_flow(g, 0), grad_int_list(g, -1));
    Value *places = GRAD(g, "Reshape", grad_in(g, 1), grad_int_list(g, -1));
    Value *flow = GRAD(g, "GatherElements", flat, places);
    grad_give(g, 0, grad_reshape_like(g, flow, grad_in(g, 0)));
}
