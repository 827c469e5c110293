// SPDX-License-Identifier: Apache-2.0
/* The tables of records and of single operands' rows, and their look-ups. */
#include "op_record.h"

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

#define OPERATOR(domain_, name_, ...)                                                              \
    [OP_##domain_##_##name_] = {.domain = OP_DOMAIN_##domain_, .name = #name_, __VA_ARGS__},
#define IS(...) __VA_ARGS__
static const OpRecord records[OP_ID_COUNT] = {
#include "operators.def"
};

#define INPUT(operand, fact, number) ROW(operand, INPUT_FACT_##fact, number)
#define OP_TABLE_TYPE                OpInput
#define OP_TABLE                     inputs
#include "op_table.inc"

#define KEEP(since, until, var, when) ROW(since, until, var, KEEP_##when)
#define OP_TABLE_TYPE                 OpKeep
#define OP_TABLE                      keeps
#include "op_table.inc"

#define FORM(fused, ...) ROW(fused, {__VA_ARGS__})
#define OP_TABLE_TYPE    OpForm
#define OP_TABLE         forms
#include "op_table.inc"

enum { FIRST_RECORD = OP_NONE + 1 };

const OpRecord *op_record_find(const char *domain, const char *name) {
    const OpId op = op_id(domain, name);
    return op ? &records[op] : NULL;
}

size_t op_record_count(void) {
    return OP_ID_COUNT - FIRST_RECORD;
}

const OpRecord *op_record_at(size_t place) {
    return &records[FIRST_RECORD + place];
}

size_t op_record_place(const OpRecord *record) {
    return (size_t)(record - records) - FIRST_RECORD;
}

bool op_record_has(const OpRecord *record, unsigned traits) {
    return record && (record->traits & traits) == traits;
}

bool op_record_gives(const OpRecord *record, uint32_t operand) {
    return record && record->gives >> (operand < 15 ? operand : 15) & 1;
}

const OpInput *op_inputs_find(const char *domain, const char *name, size_t *count) {
    const OpSpan span = inputs_of[op_id(domain, name)];
    *count = span.count;
    return span.count ? &inputs[span.first] : NULL;
}

const OpKeep *op_keeps_find(const char *domain, const char *name, size_t *count) {
    const OpSpan span = keeps_of[op_id(domain, name)];
    *count = span.count;
    return span.count ? &keeps[span.first] : NULL;
}

const OpForm *op_form_find(const char *domain, const char *name) {
    const OpSpan span = forms_of[op_id(domain, name)];
    return span.count ? &forms[span.first] : NULL;
}
