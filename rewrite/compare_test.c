// SPDX-License-Identifier: Apache-2.0
/* Every kind of difference is seen: two equal models, one changed at one place at a time. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

static Sym name(Model *model, const char *text) {
    return sym_intern_cstr(&model->syms, text);
}

static ValueDecl *decl(Model *model, const char *symbol) {
    Dim *dims = ARENA_ARRAY(&model->arena, Dim, 2);
    dims[0] = (Dim){.kind = DIM_SYMBOL, .symbol = name(model, symbol)};
    dims[1] = (Dim){.kind = DIM_KNOWN, .size = 3};
    ValueDecl *made = ARENA_NEW(&model->arena, ValueDecl);
    made->type = type_new_shaped(&model->arena, DTYPE_FLOAT, dims, 2);
    return made;
}

static Attr *add_attr(Node *node, const char *text, AttrType type) {
    Model *model = node->graph->model;
    Attr **at = &node->attrs;
    while (*at) at = &(*at)->next;
    *at = ARENA_NEW(&model->arena, Attr);
    **at = (Attr){.name = name(model, text), .type = type, .has_type = true, .has_value = true};
    return *at;
}

/* if_node's then_branch: y_inner = Neg(x), which captures the outer x. */
static Graph *branch(Model *model, Value *x) {
    Graph *graph = graph_new(model, model->graph);
    Node *node = node_new(graph, NULL, name(model, "Neg"), NULL);
    node_resize_inputs(node, 1);
    node_set_input(node, 0, x);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value_new(graph, name(model, "y_inner")));
    graph_add_output(graph, node->outputs[0], decl(model, "N"));
    return graph;
}

static void add_function(Model *model) {
    Function *function = ARENA_NEW(&model->arena, Function);
    function->name = name(model, "F");
    function->body = graph_new(model, NULL);
    function->body->function = function;
    VEC_PUSH(&model->arena, &function->attributes, name(model, "alpha"));
    model_add_function(model, function);
}

/* x, w -> Add{scales, label, value} -> s -> If -> y, with most kinds of parts. */
static Model *make(void) {
    Model *model = model_new(&test_trap);
    Arena *arena = &model->arena;
    Graph *graph = model->graph;
    model->ir_version = 10;
    model->has_ir_version = true;
    model_import_opset(model, &model->opsets, NULL, 21);
    Value *x = value_new(graph, name(model, "x")), *w = value_new(graph, name(model, "w"));
    x->input = decl(model, "N");
    VEC_PUSH(arena, &graph->inputs, x);
    const int64_t dims[] = {3};
    const float data[] = {1, 2, 3};
    value_set_init(w, tensor_new_raw(arena, DTYPE_FLOAT, dims, 1, data, sizeof data));
    Node *add = node_new(graph, NULL, name(model, "Add"), NULL);
    node_resize_inputs(add, 2);
    node_set_input(add, 0, x);
    node_set_input(add, 1, w);
    node_resize_outputs(add, 1);
    node_set_output(add, 0, value_new(graph, name(model, "s")));
    value_set_type(add->outputs[0], type_plain_tensor(DTYPE_FLOAT));
    value_add_info(add->outputs[0]);
    Attr *scales = add_attr(add, "scales", ATTR_FLOATS);
    scales->count = 2;
    scales->v.floats = arena_copy(arena, data, 2 * sizeof *data);
    add_attr(add, "label", ATTR_STRING)->v.s = (Bytes){(const unsigned char *)"ab", 2};
    add_attr(add, "value", ATTR_TENSOR)->v.t = tensor_new_float_scalar(arena, 1);
    node_set_attr_int(add, "axis", 1);
    node_add_metadata(add, "k", "v");
    Node *node = node_new(graph, NULL, name(model, "If"), NULL);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value_new(graph, name(model, "y")));
    Attr *then_branch = add_attr(node, "then_branch", ATTR_GRAPH);
    then_branch->v.g = branch(model, x);
    then_branch->v.g->owner = node;
    graph_add_output(graph, node->outputs[0], decl(model, "N"));
    add_function(model);
    return model;
}

/* ---- changes --------------------------------------------------------------------------------- */

static Node *add_of(Model *m) {
    return m->graph->first;
}
static Node *if_of(Model *m) {
    return m->graph->last;
}
static Node *neg_of(Model *m) {
    return if_of(m)->attrs->v.g->first;
}

static void set_ir(Model *m) {
    m->ir_version = 11;
}
static void set_producer(Model *m) {
    m->producer_name = name(m, "");
}
static void set_rest(Model *m) {
    m->rest = (Bytes){(const unsigned char *)"\xc0\x3e\x01", 3};
}
static void set_opset(Model *m) {
    m->opsets.items[0].version++;
}
static void set_op(Model *m) {
    add_of(m)->op_type = name(m, "Mul");
}
static void set_domain(Model *m) {
    add_of(m)->domain = name(m, "");
}
static void set_input(Model *m) {
    node_set_input(add_of(m), 1, add_of(m)->inputs[0].value);
}
static void omit_input(Model *m) {
    node_set_input(add_of(m), 1, NULL);
}
static void rename_value(Model *m) {
    value_rename(add_of(m)->outputs[0], name(m, "t"));
}
static void drop_node(Model *m) {
    node_remove(add_of(m));
}
static void set_axis(Model *m) {
    node_set_attr_int(add_of(m), "axis", 2);
}
static void drop_attr(Model *m) {
    node_remove_attr(add_of(m), "axis");
}
static void set_label(Model *m) {
    node_attr(add_of(m), "label")->v.s.size = 1;
}
static void set_has_type(Model *m) {
    node_attr(add_of(m), "label")->has_type = false;
}
static void set_metadata(Model *m) {
    node_add_metadata(add_of(m), "k2", "v");
}
static void declare_output(Model *m) {
    graph_declare_output(m->graph, 0, DTYPE_FLOAT16);
}
static void declare_input(Model *m) {
    value_declare_input(m->graph->inputs.items[0], DTYPE_DOUBLE);
}
static void drop_info(Model *m) {
    value_remove_info(add_of(m)->outputs[0]);
}
static void set_function(Model *m) {
    m->functions.items[0]->name = name(m, "G");
}

static void set_symbol(Model *m) {
    m->graph->inputs.items[0]->input = decl(m, "M");
}

static void set_scales(Model *m) {
    static const float other[] = {1, 7};
    node_attr(add_of(m), "scales")->v.floats = other;
}

static void set_value(Model *m) {
    node_set_attr_tensor(add_of(m), "value", tensor_new_float_scalar(&m->arena, 2));
}

static void set_weights(Model *m) {
    const int64_t dims[] = {3};
    const float data[] = {1, 2, 4};
    value_set_init(m->graph->initializers.items[0],
                   tensor_new_raw(&m->arena, DTYPE_FLOAT, dims, 1, data, sizeof data));
}

static void set_shape(Model *m) {
    const int64_t dims[] = {3, 1};
    const float data[] = {1, 2, 3};
    value_set_init(m->graph->initializers.items[0],
                   tensor_new_raw(&m->arena, DTYPE_FLOAT, dims, 2, data, sizeof data));
}

/* The same name, but an inner value that hides the outer one. */
static void shadow(Model *m) {
    Graph *inner = if_of(m)->attrs->v.g;
    Value *x = value_new(inner, name(m, "x"));
    x->init = tensor_new_float_scalar(&m->arena, 0);
    node_set_input(neg_of(m), 0, x);
}

typedef struct Change {
    void (*apply)(Model *model);
    const char *what;
} Change;

static const Change changes[] = {
    {set_ir, "IR version"},
    {set_producer, "producer name"},
    {set_rest, "unknown fields of the model"},
    {set_opset, "opset import"},
    {set_op, "operator"},
    {set_domain, "domain"},
    {set_input, "input"},
    {omit_input, "input"},
    {rename_value, "output"},
    {drop_node, "operator"},
    {set_axis, "attribute"},
    {drop_attr, "number of attributes"},
    {set_label, "attribute"},
    {set_has_type, "attribute"},
    {set_scales, "attribute"},
    {set_value, "data of a tensor"},
    {set_metadata, "metadata"},
    {set_weights, "data of a tensor"},
    {set_shape, "rank of a tensor"},
    {set_symbol, "declaration"},
    {declare_output, "declaration"},
    {declare_input, "declaration"},
    {drop_info, "number of value_info"},
    {set_function, "function name"},
    {shadow, "input"},
};

TEST(test_equal) {
    Model *a = make(), *b = make();
    Err err = {0};
    if (!model_compare(a, b, NULL, &err)) fail_msg("%s", err.what);
    /* What no file says does not count. */
    value_set_type(b->graph->inputs.items[0], type_plain_tensor(DTYPE_DOUBLE));
    assert_true(model_compare(a, b, NULL, &err));
    model_free(a);
    model_free(b);
}

TEST(test_every_change) {
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        Model *a = make(), *b = make();
        Err err = {0};
        changes[i].apply(b);
        if (model_compare(a, b, NULL, &err)) fail_msg("change %zu was not seen", i);
        assert_int_equal(err.code, ERR_MODEL);
        if (!strstr(err.what, changes[i].what))
            fail_msg("change %zu: '%s' instead of '%s'", i, err.what, changes[i].what);
        if (model_compare(b, a, NULL, NULL)) fail_msg("change %zu was not seen backwards", i);
        model_free(a);
        model_free(b);
    }
}

TEST(test_storage_does_not_count) {
    Model *a = make(), *b = make();
    Value *x = a->graph->initializers.items[0], *y = b->graph->initializers.items[0];
    const uint16_t halves[] = {0x3c00, 0x4000, 0x4200};
    const int64_t dims[] = {3};
    value_set_init(x, tensor_new_cast(&a->arena, x->init, DTYPE_FLOAT16));
    value_set_init(y, tensor_new_raw(&b->arena, DTYPE_FLOAT16, dims, 1, halves, sizeof halves));
    Err err = {0};
    if (!model_compare(a, b, NULL, &err)) fail_msg("%s", err.what);
    Tensor *external = ARENA_NEW(&b->arena, Tensor);
    *external = *y->init;
    external->storage = TENSOR_EXTERNAL;
    value_set_init(y, external);
    if (!model_compare(a, b, NULL, &err)) fail_msg("%s", err.what);
    Tensor *typed = ARENA_NEW(&b->arena, Tensor);
    *typed = *y->init;
    typed->storage = TENSOR_INT32S;
    value_set_init(y, typed);
    assert_false(model_compare(a, b, NULL, &err)); /* another field */
    model_free(a);
    model_free(b);
}
