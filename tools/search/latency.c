// SPDX-License-Identifier: Apache-2.0
/* Timing steps and whole runs; see latency.h. */
#include "latency.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "demi_front.h"
#include "error_fill.h"
#include "sym.h"
#include "trial_memory.h"
#include "value_io.h"

enum { RUNS_LEAST = 5, RUNS_MOST = 40, ROUNDS_LEAST = 7, ROUNDS_MOST = 60 };
static const double timed_seconds = 0.4;  /* of steps, for each candidate */
static const double raced_seconds = 1;    /* of whole runs, for each that takes part */
static const double second_each = 0.4e-9; /* of converting an element, where none was seen */

/* ---- whose a step is ------------------------------------------------------------------------- */

/* Groups by the names of nodes and of values, which differ in kind: a node's name has a mark before. */
typedef struct Owners {
    SymTable names;
    VEC(uint32_t) groups; /* by name */
} Owners;

static void own(Owners *owners, Arena *arena, const char *name, uint32_t group) {
    const Sym sym = sym_intern_cstr(&owners->names, name);
    if (sym->number == owners->groups.count) VEC_PUSH(arena, &owners->groups, group);
}

static uint32_t owner_of(const Owners *owners, const char *name, size_t size) {
    const Sym sym = sym_find(&owners->names, name, size);
    return sym ? owners->groups.items[sym->number] : GROUP_NONE;
}

static uint32_t group_of_node(const SearchModel *m, const Node *node) {
    const uint32_t *of = m->measured.groups.of_value;
    for (int outputs = 0; outputs < 2; outputs++) {
        const uint32_t count = outputs ? node->output_count : node->input_count;
        for (uint32_t i = 0; i < count; i++) {
            const Value *value = outputs ? node->outputs[i] : node->inputs[i].value;
            if (value && value->id < m->measured.value_count && of[value->id] != GROUP_NONE)
                return of[value->id];
        }
    }
    return GROUP_NONE;
}

static void find_owners(const SearchModel *m, const Graph *graph, Owners *owners, Arena *arena) {
    sym_table_init(&owners->names, arena);
    for (const Node *node = graph->first; node; node = node->next) {
        const uint32_t group = group_of_node(m, node);
        if (group == GROUP_NONE) continue;
        own(owners, arena, arena_printf(arena, "node %s", node_label(node)), group);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) own(owners, arena, node->outputs[i]->name->text, group);
    }
    for (uint32_t g = 0; g < m->measured.groups.count; g++)
        own(owners, arena, m->measured.groups.items[g].values.items[0]->name->text, g);
}

/* By the node, else by the value that it makes, whose name conversions put something behind. */
static uint32_t owner_of_step(const Owners *owners, const DemiStep *step, Arena *scratch) {
    const char *label = arena_printf(scratch, "node %s", step->name);
    uint32_t group = owner_of(owners, label, strlen(label));
    const char *name = step->output_count ? step->output_names[0] : "";
    for (size_t size = strlen(name); group == GROUP_NONE && size > 0; size--)
        if (name[size] == '\0' || name[size] == '_') group = owner_of(owners, name, size);
    return group;
}

/* ---- timing steps ---------------------------------------------------------------------------- */

/* A step of a plan: the least time that it took. */
typedef struct StepTime {
    double least;
    uint32_t group;
    bool seen, in, out; /* it converts from float, or to it */
    double elements;
} StepTime;

typedef struct Timing {
    const Owners *owners;
    Arena *arena;
    VEC(StepTime) steps; /* by number */
    double deadline;
} Timing;

static void note_conversion(const DemiStep *step, StepTime *time) {
    const DemiData *from = step->input_count ? &step->inputs[0] : NULL;
    const DemiData *to = step->output_count ? &step->outputs[0] : NULL;
    if (!from || !to || from->kind != DEMI_DATA_TENSOR_KIND || to->kind != DEMI_DATA_TENSOR_KIND)
        return;
    if (from->dtype == to->dtype || value_count(from) != value_count(to)) return;
    time->in = from->dtype == DEMI_FLOAT;
    time->out = to->dtype == DEMI_FLOAT;
    time->elements = (double)value_count(to);
}

/* Steps inside of others are part of these. */
static void note_step(void *user, const DemiStep *step) {
    Timing *t = user;
    if (step->depth) return;
    while (t->steps.count <= step->number)
        VEC_PUSH(t->arena, &t->steps, ((StepTime){.least = INFINITY}));
    StepTime *time = &t->steps.items[step->number];
    if (!time->seen) {
        time->seen = true;
        time->group = owner_of_step(t->owners, step, t->arena);
        if (step->input_count <= 3) note_conversion(step, time);
    }
    if (step->seconds < time->least) time->least = step->seconds;
}

static Session *open_by(SearchModel *m, const DemiConvertOptions *options, SessionOptions *how,
                        Arena *within, Err *err) {
    const DemiSource source = search_model_source(m, options, within);
    *how = m->how;
    how->compile.keep_values = false;
    how->compile.numerics = DEMI_NUMERICS_FAST;
    Session *session = session_new(within, how);
    return session_open(session, within, &source, err) &&
                   trials_give(&m->trials, 0, within, session, err)
               ? session
               : NULL;
}

static bool time_steps(Session *session, Timing *timing, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    if (!session_run(session, err) ||
        !error_take(err, demi_context_watch(session->context, note_step, timing, &error), &error))
        return false;
    const double until = fmin(timing->deadline, clock_seconds() + timed_seconds);
    for (int i = 0; i < RUNS_MOST && (i < RUNS_LEAST || clock_seconds() < until); i++)
        if (!session_run(session, err)) return false;
    return true;
}

/* What converting an element costs: the time of the largest that was seen. */
static double each_of(const Timing *timing, bool in) {
    double most = 0, each = second_each;
    for (size_t i = 0; i < timing->steps.count; i++) {
        const StepTime *step = &timing->steps.items[i];
        if (!(in ? step->in : step->out) || step->elements <= most) continue;
        most = step->elements;
        each = step->least / most;
    }
    return each;
}

/* ---- all candidates -------------------------------------------------------------------------- */

/* The candidate for every group; what a group can't have, conversions leave. */
static bool measure_candidate(SearchModel *m, const Owners *owners, size_t c, const Latency *found,
                              Err *err) {
    const size_t groups = m->measured.groups.count, count = m->candidate_count;
    Arena *within = arena_child(m->arena);
    uint8_t *assignment = ARENA_ARRAY(within, uint8_t, groups + 1);
    memset(assignment, (int)c, groups);
    const DemiConvertOptions options = search_model_options(m, assignment, within);
    SessionOptions how;
    Timing timing = {.owners = owners, .arena = within, .deadline = found->deadline};
    Session *session = open_by(m, &options, &how, within, err);
    m->trials.others = (SessionList){&session, session ? 1 : 0};
    if (session) trials_turn_one(&m->trials, session);
    const bool ok = session && time_steps(session, &timing, err);
    m->trials.others.count = 0;
    for (size_t i = 0; ok && i < timing.steps.count; i++) {
        const StepTime *step = &timing.steps.items[i];
        if (!step->seen) continue;
        if (step->group != GROUP_NONE)
            found->seconds[step->group * count + c] += step->least;
        else if (c == 0)
            *found->rest += step->least;
    }
    found->in[c] = each_of(&timing, true);
    found->out[c] = each_of(&timing, false);
    arena_free(within);
    return ok;
}

bool latency_measure(SearchModel *m, const Latency *found, Err *err) {
    Arena *within = arena_child(m->arena);
    Owners owners = {.groups = {0}};
    find_owners(m, demi_front_model(*m->held)->graph, &owners, within);
    bool ok = true;
    for (size_t c = 0; ok && c < m->candidate_count; c++)
        ok = progress_tell(&m->trials.progress, "timing candidates", c, m->candidate_count, err) &&
             measure_candidate(m, &owners, c, found, err);
    arena_free(within);
    return ok;
}

/* ---- between groups -------------------------------------------------------------------------- */

/* A value is converted where what is made of it has another precision. */
static const double *pair_table(const SearchModel *m, const double elements[2],
                                const Latency *latency, Arena *arena) {
    const size_t count = m->candidate_count;
    double *table = ARENA_ARRAY(arena, double, count *count);
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++) {
            const Dtype from = m->candidates[a]->activations, to = m->candidates[b]->activations;
            if (from == to) continue;
            if (from != DTYPE_FLOAT) table[a * count + b] += elements[0] * latency->out[a];
            if (to != DTYPE_FLOAT) table[a * count + b] += elements[1] * latency->in[b];
        }
    return table;
}

SolvePair *latency_pairs(const SearchModel *m, const Costs *costs, const Latency *latency,
                         size_t *count, Arena *arena) {
    const GroupEdge *edges = groups_edges(&m->measured.groups, count, arena);
    SolvePair *pairs = ARENA_ARRAY(arena, SolvePair, *count + 1);
    for (size_t i = 0; i < *count; i++) {
        const double elements[2] = {costs->elements[edges[i].from], costs->elements[edges[i].to]};
        pairs[i] = (SolvePair){edges[i].from, edges[i].to, pair_table(m, elements, latency, arena)};
    }
    return pairs;
}

/* ---- whole runs ------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of the trials' others. */
static bool run_round(const Trials *t, double *times, size_t rounds, Err *err) {
    Session *const *sessions = t->others.items;
    for (size_t i = 0; i < t->others.count; i++) {
        trials_turn_one(t, sessions[i]);
        const double begun = clock_seconds();
        if (!session_run(sessions[i], err)) return false;
        times[i * ROUNDS_MOST + rounds] = clock_seconds() - begun;
    }
    return true;
}

bool latency_race(SearchModel *m, const uint8_t *const *assignments, size_t count, double deadline,
                  double *seconds, Err *err) {
    Arena *within = arena_child(m->arena);
    Session **sessions = ARENA_ARRAY(within, Session *, count + 1);
    SessionOptions *hows = ARENA_ARRAY(within, SessionOptions, count + 1);
    double *times = ARENA_ARRAY(within, double, (count + 1) * ROUNDS_MOST);
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        const DemiConvertOptions options = assignments[i]
                                               ? search_model_options(m, assignments[i], within)
                                               : search_model_unconverted(m, within);
        m->trials.others = (SessionList){sessions, i};
        sessions[i] = open_by(m, &options, &hows[i], within, err);
        if (!sessions[i]) {
            ok = false;
            break;
        }
        m->trials.others.count++;
        trials_turn_one(&m->trials, sessions[i]);
        ok = session_run(sessions[i], err);
    }
    size_t rounds = 0;
    const double until = fmin(deadline, clock_seconds() + raced_seconds * (double)count);
    for (; ok && rounds < ROUNDS_MOST && (rounds < ROUNDS_LEAST || clock_seconds() < until);
         rounds++)
        ok = run_round(&m->trials, times, rounds, err);
    for (size_t i = 0; ok && i < count; i++) {
        qsort(&times[i * ROUNDS_MOST], rounds, sizeof *times, by_size);
        seconds[i] = times[i * ROUNDS_MOST + rounds / 2];
    }
    m->trials.others.count = 0;
    arena_free(within);
    return ok;
}
