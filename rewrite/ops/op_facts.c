// SPDX-License-Identifier: Apache-2.0
/* The tables of facts (OUTPUT, …, FLAGS of operators/) and their look-ups: a short walk over the
 * operator's rows. */
#include "op_facts.h"

#include "op_id.h"
#include "text_order.h"

#define NOW INT32_MAX

typedef struct AttrRow {
    int32_t since, until;
    const char *attr, *var;
} AttrRow;

#define OUTPUT(since_, until_, output_, from_, ...)                                                \
    ROW(.since = (since_), .until = (until_), .output = (output_), .from = OP_FROM_##from_,        \
        __VA_ARGS__)
#define OP_TABLE_TYPE OpOutputRule
#define OP_TABLE      outputs
#include "op_table.inc"

#define COMPUTE_ATTR(since, until, attr) ROW(since, until, attr, NULL)
#define OP_TABLE_TYPE                    AttrRow
#define OP_TABLE                         compute_attrs
#include "op_table.inc"

#define TENSOR_ATTR(since, until, attr, var) ROW(since, until, attr, var)
#define OP_TABLE_TYPE                        AttrRow
#define OP_TABLE                             tensor_attrs
#include "op_table.inc"

#define TIE(since, until, a, b, why, unless_input, floats_only)                                    \
    ROW(since, until, a, b, OP_TIE_##why, unless_input, floats_only)
#define OP_TABLE_TYPE OpTie
#define OP_TABLE      ties
#include "op_table.inc"

#define REFUSAL(since, until, var, dtypes, why) ROW(since, until, var, dtypes, why)
#define OP_TABLE_TYPE                           OpRefusal
#define OP_TABLE                                refusals
#include "op_table.inc"

#define BODY(since_, until_, attr_, node_in, body_in, node_out, body_out, states_, ...)            \
    ROW(.since = (since_), .until = (until_), .attr = (attr_), .node_input = (node_in),            \
        .body_input = (body_in), .node_output = (node_out), .body_output = (body_out),             \
        .states = OP_STATES_##states_, __VA_ARGS__)
#define OP_TABLE_TYPE OpBodySlots
#define OP_TABLE      bodies
#include "op_table.inc"

#define FLAGS(since, until, flags, moved, unless_attr) ROW(since, until, flags, moved, unless_attr)
#define OP_TABLE_TYPE                                  OpFlags
#define OP_TABLE                                       flag_rows
#include "op_table.inc"

/* ---- searching a table ----------------------------------------------------------------------- */

static OpRange range_at(const void *rows, size_t size, size_t index) {
    OpRange range;
    memcpy(&range, (const char *)rows + index * size, sizeof range);
    return range;
}

/* The first of the consecutive rows that speak of this version, and their number; NULL, 0: none. */
static const void *rows_find(const void *rows, size_t size, const OpSpan *spans,
                             const OpSchema *schema, size_t *count) {
    const OpSpan span = spans[op_id(schema->domain, schema->name)];
    const size_t last = (size_t)span.first + span.count;
    size_t first = span.first;
    while (first < last && range_at(rows, size, first).until < schema->since) first++;
    size_t end = first;
    while (end < last && range_at(rows, size, end).since <= schema->since) end++;
    *count = end - first;
    return *count ? (const char *)rows + first * size : NULL;
}

#define ROWS_FIND(table, schema, count) rows_find(table, sizeof *(table), table##_of, schema, count)

static const AttrRow *attr_row(const AttrRow *rows, const OpSpan *spans, const OpSchema *schema,
                               const char *attr) {
    size_t count;
    rows = rows_find(rows, sizeof *rows, spans, schema, &count);
    for (size_t i = 0; i < count; i++)
        if (text_equals(rows[i].attr, attr)) return &rows[i];
    return NULL;
}

/* ---- the look-ups ---------------------------------------------------------------------------- */

bool op_type_wrap(OpWrap wrap, OpType in, OpType *out) {
    OpTypeKind kind = OPTYPE_COUNT;
    switch (wrap) {
    case OP_WRAP_SAME: kind = in.kind; break;
    case OP_WRAP_TENSOR: kind = OPTYPE_TENSOR; break;
    case OP_WRAP_SEQ: kind = OPTYPE_SEQ; break;
    case OP_WRAP_OPTIONAL:
        if (in.kind == OPTYPE_TENSOR) kind = OPTYPE_OPTIONAL;
        if (in.kind == OPTYPE_SEQ) kind = OPTYPE_OPTIONAL_SEQ;
        break;
    case OP_WRAP_CONTENT:
        if (in.kind == OPTYPE_TENSOR || in.kind == OPTYPE_OPTIONAL) kind = OPTYPE_TENSOR;
        if (in.kind == OPTYPE_SEQ || in.kind == OPTYPE_OPTIONAL_SEQ) kind = OPTYPE_SEQ;
        break;
    case OP_WRAP_ELEMENT:
        if (in.kind == OPTYPE_TENSOR || in.kind == OPTYPE_SEQ) kind = OPTYPE_TENSOR;
        break;
    case OP_WRAP_SEQ_MAP_INT64: kind = OPTYPE_SEQ_MAP_INT64; break;
    case OP_WRAP_SEQ_MAP_STRING: kind = OPTYPE_SEQ_MAP_STRING; break;
    }
    if (kind == OPTYPE_COUNT) return false;
    *out = (OpType){kind, in.dtype};
    return true;
}

/* Of every operator of demi.fused, whose first output says its type so. */
static const OpOutputRule fused_rules[] = {
    {.since = 1, .until = NOW, .output = 0, .from = OP_FROM_DTYPE_ATTR, .attr = "to"},
    {.since = 1, .until = NOW, .output = 0, .from = OP_FROM_INPUT, .input = 0},
};
enum { FUSED_RULES = sizeof fused_rules / sizeof *fused_rules };

static bool is_fused(const OpSchema *schema) {
    return text_equals(schema->domain, OP_DOMAIN_fused);
}

const OpOutputRule *op_output_rules(const OpSchema *schema, size_t output, size_t *count) {
    if (output == 0 && is_fused(schema)) {
        *count = FUSED_RULES;
        return fused_rules;
    }
    size_t all, first = 0;
    const OpOutputRule *rules = ROWS_FIND(outputs, schema, &all);
    while (first < all && rules[first].output != output) first++;
    size_t end = first;
    while (end < all && rules[end].output == output) end++;
    *count = end - first;
    return *count ? &rules[first] : NULL;
}

const OpOutputRule *op_output_rewritable(const OpSchema *schema, size_t output) {
    size_t count;
    const OpOutputRule *rules = op_output_rules(schema, output, &count);
    for (size_t i = 0; i < count; i++)
        if (rules[i].rewritable && rules[i].from != OP_FROM_ATTR_PRESENCE) return &rules[i];
    return NULL;
}

static OpAttrRole role_by(const OpOutputRule *rules, size_t count, const char *attr) {
    for (size_t i = 0; i < count; i++) {
        const OpOutputRule *rule = &rules[i];
        bool holds = rule->from == OP_FROM_DTYPE_ATTR || rule->from == OP_FROM_TENSOR_ATTR ||
                     rule->from == OP_FROM_TYPE_ATTR || rule->from == OP_FROM_ATTR_PRESENCE;
        if (holds && text_equals(rule->attr, attr))
            return rule->rewritable ? OP_ATTR_OUTPUT : OP_ATTR_OUTPUT_FIXED;
    }
    return OP_ATTR_PLAIN;
}

OpAttrRole op_attr_role(const OpSchema *schema, const char *attr) {
    if (attr_row(compute_attrs, compute_attrs_of, schema, attr)) return OP_ATTR_COMPUTE;
    size_t count;
    const OpOutputRule *rules = ROWS_FIND(outputs, schema, &count);
    OpAttrRole role = role_by(rules, count, attr);
    if (role == OP_ATTR_PLAIN && is_fused(schema)) role = role_by(fused_rules, FUSED_RULES, attr);
    return role;
}

const OpTypeVar *op_tensor_attr_var(const OpSchema *schema, const char *attr) {
    const AttrRow *row = attr_row(tensor_attrs, tensor_attrs_of, schema, attr);
    return row && row->var ? op_schema_var(schema, row->var) : NULL;
}

const OpTie *op_ties(const OpSchema *schema, size_t *count) {
    return ROWS_FIND(ties, schema, count);
}

const char *op_refusal(const OpSchema *schema, const char *var, Dtype dtype) {
    size_t count;
    const OpRefusal *rows = ROWS_FIND(refusals, schema, &count);
    if ((unsigned)dtype >= DTYPE_COUNT) return NULL;
    for (size_t i = 0; i < count; i++)
        if (text_equals(rows[i].var, var) && (rows[i].dtypes >> dtype & 1u)) return rows[i].why;
    return NULL;
}

const OpBodySlots *op_body_slots(const OpSchema *schema, const char *attr) {
    size_t count;
    const OpBodySlots *slots = ROWS_FIND(bodies, schema, &count);
    for (size_t i = 0; i < count; i++)
        if (text_equals(slots[i].attr, attr)) return &slots[i];
    return NULL;
}

size_t op_body_state_count(const OpBodySlots *slots, size_t node_inputs, int64_t scan_inputs) {
    if (slots->node_input < 0 || node_inputs < (size_t)slots->node_input) return 0;
    size_t passed = node_inputs - (size_t)slots->node_input;
    switch ((OpStates)slots->states) {
    case OP_STATES_NONE: return 0;
    case OP_STATES_ALL: return passed;
    case OP_STATES_LEADING:
        return scan_inputs < 0 || (uint64_t)scan_inputs > passed ? 0 : passed - (size_t)scan_inputs;
    }
    return 0;
}

const OpFlags *op_flags(const OpSchema *schema) {
    size_t count;
    return ROWS_FIND(flag_rows, schema, &count);
}

bool op_has_flags(const OpSchema *schema, unsigned flags) {
    const OpFlags *row = op_flags(schema);
    return row && (row->flags & flags) == flags;
}
