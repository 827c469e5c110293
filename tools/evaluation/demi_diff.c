// SPDX-License-Identifier: Apache-2.0
/* The front of what is told of two models without running either: demi_diff and demi_against. */
#include <string.h>

#include "byte_buffer.h"
#include "compare.h"
#include "demi_call.h"
#include "demi_front.h"
#include "error_fill.h"
#include "model_against.h"
#include "model_diff.h"
#include "model_source.h"
#include "op_types.h"

const char *demi_diff_kind_name(DemiDiffKind kind) {
    switch (kind) {
    case DEMI_DIFF_MODEL: return "model";
    case DEMI_DIFF_INPUT: return "input";
    case DEMI_DIFF_OUTPUT: return "output";
    case DEMI_DIFF_WEIGHT: return "weight";
    case DEMI_DIFF_NODE: return "node";
    case DEMI_DIFF_TYPE: return "type";
    case DEMI_DIFF_FUNCTION: return "function";
    }
    return "";
}

/* The one way out of the middle of a walk. */
static _Noreturn void cancel(Call *call) {
    call->cancelled = true;
    arena_exhausted(&call->scratch);
}

/* ---- what differs ---------------------------------------------------------------------------- */

typedef struct DiffArgs {
    Call *call;
    DemiModel *a, *b;
    DemiDiffOptions options;
    DemiDiffFn visit;
    void *user;
    bool found;
} DiffArgs;

static void take_difference(void *data, const DemiDifference *difference) {
    DiffArgs *args = data;
    args->found = true;
    if (!args->visit(args->user, difference)) cancel(args->call);
}

/* What the walk by names does not look at. */
static void compare_strictly(DiffArgs *args, const Model *a, const Model *b, Err *err) {
    Err first = {0};
    char line[1024];
    if (model_compare(a, b, NULL, &first)) return;
    if (first.code != ERR_MODEL) {
        *err = first;
        return;
    }
    err_format(&first, line, sizeof line);
    DemiDifference difference = {.size = sizeof difference,
                                 .kind = DEMI_DIFF_MODEL,
                                 .change = DEMI_DIFF_CHANGED,
                                 .graph = "",
                                 .name = "",
                                 .op_type = "",
                                 .what = line,
                                 .a = "",
                                 .b = ""};
    take_difference(args, &difference);
}

static void diff_body(Call *call, void *data) {
    DiffArgs *args = data;
    const Model *a = demi_front_lend(args->a, &call->trap);
    const Model *b = demi_front_lend(args->b, &call->trap);
    if (model_diff(a, b, &call->scratch, take_difference, args, &call->err) &&
        args->options.strict && !args->found)
        compare_strictly(args, a, b, &call->err);
}

DemiStatus demi_diff(DemiModel *a, DemiModel *b, const DemiDiffOptions *options, DemiDiffFn visit,
                     void *user, DemiError *error) {
    Call call = {0};
    DiffArgs args = {&call, a, b, DEMI_DIFF_OPTIONS_INIT, visit, user, false};
    options_copy(&call, &args.options, sizeof args.options, options);
    demi_front_is_whole(a, &call.err);
    demi_front_is_whole(b, &call.err);
    return call_run(&call, diff_body, &args, error);
}

/* ---- one model but for precision ------------------------------------------------------------- */

typedef struct AgainstArgs {
    Call *call;
    DemiModel *model;
    DemiSource reference;
    DemiAgainstOptions options;
    DemiAgainstFn visit;
    void *user;
} AgainstArgs;

static void take_line(void *data, const char *line) {
    AgainstArgs *args = data;
    if (!args->visit(args->user, line)) cancel(args->call);
}

/* "by the policy: node 'n' (Conv) is added", "… type 't' is changed, dtype: float16 -> float". */
static void take_made(void *data, const DemiDifference *diff) {
    static const char *const changes[] = {[DEMI_DIFF_REMOVED] = "is missing",
                                          [DEMI_DIFF_ADDED] = "is added",
                                          [DEMI_DIFF_CHANGED] = "is changed"};
    AgainstArgs *args = data;
    Arena *arena = &args->call->scratch;
    const char *where = diff->graph[0] ? arena_printf(arena, " in '%.60s'", diff->graph) : "";
    const char *op = diff->op_type[0] ? arena_printf(arena, " (%s)", diff->op_type) : "";
    const char *line =
        arena_printf(arena, "by the policy: %s '%s'%s%s %s", demi_diff_kind_name(diff->kind),
                     diff->name, op, where, changes[diff->change]);
    if (diff->what[0]) line = arena_printf(arena, "%s, %s", line, diff->what);
    if (diff->a[0] || diff->b[0])
        line = arena_printf(arena, "%s: %.60s -> %.60s", line, diff->a[0] ? diff->a : "none",
                            diff->b[0] ? diff->b : "none");
    take_line(args, line);
}

/* The reference as converted, and as it is when written and read back: nodes without a name are
 * then called by what they give there. */
static bool convert_reference(const AgainstArgs *args, ByteBuffer *room, DemiModel **made,
                              Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel **reference = model_hold(room->arena);
    if (!model_open(&args->reference, reference, err)) return false;
    DemiStatus status = demi_convert(*reference, args->options.made_by, NULL, &error);
    if (status == DEMI_OK)
        status = demi_save_callback(*reference, byte_buffer_write, room, NULL, &error);
    byte_buffer_end(room);
    if (status == DEMI_OK)
        status = demi_load_memory(room->bytes.items, room->bytes.count, NULL, made, &error);
    if (error_take(err, status, &error)) return true;
    if (args->reference.path) err_file(err, args->reference.path);
    return false;
}

/* The model must be what the conversion makes of the reference. */
static bool compare_made(Call *call, AgainstArgs *args) {
    Arena *arena = arena_child(&call->scratch), *scratch = arena_child(arena);
    DemiModel **made = model_hold(arena);
    ByteBuffer room = {.arena = arena}; /* which the model lies in */
    bool ok =
        convert_reference(args, &room, made, &call->err) &&
        model_diff(demi_front_lend(*made, &call->trap), demi_front_lend(args->model, &call->trap),
                   scratch, take_made, args, &call->err);
    model_drop(made);
    arena_free(arena);
    return ok;
}

/* The opset of the default domain that a model imports; 0: none. */
static int64_t default_opset(const DemiModel *model) {
    return opset_version(&demi_front_model(model)->opsets, NULL);
}

/* The reference at the opset that the model was raised to, where operators may have another form:
 * attributes that became inputs, say. One that can't be raised so is compared as it is. */
static bool open_reference(Call *call, const AgainstArgs *args, DemiModel **reference) {
    int64_t wanted = default_opset(args->model);
    if (!model_open(&args->reference, reference, &call->err)) return false;
    if (!default_opset(*reference) || wanted <= default_opset(*reference)) return true;
    const char *pass = arena_printf(&call->scratch, "upgrade-opset{to=%lld}", (long long)wanted);
    if (demi_run_pipeline(*reference, pass, NULL, NULL, NULL) == DEMI_OK) return true;
    model_drop(reference);
    return model_open(&args->reference, reference, &call->err);
}

static bool make_types_exact(DemiModel *model, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    return error_take(err, demi_run_pipeline(model, "infer-dtypes", NULL, NULL, &error), &error);
}

/* demi quantized it. */
static bool is_quantized(const Model *model) {
    for (const Node *node = model->graph->first; node; node = node_after(node))
        if (node_is_own_quantizer(node)) return true;
    return false;
}

static void against_body(Call *call, void *data) {
    AgainstArgs *args = data;
    DemiModel **reference = model_hold(&call->scratch);
    Err *err = &call->err;
    if (is_quantized(demi_front_model(args->model))) {
        if (args->options.made_by)
            compare_made(call, args);
        else
            take_line(args, "a quantized model can only be checked against the policy that it was "
                            "made by, because its weights and values are not rounded to 16 bits");
        return;
    }
    if ((args->options.made_by && !compare_made(call, args)) ||
        !open_reference(call, args, reference) || !make_types_exact(args->model, err))
        return;
    if (!make_types_exact(*reference, err)) {
        if (args->reference.path) err_file(err, args->reference.path);
        return;
    }
    model_against(demi_front_lend(args->model, &call->trap),
                  demi_front_lend(*reference, &call->trap), arena_child(&call->scratch), take_line,
                  args, err);
}

DemiStatus demi_against(DemiModel *model, const DemiSource *reference,
                        const DemiAgainstOptions *options, DemiAgainstFn visit, void *user,
                        DemiError *error) {
    Call call = {0};
    AgainstArgs args = {&call, model, DEMI_SOURCE_INIT, DEMI_AGAINST_OPTIONS_INIT, visit, user};
    options_copy(&call, &args.reference, sizeof args.reference, reference);
    options_copy(&call, &args.options, sizeof args.options, options);
    demi_front_is_whole(model, &call.err);
    return call_run(&call, against_body, &args, error);
}
