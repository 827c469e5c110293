// SPDX-License-Identifier: Apache-2.0
/* See quantized_forms.h. What is made has one scale for all that it reads, and one for its result,
 * which is float where no QuantizeLinear follows. */
#include "quantized_forms.h"

#include <math.h>

#include "constants.h"

enum { EXACT_COUNT = 1 << 24 };

typedef struct Form {
    Node *node, *root; /* root: whose result is made */
    Quantized from, to;
    bool rounds; /* there is a Q: `to` */
} Form;

/* What is made of operand 0, bytes, up to the Q that is all that reads it. */
static bool find_form(const Fuse *fuse, Node *node, Form *form) {
    *form = (Form){.node = node, .root = node};
    if (fuse->faithful || !node->outputs[0] || fuse_rank(node->outputs[0]) < 0 ||
        !quantized_source(fuse, fuse_input(node, 0), &form->from) || !form->from.single ||
        fuse_rank(form->from.bytes) < 0)
        return false;
    Node *reader = fuse_reader(node->outputs[0]);
    form->rounds = quantized_target(fuse, reader, &form->to) && form->to.single;
    if (form->rounds) form->root = reader;
    return true;
}

static void set_float(Fuse *fuse, Node *made, uint32_t i, double number) {
    node_set_input(made, i, quantized_new_float(fuse, made->graph, (float)number));
}

/* `zero`: the operand that is the result's zero point. */
static void finish_form(Fuse *fuse, const Form *form, Node *made, uint32_t zero) {
    const FuseActivation none = {0};
    const QuantizedResult result = {form->rounds ? &form->to : NULL, &none};
    quantized_set_result(fuse, made, &result, (const uint32_t[2]){zero, 0});
    fuse_replace_root(fuse, made, form->root);
}

/* ---- products and quotients ------------------------------------------------------------------ */

enum { MUL_FACTOR = 2, MUL_A_ZERO, MUL_Y_ZERO = 5, MUL_LOW, MUL_OPERANDS = 8 };

/* A quotient's activation stays: bounds say nothing of what is no number. */
void quantized_fuse_mul(Fuse *fuse, Node *node) {
    static const uint32_t places[2] = {MUL_Y_ZERO, MUL_LOW};
    const bool div = fuse_is(node, "Div");
    Quantized by[2], to;
    FuseActivation activation = {0};
    Node *root = node;
    if (fuse->faithful || (!div && !fuse_is(node, "Mul")) || fuse_opset(node) < 7) return;
    if (fuse_rank(node->outputs[0]) < 0) return;
    for (uint32_t i = 0; i < 2; i++)
        if (!quantized_source(fuse, fuse_input(node, i), &by[i]) || !by[i].single) return;
    if (!div && quantized_find_bounds(fuse, node->outputs[0], &activation))
        root = activation.nodes[0];
    root = fuse_reader(root->outputs[0]);
    if (!quantized_target(fuse, root, &to) || !to.single) return;
    const double b = div ? 1 / (double)by[1].step : (double)by[1].step;
    Node *made = fuse_new(fuse, root, div ? "QDiv" : "QMul", node, MUL_OPERANDS);
    for (uint32_t i = 0; i < 2; i++) {
        node_set_input(made, i, by[i].bytes);
        node_set_input(made, MUL_A_ZERO + i, quantized_zero(&by[i]));
    }
    set_float(fuse, made, MUL_FACTOR, (double)by[0].step * b / (double)to.step);
    quantized_set_result(fuse, made, &(QuantizedResult){&to, &activation}, places);
    fuse_replace_root(fuse, made, root);
}

/* ---- roundings ------------------------------------------------------------------------------- */

enum { ROUND_STEP = 1, ROUND_LOW, ROUND_HIGH, ROUND_OPERANDS };

/* What no kernel of integers took: bounds less the zero point are whole floats. */
void quantized_fuse_round(Fuse *fuse, Node *node) {
    Quantized q;
    if (!fuse_is(node, "DequantizeLinear") || !quantized_rounding(fuse, node->outputs[0], &q))
        return;
    const uint32_t bits = dtype_bits(q.dtype);
    const bool is_signed = q.dtype == DTYPE_INT8 || q.dtype == DTYPE_INT16;
    const double least = is_signed ? -ldexp(1, (int)bits - 1) : 0;
    Node *made = fuse_new(fuse, node, "RoundSteps", q.node, ROUND_OPERANDS);
    node_set_input(made, 0, fuse_input(q.node, 0));
    set_float(fuse, made, ROUND_STEP, (double)q.step);
    set_float(fuse, made, ROUND_LOW, least - q.offset);
    set_float(fuse, made, ROUND_HIGH, least + ldexp(1, (int)bits) - 1 - q.offset);
    fuse_replace_root(fuse, made, node);
}

/* ---- means ----------------------------------------------------------------------------------- */

enum { MEAN_AXES = 1, MEAN_X_ZERO, MEAN_Y_ZERO, MEAN_FACTOR, MEAN_OPERANDS };

/* Elements of x for one of y; 0 where that is not known, or too much to be exact. */
static int64_t elements_of_each(const Value *x, const Value *y) {
    double of_x = 1, of_y = 1;
    for (int64_t i = 0; i < fuse_rank(x); i++) of_x *= (double)fuse_dim(x, i);
    for (int64_t i = 0; i < fuse_rank(y); i++) of_y *= (double)fuse_dim(y, i);
    for (int64_t i = 0; i < fuse_rank(x); i++)
        if (fuse_dim(x, i) < 1) return 0;
    for (int64_t i = 0; i < fuse_rank(y); i++)
        if (fuse_dim(y, i) < 1) return 0;
    const double each = of_x / of_y;
    return each >= 1 && each <= EXACT_COUNT ? (int64_t)each : 0;
}

/* False where the node has axes that can't be said. NULL: all. */
static bool find_axes(Fuse *fuse, const Node *node, int64_t rank, Value **axes) {
    const Attr *attr = node_attr(node, "axes");
    Graph *graph = node->graph;
    *axes = fuse_input(node, MEAN_AXES);
    if (node_attr_int(node, "noop_with_empty_axes", 0)) return false;
    if (fuse_record(node)->layout == LAYOUT_MEAN) { /* of all spatial axes */
        int64_t *items = ARENA_ARRAY(fuse->ctx->scratch, int64_t, (size_t)rank + 1);
        for (int64_t i = 2; i < rank; i++) items[i - 2] = i;
        if (rank > 2) *axes = fuse_new_ints(fuse, graph, items, (uint32_t)rank - 2);
        return rank > 2;
    }
    if (*axes || !attr) return true;
    uint32_t count;
    const int64_t *items = attr_ints(attr, &count);
    if (!items || !count) return false;
    *axes = fuse_new_ints(fuse, graph, items, count);
    return true;
}

void quantized_fuse_mean(Fuse *fuse, Node *node) {
    const bool sum = fuse_is(node, "ReduceSum");
    Form form;
    Value *axes;
    if (!sum && !fuse_is(node, "ReduceMean") && !fuse_is(node, "GlobalAveragePool")) return;
    if (!find_form(fuse, node, &form)) return;
    const int64_t rank = fuse_rank(form.from.bytes);
    const int64_t each = sum ? elements_of_each(form.from.bytes, node->outputs[0]) : 1;
    if (!each || !find_axes(fuse, node, rank, &axes)) return;
    Node *made = fuse_new(fuse, form.root, "QMean", node, MEAN_OPERANDS);
    if (!node_attr_int(node, "keepdims", 1)) node_set_attr_int(made, "keepdims", 0);
    node_set_input(made, 0, form.from.bytes);
    node_set_input(made, MEAN_AXES, axes);
    node_set_input(made, MEAN_X_ZERO, quantized_zero(&form.from));
    const double step = form.rounds ? (double)form.to.step : 1;
    set_float(fuse, made, MEAN_FACTOR, (double)each * (double)form.from.step / step);
    finish_form(fuse, &form, made, MEAN_Y_ZERO);
}

/* ---- windows --------------------------------------------------------------------------------- */

enum { POOL_X_ZERO = 1, POOL_Y_ZERO, POOL_FACTOR, POOL_OPERANDS, POOL_TAPS_MOST = 1 << 16 };

void quantized_fuse_pool(Fuse *fuse, Node *node) {
    Form form;
    uint32_t count = 0;
    if (!fuse_is(node, "AveragePool") || !find_form(fuse, node, &form) || !form.rounds) return;
    const Attr *attr = node_attr(node, "kernel_shape");
    const int64_t *shape = attr_ints(attr, &count);
    double taps = 1;
    for (uint32_t i = 0; shape && i < count; i++) taps *= (double)shape[i];
    if (!shape || count < 1 || !(taps >= 1 && taps <= POOL_TAPS_MOST)) return;
    Node *made = fuse_new(fuse, form.root, "QAveragePool", node, POOL_OPERANDS);
    node_share_lists(made, node);
    node_set_input(made, 0, form.from.bytes);
    node_set_input(made, POOL_X_ZERO, quantized_zero(&form.from));
    set_float(fuse, made, POOL_FACTOR, (double)form.from.step / (double)form.to.step);
    finish_form(fuse, &form, made, POOL_Y_ZERO);
}

/* ---- interpolation --------------------------------------------------------------------------- */

enum {
    RESIZE_X_ZERO = 1,
    RESIZE_SCALES,
    RESIZE_SIZES,
    RESIZE_Y_ZERO,
    RESIZE_FACTOR,
    RESIZE_OPERANDS,
    RESIZE_OPSET = 11, /* before, operands are others */
};

/* True where axis i is known to stay, whatever its size. */
static bool axis_stays(const Fuse *fuse, const Node *node, uint32_t i) {
    const Value *scales = fuse_input(node, RESIZE_SCALES), *x = fuse_input(node, 0);
    const int64_t in = fuse_dim(x, i), out = fuse_dim(node->outputs[0], i);
    const Tensor *tensor = scales ? constant_tensor(scales, fuse->ctx->scratch) : NULL;
    float scale;
    if (scales && fuse_dim(scales, 0) == fuse_rank(x))
        return tensor && tensor_check(tensor, NULL) &&
               tensor_read_floats(tensor, i, 1, &scale, NULL) && scale == 1;
    return in >= 0 && in == out;
}

/* What changes lies along one axis, or two that are neighbors. */
static bool has_two_axes(const Fuse *fuse, const Node *node) {
    uint32_t first = 0, changed = 0;
    for (uint32_t i = 0; i < (uint32_t)fuse_rank(fuse_input(node, 0)); i++) {
        if (axis_stays(fuse, node, i)) continue;
        if (changed++ == 0) first = i;
        if (i > first + 1) return false;
    }
    return changed > 0;
}

static bool is_interpolation(const Node *node) {
    static const char mode[] = "mode", how[] = "coordinate_transformation_mode";
    return fuse_is(node, "Resize") && fuse_opset(node) >= RESIZE_OPSET &&
           (fuse_attr_is(node, mode, "linear", false) ||
            fuse_attr_is(node, mode, "cubic", false)) &&
           !fuse_attr_is(node, how, "tf_crop_and_resize", false) &&
           !fuse_attr_is(node, how, "tf_half_pixel_for_nn", false) && !node_attr(node, "axes") &&
           fuse_attr_is(node, "keep_aspect_ratio_policy", "stretch", true);
}

void quantized_fuse_resize(Fuse *fuse, Node *node) {
    Form form;
    if (!is_interpolation(node) || !find_form(fuse, node, &form) || !form.rounds ||
        !has_two_axes(fuse, node))
        return;
    Node *made = fuse_new(fuse, form.root, "QResize", node, RESIZE_OPERANDS);
    node_share_lists(made, node);
    node_set_input(made, 0, form.from.bytes);
    node_set_input(made, RESIZE_X_ZERO, quantized_zero(&form.from));
    node_set_input(made, RESIZE_SCALES, fuse_input(node, RESIZE_SCALES));
    node_set_input(made, RESIZE_SIZES, fuse_input(node, RESIZE_SIZES));
    set_float(fuse, made, RESIZE_FACTOR, (double)form.from.step / (double)form.to.step);
    finish_form(fuse, &form, made, RESIZE_Y_ZERO);
}
