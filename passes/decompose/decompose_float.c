// SPDX-License-Identifier: Apache-2.0
/* Recipes of operators of floats: activations, norms, products. */
#include <string.h>

#include "decompose.h"

static bool is_op(const Decompose *decompose, const char *op) {
    return sym_equals(decompose->node->op_type, op);
}

Value *decompose_sum(Decompose *decompose, Value *a, Value *b) {
    if (!a || !b) return a ? a : b;
    return DECOMPOSE(decompose, "Add", type_dtype(a->type), a, b);
}

/* Operands i and k, as floats; k may be omitted. */
static Value *wide_sum(Decompose *decompose, uint32_t i, uint32_t k) {
    Value *a = decompose_wide(decompose, i);
    return decompose_sum(decompose, a, decompose_wide(decompose, k));
}

static Value *fused_gelu(Decompose *decompose, Value *x, bool tanh) {
    Node *gelu = decompose_fused(decompose, "Gelu", 1, type_dtype(x->type));
    node_set_input(gelu, 0, x);
    if (tanh) node_set_attr_string(gelu, "approximate", "tanh");
    return gelu->outputs[0];
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Gelu, BiasGelu */
bool decompose_bias_gelu(Decompose *decompose) {
    if (!decompose_takes(decompose, decompose_input(decompose, 0))) return false;
    Value *x =
        decompose_input(decompose, 1) ? wide_sum(decompose, 0, 1) : decompose_input(decompose, 0);
    decompose_give(decompose, 0, fused_gelu(decompose, x, false));
    return true;
}

bool decompose_fast_gelu(Decompose *decompose) {
    if (!decompose_takes(decompose, decompose_input(decompose, 0))) return false;
    Value *x =
        decompose_input(decompose, 1) ? wide_sum(decompose, 0, 1) : decompose_input(decompose, 0);
    decompose_give(decompose, 0, fused_gelu(decompose, x, true));
    return true;
}

/* The first half of the biased rows by what Gelu makes of the second. */
bool decompose_bias_split_gelu(Decompose *decompose) {
    enum { NUM_OUTPUTS_SINCE = 18, NEGATIVE_SINCE = 11 };
    if (!decompose_needs(decompose, NEGATIVE_SINCE)) return false;
    Value *x = wide_sum(decompose, 0, 1);
    Node *split = decompose_plain(decompose, "Split", 1, DTYPE_FLOAT);
    node_set_input(split, 0, x);
    node_set_attr_int(split, "axis", -1);
    if (decompose->opset >= NUM_OUTPUTS_SINCE) node_set_attr_int(split, "num_outputs", 2);
    Value *gate = fused_gelu(decompose, decompose_output(decompose, split, DTYPE_FLOAT), false);
    decompose_give(decompose, 0, DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, split->outputs[0], gate));
    return true;
}

/* ---- norms ----------------------------------------------------------------------------------- */

Node *decompose_norm(Decompose *decompose, const Norm *norm) {
    Value *const inputs[] = {norm->x, norm->skip, norm->scale, norm->bias};
    Node *made = decompose_fused(decompose, "LayerNormalization", 4, type_dtype(norm->x->type));
    for (uint32_t i = 0; i < 4; i++) node_set_input(made, i, inputs[i]);
    if (!norm->bias) node_resize_inputs(made, 3);
    node_set_attr_int(made, "axis", norm->axis);
    node_set_attr_float(made, "epsilon", norm->epsilon);
    if (norm->rms) node_set_attr_int(made, "rms", 1);
    return made;
}

/* The mean of each row, of the last axis. */
static Value *row_mean(Decompose *decompose, Value *x) {
    enum { AXES_AN_INPUT = 18 };
    static const int64_t last = -1;
    Value *axes = decompose->opset >= AXES_AN_INPUT ? decompose_ints(decompose, &last, 1) : NULL;
    Value *mean = DECOMPOSE(decompose, "ReduceMean", DTYPE_FLOAT, x, axes);
    if (!axes) node_set_attr_ints(mean->producer, "axes", &last, 1);
    return mean;
}

/* 1 by the root of each row's variance, of x that has mean 0 or is taken as it is. */
static Value *inverse_deviation(Decompose *decompose, Value *x, float epsilon) {
    Value *variance = row_mean(decompose, DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, x, x));
    Value *more =
        DECOMPOSE(decompose, "Add", DTYPE_FLOAT, variance, decompose_floats(decompose, epsilon, 1));
    return DECOMPOSE(decompose, "Reciprocal", DTYPE_FLOAT,
                     DECOMPOSE(decompose, "Sqrt", DTYPE_FLOAT, more));
}

/* An operator that ONNX Runtime's files have in ONNX's own domain. */
bool decompose_simplified_layer_norm(Decompose *decompose) {
    if (!decompose_takes(decompose, decompose_input(decompose, 0)) ||
        !decompose_takes(decompose, decompose_input(decompose, 1)))
        return false;
    const bool rows = decompose_int(decompose, "axis", -1) == -1;
    if (!rows && !decompose_lacks(decompose, 1, "inv_std_var")) return false;
    const Norm norm = {.x = decompose_input(decompose, 0),
                       .scale = decompose_input(decompose, 1),
                       .axis = decompose_int(decompose, "axis", -1),
                       .epsilon = decompose_real(decompose, "epsilon", 1e-5F),
                       .rms = true};
    if (decompose_wants(decompose, 1))
        decompose_give(decompose, 1,
                       inverse_deviation(decompose, decompose_wide(decompose, 0), norm.epsilon));
    decompose_give(decompose, 0, decompose_norm(decompose, &norm)->outputs[0]);
    return true;
}

/* Outputs 1 and 2 of a skip norm, where they are wanted: of the sum, in float. */
static bool give_moments(Decompose *decompose, const Norm *norm, Value *bias) {
    enum { MEAN = 1, DEVIATION };
    if (norm->rms && !decompose_lacks(decompose, MEAN, "mean")) return false;
    if (!decompose_wants(decompose, MEAN) && !decompose_wants(decompose, DEVIATION)) return true;
    Value *x = decompose_sum(decompose, wide_sum(decompose, 0, 1), bias);
    Value *mean = norm->rms ? NULL : row_mean(decompose, x);
    if (decompose_wants(decompose, DEVIATION)) {
        Value *centered = mean ? DECOMPOSE(decompose, "Sub", DTYPE_FLOAT, x, mean) : x;
        decompose_give(decompose, DEVIATION, inverse_deviation(decompose, centered, norm->epsilon));
    }
    if (mean && decompose_wants(decompose, MEAN))
        decompose_give(decompose, MEAN, mean); /* what reads it is made */
    return true;
}

/* input + skip + bias, normalized along the last axis. Where skip broadcasts, or may, it is added
 * before. */
bool decompose_skip_layer_norm(Decompose *decompose) {
    enum { SUM = 3 };
    const bool rms = is_op(decompose, "SkipSimplifiedLayerNormalization");
    Value *skip = decompose_input(decompose, 1), *more = decompose_input(decompose, rms ? 3 : 4);
    Norm norm = {.x = more ? wide_sum(decompose, 0, rms ? 3 : 4) : decompose_input(decompose, 0),
                 .skip = skip,
                 .scale = decompose_input(decompose, 2),
                 .bias = rms ? NULL : decompose_input(decompose, 3),
                 .axis = -1,
                 .epsilon = decompose_real(decompose, "epsilon", 1e-12F),
                 .rms = rms};
    if (!give_moments(decompose, &norm, decompose_wide(decompose, rms ? 3 : 4))) return false;
    if (!fuse_same_shape(decompose_input(decompose, 0), skip)) {
        norm.x = more ? norm.x : decompose_wide(decompose, 0);
        norm.x = decompose_sum(decompose, norm.x, decompose_wide(decompose, 1));
        norm.skip = NULL;
    }
    Node *made = decompose_norm(decompose, &norm);
    if (decompose_wants(decompose, SUM)) {
        Value *sum =
            norm.skip ? decompose_output(decompose, made, type_dtype(norm.x->type)) : norm.x;
        decompose_give(decompose, SUM, sum);
    }
    decompose_give(decompose, 0, made->outputs[0]);
    return true;
}

/* x (batch, …, channels), or the channels second, in groups that have mean 0 and variance 1. */
static Value *in_groups(Decompose *decompose, Value *x, uint32_t rank, int64_t groups) {
    const bool last = decompose_int(decompose, "channels_last", 1) != 0;
    const int64_t flat[] = {0, groups, -1};
    Value *first = last ? decompose_channels(decompose, x, rank, true) : x;
    Value *shape = DECOMPOSE(decompose, "Shape", DTYPE_INT64, first);
    Value *rows =
        DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, first, decompose_ints(decompose, flat, 3));
    Value *ones = decompose_floats(decompose, 1, groups),
          *zeros = decompose_floats(decompose, 0, groups);
    Value *norm = DECOMPOSE(decompose, "InstanceNormalization", DTYPE_FLOAT, rows, ones, zeros);
    node_set_attr_float(norm->producer, "epsilon", decompose_real(decompose, "epsilon", 1e-5F));
    Value *whole = DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, norm, shape);
    return last ? decompose_channels(decompose, whole, rank, false) : whole;
}

/* One number a channel, as it broadcasts to x. */
static Value *by_channel(Decompose *decompose, Value *numbers, uint32_t rank) {
    if (!numbers || decompose_int(decompose, "channels_last", 1)) return numbers;
    int64_t shape[DECOMPOSE_RANK_MOST];
    for (uint32_t i = 0; i + 1 < rank; i++) shape[i] = i ? 1 : -1;
    return DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, numbers,
                     decompose_ints(decompose, shape, rank - 1));
}

/* Skip may be (batch, channels): then it holds for all places. */
static Value *skip_of(Decompose *decompose, uint32_t rank) {
    Value *skip = decompose_wide(decompose, 3);
    if (fuse_rank(decompose_input(decompose, 3)) != 2) return skip;
    int64_t shape[DECOMPOSE_RANK_MOST];
    const uint32_t channels = decompose_int(decompose, "channels_last", 1) ? rank - 1 : 1;
    for (uint32_t i = 0; i < rank; i++) shape[i] = i == 0 ? 0 : i == channels ? -1 : 1;
    return DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, skip,
                     decompose_ints(decompose, shape, rank));
}

/* GroupNorm, SkipGroupNorm */
bool decompose_group_norm(Decompose *decompose) {
    const int64_t groups = decompose_int(decompose, "groups", 0),
                  rank = fuse_rank(decompose_input(decompose, 0)),
                  activation = decompose_int(decompose, "activation", 0);
    const bool skips = is_op(decompose, "SkipGroupNorm");
    if (rank < 3 || rank > DECOMPOSE_RANK_MOST)
        return decompose_refuse(decompose, "of this or an unknown rank");
    if (groups < 1 || groups > INT32_MAX)
        return decompose_refuse(decompose, "of %lld groups", (long long)groups);
    if (activation != 0 && activation != 1)
        return decompose_refuse(decompose, "with activation %lld", (long long)activation);
    if (skips && fuse_rank(decompose_input(decompose, 3)) < 0)
        return decompose_refuse(decompose, "if the rank of skip is unknown");
    const uint32_t axes = (uint32_t)rank;
    Value *x = decompose_wide(decompose, 0);
    if (skips) {
        x = decompose_sum(decompose, x, skip_of(decompose, axes));
        x = decompose_sum(decompose, x, by_channel(decompose, decompose_wide(decompose, 4), axes));
    }
    Value *y = in_groups(decompose, x, axes, groups);
    y = DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, y,
                  by_channel(decompose, decompose_wide(decompose, 1), axes));
    y = DECOMPOSE(decompose, "Add", DTYPE_FLOAT, y,
                  by_channel(decompose, decompose_wide(decompose, 2), axes));
    if (activation)
        y = DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, y,
                      DECOMPOSE(decompose, "Sigmoid", DTYPE_FLOAT, y));
    decompose_give(decompose, 0, y);
    if (skips && decompose_wants(decompose, 1)) decompose_give(decompose, 1, x);
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

/* An activation at a product's end. */
typedef struct End {
    const char *name;
    bool conv, gemm;
    const char *params[2];
} End;

/* NULL where the attribute names none. */
static const End *end_of(const Attr *attr) {
    static const End ends[] = {
#define END(name, conv, gemm, ...) {name, conv, gemm, {__VA_ARGS__}},
#include "decompose_ends.def"
    };
    for (size_t i = 0; attr && i < sizeof ends / sizeof *ends; i++)
        if (attr_is_text(attr, ends[i].name)) return &ends[i];
    return NULL;
}

bool decompose_fused_conv(Decompose *decompose) {
    const Attr *activation = node_attr(decompose->node, "activation");
    const End *end = end_of(activation);
    Value *x = decompose_input(decompose, 0);
    if (!decompose_takes(decompose, x)) return false;
    if (activation && !attr_is_text(activation, "") && (!end || !end->conv))
        return decompose_refuse(decompose, "with this activation");
    Node *made =
        decompose_fused(decompose, "Conv", decompose->node->input_count, type_dtype(x->type));
    for (uint32_t i = 0; i < made->input_count; i++)
        node_set_input(made, i, decompose_input(decompose, i));
    if (!decompose_keep_attrs(decompose, made, decompose_window_attrs)) return false;
    if (end) node_set_attr_string(made, "activation", end->name);
    uint32_t count;
    const float *params = attr_floats(node_attr(decompose->node, "activation_params"), &count);
    if (end && params) node_set_attr_floats(made, "activation_params", params, count);
    decompose_give(decompose, 0, made->outputs[0]);
    return true;
}

/* Data and weights have their channels last. */
bool decompose_nhwc_conv(Decompose *decompose) {
    Value *x = decompose_input(decompose, 0), *w = decompose_input(decompose, 1);
    const int64_t rank = fuse_rank(w);
    if (!decompose_takes(decompose, x)) return false;
    if (rank < 3 || rank > DECOMPOSE_RANK_MOST)
        return decompose_refuse(decompose, "with weights of this or an unknown rank");
    Value *first = decompose_channels(decompose, w, (uint32_t)rank, true);
    Node *made = decompose_fused(decompose, "ConvLast", 3, type_dtype(x->type));
    Value *const inputs[] = {x, first, decompose_input(decompose, 2)};
    for (uint32_t i = 0; i < 3; i++) node_set_input(made, i, inputs[i]);
    if (!inputs[2]) node_resize_inputs(made, 2);
    if (!decompose_keep_attrs(decompose, made, decompose_window_attrs)) return false;
    decompose_give(decompose, 0, made->outputs[0]);
    return true;
}

bool decompose_nhwc_max_pool(Decompose *decompose) {
    Value *x = decompose_input(decompose, 0);
    Node *made = decompose_fused(decompose, "MaxPoolLast", 1, type_dtype(x->type));
    node_set_input(made, 0, x);
    if (!decompose_keep_attrs(decompose, made, decompose_window_attrs)) return false;
    decompose_give(decompose, 0, made->outputs[0]);
    return true;
}

/* The activation of a FusedGemm as an operator; NULL where it is none that is known. */
static Value *activated(Decompose *decompose, Value *y) {
    const Attr *attr = node_attr(decompose->node, "activation");
    const End *end = end_of(attr);
    if (!attr || attr_is_text(attr, "")) return y;
    if (!end || !end->gemm) return NULL;
    Value *z = DECOMPOSE(decompose, end->name, type_dtype(y->type), y);
    for (size_t k = 0; k < 2 && end->params[k]; k++) {
        float number;
        const char *from =
            arena_printf(decompose->fuse.ctx->scratch, "activation_%s", end->params[k]);
        if (attr_float(node_attr(decompose->node, from), &number))
            node_set_attr_float(z->producer, end->params[k], number);
    }
    return z;
}

bool decompose_fused_gemm(Decompose *decompose) {
    static const char *const kept[] = {"transA", "transB", NULL};
    enum { C_OPTIONAL_SINCE = 11, BROADCASTS_SINCE = 7 };
    if (!decompose_needs(decompose,
                         decompose_input(decompose, 2) ? BROADCASTS_SINCE : C_OPTIONAL_SINCE))
        return false;
    Value *a = decompose_wide(decompose, 0), *b = decompose_wide(decompose, 1),
          *c = decompose_wide(decompose, 2);
    Value *y = DECOMPOSE(decompose, "Gemm", type_dtype(a->type), a, b, c);
    if (!decompose_keep_attrs(decompose, y->producer, kept)) return false;
    node_set_attr_float(y->producer, "alpha", decompose_real(decompose, "alpha", 1));
    node_set_attr_float(y->producer, "beta", decompose_real(decompose, "beta", 1));
    y = activated(decompose, y);
    if (!y) return decompose_refuse(decompose, "with this activation");
    decompose_give(decompose, 0, y);
    return true;
}

/* The order of axes in which FusedMatMul takes a matrix. False where it is the matrix's own. */
static bool find_order(int64_t rank, bool turn, bool batch, int64_t *perm) {
    for (int64_t i = 0; i < rank; i++) perm[i] = i;
    for (int64_t i = 0; batch && i + 1 < rank; i++) perm[i] = i + 2 < rank ? i + 1 : 0;
    if (turn) {
        const int64_t last = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
    return turn || batch;
}

/* Operand i as MatMul takes it. `fused`: its last axes are exchanged by demi.fused's MatMul. */
static bool matrix_of(Decompose *decompose, uint32_t i, bool fused, Value **result) {
    Value *x = *result = decompose_input(decompose, i);
    bool turn = decompose_int(decompose, i ? "transB" : "transA", 0) != 0 && !fused;
    const bool batch = decompose_int(decompose, i ? "transBatchB" : "transBatchA", 0) != 0;
    const int64_t rank = fuse_rank(x);
    int64_t perm[DECOMPOSE_RANK_MOST];
    if (!turn && !batch) return true;
    if (rank < 1 || rank > DECOMPOSE_RANK_MOST)
        return decompose_refuse(decompose, "transposing an operand of this or an unknown rank");
    if (rank == 1) return true;
    if (find_order(rank, turn, batch, perm))
        *result = decompose_transpose(decompose, x, perm, (uint32_t)rank);
    return true;
}

/* FusedMatMul, TransposeMatMul */
bool decompose_fused_matmul(Decompose *decompose) {
    const float alpha = decompose_real(decompose, "alpha", 1);
    const Value *a = decompose_input(decompose, 0), *b = decompose_input(decompose, 1);
    const bool fused = fuse_takes(a);
    const bool turn_a = fused && decompose_int(decompose, "transA", 0) && fuse_rank(a) == 2,
               turn_b = fused && decompose_int(decompose, "transB", 0) && fuse_rank(b) >= 2 &&
                        !decompose_int(decompose, "transBatchB", 0);
    Value *operands[3] = {NULL, NULL, NULL};
    if (!matrix_of(decompose, 0, turn_a, &operands[0]) ||
        !matrix_of(decompose, 1, turn_b, &operands[1]))
        return false;
    if (!fused) {
        const Dtype dtype = type_dtype(a->type);
        Value *y = decompose_make(decompose, "MatMul", operands, dtype);
        Value *factor = decompose_cast(decompose, decompose_floats(decompose, alpha, 0), dtype);
        decompose_give(decompose, 0, DECOMPOSE(decompose, "Mul", dtype, y, factor));
        return true;
    }
    Node *made = decompose_fused(decompose, "MatMul", 2, type_dtype(a->type));
    for (uint32_t i = 0; i < 2; i++) node_set_input(made, i, operands[i]);
    node_set_attr_float(made, "alpha", alpha);
    if (turn_a) node_set_attr_int(made, "transA", 1);
    if (turn_b) node_set_attr_int(made, "transB", 1);
    decompose_give(decompose, 0, made->outputs[0]);
    return true;
}
