// SPDX-License-Identifier: Apache-2.0
/* The rows of operators.def: sorted as the searches need, each one found, words that go together.
 * That every operator has them is operators_test.c's matter. */
#include "op_record.h"

#include <string.h>

#include "unit_test.h"

typedef struct RowName {
    const char *domain, *name;
} RowName;

static const RowName inputs[] = {
#define INPUT(domain, name, ...) {domain, name},
#include "operators.def"
};
static const RowName keeps[] = {
#define KEEP(domain, name, ...) {domain, name},
#include "operators.def"
};
static const RowName forms[] = {
#define FORM(domain, name, ...) {domain, name},
#include "operators.def"
};

static int compare(const RowName *a, const RowName *b) {
    int order = strcmp(a->domain, b->domain);
    return order ? order : strcmp(a->name, b->name);
}

TEST(test_records) {
    for (size_t i = 0; i < op_record_count(); i++) {
        const OpRecord *record = op_record_at(i);
        assert_int_equal(op_record_place(record), i);
        if (i && compare(&(RowName){record[-1].domain, record[-1].name},
                         &(RowName){record->domain, record->name}) >= 0)
            fail_msg("%s does not stand behind %s", record->name, record[-1].name);
        if (op_record_find(record->domain, record->name) != record)
            fail_msg("%s is not found", record->name);
        if ((record->asks != 0) != (record->asks_for != NULL))
            fail_msg("%s asks for nothing", record->name);
        bool floats = record->classes[0] != CLASS_NONE;
        for (int policy = 0; policy < POLICY_COUNT; policy++)
            if ((record->classes[policy] != CLASS_NONE) != floats)
                fail_msg("%s has a class by some policies only", record->name);
        if (!floats && (record->unless || record->magnitude || record->exact || record->asks))
            fail_msg("%s takes no floats, of which it says something", record->name);
    }
    assert_null(op_record_find("", "NoSuchOperator"));
    assert_null(op_record_find("", ""));
    assert_null(op_record_find("other", "Conv"));
}

/* Rows of operands are in order, and of operators that have a record. */
static void check_rows(const RowName *rows, size_t count, const char *kind) {
    for (size_t i = 0; i < count; i++) {
        if (i && compare(&rows[i - 1], &rows[i]) > 0)
            fail_msg("%s of %s stands before %s's", kind, rows[i].name, rows[i - 1].name);
        if (!op_record_find(rows[i].domain, rows[i].name))
            fail_msg("%s of %s, which has no record", kind, rows[i].name);
    }
}

TEST(test_rows) {
    check_rows(inputs, sizeof inputs / sizeof *inputs, "INPUT");
    check_rows(keeps, sizeof keeps / sizeof *keeps, "KEEP");
    check_rows(forms, sizeof forms / sizeof *forms, "FORM");
}

TEST(test_lookup) {
    size_t count;
    const OpInput *slice = op_inputs_find("", "Slice", &count);
    assert_int_equal(count, 4);
    for (uint32_t i = 0; i < count; i++) assert_int_equal(slice[i].operand, 1 + i);
    assert_null(op_inputs_find("demi.fused", "Conv", &count));
    assert_int_equal(count, 0);
    const OpKeep *keep = op_keeps_find("", "BatchNormalization", &count);
    assert_int_equal(count, 3);
    assert_string_equal(keep->var, "U");
    assert_string_equal(op_form_find("", "Gemm")->fused, "MatMul");
    assert_null(op_form_find("demi.fused", "MatMul"));
    const OpRecord *where = op_record_find("", "Where"), *concat = op_record_find("", "Concat");
    assert_false(op_record_gives(where, 0));
    assert_true(op_record_gives(where, 2));
    assert_true(op_record_gives(concat, 1000));
    assert_false(op_record_gives(where, 1000));
    assert_false(op_record_gives(NULL, 0));
    assert_false(op_record_has(NULL, OP_RANDOM));
    assert_true(op_record_has(op_record_find("", "Bernoulli"), OP_RANDOM));
    assert_true(op_record_has(op_record_find("", "Gather"), OP_SELECTS | OP_TAKES_ROWS));
    assert_false(op_record_has(op_record_find("", "Slice"), OP_SELECTS | OP_TAKES_ROWS));
    assert_true(op_record_has(op_record_find("", "BitCast"), OP_BITS));
    assert_false(op_record_has(op_record_find("", "Cast"), OP_BITS));
}
