// SPDX-License-Identifier: Apache-2.0
/* See search_sets.h. */
#include "search_sets.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "samples.h"
#include "value_io.h"

enum {
    HOLDS_FROM = 8,       /* sets */
    LEAST_HELD = 4,       /* of them */
    SHARE = 3,            /* every third one */
    CALIBRATES_FROM = 32, /* sets that are not held out */
    FEW_SAMPLES = 8,      /* sets that are held out: rows are samples where they are fewer */
};

/* ---- dividing -------------------------------------------------------------------------------- */

/* Whether set i is among `chosen` of `count` that are spread evenly. */
static bool is_chosen(size_t i, size_t chosen, size_t count) {
    return (i + 1) * chosen / count > i * chosen / count;
}

static bool refuse_share(const SearchModel *m, size_t held, Err *err) {
    const size_t count = m->trials.count;
    err_set(err, ERR_USAGE, "cannot hold out a share of %g of %zu set%s", m->sets.share, count,
            count == 1 ? "" : "s");
    err_expected(err, "at least 2 sets to hold out, and one for the search");
    err_actual(err, "%zu and %zu", held, count - held);
    return false;
}

/* How many sets are held out. */
static bool count_held(const SearchModel *m, size_t *held, Err *err) {
    const size_t count = m->trials.count;
    const double share = m->sets.share;
    *held = 0;
    if (m->sets.holdout || !m->sets.accepts || share == 0) return true;
    if (isnan(share)) {
        const size_t third = count / SHARE;
        if (count >= HOLDS_FROM) *held = third < LEAST_HELD ? LEAST_HELD : third;
        return true;
    }
    *held = (size_t)(share * (double)count + 0.5);
    return (*held >= 2 && *held < count) || refuse_share(m, *held, err);
}

static void divide(SearchModel *m, size_t held) {
    const Trials all = m->trials;
    const size_t rest = all.count - held;
    const size_t calibrating =
        !m->sets.calibration && m->sets.accepts && held && rest >= CALIBRATES_FROM ? rest / 2 : 0;
    size_t *uses[3], counts[3] = {0}, number = 0; /* held out, for calibration, for selection */
    for (int use = 0; use < 3; use++) uses[use] = ARENA_ARRAY(m->arena, size_t, all.count + 1);
    for (size_t i = 0; i < all.count; i++) {
        int use = 0;
        if (!is_chosen(i, held, all.count)) use = is_chosen(number++, calibrating, rest) ? 1 : 2;
        uses[use][counts[use]++] = i;
    }
    trials_select(&all, uses[0], counts[0], &m->holdout);
    trials_select(&all, uses[1], counts[1], &m->calibration);
    trials_select(&all, uses[2], counts[2], &m->trials);
}

/* ---- looking at sets ------------------------------------------------------------------------- */

typedef struct Look {
    SearchModel *model;
    uint64_t *rows;  /* [data's sets]: of the first output of floats, for labels */
    uint64_t *width; /* the same: elements of a row */
    size_t finite;   /* sets of the trials with a number in an output */
    size_t floats;   /* that have an output of floats */
    size_t samples;  /* rows, where all have some: see samples_rows */
} Look;

/* What one process sees of a set, in words that are brought together. */
typedef struct Seen {
    uint64_t rows, width, finite, floats, samples;
} Seen;

static const DemiData *first_floats(const Session *reference, const TrialSet *set) {
    for (size_t i = 0; i < reference->output_count; i++)
        if (value_is_floats(&set->outputs[i]) && set->outputs[i].dtype == DEMI_FLOAT)
            return &set->outputs[i];
    return NULL;
}

static void see_rows(const Session *reference, const TrialSet *set, Seen *seen) {
    const DemiData *first = first_floats(reference, set);
    const uint64_t rows = samples_rows(reference, set);
    seen->floats = first != NULL;
    seen->samples = rows ? rows : 1;
    seen->width = first && first->rank ? (uint64_t)first->dims[first->rank - 1] : 0;
    seen->rows = seen->width ? value_count(first) / seen->width : 0;
}

/* Numbers that are NaN or infinite are not compared, so of a set of nothing else any model is right. */
static bool look_at_set(const Look *look, const Session *reference, const TrialSet *set, Seen *seen,
                        Err *err) {
    uint64_t all = 0, finite = 0;
    for (size_t i = 0; i < reference->output_count; i++)
        value_count_finite(&set->outputs[i], &all, &finite);
    see_rows(reference, set, seen);
    seen->finite = finite > 0;
    if (!all || finite || !look->model->sets.compares) return true;
    err_set(err, ERR_MODEL, "the float32 model's outputs on this set are all NaN or infinite");
    if (set->from.title) err_file(err, set->from.title);
    return false;
}

static bool look_at_mine(const Look *look, Trials *trials, Seen *seen, Err *err) {
    for (size_t k = 0; k < trials_mine(trials); k++) {
        const size_t i = trials_place(trials, k);
        if (!progress_tell(&look->model->trials.progress, "running the float32 model", i,
                           trials->count, err) ||
            !trials_bind(trials, i, err) ||
            !look_at_set(look, trials->reference, &trials->sets[i], &seen[i], err))
            return false;
        trials_end_set(trials, i);
    }
    return true;
}

/* `data`: the trials have the data's sets. */
static bool look_at(Look *look, Trials *trials, bool data, Err *err) {
    enum { WORDS = sizeof(Seen) / sizeof(uint64_t) };
    Arena *within = arena_child(look->model->arena);
    Seen *seen = ARENA_ARRAY(within, Seen, trials->count + 1);
    const bool ok = look_at_mine(look, trials, seen, err) &&
                    share_words(&trials->share, &seen->rows, trials->count * WORDS, err);
    look->finite = look->floats = look->samples = 0;
    for (size_t i = 0; ok && i < trials->count; i++) {
        look->finite += (size_t)seen[i].finite;
        look->floats += (size_t)seen[i].floats;
        look->samples += (size_t)seen[i].samples;
        if (!data) continue;
        look->rows[trials->sets[i].number] = seen[i].rows;
        look->width[trials->sets[i].number] = seen[i].width;
    }
    arena_free(within);
    if (!ok) return false;
    if (!look->floats || look->finite || !look->model->sets.compares) return true;
    err_set(err, ERR_MODEL, "the float32 model's outputs have no elements on any set");
    if (trials->sets[0].from.title) err_file(err, trials->sets[0].from.title);
    return false;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static bool check_labels(const Look *look, size_t sets, const MetricLabels *labels, Err *err) {
    uint64_t rows = 0, outside = 0;
    for (size_t i = 0; i < sets; i++) rows += look->rows[i];
    if (labels->count != rows) {
        err_set(err, ERR_USAGE,
                "the number of labels differs from the number of rows of the first output");
        err_expected(err, "%" PRIu64, rows);
        err_actual(err, "%zu", labels->count);
        return false;
    }
    const int64_t *at = labels->items;
    for (size_t i = 0; i < sets; i++)
        for (uint64_t k = 0; k < look->rows[i]; k++, at++)
            outside += *at < 0 || (uint64_t)*at >= look->width[i];
    return !outside ||
           err_set(err, ERR_USAGE, "%" PRIu64 " of %zu labels are not classes of the first output",
                   outside, labels->count);
}

/* Of the rows of some trials' sets. */
static MetricLabels select_labels(const Look *look, const Trials *trials,
                                  const MetricLabels *labels) {
    int64_t *items = ARENA_ARRAY(look->model->arena, int64_t, labels->count + 1);
    size_t *firsts = ARENA_ARRAY(look->model->arena, size_t, trials->count + 1);
    MetricLabels found = {items, 0, firsts};
    for (size_t i = 0; i < trials->count; i++) {
        const size_t number = trials->sets[i].number;
        size_t first = 0;
        for (size_t k = 0; k < number; k++) first += (size_t)look->rows[k];
        firsts[i] = found.count;
        memcpy(items + found.count, labels->items + first,
               (size_t)look->rows[number] * sizeof *items);
        found.count += (size_t)look->rows[number];
    }
    return found;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool open_own(SearchModel *m, Err *err) {
    const SetOptions *sets = &m->sets;
    return (!sets->calibration ||
            search_model_trials(m, sets->calibration, 1, &m->calibration, err)) &&
           (!sets->holdout ||
            search_model_trials(m, sets->holdout, SEARCH_PARTS, &m->holdout, err));
}

static bool look_at_calibration(Look *look, Err *err) {
    Trials *trials = &look->model->calibration;
    const bool ok = look_at(look, trials, !look->model->sets.calibration, err);
    trials_forget(trials);
    if (!ok && err->code != ERR_CANCELLED) err_hint(err, "this set is for calibration");
    return ok;
}

/* On which groups are measured: what they give is kept for that. */
static bool look_at_probes(Look *look, Err *err) {
    const bool ok = look_at(look, &look->model->probes, false, err);
    if (!ok && err->code != ERR_CANCELLED) err_hint(err, "this set is of --probe-data");
    return ok;
}

static bool look_at_holdout(Look *look, Look *own, Err *err) {
    SearchModel *m = look->model;
    Look *look_of = m->sets.holdout ? own : look;
    const bool ok = look_at(look_of, &m->holdout, true, err);
    trials_forget(&m->holdout);
    if (!ok && err->code != ERR_CANCELLED) err_hint(err, "this set is held out for acceptance");
    if (!ok) return false;
    m->by_rows = m->holdout.count < FEW_SAMPLES && look_of->samples > m->holdout.count;
    m->samples = m->by_rows ? look_of->samples : m->holdout.count;
    if (m->samples < 2 && !m->sets.shares)
        return err_set(err, ERR_USAGE, "an interval needs at least 2 sets that are held out");
    for (size_t i = 0; i < m->holdout.count; i++)
        m->holdout_rows += look_of->rows[m->holdout.sets[i].number];
    return true;
}

static Look new_look(SearchModel *m, size_t sets) {
    return (Look){.model = m,
                  .rows = ARENA_ARRAY(m->arena, uint64_t, sets + 1),
                  .width = ARENA_ARRAY(m->arena, uint64_t, sets + 1)};
}

static bool take_labels(const Look *look, const Look *own, size_t sets, Err *err) {
    SearchModel *m = look->model;
    const MetricLabels *given = &m->sets.labels, *holdout = &m->sets.holdout_labels;
    if (!given->items) return true;
    if (!check_labels(look, sets, given, err)) return false;
    m->labels = select_labels(look, &m->trials, given);
    if (!m->sets.holdout) {
        m->holdout_labels = select_labels(look, &m->holdout, given);
        return true;
    }
    if (!check_labels(own, m->holdout.count, holdout, err)) {
        err_hint(err, "these labels are of the sets that are held out");
        return false;
    }
    m->holdout_labels = select_labels(own, &m->holdout, holdout);
    return true;
}

bool search_sets_divide(SearchModel *m, Err *err) {
    const size_t sets = m->trials.count;
    size_t held;
    if (!count_held(m, &held, err)) return false;
    divide(m, held);
    if (!open_own(m, err)) return false;
    Look look = new_look(m, sets), own = new_look(m, m->holdout.count);
    return (!m->calibration.count || look_at_calibration(&look, err)) &&
           (!m->holdout.count || look_at_holdout(&look, &own, err)) &&
           (!m->probe_inputs || look_at_probes(&look, err)) &&
           look_at(&look, &m->trials, true, err) && trials_share_assumed(&m->trials, err) &&
           take_labels(&look, &own, sets, err);
}
