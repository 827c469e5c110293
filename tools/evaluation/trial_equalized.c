// SPDX-License-Identifier: Apache-2.0
/* See trial_equalized.h. */
#include "trial_equalized.h"

#include "channel_watch.h"
#include "demi_front.h"
#include "error_fill.h"
#include "model_source.h"
#include "policy.h"
#include "trial_memory.h"

/* ---- measuring ------------------------------------------------------------------------------- */

static bool run_set(Trials *t, size_t i, Arena *within, Err *err) {
    Session *s = t->reference;
    trials_turn_reference(t);
    if (!trials_prepare(t, i, within, s, err)) return false;
    s->data = t->sets[i].from.title;
    const bool ok = session_run(s, err);
    trials_take(t, i, s, false);
    return ok;
}

static bool run_sets(Trials *t, ChannelWatch *watch, Arena *within, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    const DemiStatus status =
        demi_context_watch(t->reference->context, channel_watch_step, watch, &error);
    bool ok = error_take(err, status, &error);
    for (size_t i = 0; ok && i < t->count; i++)
        ok = progress_tell(&t->progress, "measuring channels", i, t->count, err) &&
             run_set(t, i, within, err);
    demi_context_watch(t->reference->context, NULL, NULL, NULL);
    return ok;
}

typedef struct Measuring {
    Trials *trials;
    Arena *within; /* of what was measured */
} Measuring;

/* Its own trap: a conversion is under way, which is to end by itself where memory runs out. */
static bool measure(void *user, const ChannelRequest *requests, size_t count, ChannelReach *reach,
                    Err *err) {
    const Measuring *m = user;
    Trials *t = m->trials;
    MemTrap trap, *outer = t->arena->trap;
    if (setjmp(trap.env)) {
        trials_lend(t, outer);
        m->within->trap = outer;
        return err_out_of_memory(err);
    }
    trials_lend(t, &trap);
    m->within->trap = &trap;
    ChannelWatch watch = channel_watch_new(requests, count, m->within);
    const bool ok = run_sets(t, &watch, m->within, err);
    for (size_t i = 0; ok && i < count; i++) reach[i] = channel_watch_end(&watch, i);
    const bool cancelled = t->progress.cancelled;
    trials_lend(t, outer);
    m->within->trap = outer;
    t->progress.cancelled = cancelled;
    return ok;
}

/* ---- the model ------------------------------------------------------------------------------- */

static DemiStatus equalize(const Equalized *e, ChannelData *data, DemiModel *model, bool *changed,
                           DemiError *error) {
    DemiConvertOptions options = e->convert;
    DemiRunOptions run = e->run;
    run.text = NULL;
    run.progress = NULL;
    run.unchecked = true; /* the conversion itself is checked */
    options.run = &run;
    return demi_front_equalize(model, &options, data, changed, error);
}

static DemiStatus open_equalized(void *user, DemiModel **model, DemiError *error) {
    const Equalized *e = user;
    bool changed;
    DemiStatus status = demi_source_open(&e->trials->source, model, error);
    if (status == DEMI_OK) status = equalize(e, NULL, *model, &changed, error);
    return status;
}

/* Whether it changes the model; with `data`, what is chosen by that. */
static bool try_model(const Equalized *e, ChannelData *data, Arena *within, bool *changed,
                      Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel **model = model_hold(within);
    MemTrap *trap = within->trap;
    bool ok = model_open(&e->trials->source, model, err);
    if (ok) ok = error_take(err, equalize(e, data, *model, changed, &error), &error);
    if (data) data->arena->trap = trap;
    if (!ok && err->code != ERR_CANCELLED) err_file(err, e->trials->path);
    model_drop(model);
    return ok;
}

/* Scales by data, if none are given: then those are the conversion's. */
static bool choose_scales(Equalized *e, Arena *within, Err *err) {
    bool changed;
    Measuring measuring = {e->trials, arena_child(within)};
    ChannelData data = {.measure = measure, .user = &measuring, .arena = arena_child(within)};
    if (!try_model(e, &data, within, &changed, err)) return false;
    for (size_t i = 0; i < data.chosen.count; i++)
        VEC_PUSH(within, &e->scales, data.chosen.items[i]);
    e->convert.channel_scales = e->scales.items;
    e->convert.channel_scale_count = e->scales.count;
    return true;
}

static bool begin_session(Equalized *e, Arena *within, Err *err) {
    Trials *t = e->trials;
    Session *session = session_new(within, &t->how);
    DemiSource source = DEMI_SOURCE_INIT;
    source.path = t->path;
    source.open = open_equalized;
    source.open_user = e;
    trials_forget(t);
    if (!session_open(session, within, &source, err)) return false;
    t->reference = session;
    t->measured = source;
    return true;
}

bool equalized_begin(Equalized *e, Trials *t, const DemiConvertOptions *convert, Arena *within,
                     Err *err) {
    ConvertPolicy policy;
    bool changed = false;
    *e = (Equalized){.trials = t, .convert = *convert, .run = DEMI_RUN_OPTIONS_INIT};
    if (convert->run) e->run = *convert->run;
    if (!policy_from_options(&policy, convert, within, err)) return false;
    const PolicyEqualizes how = policy_equalizes(&policy);
    if (how == POLICY_EQUALIZES_BY_DATA && !choose_scales(e, within, err)) return false;
    if (how != POLICY_EQUALIZES && !e->scales.count) return true;
    return try_model(e, NULL, within, &changed, err) && (!changed || begin_session(e, within, err));
}

void equalized_end(Trials *t) {
    if (t->reference == t->own) return;
    trials_forget(t);
    t->reference = t->own;
    t->measured = t->source;
}
