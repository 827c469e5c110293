// SPDX-License-Identifier: Apache-2.0
/* Sequences and optionals. Their tensors are counted references, so nothing here copies elements
 * but splitting and joining. */
#include <string.h>

#include "exec_operators.h"

static RtList *list_input(Exec *exec, const LoadedStep *step, uint32_t i) {
    RtValue *value = exec_input(exec, step, i);
    if (value && value->state == RT_LIST) return value->list;
    exec_fail(exec, step, "input %u is not a sequence", i);
    return NULL;
}

static bool give_list(Exec *exec, const LoadedStep *step, RtList *list) {
    if (!list) return false;
    exec_output(exec, step, 0, (RtValue){.state = RT_LIST, .list = list});
    return true;
}

static bool give_tensor(Exec *exec, const LoadedStep *step, RtTensor *tensor) {
    if (!tensor) return false;
    exec_output(exec, step, 0, (RtValue){.state = RT_TENSOR, .tensor = tensor});
    return true;
}

/* The position that operand i names, from the end where negative; `otherwise` where omitted. */
static bool position(Exec *exec, const LoadedStep *step, uint32_t i, uint32_t count,
                     int64_t otherwise, uint32_t *result) {
    int64_t given = otherwise;
    RtValue *value = exec_input(exec, step, i);
    if (value && (value->state != RT_TENSOR || !exec_scalar(exec, step, value->tensor, &given)))
        return exec_fail(exec, step, "its position is not an integer");
    if (given < 0) given += count;
    /* inserting behind the last item is fine, the other operators look again */
    if (given < 0 || given > count)
        return exec_fail(exec, step, "position %lld of %u items", (long long)given, count);
    *result = (uint32_t)given;
    return true;
}

static bool existing(Exec *exec, const LoadedStep *step, uint32_t count, int64_t otherwise,
                     uint32_t *at) {
    if (!position(exec, step, 1, count, otherwise, at)) return false;
    return *at < count || exec_fail(exec, step, "position %u of %u items", *at, count);
}

bool exec_sequence_construct(Exec *exec, const LoadedStep *step) {
    uint32_t count = step->plan->inputs.count;
    RtList *list = rt_list_new(&exec->pool, count, exec->err);
    if (!list) return false;
    for (uint32_t i = 0; i < count; i++) {
        RtValue *value = exec_input(exec, step, i);
        if (value) list->items[i] = rt_value_ref(*value);
    }
    return give_list(exec, step, list);
}

bool exec_sequence_empty(Exec *exec, const LoadedStep *step) {
    return give_list(exec, step, rt_list_new(&exec->pool, 0, exec->err));
}

bool exec_sequence_at(Exec *exec, const LoadedStep *step) {
    RtList *list = list_input(exec, step, 0);
    uint32_t at;
    if (!list || !existing(exec, step, list->count, 0, &at)) return false;
    exec_output(exec, step, 0, rt_value_ref(list->items[at]));
    return true;
}

bool exec_sequence_insert(Exec *exec, const LoadedStep *step) {
    RtList *list = list_input(exec, step, 0);
    RtValue *value = exec_input(exec, step, 1);
    uint32_t at;
    if (!list || !position(exec, step, 2, list->count, list->count, &at)) return false;
    if (!value) return exec_fail(exec, step, "input 1 is missing");
    RtList *result = rt_list_new(&exec->pool, list->count + 1, exec->err);
    for (uint32_t i = 0; result && i <= list->count; i++)
        result->items[i] = rt_value_ref(i == at ? *value : list->items[i < at ? i : i - 1]);
    return give_list(exec, step, result);
}

bool exec_sequence_erase(Exec *exec, const LoadedStep *step) {
    RtList *list = list_input(exec, step, 0);
    uint32_t at;
    if (!list || !existing(exec, step, list->count, -1, &at)) return false;
    RtList *result = rt_list_new(&exec->pool, list->count - 1, exec->err);
    for (uint32_t i = 0; result && i + 1 < list->count; i++)
        result->items[i] = rt_value_ref(list->items[i < at ? i : i + 1]);
    return give_list(exec, step, result);
}

bool exec_sequence_length(Exec *exec, const LoadedStep *step) {
    RtList *list = list_input(exec, step, 0);
    RtTensor *length = list ? rt_tensor_new(&exec->pool, DTYPE_INT64, 0, NULL, exec->err) : NULL;
    if (length) *(int64_t *)length->tensor.data = list->count;
    return give_tensor(exec, step, length);
}

bool exec_concat_from_sequence(Exec *exec, const LoadedStep *step) {
    RtList *list = list_input(exec, step, 0);
    if (!list) return false;
    if (list->count == 0) return exec_fail(exec, step, "its sequence is empty");
    RtTensor **parts = ARENA_ARRAY(&exec->scratch, RtTensor *, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i].state != RT_TENSOR)
            return exec_fail(exec, step, "item %u is not a tensor", i);
        parts[i] = list->items[i].tensor;
    }
    bool fresh = exec_int_attr(step, "new_axis", 0) != 0;
    int64_t axis = exec_int_attr(step, "axis", 0), rank = (int64_t)parts[0]->tensor.rank + fresh;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return exec_fail(exec, step, "its axis is out of range");
    const JoinParts join = {
        .parts = parts, .count = list->count, .axis = (uint32_t)axis, .fresh = fresh};
    return give_tensor(exec, step, exec_join(exec, step, &join));
}

/* Lengths of the pieces along the axis: given, or equal ones, the last perhaps shorter. */
static const int64_t *piece_lengths(Exec *exec, const LoadedStep *step, int64_t size,
                                    uint32_t *count) {
    RtValue *split = exec_input(exec, step, 1);
    int64_t length = 1;
    if (split && split->state == RT_TENSOR && split->tensor->tensor.rank > 0) {
        KernelCall call = {.scratch = &exec->scratch, .err = exec->err};
        *count = (uint32_t)split->tensor->tensor.count;
        return kernel_ints(&call, &split->tensor->tensor);
    }
    if (split && (split->state != RT_TENSOR || !exec_scalar(exec, step, split->tensor, &length)))
        return NULL;
    if (length < 1 || size / length >= UINT32_MAX) {
        exec_fail(exec, step, "pieces of length %lld", (long long)length);
        return NULL;
    }
    *count = (uint32_t)((size + length - 1) / length);
    int64_t *lengths = ARENA_ARRAY(&exec->scratch, int64_t, *count + 1);
    for (uint32_t i = 0; i < *count; i++)
        lengths[i] = i + 1 < *count ? length : size - length * (int64_t)i;
    return lengths;
}

/* Without `split`, each piece has length 1, and loses the axis unless keepdims says otherwise. */
static bool split_into(Exec *exec, const LoadedStep *step, RtTensor *tensor, uint32_t axis,
                       RtList *list, const int64_t *lengths) {
    bool single = !exec_input(exec, step, 1) && exec_int_attr(step, "keepdims", 1) == 0;
    int64_t at = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (lengths[i] < 0 || lengths[i] > tensor->tensor.dims[axis] - at)
            return exec_fail(exec, step, "piece %u is out of range", i);
        const SliceRange range = {.axis = axis, .start = at, .length = lengths[i]};
        RtTensor *piece =
            single ? exec_take(exec, tensor, &range) : exec_range(exec, tensor, &range);
        if (!piece) return false;
        list->items[i] = (RtValue){.state = RT_TENSOR, .tensor = piece};
        at += lengths[i];
    }
    return at == tensor->tensor.dims[axis] ||
           exec_fail(exec, step, "its pieces do not fill the axis");
}

bool exec_split_to_sequence(Exec *exec, const LoadedStep *step) {
    RtTensor *tensor = exec_tensor(exec, step, 0);
    uint32_t count = 0;
    if (!tensor) return false;
    int64_t axis = exec_int_attr(step, "axis", 0);
    if (axis < 0) axis += tensor->tensor.rank;
    if (axis < 0 || axis >= (int64_t)tensor->tensor.rank)
        return exec_fail(exec, step, "its axis is out of range");
    const int64_t *lengths = piece_lengths(exec, step, tensor->tensor.dims[axis], &count);
    RtList *list = lengths ? rt_list_new(&exec->pool, count, exec->err) : NULL;
    if (!list) return false;
    bool ok = split_into(exec, step, tensor, (uint32_t)axis, list, lengths);
    return give_list(exec, step, list) && ok;
}

/* ---- optionals ------------------------------------------------------------------------------- */

bool exec_identity(Exec *exec, const LoadedStep *step) {
    RtValue *value = exec_input(exec, step, 0);
    if (!value || value->state == RT_UNSET) return exec_fail(exec, step, "its input is missing");
    exec_output(exec, step, 0, rt_value_ref(*value));
    return true;
}

bool exec_optional(Exec *exec, const LoadedStep *step) {
    RtValue *value = exec_input(exec, step, 0), none = {.state = RT_NONE};
    exec_output(exec, step, 0, value ? rt_value_ref(*value) : none);
    return true;
}

bool exec_optional_get_element(Exec *exec, const LoadedStep *step) {
    RtValue *value = exec_input(exec, step, 0);
    if (!value || value->state == RT_NONE || value->state == RT_UNSET)
        return exec_fail(exec, step, "the optional is empty");
    exec_output(exec, step, 0, rt_value_ref(*value));
    return true;
}

bool exec_optional_has_element(Exec *exec, const LoadedStep *step) {
    RtValue *value = exec_input(exec, step, 0);
    RtTensor *result = rt_tensor_new(&exec->pool, DTYPE_BOOL, 0, NULL, exec->err);
    if (result)
        *(uint8_t *)result->tensor.data =
            value && value->state != RT_NONE && value->state != RT_UNSET;
    return give_tensor(exec, step, result);
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct ExecRow {
    ExecFunction function;
} ExecRow;

#define EXEC(function) ROW(exec_##function)
#define OP_TABLE_TYPE  ExecRow
#define OP_TABLE       handled
#include "op_table.inc"

ExecFunction exec_find(const char *domain, const char *op) {
    const OpSpan row = handled_of[op_id(domain, op)];
    return row.count ? handled[row.first].function : NULL;
}
