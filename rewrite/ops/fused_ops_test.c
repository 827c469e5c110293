// SPDX-License-Identifier: Apache-2.0
/* The fused operators' table: sorted, complete, found like the published ones. */
#include <string.h>

#include "fused_ops.h"
#include "op_facts.h"
#include "shape.h"
#include "unit_test.h"

TEST(test_rows) {
    for (size_t i = 0; i < fused_ops_count(); i++) {
        const OpSchema *op = fused_ops_at(i);
        if (i) assert_true(strcmp(op[-1].name, op->name) < 0);
        for (size_t k = 1; k < op->attr_count; k++)
            assert_true(strcmp(op->attrs[k - 1].name, op->attrs[k].name) < 0);
        for (size_t k = 0; k < op->input_count; k++) assert_int_equal(op->inputs[k].var, k);
        for (size_t k = 0; k < op->output_count; k++)
            assert_int_equal(op->outputs[k].var, op->input_count + k);
        const OpAttr *to = op_schema_attr(op, "to");
        assert_non_null(to);
        assert_false(to->has_default);
    }
}

TEST(test_found) {
    for (size_t i = 0; i < fused_ops_count(); i++) {
        const OpSchema *op = fused_ops_at(i);
        assert_ptr_equal(ops_find(FUSED_DOMAIN, op->name, 1), op);
        assert_true(ops_exists(FUSED_DOMAIN, op->name));
        assert_non_null(shape_find(FUSED_DOMAIN, op->name, 1));
        assert_null(ops_find("", op->name, 0));
        for (size_t o = 0; o < op->output_count; o++) {
            size_t count;
            const OpOutputRule *rules = op_output_rules(op, o, &count);
            assert_true(count && rules[count - 1].from == OP_FROM_INPUT);
        }
    }
    assert_null(ops_find(FUSED_DOMAIN, "Con", 1));
    assert_null(ops_find(FUSED_DOMAIN, "Conv", 0));
    assert_false(ops_exists(FUSED_DOMAIN, "Relu"));
    assert_int_equal(ops_latest_opset(FUSED_DOMAIN), FUSED_OPSET);
    assert_string_equal(ops_nearest_name(FUSED_DOMAIN, "LayerNormalization"), "LayerNormalization");
}
