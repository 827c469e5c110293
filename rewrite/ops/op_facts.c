// SPDX-License-Identifier: Apache-2.0
/* Look-ups in the hand-kept tables of op_facts.def. Each table is sorted by operator, so that a
 * look-up is a binary search and a short walk over the operator's rows. */
#include "op_facts.h"

#include "text_order.h"

#define NOW INT32_MAX
#define RANGE(domain, name, since, until)                                                          \
    { domain, name, since, until }

#define OUTPUT(domain, name, since, until, output_, from_, ...)                                    \
    {.range = RANGE(domain, name, since, until),                                                   \
     .output = (output_),                                                                          \
     .from = OP_FROM_##from_,                                                                      \
     __VA_ARGS__},
static const OpOutputRule outputs[] = {
#include "op_facts.def"
};

typedef struct AttrRow {
    OpRange range;
    const char *attr, *var;
} AttrRow;

#define COMPUTE_ATTR(domain, name, since, until, attr)                                             \
    {RANGE(domain, name, since, until), attr, NULL},
static const AttrRow compute_attrs[] = {
#include "op_facts.def"
};

#define TENSOR_ATTR(domain, name, since, until, attr, var)                                         \
    {RANGE(domain, name, since, until), attr, var},
static const AttrRow tensor_attrs[] = {
#include "op_facts.def"
};

#define TIE(domain, name, since, until, a, b, why, unless_input, floats_only)                      \
    {RANGE(domain, name, since, until), a, b, OP_TIE_##why, unless_input, floats_only},
static const OpTie ties[] = {
#include "op_facts.def"
};

#define REFUSAL(domain, name, since, until, var, dtypes, why)                                      \
    {RANGE(domain, name, since, until), var, dtypes, why},
static const OpRefusal refusals[] = {
#include "op_facts.def"
};

#define BODY(domain, name, since, until, attr_, node_in, body_in, node_out, body_out, states_,     \
             ...)                                                                                  \
    {.range = RANGE(domain, name, since, until),                                                   \
     .attr = (attr_),                                                                              \
     .node_input = (node_in),                                                                      \
     .body_input = (body_in),                                                                      \
     .node_output = (node_out),                                                                    \
     .body_output = (body_out),                                                                    \
     .states = OP_STATES_##states_,                                                                \
     __VA_ARGS__},
static const OpBodySlots bodies[] = {
#include "op_facts.def"
};

#define FLAGS(domain, name, since, until, flags, moved, unless_attr)                               \
    {RANGE(domain, name, since, until), flags, moved, unless_attr},
static const OpFlags flag_rows[] = {
#include "op_facts.def"
};

/* ---- searching a table ----------------------------------------------------------------------- */

/* A table of rows that begin with an OpRange. */
typedef struct Rows {
    const void *rows;
    size_t count, size;
} Rows;

#define ROWS(table) ((Rows){(table), sizeof(table) / sizeof *(table), sizeof *(table)})

static const OpRange *rows_at(Rows rows, size_t index) {
    return (const OpRange *)(const void *)((const char *)rows.rows + index * rows.size);
}

static int range_order(const OpRange *range, const OpSchema *schema) {
    int order = text_order(range->domain, schema->domain);
    return order ? order : text_order(range->name, schema->name);
}

/* The first of the consecutive rows that speak of this version, and their number; 0 where none. */
static size_t rows_find(Rows rows, const OpSchema *schema, size_t *count) {
    size_t low = 0, high = rows.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (range_order(rows_at(rows, middle), schema) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < rows.count && range_order(rows_at(rows, low), schema) == 0 &&
           rows_at(rows, low)->until < schema->since)
        low++;
    size_t end = low;
    while (end < rows.count && range_order(rows_at(rows, end), schema) == 0 &&
           rows_at(rows, end)->since <= schema->since)
        end++;
    *count = end - low;
    return low;
}

static const AttrRow *attr_row(const AttrRow *table, Rows rows, const OpSchema *schema,
                               const char *attr) {
    size_t count, first = rows_find(rows, schema, &count);
    for (size_t i = first; i < first + count; i++)
        if (text_equals(table[i].attr, attr)) return &table[i];
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

const OpOutputRule *op_output_rules(const OpSchema *schema, size_t output, size_t *count) {
    size_t all, first = rows_find(ROWS(outputs), schema, &all), end = first + all;
    while (first < end && outputs[first].output != output) first++;
    size_t last = first;
    while (last < end && outputs[last].output == output) last++;
    *count = last - first;
    return *count ? &outputs[first] : NULL;
}

const OpOutputRule *op_output_rewritable(const OpSchema *schema, size_t output) {
    size_t count;
    const OpOutputRule *rules = op_output_rules(schema, output, &count);
    for (size_t i = 0; i < count; i++)
        if (rules[i].rewritable && rules[i].from != OP_FROM_ATTR_PRESENCE) return &rules[i];
    return NULL;
}

OpAttrRole op_attr_role(const OpSchema *schema, const char *attr) {
    if (attr_row(compute_attrs, ROWS(compute_attrs), schema, attr)) return OP_ATTR_COMPUTE;
    size_t count, first = rows_find(ROWS(outputs), schema, &count);
    for (size_t i = first; i < first + count; i++) {
        const OpOutputRule *rule = &outputs[i];
        bool holds = rule->from == OP_FROM_DTYPE_ATTR || rule->from == OP_FROM_TENSOR_ATTR ||
                     rule->from == OP_FROM_TYPE_ATTR || rule->from == OP_FROM_ATTR_PRESENCE;
        if (holds && text_equals(rule->attr, attr))
            return rule->rewritable ? OP_ATTR_OUTPUT : OP_ATTR_OUTPUT_FIXED;
    }
    return OP_ATTR_PLAIN;
}

const OpTypeVar *op_tensor_attr_var(const OpSchema *schema, const char *attr) {
    const AttrRow *row = attr_row(tensor_attrs, ROWS(tensor_attrs), schema, attr);
    return row && row->var ? op_schema_var(schema, row->var) : NULL;
}

const OpTie *op_ties(const OpSchema *schema, size_t *count) {
    size_t first = rows_find(ROWS(ties), schema, count);
    return *count ? &ties[first] : NULL;
}

const char *op_refusal(const OpSchema *schema, const char *var, Dtype dtype) {
    size_t count, first = rows_find(ROWS(refusals), schema, &count);
    if ((unsigned)dtype >= DTYPE_COUNT) return NULL;
    for (size_t i = first; i < first + count; i++)
        if (text_equals(refusals[i].var, var) && (refusals[i].dtypes >> dtype & 1u))
            return refusals[i].why;
    return NULL;
}

const OpBodySlots *op_body_slots(const OpSchema *schema, const char *attr) {
    size_t count, first = rows_find(ROWS(bodies), schema, &count);
    for (size_t i = first; i < first + count; i++)
        if (text_equals(bodies[i].attr, attr)) return &bodies[i];
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
    size_t count, first = rows_find(ROWS(flag_rows), schema, &count);
    return count ? &flag_rows[first] : NULL;
}

bool op_has_flags(const OpSchema *schema, unsigned flags) {
    const OpFlags *row = op_flags(schema);
    return row && (row->flags & flags) == flags;
}
