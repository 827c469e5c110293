// SPDX-License-Identifier: Apache-2.0
/* Recipes of operators of quantized values: what they compute of the numbers that the bytes stand
 * for, between DequantizeLinear and QuantizeLinear, which fuse-quantized then turns into operators of
 * integers; and products of bytes. */
#include "decompose.h"

enum { ZERO_OF_ITS_TYPE = 10 }; /* since when there are QuantizeLinear and MatMulInteger */

/* ---- numbers and bytes ----------------------------------------------------------------------- */

/* The numbers of the operand `x`, whose scale and zero point are behind it. */
static Value *numbers_of(Decompose *decompose, uint32_t x) {
    return DECOMPOSE(decompose, "DequantizeLinear", DTYPE_FLOAT, decompose_input(decompose, x),
                     decompose_input(decompose, x + 1), decompose_input(decompose, x + 2));
}

/* Gives output 0 as the bytes of `y` by the scale in operand `scale` and the zero point behind it. */
static bool give_bytes(Decompose *decompose, Value *y, uint32_t scale) {
    const Dtype dtype = type_dtype(decompose->node->outputs[0]->type);
    Value *zero = decompose_input(decompose, scale + 1);
    if (!zero) zero = decompose_zero(decompose, dtype);
    decompose_give(
        decompose, 0,
        DECOMPOSE(decompose, "QuantizeLinear", dtype, y, decompose_input(decompose, scale), zero));
    return true;
}

/* The axis that has a scale for each index, where there is one and opset 13 has it. */
static bool keep_axis(Decompose *decompose, Value *made) {
    enum { AXIS_SINCE = 13 };
    const bool one = fuse_rank(decompose_input(decompose, 1)) == 0 ||
                     fuse_dim(decompose_input(decompose, 1), 0) == 1;
    if (one) return true;
    node_set_attr_int(made->producer, "axis", decompose_int(decompose, "axis", 1));
    return decompose_needs(decompose, AXIS_SINCE);
}

/* As ai.onnx's, which have 16 bits from opset 21 on, and 16-bit scales from 19 on. */
bool decompose_dequantize(Decompose *decompose) {
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    Value *scale = decompose_wide(decompose, 1);
    Value *y = DECOMPOSE(decompose, "DequantizeLinear", DTYPE_FLOAT, decompose_input(decompose, 0),
                         scale, decompose_input(decompose, 2));
    if (!keep_axis(decompose, y)) return false;
    decompose_give(decompose, 0, y);
    return true;
}

bool decompose_quantize(Decompose *decompose) {
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    Value *x = decompose_wide(decompose, 0), *scale = decompose_wide(decompose, 1);
    Value *y = DECOMPOSE(decompose, "QuantizeLinear", type_dtype(decompose->node->outputs[0]->type),
                         x, scale, decompose_input(decompose, 2));
    if (!keep_axis(decompose, y)) return false;
    decompose_give(decompose, 0, y);
    return true;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

/* A, its scale and zero point, B and its, then the result's. */
static bool binary(Decompose *decompose, const char *op) {
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    Value *a = numbers_of(decompose, 0), *b = numbers_of(decompose, 3);
    return give_bytes(decompose, DECOMPOSE(decompose, op, DTYPE_FLOAT, a, b), 6);
}

bool decompose_q_add(Decompose *decompose) {
    return binary(decompose, "Add");
}

bool decompose_q_mul(Decompose *decompose) {
    return binary(decompose, "Mul");
}

/* X, its scale and zero point, then the result's. */
static Value *unary(Decompose *decompose, const char *op) {
    return DECOMPOSE(decompose, op, DTYPE_FLOAT, numbers_of(decompose, 0));
}

bool decompose_q_sigmoid(Decompose *decompose) {
    return decompose_needs(decompose, ZERO_OF_ITS_TYPE) &&
           give_bytes(decompose, unary(decompose, "Sigmoid"), 3);
}

bool decompose_q_leaky_relu(Decompose *decompose) {
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    Value *y = unary(decompose, "LeakyRelu");
    node_set_attr_float(y->producer, "alpha", decompose_real(decompose, "alpha", 0.01F));
    return give_bytes(decompose, y, 3);
}

/* Along an axis, as Softmax from opset 13 on, or over all from it on, as before. */
bool decompose_q_softmax(Decompose *decompose) {
    enum { ONE_AXIS = 13 };
    const int64_t axis = decompose_int(decompose, "axis", -1),
                  rank = fuse_rank(decompose_input(decompose, 0));
    const bool along = decompose_int(decompose, "opset", 0) >= ONE_AXIS;
    const bool last = axis == -1 || (rank > 0 && axis == rank - 1);
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    if (!last && along != (decompose->opset >= ONE_AXIS))
        return decompose_refuse(decompose, "of an opset other than its model's along axis %lld",
                                (long long)axis);
    Value *y = unary(decompose, "Softmax");
    node_set_attr_int(y->producer, "axis", last && rank > 0 ? rank - 1 : axis);
    return give_bytes(decompose, y, 3);
}

bool decompose_q_where(Decompose *decompose) {
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    Value *x = numbers_of(decompose, 1), *y = numbers_of(decompose, 4);
    return give_bytes(
        decompose, DECOMPOSE(decompose, "Where", DTYPE_FLOAT, decompose_input(decompose, 0), x, y),
        7);
}

bool decompose_q_concat(Decompose *decompose) {
    const uint32_t count = decompose->node->input_count;
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    if (count < 5 || (count - 2) % 3)
        return decompose_refuse(decompose, "of operands without a scale and a zero point");
    for (uint32_t i = 2; i < count; i++)
        if (!decompose_input(decompose, i) ||
            (i % 3 != 0 && !fuse_takes_bytes(decompose_input(decompose, i))))
            return decompose_refuse(decompose, "of operands that are not 8-bit");
    Node *joined = decompose_plain(decompose, "Concat", (count - 2) / 3, DTYPE_FLOAT);
    for (uint32_t i = 2; i < count; i += 3) node_set_input(joined, i / 3, numbers_of(decompose, i));
    node_move_before(joined, decompose->node);
    node_set_attr_int(joined, "axis", decompose_int(decompose, "axis", 0));
    return give_bytes(decompose, joined->outputs[0], 0);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* op of the numbers of operand 0, whose channels may be last. */
static Value *pooled(Decompose *decompose, const char *op) {
    const bool last = decompose_int(decompose, "channels_last", 0) != 0;
    const int64_t rank = fuse_rank(decompose_input(decompose, 0));
    if (last && (rank < 3 || rank > DECOMPOSE_RANK_MOST)) {
        decompose_refuse(decompose, "channels-last, of this or an unknown rank");
        return NULL;
    }
    Value *x = numbers_of(decompose, 0);
    if (last) x = decompose_channels(decompose, x, (uint32_t)rank, true);
    return DECOMPOSE(decompose, op, DTYPE_FLOAT, x);
}

static bool give_pooled(Decompose *decompose, Value *y) {
    const int64_t rank = fuse_rank(decompose_input(decompose, 0));
    if (decompose_int(decompose, "channels_last", 0))
        y = decompose_channels(decompose, y, (uint32_t)rank, false);
    return give_bytes(decompose, y, 3);
}

bool decompose_q_global_average_pool(Decompose *decompose) {
    Value *y = decompose_needs(decompose, ZERO_OF_ITS_TYPE) ? pooled(decompose, "GlobalAveragePool")
                                                            : NULL;
    return y && give_pooled(decompose, y);
}

bool decompose_q_average_pool(Decompose *decompose) {
    Value *y =
        decompose_needs(decompose, ZERO_OF_ITS_TYPE) ? pooled(decompose, "AveragePool") : NULL;
    if (!y || !decompose_keep_attrs(decompose, y->producer, decompose_window_attrs)) return false;
    return give_pooled(decompose, y);
}

/* ---- products -------------------------------------------------------------------------------- */

Value *decompose_byte_product(Decompose *decompose, const DecomposeProduct *job) {
    const uint32_t operands = job->b_zero ? 4 : job->a_zero ? 3 : 2;
    Node *product = decompose_plain(decompose, "MatMulInteger", operands, DTYPE_INT32);
    Value *const inputs[] = {job->a, job->b, job->a_zero, job->b_zero};
    for (uint32_t i = 0; i < operands; i++) node_set_input(product, i, inputs[i]);
    Value *y = product->outputs[0];
    if (job->whole) y = DECOMPOSE(decompose, "Add", DTYPE_INT32, y, job->whole);
    y = decompose_cast(decompose, y, DTYPE_FLOAT);
    Value *factor = DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, job->a_scale, job->b_scale);
    if (job->alpha != 1.0F)
        factor = DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, factor,
                           decompose_floats(decompose, job->alpha, 0));
    y = DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, y, factor);
    return job->bias ? DECOMPOSE(decompose, "Add", DTYPE_FLOAT, y, job->bias) : y;
}

bool decompose_matmul_integer_to_float(Decompose *decompose) {
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    Value *a_scale = decompose_wide(decompose, 2);
    Value *b_scale = decompose_wide(decompose, 3);
    const DecomposeProduct job = {.a = decompose_input(decompose, 0),
                                  .b = decompose_input(decompose, 1),
                                  .a_scale = a_scale,
                                  .b_scale = b_scale,
                                  .a_zero = decompose_input(decompose, 4),
                                  .b_zero = decompose_input(decompose, 5),
                                  .bias = decompose_wide(decompose, 6),
                                  .alpha = 1};
    decompose_give(decompose, 0, decompose_byte_product(decompose, &job));
    return true;
}

bool decompose_dynamic_quantize_matmul(Decompose *decompose) {
    enum { DYNAMIC_SINCE = 11 };
    if (!decompose_needs(decompose, DYNAMIC_SINCE)) return false;
    Node *bytes = decompose_plain(decompose, "DynamicQuantizeLinear", 1, DTYPE_UINT8);
    node_set_input(bytes, 0, decompose_input(decompose, 0));
    Value *scale = decompose_output(decompose, bytes, DTYPE_FLOAT);
    Value *zero = decompose_output(decompose, bytes, DTYPE_UINT8);
    const DecomposeProduct job = {.a = bytes->outputs[0],
                                  .a_scale = scale,
                                  .a_zero = zero,
                                  .b = decompose_input(decompose, 1),
                                  .b_scale = decompose_input(decompose, 2),
                                  .b_zero = decompose_input(decompose, 3),
                                  .bias = decompose_input(decompose, 4),
                                  .alpha = 1};
    decompose_give(decompose, 0, decompose_byte_product(decompose, &job));
    return true;
}

static Value *maybe_turned(Decompose *decompose, uint32_t i, const char *turn) {
    static const int64_t perm[] = {1, 0};
    Value *x = decompose_input(decompose, i);
    return decompose_int(decompose, turn, 0) ? decompose_transpose(decompose, x, perm, 2) : x;
}

/* QGemm of integers. */
static Value *gemm_of_bytes(Decompose *decompose) {
    Value *a = maybe_turned(decompose, 0, "transA");
    const DecomposeProduct job = {.a = a,
                                  .a_scale = decompose_input(decompose, 1),
                                  .a_zero = decompose_input(decompose, 2),
                                  .b = maybe_turned(decompose, 3, "transB"),
                                  .b_scale = decompose_input(decompose, 4),
                                  .b_zero = decompose_input(decompose, 5),
                                  .whole = decompose_input(decompose, 6),
                                  .alpha = decompose_real(decompose, "alpha", 1)};
    return decompose_byte_product(decompose, &job);
}

/* The numbers that `bias`, integers, adds to a product of operands 0 and 3. */
static Value *bias_numbers(Decompose *decompose, uint32_t bias) {
    if (!decompose_input(decompose, bias)) return NULL;
    Value *step = DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, decompose_input(decompose, 1),
                            decompose_input(decompose, 4));
    Value *numbers = decompose_cast(decompose, decompose_input(decompose, bias), DTYPE_FLOAT);
    return DECOMPOSE(decompose, "Mul", DTYPE_FLOAT, numbers, step);
}

/* The numbers of the weights, operand 3, which may have a scale for each index of an axis. False where
 * there are more, but no axis yet. */
static bool weight_numbers(Decompose *decompose, int64_t axis, Value **numbers) {
    enum { AXIS_SINCE = 13 };
    const Value *scale = decompose_input(decompose, 4);
    const bool each = fuse_rank(scale) != 0 && fuse_dim(scale, 0) != 1;
    if (each && !decompose_needs(decompose, AXIS_SINCE)) return false;
    *numbers = numbers_of(decompose, 3);
    if (each) node_set_attr_int((*numbers)->producer, "axis", axis);
    return true;
}

static bool gemm_of_numbers(Decompose *decompose, Value **result) {
    const float alpha = decompose_real(decompose, "alpha", 1);
    Value *a = numbers_of(decompose, 0), *b;
    if (!weight_numbers(decompose, decompose_int(decompose, "transB", 0) ? 0 : 1, &b)) return false;
    Value *c = bias_numbers(decompose, 6);
    Value *y = *result = DECOMPOSE(decompose, "Gemm", DTYPE_FLOAT, a, b, c);
    node_set_attr_float(y->producer, "alpha", alpha);
    node_set_attr_float(y->producer, "beta", alpha);
    node_set_attr_int(y->producer, "transA", decompose_int(decompose, "transA", 0));
    node_set_attr_int(y->producer, "transB", decompose_int(decompose, "transB", 0));
    return true;
}

/* Bytes where the result has a zero point, else floats. */
bool decompose_q_gemm(Decompose *decompose) {
    enum { Y_SCALE = 7, Y_ZERO = 8, C_OPTIONAL_SINCE = 11 };
    Value *y;
    if (!decompose_needs(decompose, C_OPTIONAL_SINCE)) return false;
    if (decompose_input(decompose, Y_ZERO) && !decompose_input(decompose, Y_SCALE))
        return decompose_refuse(decompose, "without y_scale");
    if (decompose->fuse.faithful)
        y = gemm_of_bytes(decompose);
    else if (!gemm_of_numbers(decompose, &y))
        return false;
    if (decompose_input(decompose, Y_ZERO)) return give_bytes(decompose, y, Y_SCALE);
    decompose_give(decompose, 0, y);
    return true;
}

/* ai.onnx's convolution of bytes, by the same operands. */
static Node *conv_of_bytes(Decompose *decompose, Value *x) {
    const Dtype dtype = type_dtype(decompose->node->outputs[0]->type);
    Node *made = decompose_plain(decompose, "QLinearConv", decompose->node->input_count, dtype);
    node_set_input(made, 0, x);
    for (uint32_t i = 1; i < made->input_count; i++)
        node_set_input(made, i, decompose_input(decompose, i));
    return made;
}

/* As ai.onnx's QLinearConv, but that channels of data may be last. */
bool decompose_q_conv(Decompose *decompose) {
    const int64_t rank = fuse_rank(decompose_input(decompose, 3));
    const bool last = decompose_int(decompose, "channels_last", 0) != 0,
               exact = decompose->fuse.faithful;
    Value *w = NULL;
    if (!decompose_needs(decompose, ZERO_OF_ITS_TYPE)) return false;
    if (last && (rank < 3 || rank > DECOMPOSE_RANK_MOST))
        return decompose_refuse(decompose, "channels-last, of this or an unknown rank");
    if (!exact && !weight_numbers(decompose, 0, &w)) return false;
    Value *x = exact ? decompose_input(decompose, 0) : numbers_of(decompose, 0);
    if (last) x = decompose_channels(decompose, x, (uint32_t)rank, true);
    Value *bias = exact ? NULL : bias_numbers(decompose, 8);
    Node *made = exact ? conv_of_bytes(decompose, x)
                       : DECOMPOSE(decompose, "Conv", DTYPE_FLOAT, x, w, bias)->producer;
    if (!decompose_keep_attrs(decompose, made, decompose_window_attrs)) return false;
    Value *y = made->outputs[0];
    if (last) y = decompose_channels(decompose, y, (uint32_t)rank, false);
    if (!exact) return give_bytes(decompose, y, 6);
    decompose_give(decompose, 0, y);
    return true;
}
