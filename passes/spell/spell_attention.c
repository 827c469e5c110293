// SPDX-License-Identifier: Apache-2.0
/* The recipe of com.microsoft's Attention:
 *
 *   q, k, v = Split(MatMul(input, weights) + bias)
 *   output, k', v' = MultiHeadAttention(q, k, v, mask_index, attention_bias, past[0], past[1])
 *   present = Concat(k', v')
 *
 * The projection is a fused product, and all behind it is float, so that results are rounded once. */
#include "spell.h"

enum { LISTS_ARE_INPUTS = 13, NUM_OUTPUTS_SINCE = 18 };
enum { WEIGHTS = 1, BIAS, MASK, PAST, SCORES_BIAS, PAST_LENGTH };

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

/* Queries, keys and values, all heads of each in a row. */
static Node *projected(Spell *spell) {
    uint32_t count;
    const int64_t *sizes = attr_ints(node_attr(spell->node, "qkv_hidden_sizes"), &count);
    Node *product = spell_fused(spell, "MatMul", spell_input(spell, BIAS) ? 3 : 2, DTYPE_FLOAT);
    for (uint32_t i = 0; i < product->input_count; i++)
        node_set_input(product, i, spell_input(spell, i));
    node_set_attr_int(product, "to", DTYPE_FLOAT);
    return split(spell, product->outputs[0], 2, sizes && count == 3 ? sizes : NULL, 3);
}

static bool is_known(Spell *spell) {
    if (spell_int(spell, "do_rotary", 0)) return spell_refuse(spell, "with do_rotary");
    if (spell_int(spell, "past_present_share_buffer", 0) || spell_input(spell, PAST_LENGTH))
        return spell_refuse(spell, "with past_present_share_buffer");
    return spell_takes(spell, spell_input(spell, 0));
}

bool spell_attention(Spell *spell) {
    static const char *const kept[] = {"mask_filter_value", "scale"};
    if (!is_known(spell)) return false;
    Node *parts = projected(spell);
    Value *inputs[8] = {parts->outputs[0],        parts->outputs[1],
                        parts->outputs[2],        NULL,
                        spell_input(spell, MASK), spell_wide(spell, SCORES_BIAS)};
    if (spell_input(spell, PAST)) {
        Node *past = split(spell, spell_wide(spell, PAST), 0, NULL, 2);
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
    if (spell_wants(spell, 1)) {
        Value *key = spell_output(spell, made, DTYPE_FLOAT);
        Value *value = spell_output(spell, made, DTYPE_FLOAT);
        key = first_axis(spell, "Unsqueeze", key);
        value = first_axis(spell, "Unsqueeze", value);
        Value *both = SPELL(spell, "Concat", DTYPE_FLOAT, key, value);
        node_set_attr_int(both->producer, "axis", 0);
        spell_give(spell, 1, both);
    }
    spell_give(spell, 0, made->outputs[0]);
    return true;
}
