// SPDX-License-Identifier: Apache-2.0
/* Every primitive that changes a graph: what it does, what it leaves alone, and that it counts an
 * edit where it changes something and none where not. At the end random sequences of them, against
 * a model of what the use lists must hold. */
#include <stdio.h>

#include "test_model.h"

static const char small[] = "g (float[N,3] x, float[3] d) => (float[N,3] y, float[N,3] z)\n"
                            "<float[3] w = {1, 2, 3}, float[N,3] a>\n"
                            "{ a = Add (x, w)  b = Mul (a, a)  y = Sub (b, a)  z = Relu (y) }\n";

static const char nested[] =
    "g (bool c, float[3] x) => (float[3] y) {\n"
    "    p = Neg (x)\n"
    "    y = If (c) <then_branch = t () => (float[3] ty) {\n"
    "        ty = If (c) <then_branch = tt () => (float[3] q) { q = Add (p, x) },\n"
    "                     else_branch = te () => (float[3] r) { r = Abs (p) }>\n"
    "    }, else_branch = e () => (float[3] ey) { ey = Exp (p) }>\n"
    "}\n";

TEST(test_new_nodes) {
    Model *model = test_model(small);
    Graph *graph = model->graph;
    uint64_t edits = model->edits;
    assert_int_equal(edits, 0);
    uint32_t nodes = graph->node_count, ids = model->node_count;
    Node *last = node_new(graph, NULL, test_name(model, "Relu"), NULL);
    Node *first = node_new(graph, graph->first, test_name(model, "Relu"), NULL);
    Node *middle = node_new(graph, last, test_name(model, "Relu"), NULL);
    assert_ptr_equal(graph->last, last);
    assert_ptr_equal(graph->first, first);
    assert_ptr_equal(last->prev, middle);
    assert_int_equal(graph->node_count, nodes + 3);
    assert_int_equal(model->node_count, ids + 3);
    assert_int_equal(middle->id, ids + 2);
    assert_int_equal(model->edits, edits + 3);
    assert_int_equal(first->input_count + first->output_count, 0);
    test_verify(model);
    model_free(model);
}

TEST(test_inputs_resize) {
    Model *model = test_model(small);
    Node *mul = test_node(model->graph, "b"), *sub = test_node(model->graph, "y");
    Value *a = test_value(model->graph, "a"), *x = test_value(model->graph, "x");
    assert_int_equal(a->use_count, 3);
    node_resize_inputs(mul, 5); /* both of its uses of `a` move in memory */
    assert_int_equal(a->use_count, 3);
    assert_null(mul->inputs[2].value);
    test_verify(model);
    node_set_input(mul, 4, a);
    node_set_input(mul, 2, x);
    node_resize_inputs(mul, 9);
    assert_int_equal(a->use_count, 4);
    assert_ptr_equal(mul->inputs[4].value, a);
    test_verify(model);
    node_resize_inputs(mul, 1);
    assert_int_equal(a->use_count, 2);
    test_verify(model);
    node_resize_inputs(mul, 2); /* what was dropped does not come back */
    assert_null(mul->inputs[1].value);
    node_resize_inputs(mul, 0);
    node_resize_inputs(sub, 0);
    assert_null(a->uses);
    assert_int_equal(a->use_count, 0);
    test_verify(model);
    uint64_t edits = model->edits;
    node_resize_inputs(mul, 0);
    assert_int_equal(model->edits, edits);
    model_free(model);
}

TEST(test_outputs) {
    Model *model = test_model(small);
    Node *add = test_node(model->graph, "a"), *relu = test_node(model->graph, "z");
    Value *a = test_value(model->graph, "a");
    Value *more = value_new(model->graph, test_name(model, "more"));
    node_resize_outputs(add, 3);
    assert_ptr_equal(add->outputs[0], a);
    assert_null(add->outputs[1]);
    node_set_output(add, 2, more);
    assert_ptr_equal(more->producer, add);
    assert_int_equal(more->output_index, 2);
    test_verify(model);
    Value *other = value_new(model->graph, test_name(model, "other"));
    node_set_output(add, 2, other);
    assert_null(more->producer);
    assert_ptr_equal(other->producer, add);
    node_set_output(add, 2, NULL);
    assert_null(other->producer);
    node_resize_outputs(relu, 0);
    assert_null(model->graph->outputs.items[1]->use.value->producer);
    node_resize_outputs(add, 1);
    assert_ptr_equal(add->outputs[0]->producer, add);
    uint64_t edits = model->edits;
    node_resize_outputs(add, 1);
    assert_int_equal(model->edits, edits);
    model_free(model);
}

/* Many that come one by one take no more than twice the memory of those that come at once, and inputs keep
 * their numbers in a row. */
TEST(test_operands_come_one_by_one) {
    enum { MANY = 20000 };
    Model *model = test_model(small);
    Node *mul = test_node(model->graph, "b"), *add = test_node(model->graph, "a");
    Value *x = test_value(model->graph, "x");
    const uint64_t before = model->parts.used;
    for (uint32_t i = 2; i < MANY; i++) {
        node_resize_inputs(mul, i + 1);
        node_set_input(mul, i, x);
        if (i % 1000 == 0) node_resize_inputs(add, 2 + i % 2000 / 1000); /* numbers between */
        node_resize_outputs(mul, i);
    }
    assert_in_range(model->parts.used - before, MANY, 8 * MANY * (sizeof(Use) + sizeof(Value *)));
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(mul->inputs[i].node, mul);
        assert_int_equal(mul->inputs[i].index, i);
        assert_int_equal(mul->inputs[i].id, mul->inputs[0].id + i);
    }
    assert_in_range(mul->inputs[0].id + MANY, MANY, model->use_count);
    node_resize_outputs(mul, 1);
    node_resize_outputs(mul, 3); /* in the same memory: what was dropped does not come back */
    assert_null(mul->outputs[2]);
    test_verify(model);
    model_free(model);
}

TEST(test_uses_move) {
    Model *model = test_model(nested);
    Value *p = test_value(model->graph, "p"), *x = test_value(model->graph, "x");
    assert_int_equal(p->use_count, 3); /* two levels down, too */
    assert_int_equal(x->use_count, 2);
    uint64_t edits = model->edits;
    value_replace_uses(p, x);
    assert_null(p->uses);
    assert_int_equal(x->use_count, 5);
    assert_int_equal(model->edits, edits + 3);
    test_verify(model);
    value_replace_uses(p, x); /* nothing left to do */
    use_set(x->uses, x);
    assert_int_equal(model->edits, edits + 3);
    Value *y = model->graph->outputs.items[0]->use.value;
    value_replace_uses(y, x);
    assert_ptr_equal(model->graph->outputs.items[0]->use.value, x);
    test_verify(model);
    model_free(model);
}

TEST(test_names) {
    Model *model = test_model(small);
    Value *a = test_value(model->graph, "a"), *b = test_value(model->graph, "b");
    Sym name = a->name, other = b->name;
    value_swap_names(a, b);
    assert_ptr_equal(a->name, other);
    assert_ptr_equal(b->name, name);
    assert_int_equal(model->edits, 1);
    value_rename(a, other);
    assert_int_equal(model->edits, 1);
    value_rename(a, sym_fresh(&model->syms, "a"));
    assert_string_equal(sym_text(a->name), "a_1");
    assert_int_equal(model->edits, 2);
    test_verify(model);
    model_free(model);
}

TEST(test_remove_node) {
    Model *model = test_model(nested);
    Graph *graph = model->graph;
    Value *p = test_value(graph, "p"), *x = test_value(graph, "x"), *c = test_value(graph, "c");
    Value *y = test_value(graph, "y");
    value_add_info(y);
    value_replace_uses(y, p);
    assert_int_equal(p->use_count, 4);
    node_remove(y->producer);
    assert_null(y->producer);
    assert_null(y->info);
    assert_int_equal(graph->infos.count, 0);
    assert_int_equal(p->use_count, 1); /* the graph's output; the captures are gone */
    assert_int_equal(x->use_count, 1);
    assert_int_equal(c->use_count, 0);
    assert_int_equal(graph->node_count, 1);
    assert_ptr_equal(graph->last, p->producer);
    test_verify(model);
    value_replace_uses(p, x);
    node_remove(p->producer);
    assert_null(graph->first);
    assert_null(graph->last);
    test_verify(model);
    model_free(model);
}

TEST(test_remove_branch_output) {
    Model *model = test_model("g (bool c, float[3] x) => (float[3] x) {\n"
                              "    y = If (c) <then_branch = t () => (float[3] x) {},\n"
                              "                else_branch = e () => (float[3] x) {}>\n"
                              "}\n");
    Value *x = test_value(model->graph, "x");
    assert_int_equal(x->use_count, 3); /* outputs of all three graphs */
    node_remove(test_node(model->graph, "y"));
    assert_int_equal(x->use_count, 1);
    test_verify(model);
    model_free(model);
}

TEST(test_move_node) {
    Model *model = test_model("g (float[3] x) => (float[3] a, float[3] b, float[3] c)\n"
                              "{ a = Abs (x)  b = Neg (x)  c = Exp (x) }\n");
    Graph *graph = model->graph;
    Node *a = test_node(graph, "a"), *b = test_node(graph, "b"), *c = test_node(graph, "c");
    node_move_before(c, a);
    assert_ptr_equal(graph->first, c);
    assert_ptr_equal(graph->last, b);
    node_move_before(c, NULL);
    assert_ptr_equal(graph->last, c);
    assert_ptr_equal(graph->first, a);
    assert_int_equal(model->edits, 2);
    node_move_before(a, b);
    node_move_before(a, a);
    node_move_before(c, NULL);
    assert_int_equal(model->edits, 2);
    assert_int_equal(graph->node_count, 3);
    test_verify(model);
    model_free(model);
}

TEST(test_move_out) {
    Model *model = test_model(
        "g (bool c, float[3] x) => (float[3] y) {\n"
        "  y = If (c) <then_branch = t () => (float[3] q) <float[3] w = {1, 2, 3}, float[3] p,\n"
        "              sparse_tensor[3] k = {float[1] {4}, int64[1] {2}}> {\n"
        "    p = Add (x, w)\n"
        "    q = If (c) <then_branch = u () => (float[3] r) { r = Neg (p) },\n"
        "                else_branch = v () => (float[3] s) { s = Abs (p) }>\n"
        "  }, else_branch = e () => (float[3] z) { z = Identity (x) }>\n"
        "}\n");
    Graph *graph = model->graph;
    Node *outer = test_node(graph, "y");
    Graph *branch = attr_graph(node_attr(outer, "then_branch"));
    Node *inner = test_node(branch, "q");
    graph_move_out(branch, outer);
    assert_int_equal(branch->node_count, 0);
    assert_int_equal(branch->initializers.count, 0);
    assert_int_equal(graph->node_count, 3);
    assert_ptr_equal(graph->last, outer);
    assert_ptr_equal(test_value(graph, "w")->graph, graph);
    assert_int_equal(graph->sparse_initializers.count, 1);
    assert_ptr_equal(inner->graph, graph);
    assert_ptr_equal(attr_graph(node_attr(inner, "then_branch"))->parent, graph);
    assert_int_equal(graph->infos.count, 1); /* of p, which lies here now */
    value_replace_uses(test_value(graph, "y"), inner->outputs[0]);
    value_swap_names(outer->outputs[0], inner->outputs[0]);
    node_remove(outer);
    test_verify(model);
    model_free(model);
}

/* What was the second output of a node is nobody's second one any more. */
TEST(test_output_becomes_constant) {
    Model *model = test_model("g (float[4] x) => (float[2] y)\n"
                              "{ a, b = Split <num_outputs = 2> (x)  y = Neg (b) }\n");
    Value *b = test_value(model->graph, "b");
    const int64_t two = 2;
    const float data[] = {1, 2};
    assert_int_equal(b->output_index, 1);
    node_remove(b->producer);
    value_set_init(b, tensor_new_raw(&model->arena, DTYPE_FLOAT, &two, 1, data, sizeof data));
    assert_int_equal(b->output_index, 0);
    test_verify(model);
    model_free(model);
}

TEST(test_initializers) {
    Model *model = test_model("g (float x, float d = {7}) => (float y)\n"
                              "<float u = {1}, float v = {2}, float w = {3}>\n"
                              "{ y = Sum (x, d, u, v, w) }\n");
    Graph *graph = model->graph;
    Value *u = test_value(graph, "u"), *v = test_value(graph, "v"), *d = test_value(graph, "d");
    const Tensor *seven = tensor_new_float_scalar(&model->arena, 7.0f);
    size_t count = graph->initializers.count;
    value_set_init(v, seven);
    assert_int_equal(graph->initializers.count, count);
    assert_ptr_equal(v->init, seven);
    test_verify(model);
    node_resize_inputs(test_node(graph, "y"), 2);
    value_set_init(u, NULL);
    assert_null(u->init);
    assert_int_equal(graph->initializers.count, count - 1);
    for (size_t i = 0; i < graph->initializers.count; i++)
        assert_ptr_not_equal(graph->initializers.items[i], u);
    value_add_info(v);
    graph_remove_initializer(v);
    assert_null(v->info);
    assert_null(v->init);
    value_add_info(d);
    graph_remove_initializer(d); /* also an input: that stays, and what is declared of it */
    assert_null(d->init);
    assert_non_null(d->info);
    assert_non_null(d->input);
    assert_int_equal(graph->initializers.count, count - 3);
    assert_int_equal(graph->inputs.count, 2);
    test_verify(model);
    value_set_init(u, seven);
    assert_ptr_equal(graph->initializers.items[graph->initializers.count - 1], u);
    test_verify(model);
    model_free(model);
}

TEST(test_sparse_initializer) {
    Model *model = test_model(small);
    Graph *graph = model->graph;
    Value *sparse = value_new(graph, test_name(model, "sparse"));
    sparse->sparse_init = ARENA_NEW(&model->arena, SparseTensor);
    VEC_PUSH(&model->arena, &graph->sparse_initializers, sparse);
    test_verify(model);
    uint64_t edits = model->edits;
    graph_remove_initializer(sparse);
    assert_int_equal(graph->sparse_initializers.count, 0);
    assert_null(sparse->sparse_init);
    assert_true(model->edits > edits);
    model_free(model);
}

TEST(test_info) {
    Model *model = test_model(small);
    Graph *graph = model->graph;
    Value *a = test_value(graph, "a"), *b = test_value(graph, "b");
    assert_int_equal(graph->infos.count, 1);
    value_add_info(a);
    assert_int_equal(model->edits, 0);
    value_sync_info(a); /* agrees */
    value_sync_info(b); /* none */
    assert_int_equal(model->edits, 0);
    const Type *declared = a->info->type;
    value_set_type(a, type_with_dtype(&model->arena, a->type, DTYPE_FLOAT16));
    assert_int_equal(model->edits, 0);
    assert_int_equal(type_dtype(declared), DTYPE_FLOAT);
    value_sync_info(a);
    assert_int_equal(type_dtype(a->info->type), DTYPE_FLOAT16);
    assert_int_equal(a->info->type->rank, 2); /* the declared shape stays */
    assert_int_equal(model->edits, 1);
    value_set_type(a, type_new_wrapped(&model->arena, TYPE_SEQUENCE, a->type));
    value_sync_info(a); /* of another kind altogether */
    assert_int_equal(a->info->type->kind, TYPE_SEQUENCE);
    value_set_type(a, NULL);
    uint64_t edits = model->edits;
    value_sync_info(a); /* nothing is known */
    assert_int_equal(model->edits, edits);
    value_add_info(b);
    assert_ptr_equal(graph->infos.items[1], b);
    value_remove_info(a);
    assert_ptr_equal(graph->infos.items[0], b);
    assert_null(a->info);
    edits = model->edits;
    value_remove_info(a);
    assert_int_equal(model->edits, edits);
    model_free(model);
}

/* Many removals: the lists are in order and without holes afterwards. */
TEST(test_remove_many) {
    Model *model = test_model("g () => () {}");
    Graph *graph = model->graph;
    enum { COUNT = 50 };
    Value *constants[COUNT], *results[COUNT], *dead[COUNT];
    size_t dead_count = 0;
    for (int i = 0; i < COUNT; i++) {
        constants[i] = value_new(graph, sym_fresh(&model->syms, "c"));
        value_set_init(constants[i], tensor_new_float_scalar(&model->arena, (float)i));
        value_add_info(constants[i]);
        Node *node = node_new(graph, NULL, test_name(model, "Neg"), NULL);
        node_resize_inputs(node, 1);
        node_set_input(node, 0, constants[i]);
        node_resize_outputs(node, 1);
        node_set_output(node, 0, results[i] = value_new(graph, sym_fresh(&model->syms, "r")));
        value_add_info(results[i]);
    }
    for (int i = 0; i < COUNT; i += 2) {
        node_remove_unswept(results[i]->producer);
        assert_null(constants[i]->uses);
        dead[dead_count++] = constants[i];
    }
    graph_sweep(graph);
    assert_int_equal(graph->infos.count, COUNT + COUNT / 2);
    graph_remove_initializers(graph, dead, dead_count);
    assert_int_equal(graph->infos.count, COUNT);
    assert_int_equal(graph->initializers.count, COUNT / 2);
    for (int i = 0; i < COUNT / 2; i++) {
        assert_ptr_equal(graph->initializers.items[i], constants[2 * i + 1]);
        assert_ptr_equal(graph->infos.items[2 * i], constants[2 * i + 1]);
        assert_ptr_equal(graph->infos.items[2 * i + 1], results[2 * i + 1]);
    }
    test_verify(model);
    model_free(model);
}

/* In a batch, lists keep what was taken out until it ends; who comes back comes last, as ever. */
TEST(test_remove_in_batch) {
    Model *model = test_model("g () => () {}");
    Graph *graph = model->graph;
    Arena scratch;
    Value *values[4];
    arena_init(&scratch, &test_trap);
    for (int i = 0; i < 4; i++) {
        values[i] = value_new(graph, sym_fresh(&model->syms, "c"));
        value_set_init(values[i], tensor_new_float_scalar(&model->arena, (float)i));
        value_add_info(values[i]);
    }
    model_batch_removals(model);
    value_set_init(values[0], NULL);
    value_remove_info(values[0]);
    graph_remove_initializer(values[2]);
    assert_int_equal(graph->initializers.count, 4);
    assert_int_equal(graph->infos.count, 4);
    value_set_init(values[0], tensor_new_float_scalar(&model->arena, 5));
    value_add_info(values[0]);
    value_set_init(values[1], NULL);
    model_sweep(model, &scratch);
    assert_int_equal(graph->initializers.count, 2);
    assert_ptr_equal(graph->initializers.items[0], values[3]);
    assert_ptr_equal(graph->initializers.items[1], values[0]);
    assert_int_equal(graph->infos.count, 3);
    assert_ptr_equal(graph->infos.items[2], values[0]);
    value_set_init(values[3], NULL);
    assert_int_equal(graph->initializers.count, 1);
    arena_free(&scratch);
    model_free(model);
}

TEST(test_share_lists) {
    Model *model = test_model("g () => () {}");
    Node *nodes[3];
    for (int i = 0; i < 3; i++)
        nodes[i] = node_new(model->graph, NULL, test_name(model, "Cast"), NULL);
    node_set_attr_int(nodes[0], "to", 1);
    node_add_metadata(nodes[0], "key", "value");
    node_share_lists(nodes[1], nodes[0]);
    node_share_lists(nodes[2], nodes[1]);
    assert_ptr_equal(nodes[2]->attrs, nodes[0]->attrs);
    node_set_attr_int(nodes[0], "to", 10); /* also the first one leaves the others alone */
    node_add_metadata(nodes[1], "more", "value");
    node_remove_attr(nodes[1], "to");
    assert_int_equal(node_attr_int(nodes[0], "to", 0), 10);
    assert_null(node_attr(nodes[1], "to"));
    assert_int_equal(node_attr_int(nodes[2], "to", 0), 1);
    assert_null(node_metadata(nodes[0], "more"));
    assert_null(node_metadata(nodes[2], "more"));
    assert_non_null(node_metadata(nodes[1], "key"));
    assert_non_null(node_metadata(nodes[2], "key"));
    model_free(model);
}

TEST(test_declarations) {
    Model *model = test_model(small);
    Graph *graph = model->graph;
    Value *x = test_value(graph, "x"), *y = test_value(graph, "y");
    value_declare_input(x, DTYPE_FLOAT);
    graph_declare_output(graph, 0, DTYPE_FLOAT);
    assert_int_equal(model->edits, 0);
    value_declare_input(x, DTYPE_BFLOAT16);
    graph_declare_output(graph, 1, DTYPE_FLOAT16);
    assert_int_equal(model->edits, 2);
    assert_int_equal(type_dtype(x->input->type), DTYPE_BFLOAT16);
    assert_int_equal(x->input->type->rank, 2);
    assert_int_equal(type_dtype(x->type), DTYPE_FLOAT); /* what is known is another matter */
    assert_int_equal(type_dtype(graph->outputs.items[1]->decl->type), DTYPE_FLOAT16);
    assert_int_equal(type_dtype(graph->outputs.items[0]->decl->type), DTYPE_FLOAT);
    uint32_t uses = y->use_count;
    ValueDecl *decl = ARENA_NEW(&model->arena, ValueDecl);
    GraphOutput *output = graph_add_output(graph, y, decl);
    assert_int_equal(output->use.index, 2);
    assert_int_equal(y->use_count, uses + 1);
    assert_int_equal(model->edits, 3);
    test_verify(model);
    model_free(model);
}

/* ---- random sequences ------------------------------------------------------------------------ */

enum { VALUES = 6, NODES = 5, INPUTS = 7, STEPS = 4000 };

typedef struct Shadow {
    Model *model;
    Value *values[VALUES];
    Node *nodes[NODES];
    int reads[NODES][INPUTS]; /* value index, -1: omitted */
    uint32_t counts[NODES];
    uint64_t random;
} Shadow;

static void shadow_compare(const Shadow *s) {
    uint32_t uses[VALUES] = {0};
    for (size_t n = 0; n < NODES; n++) {
        assert_int_equal(s->nodes[n]->input_count, s->counts[n]);
        for (uint32_t i = 0; i < s->counts[n]; i++) {
            const Use *use = &s->nodes[n]->inputs[i];
            Value *wanted = s->reads[n][i] < 0 ? NULL : s->values[s->reads[n][i]];
            assert_ptr_equal(use->value, wanted);
            assert_ptr_equal(use->node, s->nodes[n]);
            if (wanted) uses[s->reads[n][i]]++;
        }
    }
    for (size_t v = 0; v < VALUES; v++) {
        uint32_t seen = 0;
        const Use *previous = NULL;
        for (const Use *use = s->values[v]->uses; use; previous = use, use = use->next, seen++) {
            assert_ptr_equal(use->prev, previous);
            assert_ptr_equal(use->value, s->values[v]);
            assert_ptr_equal(use, &use->node->inputs[use->index]); /* no stale place */
        }
        assert_int_equal(seen, uses[v]);
        assert_int_equal(s->values[v]->use_count, uses[v]);
    }
}

static void shadow_resize(Shadow *s, size_t n) {
    uint32_t count = test_random(&s->random, INPUTS + 1);
    for (uint32_t i = s->counts[n]; i < count; i++) s->reads[n][i] = -1;
    s->counts[n] = count;
    node_resize_inputs(s->nodes[n], count);
}

static void shadow_set(Shadow *s, size_t n) {
    if (!s->counts[n]) return;
    uint32_t i = test_random(&s->random, s->counts[n]);
    int v = (int)test_random(&s->random, VALUES + 1) - 1;
    s->reads[n][i] = v;
    node_set_input(s->nodes[n], i, v < 0 ? NULL : s->values[v]);
}

static void shadow_replace(Shadow *s) {
    int from = (int)test_random(&s->random, VALUES), to = (int)test_random(&s->random, VALUES);
    if (from == to) return;
    for (size_t n = 0; n < NODES; n++)
        for (uint32_t i = 0; i < s->counts[n]; i++)
            if (s->reads[n][i] == from) s->reads[n][i] = to;
    value_replace_uses(s->values[from], s->values[to]);
}

static void shadow_renew(Shadow *s, size_t n) {
    node_remove(s->nodes[n]);
    s->nodes[n] = node_new(s->model->graph, NULL, test_name(s->model, "Sum"), NULL);
    s->counts[n] = 0;
}

TEST(test_random_edits) {
    static Shadow s; /* static: not lost in a jump */
    s = (Shadow){.model = model_new(&test_trap), .random = 42};
    model_import_opset(s.model, &s.model->opsets, test_name(s.model, ""), 21);
    for (size_t v = 0; v < VALUES; v++) {
        char name[8];
        snprintf(name, sizeof name, "v%zu", v);
        s.values[v] = value_new(s.model->graph, test_name(s.model, name));
        s.values[v]->input = ARENA_NEW(&s.model->arena, ValueDecl);
        VEC_PUSH(&s.model->arena, &s.model->graph->inputs, s.values[v]);
    }
    for (size_t n = 0; n < NODES; n++)
        s.nodes[n] = node_new(s.model->graph, NULL, test_name(s.model, "Sum"), NULL);
    for (unsigned step = 0; step < STEPS; step++) {
        size_t n = test_random(&s.random, NODES);
        uint32_t what = test_random(&s.random, 20);
        if (what < 5)
            shadow_resize(&s, n);
        else if (what < 17)
            shadow_set(&s, n);
        else if (what < 18)
            shadow_replace(&s);
        else if (what < 19)
            shadow_renew(&s, n);
        else
            node_move_before(s.nodes[n], s.nodes[test_random(&s.random, NODES)]);
        shadow_compare(&s);
    }
    test_verify(s.model);
    model_free(s.model);
}
