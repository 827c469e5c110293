// SPDX-License-Identifier: Apache-2.0
/* Recipes of what goes with linear attention and experts, gates, and of products of weights in the
 * 4-bit floats of bitsandbytes. */
#include "spell.h"

/* ---- gates ----------------------------------------------------------------------------------- */

/* X + Y * gate, of which the product is rounded by itself. */
bool spell_gated_add(Spell *spell) {
    const Dtype dtype = type_dtype(spell_input(spell, 0)->type);
    if (!spell_takes(spell, spell_input(spell, 0))) return false;
    Value *y = SPELL(spell, "Mul", dtype, spell_input(spell, 1), spell_input(spell, 2));
    spell_give(spell, 0, SPELL(spell, "Add", dtype, spell_input(spell, 0), y));
    return true;
}

/* The rows that are normalized are as long as the scale is, `size`, and may be several of a row of X. */
static Value *norm_parts(Spell *spell, int64_t size) {
    const int64_t parts[] = {-1, size}, rank = fuse_rank(spell_input(spell, 0));
    const bool whole = rank > 0 && fuse_dim(spell_input(spell, 0), (uint32_t)rank - 1) == size;
    Value *x = spell_wide(spell, 0), *scale = spell_wide(spell, 1);
    Value *rows = whole ? x : SPELL(spell, "Reshape", DTYPE_FLOAT, x, spell_ints(spell, parts, 2));
    const Norm norm = {.x = rows,
                       .scale = scale,
                       .axis = -1,
                       .epsilon = spell_real(spell, "epsilon", 1e-5F),
                       .rms = true};
    Value *y = spell_norm(spell, &norm)->outputs[0];
    if (whole) return y;
    Value *shape = SPELL(spell, "Shape", DTYPE_INT64, x);
    return SPELL(spell, "Reshape", DTYPE_FLOAT, y, shape);
}

bool spell_gated_rms_norm(Spell *spell) {
    const Attr *activation = node_attr(spell->node, "activation");
    const bool sigmoid = attr_is_text(activation, "sigmoid");
    if (activation && !sigmoid && !attr_is_text(activation, "silu") &&
        !attr_is_text(activation, "swish"))
        return spell_refuse(spell, "with this activation");
    const Value *scale = spell_input(spell, 1);
    if (fuse_rank(scale) != 1 || fuse_dim(scale, 0) < 1)
        return spell_refuse(spell, "with a scale of unknown size");
    Value *y = norm_parts(spell, fuse_dim(scale, 0)), *gate = spell_wide(spell, 2);
    Value *by = SPELL(spell, "Sigmoid", DTYPE_FLOAT, gate);
    if (!sigmoid) by = SPELL(spell, "Mul", DTYPE_FLOAT, gate, by);
    spell_give(spell, 0, SPELL(spell, "Mul", DTYPE_FLOAT, y, by));
    return true;
}

/* decay = scale * Softplus(a + bias), beta = Sigmoid(b) */
bool spell_linear_attention_gate(Spell *spell) {
    enum { A, BIAS, SCALE, B, BETA = 1 };
    Value *sum = SPELL(spell, "Add", DTYPE_FLOAT, spell_wide(spell, A), spell_input(spell, BIAS));
    Value *soft = SPELL(spell, "Softplus", DTYPE_FLOAT, sum);
    if (spell_wants(spell, BETA)) {
        if (!spell_input(spell, B)) return spell_refuse(spell, "without input b");
        spell_give(spell, BETA, SPELL(spell, "Sigmoid", DTYPE_FLOAT, spell_wide(spell, B)));
    }
    spell_give(spell, 0, SPELL(spell, "Mul", DTYPE_FLOAT, soft, spell_input(spell, SCALE)));
    return true;
}

/* ---- softmax of a sum ------------------------------------------------------------------------ */

bool spell_bias_softmax(Spell *spell) {
    const int64_t rank = fuse_rank(spell_input(spell, 0)), axis = spell_int(spell, "axis", 1);
    if (!spell_takes(spell, spell_input(spell, 0))) return false;
    if (axis != -1 && (rank < 1 || axis != rank - 1))
        return spell_refuse(spell, "along another axis than the last");
    Value *x = spell_wide(spell, 0);
    Value *y = SPELL(spell, "Softmax", DTYPE_FLOAT, spell_sum(spell, x, spell_wide(spell, 1)));
    node_set_attr_int(y->producer, "axis", axis);
    spell_give(spell, 0, y);
    return true;
}

/* ---- weights of bitsandbytes ----------------------------------------------------------------- */

/* What the 16 numbers of a type stand for, times a block's largest: 4-bit floats, and quantiles of the
 * normal distribution. The numbers are those of the package that writes them. */
static const float fp4[] = {
    0.0F,  5.208333333e-03F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
    -0.0F, -5.208333333e-03F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
static const float nf4[] = {-1.0F,
                            -0.6961928009986877F,
                            -0.5250730514526367F,
                            -0.39491748809814453F,
                            -0.28444138169288635F,
                            -0.18477343022823334F,
                            -0.09105003625154495F,
                            0.0F,
                            0.07958029955625534F,
                            0.16093020141124725F,
                            0.24611230194568634F,
                            0.33791524171829224F,
                            0.44070982933044434F,
                            0.5626170039176941F,
                            0.7229568362236023F,
                            1.0F};

/* The halves of bytes, the upper ones first, in a list. */
static Value *halves(Spell *spell, Value *bytes) {
    static const int64_t columns[] = {-1, 1}, flat = -1;
    Value *whole = spell_cast(spell, bytes, DTYPE_INT32);
    Value *sixteen = spell_cast(spell, spell_ints(spell, &(const int64_t){16}, 1), DTYPE_INT32);
    Value *up = SPELL(spell, "Div", DTYPE_INT32, whole, sixteen);
    Value *low =
        SPELL(spell, "Sub", DTYPE_INT32, whole, SPELL(spell, "Mul", DTYPE_INT32, up, sixteen));
    Value *shape = spell_ints(spell, columns, 2);
    up = SPELL(spell, "Reshape", DTYPE_INT32, up, shape);
    low = SPELL(spell, "Reshape", DTYPE_INT32, low, shape);
    Value *both = SPELL(spell, "Concat", DTYPE_INT32, up, low);
    node_set_attr_int(both->producer, "axis", 1);
    return SPELL(spell, "Reshape", DTYPE_INT32, both, spell_ints(spell, &flat, 1));
}

/* The weights, [N][K], of which blocks run on from row to row. */
static Value *weights_of(Spell *spell, int64_t n, int64_t k, int64_t block) {
    const int64_t lists[] = {-1, block}, rows[] = {n, k}, each[] = {-1, 1}, sixteen = 16;
    const float *numbers = spell_int(spell, "quant_type", 0) ? nf4 : fp4;
    Value *table = spell_constant(spell, tensor_new_raw(&spell->fuse.ctx->model->arena, DTYPE_FLOAT,
                                                        &sixteen, 1, numbers, sizeof fp4));
    Value *w = SPELL(spell, "Gather", DTYPE_FLOAT, table, halves(spell, spell_input(spell, 1)));
    w = SPELL(spell, "Reshape", DTYPE_FLOAT, w, spell_ints(spell, lists, 2));
    Value *most =
        SPELL(spell, "Reshape", DTYPE_FLOAT, spell_wide(spell, 2), spell_ints(spell, each, 2));
    w = SPELL(spell, "Mul", DTYPE_FLOAT, w, most);
    return SPELL(spell, "Reshape", DTYPE_FLOAT, w, spell_ints(spell, rows, 2));
}

bool spell_matmul_bnb4(Spell *spell) {
    const int64_t n = spell_int(spell, "N", 0), k = spell_int(spell, "K", 0),
                  block = spell_int(spell, "block_size", 0),
                  type = spell_int(spell, "quant_type", 0);
    /* of gradients; ONNX Runtime's processor's kernel has it otherwise than its definition */
    if (!spell_int(spell, "transB", 1)) return spell_refuse(spell, "with transB=0");
    if (type != 0 && type != 1) return spell_refuse(spell, "with this quant_type");
    if (n < 1 || k < 1 || block < 1 || n > INT32_MAX || k > INT32_MAX || n * k % block || n * k % 2)
        return spell_refuse(spell, "of weights that are no whole blocks");
    if (!spell_takes(spell, spell_input(spell, 0)) || !spell_needs(spell, 7)) return false;
    Value *w = weights_of(spell, n, k, block);
    Node *made = spell_fused(spell, "MatMul", 2, DTYPE_FLOAT);
    node_set_input(made, 0, spell_input(spell, 0));
    node_set_input(made, 1, w);
    node_set_attr_int(made, "transB", 1);
    node_set_attr_int(made, "to", DTYPE_FLOAT);
    spell_give(spell, 0, made->outputs[0]);
    return true;
}
