// SPDX-License-Identifier: Apache-2.0
/* Each invariant of a model broken once: verify must find it and name what is broken and where. */
#include <stdio.h>

#include "test_model.h"

static const char text[] =
    "g (bool c, float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> {\n"
    "    p = Add (x, w)\n"
    "    [cond] b = If (c) <then_branch = t () => (float[3] q) { q = Neg (p) },\n"
    "                       else_branch = e () => (float[3] r) { r = Abs (p) }>\n"
    "    [last] y = Mul (b, b)\n"
    "}\n"
    "<domain: \"com.x\", opset_import: [\"\" : 21]> F (a) => (z) { z = Neg (a) }\n";

typedef struct Parts {
    Model *model;
    Graph *graph, *then_branch, *else_branch;
    Node *add, *cond, *last;
    Value *c, *x, *w, *p, *b, *y;
} Parts;

static Parts parts(void) {
    Parts s = {.model = test_model(text)};
    s.graph = s.model->graph;
    s.c = test_value(s.graph, "c");
    s.x = test_value(s.graph, "x");
    s.w = test_value(s.graph, "w");
    s.p = test_value(s.graph, "p");
    s.b = test_value(s.graph, "b");
    s.y = test_value(s.graph, "y");
    s.add = s.p->producer;
    s.cond = s.b->producer;
    s.last = s.y->producer;
    s.then_branch = test_body(s.cond, "then_branch");
    s.else_branch = test_body(s.cond, "else_branch");
    return s;
}

static void twice_an_input(Parts *s) {
    value_rename(s->p, s->x->name);
}
static void twice_an_initializer(Parts *s) {
    value_rename(s->w, s->b->name);
}
static void twice_an_output(Parts *s) {
    value_rename(s->y, s->p->name);
}
static void no_name(Parts *s) {
    value_rename(s->p, test_name(s->model, ""));
}
static void before_computed(Parts *s) {
    node_move_before(s->last, s->cond);
}
static void nothing_defines(Parts *s) {
    node_set_input(s->last, 1, value_new(s->graph, test_name(s->model, "ghost")));
}
static void captured_later(Parts *s) {
    node_set_input(s->then_branch->first, 0, s->y);
}
static void sibling(Parts *s) {
    node_set_input(s->else_branch->first, 0, s->then_branch->first->outputs[0]);
}
static void inner_value(Parts *s) {
    node_set_input(s->last, 0, s->then_branch->first->outputs[0]);
}
static void function_captures(Parts *s) {
    node_set_input(s->model->functions.items[0]->body->first, 0, s->x);
}
static void output_of_sibling(Parts *s) {
    use_set(&s->else_branch->outputs.items[0]->use, s->then_branch->first->outputs[0]);
}
static void output_undefined(Parts *s) {
    use_set(&s->graph->outputs.items[0]->use, value_new(s->graph, test_name(s->model, "ghost")));
}
static void output_index(Parts *s) {
    s->graph->outputs.items[0]->use.index = 1;
}
static void output_without_value(Parts *s) {
    use_set(&s->graph->outputs.items[0]->use, NULL);
}
static void use_count(Parts *s) {
    s->p->use_count++;
}
static void use_lost(Parts *s) {
    s->p->uses = s->p->uses->next;
    s->p->uses->prev = NULL;
}
static void use_back_link(Parts *s) {
    s->b->uses->next->prev = NULL;
}
static void use_cycle(Parts *s) {
    s->b->uses->next->next = s->b->uses;
}
static void use_of_other(Parts *s) {
    s->p->uses->value = s->x;
}
static void use_index(Parts *s) {
    s->last->inputs[1].index = 0;
}
static void use_node(Parts *s) {
    s->last->inputs[1].node = s->add;
}
static void output_graph(Parts *s) {
    s->graph->outputs.items[0]->graph = s->then_branch;
}
static void producer(Parts *s) {
    s->p->producer = s->last;
}
static void output_position(Parts *s) {
    s->p->output_index = 1;
}
static void value_graph(Parts *s) {
    s->then_branch->first->outputs[0]->graph = s->graph;
}
static void node_back_link(Parts *s) {
    s->last->prev = s->add;
}
static void node_count(Parts *s) {
    s->graph->node_count++;
}
static void node_last(Parts *s) {
    s->graph->last = s->cond;
}
static void node_graph(Parts *s) {
    s->last->graph = s->then_branch;
}
static void node_id(Parts *s) {
    s->last->id = s->model->node_count;
}
static void value_id(Parts *s) {
    s->y->id = s->model->value_count;
}
static void subgraph_owner(Parts *s) {
    s->then_branch->owner = s->last;
}
static void subgraph_parent(Parts *s) {
    s->then_branch->parent = s->else_branch;
}
static void short_initializer(Parts *s) {
    const int64_t dims[] = {4};
    value_set_init(s->w,
                   tensor_new_raw(&s->model->arena, DTYPE_FLOAT, dims, 1, "123456789012", 12));
}
static void short_attribute(Parts *s) {
    const int64_t dims[] = {4};
    node_set_attr_tensor(s->add, "value",
                         tensor_new_raw(&s->model->arena, DTYPE_FLOAT, dims, 1, "12345678", 8));
}

static const struct Breakage {
    void (*apply)(Parts *parts);
    const char *line; /* of the error */
} breakages[] = {
    {twice_an_input, "value 'x': name is defined twice"},
    {twice_an_initializer, "value 'b': name is defined twice"},
    {twice_an_output, "value 'p': name is defined twice"},
    {no_name, "value '': a value has no name"},
    {before_computed, "node 'last' (Mul), input 0 'b': reads a value before it is computed"},
    {nothing_defines, "node 'last' (Mul), input 1 'ghost': reads an undefined value"},
    {captured_later,
     "graph 'cond/then_branch': node 'q' (Neg), input 0 'y': reads a value before it "
     "is computed"},
    {sibling, "graph 'cond/else_branch': node 'r' (Abs): internal: input 0 is out of scope"},
    {inner_value, "node 'last' (Mul): internal: input 0 is out of scope"},
    {function_captures, "graph 'function F': node 'z' (Neg): internal: input 0 is out of scope"},
    {output_of_sibling,
     "graph 'cond/else_branch': value 'q': internal: graph output is out of scope"},
    {output_undefined, "value 'ghost': graph output is an undefined value"},
    {output_index, "internal: graph output is linked wrongly"},
    {output_without_value, "internal: graph output is linked wrongly"},
    {use_count, "value 'p': internal: wrong use count"},
    {use_lost, "value 'p': internal: wrong use count"},
    {use_back_link, "value 'b': internal: broken use list"},
    {use_cycle, "value 'b': internal: broken use list"},
    {use_of_other, "value 'p': internal: broken use list"},
    {use_index, "node 'last' (Mul): internal: input 1 is linked wrongly"},
    {use_node, "node 'last' (Mul): internal: input 1 is linked wrongly"},
    {output_graph, "internal: graph output is linked wrongly"},
    {producer, "node 'p' (Add): internal: output 0 is linked wrongly"},
    {output_position, "node 'p' (Add): internal: output 0 is linked wrongly"},
    {value_graph, "graph 'cond/then_branch': node 'q' (Neg): internal: output 0 is linked wrongly"},
    {node_back_link, "node 'last' (Mul): internal: node is linked wrongly"},
    {node_count, "internal: wrong node count"},
    {node_last, "internal: wrong node count"},
    {node_graph, "node 'last' (Mul): internal: node is linked wrongly"},
    {node_id, "node 'last' (Mul): internal: node id out of range"},
    {value_id, "value 'y': internal: value id out of range"},
    {subgraph_owner, "node 'cond' (If): internal: subgraph has the wrong owner"},
    {subgraph_parent, "node 'cond' (If): internal: subgraph has the wrong owner"},
    {short_initializer, "initializer 'w': data length does not match the tensor's shape and type: "
                        "expected 16 bytes, got 12"},
    {short_attribute, "node 'p' (Add), attribute 'value': data length does not match the tensor's "
                      "shape and type: expected 16 bytes, got 8"},
};

TEST(test_breakages) {
    for (size_t i = 0; i < sizeof breakages / sizeof *breakages; i++) {
        Err err = {0};
        char line[1024];
        Parts s = parts();
        test_verify(s.model);
        breakages[i].apply(&s);
        bool ok = model_verify(s.model, &test_arena, &err);
        err_format(&err, line, sizeof line);
        if (ok) fail_msg("not found: %s", breakages[i].line);
        if (!strstr(line, breakages[i].line))
            fail_msg("'%s' instead of '%s'", line, breakages[i].line);
        assert_int_equal(err.code, ERR_MODEL);
        arena_free(&test_arena);
        model_free(s.model);
    }
}

/* What is unusual but sound. */
TEST(test_sound_models) {
    static const char *const texts[] = {
        "g () => () {}\n",
        "g (float x) => (float x) {}\n",
        "g (float x) => (float y, float y) { y = Neg (x) }\n",
        "g (float x = {1}) => (float y) { y = Neg (x) }\n",
        "g (float x) => (float y) { y, = Dropout (x, , ) }\n",
        /* an inner graph may use a name again */
        ("g (bool c, float x) => (float y) { y = If (c) <then_branch = t () => (float y) { x = Not "
         "(c)"
         " y = Cast <to = 1> (x) }, else_branch = e () => (float x) {}> }\n"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Model *model = test_model(texts[i]);
        test_verify(model);
        model_free(model);
    }
}
