// SPDX-License-Identifier: Apache-2.0
/* Is every operator in every table that it needs a row in? Names each that is not, with the table
 * and what to write there; all of them, before it fails. What a row says is for the tests of its
 * own table. CONTRIBUTING's "Add an operator" goes by this.
 *
 * It sees the runtime and the kernels, which other code of this folder must not. */
#include <stdio.h>
#include <string.h>

#include "exec.h"
#include "fused_ops.h"
#include "kernel.h"
#include "op_facts.h"
#include "op_record.h"
#include "opset_steps.h"
#include "shape.h"
#include "unit_test.h"

#define FORMULAS DEMI_TESTDATA "/../tools/suites/suite/faithful_formulas.py"

/* Operators that do not run as steps of a plan. */
static const struct NoKernel {
    const char *domain, *name, *why;
} no_kernels[] = {
    {"", "Constant", "a plan holds its tensor"},
    {"", "ImageDecoder", "demi reads no image files"},
    {"ai.onnx.ml", "CastMap", "demi runs no maps"},
    {"ai.onnx.ml", "DictVectorizer", "demi runs no maps"},
    {"ai.onnx.ml", "ZipMap", "demi runs no maps"},
    {"ai.onnx.preview.training", "Gradient",
     "expand-gradient puts the backward graph in its place"},
};

#define BLOCK "its block in rewrite/base/operators"

static unsigned lacking;

static void lacks(const OpSchema *op, const char *table, const char *advice) {
    print_error("%s %s, version %d, lacks a row in %s: %s\n",
                op->domain[0] ? op->domain : "ai.onnx", op->name, (int)op->since, table, advice);
    lacking++;
}

/* ---- what its schema says ----------------------------------------------------------------------- */

static bool may_be(const OpSchema *op, const OpParam *param, Dtype dtype) {
    const TypeSet *types = op_param_types(op, param);
    for (int kind = 0; kind < OPTYPE_COUNT; kind++)
        if (type_set_has(types, (OpTypeKind)kind, dtype)) return true;
    return false;
}

static bool gives(const OpSchema *op, Dtype dtype) {
    for (size_t i = 0; i < op->output_count; i++)
        if (may_be(op, &op->outputs[i], dtype)) return true;
    return false;
}

static bool has_floats(const OpSchema *op) {
    for (size_t i = 0; i < op->input_count; i++)
        if (may_be(op, &op->inputs[i], DTYPE_FLOAT)) return true;
    return gives(op, DTYPE_FLOAT);
}

static bool any_version(const OpSchema *op, bool (*holds)(const OpSchema *version)) {
    const OpSchema *last = NULL;
    for (int64_t opset = 1; opset <= ops_latest_opset(op->domain); opset++) {
        const OpSchema *version = ops_find(op->domain, op->name, opset);
        if (version && version != last && holds(version)) return true;
        last = version;
    }
    return false;
}

static bool moves(const OpSchema *op) {
    return op_has_flags(op, OP_MOVES);
}

static bool holds_graphs(const OpSchema *op) {
    for (size_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == ATTR_GRAPH) return true;
    return false;
}

/* ---- records ------------------------------------------------------------------------------------ */

static bool has_class(const OpRecord *record, OpClass op_class) {
    return record->classes[POLICY_FLOAT16] == op_class ||
           record->classes[POLICY_BFLOAT16] == op_class || record->classes[POLICY_FAST] == op_class;
}

static void check_words(const OpSchema *op, const OpRecord *record) {
    bool low = has_class(record, CLASS_LOW);
    bool may_run_low = low || has_class(record, CLASS_FOLLOW) || has_class(record, CLASS_WIDEST);
    if (may_run_low && record->magnitude == MAGNITUDE_UNSAID && gives(op, DTYPE_FLOAT16) &&
        !any_version(op, moves))
        lacks(op, BLOCK, "MAGNITUDE(...) of what it gives; UNKNOWN where nothing can be said");
    if (low && record->work <= WORK_MOVES)
        lacks(op, BLOCK, "PRODUCTS(rule, weights), or WORK(OTHER) where none of the rules fits");
    if (any_version(op, moves) && record->work != WORK_MOVES)
        lacks(op, BLOCK, "WORK(MOVES), as its FLAGS say that it moves data");
    for (unsigned i = 0; i < 8; i++)
        if (op_has_flags(op, OP_MOVES) && (op_flags(op)->moved >> i & 1) &&
            !op_record_gives(record, i))
            lacks(op, BLOCK, "GIVES(...) of each operand that its FLAGS say is moved");
    bool random = (record->traits & (OP_RANDOM | OP_RANDOM_TRAINING)) != 0;
    bool differs = op->determinism == OP_NONDETERMINISTIC && op->body != OP_BODY_FUNCTION;
    if (differs && !random && !holds_graphs(op))
        lacks(op, BLOCK, "TRAITS(OP_RANDOM): its definition calls it not deterministic");
    if ((record->traits & OP_RANDOM) && op->determinism != OP_NONDETERMINISTIC)
        fail_msg("%s is deterministic and said to be random", op->name);
}

static void check_record(const OpSchema *op) {
    const OpRecord *record = op_record_find(op->domain, op->name);
    if (!record) {
        lacks(op, BLOCK,
              "an OPERATOR(...), with its precision class in IS(...); op_record.h has the words");
    } else if (strcmp(op->domain, FUSED_DOMAIN) == 0) {
        if (has_class(record, CLASS_LOW)) fail_msg("%s is of no policy's lists", op->name);
    } else {
        bool classed = record->classes[POLICY_FLOAT16] != CLASS_NONE;
        if (!classed && any_version(op, has_floats))
            lacks(op, BLOCK, "a class by policy, CLASS(...) or CLASSES(...): it has floats");
        if (classed && !any_version(op, has_floats))
            fail_msg("%s has a class and no floats", op->name);
        check_words(op, record);
    }
}

/* ---- types, shapes, versions -------------------------------------------------------------------- */

/* True where an input, or the schema, always tells the type. */
static bool is_bound(const OpSchema *op, const OpParam *output) {
    if (type_set_count(op_param_types(op, output)) == 1) return true;
    for (size_t i = 0; output->homogeneous && i < op->input_count; i++)
        if (op->inputs[i].var == output->var && op->inputs[i].homogeneous &&
            op_param_is_required(&op->inputs[i]))
            return true;
    return false;
}

static void check_types(const OpSchema *op) {
    for (size_t i = 0; i < op->output_count; i++) {
        size_t count;
        op_output_rules(op, i, &count);
        if (!is_bound(op, &op->outputs[i]) && count == 0)
            lacks(op, BLOCK, "OUTPUT(...): no input has the type of each of its outputs");
    }
}

/* Attributes that hold an element type, by their names, as op_facts_test has them. */
static bool names_dtype(const char *attr) {
    return strcmp(attr, "to") == 0 || strstr(attr, "dtype") || strstr(attr, "datatype") ||
           strstr(attr, "precision") || strstr(attr, "stash");
}

static void check_attrs(const OpSchema *op) {
    for (size_t i = 0; i < op->attr_count; i++) {
        const OpAttr *attr = &op->attrs[i];
        bool untyped = strstr(attr->name, "_as_tensor") || strcmp(attr->name, "nodes_modes") == 0;
        if (attr->type == ATTR_GRAPH && !op_body_slots(op, attr->name))
            lacks(op, BLOCK, "BODY(...): what its subgraph is bound to");
        if ((attr->type == ATTR_TENSOR || attr->type == ATTR_SPARSE_TENSOR) && !untyped &&
            !op_tensor_attr_var(op, attr->name))
            lacks(op, BLOCK, "TENSOR_ATTR(...): whose type the tensor in it has");
        if ((names_dtype(attr->name) || attr->type == ATTR_TYPE) &&
            op_attr_role(op, attr->name) == OP_ATTR_PLAIN)
            lacks(op, BLOCK,
                  "OUTPUT(...) or COMPUTE_ATTR(...): what the type in an attribute is for");
    }
}

static void check_shape(const OpSchema *op) {
    const ShapeRow *row = shape_find(op->domain, op->name, op->since);
    if (!row) lacks(op, BLOCK, "SHAPE(...); `unknown` where shapes do not tell");
}

static void check_step(const OpSchema *older, const OpSchema *newer) {
    size_t count;
    opset_step_rows(newer->name, newer->since, &count);
    if (count == 0 &&
        !(opset_step_keeps_form(older, newer) && opset_step_keeps_types(older, newer)))
        lacks(
            newer, BLOCK,
            "UPGRADE(...): what becomes of a node of the version before, when its opset is raised");
}

/* ---- running ------------------------------------------------------------------------------------ */

static const char *why_no_kernel(const OpSchema *op) {
    for (size_t i = 0; i < sizeof no_kernels / sizeof *no_kernels; i++)
        if (!strcmp(no_kernels[i].domain, op->domain) && !strcmp(no_kernels[i].name, op->name))
            return no_kernels[i].why;
    return NULL;
}

static void check_kernel(const OpSchema *op) {
    size_t count;
    bool runs =
        kernel_find(op->domain, op->name, op->since, &count) || exec_find(op->domain, op->name);
    const bool decomposed = op_record_has(op_record_find(op->domain, op->name), OP_DECOMPOSED);
    const char *why = decomposed ? "decomposed" : why_no_kernel(op);
    if (!runs && !why && !op->deprecated)
        lacks(op, BLOCK, "KERNEL(...); or EXEC(...) where it handles whole values");
    if (runs && why) fail_msg("%s runs, and is said not to: %s", op->name, why);
    bool own = strcmp(op->domain, FUSED_DOMAIN) == 0;
    if (runs && !kernel_signature_find(op->domain, op->name, op->since))
        lacks(op, own ? BLOCK : "kernel_signatures.def",
              own ? "SIGNATURE(...): which operands have one type"
                  : "run gen_kernel_signatures.py");
}

/* Of one operand, element by element: faithful_test has a formula for each. */
static bool needs_formula(const OpSchema *op) {
    size_t count;
    const KernelRow *row = kernel_find(op->domain, op->name, op->since, &count);
    const ShapeRow *shape = shape_find(op->domain, op->name, op->since);
    return op->until == INT32_MAX && !op->domain[0] && op->input_count == 1 && op->max_input == 1 &&
           op->output_count == 1 && row && shape && (row->flags & KERNEL_INPLACE) &&
           shape_row_keeps(shape) && gives(op, DTYPE_FLOAT16) &&
           op->inputs[0].var == op->outputs[0].var;
}

static void check_formula(const OpSchema *op, const char *formulas) {
    char quoted[128];
    snprintf(quoted, sizeof quoted, "\"%s\": (", op->name);
    if (needs_formula(op) && !strstr(formulas, quoted))
        lacks(op, "faithful_formulas.py (UNARY)",
              "its formula, and how many units the definition's steps may be off");
}

static const char *read_formulas(void) {
    static char text[1 << 16];
    FILE *file = fopen(FORMULAS, "rb");
    if (!file) fail_msg("there is no %s", FORMULAS);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_true(size > 0 && size < sizeof text - 1);
    return text;
}

/* ---- all of them -------------------------------------------------------------------------------- */

static void check_operator(const OpSchema *op, const char *formulas) {
    if (op->until == INT32_MAX) check_record(op);
    check_types(op);
    check_attrs(op);
    check_shape(op);
    check_kernel(op);
    check_formula(op, formulas);
}

TEST(test_no_row_is_missing) {
    const char *formulas = read_formulas();
    lacking = 0;
    for (size_t i = 0; i < ops_count(); i++) {
        const OpSchema *op = ops_at(i), *before = i ? ops_at(i - 1) : op;
        check_operator(op, formulas);
        if (!op->domain[0] && i && strcmp(before->name, op->name) == 0) check_step(before, op);
    }
    for (size_t i = 0; i < fused_ops_count(); i++) check_operator(fused_ops_at(i), formulas);
    if (lacking) fail_msg("%u rows are missing; CONTRIBUTING, \"Add an operator\"", lacking);
}

TEST(test_no_row_is_left_over) {
    for (int i = OP_NONE + 1; i < OP_ID_COUNT; i++) {
        const char *domain = op_domain((OpId)i), *name = op_name((OpId)i);
        if (!ops_exists(domain, name)) fail_msg("operators: there is no %s", name);
        size_t count;
        const KernelRow *rows = kernel_rows((OpId)i, &count);
        for (size_t k = 0; k < count; k++)
            if (!ops_find(domain, name, rows[k].since))
                fail_msg("KERNEL: there is no %s of %d", name, rows[k].since);
    }
}

/* A word of a row is of what its operator has. */
TEST(test_operands_exist) {
    for (size_t i = 0; i < ops_count(); i++) {
        const OpSchema *op = ops_at(i);
        size_t inputs, keeps;
        const OpInput *input = op_inputs_find(op->domain, op->name, &inputs);
        const OpKeep *keep = op_keeps_find(op->domain, op->name, &keeps);
        const OpRecord *record = op_record_find(op->domain, op->name);
        for (size_t k = 0; op->until == INT32_MAX && !op->deprecated && k < inputs; k++)
            if (!op_schema_input(op, input[k].operand))
                fail_msg("INPUT: %s has no operand %u", op->name, input[k].operand);
        for (size_t k = 0; k < keeps; k++)
            if (op->since >= keep[k].since && op->since <= keep[k].until &&
                !op_schema_var(op, keep[k].var))
                fail_msg("KEEP: %s %d has no %s", op->name, (int)op->since, keep[k].var);
        for (unsigned k = 0; op->until == INT32_MAX && record && k < 8; k++)
            if ((record->asks >> k & 1) && !op_schema_input(op, k))
                fail_msg("ASKS: %s has no operand %u", op->name, k);
    }
}
