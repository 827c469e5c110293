// SPDX-License-Identifier: Apache-2.0
/* The recipes of com.microsoft's Attention, and of QAttention, whose product is of bytes:
 *
 *   q, k, v = Split(MatMul(input, weights) + bias)
 *   output, k', v' = MultiHeadAttention(q, k, v, mask_index, attention_bias, past[0], past[1])
 *   present = Concat(k', v')
 *
 * The projection is a fused product, and all behind it is float, so that results are rounded once. */
#include "spell.h"

enum { LISTS_ARE_INPUTS = 13, NUM_OUTPUTS_SINCE = 18 };

/* Which inputs are what; 0: it has none. */
typedef struct Places {
    uint32_t bias, mask, past, scores, past_length;
} Places;

/* A Squeeze or Unsqueeze of the first axis. */
static Value *first_axis(Spell *spell, const char *op, Value *x) {
    static const int64_t zero = 0;
    if (spell->opset >= LISTS_ARE_INPUTS)
        return SPELL(spell, op, DTYPE_FLOAT, x, spell_ints(spell, &zero, 1));
    Value *y = SPELL(spell, op, DTYPE_FLOAT, x);
    node_set_attr_ints(y->producer, "axes", &zero, 1);
    return y;
}

/* A Split of floats in `count` parts, of these sizes or, where there are none, of equal ones. */
static Node *split(Spell *spell, Value *x, int64_t axis, const int64_t *sizes, uint32_t count) {
    const bool listed = sizes && spell->opset >= LISTS_ARE_INPUTS;
    Value *list = listed ? spell_ints(spell, sizes, count) : NULL;
    Node *made = spell_plain(spell, "Split", listed ? 2 : 1, DTYPE_FLOAT);
    node_set_input(made, 0, x);
    if (listed) node_set_input(made, 1, list);
    for (uint32_t i = 1; i < count; i++) spell_output(spell, made, DTYPE_FLOAT);
    node_set_attr_int(made, "axis", axis);
    if (sizes && !listed) node_set_attr_ints(made, "split", sizes, count);
    if (!sizes && spell->opset >= NUM_OUTPUTS_SINCE) node_set_attr_int(made, "num_outputs", count);
    return made;
}

/* Queries, keys and values, all heads of each in a row, of a product. */
static Node *split_heads(Spell *spell, Value *product) {
    uint32_t count;
    const int64_t *sizes = attr_ints(node_attr(spell->node, "qkv_hidden_sizes"), &count);
    return split(spell, product, 2, sizes && count == 3 ? sizes : NULL, 3);
}

static bool is_known(Spell *spell, const Places *places) {
    if (spell_int(spell, "do_rotary", 0)) return spell_refuse(spell, "with do_rotary");
    if (spell_int(spell, "past_present_share_buffer", 0) ||
        (places->past_length && spell_input(spell, places->past_length)))
        return spell_refuse(spell, "with past_present_share_buffer");
    return true;
}

static Value *projected(Spell *spell, const Places *places) {
    Node *product =
        spell_fused(spell, "MatMul", spell_input(spell, places->bias) ? 3 : 2, DTYPE_FLOAT);
    for (uint32_t i = 0; i < product->input_count; i++)
        node_set_input(product, i, spell_input(spell, i));
    node_set_attr_int(product, "to", DTYPE_FLOAT);
    return product->outputs[0];
}

/* The caches that come out, of keys and of values, as one. */
static void give_present(Spell *spell, Node *made) {
    Value *key = spell_output(spell, made, DTYPE_FLOAT);
    Value *value = spell_output(spell, made, DTYPE_FLOAT);
    key = first_axis(spell, "Unsqueeze", key);
    value = first_axis(spell, "Unsqueeze", value);
    Value *both = SPELL(spell, "Concat", DTYPE_FLOAT, key, value);
    node_set_attr_int(both->producer, "axis", 0);
    spell_give(spell, 1, both);
}

/* What is behind the product. */
static void attend(Spell *spell, const Places *places, Value *product) {
    static const char *const kept[] = {"mask_filter_value", "scale"};
    Node *parts = split_heads(spell, product);
    Value *scores = places->scores ? spell_wide(spell, places->scores) : NULL;
    Value *inputs[8] = {parts->outputs[0],
                        parts->outputs[1],
                        parts->outputs[2],
                        NULL,
                        spell_input(spell, places->mask),
                        scores};
    if (spell_input(spell, places->past)) {
        Node *past = split(spell, spell_wide(spell, places->past), 0, NULL, 2);
        for (uint32_t i = 0; i < 2; i++)
            inputs[6 + i] = first_axis(spell, "Squeeze", past->outputs[i]);
    }
    uint32_t count = 8;
    while (!inputs[count - 1]) count--;
    Node *made = spell_own(spell, "MultiHeadAttention", count, DTYPE_FLOAT);
    for (uint32_t i = 0; i < count; i++) node_set_input(made, i, inputs[i]);
    node_set_attr_int(made, "num_heads", spell_int(spell, "num_heads", 0));
    node_set_attr_int(made, "unidirectional", spell_int(spell, "unidirectional", 0));
    for (uint32_t i = 0; i < 2; i++)
        if (node_attr(spell->node, kept[i]))
            node_set_attr_float(made, kept[i], spell_real(spell, kept[i], 0));
    if (spell_wants(spell, 1)) give_present(spell, made);
    spell_give(spell, 0, made->outputs[0]);
}

bool spell_attention(Spell *spell) {
    static const Places places = {.bias = 2, .mask = 3, .past = 4, .scores = 5, .past_length = 6};
    if (!is_known(spell, &places) || !spell_takes(spell, spell_input(spell, 0))) return false;
    attend(spell, &places, projected(spell, &places));
    return true;
}

bool spell_q_attention(Spell *spell) {
    enum { INTEGERS_SINCE = 10, INPUT_SCALE = 3, WEIGHT_SCALE, INPUT_ZERO = 6, WEIGHT_ZERO };
    static const Places places = {.bias = 2, .mask = 5, .past = 8};
    if (!is_known(spell, &places) || !spell_needs(spell, INTEGERS_SINCE)) return false;
    Value *a_scale = spell_wide(spell, INPUT_SCALE), *b_scale = spell_wide(spell, WEIGHT_SCALE);
    const SpellProduct job = {.a = spell_input(spell, 0),
                              .b = spell_input(spell, 1),
                              .a_scale = a_scale,
                              .b_scale = b_scale,
                              .a_zero = spell_input(spell, INPUT_ZERO),
                              .b_zero = spell_input(spell, WEIGHT_ZERO),
                              .bias = spell_wide(spell, places.bias),
                              .alpha = 1};
    attend(spell, &places, spell_byte_product(spell, &job));
    return true;
}
