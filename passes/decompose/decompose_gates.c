// SPDX-License-Identifier: Apache-2.0
/* Recipes of what goes with linear attention and experts, gates, and of products of weights in the
 * 4-bit floats of bitsandbytes. */
#include "decompose.h"

/* ---- gates ----------------------------------------------------------------------------------- */

/* X + Y * gate, of which the product is rounded by itself. */
bool decompose_gated_add(Decompose *decompose) {
    const Dtype dtype = type_dtype(decompose_input(decompose, 0)->type);
    if (!decompose_takes(decompose, decompose_input(decompose, 0))) return false;
    Value *y = DECOMPOSE(decompose, "Mul", dtype, decompose_input(decompose, 1),
                         decompose_input(decompose, 2));
    decompose_give(decompose, 0,
                   DECOMPOSE(decompose, "Add", dtype, decompose_input(decompose, 0), y));
    return true;
}

/* The rows that are normalized are as long as the scale is, `size`, and may be several of a row of X. */
static Value *norm_parts(Decompose *decompose, int64_t size) {
    const int64_t parts[] = {-1, size}, rank = fuse_rank(decompose_input(decompose, 0));
    const bool whole =
        rank > 0 && fuse_dim(decompose_input(decompose, 0), (uint32_t)rank - 1) == size;
    Value *x = decompose_wide(decompose, 0), *scale = decompose_wide(decompose, 1);
    Value *rows = whole ? x
                        : DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, x,
                                    decompose_ints(decompose, parts, 2));
    const Norm norm = {.x = rows,
                       .scale = scale,
                       .axis = -1,
                       .epsilon = decompose_real(decompose, "epsilon", 1e-5F),
                       .rms = true};
    Value *y = decompose_norm(decompose, &norm)->outputs[0];
    if (whole) return y;
    Value *shape = DECOMPOSE(decompose, "Shape", DTYPE_INT64, x);
    return DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, y, shape);
}

bool decompose_gated_rms_norm(Decompose *decompose) {
    const Attr *activation = node_attr(decompose->node, "activation");
    const bool sigmoid = attr_is_text(activation, "sigmoid");
    if (activation && !sigmoid && !attr_is_text(activation, "silu") &&
        !attr_is_text(activation, "swish"))
        return decompose_refuse(decompose, "with this activation");
    const Value *scale = decompose_input(decompose, 1);
    if (fuse_rank(scale) != 1 || fuse_dim(scale, 0) < 1)
        return decompose_refuse(decompose, "with a scale of unknown size");
    Value *y = norm_parts(decompose, fuse_dim(scale, 0)), *gate = decompose_wide(decompose, 2);
    Value *by = DECOMPOSE(decompose, "Sigmoid", DTYPE_FLOAT, gate);
    if (!sigmoid) by = DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, gate, by);
    decompose_give(decompose, 0, DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, y, by));
    return true;
}

/* decay = scale * Softplus(a + bias), beta = Sigmoid(b) */
bool decompose_linear_attention_gate(Decompose *decompose) {
    enum { A, BIAS, SCALE, B, BETA = 1 };
    Value *sum = DECOMPOSE(decompose, "Add", DTYPE_FLOAT, decompose_wide(decompose, A),
                           decompose_input(decompose, BIAS));
    Value *soft = DECOMPOSE(decompose, "Softplus", DTYPE_FLOAT, sum);
    if (decompose_wants(decompose, BETA)) {
        if (!decompose_input(decompose, B)) return decompose_refuse(decompose, "without input b");
        decompose_give(decompose, BETA,
                       DECOMPOSE(decompose, "Sigmoid", DTYPE_FLOAT, decompose_wide(decompose, B)));
    }
    decompose_give(
        decompose, 0,
        DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, soft, decompose_input(decompose, SCALE)));
    return true;
}

/* ---- softmax of a sum ------------------------------------------------------------------------ */

bool decompose_bias_softmax(Decompose *decompose) {
    const int64_t rank = fuse_rank(decompose_input(decompose, 0)),
                  axis = decompose_int(decompose, "axis", 1);
    if (!decompose_takes(decompose, decompose_input(decompose, 0))) return false;
    if (axis != -1 && (rank < 1 || axis != rank - 1))
        return decompose_refuse(decompose, "along an axis other than the last");
    Value *x = decompose_wide(decompose, 0);
    Value *y = DECOMPOSE(decompose, "Softmax", DTYPE_FLOAT,
                         decompose_sum(decompose, x, decompose_wide(decompose, 1)));
    node_set_attr_int(y->producer, "axis", axis);
    decompose_give(decompose, 0, y);
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
static Value *halves(Decompose *decompose, Value *bytes) {
    static const int64_t columns[] = {-1, 1}, flat = -1;
    Value *whole = decompose_cast(decompose, bytes, DTYPE_INT32);
    Value *sixteen =
        decompose_cast(decompose, decompose_ints(decompose, &(const int64_t){16}, 1), DTYPE_INT32);
    Value *up = DECOMPOSE(decompose, "Div", DTYPE_INT32, whole, sixteen);
    Value *low = DECOMPOSE(decompose, "Sub", DTYPE_INT32, whole,
                           DECOMPOSE(decompose, "Mul", DTYPE_INT32, up, sixteen));
    Value *shape = decompose_ints(decompose, columns, 2);
    up = DECOMPOSE(decompose, "Reshape", DTYPE_INT32, up, shape);
    low = DECOMPOSE(decompose, "Reshape", DTYPE_INT32, low, shape);
    Value *both = DECOMPOSE(decompose, "Concat", DTYPE_INT32, up, low);
    node_set_attr_int(both->producer, "axis", 1);
    return DECOMPOSE(decompose, "Reshape", DTYPE_INT32, both, decompose_ints(decompose, &flat, 1));
}

/* The weights, [N][K], of which blocks run on from row to row. */
static Value *weights_of(Decompose *decompose, int64_t n, int64_t k, int64_t block) {
    const int64_t lists[] = {-1, block}, rows[] = {n, k}, each[] = {-1, 1}, sixteen = 16;
    const float *numbers = decompose_int(decompose, "quant_type", 0) ? nf4 : fp4;
    Value *table = decompose_constant(decompose, tensor_new_raw(&decompose->fuse.ctx->model->arena,
                                                                DTYPE_FLOAT, &sixteen, 1, numbers,
                                                                sizeof fp4));
    Value *w = DECOMPOSE(decompose, "Gather", DTYPE_FLOAT, table,
                         halves(decompose, decompose_input(decompose, 1)));
    w = DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, w, decompose_ints(decompose, lists, 2));
    Value *most = DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, decompose_wide(decompose, 2),
                            decompose_ints(decompose, each, 2));
    w = DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, w, most);
    return DECOMPOSE(decompose, "Reshape", DTYPE_FLOAT, w, decompose_ints(decompose, rows, 2));
}

bool decompose_matmul_bnb4(Decompose *decompose) {
    const int64_t n = decompose_int(decompose, "N", 0), k = decompose_int(decompose, "K", 0),
                  block = decompose_int(decompose, "block_size", 0),
                  type = decompose_int(decompose, "quant_type", 0);
    /* of gradients; ONNX Runtime's processor's kernel has it otherwise than its definition */
    if (!decompose_int(decompose, "transB", 1)) return decompose_refuse(decompose, "with transB=0");
    if (type != 0 && type != 1) return decompose_refuse(decompose, "with this quant_type");
    if (n < 1 || k < 1 || block < 1 || n > INT32_MAX || k > INT32_MAX || n * k % block || n * k % 2)
        return decompose_refuse(decompose, "of weights that are not whole blocks");
    if (!decompose_takes(decompose, decompose_input(decompose, 0)) ||
        !decompose_needs(decompose, 7))
        return false;
    Value *w = weights_of(decompose, n, k, block);
    Node *made = decompose_fused(decompose, "MatMul", 2, DTYPE_FLOAT);
    node_set_input(made, 0, decompose_input(decompose, 0));
    node_set_input(made, 1, w);
    node_set_attr_int(made, "transB", 1);
    node_set_attr_int(made, "to", DTYPE_FLOAT);
    decompose_give(decompose, 0, made->outputs[0]);
    return true;
}
