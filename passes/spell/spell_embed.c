// SPDX-License-Identifier: Apache-2.0
/* The recipe of EmbedLayerNormalization, and of QEmbedLayerNormalization, whose tables are bytes: sums
 * of rows, normalized, and how many tokens of each sequence count. */
#include "spell.h"

static Value *widened(Spell *spell, Value *x) {
    return type_dtype(x->type) == DTYPE_FLOAT ? x : spell_cast(spell, x, DTYPE_FLOAT);
}

static bool is_quantized(const Spell *spell) {
    return sym_equals(spell->node->op_type, "QEmbedLayerNormalization");
}

/* What `x`, which is of operand `table` or is it, says in numbers. */
static Value *numbers_of(Spell *spell, uint32_t table, Value *x) {
    enum { TO_SCALE = 6, TO_ZERO = 11 };
    if (!is_quantized(spell)) return widened(spell, x);
    return SPELL(spell, "DequantizeLinear", DTYPE_FLOAT, x, spell_input(spell, table + TO_SCALE),
                 spell_input(spell, table + TO_ZERO));
}

/* Rows of the table in operand `table`. */
static Value *rows_of(Spell *spell, uint32_t table, uint32_t ids) {
    Value *from = spell_input(spell, table);
    return numbers_of(
        spell, table,
        SPELL(spell, "Gather", type_dtype(from->type), from, spell_input(spell, ids)));
}

/* ids' dim `axis`, as a list of one. */
static Value *length_of(Spell *spell, Value *ids, int64_t axis) {
    Value *shape = SPELL(spell, "Shape", DTYPE_INT64, ids);
    return SPELL(spell, "Gather", DTYPE_INT64, shape, spell_ints(spell, &axis, 1));
}

/* The first rows of the positions, as many as there are ids in a sequence. */
static Value *positions(Spell *spell) {
    enum { POSITIONS = 3, POSITION_IDS = 8 };
    static const int64_t zero = 0;
    if (!is_quantized(spell) && spell_input(spell, POSITION_IDS))
        return rows_of(spell, POSITIONS, POSITION_IDS);
    Value *table = spell_input(spell, POSITIONS), *begin = spell_ints(spell, &zero, 1);
    Value *end = length_of(spell, spell_input(spell, 0), 1);
    Value *const inputs[] = {table, begin, end, begin}; /* the first axis is 0, too */
    Node *slice = spell_plain(spell, "Slice", 4, type_dtype(table->type));
    for (uint32_t i = 0; i < 4; i++) node_set_input(slice, i, inputs[i]);
    return numbers_of(spell, POSITIONS, slice->outputs[0]);
}

/* How many ones each sequence's mask has; zeros without a mask. */
static Value *mask_index(Spell *spell) {
    enum { MASK = 7, AXES_AN_INPUT = 13 };
    static const int64_t one = 1;
    Value *mask = spell_input(spell, MASK);
    if (!mask) {
        Value *zeros = SPELL(spell, "ConstantOfShape", DTYPE_INT32,
                             length_of(spell, spell_input(spell, 0), 0));
        static const int32_t zero;
        const int64_t length = 1;
        node_set_attr_tensor(zeros->producer, "value",
                             tensor_new_raw(&spell->fuse.ctx->model->arena, DTYPE_INT32, &length, 1,
                                            &zero, sizeof zero));
        return zeros;
    }
    Value *number = spell_cast(spell, spell_ints(spell, &one, 1), DTYPE_INT32);
    Value *ones = SPELL(spell, "Equal", DTYPE_BOOL, mask, number);
    Value *count = spell_cast(spell, ones, DTYPE_INT32);
    Value *axes = spell->opset >= AXES_AN_INPUT ? spell_ints(spell, &one, 1) : NULL;
    Value *sum = SPELL(spell, "ReduceSum", DTYPE_INT32, count, axes);
    if (!axes) node_set_attr_ints(sum->producer, "axes", &one, 1);
    node_set_attr_int(sum->producer, "keepdims", 0);
    return sum;
}

bool spell_embed_layer_norm(Spell *spell) {
    enum { SEGMENTS = 1, WORDS = 2, SEGMENT_ROWS = 4, SCALE, BIAS, SLICE_INPUTS = 10 };
    const bool bytes = is_quantized(spell);
    if (!spell_needs(spell, SLICE_INPUTS)) return false;
    if (!spell_input(spell, SEGMENTS) != !spell_input(spell, SEGMENT_ROWS))
        return spell_refuse(spell, "where segment_ids or segment_embedding is alone");
    Value *sum = rows_of(spell, WORDS, 0);
    sum = spell_sum(spell, sum, positions(spell));
    if (spell_input(spell, SEGMENTS))
        sum = spell_sum(spell, sum, rows_of(spell, SEGMENT_ROWS, SEGMENTS));
    Value *scale = spell_input(spell, SCALE), *bias = spell_input(spell, BIAS);
    if (bytes) scale = numbers_of(spell, SCALE, scale);
    if (bytes) bias = numbers_of(spell, BIAS, bias);
    const Norm norm = {.x = sum,
                       .scale = scale,
                       .bias = bias,
                       .axis = -1,
                       .epsilon = spell_real(spell, "epsilon", 1e-12F)};
    Node *made = spell_norm(spell, &norm);
    if (spell_wants(spell, 1)) spell_give(spell, 1, mask_index(spell));
    if (spell_wants(spell, 2)) spell_give(spell, 2, sum);
    spell_give(spell, 0, made->outputs[0]);
    return true;
}
