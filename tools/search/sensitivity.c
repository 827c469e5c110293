// SPDX-License-Identifier: Apache-2.0
/* Measuring bundles of groups one by one; see sensitivity.h. Sets are gone through on the outside, so that the
 * values of one run are kept at a time, and each question replays what follows from its group. */
#include "sensitivity.h"

#include <math.h>
#include <string.h>

#include "group_roundings.h"
#include "replay.h"
#include "sym.h"

typedef struct Measuring {
    const Sensitivity *asked;
    Sensitivities *found;
    Arena *arena;
    uint32_t *numbers; /* [value_count] of the model: the plan's number of what is changed */
    size_t outputs;
    struct Spread *spreads; /* [groups][candidates] */
    size_t done;            /* replays */
    Replay *replay;         /* of the present set */
    const TrialSet *set;
} Measuring;

/* ---- names ----------------------------------------------------------------------------------- */

/* The plan's numbers of groups' values, and of their weights where they are handed on. */
static bool find_numbers(Measuring *m, Err *err) {
    const MeasuredModel *model = m->asked->model;
    SymTable table;
    uint32_t count;
    const char *const *names = replay_names(m->asked->trials->reference->plan, m->arena, &count);
    VEC(uint32_t) numbers = {0};
    sym_table_init(&table, m->arena);
    for (uint32_t i = 0; i < count; i++) {
        const Sym sym = names[i] ? sym_intern_cstr(&table, names[i]) : NULL;
        if (sym && sym->number == numbers.count) VEC_PUSH(m->arena, &numbers, i);
    }
    m->numbers = ARENA_ARRAY(m->arena, uint32_t, model->value_count);
    memset(m->numbers, 0xff, model->value_count * sizeof *m->numbers);
    for (uint32_t g = 0; g < model->groups.count; g++) {
        const Group *group = &model->groups.items[g];
        for (size_t i = 0; i < group->values.count + group->weights.count; i++) {
            const Value *value = group_part(group, i);
            const char *name = measured_name(model, value);
            const Sym sym = sym_find(&table, name, strlen(name));
            if (!sym)
                return err_set(err, ERR_MODEL,
                               "value '%s' is not in the plan of the original model", name);
            m->numbers[value->id] = numbers.items[sym->number];
        }
    }
    return true;
}

/* ---- one question ---------------------------------------------------------------------------- */

typedef VEC(ReplayChange) Changes;

static void add_changes(const Measuring *m, const Group *group, const Candidate *candidate,
                        Changes *changes, Arena *arena) {
    const GroupRoundings roundings =
        group_roundings(m->asked->model, group, candidate, m->asked->ranges, arena);
    for (size_t i = 0; i < roundings.count; i++)
        VEC_PUSH(arena, changes,
                 ((ReplayChange){.value = m->numbers[roundings.items[i].value->id],
                                 .change = rounding_apply,
                                 .user = &roundings.items[i].rounding}));
}

static void add_outputs(const Measuring *m, MetricSums *sums, uint64_t first) {
    const DemiContext *context = m->asked->trials->reference->context;
    bool rows = false;
    for (size_t i = 0; i < m->outputs; i++) {
        const DemiData *have = demi_context_output(context, i), *want = &m->set->outputs[i];
        metric_add_output(sums, i, want, have);
        if (!rows && want->kind == DEMI_DATA_TENSOR_KIND && want->dtype == DTYPE_FLOAT) {
            metric_add_rows(sums, want, have, m->asked->labels, first);
            rows = true;
        }
    }
}

/* A sum of squared differences by squares, set by set: it is known well where its mean is. */
typedef struct Spread {
    double sum, squares;
} Spread;

static bool is_settled(const Measuring *m, size_t question) {
    static const double near = 0.1; /* standard error of the mean, by the mean */
    const double count = m->found->replays[question];
    const Spread *spread = &m->spreads[question];
    if (!m->asked->fewer || count < 2) return false;
    if (!isfinite(spread->sum) || spread->sum == 0) return true;
    const double mean = spread->sum / count;
    const double variance = fmax(spread->squares / count - mean * mean, 0) / (count - 1);
    return sqrt(variance) <= near * mean;
}

static void note_answer(Measuring *m, size_t question) {
    MetricSums *sums = &m->found->sums[question], now;
    Arena *within = arena_child(m->arena);
    metric_begin(&now, m->outputs, within);
    add_outputs(m, &now, sums->rows);
    now.sets = 1;
    const double noise = metric_noise(&now);
    m->spreads[question].sum += noise;
    m->spreads[question].squares += noise * noise;
    metric_join(sums, &now);
    m->found->replays[question]++;
    m->found->steps[question] +=
        (double)replay_steps_run(m->replay) / (double)replay_steps(m->replay);
    arena_free(within);
}

static bool measure_one(Measuring *m, uint32_t bundle, size_t c, Err *err) {
    const Sensitivity *asked = m->asked;
    Arena *within = arena_child(m->arena);
    Changes changes = {0};
    for (uint32_t g = bundle; g < asked->model->groups.count; g++)
        if (asked->bundle[g] == bundle && asked->wanted[g * asked->candidate_count + c])
            add_changes(m, &asked->model->groups.items[g], asked->candidates[c], &changes, within);
    const bool ok = replay_run(m->replay, changes.items, changes.count, err);
    if (ok) note_answer(m, bundle * asked->candidate_count + c);
    arena_free(within);
    return ok;
}

/* ---- sets ------------------------------------------------------------------------------------ */

bool sensitivity_asked(const Sensitivity *asked, uint32_t bundle, size_t c) {
    size_t number = 0;
    if (asked->bundle[bundle] != bundle) return false;
    for (uint32_t g = 0; g < bundle; g++) number += asked->bundle[g] == g;
    if (number % asked->parts != asked->part) return false;
    for (uint32_t g = bundle; g < asked->model->groups.count; g++)
        if (asked->bundle[g] == bundle && asked->wanted[g * asked->candidate_count + c])
            return true;
    return false;
}

typedef struct Questions {
    size_t *items; /* places in the tables */
    size_t count;
} Questions;

/* Those that are not settled yet. */
static Questions list_questions(const Measuring *m, Arena *arena) {
    const Sensitivity *asked = m->asked;
    const uint32_t groups = asked->model->groups.count;
    Questions q = {ARENA_ARRAY(arena, size_t, groups * asked->candidate_count + 1), 0};
    for (uint32_t g = 0; g < groups; g++)
        for (size_t c = 0; c < asked->candidate_count; c++) {
            const size_t at = g * asked->candidate_count + c;
            if (sensitivity_asked(asked, g, c) && !is_settled(m, at)) q.items[q.count++] = at;
        }
    return q;
}

/* The i-th of those that are asked for. Labels are by row over all sets, so there it is the i-th. */
static bool measure_set(Measuring *m, size_t i, Err *err) {
    const Sensitivity *asked = m->asked;
    const size_t set = asked->labels ? i : i * asked->trials->count / asked->sets;
    Trials *trials = asked->trials;
    Arena *within = arena_child(m->arena);
    const Questions questions = list_questions(m, within);
    const size_t total = questions.count * (asked->sets - i);
    bool ok = questions.count == 0 || (trials_bind(trials, set, err) &&
                                       replay_record(trials->reference->context, asked->cache_bytes,
                                                     within, &m->replay, err));
    m->set = &trials->sets[set];
    for (size_t k = 0; ok && k < questions.count; k++) {
        const size_t at = questions.items[k];
        ok = progress_tell(&trials->progress, "measuring groups", m->done, m->done + total - k,
                           err) &&
             measure_one(m, (uint32_t)(at / asked->candidate_count), at % asked->candidate_count,
                         err);
        m->done++;
    }
    arena_free(within);
    if (ok && questions.count) trials_end_set(trials, set);
    return ok;
}

bool sensitivities_measure(const Sensitivity *asked, Sensitivities *found, Arena *arena, Err *err) {
    const size_t all = asked->model->groups.count * asked->candidate_count;
    Measuring m = {.asked = asked,
                   .found = found,
                   .arena = arena_child(arena),
                   .outputs = asked->trials->reference->output_count};
    *found = (Sensitivities){.sums = ARENA_ARRAY(arena, MetricSums, all + 1),
                             .replays = ARENA_ARRAY(arena, double, all + 1),
                             .steps = ARENA_ARRAY(arena, double, all + 1)};
    m.spreads = ARENA_ARRAY(m.arena, Spread, all + 1);
    for (size_t i = 0; i < all; i++) metric_begin(&found->sums[i], m.outputs, arena);
    bool ok = find_numbers(&m, err);
    for (size_t set = 0; ok && set < asked->sets; set++) ok = measure_set(&m, set, err);
    arena_free(m.arena);
    replay_trim(asked->trials->reference->context);
    return ok;
}
