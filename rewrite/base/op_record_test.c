// SPDX-License-Identifier: Apache-2.0
/* Operators' numbers and records: sorted as the search needs, each one found, words that go together.
 * That every operator has them is operators_test.c's matter. */
#include "op_record.h"

#include <string.h>

#include "unit_test.h"

/* The list that the build sorts is sorted as the search needs. */
TEST(test_ids) {
    for (int i = OP_NONE + 1; i < OP_ID_COUNT; i++) {
        const OpId op = (OpId)i, before = (OpId)(i - 1);
        int order = strcmp(op_domain(before), op_domain(op));
        if (!order) order = strcmp(op_name(before), op_name(op));
        if (order >= 0) fail_msg("%s does not stand behind %s", op_name(op), op_name(before));
        assert_int_equal(op_id(op_domain(op), op_name(op)), op);
    }
    assert_int_equal(op_id("", "NoSuchOperator"), OP_NONE);
    assert_int_equal(op_id("", ""), OP_NONE);
    assert_int_equal(op_id("other", "Conv"), OP_NONE);
}

TEST(test_records) {
    for (size_t i = 0; i < op_record_count(); i++) {
        const OpRecord *record = op_record_at(i);
        assert_int_equal(op_record_place(record), i);
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
