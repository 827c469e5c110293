// SPDX-License-Identifier: Apache-2.0
/* Proves over all schemas that every output's type is determined, that the hand-kept rows agree
 * with the generated schemas (operators, attributes, variables, types), and that no attribute which
 * holds an element type, a tensor or a graph was forgotten. */
#include "op_facts.h"

#include <stdio.h>
#include <string.h>

#include "op_id.h"
#include "unit_test.h"

#define NOW           INT32_MAX
#define LENGTH(array) (sizeof(array) / sizeof *(array))

#define OUTPUT(since, until, ...) ROW(since, until)
#define OP_TABLE_TYPE             OpRange
#define OP_TABLE                  output_ranges
#include "op_table.inc"

#define COMPUTE_ATTR(since, until, ...) ROW(since, until)
#define OP_TABLE_TYPE                   OpRange
#define OP_TABLE                        compute_ranges
#include "op_table.inc"

#define TENSOR_ATTR(since, until, ...) ROW(since, until)
#define OP_TABLE_TYPE                  OpRange
#define OP_TABLE                       tensor_ranges
#include "op_table.inc"

#define TIE(since, until, ...) ROW(since, until)
#define OP_TABLE_TYPE          OpRange
#define OP_TABLE               tie_ranges
#include "op_table.inc"

#define REFUSAL(since, until, ...) ROW(since, until)
#define OP_TABLE_TYPE              OpRange
#define OP_TABLE                   refusal_ranges
#include "op_table.inc"

#define BODY(since, until, ...) ROW(since, until)
#define OP_TABLE_TYPE           OpRange
#define OP_TABLE                body_ranges
#include "op_table.inc"

#define FLAGS(since, until, ...) ROW(since, until)
#define OP_TABLE_TYPE            OpRange
#define OP_TABLE                 flag_ranges
#include "op_table.inc"

static const OpSchema *op(const char *name, int64_t opset) {
    const OpSchema *schema = ops_find("", name, opset);
    assert_non_null(schema);
    return schema;
}

/* ---- the rows themselves --------------------------------------------------------------------- */

/* Each range begins at a version and is not empty: the search relies on both. Within an operator a
 * range never ends before the one before it, so that those of a version adjoin. */
static void check_ranges(const OpRange *table, const OpSpan *spans) {
    for (int i = OP_NONE; i < OP_ID_COUNT; i++) {
        const char *domain = op_domain((OpId)i), *name = op_name((OpId)i);
        const OpRange *ranges = &table[spans[i].first];
        for (size_t k = 0; k < spans[i].count; k++) {
            const OpRange *r = &ranges[k];
            const OpSchema *first = ops_find(domain, name, r->since);
            if (!first || first->since != r->since) fail_msg("%s: no version %d", name, r->since);
            if (r->until < r->since) fail_msg("%s: empty range", name);
            if (k && (r[-1].since > r->since || r[-1].until > r->until))
                fail_msg("%s: versions not in order", name);
        }
    }
}

TEST(test_ranges) {
    check_ranges(output_ranges, output_ranges_of);
    check_ranges(compute_ranges, compute_ranges_of);
    check_ranges(tensor_ranges, tensor_ranges_of);
    check_ranges(tie_ranges, tie_ranges_of);
    check_ranges(refusal_ranges, refusal_ranges_of);
    check_ranges(body_ranges, body_ranges_of);
    check_ranges(flag_ranges, flag_ranges_of);
}

/* ---- every output is determined -------------------------------------------------------------- */

/* Steps 1 to 3 of op_facts.h: true where they always give the type of this formal output. */
static bool is_bound(const OpSchema *schema, const OpParam *output) {
    if (type_set_count(op_param_types(schema, output)) == 1) return true;
    if (!output->homogeneous) return false;
    for (size_t i = 0; i < schema->input_count; i++) {
        const OpParam *input = &schema->inputs[i];
        if (input->var == output->var && input->homogeneous && op_param_is_required(input))
            return true;
    }
    return false;
}

/* True where the rule always applies: nothing comes after it. */
static bool is_final(const OpSchema *schema, const OpOutputRule *rule) {
    const OpAttr *attr = rule->attr ? op_schema_attr(schema, rule->attr) : NULL;
    switch ((OpFrom)rule->from) {
    case OP_FROM_INPUT: return op_schema_input_is_required(schema, rule->input);
    case OP_FROM_DTYPE_ATTR:
        return attr && (attr->required || (attr->has_default && attr->value.i != 0));
    case OP_FROM_TENSOR_ATTR:
    case OP_FROM_TYPE_ATTR:
    case OP_FROM_BODY: return attr && attr->required;
    case OP_FROM_ATTR_PRESENCE:
    case OP_FROM_ATTR_TEXT:
    case OP_FROM_INPUT_DTYPE: return false;
    case OP_FROM_DEFAULT:
    case OP_FROM_SAME_PLACE:
    case OP_FROM_GROUPS:
    case OP_FROM_NOWHERE: return true;
    }
    return false;
}

TEST(test_every_output_is_determined) {
    size_t by_rule = 0, undetermined = 0;
    for (size_t s = 0; s < ops_count(); s++) {
        const OpSchema *schema = ops_at(s);
        for (size_t o = 0; o < schema->output_count; o++) {
            if (is_bound(schema, &schema->outputs[o])) continue;
            size_t count;
            const OpOutputRule *rules = op_output_rules(schema, o, &count);
            by_rule++;
            if (count && is_final(schema, &rules[count - 1])) continue;
            print_message("%s %s %d: output %s\n", schema->domain, schema->name, schema->since,
                          schema->outputs[o].name);
            undetermined++;
        }
    }
    assert_int_equal(undetermined, 0);
    /* So many outputs have no required input of their variable: were it 0, this would prove
     * nothing. */
    assert_int_equal(by_rule, 124);
}

/* ---- the rules fit the schemas --------------------------------------------------------------- */

static bool attr_fits(const OpAttr *attr, OpFrom from) {
    switch (from) {
    case OP_FROM_DTYPE_ATTR: return attr->type == ATTR_INT || attr->type == ATTR_STRING;
    case OP_FROM_TENSOR_ATTR: return attr->type == ATTR_TENSOR || attr->type == ATTR_SPARSE_TENSOR;
    case OP_FROM_TYPE_ATTR: return attr->type == ATTR_TYPE;
    case OP_FROM_ATTR_PRESENCE: return !attr->has_default;
    case OP_FROM_ATTR_TEXT: return attr->type == ATTR_STRING;
    case OP_FROM_BODY: return attr->type == ATTR_GRAPH;
    case OP_FROM_INPUT:
    case OP_FROM_INPUT_DTYPE:
    case OP_FROM_DEFAULT:
    case OP_FROM_SAME_PLACE:
    case OP_FROM_GROUPS:
    case OP_FROM_NOWHERE: return false;
    }
    return false;
}

/* Every type the input may have becomes one that the output may have, where the rule decides: so
 * for ties, and for outputs with an attribute for the rest (x to a float type may be outside). */
static void check_wrap(const OpSchema *schema, const OpOutputRule *rule) {
    const OpParam *input = op_schema_input(schema, rule->input);
    assert_non_null(input);
    const TypeSet *in = op_param_types(schema, input);
    const TypeSet *out = op_param_types(schema, op_schema_output(schema, rule->output));
    size_t fitting = 0;
    for (unsigned k = 0; k < OPTYPE_COUNT; k++)
        for (unsigned d = 0; d < DTYPE_COUNT; d++) {
            OpType type = {(OpTypeKind)k, (Dtype)d};
            if (!type_set_holds(in, type)) continue;
            assert_true(op_type_wrap((OpWrap)rule->wrap, type, &type));
            fitting += type_set_holds(out, type);
        }
    assert_true(fitting > 0);
}

static void check_rule(const OpSchema *schema, const OpOutputRule *rule) {
    const TypeSet *out = op_param_types(schema, op_schema_output(schema, rule->output));
    assert_true(rule->since <= schema->since && schema->since <= rule->until);
    if (rule->attr) {
        const OpAttr *attr = op_schema_attr(schema, rule->attr);
        if (!attr) fail_msg("%s %d: no attribute %s", schema->name, schema->since, rule->attr);
        if (!attr_fits(attr, (OpFrom)rule->from))
            fail_msg("%s %d: attribute %s is of another type", schema->name, schema->since,
                     rule->attr);
    }
    if (rule->from == OP_FROM_INPUT) check_wrap(schema, rule);
    if (rule->from == OP_FROM_BODY) assert_non_null(op_body_slots(schema, rule->attr));
    if (!rule->dtype) return;
    OpType type = {OPTYPE_TENSOR, (Dtype)rule->dtype};
    assert_true(op_type_wrap((OpWrap)rule->wrap, type, &type));
    if (!type_set_holds(out, type))
        fail_msg("%s %d: cannot give %s", schema->name, schema->since, dtype_name(type.dtype));
}

TEST(test_rules_fit_schemas) {
    for (size_t s = 0; s < ops_count(); s++) {
        const OpSchema *schema = ops_at(s);
        for (size_t o = 0; o < 8; o++) {
            size_t count;
            const OpOutputRule *rules = op_output_rules(schema, o, &count);
            if (!count) continue;
            if (o >= schema->output_count || is_bound(schema, &schema->outputs[o]))
                fail_msg("%s %d: a rule for nothing", schema->name, schema->since);
            for (size_t i = 0; i < count; i++) check_rule(schema, &rules[i]);
            for (size_t i = 0; i + 1 < count; i++)
                if (is_final(schema, &rules[i]))
                    fail_msg("%s %d: a rule that is never reached", schema->name, schema->since);
        }
    }
}

/* ---- nothing was forgotten ------------------------------------------------------------------- */

TEST(test_no_attribute_forgotten) {
    static const char *const speaking[] = {"dtype", "datatype", "precision", "stash"};
    for (size_t s = 0; s < ops_count(); s++) {
        const OpSchema *schema = ops_at(s);
        for (size_t a = 0; a < schema->attr_count; a++) {
            const OpAttr *attr = &schema->attrs[a];
            bool dtype = strcmp(attr->name, "to") == 0;
            for (size_t i = 0; i < LENGTH(speaking); i++)
                dtype = dtype || strstr(attr->name, speaking[i]);
            bool role = op_attr_role(schema, attr->name) != OP_ATTR_PLAIN;
            bool tensor = attr->type == ATTR_TENSOR || attr->type == ATTR_SPARSE_TENSOR;
            if ((dtype || attr->type == ATTR_TYPE) && !role)
                fail_msg("%s %d: attribute %s", schema->name, schema->since, attr->name);
            if ((attr->type == ATTR_GRAPH) != (op_body_slots(schema, attr->name) != NULL))
                fail_msg("%s %d: graph %s", schema->name, schema->since, attr->name);
            bool listed =
                strstr(attr->name, "_as_tensor") || strcmp(attr->name, "nodes_modes") == 0;
            if (tensor && !listed && !op_tensor_attr_var(schema, attr->name))
                fail_msg("%s %d: tensor %s", schema->name, schema->since, attr->name);
            if (!tensor) assert_null(op_tensor_attr_var(schema, attr->name));
        }
    }
}

TEST(test_ties_and_refusals) {
    size_t count;
    for (size_t s = 0; s < ops_count(); s++) {
        const OpSchema *schema = ops_at(s);
        const OpTie *ties = op_ties(schema, &count);
        for (size_t i = 0; i < count; i++) {
            assert_non_null(op_schema_var(schema, ties[i].a));
            assert_non_null(op_schema_var(schema, ties[i].b));
            if (ties[i].unless_input < 0) continue;
            const OpParam *input = op_schema_input(schema, (size_t)ties[i].unless_input);
            assert_int_equal(input->option, OP_OPTIONAL);
        }
    }
    const OpTie *tie = op_ties(op("LinearAttention", 27), &count);
    assert_int_equal(count, 1);
    assert_string_equal(op("LinearAttention", 27)->inputs[tie->unless_input].name, "past_state");
    assert_int_equal(op_ties(op("Attention", 28), &count)->why, OP_TIE_BODY);
    assert_null(op_ties(op("MatMul", 13), &count));
    assert_int_equal(count, 0);
    const OpSchema *mvn = op("MeanVarianceNormalization", 13);
    assert_non_null(op_refusal(mvn, "T", DTYPE_BFLOAT16));
    assert_null(op_refusal(mvn, "T", DTYPE_FLOAT));
    assert_null(op_refusal(mvn, "U", DTYPE_FLOAT16));
    assert_null(op_refusal(mvn, "T", (Dtype)99));
    assert_null(op_refusal(op("MatMul", 13), "T", DTYPE_FLOAT16));
}

/* ---- spot checks ----------------------------------------------------------------------------- */

TEST(test_output_rules) {
    size_t count;
    const OpOutputRule *rule = op_output_rules(op("DequantizeLinear", 23), 0, &count);
    assert_int_equal(count, 2);
    assert_int_equal(rule[0].from, OP_FROM_DTYPE_ATTR);
    assert_int_equal(rule[1].input, 1);
    assert_null(op_output_rules(op("DequantizeLinear", 21), 0, &count));
    assert_null(op_output_rules(op("LayerNormalization", 17), 0, &count));
    assert_non_null(op_output_rules(op("LayerNormalization", 17), 2, &count));
    assert_int_equal(op_output_rules(op("ConstantOfShape", 9), 0, &count)[1].dtype, DTYPE_FLOAT);
    assert_int_equal(op_output_rules(op("QuantizeLinear", 13), 0, &count)->dtype, DTYPE_UINT8);
    assert_int_equal(count, 1);
    op_output_rules(op("QuantizeLinear", 21), 0, &count);
    assert_int_equal(count, 2);
    assert_string_equal(op_output_rewritable(op("Constant", 13), 0)->attr, "value");
    assert_string_equal(op_output_rewritable(op("EyeLike", 9), 0)->attr, "dtype");
    assert_string_equal(op_output_rewritable(op("Optional", 15), 0)->attr, "type");
    assert_null(op_output_rewritable(op("QuantizeLinear", 21), 0));
    assert_null(op_output_rewritable(op("BitCast", 26), 0));
    assert_null(op_output_rewritable(op("LayerNormalization", 17), 1));
    assert_null(op_output_rewritable(op("Conv", 13), 0));
}

TEST(test_attr_roles) {
    assert_int_equal(op_attr_role(op("Cast", 13), "to"), OP_ATTR_OUTPUT);
    assert_int_equal(op_attr_role(op("Cast", 19), "saturate"), OP_ATTR_PLAIN);
    assert_int_equal(op_attr_role(op("BitCast", 26), "to"), OP_ATTR_OUTPUT_FIXED);
    assert_int_equal(op_attr_role(op("LayerNormalization", 17), "stash_type"),
                     OP_ATTR_OUTPUT_FIXED);
    assert_int_equal(op_attr_role(op("GroupNormalization", 21), "stash_type"), OP_ATTR_COMPUTE);
    assert_int_equal(op_attr_role(op("Constant", 13), "value_float"), OP_ATTR_OUTPUT);
    assert_int_equal(op_attr_role(op("Constant", 13), "value_int"), OP_ATTR_OUTPUT_FIXED);
    assert_int_equal(op_attr_role(op("Multinomial", 7), "dtype"), OP_ATTR_OUTPUT_FIXED);
    assert_string_equal(op_tensor_attr_var(op("ConstantOfShape", 9), "value")->name, "T2");
    assert_null(op_tensor_attr_var(op("Constant", 9), "sparse_value"));
    assert_string_equal(op_tensor_attr_var(op("Constant", 11), "sparse_value")->name, "T");
}

TEST(test_bodies) {
    const OpBodySlots *loop = op_body_slots(op("Loop", 13), "body");
    assert_int_equal(op_body_state_count(loop, 5, 0), 3);
    assert_int_equal(op_body_state_count(loop, 2, 0), 0);
    assert_int_equal(op_body_state_count(loop, 1, 0), 0);
    assert_int_equal(loop->leading_in[1], DTYPE_BOOL);
    const OpBodySlots *scan8 = op_body_slots(op("Scan", 8), "body");
    const OpBodySlots *scan9 = op_body_slots(op("Scan", 9), "body");
    assert_int_equal(op_body_state_count(scan8, 4, 1), 2);
    assert_int_equal(op_body_state_count(scan9, 4, 1), 3);
    assert_int_equal(op_body_state_count(scan9, 4, 4), 0);
    assert_int_equal(op_body_state_count(scan9, 4, 5), 0);
    assert_int_equal(op_body_state_count(scan9, 4, INT64_MIN), 0);
    assert_int_equal(op_body_state_count(scan9, 4, INT64_MAX), 0);
    assert_int_equal(op_body_state_count(op_body_slots(op("If", 1), "then_branch"), 1, 0), 0);
    assert_null(op_body_slots(op("Loop", 13), "then_branch"));
    assert_null(op_body_slots(op("Conv", 13), "body"));
}

TEST(test_flags) {
    for (size_t s = 0; s < ops_count(); s++) {
        const OpSchema *schema = ops_at(s);
        const OpFlags *row = op_flags(schema);
        if (!row) continue;
        if (row->unless_attr && !op_schema_attr(schema, row->unless_attr))
            fail_msg("%s %d: no attribute %s", schema->name, schema->since, row->unless_attr);
        assert_int_equal(row->flags & OP_MOVES, row->moved ? OP_MOVES : 0);
        unsigned counts = row->flags & (OP_KEEPS_COUNT | OP_SHRINKS | OP_GROWS);
        if (counts) assert_true((row->flags & OP_MOVES) && (counts & (counts - 1)) == 0);
        for (size_t i = 0; i < 8; i++)
            if (row->moved >> i & 1) assert_true(i < schema->input_count);
    }
    assert_true(op_has_flags(op("Reshape", 5), OP_MOVES | OP_KEEPS_COUNT));
    assert_true(op_has_flags(op("Slice", 13), OP_MOVES | OP_SHRINKS));
    assert_true(op_has_flags(op("Expand", 13), OP_MOVES | OP_GROWS));
    assert_false(op_has_flags(op("Conv", 13), OP_MOVES));
    assert_true(op_has_flags(op("RandomNormalLike", 22), OP_SHAPE_ONLY));
    assert_int_equal(op_flags(op("Where", 16))->moved, 6);
    assert_null(op_flags(op("ScatterND", 13))->unless_attr);
    assert_string_equal(op_flags(op("ScatterND", 16))->unless_attr, "reduction");
    assert_null(op_flags(op("Dropout", 13)));
}

TEST(test_wrap) {
    OpType out = {OPTYPE_COUNT, DTYPE_UNDEFINED};
    const OpType tensor = {OPTYPE_TENSOR, DTYPE_FLOAT16}, seq = {OPTYPE_SEQ, DTYPE_FLOAT};
    const OpType map = {OPTYPE_MAP_STRING, DTYPE_DOUBLE};
    assert_true(op_type_wrap(OP_WRAP_SEQ, tensor, &out) && out.kind == OPTYPE_SEQ);
    assert_int_equal(out.dtype, DTYPE_FLOAT16);
    assert_true(op_type_wrap(OP_WRAP_OPTIONAL, seq, &out) && out.kind == OPTYPE_OPTIONAL_SEQ);
    assert_true(op_type_wrap(OP_WRAP_CONTENT, out, &out) && out.kind == OPTYPE_SEQ);
    assert_true(op_type_wrap(OP_WRAP_ELEMENT, seq, &out) && out.kind == OPTYPE_TENSOR);
    assert_true(op_type_wrap(OP_WRAP_TENSOR, map, &out) && out.dtype == DTYPE_DOUBLE);
    assert_false(op_type_wrap(OP_WRAP_OPTIONAL, map, &out));
    assert_false(op_type_wrap(OP_WRAP_ELEMENT, map, &out));
    assert_int_equal(out.kind, OPTYPE_TENSOR);
}
