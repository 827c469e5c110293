// SPDX-License-Identifier: Apache-2.0
/* Look-ups in operators.def. All tables are sorted by domain and name (op_record_test.c), and their
 * rows begin with the two. */
#include "op_record.h"

#include "text_order.h"

enum { NOW = INT32_MAX };
/* An end that is beyond any size, for int32 too. */
enum { FAR = 1 << 30 };
enum { FIRST = 1, SECOND = 2, THIRD = 4, EVERY = UINT16_MAX };

#define CLASS(all) .classes = {CLASS_##all, CLASS_##all, CLASS_##all}
#define CLASSES(float16, bfloat16, fast)                                                           \
    .classes = {CLASS_##float16, CLASS_##bfloat16, CLASS_##fast}
#define UNLESS(what)            .unless = UNLESS_##what
#define MAGNITUDE(what)         .magnitude = MAGNITUDE_##what
#define EXACT(what)             .exact = EXACT_##what
#define ASKS(operands, what)    .asks = (operands), .asks_for = (what)
#define WORK(kind)              .work = WORK_##kind
#define PRODUCTS(rule, operand) .work = WORK_##rule, .weights = (operand)
#define GIVES(operands)         .gives = (operands)
#define ANSWERS(what)           .answers = ANSWERS_##what
#define PICK(what, output)      .pick = PICK_##what, .pick_out = (output)
#define TRAITS(flags)           .traits = (flags)
#define LAYOUT(kind)            .layout = LAYOUT_##kind
#define QUANTIZED(kind)         .quantized = QUANTIZED_##kind
#define CHANNELS(axis, added)   .channels = CHANNELS_##axis, .bias = (added)

#define OPERATOR(domain_, name_, ...) {.domain = (domain_), .name = (name_), __VA_ARGS__},
static const OpRecord records[] = {
#include "operators.def"
};

#define INPUT(domain, name, operand, fact, number)                                                 \
    {domain, name, operand, INPUT_FACT_##fact, number},
static const OpInput inputs[] = {
#include "operators.def"
};

#define KEEP(domain, name, since, until, var, when) {domain, name, since, until, var, KEEP_##when},
static const OpKeep keeps[] = {
#include "operators.def"
};

#define FORM(domain, name, fused, ...) {domain, name, fused, {__VA_ARGS__}},
static const OpForm forms[] = {
#include "operators.def"
};

/* ---- searching a table ----------------------------------------------------------------------- */

typedef struct RowName {
    const char *domain, *name;
} RowName;

typedef struct Rows {
    const void *rows;
    size_t count, size;
} Rows;

#define ROWS(table) ((Rows){(table), sizeof(table) / sizeof *(table), sizeof *(table)})

static const void *row_at(Rows rows, size_t place) {
    return (const char *)rows.rows + place * rows.size;
}

static int row_order(Rows rows, size_t place, const RowName *name) {
    RowName row;
    memcpy(&row, row_at(rows, place), sizeof row);
    int order = text_order(row.domain, name->domain);
    return order ? order : text_order(row.name, name->name);
}

/* The first of the operator's rows, and their number. */
static const void *rows_find(Rows rows, const char *domain, const char *name, size_t *count) {
    const RowName wanted = {domain, name};
    size_t low = 0, high = rows.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (row_order(rows, middle, &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < rows.count && row_order(rows, end, &wanted) == 0) end++;
    *count = end - low;
    return *count ? row_at(rows, low) : NULL;
}

/* ---- the look-ups ---------------------------------------------------------------------------- */

const OpRecord *op_record_find(const char *domain, const char *name) {
    size_t count;
    return rows_find(ROWS(records), domain, name, &count);
}

size_t op_record_count(void) {
    return sizeof records / sizeof *records;
}

const OpRecord *op_record_at(size_t place) {
    return &records[place];
}

size_t op_record_place(const OpRecord *record) {
    return (size_t)(record - records);
}

bool op_record_has(const OpRecord *record, unsigned traits) {
    return record && (record->traits & traits) == traits;
}

bool op_record_gives(const OpRecord *record, uint32_t operand) {
    return record && record->gives >> (operand < 15 ? operand : 15) & 1;
}

const OpInput *op_inputs_find(const char *domain, const char *name, size_t *count) {
    return rows_find(ROWS(inputs), domain, name, count);
}

const OpKeep *op_keeps_find(const char *domain, const char *name, size_t *count) {
    return rows_find(ROWS(keeps), domain, name, count);
}

const OpForm *op_form_find(const char *domain, const char *name) {
    size_t count;
    return rows_find(ROWS(forms), domain, name, &count);
}
