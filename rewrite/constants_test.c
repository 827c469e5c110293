// SPDX-License-Identifier: Apache-2.0
/* Constants in all their forms, as initializers and Constant nodes; and names in scope. */
#include <stdio.h>

#include "constants.h"
#include "scope.h"
#include "test_model.h"

static const char text[] =
    "g (float x, float d = {7}) => (float y)\n"
    "<float[2] w = {1, 2}, float16 h = {1.5v}, bfloat16 b = {1.5v}, float[1,1] one = {4},\n"
    " int64 i = {3}, float[0] none = {}> {\n"
    "    t = Constant <value = float[2] {5, 6}> ()\n"
    "    f = Constant <value_float = 2.5> ()\n"
    "    fs = Constant <value_floats = [1.0, 2.0, 3.0]> ()\n"
    "    n = Constant <value_int = 9> ()\n"
    "    ns = Constant <value_ints = [1, 2]> ()\n"
    "    s = Constant <value_string = \"text\"> ()\n"
    "    c = com.x.Constant <value_float = 2.5> ()\n"
    "    y = Sum (x, d)\n"
    "}\n";

TEST(test_tensors) {
    Model *model = test_model(text);
    static const struct {
        const char *name;
        bool constant, tensor;
        Dtype dtype;
        uint32_t rank;
        uint64_t count;
    } rows[] = {
        {"w", true, true, DTYPE_FLOAT, 1, 2},   {"h", true, true, DTYPE_FLOAT16, 0, 1},
        {"one", true, true, DTYPE_FLOAT, 2, 1}, {"none", true, true, DTYPE_FLOAT, 1, 0},
        {"t", true, true, DTYPE_FLOAT, 1, 2},   {"f", true, true, DTYPE_FLOAT, 0, 1},
        {"fs", true, true, DTYPE_FLOAT, 1, 3},  {"n", true, true, DTYPE_INT64, 0, 1},
        {"ns", true, true, DTYPE_INT64, 1, 2},  {"s", true, false, 0, 0, 0},
        {"c", false, false, 0, 0, 0},           {"x", false, false, 0, 0, 0},
        {"d", false, false, 0, 0, 0}, /* a default that callers can override */
        {"y", false, false, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Value *value = test_value(model->graph, rows[i].name);
        const Tensor *tensor = constant_tensor(value, &test_arena);
        assert_int_equal(value_is_constant(value), rows[i].constant);
        assert_int_equal(tensor != NULL, rows[i].tensor);
        if (!tensor) continue;
        assert_true(tensor_check(tensor, NULL));
        assert_int_equal(tensor->dtype, rows[i].dtype);
        assert_int_equal(tensor->rank, rows[i].rank);
        assert_int_equal(tensor_count(tensor), rows[i].count);
    }
    float floats[3];
    int64_t ints[2];
    const Tensor *fs = constant_tensor(test_value(model->graph, "fs"), &test_arena);
    const Tensor *ns = constant_tensor(test_value(model->graph, "ns"), &test_arena);
    assert_true(tensor_read_raw(fs, 0, floats, sizeof floats, NULL));
    assert_true(tensor_read_raw(ns, 0, ints, sizeof ints, NULL));
    assert_true(floats[0] == 1.0f && floats[2] == 3.0f && ints[0] == 1 && ints[1] == 2);
    assert_int_equal(model->edits, 0);
    model_free(model);
}

TEST(test_scalars) {
    Model *model = test_model(text);
    static const struct {
        const char *name;
        float number;
    } scalars[] = {{"h", 1.5f}, {"b", 1.5f}, {"one", 4.0f}, {"f", 2.5f}};
    float number;
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        assert_true(constant_scalar(test_value(model->graph, scalars[i].name), &number));
        assert_true(number == scalars[i].number);
    }
    static const char *const others[] = {"w", "i", "none", "t", "fs", "n", "s", "c", "x", "d", "y"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(constant_scalar(test_value(model->graph, others[i]), &number));
    model_free(model);
}

TEST(test_parameters) {
    float number;
    Model *model = test_model("g (float x) => (float y) { y = com.x.F <v = 1.0> (x) }\n"
                              "<domain: \"com.x\", opset_import: [\"\" : 21]> F <v> (a) => (z) "
                              "{ c = Constant <value_float: float = @v> () z = Add (a, c) }\n");
    const Value *c = test_value(model->functions.items[0]->body, "c");
    assert_false(value_is_constant(c)); /* whatever the caller gives */
    assert_null(constant_tensor(c, &model->arena));
    assert_false(constant_scalar(c, &number));
    model_free(model);
}

TEST(test_replace) {
    static const char *const names[] = {"w", "t", "f", "fs", "n"};
    Model *model = test_model(text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Value *value = test_value(model->graph, names[i]);
        const Tensor *tensor = tensor_new_float_scalar(&model->arena, 3.0f);
        uint64_t edits = model->edits;
        constant_replace(value, tensor);
        assert_ptr_equal(constant_tensor(value, &model->arena), tensor);
        assert_true(model->edits > edits);
        if (!value->producer) continue;
        assert_null(value->producer->attrs->next); /* no second value is left */
        assert_true(sym_equals(value->producer->attrs->name, "value"));
    }
    test_verify(model);
    model_free(model);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

TEST(test_scopes) {
    Model *model = model_new(&test_trap);
    Graph *inner_graph = graph_new(model, model->graph);
    Scope *outer = scope_new(&test_arena, model->graph, NULL);
    Scope *inner = scope_new(&test_arena, inner_graph, outer);
    Sym a = test_name(model, "a"), b = test_name(model, "b");
    assert_null(scope_find(outer, a));
    Value *va = scope_declare(outer, &test_arena, a);
    assert_ptr_equal(scope_declare(outer, &test_arena, a), va);
    assert_null(scope_lookup(inner, a)); /* declared, but nothing defines it yet */
    va->input = ARENA_NEW(&model->arena, ValueDecl);
    assert_ptr_equal(scope_lookup(inner, a), va);
    assert_ptr_equal(scope_resolve(inner, &test_arena, a), va);
    Value *hidden = scope_declare(inner, &test_arena, a); /* a stale declaration hides nothing */
    assert_ptr_equal(scope_lookup(inner, a), va);
    hidden->init = tensor_new_float_scalar(&model->arena, 1);
    assert_ptr_equal(scope_lookup(inner, a), hidden);
    assert_ptr_equal(scope_lookup(outer, a), va);
    Value *vb = scope_resolve(inner, &test_arena, b);
    assert_ptr_equal(vb->graph, inner_graph);
    assert_int_equal(inner_graph->undefined.count, 1);
    assert_false(value_is_defined(vb));
    NameRef known = {.name = a}, unknown = {.name = b}, none = {0};
    scope_refer(outer, &known);
    scope_refer(outer, &unknown);
    scope_refer(outer, &none);
    scope_refer(NULL, &unknown);
    assert_ptr_equal(known.value, va);
    assert_true(va->referenced);
    assert_null(unknown.value);
    model_free(model);
}

/* One undefined value, listed once, however often it is read. */
TEST(test_undefined_once) {
    Model *model = test_model("g () => (float y) { y = Sum (u, u, u) z = Neg (u) }\n");
    assert_int_equal(model->graph->undefined.count, 1);
    assert_int_equal(model->graph->undefined.items[0]->use_count, 4);
    model_free(model);
}

TEST(test_many_names) {
    enum { MANY = 5000 };
    char name[16];
    Model *model = model_new(&test_trap);
    Scope *scope = scope_new(&test_arena, model->graph, NULL);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "v%d", i);
        scope_declare(scope, &test_arena, test_name(model, name));
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "v%d", i);
        assert_int_equal(scope_find(scope, test_name(model, name))->id, i);
    }
    assert_int_equal(scope->count, MANY);
    model_free(model);
}
