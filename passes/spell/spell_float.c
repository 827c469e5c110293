// SPDX-License-Identifier: Apache-2.0
/* Recipes of operators of floats: activations, norms, products. */
#include <string.h>

#include "spell.h"

static bool is_op(const Spell *spell, const char *op) {
    return sym_equals(spell->node->op_type, op);
}

Value *spell_sum(Spell *spell, Value *a, Value *b) {
    if (!a || !b) return a ? a : b;
    return SPELL(spell, "Add", type_dtype(a->type), a, b);
}

/* Operands i and k, as floats; k may be omitted. */
static Value *wide_sum(Spell *spell, uint32_t i, uint32_t k) {
    Value *a = spell_wide(spell, i);
    return spell_sum(spell, a, spell_wide(spell, k));
}

static Value *fused_gelu(Spell *spell, Value *x, bool tanh) {
    Node *gelu = spell_fused(spell, "Gelu", 1, type_dtype(x->type));
    node_set_input(gelu, 0, x);
    if (tanh) node_set_attr_string(gelu, "approximate", "tanh");
    return gelu->outputs[0];
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Gelu, BiasGelu */
bool spell_bias_gelu(Spell *spell) {
    if (!spell_takes(spell, spell_input(spell, 0))) return false;
    Value *x = spell_input(spell, 1) ? wide_sum(spell, 0, 1) : spell_input(spell, 0);
    spell_give(spell, 0, fused_gelu(spell, x, false));
    return true;
}

bool spell_fast_gelu(Spell *spell) {
    if (!spell_takes(spell, spell_input(spell, 0))) return false;
    Value *x = spell_input(spell, 1) ? wide_sum(spell, 0, 1) : spell_input(spell, 0);
    spell_give(spell, 0, fused_gelu(spell, x, true));
    return true;
}

/* The first half of the biased rows by what Gelu makes of the second. */
bool spell_bias_split_gelu(Spell *spell) {
    enum { NUM_OUTPUTS_SINCE = 18, NEGATIVE_SINCE = 11 };
    if (!spell_needs(spell, NEGATIVE_SINCE)) return false;
    Value *x = wide_sum(spell, 0, 1);
    Node *split = spell_plain(spell, "Split", 1, DTYPE_FLOAT);
    node_set_input(split, 0, x);
    node_set_attr_int(split, "axis", -1);
    if (spell->opset >= NUM_OUTPUTS_SINCE) node_set_attr_int(split, "num_outputs", 2);
    Value *gate = fused_gelu(spell, spell_output(spell, split, DTYPE_FLOAT), false);
    spell_give(spell, 0, SPELL(spell, "Mul", DTYPE_FLOAT, split->outputs[0], gate));
    return true;
}

/* ---- norms ----------------------------------------------------------------------------------- */

Node *spell_norm(Spell *spell, const Norm *norm) {
    Value *const inputs[] = {norm->x, norm->skip, norm->scale, norm->bias};
    Node *made = spell_fused(spell, "LayerNormalization", 4, type_dtype(norm->x->type));
    for (uint32_t i = 0; i < 4; i++) node_set_input(made, i, inputs[i]);
    if (!norm->bias) node_resize_inputs(made, 3);
    node_set_attr_int(made, "axis", norm->axis);
    node_set_attr_float(made, "epsilon", norm->epsilon);
    if (norm->rms) node_set_attr_int(made, "rms", 1);
    return made;
}

/* The mean of each row, of the last axis. */
static Value *row_mean(Spell *spell, Value *x) {
    enum { AXES_AN_INPUT = 18 };
    static const int64_t last = -1;
    Value *axes = spell->opset >= AXES_AN_INPUT ? spell_ints(spell, &last, 1) : NULL;
    Value *mean = SPELL(spell, "ReduceMean", DTYPE_FLOAT, x, axes);
    if (!axes) node_set_attr_ints(mean->producer, "axes", &last, 1);
    return mean;
}

/* 1 by the root of each row's variance, of x that has mean 0 or is taken as it is. */
static Value *inverse_deviation(Spell *spell, Value *x, float epsilon) {
    Value *variance = row_mean(spell, SPELL(spell, "Mul", DTYPE_FLOAT, x, x));
    Value *more = SPELL(spell, "Add", DTYPE_FLOAT, variance, spell_floats(spell, epsilon, 1));
    return SPELL(spell, "Reciprocal", DTYPE_FLOAT, SPELL(spell, "Sqrt", DTYPE_FLOAT, more));
}

/* An operator that ONNX Runtime's files have in ONNX's own domain. */
bool spell_simplified_layer_norm(Spell *spell) {
    if (!spell_takes(spell, spell_input(spell, 0)) || !spell_takes(spell, spell_input(spell, 1)))
        return false;
    const bool rows = spell_int(spell, "axis", -1) == -1;
    if (!rows && !spell_lacks(spell, 1, "inv_std_var")) return false;
    const Norm norm = {.x = spell_input(spell, 0),
                       .scale = spell_input(spell, 1),
                       .axis = spell_int(spell, "axis", -1),
                       .epsilon = spell_real(spell, "epsilon", 1e-5F),
                       .rms = true};
    if (spell_wants(spell, 1))
        spell_give(spell, 1, inverse_deviation(spell, spell_wide(spell, 0), norm.epsilon));
    spell_give(spell, 0, spell_norm(spell, &norm)->outputs[0]);
    return true;
}

/* Outputs 1 and 2 of a skip norm, where they are wanted: of the sum, in float. */
static bool give_moments(Spell *spell, const Norm *norm, Value *bias) {
    enum { MEAN = 1, DEVIATION };
    if (norm->rms && !spell_lacks(spell, MEAN, "mean")) return false;
    if (!spell_wants(spell, MEAN) && !spell_wants(spell, DEVIATION)) return true;
    Value *x = spell_sum(spell, wide_sum(spell, 0, 1), bias);
    Value *mean = norm->rms ? NULL : row_mean(spell, x);
    if (spell_wants(spell, DEVIATION)) {
        Value *centered = mean ? SPELL(spell, "Sub", DTYPE_FLOAT, x, mean) : x;
        spell_give(spell, DEVIATION, inverse_deviation(spell, centered, norm->epsilon));
    }
    if (mean && spell_wants(spell, MEAN)) spell_give(spell, MEAN, mean); /* what reads it is made */
    return true;
}

/* input + skip + bias, normalized along the last axis. Where skip broadcasts, or may, it is added
 * before. */
bool spell_skip_layer_norm(Spell *spell) {
    enum { SUM = 3 };
    const bool rms = is_op(spell, "SkipSimplifiedLayerNormalization");
    Value *skip = spell_input(spell, 1), *more = spell_input(spell, rms ? 3 : 4);
    Norm norm = {.x = more ? wide_sum(spell, 0, rms ? 3 : 4) : spell_input(spell, 0),
                 .skip = skip,
                 .scale = spell_input(spell, 2),
                 .bias = rms ? NULL : spell_input(spell, 3),
                 .axis = -1,
                 .epsilon = spell_real(spell, "epsilon", 1e-12F),
                 .rms = rms};
    if (!give_moments(spell, &norm, spell_wide(spell, rms ? 3 : 4))) return false;
    if (!fuse_same_shape(spell_input(spell, 0), skip)) {
        norm.x = more ? norm.x : spell_wide(spell, 0);
        norm.x = spell_sum(spell, norm.x, spell_wide(spell, 1));
        norm.skip = NULL;
    }
    Node *made = spell_norm(spell, &norm);
    if (spell_wants(spell, SUM)) {
        Value *sum = norm.skip ? spell_output(spell, made, type_dtype(norm.x->type)) : norm.x;
        spell_give(spell, SUM, sum);
    }
    spell_give(spell, 0, made->outputs[0]);
    return true;
}

/* x (batch, …, channels), or the channels second, in groups that have mean 0 and variance 1. */
static Value *in_groups(Spell *spell, Value *x, uint32_t rank, int64_t groups) {
    const bool last = spell_int(spell, "channels_last", 1) != 0;
    const int64_t flat[] = {0, groups, -1};
    Value *first = last ? spell_channels(spell, x, rank, true) : x;
    Value *shape = SPELL(spell, "Shape", DTYPE_INT64, first);
    Value *rows = SPELL(spell, "Reshape", DTYPE_FLOAT, first, spell_ints(spell, flat, 3));
    Value *ones = spell_floats(spell, 1, groups), *zeros = spell_floats(spell, 0, groups);
    Value *norm = SPELL(spell, "InstanceNormalization", DTYPE_FLOAT, rows, ones, zeros);
    node_set_attr_float(norm->producer, "epsilon", spell_real(spell, "epsilon", 1e-5F));
    Value *whole = SPELL(spell, "Reshape", DTYPE_FLOAT, norm, shape);
    return last ? spell_channels(spell, whole, rank, false) : whole;
}

/* One number a channel, as it broadcasts to x. */
static Value *by_channel(Spell *spell, Value *numbers, uint32_t rank) {
    if (!numbers || spell_int(spell, "channels_last", 1)) return numbers;
    int64_t shape[SPELL_RANK_MOST];
    for (uint32_t i = 0; i + 1 < rank; i++) shape[i] = i ? 1 : -1;
    return SPELL(spell, "Reshape", DTYPE_FLOAT, numbers, spell_ints(spell, shape, rank - 1));
}

/* Skip may be (batch, channels): then it holds for all places. */
static Value *skip_of(Spell *spell, uint32_t rank) {
    Value *skip = spell_wide(spell, 3);
    if (fuse_rank(spell_input(spell, 3)) != 2) return skip;
    int64_t shape[SPELL_RANK_MOST];
    const uint32_t channels = spell_int(spell, "channels_last", 1) ? rank - 1 : 1;
    for (uint32_t i = 0; i < rank; i++) shape[i] = i == 0 ? 0 : i == channels ? -1 : 1;
    return SPELL(spell, "Reshape", DTYPE_FLOAT, skip, spell_ints(spell, shape, rank));
}

/* GroupNorm, SkipGroupNorm */
bool spell_group_norm(Spell *spell) {
    const int64_t groups = spell_int(spell, "groups", 0), rank = fuse_rank(spell_input(spell, 0)),
                  activation = spell_int(spell, "activation", 0);
    const bool skips = is_op(spell, "SkipGroupNorm");
    if (rank < 3 || rank > SPELL_RANK_MOST) return spell_refuse(spell, "of this or no known rank");
    if (groups < 1 || groups > INT32_MAX)
        return spell_refuse(spell, "of %lld groups", (long long)groups);
    if (activation != 0 && activation != 1)
        return spell_refuse(spell, "with activation %lld", (long long)activation);
    if (skips && fuse_rank(spell_input(spell, 3)) < 0)
        return spell_refuse(spell, "where skip has no known rank");
    const uint32_t axes = (uint32_t)rank;
    Value *x = spell_wide(spell, 0);
    if (skips) {
        x = spell_sum(spell, x, skip_of(spell, axes));
        x = spell_sum(spell, x, by_channel(spell, spell_wide(spell, 4), axes));
    }
    Value *y = in_groups(spell, x, axes, groups);
    y = SPELL(spell, "Mul", DTYPE_FLOAT, y, by_channel(spell, spell_wide(spell, 1), axes));
    y = SPELL(spell, "Add", DTYPE_FLOAT, y, by_channel(spell, spell_wide(spell, 2), axes));
    if (activation)
        y = SPELL(spell, "Mul", DTYPE_FLOAT, y, SPELL(spell, "Sigmoid", DTYPE_FLOAT, y));
    spell_give(spell, 0, y);
    if (skips && spell_wants(spell, 1)) spell_give(spell, 1, x);
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
#include "spell_ends.def"
    };
    for (size_t i = 0; attr && i < sizeof ends / sizeof *ends; i++)
        if (attr_is_text(attr, ends[i].name)) return &ends[i];
    return NULL;
}

bool spell_fused_conv(Spell *spell) {
    const Attr *activation = node_attr(spell->node, "activation");
    const End *end = end_of(activation);
    Value *x = spell_input(spell, 0);
    if (!spell_takes(spell, x)) return false;
    if (activation && !attr_is_text(activation, "") && (!end || !end->conv))
        return spell_refuse(spell, "with this activation");
    Node *made = spell_fused(spell, "Conv", spell->node->input_count, type_dtype(x->type));
    for (uint32_t i = 0; i < made->input_count; i++) node_set_input(made, i, spell_input(spell, i));
    if (!spell_keep_attrs(spell, made, spell_window_attrs)) return false;
    if (end) node_set_attr_string(made, "activation", end->name);
    uint32_t count;
    const float *params = attr_floats(node_attr(spell->node, "activation_params"), &count);
    if (end && params) node_set_attr_floats(made, "activation_params", params, count);
    spell_give(spell, 0, made->outputs[0]);
    return true;
}

/* Data and weights have their channels last. */
bool spell_nhwc_conv(Spell *spell) {
    Value *x = spell_input(spell, 0), *w = spell_input(spell, 1);
    const int64_t rank = fuse_rank(w);
    if (!spell_takes(spell, x)) return false;
    if (rank < 3 || rank > SPELL_RANK_MOST)
        return spell_refuse(spell, "with weights of this or no known rank");
    Value *first = spell_channels(spell, w, (uint32_t)rank, true);
    Node *made = spell_fused(spell, "ConvLast", 3, type_dtype(x->type));
    Value *const inputs[] = {x, first, spell_input(spell, 2)};
    for (uint32_t i = 0; i < 3; i++) node_set_input(made, i, inputs[i]);
    if (!inputs[2]) node_resize_inputs(made, 2);
    if (!spell_keep_attrs(spell, made, spell_window_attrs)) return false;
    spell_give(spell, 0, made->outputs[0]);
    return true;
}

bool spell_nhwc_max_pool(Spell *spell) {
    Value *x = spell_input(spell, 0);
    Node *made = spell_fused(spell, "MaxPoolLast", 1, type_dtype(x->type));
    node_set_input(made, 0, x);
    if (!spell_keep_attrs(spell, made, spell_window_attrs)) return false;
    spell_give(spell, 0, made->outputs[0]);
    return true;
}

/* The activation of a FusedGemm as an operator; NULL where it is none that is known. */
static Value *activated(Spell *spell, Value *y) {
    const Attr *attr = node_attr(spell->node, "activation");
    const End *end = end_of(attr);
    if (!attr || attr_is_text(attr, "")) return y;
    if (!end || !end->gemm) return NULL;
    Value *z = SPELL(spell, end->name, type_dtype(y->type), y);
    for (size_t k = 0; k < 2 && end->params[k]; k++) {
        float number;
        const char *from = arena_printf(spell->fuse.ctx->scratch, "activation_%s", end->params[k]);
        if (attr_float(node_attr(spell->node, from), &number))
            node_set_attr_float(z->producer, end->params[k], number);
    }
    return z;
}

bool spell_fused_gemm(Spell *spell) {
    static const char *const kept[] = {"transA", "transB", NULL};
    enum { C_OPTIONAL_SINCE = 11, BROADCASTS_SINCE = 7 };
    if (!spell_needs(spell, spell_input(spell, 2) ? BROADCASTS_SINCE : C_OPTIONAL_SINCE))
        return false;
    Value *a = spell_wide(spell, 0), *b = spell_wide(spell, 1), *c = spell_wide(spell, 2);
    Value *y = SPELL(spell, "Gemm", type_dtype(a->type), a, b, c);
    if (!spell_keep_attrs(spell, y->producer, kept)) return false;
    node_set_attr_float(y->producer, "alpha", spell_real(spell, "alpha", 1));
    node_set_attr_float(y->producer, "beta", spell_real(spell, "beta", 1));
    y = activated(spell, y);
    if (!y) return spell_refuse(spell, "with this activation");
    spell_give(spell, 0, y);
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
static bool matrix_of(Spell *spell, uint32_t i, bool fused, Value **result) {
    Value *x = *result = spell_input(spell, i);
    bool turn = spell_int(spell, i ? "transB" : "transA", 0) != 0 && !fused;
    const bool batch = spell_int(spell, i ? "transBatchB" : "transBatchA", 0) != 0;
    const int64_t rank = fuse_rank(x);
    int64_t perm[SPELL_RANK_MOST];
    if (!turn && !batch) return true;
    if (rank < 1 || rank > SPELL_RANK_MOST)
        return spell_refuse(spell, "transposing what has this or no known rank");
    if (rank == 1) return true;
    if (find_order(rank, turn, batch, perm))
        *result = spell_transpose(spell, x, perm, (uint32_t)rank);
    return true;
}

/* FusedMatMul, TransposeMatMul */
bool spell_fused_matmul(Spell *spell) {
    const float alpha = spell_real(spell, "alpha", 1);
    const Value *a = spell_input(spell, 0), *b = spell_input(spell, 1);
    const bool fused = fuse_takes(a);
    const bool turn_a = fused && spell_int(spell, "transA", 0) && fuse_rank(a) == 2,
               turn_b = fused && spell_int(spell, "transB", 0) && fuse_rank(b) >= 2 &&
                        !spell_int(spell, "transBatchB", 0);
    Value *operands[3] = {NULL, NULL, NULL};
    if (!matrix_of(spell, 0, turn_a, &operands[0]) || !matrix_of(spell, 1, turn_b, &operands[1]))
        return false;
    if (!fused) {
        const Dtype dtype = type_dtype(a->type);
        Value *y = spell_make(spell, "MatMul", operands, dtype);
        Value *factor = spell_cast(spell, spell_floats(spell, alpha, 0), dtype);
        spell_give(spell, 0, SPELL(spell, "Mul", dtype, y, factor));
        return true;
    }
    Node *made = spell_fused(spell, "MatMul", 2, type_dtype(a->type));
    for (uint32_t i = 0; i < 2; i++) node_set_input(made, i, operands[i]);
    node_set_attr_float(made, "alpha", alpha);
    if (turn_a) node_set_attr_int(made, "transA", 1);
    if (turn_b) node_set_attr_int(made, "transB", 1);
    spell_give(spell, 0, made->outputs[0]);
    return true;
}
