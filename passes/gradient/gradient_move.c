// SPDX-License-Identifier: Apache-2.0
/* Gradients of operators that move data: what flows goes back to where the data was. Where several
 * results are one element's, they are added up. */
#include "gradient_rule.h"

/* ---- back by places -------------------------------------------------------------------------- */

/* A scatter into zeros of the shape of `like` that adds up what meets. */
static Value *scatter(Grad *g, const char *op, Value *like, Value *places, Value *flow) {
    Value *made = GRAD(g, op, grad_fill(g, 0, like), places, flow);
    node_set_attr_string(made->producer, "reduction", "add");
    return made;
}

Value *grad_scatter_flat(Grad *g, Value *like, Value *places, Value *flow) {
    Value *size = GRAD(g, "Reshape", GRAD_AS(g, "Size", DTYPE_INT64, like), grad_int_list(g, 1));
    Value *zeros = GRAD_AS(g, "Expand", type_dtype(flow->type), grad_number(g, 0, flow), size);
    Value *sum = GRAD(g, "ScatterElements", zeros, GRAD(g, "Reshape", places, grad_int_list(g, -1)),
                      GRAD(g, "Reshape", flow, grad_int_list(g, -1)));
    node_set_attr_int(sum->producer, "axis", 0);
    node_set_attr_string(sum->producer, "reduction", "add");
    return grad_reshape_like(g, sum, like);
}

/* Every element's number. */
static Value *numbered(Grad *g, Value *x) {
    Value *from = grad_int_number(g, 0), *step = grad_int_number(g, 1);
    Value *numbers =
        GRAD_AS(g, "Range", DTYPE_INT64, from, GRAD_AS(g, "Size", DTYPE_INT64, x), step);
    return grad_reshape_like(g, numbers, x);
}

/* Elements' numbers, moved as the node moves the elements: wherever they went. */
void gradient_moved(Grad *g) {
    Value *x = grad_in(g, 0);
    Value *numbers = numbered(g, x);
    Node *again = make_node(&g->make, sym_text(g->node->op_type), NULL, g->node->input_count);
    node_set_input(again, 0, numbers);
    for (uint32_t i = 1; i < g->node->input_count; i++) node_set_input(again, i, grad_in(g, i));
    grad_keep_attrs(g, again);
    Value *places = make_output(&g->make, again, DTYPE_INT64);
    grad_give(g, 0, grad_scatter_flat(g, x, places, grad_flow(g, 0)));
}

/* ---- shapes ---------------------------------------------------------------------------------- */

void gradient_reshape(Grad *g) {
    grad_give(g, 0, grad_reshape_like(g, grad_flow(g, 0), grad_in(g, 0)));
}

void gradient_expand_to(Grad *g) {
    grad_give_sum(g, 0, grad_flow(g, 0));
}

void gradient_transpose(Grad *g) {
    uint32_t count;
    const int64_t *perm = grad_list(g, "perm", &count);
    if (!perm) { /* turned round, which is its own inverse */
        grad_give(g, 0, GRAD(g, "Transpose", grad_flow(g, 0)));
        return;
    }
    int64_t *back = ARENA_ARRAY(g->make.ctx->scratch, int64_t, count + 1);
    for (uint32_t i = 0; i < count; i++) back[grad_axis(g, perm[i], count)] = i;
    grad_give(g, 0, grad_transpose(g, grad_flow(g, 0), back, count));
}

/* Each axis becomes two, the repeats and what is repeated; the first are summed. */
void gradient_tile(Grad *g) {
    Value *x = grad_in(g, 0);
    const uint32_t rank = grad_rank(g, x);
    static const int64_t second = 1;
    Value *pairs =
        GRAD(g, "Concat", grad_axes(g, "Unsqueeze", grad_in(g, 1), (GradAxes){&second, 1}),
             grad_axes(g, "Unsqueeze", grad_shape(g, x), (GradAxes){&second, 1}));
    node_set_attr_int(pairs->producer, "axis", 1);
    Value *split =
        GRAD(g, "Reshape", grad_flow(g, 0), GRAD(g, "Reshape", pairs, grad_int_list(g, -1)));
    int64_t *axes = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) axes[i] = 2 * (int64_t)i;
    grad_give(g, 0, grad_reduce_away(g, "ReduceSum", split, (GradAxes){axes, rank}));
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The sizes of all operands along an axis, as one list. */
static Value *sizes_along(Grad *g, int64_t axis) {
    const uint32_t count = g->node->input_count;
    Value **sizes = ARENA_ARRAY(g->make.ctx->scratch, Value *, count + 1);
    for (uint32_t i = 0; i < count; i++) sizes[i] = grad_dim(g, grad_in(g, i), axis);
    return grad_list_of(g, sizes, count);
}

void gradient_concat(Grad *g) {
    Value *dy = grad_flow(g, 0);
    const uint32_t count = g->node->input_count, rank = grad_rank(g, grad_in(g, 0));
    const int64_t axis = grad_axis(g, grad_int(g, "axis"), rank);
    if (count == 1) {
        grad_give(g, 0, dy);
        return;
    }
    Value *first = GRAD(g, "Split", dy, sizes_along(g, axis));
    node_set_attr_int(first->producer, "axis", axis);
    for (uint32_t i = 0; i < count; i++) {
        Value *part = i ? make_output(&g->make, first->producer, type_dtype(dy->type)) : first;
        if (grad_wants(g, i)) grad_give(g, i, part);
    }
}

void gradient_split(Grad *g) {
    const uint32_t count = g->node->output_count;
    Value **flows = ARENA_ARRAY(g->make.ctx->scratch, Value *, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        flows[i] = grad_flow(g, i);
        if (!grad_out(g, i)) {
            grad_refuse(g, "its output %u is omitted", i);
            return;
        }
        if (!flows[i]) flows[i] = grad_fill(g, 0, grad_out(g, i));
    }
    Value *all = grad_make(g, "Concat", type_dtype(grad_in(g, 0)->type), flows, count);
    node_set_attr_int(all->producer, "axis", grad_int(g, "axis"));
    grad_give(g, 0, all);
}

/* The numbers, and 0 for negative ones. */
static Value *not_negative(Grad *g, Value *numbers) {
    return GRAD(g, "Max", numbers, grad_int_list(g, 0));
}

static bool may_cut(Grad *g, const Value *pads) {
    int64_t *items;
    uint64_t count;
    if (!grad_known_ints(g, pads, &items, &count)) return true;
    while (count && items[count - 1] >= 0) count--;
    return count > 0;
}

/* What was added is cut off, what was cut off (negative pads) is zeros. */
static Value *unpadded(Grad *g, Value *dy) {
    Value *pads = grad_in(g, 1), *axes = grad_in(g, 3);
    const int64_t two[] = {2, -1};
    Value *sides = GRAD(g, "Reshape", pads, grad_ints(g, two, 2));
    Value *before = not_negative(g, GRAD(g, "Gather", sides, grad_int_number(g, 0)));
    Value *behind = not_negative(g, GRAD(g, "Gather", sides, grad_int_number(g, 1)));
    Value *sizes = grad_shape(g, grad_out(g, 0));
    if (axes) sizes = GRAD(g, "Gather", sizes, axes);
    Value *ends = GRAD(g, "Sub", sizes, behind);
    Value *inner = GRAD(g, "Slice", dy, before, ends, axes);
    if (!may_cut(g, pads)) return inner;
    Value *lost = not_negative(g, GRAD(g, "Neg", pads));
    return GRAD(g, "Pad", inner, lost, grad_number(g, 0, dy), axes);
}

void gradient_pad(Grad *g) {
    if (!grad_is(g, "mode", "constant")) {
        if (grad_wants(g, 0)) gradient_moved(g);
        return;
    }
    Value *dy = grad_flow(g, 0);
    Value *dx = unpadded(g, dy);
    if (grad_wants(g, 0)) grad_give(g, 0, dx);
    if (!grad_wants(g, 2)) return;
    Value *all = GRAD(g, "ReduceSum", dy);
    node_set_attr_int(all->producer, "keepdims", 0);
    Value *inner = GRAD(g, "ReduceSum", dx);
    node_set_attr_int(inner->producer, "keepdims", 0);
    grad_give(g, 2, grad_reshape_like(g, GRAD(g, "Sub", all, inner), grad_in(g, 2)));
}

/* What was added around the middle is cut off, and the other way round. */
void gradient_center_crop_pad(Grad *g) {
    Value *sizes = grad_shape(g, grad_in(g, 0));
    uint32_t count;
    const int64_t *axes = grad_list(g, "axes", &count);
    const uint32_t rank = grad_rank(g, grad_in(g, 0));
    if (axes) {
        int64_t *places = ARENA_ARRAY(g->make.ctx->scratch, int64_t, count + 1);
        for (uint32_t i = 0; i < count; i++) places[i] = grad_axis(g, axes[i], rank);
        sizes = GRAD(g, "Gather", sizes, grad_ints(g, places, count));
    }
    Value *flow = GRAD(g, "CenterCropPad", grad_flow(g, 0), sizes);
    grad_keep_attrs(g, flow->producer);
    grad_give(g, 0, flow);
}

void gradient_trilu(Grad *g) {
    Value *k = grad_in(g, 1), *dy = grad_flow(g, 0);
    Value *flow = k ? GRAD(g, "Trilu", dy, k) : GRAD(g, "Trilu", dy);
    node_set_attr_int(flow->producer, "upper", grad_int(g, "upper"));
    grad_give(g, 0, flow);
}

/* It is its own inverse. */
void gradient_reverse_sequence(Grad *g) {
    Value *flow = GRAD(g, "ReverseSequence", grad_flow(g, 0), grad_in(g, 1));
    grad_keep_attrs(g, flow->producer);
    grad_give(g, 0, flow);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { BLOCK_MOST = 1 << 16 };

/* (N, C, H, b, W, b) turned to (N, [b, b,] C, [b, b,] H, W), as the mode has the channels. */
static Value *to_depth(Grad *g, Value *value, Value *deep, int64_t block, bool rows_first) {
    const int64_t channels = grad_size(g, deep, 1), samples[] = {0, channels / (block * block)};
    static const int64_t depth_first[] = {0, 3, 5, 1, 2, 4}, column_first[] = {0, 1, 3, 5, 2, 4};
    const int64_t joined[] = {0, channels};
    Value *high = grad_dim(g, deep, 2), *wide = grad_dim(g, deep, 3);
    Value *each = grad_int_list(g, block);
    Value *parts =
        GRAD(g, "Reshape", value, GRAD_LIST(g, grad_ints(g, samples, 2), high, each, wide, each));
    parts = grad_transpose(g, parts, rows_first ? depth_first : column_first, 6);
    return GRAD(g, "Reshape", parts, GRAD_LIST(g, grad_ints(g, joined, 2), high, wide));
}

void gradient_depth_to_space(Grad *g) {
    const bool depth = grad_is(g, "mode", "DCR");
    const int64_t block = grad_int(g, "blocksize");
    if (block < 1 || block > BLOCK_MOST)
        grad_refuse(g, "of blocks of %lld", (long long)block);
    else
        grad_give(g, 0, to_depth(g, grad_flow(g, 0), grad_in(g, 0), block, depth));
}

void gradient_space_to_depth(Grad *g) {
    if (op_schema_attr(g->schema, "mode") && !grad_is(g, "mode", "DCR")) {
        grad_refuse(g, "of this mode");
        return;
    }
    Value *flow = GRAD(g, "DepthToSpace", grad_flow(g, 0));
    node_set_attr_int(flow->producer, "blocksize", grad_int(g, "blocksize"));
    grad_give(g, 0, flow);
}

/* ---- gathers and scatters -------------------------------------------------------------------- */

/* Rows of axis 0 are scattered as they are; of another axis, each element has its place. */
void gradient_gather(Grad *g) {
    Value *x = grad_in(g, 0), *places = grad_in(g, 1), *dy = grad_flow(g, 0);
    const uint32_t rank = grad_rank(g, x);
    const int64_t axis = grad_axis(g, grad_int(g, "axis"), rank);
    static const int64_t last = -1;
    if (axis == 0)
        grad_give(g, 0,
                  scatter(g, "ScatterND", x,
                          grad_axes(g, "Unsqueeze", places, (GradAxes){&last, 1}), dy));
    else
        gradient_moved(g);
}

void gradient_gather_elements(Grad *g) {
    Value *flow = scatter(g, "ScatterElements", grad_in(g, 0), grad_in(g, 1), grad_flow(g, 0));
    node_set_attr_int(flow->producer, "axis", grad_int(g, "axis"));
    grad_give(g, 0, flow);
}

void gradient_gather_nd(Grad *g) {
    if (grad_int(g, "batch_dims"))
        gradient_moved(g);
    else
        grad_give(g, 0, scatter(g, "ScatterND", grad_in(g, 0), grad_in(g, 1), grad_flow(g, 0)));
}

/* What is written over gives nothing; what is added to gives all. */
static void scattered(Grad *g, const char *op, const char *inverse) {
    Value *places = grad_in(g, 1), *dy = grad_flow(g, 0);
    const bool adds = grad_is(g, "reduction", "add");
    const bool writes = !op_schema_attr(g->schema, "reduction") || grad_is(g, "reduction", "none");
    if (!adds && !writes) {
        grad_refuse(g, "of this reduction");
        return;
    }
    const bool elements = op_schema_attr(g->schema, "axis") != NULL;
    if (grad_wants(g, 0)) {
        Value *flow = adds ? dy : GRAD(g, op, dy, places, grad_fill(g, 0, grad_in(g, 2)));
        if (!adds && elements) node_set_attr_int(flow->producer, "axis", grad_int(g, "axis"));
        grad_give(g, 0, flow);
    }
    if (grad_wants(g, 2)) {
        Value *flow = GRAD(g, inverse, dy, places);
        if (elements) node_set_attr_int(flow->producer, "axis", grad_int(g, "axis"));
        grad_give(g, 2, flow);
    }
}

void gradient_scatter_elements(Grad *g) {
    scattered(g, "ScatterElements", "GatherElements");
}

void gradient_scatter_nd(Grad *g) {
    scattered(g, "ScatterND", "GatherND");
}

/* The node once more, of what is to be written and what it is written over. */
static Value *written(Grad *g, Value *over, Value *update) {
    Value *made = GRAD(g, "TensorScatter", over, update, grad_in(g, 2));
    grad_keep_attrs(g, made->producer);
    return made;
}

/* What is written over gives nothing; numbers that are written tell where each element went. */
void gradient_tensor_scatter(Grad *g) {
    Value *update = grad_in(g, 1), *dy = grad_flow(g, 0);
    if (grad_wants(g, 0)) grad_give(g, 0, written(g, dy, grad_fill(g, 0, update)));
    if (!grad_wants(g, 1)) return;
    Value *none = grad_cast(g, grad_fill(g, -1, dy), DTYPE_INT64);
    Value *places = written(g, none, numbered(g, update));
    Value *flow = GRAD_CALC(g, "Where(p, q, 0)", GRAD_CALC(g, "p >= 0", places), dy);
    places = GRAD(g, "Max", places, grad_int_number(g, 0));
    grad_give(g, 1, grad_scatter_flat(g, update, places, flow));
}

/* Of equal elements, or slices, the first one is the one that is given. */
void gradient_unique(Grad *g, Value **outputs, uint32_t count) {
    (void)count;
    Value *x = grad_in(g, 0), *first = grad_out(g, 1);
    if (!first) {
        Node *again = make_node(&g->make, sym_text(g->node->op_type), NULL, 1);
        node_set_input(again, 0, x);
        grad_keep_attrs(g, again);
        make_output(&g->make, again, type_dtype(x->type));
        first = make_output(&g->make, again, DTYPE_INT64);
    }
    const bool whole = !node_attr(g->node, "axis");
    if (whole) x = GRAD(g, "Reshape", x, grad_int_list(g, -1));
    outputs[0] = GRAD(g, "Gather", x, first);
    if (!whole) node_set_attr_int(outputs[0]->producer, "axis", grad_int(g, "axis"));
}

void gradient_top_k(Grad *g) {
    if (!grad_out(g, 1)) {
        grad_refuse(g, "its output 1, the indices, is omitted");
        return;
    }
    if (!grad_flow(g, 0)) return;
    Value *flow =
        GRAD(g, "ScatterElements", grad_fill(g, 0, grad_in(g, 0)), grad_out(g, 1), grad_flow(g, 0));
    node_set_attr_int(flow->producer, "axis", grad_int(g, "axis"));
    grad_give(g, 0, flow);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static Value *total(Grad *g, Value *value) {
    Value *sum = GRAD(g, "ReduceSum", value);
    node_set_attr_int(sum->producer, "keepdims", 0);
    return sum;
}

/* start + i * delta; the limit only says how many. */
void gradient_range(Grad *g) {
    Value *dy = grad_flow(g, 0);
    if (grad_wants(g, 0)) grad_give(g, 0, total(g, dy));
    if (!grad_wants(g, 2)) return;
    Value *count = GRAD(g, "Squeeze", GRAD_AS(g, "Shape", DTYPE_INT64, dy));
    Value *from = grad_int_number(g, 0), *step = grad_int_number(g, 1);
    Value *numbers = grad_cast(g, GRAD(g, "Range", from, count, step), type_dtype(dy->type));
    grad_give(g, 2, total(g, GRAD(g, "Mul", dy, numbers)));
}

/* Operand 2 has what stands elsewhere, and what stands at the index. */
void gradient_one_hot(Grad *g) {
    Value *dy = grad_flow(g, 0);
    const int64_t places[] = {0, 1};
    Value *flags = grad_cast(g, grad_ints(g, places, 2), type_dtype(dy->type));
    Value *hot = GRAD_AS(g, "OneHot", type_dtype(dy->type), grad_in(g, 0), grad_in(g, 1), flags);
    node_set_attr_int(hot->producer, "axis", grad_int(g, "axis"));
    Value *on = total(g, GRAD(g, "Mul", dy, hot));
    Value *off = GRAD(g, "Sub", total(g, dy), on);
    static const int64_t first = 0;
    off = grad_axes(g, "Unsqueeze", off, (GradAxes){&first, 1});
    Value *both = GRAD(g, "Concat", off, grad_axes(g, "Unsqueeze", on, (GradAxes){&first, 1}));
    node_set_attr_int(both->producer, "axis", 0);
    grad_give(g, 2, both);
}
