// SPDX-License-Identifier: Apache-2.0
/* The table of steps, the UPGRADE rows of operators/, and the comparison of two versions of an
 * operator. */
#include "opset_steps.h"

#include <string.h>

#include "upgrade.h"

#define STEP_OF_SAME(v, why)       ROW(.to = v, .kind = STEP_SAME, .text = why)
#define STEP_OF_NARROWER(v)        ROW(.to = v, .kind = STEP_NARROWER)
#define STEP_OF_DROP(v, a)         ROW(.to = v, .kind = STEP_DROP, .attr = a)
#define STEP_OF_ONLY_INT(v, a, i)  ROW(.to = v, .kind = STEP_ONLY_INT, .attr = a, .integer = i)
#define STEP_OF_RENAME(v, a, name) ROW(.to = v, .kind = STEP_RENAME, .attr = a, .text = name)
#define STEP_OF_RENAME_VALUE(v, a, from, name)                                                     \
    ROW(.to = v, .kind = STEP_RENAME_VALUE, .attr = a, .text = from, .word = name)
#define STEP_OF_DEFAULT_INT(v, a, i) ROW(.to = v, .kind = STEP_DEFAULT_INT, .attr = a, .integer = i)
#define STEP_OF_DEFAULT_FLOAT(v, a, f)                                                             \
    ROW(.to = v, .kind = STEP_DEFAULT_FLOAT, .attr = a, .number = f)
#define STEP_OF_DEFAULT_STRING(v, a, s)                                                            \
    ROW(.to = v, .kind = STEP_DEFAULT_STRING, .attr = a, .text = s)
#define STEP_OF_INTS_INPUT(v, a, i)                                                                \
    ROW(.to = v, .kind = STEP_INTS_INPUT, .attr = a, .input = i, .rank = 1)
#define STEP_OF_FLOATS_INPUT(v, a, i)                                                              \
    ROW(.to = v, .kind = STEP_FLOATS_INPUT, .attr = a, .input = i, .rank = 1)
#define STEP_OF_INT_INPUT(v, a, i, r)                                                              \
    ROW(.to = v, .kind = STEP_INT_INPUT, .attr = a, .input = i, .rank = r)
#define STEP_OF_OPERATOR(v, name) ROW(.to = v, .kind = STEP_OPERATOR, .text = name)
#define STEP_OF_CODE(v, f)                                                                         \
    ROW(.to = v, .kind = STEP_CODE, .check = upgrade_check_##f, .apply = upgrade_apply_##f)
#define STEP_OF_REFUSE(v, why) ROW(.to = v, .kind = STEP_REFUSE, .text = why)
#define UPGRADE(kind, ...)     STEP_OF_##kind(__VA_ARGS__)
#define OP_TABLE_TYPE          OpsetStep
#define OP_TABLE               steps
#include "op_table.inc"

const OpsetStep *opset_steps(OpId op, size_t *count) {
    *count = steps_of[op].count;
    return &steps[steps_of[op].first];
}

const OpsetStep *opset_step_rows(const char *op, int64_t to, size_t *count) {
    size_t all, first = 0;
    const OpsetStep *rows = opset_steps(op_id("", op), &all);
    while (first < all && rows[first].to < to) first++;
    size_t end = first;
    while (end < all && rows[end].to == to) end++;
    *count = end - first;
    return *count ? &rows[first] : NULL;
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
