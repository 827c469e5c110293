// SPDX-License-Identifier: Apache-2.0
/* Recipes of operators of quantized values: what they compute of the numbers that the bytes stand
 * for, between DequantizeLinear and QuantizeLinear, which fuse-quantized then turns into operators of
 * integers; and products of bytes. */
#include "spell.h"

enum { ZERO_OF_ITS_TYPE = 10 }; /* since when there are QuantizeLinear and MatMulInteger */

/* ---- numbers and bytes ----------------------------------------------------------------------- */

/* The numbers of the operand `x`, whose scale and zero point are behind it. */
static Value *numbers_of(Spell *spell, uint32_t x) {
    return SPELL(spell, "DequantizeLinear", DTYPE_FLOAT, spell_input(spell, x),
                 spell_input(spell, x + 1), spell_input(spell, x + 2));
}

/* Gives output 0 as the bytes of `y` by the scale in operand `scale` and the zero point behind it. */
static bool give_bytes(Spell *spell, Value *y, uint32_t scale) {
    const Dtype dtype = type_dtype(spell->node->outputs[0]->type);
    Value *zero = spell_input(spell, scale + 1);
    if (!zero) zero = spell_zero(spell, dtype);
    spell_give(spell, 0, SPELL(spell, "QuantizeLinear", dtype, y, spell_input(spell, scale), zero));
    return true;
}

/* The axis that has a scale for each index, where there is one and opset 13 has it. */
static bool keep_axis(Spell *spell, Value *made) {
    enum { AXIS_SINCE = 13 };
    const bool one =
        fuse_rank(spell_input(spell, 1)) == 0 || fuse_dim(spell_input(spell, 1), 0) == 1;
    if (one) return true;
    node_set_attr_int(made->producer, "axis", spell_int(spell, "axis", 1));
    return spell_needs(spell, AXIS_SINCE);
}

/* As ai.onnx's, which have 16 bits from opset 21 on, and 16-bit scales from 19 on. */
bool spell_dequantize(Spell *spell) {
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    Value *scale = spell_wide(spell, 1);
    Value *y = SPELL(spell, "DequantizeLinear", DTYPE_FLOAT, spell_input(spell, 0), scale,
                     spell_input(spell, 2));
    if (!keep_axis(spell, y)) return false;
    spell_give(spell, 0, y);
    return true;
}

bool spell_quantize(Spell *spell) {
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    Value *x = spell_wide(spell, 0), *scale = spell_wide(spell, 1);
    Value *y = SPELL(spell, "QuantizeLinear", type_dtype(spell->node->outputs[0]->type), x, scale,
                     spell_input(spell, 2));
    if (!keep_axis(spell, y)) return false;
    spell_give(spell, 0, y);
    return true;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

/* A, its scale and zero point, B and its, then the result's. */
static bool binary(Spell *spell, const char *op) {
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    Value *a = numbers_of(spell, 0), *b = numbers_of(spell, 3);
    return give_bytes(spell, SPELL(spell, op, DTYPE_FLOAT, a, b), 6);
}

bool spell_q_add(Spell *spell) {
    return binary(spell, "Add");
}

bool spell_q_mul(Spell *spell) {
    return binary(spell, "Mul");
}

/* X, its scale and zero point, then the result's. */
static Value *unary(Spell *spell, const char *op) {
    return SPELL(spell, op, DTYPE_FLOAT, numbers_of(spell, 0));
}

bool spell_q_sigmoid(Spell *spell) {
    return spell_needs(spell, ZERO_OF_ITS_TYPE) && give_bytes(spell, unary(spell, "Sigmoid"), 3);
}

bool spell_q_leaky_relu(Spell *spell) {
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    Value *y = unary(spell, "LeakyRelu");
    node_set_attr_float(y->producer, "alpha", spell_real(spell, "alpha", 0.01F));
    return give_bytes(spell, y, 3);
}

/* Along an axis, as Softmax from opset 13 on, or over all from it on, as before. */
bool spell_q_softmax(Spell *spell) {
    enum { ONE_AXIS = 13 };
    const int64_t axis = spell_int(spell, "axis", -1), rank = fuse_rank(spell_input(spell, 0));
    const bool along = spell_int(spell, "opset", 0) >= ONE_AXIS;
    const bool last = axis == -1 || (rank > 0 && axis == rank - 1);
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    if (!last && along != (spell->opset >= ONE_AXIS))
        return spell_refuse(spell, "of another opset than its model's along axis %lld",
                            (long long)axis);
    Value *y = unary(spell, "Softmax");
    node_set_attr_int(y->producer, "axis", last && rank > 0 ? rank - 1 : axis);
    return give_bytes(spell, y, 3);
}

bool spell_q_where(Spell *spell) {
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    Value *x = numbers_of(spell, 1), *y = numbers_of(spell, 4);
    return give_bytes(spell, SPELL(spell, "Where", DTYPE_FLOAT, spell_input(spell, 0), x, y), 7);
}

bool spell_q_concat(Spell *spell) {
    const uint32_t count = spell->node->input_count;
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    if (count < 5 || (count - 2) % 3)
        return spell_refuse(spell, "of operands without a scale and a zero point each");
    for (uint32_t i = 2; i < count; i++)
        if (!spell_input(spell, i) || (i % 3 != 0 && !fuse_takes_bytes(spell_input(spell, i))))
            return spell_refuse(spell, "of operands that are no bytes");
    Node *joined = spell_plain(spell, "Concat", (count - 2) / 3, DTYPE_FLOAT);
    for (uint32_t i = 2; i < count; i += 3) node_set_input(joined, i / 3, numbers_of(spell, i));
    node_move_before(joined, spell->node);
    node_set_attr_int(joined, "axis", spell_int(spell, "axis", 0));
    return give_bytes(spell, joined->outputs[0], 0);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* op of the numbers of operand 0, whose channels may be last. */
static Value *pooled(Spell *spell, const char *op) {
    const bool last = spell_int(spell, "channels_last", 0) != 0;
    const int64_t rank = fuse_rank(spell_input(spell, 0));
    if (last && (rank < 3 || rank > SPELL_RANK_MOST)) {
        spell_refuse(spell, "with channels last, of this or no known rank");
        return NULL;
    }
    Value *x = numbers_of(spell, 0);
    if (last) x = spell_channels(spell, x, (uint32_t)rank, true);
    return SPELL(spell, op, DTYPE_FLOAT, x);
}

static bool give_pooled(Spell *spell, Value *y) {
    const int64_t rank = fuse_rank(spell_input(spell, 0));
    if (spell_int(spell, "channels_last", 0)) y = spell_channels(spell, y, (uint32_t)rank, false);
    return give_bytes(spell, y, 3);
}

bool spell_q_global_average_pool(Spell *spell) {
    Value *y = spell_needs(spell, ZERO_OF_ITS_TYPE) ? pooled(spell, "GlobalAveragePool") : NULL;
    return y && give_pooled(spell, y);
}

bool spell_q_average_pool(Spell *spell) {
    Value *y = spell_needs(spell, ZERO_OF_ITS_TYPE) ? pooled(spell, "AveragePool") : NULL;
    if (!y || !spell_keep_attrs(spell, y->producer, spell_window_attrs)) return false;
    return give_pooled(spell, y);
}

/* ---- products -------------------------------------------------------------------------------- */

Value *spell_byte_product(Spell *spell, const SpellProduct *job) {
    const uint32_t operands = job->b_zero ? 4 : job->a_zero ? 3 : 2;
    Node *product = spell_plain(spell, "MatMulInteger", operands, DTYPE_INT32);
    Value *const inputs[] = {job->a, job->b, job->a_zero, job->b_zero};
    for (uint32_t i = 0; i < operands; i++) node_set_input(product, i, inputs[i]);
    Value *y = product->outputs[0];
    if (job->whole) y = SPELL(spell, "Add", DTYPE_INT32, y, job->whole);
    y = spell_cast(spell, y, DTYPE_FLOAT);
    Value *factor = SPELL(spell, "Mul", DTYPE_FLOAT, job->a_scale, job->b_scale);
    if (job->alpha != 1.0F)
        factor = SPELL(spell, "Mul", DTYPE_FLOAT, factor, spell_floats(spell, job->alpha, 0));
    y = SPELL(spell, "Mul", DTYPE_FLOAT, y, factor);
    return job->bias ? SPELL(spell, "Add", DTYPE_FLOAT, y, job->bias) : y;
}

bool spell_matmul_integer_to_float(Spell *spell) {
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    Value *a_scale = spell_wide(spell, 2);
    Value *b_scale = spell_wide(spell, 3);
    const SpellProduct job = {.a = spell_input(spell, 0),
                              .b = spell_input(spell, 1),
                              .a_scale = a_scale,
                              .b_scale = b_scale,
                              .a_zero = spell_input(spell, 4),
                              .b_zero = spell_input(spell, 5),
                              .bias = spell_wide(spell, 6),
                              .alpha = 1};
    spell_give(spell, 0, spell_byte_product(spell, &job));
    return true;
}

bool spell_dynamic_quantize_matmul(Spell *spell) {
    enum { DYNAMIC_SINCE = 11 };
    if (!spell_needs(spell, DYNAMIC_SINCE)) return false;
    Node *bytes = spell_plain(spell, "DynamicQuantizeLinear", 1, DTYPE_UINT8);
    node_set_input(bytes, 0, spell_input(spell, 0));
    Value *scale = spell_output(spell, bytes, DTYPE_FLOAT);
    Value *zero = spell_output(spell, bytes, DTYPE_UINT8);
    const SpellProduct job = {.a = bytes->outputs[0],
                              .a_scale = scale,
                              .a_zero = zero,
                              .b = spell_input(spell, 1),
                              .b_scale = spell_input(spell, 2),
                              .b_zero = spell_input(spell, 3),
                              .bias = spell_input(spell, 4),
                              .alpha = 1};
    spell_give(spell, 0, spell_byte_product(spell, &job));
    return true;
}

static Value *maybe_turned(Spell *spell, uint32_t i, const char *turn) {
    static const int64_t perm[] = {1, 0};
    Value *x = spell_input(spell, i);
    return spell_int(spell, turn, 0) ? spell_transpose(spell, x, perm, 2) : x;
}

/* QGemm of integers. */
static Value *gemm_of_bytes(Spell *spell) {
    Value *a = maybe_turned(spell, 0, "transA");
    const SpellProduct job = {.a = a,
                              .a_scale = spell_input(spell, 1),
                              .a_zero = spell_input(spell, 2),
                              .b = maybe_turned(spell, 3, "transB"),
                              .b_scale = spell_input(spell, 4),
                              .b_zero = spell_input(spell, 5),
                              .whole = spell_input(spell, 6),
                              .alpha = spell_real(spell, "alpha", 1)};
    return spell_byte_product(spell, &job);
}

/* The numbers that `bias`, integers, adds to a product of operands 0 and 3. */
static Value *bias_numbers(Spell *spell, uint32_t bias) {
    if (!spell_input(spell, bias)) return NULL;
    Value *step = SPELL(spell, "Mul", DTYPE_FLOAT, spell_input(spell, 1), spell_input(spell, 4));
    Value *numbers = spell_cast(spell, spell_input(spell, bias), DTYPE_FLOAT);
    return SPELL(spell, "Mul", DTYPE_FLOAT, numbers, step);
}

/* The numbers of the weights, operand 3, which may have a scale for each index of an axis. False where
 * there are more, but no axis yet. */
static bool weight_numbers(Spell *spell, int64_t axis, Value **numbers) {
    enum { AXIS_SINCE = 13 };
    const Value *scale = spell_input(spell, 4);
    const bool each = fuse_rank(scale) != 0 && fuse_dim(scale, 0) != 1;
    if (each && !spell_needs(spell, AXIS_SINCE)) return false;
    *numbers = numbers_of(spell, 3);
    if (each) node_set_attr_int((*numbers)->producer, "axis", axis);
    return true;
}

static bool gemm_of_numbers(Spell *spell, Value **result) {
    const float alpha = spell_real(spell, "alpha", 1);
    Value *a = numbers_of(spell, 0), *b;
    if (!weight_numbers(spell, spell_int(spell, "transB", 0) ? 0 : 1, &b)) return false;
    Value *c = bias_numbers(spell, 6);
    Value *y = *result = SPELL(spell, "Gemm", DTYPE_FLOAT, a, b, c);
    node_set_attr_float(y->producer, "alpha", alpha);
    node_set_attr_float(y->producer, "beta", alpha);
    node_set_attr_int(y->producer, "transA", spell_int(spell, "transA", 0));
    node_set_attr_int(y->producer, "transB", spell_int(spell, "transB", 0));
    return true;
}

/* Bytes where the result has a zero point, else floats. */
bool spell_q_gemm(Spell *spell) {
    enum { Y_SCALE = 7, Y_ZERO = 8, C_OPTIONAL_SINCE = 11 };
    Value *y;
    if (!spell_needs(spell, C_OPTIONAL_SINCE)) return false;
    if (spell_input(spell, Y_ZERO) && !spell_input(spell, Y_SCALE))
        return spell_refuse(spell, "without y_scale");
    if (spell->fuse.faithful)
        y = gemm_of_bytes(spell);
    else if (!gemm_of_numbers(spell, &y))
        return false;
    if (spell_input(spell, Y_ZERO)) return give_bytes(spell, y, Y_SCALE);
    spell_give(spell, 0, y);
    return true;
}

/* ai.onnx's convolution of bytes, by the same operands. */
static Node *conv_of_bytes(Spell *spell, Value *x) {
    const Dtype dtype = type_dtype(spell->node->outputs[0]->type);
    Node *made = spell_plain(spell, "QLinearConv", spell->node->input_count, dtype);
    node_set_input(made, 0, x);
    for (uint32_t i = 1; i < made->input_count; i++) node_set_input(made, i, spell_input(spell, i));
    return made;
}

/* As ai.onnx's QLinearConv, but that channels of data may be last. */
bool spell_q_conv(Spell *spell) {
    const int64_t rank = fuse_rank(spell_input(spell, 3));
    const bool last = spell_int(spell, "channels_last", 0) != 0, exact = spell->fuse.faithful;
    Value *w = NULL;
    if (!spell_needs(spell, ZERO_OF_ITS_TYPE)) return false;
    if (last && (rank < 3 || rank > SPELL_RANK_MOST))
        return spell_refuse(spell, "with channels last, of this or no known rank");
    if (!exact && !weight_numbers(spell, 0, &w)) return false;
    Value *x = exact ? spell_input(spell, 0) : numbers_of(spell, 0);
    if (last) x = spell_channels(spell, x, (uint32_t)rank, true);
    Value *bias = exact ? NULL : bias_numbers(spell, 8);
    Node *made =
        exact ? conv_of_bytes(spell, x) : SPELL(spell, "Conv", DTYPE_FLOAT, x, w, bias)->producer;
    if (!spell_keep_attrs(spell, made, spell_window_attrs)) return false;
    Value *y = made->outputs[0];
    if (last) y = spell_channels(spell, y, (uint32_t)rank, false);
    if (!exact) return give_bytes(spell, y, 6);
    spell_give(spell, 0, y);
    return true;
}
