// SPDX-License-Identifier: Apache-2.0
/* The recipes of com.microsoft's Attention, and of QAttention, whose product is of bytes:
 *
 *   q, k, v = Split(MatMul(input, weights) + bias)
 *   output, k', v' = MultiHeadAttention(q, k, v, mask_index, attention_bias, past[0], past[1])
 *   present = Concat(k', v')
 *
 * The projection is a fused product, and all behind it is float, so that results are rounded once. */
#include "decompose.h"

enum { LISTS_ARE_INPUTS = 13, NUM_OUTPUTS_SINCE = 18 };

/* Which inputs are what; 0: it has none. */
typedef struct Places {
    uint32_t bias, mask, past, scores, past_length;
} Places;

/* A Squeeze or Unsqueeze of the first axis. */
static Value *first_axis(Decompose *decompose, const char *op, Value *x) {
    static const int64_t zero = 0;
    if (decompose->opset >= LISTS_ARE_INPUTS)
        return DECOMPOSE(decompose, op, DTYPE_FLOAT, x, decompose_ints(decompose, &zero, 1));
    Value *y = DECOMPOSE(decompose, op, DTYPE_FLOAT, x);
    node_set_attr_ints(y->producer, "axes", &zero, 1);
    return y;
}

/* A Split of floats in `count` parts, of these sizes or, where there are none, of equal ones. */
static Node *split(Decompose *decompose, Value *x, int64_t axis, const int64_t *sizes,
                   uint32_t count) {
    const bool listed = sizes && decompose->opset >= LISTS_ARE_INPUTS;
    Value *list = listed ? decompose_ints(decompose, sizes, count) : NULL;
    Node *made = decompose_plain(decompose, "Split", listed ? 2 : 1, DTYPE_FLOAT);
    node_set_input(made, 0, x);
    if (listed) node_set_input(made, 1, list);
    for (uint32_t i = 1; i < count; i++) decompose_output(decompose, made, DTYPE_FLOAT);
    node_set_attr_int(made, "axis", axis);
    if (sizes && !listed) node_set_attr_ints(made, "split", sizes, count);
    if (!sizes && decompose->opset >= NUM_OUTPUTS_SINCE)
        node_set_attr_int(made, "num_outputs", count);
    return made;
}

/* Queries, keys and values, all heads of each in a row, of a product. */
static Node *split_heads(Decompose *decompose, Value *product) {
    uint32_t count;
    const int64_t *sizes = attr_ints(node_attr(decompose->node, "qkv_hidden_sizes"), &count);
    return split(decompose, product, 2, sizes && count == 3 ? sizes : NULL, 3);
}

static bool is_known(Decompose *decompose, const Places *places) {
    if (decompose_int(decompose, "do_rotary", 0))
        return decompose_refuse(decompose, "with do_rotary");
    if (decompose_int(decompose, "past_present_share_buffer", 0) ||
        (places->past_length && decompose_input(decompose, places->past_length)))
        return decompose_refuse(decompose, "with past_present_share_buffer");
    return true;
}

static Value *projected(Decompose *decompose, const Places *places) {
    Node *product = decompose_fused(decompose, "MatMul",
                                    decompose_input(decompose, places->bias) ? 3 : 2, DTYPE_FLOAT);
    for (uint32_t i = 0; i < product->input_count; i++)
        node_set_input(product, i, decompose_input(decompose, i));
    node_set_attr_int(product, "to", DTYPE_FLOAT);
    return product->outputs[0];
}

/* The caches that come out, of keys and of values, as one. */
static void give_present(Decompose *decompose, Node *made) {
    Value *key = decompose_output(decompose, made, DTYPE_FLOAT);
    Value *value = decompose_output(decompose, made, DTYPE_FLOAT);
    key = first_axis(decompose, "Unsqueeze", key);
    value = first_axis(decompose, "Unsqueeze", value);
    Value *both = DECOMPOSE(decompose, "Concat", DTYPE_FLOAT, key, value);
    node_set_attr_int(both->producer, "axis", 0);
    decompose_give(decompose, 1, both);
}

/* What is behind the product. */
static void attend(Decompose *decompose, const Places *places, Value *product) {
    static const char *const kept[] = {"mask_filter_value", "scale"};
    Node *parts = split_heads(decompose, product);
    Value *scores = places->scores ? decompose_wide(decompose, places->scores) : NULL;
    Value *inputs[8] = {parts->outputs[0],
                        parts->outputs[1],
                        parts->outputs[2],
                        NULL,
                        decompose_input(decompose, places->mask),
                        scores};
    if (decompose_input(decompose, places->past)) {
        Node *past = split(decompose, decompose_wide(decompose, places->past), 0, NULL, 2);
        for (uint32_t i = 0; i < 2; i++)
            inputs[6 + i] = first_axis(decompose, "Squeeze", past->outputs[i]);
    }
    uint32_t count = 8;
    while (!inputs[count - 1]) count--;
    Node *made = decompose_own(decompose, "MultiHeadAttention", count, DTYPE_FLOAT);
    for (uint32_t i = 0; i < count; i++) node_set_input(made, i, inputs[i]);
    node_set_attr_int(made, "num_heads", decompose_int(decompose, "num_heads", 0));
    node_set_attr_int(made, "unidirectional", decompose_int(decompose, "unidirectional", 0));
    for (uint32_t i = 0; i < 2; i++)
        if (node_attr(decompose->node, kept[i]))
            node_set_attr_float(made, kept[i], decompose_real(decompose, kept[i], 0));
    if (decompose_wants(decompose, 1)) give_present(decompose, made);
    decompose_give(decompose, 0, made->outputs[0]);
}

bool decompose_attention(Decompose *decompose) {
    static const Places places = {.bias = 2, .mask = 3, .past = 4, .scores = 5, .past_length = 6};
    if (!is_known(decompose, &places) || !decompose_takes(decompose, decompose_input(decompose, 0)))
        return false;
    attend(decompose, &places, projected(decompose, &places));
    return true;
}

bool decompose_q_attention(Decompose *decompose) {
    enum { INTEGERS_SINCE = 10, INPUT_SCALE = 3, WEIGHT_SCALE, INPUT_ZERO = 6, WEIGHT_ZERO };
    static const Places places = {.bias = 2, .mask = 5, .past = 8};
    if (!is_known(decompose, &places) || !decompose_needs(decompose, INTEGERS_SINCE)) return false;
    Value *a_scale = decompose_wide(decompose, INPUT_SCALE),
          *b_scale = decompose_wide(decompose, WEIGHT_SCALE);
    const DecomposeProduct job = {.a = decompose_input(decompose, 0),
                                  .b = decompose_input(decompose, 1),
                                  .a_scale = a_scale,
                                  .b_scale = b_scale,
                                  .a_zero = decompose_input(decompose, INPUT_ZERO),
                                  .b_zero = decompose_input(decompose, WEIGHT_ZERO),
                                  .bias = decompose_wide(decompose, places.bias),
                                  .alpha = 1};
    attend(decompose, &places, decompose_byte_product(decompose, &job));
    return true;
}
