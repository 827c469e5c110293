// SPDX-License-Identifier: Apache-2.0
/* Facts of the published definitions, looked up by hand, against the generated tables. */
#include "ops.h"

#include <string.h>

#include "unit_test.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* True where input `index` of the operator in force at `opset` may be a tensor of `dtype`. */
static bool takes(const char *name, int64_t opset, size_t index, Dtype dtype) {
    const OpSchema *schema = ops_find("", name, opset);
    assert_non_null(schema);
    const OpParam *param = op_schema_input(schema, index);
    assert_non_null(param);
    return type_set_has(op_param_types(schema, param), OPTYPE_TENSOR, dtype);
}

TEST(test_counts) {
    static const struct {
        const char *domain;
        size_t versions;
    } expected[] = {
        {"", 631},
        {"ai.onnx.ml", 25},
        {"ai.onnx.preview", 1},
        {"ai.onnx.preview.training", 4},
        {"com.microsoft", 50},
    };
    assert_int_equal(ops_count(), 711);
    for (size_t d = 0; d < LENGTH(expected); d++) {
        size_t count = 0;
        for (size_t i = 0; i < ops_count(); i++)
            count += strcmp(ops_at(i)->domain, expected[d].domain) == 0;
        assert_int_equal(count, expected[d].versions);
    }
}

/* Every schema is found at its first and last opset, in order, and not before its first. */
TEST(test_find_every_schema) {
    for (size_t i = 0; i < ops_count(); i++) {
        const OpSchema *s = ops_at(i), *before = i ? ops_at(i - 1) : NULL;
        assert_ptr_equal(ops_find(s->domain, s->name, s->since), s);
        assert_ptr_equal(ops_find(s->domain, s->name, s->until), s);
        assert_true(ops_exists(s->domain, s->name));
        assert_true(s->since <= ops_latest_opset(s->domain));
        const OpSchema *older = ops_find(s->domain, s->name, s->since - 1);
        if (!older) continue;
        assert_ptr_equal(older, before);
        assert_int_equal(older->until, s->since - 1);
    }
}

TEST(test_find_nothing) {
    assert_null(ops_find("", "Gelu", 19));
    assert_non_null(ops_find("", "Gelu", 20));
    assert_null(ops_find("", "Conv", 0));
    assert_null(ops_find("", "conv", 13));
    assert_null(ops_find("", "", 13));
    assert_null(ops_find("com.microsoft", "Conv", 13));
    assert_null(ops_find("ai.onnx.ml", "Conv", 5));
    assert_false(ops_exists("", "ZipMap"));
    assert_true(ops_exists("ai.onnx.ml", "ZipMap"));
    assert_null(ops_find("", "MatMulNBits", 1));
    assert_int_equal(ops_latest_opset("com.example"), 0);
    assert_false(ops_domain_is_whole("com.microsoft"));
    assert_false(ops_domain_is_whole("com.example"));
    assert_true(ops_domain_is_whole("ai.onnx") && ops_domain_is_whole("ai.onnx.ml"));
}

TEST(test_domains) {
    assert_ptr_equal(ops_find(NULL, "Conv", 13), ops_find("ai.onnx", "Conv", 13));
    assert_ptr_equal(ops_find("", "Conv", 13), ops_find("ai.onnx", "Conv", 13));
    assert_string_equal(ops_find("ai.onnx", "Conv", 13)->domain, "");
    assert_int_equal(ops_latest_opset(NULL), 28);
    assert_int_equal(ops_latest_opset("ai.onnx"), 28);
    assert_int_equal(ops_latest_opset("ai.onnx.ml"), 5);
    assert_int_equal(ops_latest_opset("ai.onnx.preview.training"), 1);
}

TEST(test_find_sym) {
    SymTable table;
    sym_table_init(&table, &test_arena);
    Sym conv = sym_intern_cstr(&table, "Conv");
    assert_ptr_equal(ops_find_sym(NULL, conv, 13), ops_find("", "Conv", 13));
    assert_null(ops_find_sym(NULL, sym_intern(&table, "Conv\0x", 6), 13));
    assert_null(ops_find_sym(NULL, sym_intern(&table, "Conv\0", 5), 13));
    assert_null(ops_find_sym(sym_intern(&table, "ai.onnx\0y", 9), conv, 13));
    assert_null(ops_find_sym(NULL, NULL, 13));
    assert_null(ops_find_sym(NULL, sym_intern_cstr(&table, ""), 13));
}

TEST(test_low_types) {
    assert_false(takes("Conv", 21, 0, DTYPE_BFLOAT16));
    assert_true(takes("Conv", 22, 0, DTYPE_BFLOAT16));
    assert_true(takes("Conv", 1, 0, DTYPE_FLOAT16));
    assert_false(takes("Equal", 10, 0, DTYPE_FLOAT16));
    assert_true(takes("Equal", 11, 0, DTYPE_FLOAT16));
    assert_false(takes("CumSum", 13, 0, DTYPE_FLOAT16));
    assert_true(takes("CumSum", 14, 0, DTYPE_FLOAT16));
    assert_true(takes("CumSum", 14, 0, DTYPE_BFLOAT16));
    assert_false(takes("Celu", 27, 0, DTYPE_FLOAT16));
    assert_true(takes("Celu", 28, 0, DTYPE_FLOAT16));
    assert_false(takes("IsInf", 19, 0, DTYPE_FLOAT16));
    assert_true(takes("IsInf", 20, 0, DTYPE_BFLOAT16));
    assert_false(takes("Shrink", 28, 0, DTYPE_BFLOAT16));
    assert_false(takes("If", 15, 0, DTYPE_FLOAT16));
    assert_true(takes("MatMul", 13, 1, DTYPE_BFLOAT16));
    assert_false(takes("MatMul", 12, 1, DTYPE_BFLOAT16));
}

TEST(test_fixed_types) {
    static const int64_t opsets[] = {11, 13, 18, 19, 28};
    for (size_t i = 0; i < LENGTH(opsets); i++) {
        const OpSchema *resize = ops_find("", "Resize", opsets[i]);
        const OpParam *scales = op_schema_input(resize, 2);
        assert_string_equal(scales->name, "scales");
        assert_int_equal(scales->var, OP_NO_VAR);
        OpTypeKind kind;
        Dtype dtype;
        assert_true(type_set_single(op_param_types(resize, scales), &kind, &dtype));
        assert_int_equal(kind, OPTYPE_TENSOR);
        assert_int_equal(dtype, DTYPE_FLOAT);
        assert_true(type_set_has(op_param_types(resize, op_schema_input(resize, 0)), OPTYPE_TENSOR,
                                 DTYPE_FLOAT16));
    }
    const OpSchema *cast = ops_find("", "Cast", 13);
    OpTypeKind kind = OPTYPE_COUNT;
    Dtype dtype = DTYPE_UNDEFINED;
    assert_false(type_set_single(cast->vars[0].types, &kind, &dtype));
    assert_int_equal(kind, OPTYPE_COUNT);
}

TEST(test_layer_normalization) {
    const OpSchema *schema = ops_find("", "LayerNormalization", 17);
    assert_int_equal(schema->until, INT32_MAX);
    assert_int_equal(schema->body, OP_BODY_CONTEXT);
    assert_int_equal(schema->inputs[0].var, schema->inputs[1].var);
    assert_int_equal(schema->inputs[0].var, schema->inputs[2].var);
    assert_int_not_equal(schema->inputs[0].var, schema->outputs[1].var);
    assert_int_equal(schema->outputs[1].var, schema->outputs[2].var);
    assert_int_equal(schema->outputs[1].option, OP_OPTIONAL);
    const TypeSet *stash = op_schema_var(schema, "U")->types;
    assert_true(type_set_has(stash, OPTYPE_TENSOR, DTYPE_BFLOAT16));
    assert_false(type_set_has(stash, OPTYPE_TENSOR, DTYPE_FLOAT16));
    const OpAttr *type = op_schema_attr(schema, "stash_type");
    assert_true(type->has_default);
    assert_int_equal(type->value.i, DTYPE_FLOAT);
    const OpAttr *epsilon = op_schema_attr(schema, "epsilon");
    assert_int_equal(epsilon->type, ATTR_FLOAT);
    assert_true((float)epsilon->value.f == 1e-5f);
    assert_null(op_schema_attr(schema, "Epsilon"));
    assert_null(op_schema_var(schema, "V"));
}

TEST(test_versions) {
    static const int32_t cast[] = {1, 6, 9, 13, 19, 21, 23, 24, 25, 28};
    static const int32_t gemm[] = {1, 6, 7, 9, 11, 13};
    for (size_t i = 0; i < LENGTH(cast); i++)
        assert_int_equal(ops_find("", "Cast", cast[i])->since, cast[i]);
    assert_int_equal(ops_find("", "Cast", 5)->since, 1);
    assert_int_equal(op_schema_attr(ops_find("", "Cast", 5), "to")->type, ATTR_STRING);
    assert_int_equal(op_schema_attr(ops_find("", "Cast", 6), "to")->type, ATTR_INT);
    assert_true(op_schema_attr(ops_find("", "Cast", 28), "to")->required);
    for (size_t i = 0; i < LENGTH(gemm); i++)
        assert_int_equal(ops_find("", "Gemm", gemm[i])->since, gemm[i]);
    assert_int_equal(ops_find("", "Gemm", 28)->since, 13);
    assert_int_equal(ops_find("", "Gemm", INT64_MAX)->since, 13);
    assert_true(op_schema_input_is_required(ops_find("", "Gemm", 9), 2));
    assert_false(op_schema_input_is_required(ops_find("", "Gemm", 11), 2));
}

TEST(test_deprecated) {
    static const struct {
        const char *domain, *name;
        int64_t fine, deprecated, fine_again;
    } rows[] = {
        {"", "Upsample", 9, 10, 0},
        {"", "Scatter", 10, 11, 0},
        {"", "GroupNormalization", 0, 18, 21},
        {"ai.onnx.ml", "TreeEnsembleClassifier", 4, 5, 0},
        {"ai.onnx.ml", "TreeEnsembleRegressor", 4, 5, 0},
    };
    size_t count = 0;
    for (size_t i = 0; i < ops_count(); i++) count += ops_at(i)->deprecated;
    assert_int_equal(count, LENGTH(rows));
    for (size_t i = 0; i < LENGTH(rows); i++) {
        assert_true(ops_find(rows[i].domain, rows[i].name, rows[i].deprecated)->deprecated);
        if (rows[i].fine)
            assert_false(ops_find(rows[i].domain, rows[i].name, rows[i].fine)->deprecated);
        if (rows[i].fine_again)
            assert_false(ops_find(rows[i].domain, rows[i].name, rows[i].fine_again)->deprecated);
    }
}

TEST(test_variadic) {
    const OpSchema *concat = ops_find("", "Concat", 13), *loop = ops_find("", "Loop", 13);
    assert_ptr_equal(op_schema_input(concat, 7), &concat->inputs[0]);
    assert_true(concat->inputs[0].homogeneous);
    assert_true(op_schema_input_is_required(concat, 0));
    assert_false(op_schema_input_is_required(concat, 1));
    assert_int_equal(concat->max_input, OP_UNBOUNDED);
    assert_ptr_equal(op_schema_input(loop, 2), &loop->inputs[2]);
    assert_ptr_equal(op_schema_input(loop, 9), &loop->inputs[2]);
    assert_false(loop->inputs[2].homogeneous);
    assert_false(op_schema_input_is_required(loop, 0));
    assert_false(op_schema_input_is_required(loop, 2));
    assert_true(op_schema_input_is_required(ops_find("", "Loop", 1), 2));
    assert_false(op_param_is_required(&loop->inputs[2]));
    assert_true(op_param_is_required(&concat->inputs[0]));
    assert_null(op_schema_input(ops_find("", "Conv", 13), 3));
    assert_null(op_schema_output(ops_find("", "Conv", 13), 1));
    assert_null(op_schema_input(ops_find("", "Constant", 13), 0));
}

TEST(test_kinds_and_defaults) {
    const OpSchema *identity = ops_find("", "Identity", 16);
    assert_true(type_set_has(identity->vars[0].types, OPTYPE_OPTIONAL_SEQ, DTYPE_FLOAT));
    assert_false(type_set_has(identity->vars[0].types, OPTYPE_SEQ, DTYPE_BFLOAT16));
    assert_int_equal(type_set_count(identity->vars[0].types), 61);
    const OpSchema *zip = ops_find("ai.onnx.ml", "ZipMap", 1);
    assert_true(type_set_has(zip->vars[0].types, OPTYPE_SEQ_MAP_STRING, DTYPE_FLOAT));
    const OpSchema *dict = ops_find("ai.onnx.ml", "DictVectorizer", 1);
    assert_true(type_set_has(dict->vars[0].types, OPTYPE_MAP_STRING, DTYPE_INT64));
    assert_false(type_set_has(dict->vars[0].types, OPTYPE_MAP_STRING, DTYPE_STRING));
    assert_false(type_set_has(dict->vars[0].types, OPTYPE_MAP_INT64, (Dtype)77));
    const OpAttr *acts = op_schema_attr(ops_find("", "RNN", 1), "activations");
    assert_true(acts->has_default);
    assert_int_equal(acts->count, 2);
    assert_string_equal(acts->value.strings[1], "Tanh");
    const OpAttr *mode = op_schema_attr(ops_find("", "Resize", 13), "mode");
    assert_string_equal(mode->value.s, "nearest");
    assert_false(op_schema_attr(ops_find("", "Conv", 1), "pads")->has_default);
    const OpAttr *axes = op_schema_attr(ops_find("", "MeanVarianceNormalization", 13), "axes");
    assert_int_equal(axes->count, 3);
    assert_int_equal(axes->value.ints[2], 3);
}

TEST(test_op_type_from) {
    OpType out = {OPTYPE_COUNT, DTYPE_UNDEFINED};
    const Type tensor = {.kind = TYPE_TENSOR, .dtype = DTYPE_FLOAT16};
    const Type seq = {.kind = TYPE_SEQUENCE, .elem = &tensor};
    const Type optional = {.kind = TYPE_OPTIONAL, .elem = &seq};
    const Type deeper = {.kind = TYPE_OPTIONAL, .elem = &optional};
    const Type map = {.kind = TYPE_MAP, .dtype = DTYPE_STRING, .elem = &tensor};
    const Type maps = {.kind = TYPE_SEQUENCE, .elem = &map};
    const Type untyped = {.kind = TYPE_TENSOR}, strange = {.kind = TYPE_TENSOR, .dtype = 99};
    const Type bare = {.kind = TYPE_SEQUENCE};
    assert_false(op_type_from(NULL, &out));
    assert_false(op_type_from(&deeper, &out));
    assert_false(op_type_from(&untyped, &out));
    assert_false(op_type_from(&strange, &out));
    assert_false(op_type_from(&bare, &out));
    assert_int_equal(out.kind, OPTYPE_COUNT);
    assert_true(op_type_from(&tensor, &out));
    assert_int_equal(out.kind, OPTYPE_TENSOR);
    assert_int_equal(out.dtype, DTYPE_FLOAT16);
    assert_true(op_type_from(&seq, &out) && out.kind == OPTYPE_SEQ);
    assert_true(op_type_from(&optional, &out) && out.kind == OPTYPE_OPTIONAL_SEQ);
    assert_true(op_type_from(&map, &out) && out.kind == OPTYPE_MAP_STRING);
    assert_true(op_type_from(&maps, &out) && out.kind == OPTYPE_SEQ_MAP_STRING);
    assert_int_equal(out.dtype, DTYPE_FLOAT16);
}

TEST(test_nearest_name) {
    assert_string_equal(ops_nearest_name("", "conv"), "Conv");
    assert_string_equal(ops_nearest_name("", "MATMUL"), "MatMul");
    assert_string_equal(ops_nearest_name("", "Convv"), "Conv");
    assert_string_equal(ops_nearest_name("", "SoftMax"), "Softmax");
    assert_string_equal(ops_nearest_name("", "BatchNorm"), "BatchNormalization");
    assert_string_equal(ops_nearest_name("ai.onnx.ml", "zipmap"), "ZipMap");
    assert_null(ops_nearest_name("", "FusedQuantizedThing"));
    assert_null(ops_nearest_name("", ""));
    assert_null(ops_nearest_name("nowhere", "Conv"));
    char longest[200];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(ops_nearest_name("", longest));
}
