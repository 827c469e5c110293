// SPDX-License-Identifier: Apache-2.0
/* Converting and running, again and again; see trial.h. */
#include "trial.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "sym.h"
#include "value_io.h"

/* ---- the model itself ------------------------------------------------------------------------ */

static bool find_sets(Trials *t, const char *from, Err *err) {
    if (strcmp(from, "random") != 0)
        return session_data_sets(&t->reference, t->program, from, &t->sets, err);
    VEC_PUSH(t->program->arena, &t->sets, "");
    return true;
}

bool trials_open(Trials *t, Program *program, const Parsed *parsed, const char *path,
                 const char *from, Err *err) {
    *t = (Trials){.program = program, .parsed = parsed, .path = path};
    t->reference.judges = true;
    if (strcmp(path, "-") == 0) {
        err_set(err, ERR_USAGE, "a model that is run has to be a file: it is read several times");
        return false;
    }
    return session_open(&t->reference, program, parsed, path, err) && find_sets(t, from, err);
}

void trials_close(Trials *t) { session_close(&t->reference); }

static bool run_reference(Trials *t, size_t set, Err *err) {
    Session *s = &t->reference;
    const char *folder = t->sets.items[set][0] ? t->sets.items[set] : NULL;
    if (t->ready == 1 + set) return true;
    t->ready = 0;
    if (!session_find_inputs(s, t->program, t->parsed, folder, folder ? NULL : "0", err) ||
        !session_bind(s, err) || !session_run(s, err))
        return false;
    t->ready = 1 + set;
    return true;
}

/* ---- a conversion ---------------------------------------------------------------------------- */

/* Texts outlive the trial. */
static const char *text_copy(Arena *arena, const char *text) {
    return arena_copy(arena, text, strlen(text) + 1);
}

static void take_errors(Trials *t, const OutputErrors *rows, TrialResult *result) {
    Arena *arena = t->program->arena;
    for (size_t i = 0; i < rows->count; i++) {
        const OutputError *row = &rows->items[i];
        double error = row->diff.mismatch || row->diff.special ? INFINITY : row->diff.error;
        if (!(error <= result->error)) result->error = error;
        OutputError kept = {text_copy(arena, row->output), row->diff};
        if (row->diff.mismatch) kept.diff.mismatch = text_copy(arena, row->diff.mismatch);
        if (i >= result->outputs.count) VEC_PUSH(arena, &result->outputs, kept);
        else if (output_error_is_worse(&row->diff, &result->outputs.items[i].diff))
            result->outputs.items[i] = kept;
    }
}

/* By type, and not by the one that options name: a policy may name another. */
static void list_low(Trials *t, const DemiReport *report, TrialResult *result) {
    Arena *arena = t->program->arena;
    for (size_t i = 0; i < demi_report_node_count(report); i++) {
        const DemiReportNode *node = demi_report_node(report, i);
        if (strcmp(node->dtype, "float16") == 0 || strcmp(node->dtype, "bfloat16") == 0)
            VEC_PUSH(arena, &result->low, text_copy(arena, node->name));
    }
}

static bool convert(Trials *t, Program *within, const DemiConvertOptions *options,
                    DemiModel **model, TrialResult *result, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiReport *report = NULL;
    DemiConvertOptions quiet = *options;
    DemiRunOptions run = options->run ? *options->run : (DemiRunOptions)DEMI_RUN_OPTIONS_INIT;
    run.text = NULL;
    run.progress = NULL;
    quiet.run = &run;
    if (!console_load(within, t->parsed, t->path, model, err)) return false;
    DemiStatus status = demi_convert(*model, &quiet, result->nodes ? &report : NULL, &error);
    if (!console_check(status, &error, err)) {
        err_file(err, t->path);
        return false;
    }
    if (report) list_low(t, report, result);
    demi_report_free(report);
    return true;
}

static bool run_set(Trials *t, Program *within, Session *session, size_t set, TrialResult *result,
                    Err *err) {
    const OutputReference reference = {t->path, &t->reference};
    OutputErrors rows = {0};
    if (!run_reference(t, set, err) ||
        !session_take_inputs(session, within, &t->reference, err) || !session_bind(session, err) ||
        !session_run(session, err) ||
        !output_errors(within->arena, &reference, session, &rows, err))
        return false;
    take_errors(t, &rows, result);
    return true;
}

bool trials_run(Trials *t, const DemiConvertOptions *options, TrialResult *result, Err *err) {
    Program within = *t->program;
    DemiModel *model = NULL;
    Session session = {.path = t->path, .judges = true};
    within.arena = arena_child(t->program->arena);
    bool ok = convert(t, &within, options, &model, result, err) &&
              session_open_model(&session, &within, t->parsed, model, err);
    demi_free(model);
    for (size_t set = 0; ok && set < t->sets.count; set++)
        ok = run_set(t, &within, &session, set, result, err);
    session_close(&session);
    t->done++;
    arena_free(within.arena);
    return ok;
}

bool trials_try(Trials *t, const DemiConvertOptions *options, Err *err) {
    Program within = *t->program;
    DemiModel *model = NULL;
    TrialResult unused = {0};
    within.arena = arena_child(t->program->arena);
    bool ok = convert(t, &within, options, &model, &unused, err);
    demi_free(model);
    arena_free(within.arena);
    return ok;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* What is smaller is far from the end of any range, whatever the margin. */
static const double LEAST_RANGE = 64;

typedef struct Ranges {
    Arena *arena;
    SymTable names;
    VEC(double) most; /* by name's number */
} Ranges;

static double largest(const DemiData *value) {
    ValueStats stats;
    if (value->kind != DEMI_DATA_TENSOR_KIND || !dtype_is_float((Dtype)value->dtype)) return -1;
    value_stats(value, &stats);
    if (stats.inf) return INFINITY;
    return stats.count > stats.nan ? fmax(fabs(stats.min), fabs(stats.max)) : -1;
}

static void note(Ranges *ranges, const char *name, const DemiData *value) {
    double reached = largest(value);
    if (reached < 0 || !name[0]) return;
    Sym sym = sym_intern_cstr(&ranges->names, name);
    if (sym->number == ranges->most.count) VEC_PUSH(ranges->arena, &ranges->most, 0);
    double *most = &ranges->most.items[sym->number];
    if (reached > *most) *most = reached;
}

static void note_step(void *user, const DemiStep *step) {
    for (size_t i = 0; i < step->input_count; i++)
        note(user, step->input_names[i], &step->inputs[i]);
    for (size_t i = 0; i < step->output_count; i++)
        note(user, step->output_names[i], &step->outputs[i]);
}

bool trials_ranges(Trials *t, Words *words, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    Ranges ranges = {.arena = t->program->arena};
    sym_table_init(&ranges.names, ranges.arena);
    bool ok = console_check(demi_context_watch(t->reference.context, note_step, &ranges, &error),
                            &error, err);
    for (size_t set = 0; ok && set < t->sets.count; set++) {
        t->ready = 0;
        ok = run_reference(t, set, err);
    }
    demi_context_watch(t->reference.context, NULL, NULL, &error);
    for (size_t i = 0; ok && i < ranges.most.count; i++)
        if (ranges.most.items[i] >= LEAST_RANGE)
            VEC_PUSH(ranges.arena, words,
                     arena_printf(ranges.arena, "%s=%.9g", ranges.names.names[i]->text,
                                  ranges.most.items[i]));
    return ok;
}
