// SPDX-License-Identifier: Apache-2.0
/* Cases of shape functions as text, for the tests of this folder.
 *
 *     {"MatMul", 13, "", "2,N,4 | 4,5", "2,N,5"}
 *
 * operator (domain before ':' where it is not the default one), opset, attributes "name=value" with
 * ';' between, inputs and expected outputs with '|' between. An operand is
 *     2,N,?      a shape: known, symbol (a capital letter), unknown        .   a scalar
 *     *          unknown rank                                              -   absent
 *     =2,N,-1,?  a vector of int64 with these contents                     =   an empty one
 *     #5         an int64 scalar                   ~1.5,2  a vector of float contents
 *     ^1,0       a vector of bools                 @3      as a sequence of tensors of that shape
 * Expected "!" means invalid, "! | !" of two outputs. An expected shape without contents says nothing
 * of them.
 */
#ifndef DEMI_SHAPE_CASE_TEST_H
#define DEMI_SHAPE_CASE_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shape.h"
#include "unit_test.h"

typedef struct ShapeCase {
    const char *name;
    int64_t opset;
    const char *attrs, *inputs, *outputs;
} ShapeCase;

enum { CASE_MOST = 64 };

static ShapeNum case_num(const char *text, bool real) {
    ShapeNum num = {.kind = SHAPE_UNKNOWN};
    if (*text == '?') return num;
    if (*text >= 'A' && *text <= 'Z') {
        num.kind = SHAPE_SYMBOL;
        num.symbol = (uint64_t)(unsigned char)*text;
    } else if (real) {
        num.kind = SHAPE_REAL;
        num.real = strtod(text, NULL);
    } else {
        num.kind = SHAPE_KNOWN;
        num.value = strtoll(text, NULL, 10);
    }
    return num;
}

static uint32_t case_nums(Arena *arena, const char *text, bool real, ShapeNum **nums) {
    *nums = ARENA_ARRAY(arena, ShapeNum, CASE_MOST);
    uint32_t count = 0;
    for (const char *at = text; *at && *at != ' '; count++) {
        assert_true(count < CASE_MOST);
        (*nums)[count] = case_num(at, real);
        at += strcspn(at, ", ");
        if (*at == ',') at++;
    }
    return count;
}

static void case_contents(Arena *arena, ShapeOperand *operand, const char *text, Dtype dtype) {
    ShapeNum *items, *length = ARENA_NEW(arena, ShapeNum);
    operand->item_count = case_nums(arena, text + 1, *text == '~', &items);
    operand->items = items;
    operand->dtype = dtype;
    operand->rank = *text == '#' ? 0 : 1;
    *length = (ShapeNum){SHAPE_KNOWN, {operand->item_count}};
    operand->dims = length;
}

static ShapeOperand case_operand(Arena *arena, const char *text) {
    ShapeOperand operand = {.present = true, .has_rank = true};
    ShapeNum *dims;
    if (*text == '@') {
        operand = case_operand(arena, text + 1);
        operand.wrapped = true;
    } else if (*text == '-' && (text[1] == ' ' || !text[1])) {
        operand.present = operand.has_rank = false;
    } else if (*text == '*') {
        operand.has_rank = false;
    } else if (*text == '=' || *text == '#') {
        case_contents(arena, &operand, text, DTYPE_INT64);
    } else if (*text == '~') {
        case_contents(arena, &operand, text, DTYPE_FLOAT);
    } else if (*text == '^') {
        case_contents(arena, &operand, text, DTYPE_BOOL);
    } else if (*text != '.') {
        operand.rank = case_nums(arena, text, false, &dims);
        operand.dims = dims;
    }
    return operand;
}

static uint32_t case_operands(Arena *arena, const char *text, ShapeOperand *operands) {
    uint32_t count = 0;
    while (*text) {
        text += strspn(text, " |");
        if (!*text) break;
        assert_true(count < CASE_MOST);
        operands[count++] = case_operand(arena, text);
        text += strcspn(text, " |");
    }
    return count;
}

static void case_fill(Arena *arena, void *place, const AttrField *field, const char *value) {
    ShapeNum *nums = NULL;
    bool real = field->kind == ATTR_FIELD_FLOATS || field->kind == ATTR_FIELD_FLOAT;
    uint32_t count = 0;
    if (field->kind != ATTR_FIELD_TEXT && field->kind != ATTR_FIELD_TENSOR)
        count = case_nums(arena, value, real, &nums);
    int64_t *ints = ARENA_ARRAY(arena, int64_t, CASE_MOST);
    float *floats = ARENA_ARRAY(arena, float, CASE_MOST);
    for (uint32_t i = 0; i < count; i++) {
        if (real)
            floats[i] = (float)nums[i].real;
        else
            ints[i] = nums[i].value;
    }
    switch (field->kind) {
    case ATTR_FIELD_INT: *(int64_t *)place = ints[0]; break;
    case ATTR_FIELD_INTS: *(AttrInts *)place = (AttrInts){true, count, ints}; break;
    case ATTR_FIELD_FLOAT:
    case ATTR_FIELD_FLOATS: *(AttrFloats *)place = (AttrFloats){true, count, floats}; break;
    case ATTR_FIELD_TEXT:
        *(AttrText *)place = (AttrText){true, (uint32_t)strlen(value), value};
        break;
    case ATTR_FIELD_CHOICE:
        *(int64_t *)place = -1;
        for (int64_t i = 0; field->choices[i]; i++)
            if (!strcmp(field->choices[i], value)) *(int64_t *)place = i;
        break;
    case ATTR_FIELD_TEXTS: *(AttrTexts *)place = (AttrTexts){true, count, NULL}; break;
    case ATTR_FIELD_TENSOR: {
        const ShapeOperand operand = case_operand(arena, value);
        ((AttrTensor *)place)->shape = arena_copy(arena, &operand, sizeof operand);
        break;
    }
    case ATTR_FIELD_REAL:
    case ATTR_FIELD_VALUES: fail_msg("%s: no shape depends on such an attribute", field->name);
    }
}

static void *case_attrs(Arena *arena, const ShapeRow *row, const ShapeCase *test) {
    char *attrs = attr_layout_new(row->layout, arena);
    char *copy = arena_copy(arena, test->attrs, strlen(test->attrs));
    while (*copy) {
        char *end = copy + strcspn(copy, ";"), *value = strchr(copy, '=');
        char *next = *end ? end + 1 : end;
        *end = *value = 0;
        const AttrField *field = row->layout->fields;
        while (field->name && strcmp(field->name, copy)) field++;
        if (!field->name) fail_msg("%s has no attribute %s", test->name, copy);
        case_fill(arena, attrs + field->offset, field, value + 1);
        copy = next;
    }
    return attrs;
}

static bool case_same_num(ShapeNum a, ShapeNum b) {
    return a.kind == b.kind && (a.kind == SHAPE_UNKNOWN || shape_num_same(a, b));
}

static bool case_matches(const ShapeOperand *got, const ShapeOperand *want) {
    if (!want->present) return true;
    if (got->has_rank != want->has_rank || got->wrapped != want->wrapped) return false;
    if (!want->has_rank) return true;
    if (got->rank != want->rank) return false;
    for (uint32_t i = 0; i < got->rank; i++)
        if (!case_same_num(got->dims[i], want->dims[i])) return false;
    if (!want->items) return true;
    if (!got->items || got->item_count != want->item_count || got->dtype != want->dtype)
        return false;
    for (uint32_t i = 0; i < got->item_count; i++)
        if (!case_same_num(got->items[i], want->items[i])) return false;
    return true;
}

static void case_check(Arena *arena, const ShapeCase *test) {
    ShapeOperand inputs[CASE_MOST], want[CASE_MOST], outputs[CASE_MOST];
    const char *colon = strchr(test->name, ':');
    char *domain = arena_copy(arena, test->name, colon ? (size_t)(colon - test->name) : 0);
    const ShapeRow *row = shape_find(domain, colon ? colon + 1 : test->name, test->opset);
    if (!row) fail_msg("no row for %s", test->name);
    bool invalid = test->outputs[0] == '!';
    uint32_t input_count = case_operands(arena, test->inputs, inputs);
    uint32_t output_count = case_operands(arena, test->outputs, want);
    for (uint32_t i = 0; i < output_count; i++) outputs[i] = (ShapeOperand){.present = true};
    ShapeCall call = {.arena = arena,
                      .attrs = case_attrs(arena, row, test),
                      .inputs = inputs,
                      .outputs = outputs,
                      .input_count = input_count,
                      .output_count = output_count};
    bool valid = shape_infer(row, &call);
    if (valid == invalid)
        fail_msg("%s {%s} (%s): %s %s", test->name, test->attrs, test->inputs,
                 valid ? "should be invalid" : "invalid:", valid ? "" : call.reason);
    for (uint32_t i = 0; valid && i < output_count; i++) {
        if (case_matches(&outputs[i], &want[i])) continue;
        fprintf(stderr, "got rank %d:", outputs[i].has_rank ? (int)outputs[i].rank : -1);
        for (uint32_t k = 0; outputs[i].has_rank && k < outputs[i].rank; k++)
            fprintf(stderr, " %d/%lld", (int)outputs[i].dims[k].kind,
                    (long long)outputs[i].dims[k].value);
        fail_msg("%s {%s} (%s): output %u is not %s", test->name, test->attrs, test->inputs, i,
                 test->outputs);
    }
}

/* Runs all cases; fails at the first that differs. */
static inline void case_run(const ShapeCase *cases, size_t count) {
    for (size_t i = 0; i < count; i++) case_check(&test_arena, &cases[i]);
}

#define CASE_RUN(cases) case_run(cases, sizeof(cases) / sizeof *(cases))

#endif
