// SPDX-License-Identifier: Apache-2.0
/* Solving, verifying, repairing; see choose.h. */
#include "choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aimet.h"
#include "choose_repair.h"

/* What a whole second cost counts beside the first: little, so that the first decides. */
static const double second_share = 0.02;

/* Bounds on noise that are this near to each other come to the same. */
static const double near = 1.003;

enum { MOST_HALVINGS = 60 }; /* with those that need no evaluation */

typedef struct Choosing {
    SolveTrace *trace;
    const SolveProblem *p; /* where only usable candidates are allowed */
    SolveJoint joint;      /* of both costs */
    SolveJoint first;      /* of the first alone */
    double target;
    Arena *arena;
    uint8_t *assignment;     /* [groups]: to work with */
    size_t widest, cheapest; /* points */
} Choosing;

static bool ended(const Choosing *s) {
    return s->trace->failed || s->trace->spent;
}

/* Is it good enough? Not where that may no longer be asked. */
static bool good(Choosing *s, const uint8_t *assignment) {
    size_t point;
    return solve_trace_score(s->trace, assignment, &point) &&
           solve_value(s->trace, point) >= s->target;
}

static bool cheaper_than_best(const Choosing *s, double cost) {
    const size_t best = solve_cheapest(s->trace, s->target);
    return best == SOLVE_NONE || cost < solve_point(s->trace, best)->cost;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static const SolveProblem *usable_only(const SolveProblem *p, Arena *arena) {
    bool *allowed = ARENA_ARRAY(arena, bool, (size_t)p->groups * p->candidates);
    SolveProblem *only = arena_copy(arena, p, sizeof *p);
    for (uint32_t g = 0; g < p->groups; g++)
        for (uint8_t c = 0; c < p->candidates; c++)
            allowed[solve_at(p, g, c)] = solve_usable(p, g, c);
    only->allowed = allowed;
    return only;
}

static double second_weight(const SolveProblem *p, const uint8_t *widest) {
    const double first = fabs(solve_cost(p, widest)), second = fabs(solve_second(p, widest));
    return second > 0 && first > 0 ? second_share * first / second : second > 0;
}

static Choosing begin(SolveTrace *trace, double target) {
    Choosing s = {.trace = trace, .target = target, .arena = arena_child(trace->arena)};
    s.p = usable_only(trace->problem, s.arena);
    s.assignment = ARENA_ARRAY(s.arena, uint8_t, s.p->groups);
    s.widest = s.cheapest = SOLVE_NONE;
    solve_uniform(s.p, 0, s.assignment);
    s.joint = solve_joint(s.p, second_weight(s.p, s.assignment), s.arena);
    s.first = solve_joint(s.p, 0, s.arena);
    return s;
}

/* What costs least, by the second cost too as long as it is the least by the first. */
static bool score_cheapest(Choosing *s) {
    size_t first, both;
    solve_bound(&s->first, INFINITY, s->arena, s->assignment);
    if (!solve_trace_score(s->trace, s->assignment, &first)) return false;
    s->cheapest = first;
    solve_bound(&s->joint, INFINITY, s->arena, s->assignment);
    if (solve_cost(s->p, s->assignment) > solve_point(s->trace, first)->cost) return true;
    if (!solve_trace_score(s->trace, s->assignment, &both)) return false;
    s->cheapest = both;
    return true;
}

/* The most precise, the cheapest there is, and every candidate everywhere. */
static void score_uniform(Choosing *s) {
    solve_uniform(s->p, 0, s->assignment);
    if (!solve_trace_score(s->trace, s->assignment, &s->widest)) return;
    if (!score_cheapest(s)) return;
    for (uint8_t c = 0; c < s->p->candidates && !ended(s); c++) {
        size_t point;
        solve_uniform(s->p, c, s->assignment);
        solve_trace_score(s->trace, s->assignment, &point);
    }
}

/* ---- halving --------------------------------------------------------------------------------- */

/* Bounds on noise between which the largest is that whose solution is good. Above 0, as they are halved
 * on a scale of logarithms. */
typedef struct Bracket {
    double low, high;
    double cost; /* of the solution at the high one: no other between is cheaper */
} Bracket;

static double noise_of(const Choosing *s, size_t point) {
    return solve_noise(s->p, solve_point(s->trace, point)->assignment);
}

static Bracket first_bracket(const Choosing *s) {
    const SolveProblem *p = s->p;
    double least = INFINITY;
    for (uint32_t g = 0; g < p->groups; g++) {
        for (uint8_t c = 0; c < p->candidates; c++) {
            const double noise = solve_usable(p, g, c) ? solve_noise_of(p, g, c) : 0;
            if (noise > 0 && noise < least) least = noise;
        }
    }
    const double low = fmax(noise_of(s, s->widest), least < INFINITY ? least : 1e-30);
    return (Bracket){low, fmax(noise_of(s, s->cheapest), low),
                     solve_point(s->trace, s->cheapest)->cost};
}

/* Tries the bound's solution; where it is not good, it is that of all bounds from its noise on. */
static void try_bound(Choosing *s, double bound, Bracket *bracket) {
    solve_bound(&s->joint, bound, s->arena, s->assignment);
    if (good(s, s->assignment)) {
        bracket->low = bound;
        return;
    }
    bracket->high = fmax(fmin(bound, solve_noise(s->p, s->assignment)), bracket->low);
    bracket->cost = solve_cost(s->p, s->assignment);
}

/* Begins where the cheapest good point's noise is, as that cannot come to anything costlier. */
static Bracket halve(Choosing *s, size_t evaluations) {
    Bracket b = first_bracket(s);
    const size_t until = s->trace->points.count + evaluations;
    const double begin_at = noise_of(s, solve_cheapest(s->trace, s->target));
    for (int i = 0; i < MOST_HALVINGS; i++) {
        if (ended(s) || s->trace->points.count >= until) break;
        if (i > 0 && b.high <= b.low * near) break;
        const bool inside = i == 0 && begin_at >= b.low && begin_at < b.high;
        try_bound(s, inside ? begin_at : sqrt(b.low) * sqrt(b.high), &b);
        if (ended(s) || b.high == b.low || !cheaper_than_best(s, b.cost)) break;
    }
    return b;
}

/* ---- orders that are walked ------------------------------------------------------------------ */

typedef struct Walking {
    Choosing *choosing;
    const AimetWalk *walk;
    double *costs; /* [count]: of each place */
} Walking;

static bool value_at(void *user, size_t place, double *value) {
    Walking *w = user;
    Choosing *s = w->choosing;
    size_t point;
    aimet_walk_to(w->walk, place, s->assignment);
    if (!solve_trace_score(s->trace, s->assignment, &point)) return false;
    *value = solve_value(s->trace, point);
    return true;
}

static bool worthwhile(void *user, size_t first, size_t last) {
    const Walking *w = user;
    for (size_t i = first; i <= last; i++)
        if (cheaper_than_best(w->choosing, w->costs[i])) return true;
    return false;
}

/* As AIMET does it with halving, as long as some place that is left is cheaper than the best. */
static void walk_order(Choosing *s, const AimetWalk *walk) {
    if (walk->count == 0 || ended(s)) return;
    Walking w = {s, walk, ARENA_ARRAY(s->arena, double, walk->count)};
    for (size_t i = 0; i < walk->count; i++) {
        aimet_walk_to(walk, i, s->assignment);
        w.costs[i] = solve_cost(s->p, s->assignment);
    }
    const AimetValues values = {
        .count = walk->count, .value = value_at, .worthwhile = worthwhile, .user = &w};
    size_t place;
    aimet_search(AIMET_BINARY, &values, s->target, s->arena, &place);
}

/* From the first of the best candidates everywhere, as AIMET does. */
static void walk_as_aimet(Choosing *s, const ChooseOptions *options) {
    const AimetOptions aimet = {.alone = options->alone, .bits = options->bits};
    uint8_t best = 0;
    double most = -INFINITY;
    if (!options->alone || !options->bits || ended(s)) return;
    for (uint8_t c = 0; c < s->p->candidates; c++) {
        bool some = false;
        for (uint32_t g = 0; g < s->p->groups; g++) some |= solve_allowed(s->p, g, c);
        solve_uniform(s->p, c, s->assignment);
        const double value = solve_value(s->trace, solve_trace_find(s->trace, s->assignment));
        if (!some || !(value > most)) continue;
        most = value;
        best = c;
    }
    const AimetWalk walk = aimet_walk(s->p, &aimet, best, best, s->arena);
    walk_order(s, &walk);
}

typedef struct Gain {
    uint32_t group;
    uint8_t candidate;
    double saved, noise;
} Gain;

static int by_gain(const void *a, const void *b) {
    const Gain *left = a, *right = b;
    const double x = left->noise * right->saved, y = right->noise * left->saved;
    if (x != y) return x < y ? -1 : 1;
    if (left->group != right->group) return left->group < right->group ? -1 : 1;
    return left->candidate - right->candidate;
}

/* Groups by their noise for what they save from the most precise on; what saves nothing is left out, and
 * what saves less than the group did before. */
static void walk_gains(Choosing *s) {
    const SolveProblem *p = s->p;
    const size_t room = (size_t)p->groups * p->candidates;
    uint8_t *start = ARENA_ARRAY(s->arena, uint8_t, p->groups);
    Gain *gains = ARENA_ARRAY(s->arena, Gain, room);
    AimetEntry *entries = ARENA_ARRAY(s->arena, AimetEntry, room);
    double *saved = ARENA_ARRAY(s->arena, double, p->groups);
    size_t count = 0;
    solve_uniform(p, 0, start);
    for (uint32_t g = 0; g < p->groups; g++) {
        const double now = solve_joint_of(&s->first, g, start[g], start);
        for (uint8_t c = 0; c < p->candidates; c++) {
            if (!solve_allowed(p, g, c)) continue;
            const double less = now - solve_joint_of(&s->first, g, c, start);
            if (less > 0) gains[count++] = (Gain){g, c, less, solve_noise_of(p, g, c)};
        }
    }
    if (count) qsort(gains, count, sizeof *gains, by_gain);
    AimetWalk walk = {.problem = p, .entries = entries, .start = start};
    for (size_t i = 0; i < count; i++) {
        if (gains[i].saved <= saved[gains[i].group]) continue;
        saved[gains[i].group] = gains[i].saved;
        entries[walk.count++] = (AimetEntry){
            .group = gains[i].group, .candidate = gains[i].candidate, .reduction = gains[i].saved};
    }
    walk_order(s, &walk);
}

/* ---- all together ---------------------------------------------------------------------------- */

static void repair(Choosing *s, double slack, const ChooseEffort *effort) {
    Repair repair = repair_init(s->trace, s->p, &s->first, s->arena);
    repair.target = s->target;
    repair.slack = slack;
    if (effort->thorough)
        repair_lower_all(&repair, effort->lowering);
    else
        repair_lower(&repair, effort->lowering);
    repair_change(&repair, effort->repairs);
    repair_second(&repair, effort->second);
}

static void improve(Choosing *s, const ChooseOptions *options) {
    const Bracket bracket = halve(s, options->effort.halvings);
    walk_as_aimet(s, options);
    walk_gains(s);
    if (!ended(s))
        repair(s, fmax(bracket.high - bracket.low, 0.02 * bracket.low), &options->effort);
}

bool choose_repair(SolveTrace *trace, double target, const ChooseEffort *effort) {
    Choosing s = begin(trace, target);
    const size_t best = solve_cheapest(trace, target);
    if (best != SOLVE_NONE) repair(&s, noise_of(&s, best), effort);
    arena_free(s.arena);
    return !trace->failed;
}

bool choose_search(SolveTrace *trace, double target, const ChooseOptions *options,
                   ChooseOutcome *outcome) {
    Choosing s = begin(trace, target);
    *outcome = CHOOSE_NOTHING;
    score_uniform(&s);
    if (solve_cheapest(trace, target) != SOLVE_NONE) {
        const bool trivial = s.cheapest != SOLVE_NONE && solve_value(trace, s.cheapest) >= target;
        *outcome = trivial ? CHOOSE_TRIVIAL : CHOOSE_FOUND;
        if (!trivial && !ended(&s)) improve(&s, options);
    }
    arena_free(s.arena);
    return !trace->failed;
}

bool choose_uniform(SolveTrace *trace, size_t *widest, size_t *cheapest) {
    Choosing s = begin(trace, INFINITY);
    score_uniform(&s);
    *widest = s.widest;
    *cheapest = s.cheapest;
    arena_free(s.arena);
    return !trace->failed;
}

bool choose_curve(SolveTrace *trace, size_t points) {
    Choosing s = begin(trace, INFINITY);
    score_uniform(&s);
    if (!ended(&s)) {
        const Bracket b = first_bracket(&s);
        for (size_t i = 0; i < points && !ended(&s); i++) {
            size_t point;
            const double part = ((double)i + 0.5) / (double)points;
            solve_bound(&s.joint, b.low * pow(b.high / b.low, part), s.arena, s.assignment);
            solve_trace_score(trace, s.assignment, &point);
        }
    }
    arena_free(s.arena);
    return !trace->failed;
}

/* ---- the other way round --------------------------------------------------------------------- */

/* The least bound whose solution costs no more, into s->assignment, where the cheapest does. */
static void solve_within(Choosing *s, double most_cost) {
    solve_bound(&s->first, INFINITY, s->arena, s->assignment);
    uint8_t *trial = arena_copy(s->arena, s->assignment, s->p->groups);
    double low = 0, high = solve_noise(s->p, s->assignment), smallest = high;
    for (size_t i = 0; i < (size_t)s->p->groups * s->p->candidates; i++)
        if (s->p->noise[i] > 0 && s->p->noise[i] < smallest) smallest = s->p->noise[i];
    for (int i = 0; i < MOST_HALVINGS && high > low * 1.0001; i++) {
        const double middle = low > 0 ? sqrt(low) * sqrt(high) : smallest / 2;
        solve_bound(&s->first, middle, s->arena, trial);
        const bool within = solve_cost(s->p, trial) <= most_cost;
        if (within) memcpy(s->assignment, trial, s->p->groups);
        if (within)
            high = solve_noise(s->p, trial);
        else
            low = middle;
    }
}

static void score_within(Choosing *s, double most_cost, size_t points) {
    size_t point;
    for (uint8_t c = 0; c < s->p->candidates && !ended(s); c++) {
        solve_uniform(s->p, c, s->assignment);
        if (solve_cost(s->p, s->assignment) <= most_cost)
            solve_trace_score(s->trace, s->assignment, &point);
    }
    if (ended(s)) return;
    solve_within(s, most_cost);
    if (!solve_trace_score(s->trace, s->assignment, &point)) return;
    if (solve_point(s->trace, point)->cost > most_cost) return;
    Repair repair = repair_init(s->trace, s->p, &s->first, s->arena);
    repair.most_cost = most_cost;
    repair.slack = fmax(solve_noise(s->p, s->assignment), 1e-30);
    repair_change(&repair, points);
}

bool choose_within(SolveTrace *trace, double most_cost, size_t points) {
    Choosing s = begin(trace, INFINITY);
    score_within(&s, most_cost, points);
    arena_free(s.arena);
    return !trace->failed;
}

void choose_knapsack(const SolveProblem *problem, double bound, Arena *scratch,
                     uint8_t *assignment) {
    const SolveJoint joint = solve_joint(problem, 0, scratch);
    solve_bound(&joint, bound, scratch, assignment);
}
