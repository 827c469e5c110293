// SPDX-License-Identifier: Apache-2.0
/* Converting and running, again and again; see trial.h. What is measured of the model itself for
 * calibration is in trial_ranges.c. */
#include "trial.h"

#include <inttypes.h>
#include <string.h>

#include "kernel.h"
#include "value_io.h"

/* Most bytes of inputs and outputs that are kept from one trial to the next. */
enum { MOST_KEPT = 512 << 20 };

/* ---- the model itself ------------------------------------------------------------------------ */

static bool find_sets(Trials *t, const TrialInputs *inputs, Err *err) {
    Words paths = {0};
    bool random = strcmp(inputs->from, "random") == 0;
    if (!random && !session_data_sets(&t->reference, t->program, inputs->from, &paths, err))
        return false;
    t->count = random ? inputs->sets : paths.count;
    t->sets = ARENA_ARRAY(t->program->arena, TrialSet, t->count);
    for (size_t i = 0; !random && i < t->count; i++) t->sets[i].path = paths.items[i];
    return true;
}

bool trials_open(Trials *t, Program *program, const Parsed *parsed, const char *path,
                 const TrialInputs *inputs, Err *err) {
    *t = (Trials){.program = program, .parsed = parsed, .path = path, .started = console_seconds()};
    t->reference.judges = true;
    if (strcmp(path, "-") == 0) {
        err_set(err, ERR_USAGE, "a model that is run has to be a file: it is read several times");
        return false;
    }
    if (!session_open(&t->reference, program, parsed, path, err) || !find_sets(t, inputs, err))
        return false;
    t->picks = picks_are_made(&t->reference);
    return true;
}

static size_t bytes_of(const DemiData *values, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == DEMI_DATA_TENSOR_KIND)
            bytes += value_count(&values[i]) * kernel_element_size((Dtype)values[i].dtype);
        else
            bytes += bytes_of(values[i].items, values[i].count);
    }
    return bytes;
}

static size_t set_bytes(const Trials *t, const TrialSet *set) {
    return bytes_of(set->values, t->reference.input_count) +
           bytes_of(set->outputs, t->reference.output_count);
}

static void let_go(TrialSet *set) {
    if (set->arena) arena_free(set->arena);
    set->arena = NULL;
}

void trials_close(Trials *t) {
    for (size_t i = 0; i < t->count; i++) let_go(&t->sets[i]);
    session_close(&t->reference);
}

static void note_assumed(Trials *t, TrialSet *set) {
    const InputSizes *sizes = &t->reference.sizes;
    if (!set->assumed)
        set->assumed = ARENA_ARRAY(t->program->arena, int64_t, sizes->items.count + 1);
    for (size_t i = 0; i < sizes->items.count; i++) {
        const InputSize *size = &sizes->items.items[i];
        set->assumed[i] = size->state == INPUT_SIZE_ASSUMED ? size->size : -1;
    }
}

static bool find_inputs(Trials *t, size_t i, Program *within, Err *err) {
    Session *s = &t->reference;
    TrialSet *set = &t->sets[i];
    s->values = set->values;
    s->given = set->given;
    s->set = set->path ? 0 : (unsigned)i;
    if (!session_find_inputs(s, within, t->parsed, set->path, set->path ? NULL : "0", err))
        return false;
    note_assumed(t, set);
    return session_bind(s, err);
}

/* Has the reference run on set i; its values are the set's then. */
static bool run_reference(Trials *t, size_t i, Err *err) {
    Session *s = &t->reference;
    TrialSet *set = &t->sets[i];
    Program within = *t->program;
    if (set->arena) return true;
    within.arena = set->arena = arena_child(t->program->arena);
    set->values = ARENA_ARRAY(within.arena, DemiData, s->input_count + 1);
    set->given = ARENA_ARRAY(within.arena, bool, s->input_count + 1);
    set->outputs = ARENA_ARRAY(within.arena, DemiData, s->output_count + 1);
    picks_init(&set->picks, within.arena);
    if (!find_inputs(t, i, &within, err)) return false;
    if (!(t->picks ? picks_run_reference(&set->picks, s, err) : session_run(s, err))) return false;
    for (size_t k = 0; k < s->output_count; k++)
        set->outputs[k] = value_copy(within.arena, demi_context_output(s->context, k));
    return true;
}

/* Of many and large sets the last are run anew each time. */
static void end_set(Trials *t, TrialSet *set) {
    size_t bytes = set_bytes(t, set);
    if (set->counted) return;
    set->counted = t->kept + bytes <= MOST_KEPT;
    if (set->counted)
        t->kept += bytes;
    else
        let_go(set);
}

bool trials_watch_set(Trials *t, size_t i, Err *err) {
    bool picks = t->picks;
    let_go(&t->sets[i]);
    t->picks = false; /* they are watched for, too */
    bool ok = run_reference(t, i, err);
    t->picks = picks;
    let_go(&t->sets[i]);
    return ok;
}

/* ---- a conversion ---------------------------------------------------------------------------- */

/* Texts outlive the trial. */
static const char *text_copy(Arena *arena, const char *text) {
    return arena_copy(arena, text, strlen(text) + 1);
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

static bool open_conversion(Trials *t, Program *within, const DemiConvertOptions *options,
                            Session *session, TrialResult *result, Err *err) {
    DemiModel *model = NULL;
    bool ok = convert(t, within, options, &model, result, err) &&
              session_open_model(session, within, t->parsed, model, err);
    demi_free(model);
    return ok;
}

/* The set's inputs as the other session takes them. */
static bool bind_set(Trials *t, size_t i, Program *within, Session *session, Err *err) {
    t->reference.values = t->sets[i].values;
    t->reference.given = t->sets[i].given;
    return session_take_inputs(session, within, &t->reference, err) && session_bind(session, err);
}

static bool run_set(Trials *t, Program *within, Session *session, size_t i, TrialResult *result,
                    Err *err) {
    if (!run_reference(t, i, err) || !bind_set(t, i, within, session, err)) return false;
    TrialSet *set = &t->sets[i];
    const Judge judge = {.arena = within->arena,
                         .reference = {t->path, &t->reference, set->outputs},
                         .picks = t->picks ? &set->picks : NULL,
                         .enough = t->enough};
    Judgement judgement;
    if (!judge_run(&judge, session, &judgement, err)) return false;
    judgement_add(t->program->arena, &result->judgement, &judgement);
    end_set(t, set);
    return true;
}

bool trials_run(Trials *t, const DemiConvertOptions *options, TrialResult *result, Err *err) {
    Program within = *t->program;
    Session session = {.path = t->path, .judges = true};
    within.arena = arena_child(t->program->arena);
    bool ok = open_conversion(t, &within, options, &session, result, err);
    for (size_t i = 0; ok && i < t->count; i++) {
        if (!(t->enough > 0))
            console_progress_since(t->program, "verifying", i, t->count, t->started);
        ok = run_set(t, &within, &session, i, result, err);
        if (t->enough > 0 && result->judgement.error > t->enough) break;
    }
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

bool trials_find_broken(Trials *t, const DemiConvertOptions *options, Nonfinite *found, Err *err) {
    Session session = {.path = t->path, .judges = true};
    TrialResult unused = {0};
    *found = (Nonfinite){.node = NULL};
    bool ok = open_conversion(t, t->program, options, &session, &unused, err);
    for (size_t i = 0; ok && !found->node && i < t->count; i++)
        ok = run_reference(t, i, err) && bind_set(t, i, t->program, &session, err) &&
             session_bind(&t->reference, err) &&
             nonfinite_find(t->program->arena, &t->reference, &session, found, err);
    session_close(&session);
    return ok;
}

/* ---- saying it ------------------------------------------------------------------------------- */

/* One size over the sets: "16", or "16, 24, 7, 33" where they differ; NULL where it was given. */
static const char *size_text(const Trials *t, size_t size) {
    Arena *arena = t->program->arena;
    const char *all = NULL;
    bool same = true;
    int64_t first = -1;
    for (size_t i = 0; i < t->count; i++) {
        int64_t assumed = t->sets[i].assumed ? t->sets[i].assumed[size] : -1;
        if (assumed < 0) continue;
        same = same && (first < 0 || first == assumed);
        first = first < 0 ? assumed : first;
        all = arena_printf(arena, "%s%s%" PRId64, all ? all : "", all ? ", " : "", assumed);
    }
    return all && same ? arena_printf(arena, "%" PRId64, first) : all;
}

const char *trials_assumed(const Trials *t) {
    const InputSizes *sizes = &t->reference.sizes;
    Arena *arena = t->program->arena;
    const char *text = "";
    for (size_t k = 0; k < sizes->items.count; k++) {
        const InputSize *size = &sizes->items.items[k];
        const char *is = size_text(t, k);
        if (!is) continue;
        const char *name = size->name[0] ? size->name
                                         : arena_printf(arena, "axis %u of %s", size->axis,
                                                        t->reference.declared[size->input].name);
        text = arena_printf(arena, "%s%s%s %s", text, text[0] ? "; " : "", name, is);
    }
    return text;
}
