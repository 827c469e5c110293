// SPDX-License-Identifier: Apache-2.0
/* Converting and running, again and again; see trial.h. What is measured of the model itself for
 * calibration is in trial_ranges.c, and which sets there are in trial_sets.c. */
#include "trial.h"

#include <string.h>

#include "dtype.h"
#include "error_fill.h"
#include "kernel.h"
#include "model_source.h"
#include "trial_memory.h"
#include "value_io.h"
#include "value_sums.h"

/* Most bytes of inputs and outputs that are kept from one trial to the next: so many, and no more than
 * such a part of the memory that there is. */
enum { MOST_KEPT = 512 << 20, KEPT_PART = 4 };

/* ---- the model itself ------------------------------------------------------------------------ */

void trials_lend(Trials *t, MemTrap *trap) {
    t->arena->trap = trap;
    t->progress.cancelled = t->searching = false;
    t->others.count = 0;
    t->enough = 0;
    t->measured = t->source;
    t->reference = t->own;
    for (size_t i = 0; i < t->count; i++)
        if (t->sets[i].arena) t->sets[i].arena->trap = trap;
    if (t->reference) demi_context_watch(t->reference->context, NULL, NULL, NULL);
}

static uint64_t bytes_of(const DemiData *values, size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += value_bytes(&values[i]);
    return bytes;
}

/* Of values and outputs, or of the arena, where these are small beside what it takes at once. */
static uint64_t set_bytes(const Trials *t, const TrialSet *set) {
    const uint64_t bytes = bytes_of(set->values, t->reference->input_count) +
                           bytes_of(set->outputs, t->reference->output_count);
    return bytes > set->arena->used ? bytes : set->arena->used;
}

static void let_go(Trials *t, TrialSet *set) {
    if (set->arena) arena_free(set->arena);
    set->arena = NULL;
    *t->held -= set->bytes;
    set->bytes = 0;
}

static void note_assumed(Trials *t, TrialSet *set) {
    const InputSizes *sizes = &t->reference->sizes;
    if (!set->assumed) set->assumed = ARENA_ARRAY(t->arena, int64_t, sizes->items.count + 1);
    for (size_t i = 0; i < sizes->items.count; i++) {
        const InputSize *size = &sizes->items.items[i];
        set->assumed[i] = size->state == INPUT_SIZE_ASSUMED ? size->size : -1;
    }
}

static bool find_inputs(Trials *t, size_t i, Err *err) {
    Session *s = t->reference;
    TrialSet *set = &t->sets[i];
    bool random = !set->from.path && !set->from.values;
    s->values = set->values;
    s->given = set->given;
    s->set = random ? (unsigned)set->number : 0;
    if (!session_find_inputs(s, set->arena, &set->from, err)) return false;
    note_assumed(t, set);
    return session_bind(s, err);
}

static bool begin_set(Trials *t, size_t i, Err *err) {
    const Session *s = t->reference;
    TrialSet *set = &t->sets[i];
    set->arena = arena_child(t->arena);
    set->values = ARENA_ARRAY(set->arena, DemiData, s->input_count + 1);
    set->given = ARENA_ARRAY(set->arena, bool, s->input_count + 1);
    set->outputs = ARENA_ARRAY(set->arena, DemiData, s->output_count + 1);
    picks_init(&set->picks, set->arena);
    return find_inputs(t, i, err);
}

static void take_outputs(Trials *t, TrialSet *set, const Session *s) {
    for (size_t k = 0; k < s->output_count; k++)
        set->outputs[k] = value_copy(set->arena, demi_context_output(s->context, k));
    set->bytes = set_bytes(t, set);
    *t->held += set->bytes;
}

static bool make_set(Trials *t, size_t i, Err *err) {
    Session *s = t->reference;
    TrialSet *set = &t->sets[i];
    trials_turn_reference(t);
    if (!begin_set(t, i, err)) return false;
    if (!(t->picks ? picks_run_reference(&set->picks, s, err) : session_run(s, err))) return false;
    take_outputs(t, set, s);
    return true;
}

/* Has the reference run on set i, unless it was kept; its values are the set's then, and it is the others'
 * turn. */
static bool run_reference(Trials *t, size_t i, Err *err) {
    const bool ok = t->sets[i].arena || make_set(t, i, err);
    if (!ok) let_go(t, &t->sets[i]);
    trials_turn_others(t);
    return ok;
}

/* Of many and large sets the last are run anew each time. */
static void end_set(Trials *t, TrialSet *set) {
    if (set->stays) return;
    set->stays = *t->held <= MOST_KEPT && *t->held <= t->memory / KEPT_PART;
    if (!set->stays) let_go(t, set);
}

/* ---- a conversion ---------------------------------------------------------------------------- */

/* Texts outlive the trial. */
static const char *text_copy(Arena *arena, const char *text) {
    return arena_copy(arena, text, strlen(text) + 1);
}

/* By type, and not by the one that options name: a policy may name another. */
static void list_low(const DemiReport *report, TrialResult *result) {
    for (size_t i = 0; i < demi_report_node_count(report); i++) {
        const DemiReportNode *node = demi_report_node(report, i);
        if (strcmp(node->dtype, "float16") == 0 || strcmp(node->dtype, "bfloat16") == 0 ||
            strcmp(node->kind, "quantized") == 0)
            VEC_PUSH(result->arena, &result->low, text_copy(result->arena, node->name));
    }
}

static void free_report(void *report) {
    demi_report_free(*(DemiReport **)report);
}

static bool convert(Trials *t, Arena *within, const DemiConvertOptions *options, DemiModel **model,
                    TrialResult *result, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiReport **report = ARENA_NEW(within, DemiReport *);
    DemiConvertOptions quiet = *options;
    DemiRunOptions run = options->run ? *options->run : (DemiRunOptions)DEMI_RUN_OPTIONS_INIT;
    arena_defer(within, free_report, report);
    run.text = NULL;
    run.progress = NULL;
    quiet.run = &run;
    if (!model_open(&t->source, model, err)) return false;
    DemiStatus status =
        demi_convert(*model, &quiet, result && result->nodes ? report : NULL, &error);
    if (!error_take(err, status, &error)) {
        err_file(err, t->path);
        return false;
    }
    if (*report) list_low(*report, result);
    return true;
}

static bool open_conversion(Trials *t, Arena *within, const DemiConvertOptions *options,
                            Session *session, TrialResult *result, Err *err) {
    DemiModel **model = model_hold(within);
    session->path = t->path;
    bool ok = convert(t, within, options, model, result, err) &&
              session_open_model(session, within, model, err);
    model_drop(model);
    return ok;
}

/* The set's inputs as the other session takes them. */
static bool bind_set(Trials *t, size_t i, Arena *within, Session *session, Err *err) {
    t->reference->values = t->sets[i].values;
    t->reference->given = t->sets[i].given;
    return session_take_inputs(session, within, t->reference, err) && session_bind(session, err);
}

/* The sets' judgments while they are run: the worst of them where this process is alone, else records. */
typedef struct Judging {
    Trials *trials;
    Session *session;
    TrialResult *result;
    ByteBuffer records;
    bool stops, beyond; /* ends with what is off by more than `enough`; one of this process's was */
} Judging;

static void take_judgment(Judging *j, size_t i, const Judgment *judgment) {
    const Trials *t = j->trials;
    TrialResult *result = j->result;
    const char *title = t->sets[i].from.title;
    j->beyond = j->beyond || judgment->error > t->enough;
    if (!share_is_alone(&t->share)) {
        const size_t begun = share_record_begin(&j->records, i);
        judgment_pack(&j->records, judgment);
        share_record_end(&j->records, begun);
        return;
    }
    judgment_add(result->arena, &result->judgment, judgment,
                 title ? text_copy(result->arena, title) : "");
}

static bool run_set(Judging *j, size_t i, Arena *within, Err *err) {
    Trials *t = j->trials;
    if (!run_reference(t, i, err) || !bind_set(t, i, within, j->session, err)) return false;
    TrialSet *set = &t->sets[i];
    const Judge judge = {.arena = within,
                         .reference = {t->path, t->reference, set->outputs},
                         .picks = t->picks ? &set->picks : NULL,
                         .enough = t->enough};
    Judgment judgment;
    j->session->data = set->from.title;
    if (!judge_run(&judge, j->session, &judgment, err)) return false;
    take_judgment(j, i, &judgment);
    end_set(t, set);
    return true;
}

/* A ShareRecordFn: what comes behind the set that ended the trial, by another process, does not count. */
static bool take_record(void *user, uint64_t i, ShareBytes *bytes, Err *err) {
    Judging *j = user;
    TrialResult *result = j->result;
    Judgment judgment;
    judgment_unpack(bytes, &judgment, result->arena);
    if (!share_unpacked(bytes, err)) return false;
    if (j->stops && result->judgment.error > j->trials->enough) return true;
    const char *title = j->trials->sets[i].from.title;
    judgment_add(result->arena, &result->judgment, &judgment,
                 title ? text_copy(result->arena, title) : "");
    return true;
}

/* A search says itself how far it is. */
static bool tell_verifying(Trials *t, size_t i, Err *err) {
    return t->searching || progress_tell(&t->progress, "verifying", i, t->count, err);
}

/* It runs by turns with the reference from now on, or nobody does. */
static void take_turns(Trials *t, Session *const *with) {
    t->others = (SessionList){with, with ? 1 : 0};
}

/* Whether any process had a set that ends the trial. */
static bool share_beyond(const Judging *j, bool *beyond, Err *err) {
    uint64_t word = j->beyond;
    const bool ok = share_words(&j->trials->share, &word, 1, err);
    *beyond = word != 0;
    return ok;
}

/* By turns with the reference; what a set needed is gone before the next. */
static bool run_sets(Judging *j, Err *err) {
    Trials *t = j->trials;
    const size_t parts = share_is_alone(&t->share) ? 1 : t->share.parts;
    bool ok = true, beyond = false;
    for (size_t i = 0; ok && !beyond && i < (t->count + parts - 1) / parts; i++) {
        Arena *within = arena_child(t->arena);
        const size_t place = trials_place(t, i);
        ok = i >= trials_mine(t) ||
             (tell_verifying(t, place, err) && run_set(j, place, within, err));
        ok = ok && (!j->stops || share_beyond(j, &beyond, err));
        arena_free(within);
    }
    return ok && (parts == 1 || share_records(&t->share, &j->records, take_record, j, err));
}

bool trials_run(Trials *t, const DemiConvertOptions *options, TrialResult *result, Err *err) {
    Arena *within = arena_child(result->arena);
    Session *session = session_new(within, &t->how);
    Judging judging = {t, session, result, {.arena = within}, t->enough > 0, false};
    bool ok = open_conversion(t, within, options, session, result, err);
    take_turns(t, &session);
    ok = ok && run_sets(&judging, err);
    take_turns(t, NULL);
    t->done++;
    arena_free(within);
    return ok;
}

/* ---- another model --------------------------------------------------------------------------- */

static void note_types(void *user, const DemiStep *step) {
    ValueKinds *kinds = user;
    kinds->quantized = kinds->quantized || step_dequantizes(step);
    for (size_t i = 0; i < step->output_count; i++) {
        Dtype dtype = (Dtype)step->outputs[i].dtype;
        kinds->low = kinds->low || (step->outputs[i].kind == DEMI_DATA_TENSOR_KIND &&
                                    dtype_is_float(dtype) && dtype_bits(dtype) < 32);
    }
}

static bool watch_types(Session *session, ValueKinds *kinds, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiStatus status = demi_context_watch(session->context, note_types, kinds, &error);
    bool ok = error_take(err, status, &error) && session_run(session, err);
    demi_context_watch(session->context, NULL, NULL, &error);
    return ok;
}

/* Types differ not from set to set: the first tells them. */
static bool settle_limit(Trials *t, Arena *within, Session *session, DemiLimit *limit, Err *err) {
    ValueKinds was = {false, false}, is = {false, false};
    if (limit->error >= 0 && limit->least >= 0) return true;
    if (!run_reference(t, 0, err) || !bind_set(t, 0, within, session, err) ||
        !session_bind(t->reference, err))
        return false;
    trials_turn_reference(t);
    if (!watch_types(t->reference, &was, err)) return false;
    trials_turn_others(t);
    if (!watch_types(session, &is, err)) return false;
    limit_settle(limit, (ValueKinds){was.low || is.low, is.quantized && !was.quantized});
    return true;
}

bool trials_judge(Trials *t, const DemiSource *model, DemiLimit *limit, TrialResult *result,
                  Err *err) {
    Arena *within = arena_child(result->arena);
    Session *session = session_new(within, &t->how);
    bool ok = session_open(session, within, model, err);
    take_turns(t, &session);
    ok = ok && settle_limit(t, within, session, limit, err);
    if (ok && trials_place(t, 0)) end_set(t, &t->sets[0]); /* it is another process's */
    t->enough = limit->error;
    Judging judging = {t, session, result, {.arena = within}, false, false};
    ok = ok && run_sets(&judging, err);
    take_turns(t, NULL);
    t->enough = 0;
    t->done++;
    arena_free(within);
    return ok;
}

/* ---- any use of the sets --------------------------------------------------------------------- */

bool trials_bind(Trials *t, size_t i, Err *err) {
    if (!run_reference(t, i, err)) return false;
    t->reference->values = t->sets[i].values;
    t->reference->given = t->sets[i].given;
    return session_bind(t->reference, err);
}

bool trials_give(Trials *t, size_t i, Arena *within, Session *session, Err *err) {
    return run_reference(t, i, err) && bind_set(t, i, within, session, err);
}

void trials_end_set(Trials *t, size_t i) {
    end_set(t, &t->sets[i]);
}

/* A session of the same plan takes the inputs as they are. */
bool trials_prepare(Trials *t, size_t i, Arena *within, Session *session, Err *err) {
    let_go(t, &t->sets[i]);
    if (begin_set(t, i, err) && (session == t->reference || bind_set(t, i, within, session, err)))
        return true;
    let_go(t, &t->sets[i]);
    return false;
}

bool trials_see_outputs(Trials *t, size_t i, const Session *session, Err *err) {
    const SessionSet *from = &t->sets[i].from;
    uint64_t all = 0, finite = 0;
    if (!t->calibrating || !(from->path || from->values)) return true;
    for (size_t k = 0; k < session->output_count; k++)
        t->floats += value_count_finite(demi_context_output(session->context, k), &all, &finite);
    t->numbers += all;
    if (!all || finite) return true;
    err_set(err, ERR_MODEL, "the model's outputs on this set are all NaN or infinite");
    if (from->title) err_file(err, from->title);
    return false;
}

bool trials_saw_elements(const Trials *t, Err *err) {
    if (t->numbers || !t->floats || !share_is_alone(&t->share)) return true;
    err_set(err, ERR_MODEL, "the model's outputs have no elements on any set");
    if (t->sets[0].from.title) err_file(err, t->sets[0].from.title);
    return false;
}

void trials_take(Trials *t, size_t i, const Session *session, bool keep) {
    if (keep) {
        take_outputs(t, &t->sets[i], session);
        end_set(t, &t->sets[i]);
    } else {
        let_go(t, &t->sets[i]);
    }
}

void trials_forget(Trials *t) {
    for (size_t i = 0; i < t->count; i++) {
        let_go(t, &t->sets[i]);
        t->sets[i].stays = false;
    }
}

/* ---- what breaks ----------------------------------------------------------------------------- */

bool trials_find_broken(Trials *t, const DemiConvertOptions *options, Arena *arena,
                        DemiBroken *found, Err *err) {
    Arena *within = arena_child(arena);
    Session *session = session_new(within, &t->how);
    DemiBroken first = {.node = NULL};
    bool ok = open_conversion(t, within, options, session, NULL, err);
    take_turns(t, &session);
    for (size_t i = 0; ok && !first.node && i < t->count; i++) {
        ok = run_reference(t, i, err) && bind_set(t, i, within, session, err) &&
             session_bind(t->reference, err) &&
             nonfinite_find(within, t->reference, session, &first, err);
        if (ok) end_set(t, &t->sets[i]);
    }
    take_turns(t, NULL);
    *found = first;
    if (first.node) nonfinite_copy(arena, &first, found);
    arena_free(within);
    return ok;
}
