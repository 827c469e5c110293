// SPDX-License-Identifier: Apache-2.0
/* The table of shape functions, and the one door through which they are called.
 *
 * The door checks what every function relies on and must keep: inputs with sane ranks go in; dims
 * that come out are never negative, and contents have as many items as the shape has elements.
 */
#include "shape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shape_calc.h"

#define SHAPE(since, function, layout, variant)                                                    \
    ROW(since, SHAPE_##variant, shape_##function, &op_attrs_##layout)
#define OP_TABLE_TYPE ShapeRow
#define OP_TABLE      shapes
#include "op_table.inc"

const ShapeRow *shape_rows(OpId op, size_t *count) {
    *count = shapes_of[op].count;
    return &shapes[shapes_of[op].first];
}

const ShapeRow *shape_find(const char *domain, const char *name, int64_t opset) {
    size_t count;
    const ShapeRow *rows = shape_rows(op_id(domain, name), &count);
    while (count && rows[count - 1].since > opset) count--;
    return count ? &rows[count - 1] : NULL;
}

bool shape_row_keeps(const ShapeRow *row) {
    return row->function == shape_unary || row->function == shape_same ||
           row->function == shape_cast || row->function == shape_cast_like ||
           row->function == shape_batch_norm || row->function == shape_reverse_sequence;
}

bool shape_row_broadcasts(const ShapeRow *row) {
    return row->function == shape_broadcast || row->function == shape_alike;
}

static void output_clear(ShapeOperand *output) {
    *output = (ShapeOperand){.present = output->present};
}

/* Dims that came out of arithmetic may be negative; a real one is a slip of a model (a float tensor
 * where integers belong). */
static bool output_check(ShapeCall *call, uint32_t index) {
    ShapeOperand *output = &call->outputs[index];
    if (!output->has_rank) {
        output->items = NULL;
        return true;
    }
    for (uint32_t i = 0; i < output->rank; i++) {
        ShapeNum dim = output->dims[i];
        if (dim.kind == SHAPE_REAL) return shape_invalid(call, "a dimension is not an integer");
        if (dim.kind == SHAPE_KNOWN && dim.value < 0)
            return shape_invalid(call, "output %u would have dimension %lld", index,
                                 (long long)dim.value);
    }
    uint64_t count;
    if (output->items && (!shape_count(output, &count) || count != output->item_count))
        output->items = NULL;
    return true;
}

bool shape_infer(const ShapeRow *row, ShapeCall *call) {
    call->row = row;
    call->reason[0] = 0;
    for (uint32_t i = 0; i < call->output_count; i++) output_clear(&call->outputs[i]);
    bool valid = true;
    for (uint32_t i = 0; valid && i < call->input_count; i++)
        if (call->inputs[i].has_rank && call->inputs[i].rank > SHAPE_RANK_LIMIT)
            valid = shape_invalid(call, "input %u has rank %u", i, call->inputs[i].rank);
    if (valid) valid = row->function(call);
    for (uint32_t i = 0; valid && i < call->output_count; i++) valid = output_check(call, i);
    if (!valid)
        for (uint32_t i = 0; i < call->output_count; i++) output_clear(&call->outputs[i]);
    return valid;
}
