// SPDX-License-Identifier: Apache-2.0
/* See range_watch.h. Each lane of sets notes what it meets for itself, and all is brought together at the
 * end: nothing of it depends on which lane ran which set. */
#include "range_watch.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "error_fill.h"
#include "trial_lanes.h"
#include "trial_memory.h"
#include "value_io.h"

WatchedRanges watched_ranges_new(const DemiCalibrateOptions *options, Arena *arena,
                                 unsigned threads) {
    Workers *workers = workers_new(arena, threads);
    WatchedRanges ranges = {
        .options = options, .arena = arena, .counter = value_counter_new(arena, workers)};
    sym_table_init(&ranges.names, arena);
    return ranges;
}

/* What was asked of the value. */
static void take_asked(const WatchedRanges *asked, const char *name, WatchedRange *range) {
    const Sym sym = sym_find(&asked->names, name, strlen(name));
    const WatchedRange *from = sym ? &asked->items.items[sym->number] : NULL;
    range->wanted = from && from->wanted;
    range->averaged = from && from->averaged;
    if (!from) return;
    range->means.axis = from->means.axis;
    range->rounds = from->rounds;
    range->steps = from->steps;
}

WatchedRange *watched_range(WatchedRanges *ranges, const char *name) {
    Sym sym = sym_intern_cstr(&ranges->names, name);
    const WatchedRange none = {.values = VALUE_NO_HISTOGRAM, .limits = {-INFINITY, INFINITY}};
    if (sym->number < ranges->items.count) return &ranges->items.items[sym->number];
    VEC_PUSH(ranges->arena, &ranges->items, none);
    WatchedRange *range = &ranges->items.items[sym->number];
    range->wanted = true;
    if (ranges->asked) take_asked(ranges->asked, name, range);
    return range;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void note_floats(WatchedRanges *ranges, WatchedRange *range, const DemiData *value) {
    range->noted = true;
    ValueHistogram *h = &range->values;
    if (!ranges->options->ends) {
        const double most = value_largest(value, ranges->counter.workers);
        h->ends = value_range_join(h->ends, (ValueRange){-most, most});
    } else if (ranges->options->method == DEMI_CALIBRATION_MINMAX || !range->wanted) {
        h->ends = value_range_join(h->ends, value_range_of(value, ranges->counter.workers));
    } else {
        value_histogram_add(&ranges->counter, h, value);
    }
    if (range->averaged)
        channel_means_add(&range->means, value, range->rounds ? &range->steps : NULL,
                          ranges->arena);
}

/* Of a model in 16 bits or double, the numbers that its values have in float32. */
static void note(WatchedRanges *ranges, WatchedRange *range, const DemiData *value) {
    const Dtype dtype = (Dtype)value->dtype;
    if (value->kind != DEMI_DATA_TENSOR_KIND || !dtype_is_float(dtype)) return;
    if (dtype == DTYPE_FLOAT || !ranges->options->ends) {
        note_floats(ranges, range, value);
    } else if (dtype_bits(dtype) >= 16) {
        Arena *scratch = arena_child(ranges->arena);
        const DemiData wide = value_convert(scratch, value, DTYPE_FLOAT);
        note_floats(ranges, range, &wide);
        arena_free(scratch);
    }
}

/* What a step reads was made by another, is an input, or a constant: of the last two each is looked
 * at once a lane, inputs once a set. */
static void note_step(WatchedRanges *ranges, const DemiStep *step) {
    for (size_t i = 0; i < step->input_count; i++) {
        const char *name = step->input_names[i];
        WatchedRange *range = name[0] ? watched_range(ranges, name) : NULL;
        if (range && !range->made && !range->noted) note(ranges, range, &step->inputs[i]);
    }
    for (size_t i = 0; i < step->output_count; i++) {
        if (!step->output_names[i][0]) continue;
        WatchedRange *range = watched_range(ranges, step->output_names[i]);
        range->made = true;
        note(ranges, range, &step->outputs[i]);
    }
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Its thread's memory: it runs out within a callback, which the library's run must not be left by. */
typedef struct Watcher {
    MemTrap trap;
    Arena arena;
    Arena *kept; /* of histograms; those of the first lane outlive it */
    WatchedRanges ranges;
    Session *session;
    uint64_t reserved; /* of what is counted: bytes of the session's share */
    bool failed;
    bool beyond; /* what is counted is larger than the share */
} Watcher;

static void free_watcher(void *watcher) {
    arena_free(&((Watcher *)watcher)->arena);
}

static void free_histograms(void *kept) {
    arena_free(kept);
}

static void watch_step(void *user, const DemiStep *step) {
    Watcher *w = user;
    if (w->failed) return;
    if (setjmp(w->trap.env)) {
        w->failed = true;
        return;
    }
    note_step(&w->ranges, step);
    const uint64_t more = w->ranges.counter.taken - w->reserved;
    w->reserved += more;
    if (more && !session_reserve(w->session, more)) w->failed = w->beyond = true;
}

static bool watcher_failed(const Watcher *w, Err *err) {
    if (!w->beyond) return err_out_of_memory(err);
    err_set(err, ERR_ENV, "calibration histograms need more memory than the limit of %llu bytes",
            (unsigned long long)session_budget(w->session));
    err_hint(err, "raise the limit, or use --calibration minmax, which needs no histograms");
    return false;
}

/* An input differs from set to set. */
static void forget_inputs(Watcher *w, const Session *s) {
    if (setjmp(w->trap.env)) {
        w->failed = true;
        return;
    }
    for (size_t i = 0; i < s->input_count; i++) {
        WatchedRange *range = watched_range(&w->ranges, s->inputs[i].name);
        range->input = true;
        range->noted = false;
    }
}

static void begin_watcher(Watcher *w, const DemiCalibrateOptions *options,
                          const WatchedRanges *asked, unsigned threads) {
    w->session->reserved = 0;
    if (setjmp(w->trap.env)) {
        w->failed = true;
        return;
    }
    arena_init(&w->arena, &w->trap);
    w->kept->trap = &w->trap;
    w->ranges = watched_ranges_new(options, &w->arena, threads);
    w->ranges.counter.arena = w->kept;
    w->ranges.asked = asked;
}

static bool open_watchers(const Lanes *lanes, const WatchedRanges *ranges,
                          const WatchedRanges *asked, Watcher *watchers, Err *err) {
    for (unsigned i = 0; i < lanes->count; i++) {
        DemiError error = DEMI_ERROR_INIT;
        Session *session = watchers[i].session = lanes->sessions[i];
        arena_defer(lanes->arena, free_watcher, &watchers[i]);
        /* what the first one counted is taken over */
        Arena *owner = i ? lanes->arena : ranges->counter.arena;
        watchers[i].kept = ARENA_NEW(owner, Arena);
        arena_init(watchers[i].kept, owner->trap);
        arena_defer(owner, free_histograms, watchers[i].kept);
        begin_watcher(&watchers[i], ranges->options, asked,
                      lanes->count == 1 ? session->threads : 1);
        if (watchers[i].failed) return watcher_failed(&watchers[i], err);
        const DemiStatus status =
            demi_context_watch(session->context, watch_step, &watchers[i], &error);
        if (!error_take(err, status, &error)) return false;
    }
    return true;
}

/* `first`: of what is there by now nothing is counted, and histograms of `of` live as long. */
static void join(WatchedRanges *ranges, const WatchedRanges *of, bool first) {
    for (size_t i = 0; i < of->items.count; i++) {
        const WatchedRange *from = &of->items.items[i];
        WatchedRange *range = watched_range(ranges, of->names.names[i]->text);
        range->made = range->made || from->made;
        range->input = range->input || from->input;
        if (first)
            range->values = from->values;
        else
            value_histogram_join(&ranges->counter, &range->values, &from->values);
        channel_means_join(&range->means, &from->means, ranges->arena);
    }
}

static bool run_sets(Lanes *lanes, Watcher *watchers, bool keep, Err *err) {
    Trials *t = lanes->trials;
    const size_t mine = trials_mine(t);
    for (size_t i = 0; i < mine; i += lanes->count) {
        for (size_t k = i; k < i + lanes->count && k < mine; k++)
            if (!progress_tell(&t->progress, "calibrating", trials_place(t, k), t->count, err))
                return false;
        if (!lanes_run(lanes, i, trials_prepare, err)) return false;
        for (size_t k = i; k < i + lanes->count && k < mine; k++) {
            const Session *session = lanes->sessions[k - i];
            if (!trials_see_outputs(t, trials_place(t, k), session, err)) return false;
            trials_take(t, trials_place(t, k), session, keep);
            forget_inputs(&watchers[k - i], session);
            if (watchers[k - i].failed) return watcher_failed(&watchers[k - i], err);
        }
    }
    return true;
}

typedef struct Measure {
    const WatchedRanges *asked; /* NULL: everything is */
    bool keep;
} Measure;

/* By so many lanes. *again: they had too little memory each. */
static bool measure_by(WatchedRanges *ranges, Trials *t, const Measure *how, unsigned most,
                       bool *again, Err *err) {
    Lanes lanes = {.count = 0};
    Arena *within = arena_child(t->arena);
    bool ok = lanes_open(&lanes, t, t->reference, &t->how, most, within, err);
    Watcher *watchers = ARENA_ARRAY(within, Watcher, lanes.count + 1);
    ok = ok && open_watchers(&lanes, ranges, how->asked, watchers, err) &&
         run_sets(&lanes, watchers, how->keep, err);
    demi_context_watch(t->reference->context, NULL, NULL, NULL);
    t->reference->reserved = 0;
    for (unsigned i = 0; ok && i < lanes.count; i++) join(ranges, &watchers[i].ranges, i == 0);
    *again = !ok && lanes_lack_memory(&lanes, err);
    if (!ok && watchers[0].kept) arena_free(watchers[0].kept);
    lanes_end(&lanes);
    arena_free(within);
    return ok;
}

bool watched_ranges_measure_mine(WatchedRanges *ranges, Trials *t, const WatchedRanges *asked,
                                 bool keep, Err *err) {
    const Measure how = {asked, keep};
    bool again, ok = measure_by(ranges, t, &how, LANES_MOST, &again, err);
    if (!again) return ok;
    *err = (Err){.code = ERR_NONE};
    return measure_by(ranges, t, &how, 1, &again, err);
}
