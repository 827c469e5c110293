// SPDX-License-Identifier: Apache-2.0
/* Normalizations, made again of operators that have gradients. 16-bit operands are widened: sums and
 * squares of many are no numbers of 16 bits, and kernels compute them in float, as definitions do
 * that have a stash_type. */
#include "gradient_rule.h"

static Value *mean(Grad *g, Value *value, const int64_t *axes, uint32_t count) {
    return grad_reduce(g, "ReduceMean", value, (GradAxes){axes, count});
}

/* (x - mean) / sqrt(variance + epsilon) over axes, which are kept. */
static Value *normalized(Grad *g, Value *x, const int64_t *axes, uint32_t count) {
    Value *middle = GRAD(g, "Sub", x, mean(g, x, axes, count));
    Value *variance = mean(g, GRAD(g, "Mul", middle, middle), axes, count);
    return GRAD_CALC(g, "p / Sqrt(q + $epsilon)", middle, variance);
}

static Value *widened(Grad *g, Value *value) {
    const Dtype dtype = type_dtype(value->type);
    const bool narrow = dtype_is_reduced(dtype);
    return narrow ? grad_cast(g, value, DTYPE_FLOAT) : value;
}

/* The operand in the type that is computed in. */
static Value *stashed(Grad *g, uint32_t i) {
    Value *value = grad_in(g, i);
    return grad_int(g, "stash_type") == DTYPE_FLOAT ? widened(g, value) : value;
}

/* A list of channels, in the shape of one sample. */
static Value *by_channel(Grad *g, Value *value, uint32_t rank) {
    int64_t *dims = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i + 1 < rank; i++) dims[i] = i ? 1 : -1;
    return rank > 1 ? GRAD(g, "Reshape", value, grad_ints(g, dims, rank - 1)) : value;
}

static Value *scaled(Grad *g, Value *value, Value *scale, Value *shift) {
    value = GRAD(g, "Mul", value, scale);
    return shift ? GRAD(g, "Add", value, shift) : value;
}

/* `value` times operand 1 and operand 2 added, which are by channel, in the type of operand 0. */
static Value *scaled_by_channel(Grad *g, Value *value, uint32_t rank) {
    const Dtype dtype = type_dtype(value->type);
    Value *scale = by_channel(g, grad_cast(g, grad_in(g, 1), dtype), rank);
    Value *shift = by_channel(g, grad_cast(g, grad_in(g, 2), dtype), rank);
    return grad_cast(g, scaled(g, value, scale, shift), type_dtype(grad_in(g, 0)->type));
}

/* All axes but some. */
static uint32_t axes_from(Grad *g, const Value *x, uint32_t from, uint32_t but, int64_t **axes) {
    const uint32_t rank = grad_rank(g, x);
    uint32_t count = 0;
    *axes = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = from; i < rank; i++)
        if (i != but) (*axes)[count++] = i;
    return count;
}

/* ---- over a batch ---------------------------------------------------------------------------- */

static Value *batch_inference(Grad *g, Value *x, uint32_t rank) {
    const Dtype dtype = type_dtype(x->type);
    Value *middle = by_channel(g, grad_cast(g, grad_in(g, 3), dtype), rank);
    Value *spread = by_channel(g, grad_cast(g, grad_in(g, 4), dtype), rank);
    return GRAD_CALC(g, "(p - q) / Sqrt(r + $epsilon)", x, middle, spread);
}

/* Running statistics are state: nothing flows from them. */
void gradient_batch_normalization(Grad *g, Value **outputs, uint32_t count) {
    (void)count;
    Value *x = grad_in(g, 0), *wide = widened(g, x);
    const uint32_t rank = grad_rank(g, x);
    const bool training =
        op_schema_attr(g->schema, "training_mode") && grad_int(g, "training_mode");
    int64_t *axes;
    const uint32_t others = axes_from(g, x, 0, 1, &axes);
    Value *normal = training ? normalized(g, wide, axes, others) : batch_inference(g, wide, rank);
    outputs[0] = scaled_by_channel(g, normal, rank);
}

/* ---- over a sample --------------------------------------------------------------------------- */

void gradient_layer_normalization(Grad *g, Value **outputs, uint32_t count) {
    Value *x = grad_in(g, 0), *shift = grad_in(g, 2);
    int64_t *axes;
    const uint32_t rank = grad_rank(g, x);
    const uint32_t over =
        axes_from(g, x, (uint32_t)grad_axis(g, grad_int(g, "axis"), rank), UINT32_MAX, &axes);
    Value *wide = stashed(g, 0);
    Value *middle = mean(g, wide, axes, over);
    Value *off = GRAD(g, "Sub", wide, middle);
    Value *inverse =
        GRAD_CALC(g, "1 / Sqrt(p + $epsilon)", mean(g, GRAD(g, "Mul", off, off), axes, over));
    Value *normal = grad_cast(g, GRAD(g, "Mul", off, inverse), type_dtype(x->type));
    outputs[0] = scaled(g, normal, grad_in(g, 1), shift);
    Value *const statistics[] = {NULL, middle, inverse};
    for (uint32_t i = 1; i < count && i < 3; i++)
        if (grad_out(g, i))
            outputs[i] = grad_cast(g, statistics[i], type_dtype(grad_out(g, i)->type));
}

void gradient_rms_normalization(Grad *g, Value **outputs, uint32_t count) {
    (void)count;
    Value *x = grad_in(g, 0), *scale = grad_in(g, 1);
    int64_t *axes;
    const uint32_t rank = grad_rank(g, x);
    const uint32_t over =
        axes_from(g, x, (uint32_t)grad_axis(g, grad_int(g, "axis"), rank), UINT32_MAX, &axes);
    Value *wide = stashed(g, 0);
    Value *square = mean(g, GRAD(g, "Mul", wide, wide), axes, over);
    Value *normal = GRAD_CALC(g, "p / Sqrt(q + $epsilon)", wide, square);
    normal = grad_cast(g, normal, type_dtype(x->type));
    outputs[0] = scaled(g, grad_cast(g, normal, type_dtype(scale->type)), scale, NULL);
}

void gradient_instance_normalization(Grad *g, Value **outputs, uint32_t count) {
    (void)count;
    Value *x = grad_in(g, 0);
    int64_t *axes;
    const uint32_t rank = grad_rank(g, x), over = axes_from(g, x, 2, UINT32_MAX, &axes);
    outputs[0] = scaled_by_channel(g, normalized(g, widened(g, x), axes, over), rank);
}

void gradient_group_normalization(Grad *g, Value **outputs, uint32_t count) {
    (void)count;
    Value *x = grad_in(g, 0), *wide = stashed(g, 0);
    const uint32_t rank = grad_rank(g, x);
    const int64_t groups[] = {0, grad_int(g, "num_groups"), -1};
    static const int64_t last = 2;
    Value *parts = GRAD(g, "Reshape", wide, grad_ints(g, groups, 3));
    outputs[0] =
        scaled_by_channel(g, grad_reshape_like(g, normalized(g, parts, &last, 1), x), rank);
}

/* The definition adds 1e-9 to the deviation. */
void gradient_mean_variance_normalization(Grad *g, Value **outputs, uint32_t count) {
    (void)count;
    static const int64_t usual[] = {0, 2, 3};
    uint32_t over;
    const int64_t *axes = grad_list(g, "axes", &over);
    if (!axes) {
        axes = usual;
        over = 3;
    }
    Value *x = grad_in(g, 0), *wide = widened(g, x);
    Value *middle = GRAD(g, "Sub", wide, mean(g, wide, axes, over));
    Value *variance = mean(g, GRAD(g, "Mul", middle, middle), axes, over);
    Value *normal = GRAD_CALC(g, "p / (Sqrt(q) + 0.000000001)", middle, variance);
    outputs[0] = grad_cast(g, normal, type_dtype(x->type));
}

/* ---- over neighbors ------------------------------------------------------------------------- */

/* Squares are averaged over channels as an AveragePool of (N, 1, C, rest) does it. */
void gradient_lrn(Grad *g, Value **outputs, uint32_t count) {
    (void)count;
    Value *x = grad_in(g, 0);
    const int64_t size = grad_int(g, "size");
    const int64_t apart[] = {0, 1, grad_size(g, x, 1), -1};
    const int64_t kernel[] = {size, 1}, pads[] = {(size - 1) / 2, 0, size / 2, 0};
    Value *wide = widened(g, x);
    Value *squares = GRAD(g, "Reshape", GRAD(g, "Mul", wide, wide), grad_ints(g, apart, 4));
    Value *sums = GRAD(g, "AveragePool", squares);
    node_set_attr_ints(sums->producer, "kernel_shape", kernel, 2);
    node_set_attr_ints(sums->producer, "pads", pads, 4);
    node_set_attr_int(sums->producer, "count_include_pad", 1);
    Value *around = grad_reshape_like(g, sums, x);
    Value *normal = GRAD_CALC(g, "p / Pow($bias + $alpha * q, $beta)", wide, around);
    outputs[0] = grad_cast(g, normal, type_dtype(x->type));
}
