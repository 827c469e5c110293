// SPDX-License-Identifier: Apache-2.0
/* The recipe of EmbedLayerNormalization, and of QEmbedLayerNormalization, whose tables are bytes: sums
 * of rows, normalized, and how many tokens of each sequence count. */
#include "decompose.h"

static Value *widened(Decompose *decompose, Value *x) {
    return type_dtype(x->type) == DTYPE_FLOAT ? x : decompose_cast(decompose, x, DTYPE_FLOAT);
}

static bool is_quantized(const Decompose *decompose) {
    return sym_equals(decompose->node->op_type, "QEmbedLayerNormalization");
}

/* What `x`, which is of operand `table` or is it, says in numbers. */
static Value *numbers_of(Decompose *decompose, uint32_t table, Value *x) {
    enum { TO_SCALE = 6, TO_ZERO = 11 };
    if (!is_quantized(decompose)) return widened(decompose, x);
    return DECOMPOSE(decompose, "DequantizeLinear", DTYPE_FLOAT, x,
                     decompose_input(decompose, table + TO_SCALE),
                     decompose_input(decompose, table + TO_ZERO));
}

/* Rows of the table in operand `table`. */
static Value *rows_of(Decompose *decompose, uint32_t table, uint32_t ids) {
    Value *from = decompose_input(decompose, table);
    return numbers_of(decompose, table,
                      DECOMPOSE(decompose, "Gather", type_dtype(from->type), from,
                                decompose_input(decompose, ids)));
}

/* ids' dim `axis`, as a list of one. */
static Value *length_of(Decompose *decompose, Value *ids, int64_t axis) {
    Value *shape = DECOMPOSE(decompose, "Shape", DTYPE_INT64, ids);
    return DECOMPOSE(decompose, "Gather", DTYPE_INT64, shape, decompose_ints(decompose, &axis, 1));
}

/* The first rows of the positions, as many as there are ids in a sequence. */
static Value *positions(Decompose *decompose) {
    enum { POSITIONS = 3, POSITION_IDS = 8 };
    static const int64_t zero = 0;
    if (!is_quantized(decompose) && decompose_input(decompose, POSITION_IDS))
        return rows_of(decompose, POSITIONS, POSITION_IDS);
    Value *table = decompose_input(decompose, POSITIONS),
          *begin = decompose_ints(decompose, &zero, 1);
    Value *end = length_of(decompose, decompose_input(decompose, 0), 1);
    Value *const inputs[] = {table, begin, end, begin}; /* the first axis is 0, too */
    Node *slice = decompose_plain(decompose, "Slice", 4, type_dtype(table->type));
    for (uint32_t i = 0; i < 4; i++) node_set_input(slice, i, inputs[i]);
    return numbers_of(decompose, POSITIONS, slice->outputs[0]);
}

/* How many ones each sequence's mask has; zeros without a mask. */
static Value *mask_index(Decompose *decompose) {
    enum { MASK = 7, AXES_AN_INPUT = 13 };
    static const int64_t one = 1;
    Value *mask = decompose_input(decompose, MASK);
    if (!mask) {
        Value *zeros = DECOMPOSE(decompose, "ConstantOfShape", DTYPE_INT32,
                                 length_of(decompose, decompose_input(decompose, 0), 0));
        static const int32_t zero;
        const int64_t length = 1;
        node_set_attr_tensor(zeros->producer, "value",
                             tensor_new_raw(&decompose->fuse.ctx->model->arena, DTYPE_INT32,
                                            &length, 1, &zero, sizeof zero));
        return zeros;
    }
    Value *number = decompose_cast(decompose, decompose_ints(decompose, &one, 1), DTYPE_INT32);
    Value *ones = DECOMPOSE(decompose, "Equal", DTYPE_BOOL, mask, number);
    Value *count = decompose_cast(decompose, ones, DTYPE_INT32);
    Value *axes = decompose->opset >= AXES_AN_INPUT ? decompose_ints(decompose, &one, 1) : NULL;
    Value *sum = DECOMPOSE(decompose, "ReduceSum", DTYPE_INT32, count, axes);
    if (!axes) node_set_attr_ints(sum->producer, "axes", &one, 1);
    node_set_attr_int(sum->producer, "keepdims", 0);
    return sum;
}

bool decompose_embed_layer_norm(Decompose *decompose) {
    enum { SEGMENTS = 1, WORDS = 2, SEGMENT_ROWS = 4, SCALE, BIAS, SLICE_INPUTS = 10 };
    const bool bytes = is_quantized(decompose);
    if (!decompose_needs(decompose, SLICE_INPUTS)) return false;
    if (!decompose_input(decompose, SEGMENTS) != !decompose_input(decompose, SEGMENT_ROWS))
        return decompose_refuse(decompose, "with only one of segment_ids and segment_embedding");
    Value *sum = rows_of(decompose, WORDS, 0);
    sum = decompose_sum(decompose, sum, positions(decompose));
    if (decompose_input(decompose, SEGMENTS))
        sum = decompose_sum(decompose, sum, rows_of(decompose, SEGMENT_ROWS, SEGMENTS));
    Value *scale = decompose_input(decompose, SCALE), *bias = decompose_input(decompose, BIAS);
    if (bytes) scale = numbers_of(decompose, SCALE, scale);
    if (bytes) bias = numbers_of(decompose, BIAS, bias);
    const Norm norm = {.x = sum,
                       .scale = scale,
                       .bias = bias,
                       .axis = -1,
                       .epsilon = decompose_real(decompose, "epsilon", 1e-12F)};
    Node *made = decompose_norm(decompose, &norm);
    if (decompose_wants(decompose, 1)) decompose_give(decompose, 1, mask_index(decompose));
    if (decompose_wants(decompose, 2)) decompose_give(decompose, 2, sum);
    decompose_give(decompose, 0, made->outputs[0]);
    return true;
}
