// SPDX-License-Identifier: Apache-2.0
/* A plug-in for demi with two passes. To build it:
 *     cc -shared -fPIC -o plugin_example.so plugin_example.c $(pkg-config --cflags demi)
 *
 * bypass-ops{ops=[Dropout,Identity]}: removes operators that do nothing at inference. Readers of
 *     their first output read their first input instead.
 *         h = Conv (x, w)                 h = Conv (x, w)
 *         d, m = Dropout (h)       =>     y = Relu (h)
 *         y = Relu (d)
 *     A Dropout stays if it may be in training mode (the input training_mode is not a constant
 *     false), or if its mask is read.
 *
 * count-ops: prints how often each operator occurs, and changes nothing.
 */
#include <demi/demi_plugin.h>

#include <inttypes.h>
#include <string.h>

/* ---- bypass-ops ------------------------------------------------------------------------------ */

/* Returns true if the operand is a constant false, or omitted. */
static bool is_false(const DemiApi *api, DemiPassRun *run, const DemiValue *value) {
    if (!value) return true;
    const DemiTensor *tensor = api->value_constant(run, value);
    int64_t training = 1;
    if (api->tensor_dtype(tensor) != DEMI_BOOL || api->tensor_count(tensor) != 1) return false;
    return api->tensor_read_ints(run, tensor, 0, 1, &training) && training == 0;
}

/* Whether Dropout is in training mode is an attribute up to opset 6, and an input from 12 on. */
static bool does_nothing(const DemiApi *api, DemiPassRun *run, const DemiNode *node) {
    if (strcmp(api->node_op_type(node), "Dropout") != 0) return true;
    int64_t opset = api->graph_opset(api->node_graph(node), "");
    if (opset < 7) return api->attr_int(api->node_attr(node, "is_test"), 0) != 0;
    return is_false(api, run, api->node_input(node, 2));
}

static bool only_first_is_read(const DemiApi *api, const DemiNode *node) {
    for (size_t i = 1; i < api->node_output_count(node); i++) {
        const DemiValue *value = api->node_output(node, i);
        if (api->value_use_count(value) || api->value_is_referenced(value)) return false;
    }
    return !api->value_is_referenced(api->node_output(node, 0));
}

static bool is_wanted(const DemiApi *api, DemiPassRun *run, const DemiNode *node) {
    size_t count;
    const char *const *ops = api->option_strings(run, "ops", &count);
    const char *op = api->node_op_type(node);
    if (api->node_domain(node)[0]) return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(ops[i], op) == 0) return true;
    return count == 0 && strcmp(op, "Dropout") == 0;
}

static bool bypass(const DemiApi *api, DemiPassRun *run, DemiNode *node) {
    DemiValue *input = api->node_input(node, 0), *output = api->node_output(node, 0);
    if (!input || !output)
        return api->fail(run, DEMI_ERR_MODEL, node, "it has no first input or output");
    if (!api->value_replace(run, output, input) || !api->node_remove(run, node)) return false;
    api->rewrote(run, 1);
    return true;
}

static bool bypass_ops(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
    for (DemiNode *node = api->graph_first(graph), *next; node; node = next) {
        next = api->node_next(node);
        if (!is_wanted(api, run, node) || !only_first_is_read(api, node) ||
            !does_nothing(api, run, node))
            continue;
        if (!bypass(api, run, node)) return false;
    }
    return true;
}

static const DemiPluginOption bypass_options[] = {
    {DEMI_PLUGIN_OPTION_INIT, .name = "ops", .kind = DEMI_OPTION_STRINGS,
     .help = "operators to take out; none: Dropout"},
};

/* ---- count-ops ------------------------------------------------------------------------------- */

typedef struct Count {
    struct Count *next;
    const char *op;
    uint64_t nodes;
} Count;

static Count *count_of(const DemiApi *api, DemiPassRun *run, Count **first, const char *op) {
    Count **at = first;
    while (*at && strcmp((*at)->op, op) != 0) at = &(*at)->next;
    if (!*at && (*at = api->alloc(run, sizeof **at))) (*at)->op = op;
    return *at;
}

static bool count_ops(const DemiApi *api, DemiPassRun *run, DemiGraph *main_graph) {
    Count *counts = NULL;
    size_t graph_count;
    DemiGraph *const *graphs = api->graphs(run, &graph_count);
    (void)main_graph;
    for (size_t i = 0; i < graph_count; i++) {
        for (DemiNode *node = api->graph_first(graphs[i]); node; node = api->node_next(node)) {
            Count *count = count_of(api, run, &counts, api->node_op_type(node));
            if (!count) return false;
            count->nodes++;
        }
    }
    for (const Count *count = counts; count; count = count->next)
        api->print(run, "%s %" PRIu64 "\n", count->op, count->nodes);
    return true;
}

/* ---- the plug-in ----------------------------------------------------------------------------- */

static const DemiPluginPass passes[] = {
    {DEMI_PLUGIN_PASS_INIT, .name = "bypass-ops", .summary = "take out operators that do nothing",
     .scope = DEMI_SCOPE_GRAPHS, .breaks = DEMI_FACT_SHAPES, .idempotent = true,
     .options = bypass_options, .option_count = sizeof bypass_options / sizeof *bypass_options,
     .run = bypass_ops},
    {DEMI_PLUGIN_PASS_INIT, .name = "count-ops", .summary = "print how often each operator occurs",
     .idempotent = true, .run = count_ops},
};

static const DemiPlugin plugin = {DEMI_PLUGIN_INIT, .passes = passes,
                                  .pass_count = sizeof passes / sizeof *passes};

DEMI_PLUGIN_EXPORT const DemiPlugin *demi_plugin_v1(const DemiApi *api) {
    (void)api;
    return &plugin;
}
