// SPDX-License-Identifier: Apache-2.0
/* Plug-ins as their authors see them: every function of DemiApi on models given as text. */
#include "test_plugin.h"

/* ---- the table ------------------------------------------------------------------------------- */

/* Each function is there: a row that was forgotten would crash the first plug-in that calls it. */
static bool all_are_there(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    (void)run, (void)graph;
    assert_int_equal(api->size, sizeof *api);
    assert_int_equal(api->version, 1);
    assert_string_equal(api->demi_version, demi_version());
    for (size_t at = offsetof(DemiApi, fail); at < sizeof *api; at += sizeof(void *)) {
        void *function;
        memcpy(&function, (const char *)api + at, sizeof function);
        if (!function) fail_msg("the function at %zu is missing", at);
    }
    return true;
}

TEST(table_is_complete) {
    run_pass(all_are_there, CHAIN);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void read_attributes(const DemiApi *api, DemiPassRun *run, const DemiNode *node) {
    size_t size;
    assert_string_equal(api->attr_name(api->node_first_attr(node)), "i");
    assert_string_equal(api->attr_name(api->attr_next(api->node_first_attr(node))), "f");
    assert_int_equal(api->attr_int(api->node_attr(node, "i"), 9), 3);
    assert_int_equal(api->attr_int(api->node_attr(node, "f"), 9), 9);
    assert_true(api->attr_float(api->node_attr(node, "f"), 0) == 1.5);
    assert_int_equal(api->attr_type(api->node_attr(node, "f")), DEMI_ATTR_FLOAT);
    assert_int_equal(api->attr_type(api->node_attr(node, "none")), DEMI_ATTR_UNDEFINED);
    assert_string_equal(api->attr_string(run, api->node_attr(node, "s"), &size), "str");
    assert_int_equal(size, 3);
    assert_null(api->attr_string(run, api->node_attr(node, "i"), NULL));
    assert_int_equal(api->attr_count(api->node_attr(node, "is")), 2);
    assert_int_equal(api->attr_ints(api->node_attr(node, "is"))[1], 2);
    assert_true(api->attr_floats(api->node_attr(node, "fs"))[0] == 0.5f);
    assert_string_equal(api->attr_string_at(run, api->node_attr(node, "ss"), 1, NULL), "q");
    assert_null(api->attr_string_at(run, api->node_attr(node, "ss"), 2, NULL));
    assert_int_equal(api->tensor_count(api->attr_tensor(api->node_attr(node, "t"))), 2);
    assert_null(api->attr_parameter(api->node_attr(node, "i")));
}

static void read_first(const DemiApi *api, DemiPassRun *run, const DemiNode *node) {
    const char *symbol;
    assert_string_equal(api->node_op_type(node), "Op");
    assert_string_equal(api->node_domain(node), "com.x");
    assert_string_equal(api->node_name(node), "first");
    assert_false(api->node_is_known(node));
    assert_int_equal(api->node_input_count(node), 3);
    assert_null(api->node_input(node, 1));
    DemiValue *x = api->node_input(node, 0), *w = api->node_input(node, 2);
    assert_true(api->value_is_input(x) && !api->value_is_input(w));
    assert_true(api->value_is_initializer(w) && !api->value_is_initializer(x));
    assert_int_equal(api->type_rank(api->value_type(x)), 2);
    assert_int_equal(api->type_dim(api->value_type(x), 0, &symbol), -1);
    assert_string_equal(symbol, "N");
    assert_int_equal(api->type_dim(api->value_type(x), 1, &symbol), 3);
    assert_null(symbol);
    assert_int_equal(api->value_dtype(w), DEMI_FLOAT);
    assert_ptr_equal(api->value_initializer(w), api->value_constant(run, w));
    assert_int_equal(api->tensor_rank(api->value_initializer(w)), 2);
    assert_int_equal(api->tensor_dims(api->value_initializer(w))[1], 2);
    assert_int_equal(api->tensor_bytes(api->value_initializer(w)), 16);
    DemiUse *use = api->node_input_use(node, 2);
    assert_ptr_equal(api->use_value(use), w);
    assert_ptr_equal(api->use_node(use), node);
    assert_int_equal(api->use_index(use), 2);
    assert_ptr_equal(api->value_first_use(w), use);
    assert_null(api->use_next(use));
}

static void read_branches(const DemiApi *api, DemiPassRun *run, DemiNode *node, DemiValue *a) {
    DemiGraph *then_graph = api->attr_graph(api->node_attr(node, "then_branch"));
    DemiGraph *else_graph = api->attr_graph(api->node_attr(node, "else_branch"));
    DemiNode *call = api->graph_first(else_graph);
    assert_true(api->node_is_known(node));
    assert_ptr_equal(api->graph_owner(then_graph), node);
    assert_ptr_equal(api->graph_parent(then_graph), api->main_graph(run));
    assert_string_equal(api->graph_name(then_graph), "th");
    assert_int_equal(api->value_use_count(a), 2);
    assert_ptr_equal(api->node_input(call, 0), a);
    DemiFunction *function = api->called_function(run, call);
    assert_ptr_equal(function, api->function_at(run, 0));
    assert_int_equal(api->function_count(run), 1);
    assert_string_equal(api->function_name(function), "F");
    assert_string_equal(api->function_domain(function), "com.x");
    assert_ptr_equal(api->graph_function(api->function_body(function)), function);
    assert_null(api->called_function(run, node));
    assert_true(api->value_is_output(api->node_output(call, 0)));
    assert_null(api->use_node(api->value_first_use(api->node_output(call, 0))));
}

static bool read_all(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    size_t count;
    DemiNode *first = api->graph_first(graph), *second = api->node_next(first);
    DemiValue *a = api->node_output(first, 0);
    assert_ptr_equal(graph, api->main_graph(run));
    assert_non_null(api->graphs(run, &count));
    assert_int_equal(count, 4);
    assert_int_equal(api->ir_version(run), 8);
    assert_string_equal(api->model_metadata(run, "k"), "v");
    assert_null(api->model_metadata(run, "absent"));
    assert_int_equal(api->graph_opset(graph, ""), 17);
    assert_int_equal(api->graph_opset(graph, "com.x"), 2);
    assert_int_equal(api->graph_opset(graph, "com.y"), 0);
    assert_int_equal(api->graph_node_count(graph), 3);
    assert_int_equal(api->graph_input_count(graph), 2);
    assert_string_equal(api->value_name(api->graph_input(graph, 1)), "c");
    assert_int_equal(api->graph_output_count(graph), 2);
    assert_string_equal(api->value_name(api->use_value(api->graph_output(graph, 1))), "z");
    assert_int_equal(api->type_dtype(api->graph_output_type(graph, 1)), DEMI_INT64);
    assert_int_equal(api->graph_initializer_count(graph), 2);
    assert_string_equal(api->value_name(api->graph_initializer(graph, 1)), "n");
    assert_ptr_equal(api->graph_find_value(graph, "a"), a);
    assert_null(api->graph_find_value(graph, "p"));
    assert_ptr_equal(api->value_producer(a), first);
    assert_ptr_equal(api->value_graph(a), graph);
    assert_ptr_equal(api->node_previous(second), first);
    assert_ptr_equal(api->node_previous(api->graph_last(graph)), second);
    assert_string_equal(api->node_label(second), "y");
    assert_int_equal(api->facts(run), 0);
    read_first(api, run, first);
    read_attributes(api, run, first);
    read_branches(api, run, second, a);
    return true;
}

TEST(everything_is_read) {
    run_pass(read_all, RICH);
    assert_int_equal(outcome.rewrites, 0);
}

static bool read_nothing(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    assert_null(api->node_next(NULL));
    assert_null(api->graph_first(NULL));
    assert_null(api->graph_input(graph, 100));
    assert_null(api->graph_output(graph, 100));
    assert_null(api->node_input(api->graph_first(graph), 100));
    assert_null(api->node_output(NULL, 0));
    assert_string_equal(api->node_op_type(NULL), "");
    assert_string_equal(api->value_name(NULL), "");
    assert_int_equal(api->value_dtype(NULL), DEMI_UNDEFINED);
    assert_int_equal(api->attr_int(NULL, 5), 5);
    assert_null(api->attr_next(NULL));
    assert_null(api->use_next(NULL));
    assert_int_equal(api->type_rank(NULL), 0);
    assert_int_equal(api->type_dim(NULL, 0, NULL), -1);
    assert_int_equal(api->tensor_count(NULL), 0);
    assert_null(api->value_constant(run, NULL));
    assert_null(api->function_at(run, 5));
    assert_int_equal(api->dtype_from_name("half"), DEMI_FLOAT16);
    assert_string_equal(api->dtype_name(DEMI_BFLOAT16), "bfloat16");
    assert_int_equal(api->dtype_bits(DEMI_INT4), 4);
    assert_int_equal(api->dtype_bits((DemiDtype)1000), 0);
    assert_false(api->failed(run));
    return true;
}

TEST(nothing_is_read_of_nothing) {
    run_pass(read_nothing, CHAIN);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool add_node(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    DemiNode *relu = api->graph_last(graph);
    DemiValue *h = api->node_input(relu, 0);
    DemiValue *inputs[] = {h, NULL, api->graph_initializer(graph, 0)};
    const char *const outputs[] = {"clipped"};
    DemiNewNode of = {DEMI_NEW_NODE_INIT, .op_type = "Clip", .name = "/clip",    .before = relu,
                      .inputs = inputs,   .input_count = 3,  .outputs = outputs, .output_count = 1};
    DemiNode *node = api->node_new(run, graph, &of);
    api->value_set_type(run, api->node_output(node, 0), api->value_type(h));
    api->node_set_input(run, relu, 0, api->node_output(node, 0));
    api->node_set_metadata(run, node, "made.by", "me");
    api->node_set_metadata(run, node, "made.by", "test");
    assert_string_equal(api->node_metadata(node, "made.by"), "test");
    api->model_set_metadata(run, "touched", "yes");
    api->rewrote(run, 2);
    return true;
}

TEST(nodes_are_added) {
    run_pass(add_node, CHAIN);
    expect_model("clipped = Clip (h, \"\", w)");
    expect_model("Relu (clipped)");
    expect_model("\"made.by\": \"test\"");
    expect_model("\"touched\": \"yes\"");
    assert_int_equal(outcome.rewrites, 2);
}

static bool change_nodes(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    DemiNode *add = api->graph_first(graph), *relu = api->graph_last(graph);
    api->node_set_name(run, add, "renamed");
    api->node_set_op(run, add, NULL, "Mul");
    api->graph_import(run, graph, "com.y", 3);
    api->graph_import(run, graph, "com.y", 3);
    api->node_set_op(run, relu, "com.y", "Act");
    api->node_set_input(run, relu, 1, api->graph_input(graph, 0));
    api->node_set_input_count(run, relu, 4);
    api->node_set_input_count(run, relu, 3);
    assert_non_null(api->node_add_output(run, relu, "extra"));
    assert_non_null(api->node_add_output(run, relu, "extra"));
    api->node_omit_output(run, relu, 1);
    api->value_rename(run, api->node_output(add, 0), "sum");
    return true;
}

TEST(nodes_are_changed) {
    run_pass(change_nodes, CHAIN);
    expect_model("[renamed] sum = Mul (x, w)");
    expect_model("y, \"\", extra_1 = com.y.Act (sum, x, \"\")");
    expect_model("\"com.y\" : 3");
}

static bool set_attributes(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    static const int64_t ints[] = {4, 5}, dims[] = {2};
    static const float floats[] = {0.25f};
    static const char *const strings[] = {"a", "b"};
    static const uint8_t bytes[] = {8, 9};
    DemiNode *node = api->graph_first(graph);
    const DemiTensor *tensor = api->tensor_new(run, DEMI_UINT8, dims, 1, bytes);
    api->node_set_int(run, node, "i", 1);
    api->node_set_int(run, node, "i", 2);
    api->node_set_float(run, node, "f", 0.5);
    api->node_set_string(run, node, "s", "text");
    api->node_set_ints(run, node, "is", ints, 2);
    api->node_set_floats(run, node, "fs", floats, 1);
    api->node_set_strings(run, node, "ss", strings, 2);
    api->node_set_tensor(run, node, "t", tensor);
    api->node_set_type(run, node, "tp", api->type_tensor(run, DEMI_INT8, NULL, NULL, 0));
    api->node_set_int(run, node, "gone", 1);
    api->node_remove_attr(run, node, "gone");
    return true;
}

TEST(attributes_are_set) {
    run_pass(set_attributes, CHAIN);
    static const char *const parts[] = {
        "<i = 2, f = 0.5, s = \"text\", is = [4, 5], fs = [0.25], ss = [\"a\", \"b\"]",
        "t = uint8[2] @raw {8, 9}, tp = int8[]> (x, w)"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) expect_model(parts[i]);
    assert_null(strstr(outcome.model.bytes, "gone"));
}

static bool move_back(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    return api->node_move(run, api->graph_last(graph), api->graph_first(graph));
}

TEST(order_is_verified) {
    describe(move_back);
    run_on(CHAIN, "test-pass");
    assert_int_equal(outcome.status, DEMI_ERR_MODEL);
    expect_error("pass 'test-pass' left the model invalid: reads a value before it is computed");
    assert_string_equal(outcome.error.node, "/b");
    assert_string_equal(outcome.error.hint, "the fault is in the program itself");
}

/* ---- uses ------------------------------------------------------------------------------------ */

static bool bypass_last(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    DemiNode *node = api->graph_last(graph);
    return api->value_replace(run, api->node_output(node, 0), api->node_input(node, 0)) &&
           api->node_remove(run, node);
}

/* An output keeps its name, whatever it comes from. */
TEST(outputs_keep_names) {
    run_pass(bypass_last, CHAIN);
    expect_model("y = Add (x, w)\n}");
    run_pass(bypass_last, HEAD "g (float x) => (float y) { y = Relu (x) }");
    expect_model("y = Identity (x)\n}");
    run_pass(bypass_last, HEAD "g (float x) => (float z, float y) { z = Abs (x) y = Relu (z) }");
    expect_model("z = Abs (x)\n  y = Identity (z)\n}");
    run_pass(bypass_last, HEAD "g (float x) => (float y) { t = Abs (x) y = If (x) <\n"
                               "then_branch = a () => (float p) { p = Relu (t) },\n"
                               "else_branch = b () => (float q) { q = Relu (t) }> }");
    expect_model("y = Identity (x)");
}

static bool bypass_each_last(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    DemiNode *last = api->graph_last(graph);
    return strcmp(api->node_op_type(last), "Relu") != 0 || bypass_last(api, run, graph);
}

/* Outputs of subgraphs go by position: they may be outer values. */
TEST(branches_need_no_names) {
    describe(bypass_each_last);
    described.pass.scope = DEMI_SCOPE_GRAPHS;
    run_on(HEAD "g (bool c, float x) => (float y) { t = Abs (x) y = If (c) <\n"
                "then_branch = a () => (float p) { p = Relu (t) },\n"
                "else_branch = b () => (float q) { s = Neg (t) q = Relu (s) }> }",
           "test-pass");
    assert_int_equal(outcome.status, DEMI_OK);
    assert_null(strstr(outcome.model.bytes, "Relu"));
    assert_null(strstr(outcome.model.bytes, "Identity"));
    expect_model("s = Neg (t)");
}

static bool set_output(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    return api->use_set(run, api->graph_output(graph, 0),
                        api->node_output(api->graph_first(graph), 0));
}

static bool set_reader(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    return api->use_set(run, api->node_input_use(api->graph_last(graph), 0),
                        api->graph_input(graph, 0));
}

TEST(single_uses_are_set) {
    run_pass(set_output, CHAIN);
    expect_model("y = Add (x, w)");
    expect_model("h = Relu (y)");
    run_pass(set_reader, CHAIN);
    expect_model("y = Relu (x)");
    describe(set_output);
    run_on(HEAD "g (float x) => (float y, float y) { h = Abs (x) y = Relu (h) }", "test-pass");
    expect_error("the value is an output twice");
    run_on(HEAD "g (float x) => (float x) { h = Abs (x) }", "test-pass");
    expect_error("an output that is also an input");
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool replace_constants(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    static const int64_t dims[] = {3}, wide[] = {1, 3};
    static const float numbers[] = {4, 5, 6};
    DemiNode *add = api->graph_first(graph);
    const DemiTensor *tensor = api->tensor_new(run, DEMI_FLOAT, dims, 1, numbers);
    DemiValue *old = api->node_input(add, 1);
    DemiValue *made = api->initializer_new(run, graph, "w", tensor);
    if (!made) return false;
    assert_string_equal(api->value_name(made), "w_1");
    assert_int_equal(api->value_dtype(made), DEMI_FLOAT);
    api->value_replace(run, old, made);
    api->initializer_remove(run, old);
    tensor = api->tensor_new(run, DEMI_FLOAT, wide, 2, numbers);
    return api->constant_set(run, made, api->tensor_new_cast(run, tensor, DEMI_FLOAT16));
}

TEST(constants_are_replaced) {
    run_pass(replace_constants, CHAIN);
    expect_model("float16[1,3] w_1 = ");
    assert_null(strstr(outcome.model.bytes, " w = "));
}

static bool add_to_bodies(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    static const float one = 1;
    if (!api->graph_function(graph)) return true;
    DemiNode *node = api->graph_last(graph);
    DemiValue *made =
        api->initializer_new(run, graph, NULL, api->tensor_new(run, DEMI_FLOAT, NULL, 0, &one));
    return api->node_set_op(run, node, NULL, "Add") && api->node_set_input(run, node, 1, made);
}

TEST(function_bodies_get_constant_nodes) {
    describe(add_to_bodies);
    described.pass.scope = DEMI_SCOPE_GRAPHS;
    run_on(RICH, "test-pass");
    assert_int_equal(outcome.status, DEMI_OK);
    expect_model("constant = Constant <value = float @raw {1}> ()\n");
    expect_model("v = Add (u, constant)");
}

static bool read_tensors(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    static const int64_t five[] = {5}, two[] = {2};
    static const uint8_t packed[] = {0x8f, 0x21, 0x07};
    static const int16_t shorts[] = {-1, 300};
    static const char *const words[] = {"one", "two"};
    int64_t ints[5];
    float floats[2];
    const DemiTensor *int4 = api->tensor_new(run, DEMI_INT4, five, 1, packed);
    assert_int_equal(api->tensor_bytes(int4), 3);
    assert_true(api->tensor_read_ints(run, int4, 0, 5, ints));
    assert_int_equal(ints[0], -1);
    assert_int_equal(ints[1], -8);
    assert_int_equal(ints[4], 7);
    assert_true(api->tensor_read_ints(run, int4, 3, 1, ints));
    assert_int_equal(ints[0], 2);
    const DemiTensor *int16 = api->tensor_new(run, DEMI_INT16, two, 1, shorts);
    assert_true(api->tensor_read_ints(run, int16, 0, 2, ints));
    assert_int_equal(ints[0], -1);
    assert_int_equal(ints[1], 300);
    const DemiTensor *w = api->value_initializer(api->graph_initializer(graph, 0));
    const DemiTensor *low = api->tensor_new_cast(run, w, DEMI_BFLOAT16);
    uint16_t bits;
    assert_true(api->tensor_read_floats(run, low, 1, 2, floats));
    assert_true(floats[0] == 2 && floats[1] == 3);
    assert_true(api->tensor_read(run, low, 2, &bits, 2));
    assert_int_equal(bits, 0x4000);
    const DemiTensor *text = api->tensor_new_strings(run, two, 1, words);
    assert_string_equal(api->tensor_string(run, text, 1, NULL), "two");
    assert_null(api->tensor_string(run, text, 2, NULL));
    assert_null(api->tensor_string(run, w, 0, NULL));
    assert_non_null(api->initializer_new(run, graph, "words", text));
    return true;
}

TEST(tensors_are_read) {
    run_pass(read_tensors, CHAIN);
    expect_model("string[2] words = {\"one\", \"two\"}");
}

/* ---- types and interfaces -------------------------------------------------------------------- */

static bool make_types(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    static const int64_t dims[] = {-1, 4, -1};
    static const char *const symbols[] = {"M", NULL, NULL};
    const DemiType *tensor = api->type_tensor(run, DEMI_FLOAT, dims, symbols, 3);
    const DemiType *nested = api->type_optional(run, api->type_sequence(run, tensor));
    const char *symbol;
    assert_int_equal(api->type_kind(nested), DEMI_TYPE_OPTIONAL);
    assert_int_equal(api->type_kind(api->type_element(nested)), DEMI_TYPE_SEQUENCE);
    assert_int_equal(api->type_dtype(nested), DEMI_FLOAT);
    assert_int_equal(api->type_dim(tensor, 0, &symbol), -1);
    assert_string_equal(symbol, "M");
    assert_int_equal(api->type_dim(tensor, 2, &symbol), -1);
    assert_null(symbol);
    assert_int_equal(api->type_dtype(api->type_with_dtype(run, nested, DEMI_DOUBLE)), DEMI_DOUBLE);
    assert_false(api->type_has_rank(api->type_tensor(run, DEMI_FLOAT, NULL, NULL, 0)));
    return api->graph_declare_input(run, graph, 0, DEMI_FLOAT16) &&
           api->graph_declare_output(run, graph, 0, DEMI_BFLOAT16) &&
           api->value_set_type(run, api->graph_input(graph, 0), tensor);
}

TEST(types_are_made) {
    run_pass(make_types, CHAIN);
    expect_model("(float16[N,3] x) => (bfloat16[N,3] y)");
}

static bool build_if(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    static const char *const branches[] = {"then_branch", "else_branch"};
    static const bool yes = true;
    DemiNode *relu = api->graph_last(graph);
    DemiValue *h = api->node_input(relu, 0);
    DemiValue *c =
        api->initializer_new(run, graph, "c", api->tensor_new(run, DEMI_BOOL, NULL, 0, &yes));
    DemiNode *node =
        api->node_new(run, graph,
                      &(DemiNewNode){DEMI_NEW_NODE_INIT, .op_type = "If", .before = relu,
                                     .inputs = &c, .input_count = 1, .output_count = 1});
    for (int i = 0; i < 2; i++) {
        DemiGraph *branch = api->subgraph_new(run, node, branches[i]);
        DemiNode *abs =
            api->node_new(run, branch,
                          &(DemiNewNode){DEMI_NEW_NODE_INIT, .op_type = i ? "Neg" : "Abs",
                                         .inputs = &h, .input_count = 1, .output_count = 1});
        api->value_set_type(run, api->node_output(abs, 0), api->value_type(h));
        api->graph_add_output(run, branch, api->node_output(abs, 0));
    }
    return api->node_set_input(run, relu, 0, api->node_output(node, 0));
}

static bool build_loop_body(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    DemiGraph *body = api->subgraph_new(run, api->graph_first(graph), "body");
    const DemiType *type = api->type_tensor(run, DEMI_INT64, NULL, NULL, 0);
    DemiValue *i = api->graph_add_input(run, body, "i", type);
    return api->graph_add_output(run, body, i);
}

static bool widen_interface(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    const DemiType *type = api->type_tensor(run, DEMI_FLOAT, NULL, NULL, 0);
    DemiValue *h = api->node_output(api->graph_first(graph), 0);
    return api->graph_add_input(run, graph, "x", type) && api->value_set_type(run, h, type) &&
           api->graph_add_output(run, graph, h) &&
           api->graph_add_output(run, graph, api->graph_initializer(graph, 0));
}

TEST(interfaces_are_widened) {
    run_pass(widen_interface, CHAIN);
    expect_model("(float[N,3] x, float[] x_1) => (float[N,3] y, float[] h, float[3] w)");
}

TEST(subgraphs_are_built) {
    run_pass(build_if, CHAIN);
    expect_model("Abs (h)");
    expect_model("Neg (h)");
    expect_model("= If (c) <");
    run_pass(build_loop_body, CHAIN);
    expect_model("(int64[] i) => (int64[] i)");
}
