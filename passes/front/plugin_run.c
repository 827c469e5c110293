// SPDX-License-Identifier: Apache-2.0
/* Runs a plug-in's pass, and what a run offers it: errors, text, memory, options.
 *
 * While the plug-in runs, the arenas' trap is the run's own, and only functions of the table
 * allocate: so a jump never leaves them. Afterwards the model is verified, since nothing else
 * stands between a faulty plug-in and what it makes. */
#include <stdio.h>
#include <string.h>

#include "plugin.h"
#include "verify.h"

/* ---- running --------------------------------------------------------------------------------- */

/* False for graphs that went away with a node, since the list was made. */
static bool graph_is_live(const Graph *graph) {
    for (; graph->owner; graph = graph->parent) {
        const Node *node = graph->owner;
        if (!node->prev && !node->next && node->graph->first != node) return false;
    }
    return true;
}

static bool run_graphs(DemiPassRun *run, const GraphList *graphs) {
    const PluginPass *pass = run->pass;
    for (size_t i = 0; i < graphs->count; i++) {
        Graph *graph = graphs->items[i];
        if (!graph_is_live(graph)) continue;
        if (!pass->run(pass->api, run, graph_out(graph)) || run->err.code != ERR_NONE) return false;
    }
    return true;
}

static bool run_plugin(DemiPassRun *run) {
    Model *model = run->ctx->model;
    GraphList graphs = {0};
    if (run->pass->scope == DEMI_SCOPE_GRAPHS)
        graphs = model_graphs(model, run->ctx->scratch);
    else
        VEC_PUSH(run->ctx->scratch, &graphs, model->graph);
    MemTrap *model_trap = model->arena.trap, *scratch_trap = run->ctx->scratch->trap;
    model->arena.trap = run->ctx->scratch->trap = &run->trap;
    model_batch_removals(model); /* many nodes may go, one by one */
    bool ok = run_graphs(run, &graphs) && run->err.code == ERR_NONE;
    model->arena.trap = model_trap;
    run->ctx->scratch->trap = scratch_trap;
    model_sweep(model, run->ctx->scratch);
    return ok || err_set(&run->err, ERR_MODEL, "failed without saying why");
}

static bool check_types_of(const Node *node, uint32_t first_new, Err *err) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (!value || value->id < first_new || type_dtype(value->type)) continue;
        if (value_type(value)->kind == TYPE_MAP || value_type(value)->kind == TYPE_OPAQUE) continue;
        node_error(node, err, ERR_MODEL,
                   "created a value without a type, but does not declare that it breaks dtypes");
        err_operand(err, "output '%s'", sym_text(value->name));
        return false;
    }
    return true;
}

/* Where dtypes were known and are said to be still, the values that it made have theirs. */
static bool check_types(const DemiPassRun *run, uint32_t first_new, Err *err) {
    const PassCtx *ctx = run->ctx;
    uint32_t after = (ctx->facts & ~run->pass->info.breaks) | run->pass->info.gives;
    if (!(after & FACT_DTYPES)) return true;
    if (run->pass->info.gives & FACT_DTYPES) first_new = 0;
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (!check_types_of(node, first_new, err)) return false;
    return true;
}

/* Takes over the run's error, with the pass's name before it. */
static bool fail(const DemiPassRun *run, const char *verb, const Err *inner, Err *err) {
    Err full = *inner;
    snprintf(full.what, sizeof full.what, "pass '%s'%s: %.240s", run->pass->info.name, verb,
             inner->what);
    if (err && err->code == ERR_NONE) *err = full;
    return false;
}

bool plugin_pass_run(PassCtx *ctx, const void *options, Err *err) {
    DemiPassRun *run = ARENA_NEW(ctx->scratch, DemiPassRun);
    run->ctx = ctx;
    run->pass = (const PluginPass *)ctx->pass;
    run->options = options;
    uint32_t first_new = ctx->model->value_count;
    if (!run_plugin(run)) return fail(run, "", &run->err, err);
    if (model_verify(ctx->model, ctx->scratch, &run->err) && check_types(run, first_new, &run->err))
        return true;
    fail(run, " left the model invalid", &run->err, err);
    err_hint(err, "the fault is in %s", run->pass->file);
    return false;
}

/* ---- errors and text ------------------------------------------------------------------------- */

bool plugin_misuse(DemiPassRun *run, const char *function, const char *what) {
    if (run->err.code != ERR_NONE) return false;
    err_set(&run->err, ERR_MODEL, "%s: %s", function, what);
    err_hint(&run->err, "the fault is in %s", run->pass->file);
    return false;
}

static bool api_fail(DemiPassRun *run, DemiStatus status, const DemiNode *node, const char *format,
                     ...) {
    if (run->err.code != ERR_NONE) return false;
    char what[sizeof run->err.what];
    bool known = status == DEMI_ERR_USAGE || status == DEMI_ERR_ENV;
    ErrCode code = known ? (ErrCode)status : ERR_MODEL;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (node) return node_error(node_of(node), &run->err, code, "%s", what);
    return err_set(&run->err, code, "%s", what);
}

static bool api_hint(DemiPassRun *run, const char *format, ...) {
    char text[sizeof run->err.hint];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err_hint(&run->err, "%s", text);
    return false;
}

static bool api_failed(const DemiPassRun *run) {
    return run->err.code != ERR_NONE;
}

static void api_rewrote(DemiPassRun *run, uint64_t count) {
    run->ctx->counts->rewrites += count;
}

static bool print_list(DemiPassRun *run, const char *format, va_list args) {
    ENTER(run, false);
    const char *text = arena_vprintf(plugin_scratch(run), format, args);
    const TextSink *sink = run->ctx->text;
    if (sink) sink->write(sink->data, text, strlen(text));
    return true;
}

static bool api_print(DemiPassRun *run, const char *format, ...) {
    va_list args;
    va_start(args, format);
    bool ok = print_list(run, format, args);
    va_end(args);
    return ok;
}

static void *api_alloc(DemiPassRun *run, size_t size) {
    ENTER(run, NULL);
    return arena_alloc(plugin_scratch(run), size);
}

const char *plugin_text(DemiPassRun *run, Bytes bytes, size_t *size) {
    if (size) *size = 0;
    ENTER(run, NULL);
    const char *text = arena_copy(plugin_scratch(run), bytes.data, bytes.size);
    if (size) *size = bytes.size;
    return text;
}

static uint32_t api_facts(const DemiPassRun *run) {
    return run->ctx->facts;
}

_Static_assert((int)DEMI_FACT_DTYPES == (int)FACT_DTYPES &&
                   (int)DEMI_FACT_SHAPES == (int)FACT_SHAPES,
               "facts have the same bits inside and outside");

/* ---- options --------------------------------------------------------------------------------- */

/* Where the option's value is; NULL, and the run fails, where it was not declared so. */
static const void *option_field(DemiPassRun *run, const char *name, PassOptionKind kind) {
    const PassOption *row = run->pass->info.options;
    for (; name && row && row->name; row++)
        if (strcmp(row->name, name) == 0 && row->kind == kind)
            return (const char *)run->options + row->offset;
    char what[128];
    snprintf(what, sizeof what, "'%.60s' was not declared with this kind", name ? name : "");
    plugin_misuse(run, "option", what);
    return NULL;
}

static bool api_option_bool(DemiPassRun *run, const char *name) {
    const bool *field = option_field(run, name, OPTION_BOOL);
    return field && *field;
}

static int64_t api_option_int(DemiPassRun *run, const char *name) {
    const int64_t *field = option_field(run, name, OPTION_INT);
    return field ? *field : 0;
}

static const char *api_option_string(DemiPassRun *run, const char *name) {
    const char *const *field = option_field(run, name, OPTION_STRING);
    return field ? *field : NULL;
}

static size_t api_option_choice(DemiPassRun *run, const char *name) {
    const int *field = option_field(run, name, OPTION_CHOICE);
    return field ? (size_t)*field : 0;
}

static const char *const *api_option_strings(DemiPassRun *run, const char *name, size_t *count) {
    const PassStrings *field = option_field(run, name, OPTION_STRINGS);
    if (count) *count = field ? field->count : 0;
    return field ? (const char *const *)field->items : NULL;
}

void plugin_fill_run(DemiApi *api) {
    api->fail = api_fail;
    api->hint = api_hint;
    api->failed = api_failed;
    api->rewrote = api_rewrote;
    api->print = api_print;
    api->alloc = api_alloc;
    api->facts = api_facts;
    api->option_bool = api_option_bool;
    api->option_int = api_option_int;
    api->option_string = api_option_string;
    api->option_choice = api_option_choice;
    api->option_strings = api_option_strings;
}
