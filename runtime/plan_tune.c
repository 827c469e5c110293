// SPDX-License-Identifier: Apache-2.0
/* Kinds of steps, their ways, and the runs that measure them; see plan_tune.h. Each turn has forms
 * of its own (step_specialization.h), which are made once: what they pack is shared by all. */
#include "plan_tune.h"

#include <stdlib.h>
#include <string.h>

#include "exec_memory.h"
#include "hash64.h"
#include "step_choice.h"
#include "step_specialization.h"
#include "tune_rule.h"

enum { LEAST_ROUNDS = 7, MOST_ROUNDS = 200, WAYS_MOST = 16 };

/* A step that takes longer gains by several threads. */
static const double ALONE_SECONDS = 1e-3;
/* Of all the time, what the choice among ways may take; the rest is for the last comparison. */
static const double CHOICE_SHARE = 0.7;
/* Of a step's time, and of a run's: what is less is not worth a choice (tune_rule.h). */
static const double STEP_GAIN = 0.02, RUN_GAIN = 0.01;

typedef VEC(double) Times;

typedef struct Way {
    StepWay way;
    Times seconds; /* of all steps of the kind, in each run */
} Way;

typedef struct Kind {
    uint64_t key, shapes;
    uint32_t count, best; /* of ways; the first is by the rules */
    Way ways[WAYS_MOST];
    bool explored;
    double now; /* seconds in the present run */
} Kind;

typedef struct StepKind {
    uint32_t step, kind;
} StepKind;

typedef enum Phase { PHASE_EXPLORE, PHASE_CHOOSE, PHASE_COMPARE } Phase;

typedef struct Tuner {
    const TuneJob *job;
    Exec *exec;
    Arena *arena;
    Phase phase;
    uint32_t turn;
    StepWay trial; /* of a form that is made to see whether it can be */
    VEC(Kind *) kinds;
    VEC(StepKind) steps; /* of which kinds a step is: as many as it met shapes */
    Times runs[2];       /* PHASE_COMPARE: seconds by the rules, and as chosen */
    uint32_t timed;      /* runs */
    uint32_t rounds;     /* that counted, of the last run_rounds */
    double last;         /* seconds of the last run */
    double begin;
} Tuner;

/* ---- kinds ----------------------------------------------------------------------------------- */

static void add_text(Hash64 *hash, const AttrText *text) {
    hash64_update(hash, &text->size, sizeof text->size);
    hash64_update(hash, text->text, text->size);
}

static void add_attr(Hash64 *hash, const PlainAttr *attr) {
    const uint32_t head[] = {(uint32_t)attr->kind, attr->count};
    add_text(hash, &attr->name);
    hash64_update(hash, head, sizeof head);
    switch (attr->kind) {
    case PLAIN_INT: hash64_update(hash, &attr->v.i, sizeof attr->v.i); break;
    case PLAIN_FLOAT: hash64_update(hash, &attr->v.f, sizeof attr->v.f); break;
    case PLAIN_TEXT: add_text(hash, &attr->v.text); break;
    case PLAIN_INTS: hash64_update(hash, attr->v.ints, attr->count * sizeof(int64_t)); break;
    case PLAIN_FLOATS: hash64_update(hash, attr->v.floats, attr->count * sizeof(float)); break;
    case PLAIN_TEXTS:
        for (uint32_t i = 0; i < attr->count; i++) add_text(hash, &attr->v.texts[i]);
        break;
    case PLAIN_TENSOR: hash64_update(hash, &attr->v.tensor.data, sizeof attr->v.tensor.data); break;
    case PLAIN_GRAPH: hash64_update(hash, &attr->v.graph, sizeof attr->v.graph); break;
    case PLAIN_KIND_COUNT: break;
    }
}

static uint64_t key_of(const LoadedPlan *loaded, const LoadedStep *step, uint64_t shapes) {
    Hash64 hash;
    hash64_init(&hash, shapes);
    hash64_update(&hash, &step->rows, sizeof step->rows);
    hash64_update(&hash, &step->opset, sizeof step->opset);
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) {
        const uint32_t dtype =
            step->constant[i] ? 1 + (uint32_t)loaded->constants[step->inputs[i]].dtype : 0;
        hash64_update(&hash, &dtype, sizeof dtype);
    }
    for (uint32_t i = 0; i < step->plan->attrs.count; i++) add_attr(&hash, &step->attrs[i]);
    return hash64_final(&hash);
}

static uint32_t kind_of(Tuner *t, const LoadedStep *step, const KernelCall *call) {
    const uint64_t shapes = step_choice_shapes(call);
    const uint64_t key = key_of(t->exec->loaded, step, shapes);
    uint32_t i = 0;
    while (i < t->kinds.count && t->kinds.items[i]->key != key) i++;
    if (i < t->kinds.count) return i;
    Kind *kind = ARENA_NEW(t->arena, Kind);
    kind->key = key;
    kind->shapes = shapes;
    kind->count = 1; /* by the rules */
    VEC_PUSH(t->arena, &t->kinds, kind);
    return i;
}

/* A StepChooser's. */
static StepWay choose(void *data, const LoadedStep *step, const KernelCall *call) {
    Tuner *t = data;
    const uint32_t number = kind_of(t, step, call);
    const Kind *kind = t->kinds.items[number];
    StepWay way = t->trial;
    if (t->phase == PHASE_CHOOSE) way = kind->ways[t->turn % kind->count].way;
    if (t->phase == PHASE_COMPARE) way = kind->ways[t->turn ? kind->best : 0].way;
    way.kind = 1 + number;
    return way;
}

/* ---- ways ------------------------------------------------------------------------------------ */

static void add_way(Kind *kind, StepWay way) {
    if (kind->count < WAYS_MOST) kind->ways[kind->count++].way = way;
}

/* Whether the row can go it; nothing is run. */
static bool is_way(Tuner *t, const LoadedStep *step, StepWay way) {
    Err ignored = {0}, *err = t->exec->err;
    t->exec->err = &ignored;
    t->trial = way;
    StepSpecialization *form = step_specialization_make(t->exec, step);
    const bool is = form && form->way.row == way.row;
    if (form) step_specialization_free(form);
    t->trial = (StepWay){0};
    t->exec->err = err;
    return is;
}

/* All ways of a step that went by the rules. Rows before the one that it took have declined. */
static void find_ways(Tuner *t, const LoadedStep *step, Kind *kind, double seconds) {
    const StepSpecialization *ruled = t->exec->forms.memos[step - t->exec->loaded->steps].forms;
    kind->explored = true;
    if (ruled->row->flags & KERNEL_SIZES) return;
    for (uint32_t r = 0; r < step->row_count && r < UINT8_MAX; r++) {
        const KernelRow *row = &step->rows[r];
        const uint32_t most = row->prepare ? row->prepare->choices : 0;
        for (uint32_t c = row > ruled->row ? 0 : 1; c <= most; c++) {
            const StepWay way = {(uint8_t)(1 + r), (uint8_t)c, 0, 0};
            if (is_way(t, step, way)) add_way(kind, way);
        }
    }
    const Workers *workers = t->exec->options.workers;
    if (workers && workers_lanes(workers) > 1 && seconds < ALONE_SECONDS)
        add_way(kind, (StepWay){.alone = 1});
}

static void note_step(Tuner *t, uint32_t step, uint32_t kind) {
    for (size_t i = t->steps.count; i > 0; i--) /* mostly the last */
        if (t->steps.items[i - 1].step == step && t->steps.items[i - 1].kind == kind) return;
    VEC_PUSH(t->arena, &t->steps, ((StepKind){step, kind}));
}

/* After each step of all runs. */
static void after(void *data, const LoadedStep *step, double start, double seconds) {
    Tuner *t = data;
    const uint32_t number = (uint32_t)(step - t->exec->loaded->steps);
    const StepSpecialization *form = step->exec ? NULL : t->exec->forms.memos[number].forms;
    (void)start;
    if (!form || !form->way.kind) return;
    Kind *kind = t->kinds.items[form->way.kind - 1];
    kind->now += seconds;
    if (t->phase != PHASE_EXPLORE) return;
    note_step(t, number, form->way.kind - 1);
    if (!kind->explored) find_ways(t, step, kind, seconds);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* One run with the forms of this turn. */
static bool run_turn(Tuner *t, StepMemo *memos, uint32_t turn, Err *err) {
    for (size_t i = 0; i < t->kinds.count; i++) t->kinds.items[i]->now = 0;
    t->turn = turn;
    t->exec->forms.memos = memos;
    const double start = exec_now();
    const bool ok = t->job->run(t->job->data, err);
    t->last = exec_now() - start;
    t->timed += ok;
    return ok;
}

static bool has_time(const Tuner *t, double share) {
    return exec_now() - t->begin < t->job->seconds * share;
}

static StepMemo *memos_new(Tuner *t) {
    return ARENA_ARRAY(t->arena, StepMemo, t->exec->loaded->plan.step_count);
}

static void memos_free(Tuner *t, StepMemo *memos) {
    for (uint32_t i = 0; i < t->exec->loaded->plan.step_count; i++) step_memo_free(&memos[i]);
}

static bool explore(Tuner *t, uint32_t *turns, Err *err) {
    StepMemo *memos = memos_new(t);
    t->phase = PHASE_EXPLORE;
    t->exec->options.keeps_values = true; /* forms are made of them, after they were read */
    exec_memory_forget(t->exec);
    const bool ok = run_turn(t, memos, 0, err);
    memos_free(t, memos);
    t->exec->options.keeps_values = false;
    exec_memory_forget(t->exec);
    *turns = 1;
    for (size_t i = 0; i < t->kinds.count; i++)
        if (t->kinds.items[i]->count > *turns) *turns = t->kinds.items[i]->count;
    return ok;
}

static void note_times(Tuner *t, uint32_t turn) {
    for (size_t i = 0; i < t->kinds.count; i++) {
        Kind *kind = t->kinds.items[i];
        const uint32_t way = t->phase == PHASE_CHOOSE ? turn % kind->count : turn;
        VEC_PUSH(t->arena, &kind->ways[way].seconds, kind->now);
    }
}

/* Rounds of so many turns, every other one backwards. The first is not counted: forms are made in
 * it. They end with that share of the time. */
static bool run_rounds(Tuner *t, uint32_t turns, double share, Err *err) {
    StepMemo **memos = ARENA_ARRAY(t->arena, StepMemo *, turns);
    bool ok = true;
    for (uint32_t i = 0; i < turns; i++) memos[i] = memos_new(t);
    t->rounds = 0;
    for (uint32_t r = 0; ok && r <= MOST_ROUNDS && (has_time(t, share) || !r); r++) {
        for (uint32_t i = 0; ok && i < turns; i++) {
            const uint32_t turn = r % 2 ? turns - 1 - i : i;
            ok = run_turn(t, memos[turn], turn, err);
            if (!ok || !r) continue;
            note_times(t, turn);
            if (t->phase == PHASE_COMPARE) VEC_PUSH(t->arena, &t->runs[turn], t->last);
        }
        t->rounds = r;
    }
    for (uint32_t i = 0; i < turns; i++) memos_free(t, memos[i]);
    return ok;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static TuneTimes times_of(const Times *times) {
    return (TuneTimes){times->items, times->count};
}

static double *scratch_for(Tuner *t, const Kind *kind) {
    size_t most = 1;
    for (uint32_t i = 0; i < kind->count; i++)
        if (kind->ways[i].seconds.count > most) most = kind->ways[i].seconds.count;
    return ARENA_ARRAY(t->arena, double, most);
}

/* The fastest of the ways that are faster than the rules' own; true where there is one. */
static bool choose_best(Tuner *t, Kind *kind) {
    double *scratch = scratch_for(t, kind), least = 0;
    const TuneTimes base = times_of(&kind->ways[0].seconds);
    kind->best = 0;
    for (uint32_t i = 1; i < kind->count; i++) {
        const TuneTimes other = times_of(&kind->ways[i].seconds);
        if (!base.count || !other.count || !tune_is_faster(&base, &other, STEP_GAIN, scratch))
            continue;
        const double median = tune_median(&other, scratch);
        if (kind->best && median >= least) continue;
        kind->best = i;
        least = median;
    }
    return kind->best;
}

/* What won once has to be faster again. */
static void drop_losers(Tuner *t, Tuning *result) {
    for (size_t i = 0; i < t->kinds.count; i++) {
        Kind *kind = t->kinds.items[i];
        double *scratch = scratch_for(t, kind);
        if (!kind->best) continue;
        const TuneTimes base = times_of(&kind->ways[0].seconds);
        const TuneTimes other = times_of(&kind->ways[1].seconds);
        if (tune_median(&other, scratch) >= tune_median(&base, scratch)) kind->best = 0;
        result->changed += kind->best > 0;
    }
}

static int by_step(const void *a, const void *b) {
    const PlanChoice *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return (x->shapes > y->shapes) - (x->shapes < y->shapes);
}

static void give_choices(Tuner *t, Tuning *result) {
    for (size_t i = 0; i < t->steps.count; i++) {
        const Kind *kind = t->kinds.items[t->steps.items[i].kind];
        const StepWay way = kind->ways[kind->best].way;
        const PlanChoice choice = {
            t->steps.items[i].step, way.row, way.choice, way.alone, 0, kind->shapes};
        if (kind->best) VEC_PUSH(t->arena, &result->choices, choice);
    }
    if (result->choices.count)
        qsort(result->choices.items, result->choices.count, sizeof(PlanChoice), by_step);
}

/* Runs with all that won beside runs by the rules. */
static bool compare(Tuner *t, Tuning *result, Err *err) {
    for (size_t i = 0; i < t->kinds.count; i++)
        for (uint32_t k = 0; k < t->kinds.items[i]->count; k++)
            t->kinds.items[i]->ways[k].seconds.count = 0;
    t->phase = PHASE_COMPARE;
    if (!run_rounds(t, 2, 1, err)) return false;
    result->ended_early = t->rounds < LEAST_ROUNDS;
    if (result->ended_early) return true;
    double *scratch = ARENA_ARRAY(t->arena, double, t->rounds);
    const TuneTimes before = times_of(&t->runs[0]), chosen = times_of(&t->runs[1]);
    result->before = result->after = tune_median(&before, scratch);
    if (!tune_is_faster(&before, &chosen, RUN_GAIN, scratch)) return true;
    drop_losers(t, result);
    if (result->changed) result->after = tune_median(&chosen, scratch);
    give_choices(t, result);
    return true;
}

static bool tune(Tuner *t, Tuning *result, Err *err) {
    uint32_t turns;
    bool any = false;
    if (!explore(t, &turns, err)) return false;
    for (size_t i = 0; i < t->kinds.count; i++) result->kinds += t->kinds.items[i]->count > 1;
    if (turns == 1) return true;
    t->phase = PHASE_CHOOSE;
    if (!run_rounds(t, turns, CHOICE_SHARE, err)) return false;
    result->ended_early = t->rounds < LEAST_ROUNDS;
    for (size_t i = 0; !result->ended_early && i < t->kinds.count; i++)
        any |= choose_best(t, t->kinds.items[i]);
    return !any || compare(t, result, err);
}

bool plan_tune(const TuneJob *job, Arena *arena, Tuning *result, Err *err) {
    Exec *exec = job->exec;
    const ExecOptions options = exec->options;
    StepMemo *memos = exec->forms.memos;
    Tuner *t = ARENA_NEW(arena, Tuner);
    *t = (Tuner){.job = job, .exec = exec, .arena = arena, .begin = exec_now()};
    const StepChooser chooser = {choose, t};
    *result = (Tuning){0};
    exec->options.chooser = &chooser;
    exec->options.after = after;
    exec->options.after_data = t;
    exec->options.keeps_values = false;
    const bool ok = tune(t, result, err);
    exec->options = options;
    exec->forms.memos = memos;
    exec_memory_forget(exec);
    result->runs = t->timed;
    return ok;
}
