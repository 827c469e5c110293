// SPDX-License-Identifier: Apache-2.0
/* Is every step between two versions of every operator of the default domain accounted for? Walks
 * all published schemas: a step either keeps the node's form and types, or has rows, and the rows
 * speak of attributes and operands that the two versions have. */
#include <stdio.h>
#include <string.h>

#include "least_opset.h"
#include "opset_steps.h"
#include "text.h"
#include "unit_test.h"

/* Calls check with each version and the one before it; returns how many steps there are. */
static size_t each_step(void (*check)(const OpSchema *older, const OpSchema *newer)) {
    size_t steps = 0;
    for (size_t i = 1; i < ops_count(); i++) {
        const OpSchema *older = ops_at(i - 1), *newer = ops_at(i);
        if (newer->domain[0] || strcmp(older->domain, newer->domain) ||
            strcmp(older->name, newer->name))
            continue;
        check(older, newer);
        steps++;
    }
    return steps;
}

static void check_is_known(const OpSchema *older, const OpSchema *newer) {
    size_t count;
    opset_step_rows(newer->name, newer->since, &count);
    bool kept = opset_step_keeps_form(older, newer) && opset_step_keeps_types(older, newer);
    if (!kept && count == 0)
        fail_msg("%s %d -> %d is neither compatible nor a row", newer->name, (int)older->since,
                 (int)newer->since);
}

TEST(test_every_step_is_known) {
    assert_true(each_step(check_is_known) > 400);
}

static bool row_takes(const OpsetStep *row, const char *attr) {
    bool takes = row->kind == STEP_DROP || row->kind == STEP_ONLY_INT || row->kind == STEP_RENAME ||
                 row->kind == STEP_INTS_INPUT || row->kind == STEP_FLOATS_INPUT ||
                 row->kind == STEP_INT_INPUT;
    return row->kind == STEP_CODE || row->kind == STEP_OPERATOR || row->kind == STEP_REFUSE ||
           (takes && strcmp(row->attr, attr) == 0);
}

/* Every attribute that the newer version lacks, or has of another type, is dealt with. */
static void check_attributes(const OpSchema *older, const OpSchema *newer) {
    size_t count;
    const OpsetStep *rows = opset_step_rows(newer->name, newer->since, &count);
    for (uint8_t i = 0; i < older->attr_count; i++) {
        const OpAttr *attr = &older->attrs[i], *still = op_schema_attr(newer, attr->name);
        bool taken = still && still->type == attr->type;
        for (size_t k = 0; k < count; k++) taken |= row_takes(&rows[k], attr->name);
        if (!taken)
            fail_msg("%s -> %d: nothing becomes of '%s'", newer->name, (int)newer->since,
                     attr->name);
    }
}

TEST(test_no_attribute_is_left) {
    each_step(check_attributes);
}

static void check_row(const char *op, const OpsetStep *row) {
    const OpSchema *newer = ops_find("", op, row->to);
    const OpSchema *older = ops_find("", op, row->to - 1);
    if (!older || !newer || newer->since != row->to)
        fail_msg("%s has no step to %d", op, (int)row->to);
    if (row->attr && !op_schema_attr(older, row->attr) && !op_schema_attr(newer, row->attr))
        fail_msg("%s %d has no '%s'", op, (int)row->to, row->attr);
    bool input = row->kind == STEP_INTS_INPUT || row->kind == STEP_FLOATS_INPUT ||
                 row->kind == STEP_INT_INPUT;
    if (!input) return;
    const OpParam *param = op_schema_input(newer, (size_t)row->input);
    const OpParam *before = op_schema_input(older, (size_t)row->input);
    if (!param || before) fail_msg("%s %d: no new input %d", op, (int)row->to, (int)row->input);
    Dtype dtype = row->kind == STEP_FLOATS_INPUT ? DTYPE_FLOAT : DTYPE_INT64;
    if (!type_set_has(op_param_types(newer, param), OPTYPE_TENSOR, dtype))
        fail_msg("%s %d: input %d has another type", op, (int)row->to, (int)row->input);
}

TEST(test_rows_speak_of_what_exists) {
    for (int op = OP_NONE; op < OP_ID_COUNT; op++) {
        size_t count;
        const OpsetStep *rows = opset_steps((OpId)op, &count);
        if (count) assert_string_equal(op_domain((OpId)op), "");
        for (size_t i = 0; i < count; i++) check_row(op_name((OpId)op), &rows[i]);
        for (size_t i = 1; i < count; i++) assert_true(rows[i - 1].to <= rows[i].to);
    }
}

/* Steps whose form stays and whose meaning does not; only the definitions' prose tells. */
TEST(test_changes_of_meaning) {
    static const struct {
        const char *op;
        int to;
    } steps[] = {{"PRelu", 7}, {"OneHot", 11}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        size_t count;
        const OpsetStep *rows = opset_step_rows(steps[i].op, steps[i].to, &count);
        assert_int_equal(count, 1);
        assert_int_equal(rows->kind, STEP_CODE);
    }
}

TEST(test_unchanged_step_has_no_rows) {
    size_t count = 7;
    assert_null(opset_step_rows("Relu", 13, &count));
    assert_int_equal(count, 0);
}

/* ---- least opset ----------------------------------------------------------------------------- */

/* keep: a PATTERN of nodes that do not count, or NULL */
static int64_t least_of(const char *text, Dtype target, const char *keep) {
    Err err = {0};
    Model *model = text_parse_model(text, strlen(text), &test_trap, &err);
    if (!model) fail_msg("%s", err.what);
    Arena scratch;
    arena_init(&scratch, &test_trap);
    NodeChoice choice = {.keep = {&keep, keep ? 1 : 0}};
    ChosenNodes chosen;
    if (!node_choice_resolve(&choice, model, target, &scratch, &chosen, &err))
        fail_msg("%s", err.what);
    int64_t least = least_opset_for(model, target, &chosen, &scratch);
    arena_free(&scratch);
    model_free(model);
    return least;
}

TEST(test_least_opset) {
    static const char conv[] = "<ir_version: 8, opset_import: [\"\" : 9]>\n"
                               "g (float[1,1,3,3] x, float[1,1,1,1] w) => (float y) "
                               "{ y = Conv(x, w) }\n";
    static const char matmul[] = "<ir_version: 8, opset_import: [\"\" : 9]>\n"
                                 "g (float[3,3] x) => (float y) "
                                 "{ z = MatMul(x, x)  y = Elu(z) }\n";
    static const char doubles[] = "<ir_version: 8, opset_import: [\"\" : 9]>\n"
                                  "g (double[3,3] x) => (double y) { y = MatMul(x, x) }\n";
    assert_int_equal(least_of(conv, DTYPE_BFLOAT16, NULL), 22);
    assert_int_equal(least_of(conv, DTYPE_FLOAT16, NULL), 0);
    assert_int_equal(least_of(conv, DTYPE_BFLOAT16, "y"), 0);
    assert_int_equal(least_of(matmul, DTYPE_BFLOAT16, NULL), 13);
    assert_int_equal(least_of(doubles, DTYPE_BFLOAT16, NULL), 13); /* it is converted, too */
}
