// SPDX-License-Identifier: Apache-2.0
/* Look-up in opset_steps.def (binary search) and the comparison of two versions of an operator. */
#include "opset_steps.h"

#include <string.h>

#include "upgrade.h"

static const OpsetStep rows[] = {
#define SAME(o, v, why)       {.op = o, .to = v, .kind = STEP_SAME, .text = why},
#define NARROWER(o, v)        {.op = o, .to = v, .kind = STEP_NARROWER},
#define DROP(o, v, a)         {.op = o, .to = v, .kind = STEP_DROP, .attr = a},
#define ONLY_INT(o, v, a, i)  {.op = o, .to = v, .kind = STEP_ONLY_INT, .attr = a, .integer = i},
#define RENAME(o, v, a, name) {.op = o, .to = v, .kind = STEP_RENAME, .attr = a, .text = name},
#define RENAME_VALUE(o, v, a, from, name)                                                          \
    {.op = o, .to = v, .kind = STEP_RENAME_VALUE, .attr = a, .text = from, .word = name},
#define DEFAULT_INT(o, v, a, i)                                                                    \
    {.op = o, .to = v, .kind = STEP_DEFAULT_INT, .attr = a, .integer = i},
#define DEFAULT_FLOAT(o, v, a, f)                                                                  \
    {.op = o, .to = v, .kind = STEP_DEFAULT_FLOAT, .attr = a, .number = f},
#define DEFAULT_STRING(o, v, a, s)                                                                 \
    {.op = o, .to = v, .kind = STEP_DEFAULT_STRING, .attr = a, .text = s},
#define INTS_INPUT(o, v, a, i)                                                                     \
    {.op = o, .to = v, .kind = STEP_INTS_INPUT, .attr = a, .input = i, .rank = 1},
#define FLOATS_INPUT(o, v, a, i)                                                                   \
    {.op = o, .to = v, .kind = STEP_FLOATS_INPUT, .attr = a, .input = i, .rank = 1},
#define INT_INPUT(o, v, a, i, r)                                                                   \
    {.op = o, .to = v, .kind = STEP_INT_INPUT, .attr = a, .input = i, .rank = r},
#define OPERATOR(o, v, name) {.op = o, .to = v, .kind = STEP_OPERATOR, .text = name},
#define CODE(o, v, f)                                                                              \
    {.op = o, .to = v, .kind = STEP_CODE, .check = upgrade_check_##f, .apply = upgrade_apply_##f},
#define REFUSE(o, v, why) {.op = o, .to = v, .kind = STEP_REFUSE, .text = why},
#include "opset_steps.def"
};

size_t opset_step_count(void) {
    return sizeof rows / sizeof *rows;
}

const OpsetStep *opset_step_at(size_t index) {
    return &rows[index];
}

static int compare(const OpsetStep *row, const char *op, int64_t to) {
    int order = strcmp(row->op, op);
    return order ? order : (row->to > to) - (row->to < to);
}

const OpsetStep *opset_step_rows(const char *op, int64_t to, size_t *count) {
    size_t low = 0, high = opset_step_count();
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&rows[middle], op, to) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < opset_step_count() && compare(&rows[end], op, to) == 0) end++;
    *count = end - low;
    return end > low ? &rows[low] : NULL;
}

/* ---- comparing versions ---------------------------------------------------------------------- */

static bool same_params(const OpParam *older, const OpParam *newer, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool freed = older[i].option == OP_SINGLE && newer[i].option == OP_OPTIONAL;
        if (older[i].option != newer[i].option && !freed) return false;
        if (newer[i].option == OP_VARIADIC && newer[i].min_arity > older[i].min_arity) return false;
    }
    return true;
}

static bool same_lists(const OpAttr *a, const OpAttr *b) {
    if (a->count != b->count) return false;
    for (uint8_t i = 0; i < a->count; i++) {
        if (a->type == ATTR_INTS && a->value.ints[i] != b->value.ints[i]) return false;
        if (a->type == ATTR_FLOATS && a->value.floats[i] != b->value.floats[i]) return false;
        if (a->type == ATTR_STRINGS && strcmp(a->value.strings[i], b->value.strings[i]))
            return false;
    }
    return true;
}

static bool same_default(const OpAttr *a, const OpAttr *b) {
    if (a->has_default != b->has_default) return false;
    if (!a->has_default) return true;
    if (a->type == ATTR_INT) return a->value.i == b->value.i;
    if (a->type == ATTR_FLOAT) return a->value.f == b->value.f;
    if (a->type == ATTR_STRING) return strcmp(a->value.s, b->value.s) == 0;
    return same_lists(a, b);
}

static bool same_attrs(const OpSchema *older, const OpSchema *newer) {
    if (older->attr_count != newer->attr_count) return false;
    for (uint8_t i = 0; i < older->attr_count; i++) {
        const OpAttr *a = &older->attrs[i], *b = &newer->attrs[i];
        if (strcmp(a->name, b->name) || a->type != b->type) return false;
        if ((b->required && !a->required) || !same_default(a, b)) return false;
    }
    return true;
}

bool opset_step_keeps_form(const OpSchema *older, const OpSchema *newer) {
    return !newer->deprecated && older->input_count == newer->input_count &&
           older->output_count == newer->output_count &&
           same_params(older->inputs, newer->inputs, older->input_count) &&
           same_params(older->outputs, newer->outputs, older->output_count) &&
           same_attrs(older, newer);
}

static bool keeps_types(const TypeSet *older, const TypeSet *newer) {
    for (size_t kind = 0; kind < OPTYPE_COUNT; kind++)
        if (older->dtypes[kind] & ~newer->dtypes[kind]) return false;
    return true;
}

bool opset_step_keeps_types(const OpSchema *older, const OpSchema *newer) {
    for (uint8_t i = 0; i < older->input_count && i < newer->input_count; i++)
        if (!keeps_types(op_param_types(older, &older->inputs[i]),
                         op_param_types(newer, &newer->inputs[i])))
            return false;
    for (uint8_t i = 0; i < older->output_count && i < newer->output_count; i++)
        if (!keeps_types(op_param_types(older, &older->outputs[i]),
                         op_param_types(newer, &newer->outputs[i])))
            return false;
    return true;
}
