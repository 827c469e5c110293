// SPDX-License-Identifier: Apache-2.0
/* What plug-ins may not do: misuse of functions, broken contracts, faulty descriptions and those of
 * other versions; and the options they are given. Shared objects are loaded by
 * tools/suites/plugin_cli_test.py. */
#include "test_plugin.h"

static bool nothing(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    (void)api, (void)run, (void)graph;
    return true;
}

/* ---- misuse ---------------------------------------------------------------------------------- */

typedef struct Misuse {
    PassFn run;
    const char *says;
} Misuse;

#define MISUSE_CASE(name, call)                                                                    \
    static bool name(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {                     \
        DemiNode *first = api->graph_first(graph), *last = api->graph_last(graph);                 \
        DemiValue *x = api->graph_input(graph, 0), *h = api->node_output(first, 0);                \
        (void)last, (void)x, (void)h;                                                              \
        assert_false(call);                                                                        \
        assert_true(api->failed(run));                                                             \
        assert_false(api->node_set_name(run, first, "too late"));                                  \
        return true; /* which counts for nothing */                                                \
    }

static const int64_t negative[] = {-1};
static DemiNewNode no_op = {DEMI_NEW_NODE_INIT, .output_count = 1};
static DemiNewNode no_domain = {DEMI_NEW_NODE_INIT, .op_type = "A", .domain = "com.none"};

MISUSE_CASE(remove_used, api->node_remove(run, first))
MISUSE_CASE(remove_null, api->node_remove(run, NULL))
MISUSE_CASE(set_input_far, api->node_set_input(run, last, 5, x))
MISUSE_CASE(rename_taken, api->value_rename(run, h, "x"))
MISUSE_CASE(new_without_op, api->node_new(run, graph, &no_op))
MISUSE_CASE(new_without_domain, api->node_new(run, graph, &no_domain))
MISUSE_CASE(omit_read, api->node_omit_output(run, first, 0))
MISUSE_CASE(remove_input, api->initializer_remove(run, x))
MISUSE_CASE(remove_read, api->initializer_remove(run, api->node_input(first, 1)))
MISUSE_CASE(omit_graph_output, api->use_set(run, api->graph_output(graph, 0), NULL))
MISUSE_CASE(negative_shape, api->tensor_new(run, DEMI_FLOAT, negative, 1, &no_op))
MISUSE_CASE(bad_dtype, api->type_tensor(run, (DemiDtype)99, NULL, NULL, 0))
MISUSE_CASE(cast_of_null, api->tensor_new_cast(run, NULL, DEMI_FLOAT))
MISUSE_CASE(unknown_option, api->option_int(run, "none"))
MISUSE_CASE(other_opset, api->graph_import(run, graph, "", 18))
MISUSE_CASE(not_constant, api->constant_set(run, x, (const DemiTensor *)x))
MISUSE_CASE(read_too_far,
            api->tensor_read_floats(run, api->value_initializer(api->node_input(first, 1)), 2, 2,
                                    NULL))
MISUSE_CASE(output_twice,
            api->graph_add_output(run, graph, api->use_value(api->graph_output(graph, 0))))
MISUSE_CASE(output_untyped, api->graph_add_output(run, graph, h))
MISUSE_CASE(own_words, (api->fail)(run, DEMI_ERR_USAGE, first, "not %s", "today"))

static const Misuse misuses[] = {
    {remove_used, "node '/a' (Add), output 'h': pass 'test-pass': node_remove: the value is still"},
    {remove_null, "pass 'test-pass': node_remove: the node is NULL"},
    {set_input_far, "node_set_input: there is no such input"},
    {rename_taken, "the name 'x' is in use"},
    {new_without_op, "node_new: op_type is missing"},
    {new_without_domain, "does not import the domain 'com.none'"},
    {omit_read, "node_omit_output: the value is still read"},
    {remove_input, "initializer_remove: the value is not an initializer"},
    {remove_read, "initializer_remove: the value is still read"},
    {omit_graph_output, "use_set: cannot omit a graph's output"},
    {negative_shape, "tensor_new: no such shape"},
    {bad_dtype, "type_tensor: unknown dtype"},
    {cast_of_null, "tensor_new_cast: not between"},
    {unknown_option, "option: 'none' was not declared"},
    {other_opset, "graph_import: the domain is imported at another version"},
    {not_constant, "constant_set: the value is not a constant"},
    {read_too_far, "tensor_read_floats: "},
    {output_twice, "graph_add_output: the value is an output already"},
    {output_untyped, "graph_add_output: the value's type is not known"},
    {own_words, "node '/a' (Add): pass 'test-pass': not today"},
};

TEST(misuse_fails_the_pass) {
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        describe(misuses[i].run);
        run_on(CHAIN, "test-pass");
        expect_error(misuses[i].says);
    }
    assert_int_equal(outcome.status, DEMI_ERR_USAGE); /* own_words' */
}

static bool use_removed(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    DemiNode *last = api->graph_last(graph);
    api->value_replace(run, api->node_output(last, 0), api->node_input(last, 0));
    assert_true(api->node_remove(run, last));
    assert_false(api->node_remove(run, last));
    return false;
}

static bool give_up(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    (void)api, (void)run, (void)graph;
    return false;
}

static bool give_hint(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    (void)graph;
    (api->fail)(run, DEMI_ERR_ENV, NULL, "no luck");
    return api->hint(run, "try %d times", 3);
}

TEST(failures_are_told) {
    describe(use_removed);
    run_on(CHAIN, "test-pass");
    expect_error("node_remove: the node is NULL or was removed");
    describe(give_up);
    run_on(CHAIN, "test-pass");
    expect_error("pass 'test-pass': failed without saying why");
    describe(give_hint);
    run_on(CHAIN, "test-pass");
    assert_int_equal(outcome.status, DEMI_ERR_ENV);
    expect_error("pass 'test-pass': no luck");
    assert_string_equal(outcome.error.hint, "try 3 times");
}

/* ---- contracts ------------------------------------------------------------------------------- */

static bool add_untyped(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    DemiValue *x = api->graph_input(graph, 0);
    return api->node_new(run, graph,
                         &(DemiNewNode){DEMI_NEW_NODE_INIT, .op_type = "Abs", .inputs = &x,
                                        .input_count = 1, .output_count = 1}) != NULL;
}

TEST(facts_are_kept) {
    describe(add_untyped);
    run_on(CHAIN, "test-pass,infer-dtypes");
    assert_int_equal(outcome.status, DEMI_OK);
    run_on(CHAIN, "infer-dtypes,test-pass");
    expect_error("created a value without a type, but does not declare that it breaks dtypes");
    described.pass.breaks = DEMI_FACT_DTYPES;
    run_on(CHAIN, "infer-dtypes,test-pass");
    assert_int_equal(outcome.status, DEMI_OK);
    run_on(CHAIN, "infer-dtypes,test-pass,insert-casts");
    expect_error("needs dtypes, which an earlier pass has invalidated");
    describe(nothing);
    described.pass.needs = DEMI_FACT_DTYPES;
    run_on(CHAIN, "test-pass");
    expect_error("needs dtypes, which no earlier pass provides");
    describe(nothing);
    described.pass.gives = DEMI_FACT_DTYPES;
    run_on(RICH, "test-pass");
    expect_error("created a value without a type");
}

static unsigned visited;

static bool visit(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    visited++;
    for (DemiNode *node = api->graph_first(graph), *next; node; node = next) {
        next = api->node_next(node);
        if (strcmp(api->node_op_type(node), "If") != 0) continue;
        DemiValue *c = api->node_input(node, 0);
        if (!api->value_replace(run, api->node_output(node, 0), c) || !api->node_remove(run, node))
            return false;
    }
    return true;
}

/* A graph that is gone is not visited: here both branches. */
TEST(removed_graphs_are_skipped) {
    describe(visit);
    described.pass.scope = DEMI_SCOPE_GRAPHS;
    visited = 0;
    run_on(RICH, "test-pass");
    assert_int_equal(outcome.status, DEMI_OK);
    assert_int_equal(visited, 2);
}

/* ---- options --------------------------------------------------------------------------------- */

static const char *const colors[] = {"red", "green", NULL};
static const DemiPluginOption all_options[] = {
    {DEMI_PLUGIN_OPTION_INIT, .name = "flag", .kind = DEMI_OPTION_BOOL, .otherwise = "true"},
    {DEMI_PLUGIN_OPTION_INIT, .name = "number", .kind = DEMI_OPTION_INT, .otherwise = "-5"},
    {DEMI_PLUGIN_OPTION_INIT, .name = "text", .kind = DEMI_OPTION_STRING},
    {DEMI_PLUGIN_OPTION_INIT, .name = "list", .kind = DEMI_OPTION_STRINGS, .help = "items"},
    {DEMI_PLUGIN_OPTION_INIT, .name = "color", .kind = DEMI_OPTION_CHOICE, .choices = colors},
};

static bool print_options(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    size_t count;
    const char *text = api->option_string(run, "text");
    const char *const *list = api->option_strings(run, "list", &count);
    (void)graph;
    api->print(run, "%d %d %s %zu%s %zu\n", (int)api->option_bool(run, "flag"),
               (int)api->option_int(run, "number"), text ? text : "none", count,
               count ? list[count - 1] : "", api->option_choice(run, "color"));
    return true;
}

TEST(options_are_given) {
    describe(print_options);
    described.pass.options = all_options;
    described.pass.option_count = sizeof all_options / sizeof *all_options;
    run_on(CHAIN, "test-pass");
    assert_string_equal(outcome.printed.bytes, "1 -5 none 0 0\n");
    run_on(CHAIN, "test-pass{flag=false,number=7,text=\"a b\",list=[x,yz],color=green}");
    assert_string_equal(outcome.printed.bytes, "0 7 a b 2yz 1\n");
    run_on(CHAIN, "test-pass{color=blue}");
    expect_error("option 'color' has a wrong value: expected red or green, got 'blue'");
    run_on(CHAIN, "test-pass{nunber=1}");
    assert_string_equal(outcome.error.hint, "did you mean 'number'?");
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static void refused(const char *says) {
    run_on(CHAIN, "test-pass");
    assert_int_equal(outcome.status, DEMI_ERR_USAGE);
    expect_error(says);
    describe(nothing);
}

TEST(faulty_descriptions_are_refused) {
    describe(nothing);
    described.pass.name = "Not Good";
    refused("a pass's name must consist of a-z, 0-9, and '-'");
    described.pass.name = "print";
    refused("pass 'print' already exists: demi has one");
    described.pass.run = NULL;
    refused("pass 'test-pass': it has no run function");
    described.pass.needs = 64;
    refused("unknown facts");
    described.pass.size = 0;
    refused("a pass's size is wrong");
    described.plugin.pass_count = 0;
    refused("it has no passes");
    described.plugin.api_size = sizeof(DemiApi) + 8;
    refused("the plug-in was built for a newer demi");
    described.refuses = true;
    refused("the plug-in refuses this demi");
    DemiPluginOption option = {DEMI_PLUGIN_OPTION_INIT, .name = "n", .kind = DEMI_OPTION_INT};
    option.otherwise = "many";
    described.pass.options = &option;
    described.pass.option_count = 1;
    refused("pass 'test-pass': a default");
    option.name = "N";
    described.pass.options = &option;
    described.pass.option_count = 1;
    refused("an option's name must consist of");
    option = (DemiPluginOption){DEMI_PLUGIN_OPTION_INIT, .name = "c", .kind = DEMI_OPTION_CHOICE};
    described.pass.options = &option;
    described.pass.option_count = 1;
    refused("an option has no choices");
}

/* A plug-in of a later header: its structures are longer, and lie further apart. */
TEST(later_structures_are_read) {
    struct {
        DemiPluginPass known;
        uint64_t later;
    } rows[] = {
        {{.size = sizeof rows[0], .name = "one", .run = nothing}, 1},
        {{.size = sizeof rows[0], .name = "two", .run = nothing}, 1},
    };
    describe(nothing);
    described.plugin.passes = &rows[0].known;
    described.plugin.pass_count = 2;
    run_on(CHAIN, "one,two");
    assert_int_equal(outcome.status, DEMI_OK);
}

TEST(sets_are_listed) {
    DemiPasses *passes = NULL;
    DemiError error = DEMI_ERROR_INIT;
    DemiPassOption option = DEMI_PASS_OPTION_INIT;
    describe(nothing);
    described.pass.summary = "do nothing";
    described.pass.options = all_options;
    described.pass.option_count = 5;
    assert_int_equal(demi_passes_new(&passes, &error), DEMI_OK);
    size_t count = demi_pass_count(passes);
    assert_int_equal(count, demi_pass_count(NULL));
    assert_int_equal(demi_passes_add(passes, plugin_entry, &error), DEMI_OK);
    assert_int_equal(demi_pass_count(passes), count + 1);
    assert_string_equal(demi_pass_name(passes, count), "test-pass");
    assert_string_equal(demi_pass_summary(passes, count), "do nothing");
    assert_true(demi_pass_option(passes, count, 4, &option));
    assert_string_equal(option.takes, "red|green");
    assert_false(demi_pass_option(passes, count, 5, &option));
    assert_int_equal(demi_passes_add(passes, plugin_entry, &error), DEMI_ERR_USAGE);
    assert_non_null(strstr(error.message, "pass 'test-pass' already exists: from the program"));
    assert_int_equal(demi_pass_count(passes), count + 1);
    assert_int_equal(demi_passes_load(passes, "/nowhere.so", NULL), DEMI_ERR_USAGE);
    demi_passes_free(passes);
    demi_passes_free(NULL);
}
