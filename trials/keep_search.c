// SPDX-License-Identifier: Apache-2.0
/* Searching by trial; see keep_search.h. */
#include "keep_search.h"

#include <stdlib.h>
#include <string.h>

#include "node_pattern.h"

enum { RUNS = 16 };

/* Neighbours in the model's order. */
typedef struct Run {
    size_t first, count;
    double error; /* with these alone in the new type */
} Run;

typedef struct Search {
    Trials *trials;
    Arena *arena;
    const DemiConvertOptions *base;
    double most;
    Words low;    /* patterns of nodes that may be low, each of one name, in the model's order */
    bool *kept;   /* [low.count] */
    size_t limit; /* of trials */
    TrialResult best; /* of the kept nodes that last were good enough */
    bool *best_kept;  /* [low.count] */
    bool stopped;     /* the caller wants no more */
    DemiConvertOptions options;
    Err *err;
} Search;

/* The base's patterns and every node that is kept now. */
static void set_keep(Search *s) {
    Words keep = {0};
    for (size_t i = 0; i < s->base->keep_count; i++) VEC_PUSH(s->arena, &keep, s->base->keep[i]);
    for (size_t i = 0; i < s->low.count; i++)
        if (s->kept[i]) VEC_PUSH(s->arena, &keep, s->low.items[i]);
    s->options.keep = keep.items;
    s->options.keep_count = keep.count;
}

static bool measure(Search *s, TrialResult *result) {
    size_t done = KEEP_TRIALS - (s->limit - s->trials->done);
    *result = (TrialResult){.arena = s->arena};
    if (!progress_tell(&s->trials->progress, "looking for nodes to keep", done, KEEP_TRIALS,
                       s->err))
        return false;
    set_keep(s);
    return trials_run(s->trials, &s->options, result, s->err);
}

static void keep_run(Search *s, const Run *run, bool kept) {
    memset(s->kept + run->first, kept, run->count * sizeof *s->kept);
}

static void keep_all(Search *s, bool kept) {
    keep_run(s, &(Run){.count = s->low.count}, kept);
}

static int by_error(const void *a, const void *b) {
    const Run *x = a, *y = b;
    if (x->error != y->error) return x->error > y->error ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* What each run does alone; the worst first. */
static bool measure_runs(Search *s, Run *runs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        TrialResult result;
        runs[i].first = s->low.count * i / count;
        runs[i].count = s->low.count * (i + 1) / count - runs[i].first;
        keep_all(s, true);
        keep_run(s, &runs[i], false);
        if (!measure(s, &result)) return false;
        runs[i].error = result.judgement.error;
    }
    qsort(runs, count, sizeof *runs, by_error);
    return true;
}

/* True where the result is good enough, which is then the best. */
static bool take(Search *s, const TrialResult *result) {
    if (!(result->judgement.error <= s->most)) return false;
    s->best = *result;
    memcpy(s->best_kept, s->kept, s->low.count * sizeof *s->kept);
    return true;
}

/* Keeps the least number of runs, worst first, that is enough: by halving, so that it is the least
 * where more kept is never worse, and enough at any rate. */
static bool keep_worst(Search *s, const Run *runs, size_t count, size_t *kept) {
    size_t least = 1, enough = count;
    while (least < enough) {
        TrialResult result;
        size_t half = least + (enough - least) / 2;
        keep_all(s, false);
        for (size_t i = 0; i < half; i++) keep_run(s, &runs[i], true);
        if (!measure(s, &result)) return false;
        if (take(s, &result))
            enough = half;
        else
            least = half + 1;
    }
    keep_all(s, false);
    for (size_t i = 0; i < enough; i++) keep_run(s, &runs[i], true);
    *kept = enough;
    return true;
}

/* Gives back what can be, beginning with what does least; what can't is halved and tried again. */
static bool give_back(Search *s, const Run *runs, size_t count) {
    VEC(Run) open = {0};
    for (size_t i = count; i-- > 0;) VEC_PUSH(s->arena, &open, runs[i]);
    for (size_t at = 0; at < open.count && s->trials->done < s->limit; at++) {
        const Run run = open.items[at];
        size_t half = run.count / 2;
        const Run halves[2] = {{run.first, half, 0}, {run.first + half, run.count - half, 0}};
        for (size_t i = 0; run.count > 1 && i < 2 && s->trials->done < s->limit; i++) {
            TrialResult result;
            keep_run(s, &halves[i], false);
            if (!measure(s, &result)) return false;
            if (take(s, &result)) continue;
            keep_run(s, &halves[i], true);
            VEC_PUSH(s->arena, &open, halves[i]);
        }
    }
    return true;
}

static bool refuse(const Search *s, const TrialResult *least) {
    err_set(s->err, ERR_MODEL, "no choice of nodes brings the outputs' error down to %g", s->most);
    err_actual(s->err, "%.3g with every node in float", least->judgement.error);
    err_file(s->err, s->trials->path);
    return false;
}

static bool search(Search *s) {
    Run runs[RUNS];
    TrialResult all;
    size_t count = s->low.count < RUNS ? s->low.count : RUNS, kept;
    keep_all(s, true);
    if (!measure(s, &all)) return false;
    if (!take(s, &all)) return refuse(s, &all);
    return measure_runs(s, runs, count) && keep_worst(s, runs, count, &kept) &&
           give_back(s, runs, kept);
}

/* What was good enough last stays where the search was stopped; false where nothing was. */
static bool settle(Search *s, bool ok) {
    Progress *progress = &s->trials->progress;
    if (!ok && !progress->cancelled) return false;
    if (!ok && !s->best.judgement.outputs.count) {
        err_hint(s->err, "no choice of nodes was good enough by then");
        return false;
    }
    s->stopped = !ok;
    progress->cancelled = false;
    if (!ok) *s->err = (Err){.code = ERR_NONE};
    memcpy(s->kept, s->best_kept, s->low.count * sizeof *s->kept);
    return true;
}

static bool begin(Search *s, const TrialResult *all) {
    for (size_t i = 0; i < all->low.count; i++)
        VEC_PUSH(s->arena, &s->low, node_pattern_exact(all->low.items[i], s->arena));
    /* What options name was there, or the trial had failed. A node that raising the opset made is
     * not, where nothing is left to raise it for. */
    s->options.allow_unmatched = true;
    s->kept = ARENA_ARRAY(s->arena, bool, s->low.count + 1);
    s->best_kept = ARENA_ARRAY(s->arena, bool, s->low.count + 1);
    s->trials->enough = s->most;
    s->trials->searching = true;
    bool ok = settle(s, search(s));
    s->trials->searching = false;
    s->trials->enough = 0;
    return ok;
}

bool keep_search(Trials *trials, DemiConvertOptions *options, double most, KeptNodes *kept,
                 Err *err) {
    Search s = {.trials = trials,
                .arena = kept->result.arena,
                .base = options,
                .most = most,
                .limit = trials->done + KEEP_TRIALS,
                .options = *options,
                .err = err};
    TrialResult *result = &kept->result;
    *kept = (KeptNodes){.result = {.arena = s.arena, .nodes = true}};
    if (!trials_run(trials, options, result, err)) return false;
    if (result->judgement.error <= most) return true;
    if (!begin(&s, result)) return false;
    for (size_t i = 0; i < s.low.count; i++)
        if (s.kept[i]) VEC_PUSH(s.arena, &kept->nodes, result->low.items[i]);
    set_keep(&s);
    *options = s.options;
    *result = s.best;
    kept->stopped = s.stopped;
    return true;
}
