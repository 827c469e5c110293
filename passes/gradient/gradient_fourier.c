// SPDX-License-Identifier: Apache-2.0
/* Gradients of Fourier transforms. One way is, but for a factor, the other's transpose: what flows is
 * transformed back; where a side has half of the frequencies, the other half is 0. */
#include "gradient_rule.h"

/* A transform like the node's. */
typedef struct Fourier {
    Grad *g;
    int64_t axis; /* of the signal's shape */
    uint32_t rank;
} Fourier;

/* Before opset 20 the axis is an attribute. */
static Value *transform(const Fourier *f, Value *value, Value *length, bool inverse,
                        bool onesided) {
    Grad *g = f->g;
    const OpSchema *schema = ops_find("", "DFT", g->opset);
    const bool attribute = schema && op_schema_attr(schema, "axis");
    Value *axis = attribute ? NULL : grad_int_number(g, f->axis);
    Value *made = GRAD(g, "DFT", value, length, axis);
    if (attribute) node_set_attr_int(made->producer, "axis", f->axis);
    node_set_attr_int(made->producer, "inverse", inverse);
    node_set_attr_int(made->producer, "onesided", onesided);
    return made;
}

/* The value with as many elements along the axis as `like`: cut off, or zeros behind. */
static Value *fitted(const Fourier *f, Value *value, Value *like) {
    Grad *g = f->g;
    Value *want = grad_dim(g, like, f->axis);
    Value *more = GRAD(g, "Sub", want, grad_dim(g, value, f->axis));
    more = GRAD(g, "Max", more, grad_int_list(g, 0));
    int64_t *zeros = ARENA_ARRAY(g->make.ctx->scratch, int64_t, 2 * (size_t)f->rank + 1);
    const uint32_t before = f->rank + (uint32_t)f->axis, behind = 2 * f->rank - before - 1;
    Value *pads = GRAD_LIST(g, grad_ints(g, zeros, before), more, grad_ints(g, zeros, behind));
    value = GRAD(g, "Slice", value, grad_int_list(g, 0), want, grad_int_list(g, f->axis));
    return GRAD(g, "Pad", value, pads);
}

/* The length of the transform, an int64. */
static Value *length_of(const Fourier *f, bool halves) {
    Grad *g = f->g;
    if (grad_in(g, 1)) return grad_cast(g, grad_in(g, 1), DTYPE_INT64);
    Value *shape = grad_shape(g, halves ? grad_out(g, 0) : grad_in(g, 0));
    return GRAD(g, "Gather", shape, grad_int_number(g, f->axis));
}

/* What flows into half of the frequencies of a real signal: each but the first, and the last where
 * their number is even, stands for two. */
static Value *halved(const Fourier *f, Value *flow, Value *length) {
    Grad *g = f->g;
    Value *half = transform(f, flow, NULL, false, true);
    Value *bins =
        GRAD(g, "Gather", GRAD_AS(g, "Shape", DTYPE_INT64, half), grad_int_number(g, f->axis));
    Value *k = GRAD(g, "Range", grad_int_number(g, 0), bins, grad_int_number(g, 1));
    Value *alone = GRAD_CALC(g, "Or(p == 0, 2 * p == q)", k, length);
    Value *times = GRAD_CALC(g, "Where(p, 1, 2)", alone, half);
    const uint32_t behind = f->rank - 1 - (uint32_t)f->axis;
    int64_t *dims = ARENA_ARRAY(g->make.ctx->scratch, int64_t, behind + 2);
    dims[0] = -1;
    for (uint32_t i = 1; i <= behind; i++) dims[i] = 1;
    return GRAD(g, "Mul", half, GRAD(g, "Reshape", times, grad_ints(g, dims, behind + 1)));
}

static bool read_axis(Fourier *f) {
    Grad *g = f->g;
    int64_t axis = op_schema_attr(g->schema, "axis") ? grad_int(g, "axis") : -2;
    Value *given = grad_in(g, 2);
    int64_t *items;
    uint64_t count;
    f->rank = grad_rank(g, grad_in(g, 0));
    if (given && grad_known_ints(g, given, &items, &count) && count == 1)
        axis = items[0];
    else if (given)
        grad_refuse(g, "of an axis that is not known");
    f->axis = grad_axis(g, axis, f->rank);
    if (f->axis + 1 >= (int64_t)f->rank) grad_refuse(g, "of this axis");
    return !g->failed;
}

void gradient_dft(Grad *g) {
    Fourier f = {.g = g};
    if (!read_axis(&f)) return;
    Value *x = grad_in(g, 0), *y = grad_out(g, 0), *flow = grad_flow(g, 0);
    const bool inverse = grad_int(g, "inverse"), onesided = grad_int(g, "onesided");
    const bool real = grad_size(g, x, -1) == 1;
    Value *length = length_of(&f, inverse && onesided);
    Value *number = grad_cast(g, length, type_dtype(x->type)), *back;
    if (inverse && onesided)
        back = halved(&f, flow, length);
    else
        back = transform(&f, flow, onesided ? length : NULL, !inverse, false);
    back = GRAD(g, inverse ? "Div" : "Mul", back, number);
    if (real) {
        back = GRAD(g, "Gather", back, grad_int_list(g, 0));
        node_set_attr_int(back->producer, "axis", -1);
    }
    const bool same = !grad_in(g, 1) || (!onesided && grad_same_dim(x, y, (uint32_t)f.axis));
    grad_give(g, 0, same ? back : fitted(&f, back, x));
}

/* ---- STFT ------------------------------------------------------------------------------------ */

static Value *number_of(Grad *g, uint32_t i) {
    Value *value = grad_in(g, i);
    return value ? grad_cast(g, value, DTYPE_INT64) : NULL;
}

/* Frames of the signal, (N, frames, length, 1 or 2), transformed. */
void gradient_stft(Grad *g, Value **outputs, uint32_t count) {
    static const int64_t second = 1;
    (void)count;
    Value *signal = grad_in(g, 0), *window = grad_in(g, 2), *length = number_of(g, 3);
    Value *from = grad_int_number(g, 0), *one = grad_int_number(g, 1);
    Value *all = GRAD(g, "Gather", grad_shape(g, signal), one);
    if (!length && window) length = GRAD(g, "Gather", grad_shape(g, window), from);
    if (!length) length = all;
    Value *last = GRAD_CALC(g, "p - q + 1", all, length);
    Value *begins = GRAD(g, "Range", from, last, number_of(g, 1));
    Value *places = GRAD(g, "Add", grad_axes(g, "Unsqueeze", begins, (GradAxes){&second, 1}),
                         GRAD(g, "Range", from, length, one));
    Value *frames = GRAD(g, "Gather", signal, places);
    node_set_attr_int(frames->producer, "axis", 1);
    if (window)
        frames = GRAD(g, "Mul", frames, grad_axes(g, "Unsqueeze", window, (GradAxes){&second, 1}));
    const Fourier f = {g, 2, 4};
    outputs[0] = transform(&f, frames, NULL, false, grad_int(g, "onesided"));
}
