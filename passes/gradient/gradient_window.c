// SPDX-License-Identifier: Apache-2.0
/* Gradients of convolutions and pools.
 *
 * A window that slides over an axis of `in` elements, `out` times, reads in + before + behind of them
 * exactly, where `behind` is what the sizes say: it may be more than the node's own padding (ceil_mode)
 * or negative (elements that no window reads). With these two numbers, whatever gave them (pads,
 * auto_pad, output_shape), sums of windows are transposed by ConvTranspose and the other way round.
 * Sizes that only a run knows are computed in the graph, which pads and cuts what windows read. */
#include <string.h>

#include "fuse_graph.h"
#include "gradient_rule.h"

typedef struct Window {
    uint32_t axes; /* spatial ones */
    int64_t groups;
    Value *weights; /* (channels of narrow, or of the input of ConvTranspose, …); ones of pools */
    int64_t *in, *out, *kernel, *strides, *dilations;
    int64_t *before, *behind; /* [axes] */
    bool unknown;             /* a size is open */
    /* Where the padding is, too, in place of in, out, before and behind, lists of int64: */
    bool open;
    Value *sizes, *counts; /* in, out */
    Value *start, *reads;  /* before; in + before + behind */
} Window;

/* How a node says what the padding is: shares of what sizes ask for in all, of which the odd one is
 * behind (upper) or before, or numbers. */
typedef struct Padding {
    bool automatic, upper, shaped; /* shaped: output_shape */
    const int64_t *pads, *extra;   /* extra: output_padding */
    uint32_t count, extra_count;
} Padding;

enum { WINDOW_MOST = 1 << 24 }; /* of sizes, strides and the like */

static int64_t item_or(const int64_t *items, uint32_t count, uint32_t i, int64_t otherwise) {
    return items && i < count ? items[i] : otherwise;
}

static int64_t reach_of(const Window *w, uint32_t i) {
    return (w->kernel[i] - 1) * w->dilations[i] + 1;
}

static Padding padding_of(Grad *g) {
    Padding p = {.upper = grad_is(g, "auto_pad", "SAME_UPPER")};
    uint32_t count;
    p.pads = grad_list(g, "pads", &p.count);
    p.extra = grad_list(g, "output_padding", &p.extra_count);
    p.shaped = grad_list(g, "output_shape", &count) != NULL;
    p.automatic = p.upper || p.shaped || grad_is(g, "auto_pad", "SAME_LOWER");
    return p;
}

/* What a convolution with stride 1 reads beyond its input is the same of whatever sizes: puts sizes in
 * the place of open ones that say so. False where an axis has another stride. */
static bool settle_sizes(Window *w, const Padding *p) {
    for (uint32_t i = 0; i < w->axes; i++) {
        if (w->in[i] && w->out[i]) continue;
        if (!w->weights || w->strides[i] != 1 || p->shaped ||
            item_or(p->extra, p->extra_count, i, 0))
            return false;
    }
    for (uint32_t i = 0; i < w->axes; i++) {
        if (w->in[i] && w->out[i]) continue;
        const int64_t pads =
            item_or(p->pads, p->count, i, 0) + item_or(p->pads, p->count, w->axes + i, 0);
        w->out[i] = 1;
        w->in[i] = reach_of(w, i) - (p->automatic ? reach_of(w, i) - 1 : pads);
    }
    return true;
}

static void set_known_pads(Window *w, const Padding *p) {
    for (uint32_t i = 0; i < w->axes; i++) {
        const int64_t all = (w->out[i] - 1) * w->strides[i] + reach_of(w, i) - w->in[i];
        const int64_t asked = all + item_or(p->extra, p->extra_count, i, 0);
        const int64_t some = asked > 0 ? asked : 0;
        w->before[i] = p->automatic ? (p->upper ? some / 2 : some - some / 2)
                                    : item_or(p->pads, p->count, i, 0);
        w->behind[i] = all - w->before[i];
    }
}

/* The same of lists. */
static void set_open_pads(Grad *g, Window *w, const Padding *p) {
    Arena *scratch = g->make.ctx->scratch;
    int64_t *first = ARENA_ARRAY(scratch, int64_t, w->axes + 1);
    int64_t *extra = ARENA_ARRAY(scratch, int64_t, w->axes + 1);
    for (uint32_t i = 0; i < w->axes; i++) {
        first[i] = reach_of(w, i) - w->strides[i];
        extra[i] = item_or(p->extra, p->extra_count, i, 0);
        w->before[i] = item_or(p->pads, p->count, i, 0);
    }
    w->reads = GRAD(g, "Mul", w->counts, grad_ints(g, w->strides, w->axes));
    w->reads = GRAD(g, "Add", w->reads, grad_ints(g, first, w->axes));
    w->start = grad_ints(g, w->before, w->axes);
    if (!p->automatic) return;
    Value *some = GRAD(g, "Sub", w->reads, w->sizes);
    some = GRAD(g, "Max", GRAD(g, "Add", some, grad_ints(g, extra, w->axes)), grad_int_list(g, 0));
    Value *half = GRAD(g, "Div", some, grad_int_list(g, 2));
    w->start = p->upper ? half : GRAD(g, "Sub", some, half);
}

/* A list of a value's spatial sizes. */
static Value *spatial_sizes(Grad *g, Value *value, uint32_t axes) {
    return GRAD(g, "Slice", grad_shape(g, value), grad_int_list(g, 2), grad_int_list(g, axes + 2));
}

static void set_pads(Grad *g, Window *w, Value *wide, Value *narrow) {
    const Padding padding = padding_of(g);
    w->open = w->unknown && !settle_sizes(w, &padding);
    if (!w->open) {
        set_known_pads(w, &padding);
        return;
    }
    w->sizes = spatial_sizes(g, wide, w->axes);
    w->counts = spatial_sizes(g, narrow, w->axes);
    set_open_pads(g, w, &padding);
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

/* A size, or 0 where it is open. */
static int64_t size_of(Grad *g, Window *w, const Value *value, uint32_t axis) {
    const int64_t size = fuse_dim(value, axis);
    w->unknown = w->unknown || size < 0;
    if (size == 0) grad_refuse(g, "of these sizes");
    return size < 0 ? 0 : size;
}

/* A shape: two or three sizes, then spatial ones, `known` or, where there is one, the list `open`. */
typedef struct Outer {
    int64_t sizes[3];
    uint32_t count;
} Outer;

static Value *shape_of(Grad *g, const Window *w, Outer outer, const int64_t *known, Value *open) {
    if (open) return GRAD_LIST(g, grad_ints(g, outer.sizes, outer.count), open);
    int64_t *dims = ARENA_ARRAY(g->make.ctx->scratch, int64_t, outer.count + w->axes);
    memcpy(dims, outer.sizes, outer.count * sizeof *dims);
    memcpy(dims + outer.count, known, w->axes * sizeof *dims);
    return grad_ints(g, dims, outer.count + w->axes);
}

/* The window that slides over `wide`, giving `narrow`; its kernel is as large as its weights, or as the
 * attribute says. */
static bool read_window(Grad *g, Window *w, Value *wide, Value *narrow) {
    const uint32_t rank = grad_rank(g, w->weights ? w->weights : wide);
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
        w->in[i] = size_of(g, w, wide, i + 2);
        w->out[i] = size_of(g, w, narrow, i + 2);
        w->kernel[i] =
            w->weights ? grad_size(g, w->weights, i + 2) : item_or(kernel, kernels, i, 1);
        w->strides[i] = item_or(stride, strides, i, 1);
        w->dilations[i] = item_or(dilation, dilations, i, 1);
    }
    for (uint32_t i = 0; i < w->axes; i++)
        for (size_t k = 0; k < 5; k++) {
            const int64_t size = (*lists[k])[i], least = k < 2 ? 0 : 1;
            if (size < least || size > WINDOW_MOST) grad_refuse(g, "of these sizes");
        }
    if (g->failed || !check_rest(g)) return false;
    set_pads(g, w, wide, narrow);
    return true;
}

/* ---- sums of windows, and back --------------------------------------------------------------- */

static void set_window(Node *node, const Window *w, const int64_t *strides,
                       const int64_t *dilations) {
    node_set_attr_ints(node, "strides", strides, w->axes);
    node_set_attr_ints(node, "dilations", dilations, w->axes);
}

/* Where sizes are open, what is read is as large as windows read it. */
static void set_both_pads(Grad *g, Node *node, const Window *w) {
    if (w->open) return;
    int64_t *pads = ARENA_ARRAY(g->make.ctx->scratch, int64_t, 2 * w->axes + 1);
    for (uint32_t i = 0; i < w->axes; i++) {
        pads[i] = w->before[i];
        pads[w->axes + i] = w->behind[i] < 0 ? 0 : w->behind[i];
    }
    node_set_attr_ints(node, "pads", pads, 2 * w->axes);
}

/* Elements of the spatial axes, [first, end). */
static Value *cut(Grad *g, const Window *w, Value *value, Value *first, Value *end) {
    int64_t *axes = ARENA_ARRAY(g->make.ctx->scratch, int64_t, w->axes + 1);
    for (uint32_t i = 0; i < w->axes; i++) axes[i] = i + 2;
    return GRAD(g, "Slice", value, first, end, grad_ints(g, axes, w->axes));
}

/* How many zeros stand behind, where windows read more than there is. */
static Value *zeros_behind(Grad *g, const Window *w) {
    Value *more = GRAD(g, "Sub", GRAD(g, "Sub", w->reads, w->start), w->sizes);
    return GRAD(g, "Max", more, grad_int_list(g, 0));
}

/* The value without the last elements, which no window reads; where sizes are open, padded, too. */
static Value *read_part(Grad *g, const Window *w, Value *value) {
    int64_t *none = ARENA_ARRAY(g->make.ctx->scratch, int64_t, w->axes + 2);
    if (w->open) {
        Value *outer = grad_ints(g, none, 2);
        Value *pads = GRAD_LIST(g, outer, w->start, outer, zeros_behind(g, w));
        value = GRAD(g, "Pad", value, pads);
        return cut(g, w, value, grad_ints(g, none, w->axes), w->reads);
    }
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
    for (uint32_t i = 0; i < w->axes; i++) {
        more[i] = w->behind[i] < 0 ? -w->behind[i] : 0;
        if (w->open) more[i] = w->strides[i] - 1; /* no window begins in what is more */
    }
    set_window(parts->producer, w, w->strides, w->dilations);
    set_both_pads(g, parts->producer, w);
    node_set_attr_ints(parts->producer, "output_padding", more, w->axes);
    node_set_attr_int(parts->producer, "group", w->groups);
    if (!w->open) return parts;
    return cut(g, w, parts, w->start, GRAD(g, "Add", w->start, w->sizes));
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
    int64_t *read = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    int64_t *perm = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    const int64_t channels = grad_size(g, w->weights, 1);
    const Outer apart = {{0, w->groups, channels}, 3}, joined = {{channels, -1}, 2};
    for (uint32_t i = 0; i < rank; i++) perm[i] = i < 3 ? 2 - i : i;
    for (uint32_t i = 0; i < w->axes; i++)
        read[i] = w->in[i] + (w->behind[i] < 0 ? w->behind[i] : 0);
    Value *sizes = w->unknown ? spatial_sizes(g, wide, w->axes) : NULL;
    Value *parts = GRAD(g, "Reshape", wide, shape_of(g, w, apart, read, sizes));
    parts = grad_transpose(g, parts, perm, rank);
    return GRAD(g, "Reshape", parts, shape_of(g, w, joined, read, sizes));
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
    if (grad_wants(g, 2)) give_bias(g, grad_rank(g, w.weights));
    if (!read_window(g, &w, x, grad_out(g, 0))) return;
    if (grad_wants(g, 0)) grad_give(g, 0, spread(g, &w, dy));
    if (grad_wants(g, 1)) grad_give(g, 1, weights_flow(g, &w, x, dy));
}

void gradient_conv_transpose(Grad *g) {
    Value *x = grad_in(g, 0), *dy = grad_flow(g, 0);
    Window w = {.weights = grad_in(g, 1), .groups = grad_int(g, "group")};
    if (grad_wants(g, 2)) give_bias(g, grad_rank(g, w.weights));
    if (!read_window(g, &w, grad_out(g, 0), x)) return;
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

/* (1, 1, sizes), all 1. */
static Value *window_ones(Grad *g, const Window *w, const int64_t *sizes, Value *open) {
    const Outer single = {{1, 1}, 2};
    Value *one = grad_number(g, 1, grad_flow(g, 0));
    return GRAD(g, "Expand", one, shape_of(g, w, single, sizes, open));
}

/* What flows into each element, of what flows into the sum of each window: every channel on its own,
 * (N * C, 1, …). */
static Value *unpooled(Grad *g, const Window *w, Value *flow) {
    const Outer alone = {{-1, 1}, 2};
    Window ones = *w;
    ones.weights = window_ones(g, w, w->kernel, NULL);
    flow = GRAD(g, "Reshape", flow, shape_of(g, w, alone, w->out, w->counts));
    return grad_reshape_like(g, spread(g, &ones, flow), grad_in(g, 0));
}

/* Elements as the node's padding adds them: they count, and there is none before them. */
static void count_padding(Grad *g, const Window *w, Window *cells) {
    const Padding p = padding_of(g);
    int64_t *own = ARENA_ARRAY(g->make.ctx->scratch, int64_t, 2 * w->axes + 1);
    for (uint32_t i = 0; i < w->axes; i++) {
        const int64_t behind = w->behind[i] > 0 ? w->behind[i] : 0;
        own[i] = p.automatic ? behind : item_or(p.pads, p.count, w->axes + i, 0);
        cells->in[i] = w->in[i] + w->before[i] + own[i];
        cells->before[i] = 0;
        cells->behind[i] = w->behind[i] - own[i];
    }
    if (!w->open) return;
    Value *behind = p.automatic ? zeros_behind(g, w) : grad_ints(g, own, w->axes);
    cells->sizes = GRAD(g, "Add", GRAD(g, "Add", w->sizes, w->start), behind);
    cells->start = grad_ints(g, cells->before, w->axes);
}

/* How many elements each window's mean is of, as (1, 1, out …): those of the input, or of its padding
 * too, but never what lies behind that. */
static Value *window_sizes(Grad *g, const Window *w) {
    Arena *scratch = g->make.ctx->scratch;
    Window cells = *w;
    cells.in = arena_copy(scratch, w->in, w->axes * sizeof *w->in);
    cells.before = arena_copy(scratch, w->before, w->axes * sizeof *w->before);
    cells.behind = arena_copy(scratch, w->behind, w->axes * sizeof *w->behind);
    if (grad_int(g, "count_include_pad")) count_padding(g, w, &cells);
    Value *wide = window_ones(g, w, cells.in, cells.sizes);
    cells.weights = window_ones(g, w, w->kernel, NULL);
    return gathered(g, &cells, wide);
}

void gradient_average_pool(Grad *g) {
    Window w = {.groups = 1};
    if (!read_window(g, &w, grad_in(g, 0), grad_out(g, 0))) return;
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
