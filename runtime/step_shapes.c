// SPDX-License-Identifier: Apache-2.0
/* Output dims of a step by the operator's shape function, from dims and the contents of small
 * operands. */
#include "step_specialization.h"

enum { SMALL_FLOATS = 64 };

bool step_shapes_looks(const KernelTensor *tensor, FormContents contents) {
    if (contents == FORM_NONE || tensor->rank > 1 || dtype_bits(tensor->dtype) < 8) return false;
    if (dtype_is_integer(tensor->dtype) || tensor->dtype == DTYPE_BOOL)
        return tensor->count <= SHAPE_ITEM_LIMIT;
    return contents == FORM_ALL && tensor->count <= SMALL_FLOATS &&
           (tensor->dtype == DTYPE_FLOAT || tensor->dtype == DTYPE_DOUBLE);
}

static const ShapeNum *read_items(Exec *exec, const KernelTensor *tensor) {
    ShapeNum *items = ARENA_ARRAY(&exec->scratch, ShapeNum, tensor->count + 1);
    if (dtype_is_float(tensor->dtype)) {
        for (uint64_t i = 0; i < tensor->count; i++)
            items[i] = (ShapeNum){.kind = SHAPE_REAL, .real = kernel_real(tensor, i)};
        return items;
    }
    KernelCall call = {.scratch = &exec->scratch};
    const int64_t *numbers = kernel_ints(&call, tensor);
    for (uint64_t i = 0; i < tensor->count; i++) items[i] = (ShapeNum){SHAPE_KNOWN, {numbers[i]}};
    return items;
}

static void describe(Exec *exec, const KernelTensor *tensor, FormContents contents,
                     ShapeOperand *operand) {
    *operand = (ShapeOperand){
        .present = tensor->present, .has_rank = true, .dtype = tensor->dtype, .rank = tensor->rank};
    if (!tensor->present) return;
    ShapeNum *dims = ARENA_ARRAY(&exec->scratch, ShapeNum, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[i] = (ShapeNum){SHAPE_KNOWN, {tensor->dims[i]}};
    operand->dims = dims;
    if (!step_shapes_looks(tensor, contents) || (tensor->count && !tensor->data)) return;
    operand->items = read_items(exec, tensor);
    operand->item_count = (uint32_t)tensor->count;
}

bool step_shapes(Exec *exec, const LoadedStep *step, KernelCall *call, FormContents contents,
                 bool *open) {
    *open = false;
    if (!step->shape) return exec_fail(exec, step, "it has no shape function");
    ShapeOperand *inputs = ARENA_ARRAY(&exec->scratch, ShapeOperand, call->input_count);
    ShapeOperand *outputs = ARENA_ARRAY(&exec->scratch, ShapeOperand, call->output_count);
    for (uint32_t i = 0; i < call->input_count; i++)
        describe(exec, &call->inputs[i], call->constant[i] ? FORM_ALL : contents, &inputs[i]);
    for (uint32_t i = 0; i < call->output_count; i++) outputs[i].present = call->outputs[i].present;
    ShapeCall shape = {.arena = &exec->scratch,
                       .attrs = step->shape_attrs,
                       .inputs = inputs,
                       .outputs = outputs,
                       .input_count = call->input_count,
                       .output_count = call->output_count};
    if (!shape_infer(step->shape, &shape)) return exec_fail(exec, step, "%s", shape.reason);
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (!outputs[i].present) continue;
        int64_t *dims = ARENA_ARRAY(&exec->scratch, int64_t, outputs[i].rank + 1);
        bool known = outputs[i].has_rank;
        for (uint32_t k = 0; known && k < outputs[i].rank; k++) {
            known = outputs[i].dims[k].kind == SHAPE_KNOWN;
            dims[k] = outputs[i].dims[k].value;
        }
        if (!known && contents < FORM_ALL) {
            *open = true;
            return true;
        }
        if (!known) return exec_fail(exec, step, "the shape of output %u cannot be inferred", i);
        call->outputs[i].rank = outputs[i].rank;
        call->outputs[i].dims = dims;
    }
    return true;
}
