// SPDX-License-Identifier: Apache-2.0
/* Nodes out of order: each case's order afterwards, and random graphs, shuffled, which must be sound
 * again and have nothing moved that was right. */
#include "node_order.h"

#include "test_model.h"

static bool order(Model *model) {
    Arena scratch;
    arena_init(&scratch, &test_trap);
    bool changed = model_order_nodes(model, &scratch);
    arena_free(&scratch);
    return changed;
}

/* The first outputs of the graph's nodes, in their order. */
static void expect_order(const Graph *graph, const char *expected) {
    char line[256] = "";
    for (const Node *node = graph->first; node; node = node->next) {
        strcat(line, node == graph->first ? "" : " ");
        strcat(line, sym_text(node->outputs[0]->name));
    }
    assert_string_equal(line, expected);
}

TEST(test_cases) {
    static const struct {
        const char *text, *expected;
        bool changed;
    } cases[] = {
        /* what was right stays, also where another order would do */
        {"g (float x) => (float y) { a = Neg (x)\nb = Abs (x)\ny = Add (b, a) }", "a b y", false},
        /* as converters append casts: each goes where it is first read */
        {"g (float x) => (float y) {\na = Neg (p)\nb = Abs (q)\ny = Add (a, b)\np = Exp (x)\n"
         "q = Log (x) }",
         "p a q b y", true},
        {"g (float x) => (float y) {\ny = Add (a, b)\nb = Neg (x)\na = Abs (x) }", "b a y", true},
        /* a chain, backwards */
        {"g (float x) => (float y) {\ny = Neg (c)\nc = Neg (b)\nb = Neg (a)\na = Neg (x) }",
         "a b c y", true},
        /* read in a graph that a node holds, and as that graph's result alone */
        {"g (bool c, float x) => (float y) {\ny = If (c) <then_branch = t () => (float q) {\n"
         "q = Neg (p) }, else_branch = e () => (float p) { }>\np = Abs (x) }",
         "p y", true},
        /* read two graphs further in */
        {"g (bool c, float x) => (float y) {\ny = If (c) <then_branch = t () => (float q) {\n"
         "q = If (c) <then_branch = u () => (float r) { r = Neg (p) }, else_branch = v () => "
         "(float x) { }> }, else_branch = e () => (float x) { }>\np = Abs (x) }",
         "p y", true},
        /* twice, by one node */
        {"g (float x) => (float y) {\ny = Mul (a, a)\na, b = com.x.Two (x) }", "a y", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Model *model = test_model(cases[i].text);
        assert_int_equal(order(model), cases[i].changed);
        expect_order(model->graph, cases[i].expected);
        test_verify(model);
        assert_false(order(model));
        model_free(model);
    }
}

TEST(test_inner_graphs) {
    Model *model = test_model(
        "g (bool c, float x) => (float y) {\ny = If (c) <then_branch = t () => (float q) {\n"
        "q = Neg (r)\nr = Abs (x) }, else_branch = e () => (float s) { s = Neg (x) }> }\n"
        "<domain: \"com.x\", opset_import: [\"\" : 21]> F (a) => (z) {\nz = Neg (v)\n"
        "v = Abs (a) }\n");
    assert_true(order(model));
    expect_order(test_body(model->graph->first, "then_branch"), "r q");
    expect_order(model->functions.items[0]->body, "v z");
    test_verify(model);
    model_free(model);
}

/* Nodes that wait for each other have no order: model_verify says so, and the others have theirs. */
TEST(test_ring) {
    Model *model = test_model("g (float x) => (float y) {\na = Add (x, b)\nb = Neg (a)\n"
                              "y = Add (a, c)\nc = Abs (x) }");
    assert_true(order(model));
    Err err = {0};
    assert_false(model_verify(model, &test_arena, &err));
    assert_string_equal(err.what, "reads a value before it is computed");
    const Node *c = test_node(model->graph, "c");
    assert_ptr_equal(c->next, test_node(model->graph, "y"));
    model_free(model);
}

enum { NODES = 40, LINE = 128 };

/* Node `at` reads two before it, here and there in a graph that it holds. */
static void random_node(char line[LINE], uint32_t at, uint64_t *seed) {
    char read[2][8] = {"x", "x"};
    for (int i = 0; at && i < 2; i++)
        snprintf(read[i], sizeof read[i], "v%u", test_random(seed, at));
    if (test_random(seed, 4))
        snprintf(line, LINE, "v%u = Add (%s, %s)\n", at, read[0], read[1]);
    else
        snprintf(line, LINE,
                 "v%u = If (c) <then_branch = t () => (float q%u) { q%u = Neg (%s) }, "
                 "else_branch = e () => (float %s) { }>\n",
                 at, at, at, read[0], read[1]);
}

static Model *model_of_lines(char (*lines)[LINE]) {
    static char text[NODES * LINE + LINE];
    size_t length = (size_t)snprintf(text, sizeof text, "g (bool c, float x) => (float v39) {\n");
    for (int i = 0; i < NODES; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s", lines[i]);
    snprintf(text + length, sizeof text - length, "}");
    return test_model(text);
}

TEST(test_shuffled) {
    uint64_t seed = 14;
    for (int round = 0; round < 300; round++) {
        char lines[NODES][LINE], line[LINE];
        for (uint32_t i = 0; i < NODES; i++) random_node(lines[i], i, &seed);
        Model *model = model_of_lines(lines);
        assert_false(order(model));
        model_free(model);
        for (uint32_t i = NODES; i > 1; i--) {
            uint32_t other = test_random(&seed, i);
            memcpy(line, lines[i - 1], LINE);
            memcpy(lines[i - 1], lines[other], LINE);
            memcpy(lines[other], line, LINE);
        }
        model = model_of_lines(lines);
        order(model);
        test_verify(model);
        assert_int_equal(model->graph->node_count, NODES);
        assert_false(order(model));
        model_free(model);
    }
}

/* As deep as a graph may be long: what waits lies on no stack of calls. */
TEST(test_long_chain) {
    enum { LENGTH = 300000 };
    Model *model = test_model("g (float x) => (float y) { y = Neg (x) }");
    Node *last = model->graph->first;
    for (int i = 0; i < LENGTH; i++) { /* each behind the one that reads it */
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        Node *node = node_new(model->graph, NULL, last->op_type, NULL);
        node_resize_inputs(node, 1);
        node_resize_outputs(node, 1);
        node_set_output(node, 0, value_new(model->graph, test_name(model, name)));
        node_set_input(last, 0, node->outputs[0]);
        last = node;
    }
    node_set_input(last, 0, test_value(model->graph, "x"));
    assert_true(order(model));
    assert_ptr_equal(model->graph->first, last);
    test_verify(model);
    model_free(model);
}
