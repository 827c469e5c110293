// SPDX-License-Identifier: Apache-2.0
/* Conditions on attributes; see op_condition.h. They are few, so that a node is compared with each.
 */
#include "op_condition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op_types.h"
#include "real_text.h"
#include "text_distance.h"

typedef struct Row {
    const char *domain, *op, *attr, *value;
    const char *why;
} Row;

struct OpConditions {
    VEC(Row) rows;
};

/* ---- reading --------------------------------------------------------------------------------- */

static bool malformed(const char *text, Err *err) {
    err_set(err, ERR_USAGE, "fp32-when: a condition is malformed");
    err_expected(err, "OPERATOR.ATTRIBUTE=VALUE");
    err_actual(err, "'%s'", text);
    return false;
}

/* "a.b.Op.attr=value": the attribute begins after the last dot before '=', the operator after the
 * one before that. */
static bool split(Row *row, const char *text, Arena *arena, Err *err) {
    const char *equals = strchr(text, '=');
    if (!equals) return malformed(text, err);
    char *name = arena_copy(arena, text, (size_t)(equals - text));
    char *dot = strrchr(name, '.');
    if (!dot) return malformed(text, err);
    *dot = '\0';
    char *domain_end = strrchr(name, '.');
    if (domain_end) *domain_end = '\0';
    *row = (Row){.domain = ops_domain(domain_end ? name : ""),
                 .op = domain_end ? domain_end + 1 : name,
                 .attr = dot + 1,
                 .value = equals + 1};
    if (!row->op[0] || !row->attr[0]) return malformed(text, err);
    row->why = arena_printf(arena, "its %s is %s", row->attr, row->value);
    return true;
}

static bool is_declared(const OpClassLists *lists, const Row *row) {
    for (size_t i = 0; i < lists->declared_count; i++)
        if (!strcmp(lists->declared[i]->domain, row->domain) &&
            !strcmp(lists->declared[i]->name, row->op))
            return true;
    return false;
}

static bool unknown_operator(const Row *row, Err *err) {
    err_set(err, ERR_USAGE, "fp32-when: there is no operator '%s'", row->op);
    const char *nearest = ops_nearest_name(row->domain, row->op);
    if (nearest) err_hint(err, "did you mean '%s'?", nearest);
    return false;
}

/* Some version of the operator has the attribute. */
static bool has_attribute(const Row *row, Err *err) {
    NearestName nearest = nearest_name_of(row->attr);
    const OpSchema *schema = NULL;
    for (int64_t opset = ops_latest_opset(row->domain); opset > 0; opset--) {
        const OpSchema *older = ops_find(row->domain, row->op, opset);
        if (!older || older == schema) continue;
        schema = older;
        if (op_schema_attr(schema, row->attr)) return true;
        for (size_t i = 0; i < schema->attr_count; i++)
            nearest_name_try(&nearest, schema->attrs[i].name);
    }
    err_set(err, ERR_USAGE, "fp32-when: operator '%s' has no attribute '%s'", row->op, row->attr);
    if (nearest.best) err_hint(err, "did you mean '%s'?", nearest.best);
    return false;
}

const OpConditions *op_conditions_new(const OpClassLists *lists, Arena *arena, Err *err) {
    OpConditions *conditions = ARENA_NEW(arena, OpConditions);
    for (size_t i = 0; i < lists->fp32_when.count; i++) {
        Row row;
        if (!split(&row, lists->fp32_when.items[i], arena, err)) return NULL;
        if (!is_declared(lists, &row)) {
            bool known = ops_exists(row.domain, row.op) || unknown_operator(&row, err);
            if (!known || !has_attribute(&row, err)) return NULL;
        }
        VEC_PUSH(arena, &conditions->rows, row);
    }
    return conditions;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Takes the next number off a list "1,2,3"; false at its end or where there is none. */
static bool next_number(const char **text, double *number) {
    size_t length = strcspn(*text, ",");
    if (!real_read(*text, length, number)) return false;
    *text += length + ((*text)[length] == ',');
    return true;
}

static bool same_number(const char **text, double value) {
    double number;
    /* A float attribute is what its decimal text rounds to. */
    return next_number(text, &number) && (number == value || (float)number == (float)value);
}

static bool attr_is(const Attr *attr, const char *text) {
    bool same = true;
    uint32_t int_count, float_count;
    int64_t whole;
    float real;
    if (attr->ref) return false; /* a function's parameter: differs from call to call */
    if (attr->type == ATTR_STRING) return attr_is_text(attr, text);
    if (attr_int(attr, &whole)) return same_number(&text, (double)whole) && !*text;
    if (attr_float(attr, &real)) return same_number(&text, (double)real) && !*text;
    if (attr->type != ATTR_INTS && attr->type != ATTR_FLOATS) return false;
    const int64_t *ints = attr_ints(attr, &int_count);
    const float *floats = attr_floats(attr, &float_count);
    for (uint32_t i = 0; same && i < int_count; i++) same = same_number(&text, (double)ints[i]);
    for (uint32_t i = 0; same && i < float_count; i++) same = same_number(&text, (double)floats[i]);
    return same && !*text;
}

static bool default_is(const OpAttr *attr, const char *text) {
    bool same = true;
    if (!attr || !attr->has_default) return false;
    if (attr->type == ATTR_STRING) return strcmp(attr->value.s, text) == 0;
    if (attr->type == ATTR_INT) return same_number(&text, (double)attr->value.i) && !*text;
    if (attr->type == ATTR_FLOAT) return same_number(&text, attr->value.f) && !*text;
    if (attr->type != ATTR_INTS && attr->type != ATTR_FLOATS) return false;
    for (uint32_t i = 0; same && i < attr->count; i++)
        same = same_number(&text, attr->type == ATTR_INTS ? (double)attr->value.ints[i]
                                                          : attr->value.floats[i]);
    return same && !*text;
}

const char *op_conditions_hold(const OpConditions *conditions, const Node *node) {
    for (size_t i = 0; i < conditions->rows.count; i++) {
        const Row *row = &conditions->rows.items[i];
        const char *domain = domain_is_default(node->domain) ? "" : sym_text(node->domain);
        if (!sym_equals(node->op_type, row->op) || strcmp(domain, row->domain)) continue;
        const Attr *attr = node_attr(node, row->attr);
        const OpSchema *schema = attr ? NULL : node_schema(node);
        if (attr ? attr_is(attr, row->value)
                 : schema && default_is(op_schema_attr(schema, row->attr), row->value))
            return row->why;
    }
    return NULL;
}
