// SPDX-License-Identifier: Apache-2.0
/* Every published operator has a shape row; attributes, types and tensors become arguments. */
#include <string.h>

#include "ops.h"
#include "shape_args.h"
#include "op_attrs.h"
#include "unit_test.h"

/* An operator without a row would silently stay unknown: the table says so explicitly instead. */
TEST(test_every_operator_has_a_row) {
    for (size_t i = 0; i < ops_count(); i++) {
        const OpSchema *op = ops_at(i);
        if (!shape_find(op->domain, op->name, op->since))
            fail_msg("%s:%s since %d", op->domain, op->name, op->since);
    }
}

typedef struct Fixture {
    Model *model;
    Graph *graph;
} Fixture;

static void fixture_open(Fixture *f) {
    f->model = model_new(&test_trap);
    f->graph = f->model->graph;
    Sym domain = sym_intern_cstr(&f->model->syms, "");
    model_import_opset(f->model, &f->model->opsets, domain, 13);
}

static Node *node_of(Fixture *f, const char *op) {
    Sym domain = sym_intern_cstr(&f->model->syms, "");
    return node_new(f->graph, NULL, sym_intern_cstr(&f->model->syms, op), domain);
}

TEST(test_attrs) {
    Fixture f;
    fixture_open(&f);
    Node *node = node_of(&f, "Gather");
    const ShapeRow *row = shape_args_row(node);
    assert_non_null(row);
    const GatherAttrs *attrs = shape_args_attrs(node, row, &f.model->arena);
    assert_int_equal(attrs->axis, 0);
    node_set_attr_int(node, "axis", -2);
    node_set_attr_int(node, "unrelated", 5);
    attrs = shape_args_attrs(node, row, &f.model->arena);
    assert_int_equal(attrs->axis, -2);
    node_attr(node, "axis")->type = ATTR_FLOAT; /* the wrong type counts as absent */
    attrs = shape_args_attrs(node, row, &f.model->arena);
    assert_int_equal(attrs->axis, 0);
    node_attr(node, "axis")->ref = sym_intern_cstr(&f.model->syms, "parameter");
    assert_null(shape_args_attrs(node, row, &f.model->arena));
    assert_null(shape_args_row(node_of(&f, "NoSuchOperator")));
    model_free(f.model);
}

TEST(test_tensors) {
    Fixture f;
    fixture_open(&f);
    Arena *arena = &f.model->arena;
    const int64_t dims[] = {3}, values[] = {-1, 0, INT64_MAX}, bad[] = {-3};
    const Tensor *ints = tensor_new_raw(arena, DTYPE_INT64, dims, 1, values, sizeof values);
    ShapeOperand operand = shape_args_of_tensor(ints, arena);
    assert_int_equal(operand.item_count, 3);
    assert_int_equal(operand.items[2].value, INT64_MAX);
    operand = shape_args_of_tensor(tensor_new_float_scalar(arena, 1.5f), arena);
    assert_int_equal(operand.items[0].kind, SHAPE_REAL);
    assert_true(operand.items[0].real == 1.5);
    const Tensor *negative = tensor_new_raw(arena, DTYPE_INT64, bad, 1, values, sizeof values);
    assert_false(shape_args_of_tensor(negative, arena).has_rank);
    const Tensor *shorter = tensor_new_raw(arena, DTYPE_INT64, dims, 1, values, 8);
    assert_null(shape_args_of_tensor(shorter, arena).items);
    model_free(f.model);
}

TEST(test_types) {
    Fixture f;
    fixture_open(&f);
    Arena *arena = &f.model->arena;
    Sym batch = sym_intern_cstr(&f.model->syms, "batch");
    const DimExtra extra = {.denotation = batch};
    const Dim dims[] = {{.kind = DIM_SYMBOL, .symbol = batch, .extra = &extra},
                        {.kind = DIM_KNOWN, .size = -1},
                        {.kind = DIM_KNOWN, .size = 4}};
    const Type *tensor = type_new_shaped(arena, DTYPE_FLOAT16, dims, 3);
    const Type *sequence = type_new_wrapped(arena, TYPE_SEQUENCE, tensor);
    ShapeOperand operand = shape_args_of_type(sequence, arena);
    assert_true(operand.wrapped);
    assert_int_equal(operand.rank, 3);
    assert_int_equal(operand.dims[0].kind, SHAPE_SYMBOL);
    assert_int_equal(operand.dims[1].kind, SHAPE_UNKNOWN);

    ShapeNum wanted[] = {operand.dims[0], {SHAPE_KNOWN, {7}}, {SHAPE_KNOWN, {4}}};
    operand.dims = wanted;
    const Type *changed = shape_args_to_type(arena, sequence, &operand);
    assert_int_equal(changed->kind, TYPE_SEQUENCE);
    assert_int_equal(changed->elem->dtype, DTYPE_FLOAT16);
    assert_int_equal(changed->elem->dims[1].size, 7);
    assert_ptr_equal(changed->elem->dims[0].symbol, batch);
    assert_ptr_equal(changed->elem->dims[0].extra, &extra);
    assert_ptr_equal(shape_args_to_type(arena, changed, &operand), changed);
    assert_null(shape_args_to_type(arena, NULL, &operand)); /* sequence or optional? not known */
    operand.wrapped = false;
    assert_false(shape_args_to_type(arena, NULL, &operand)->has_dtype);
    model_free(f.model);
}
