// SPDX-License-Identifier: Apache-2.0
/* Phases 1 and 2; see aimet.h. */
#include "aimet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- phase 1 --------------------------------------------------------------------------------- */

typedef struct Sorted {
    AimetEntry entry;
    double bits;
} Sorted;

/* The higher score first, then more bits, then what reduces cost more, then groups in order, and
 * candidates. */
static int by_sensitivity(const void *a, const void *b) {
    const Sorted *left = a, *right = b;
    if (left->entry.score != right->entry.score)
        return left->entry.score > right->entry.score ? -1 : 1;
    if (left->bits != right->bits) return left->bits > right->bits ? -1 : 1;
    if (left->entry.reduction != right->entry.reduction)
        return left->entry.reduction > right->entry.reduction ? -1 : 1;
    if (left->entry.group != right->entry.group)
        return left->entry.group < right->entry.group ? -1 : 1;
    return left->entry.candidate - right->entry.candidate;
}

/* What costs less where this group alone leaves the assignment for that candidate. */
static double reduction_of(const SolveProblem *p, const uint8_t *from, uint32_t group, uint8_t to) {
    double sum = p->cost[solve_at(p, group, from[group])] - p->cost[solve_at(p, group, to)];
    for (size_t i = 0; i < p->pair_count; i++) {
        const SolvePair *pair = &p->pairs[i];
        if (pair->a != group && pair->b != group) continue;
        const size_t a = pair->a == group ? to : from[pair->a];
        const size_t b = pair->b == group ? to : from[pair->b];
        sum += pair->cost[(size_t)from[pair->a] * p->candidates + from[pair->b]];
        sum -= pair->cost[a * p->candidates + b];
    }
    return sum;
}

static size_t list_alone(const SolveProblem *p, const AimetOptions *options, uint8_t best,
                         AimetEntry *entries, Arena *arena) {
    Sorted *list = ARENA_ARRAY(arena, Sorted, (size_t)p->groups * p->candidates);
    uint8_t *everywhere = ARENA_ARRAY(arena, uint8_t, p->groups);
    size_t count = 0;
    solve_uniform(p, best, everywhere);
    for (uint32_t g = 0; g < p->groups; g++) {
        for (uint8_t c = 0; c < p->candidates; c++) {
            if (c == best || !solve_allowed(p, g, c)) continue;
            const double score = options->alone[solve_at(p, g, c)];
            list[count++] = (Sorted){
                .entry = {g, c, isfinite(score) ? score : -INFINITY,
                          reduction_of(p, everywhere, g, c)},
                .bits = options->bits[solve_at(p, g, c)],
            };
        }
    }
    if (count) qsort(list, count, sizeof *list, by_sensitivity);
    for (size_t i = 0; i < count; i++) entries[i] = list[i].entry;
    return count;
}

/* The list backwards, from what disturbs most, each entry with the next candidate that the group has
 * after it there, the last one with the best. */
static void turn_round(AimetEntry *entries, size_t count, uint8_t best) {
    for (size_t i = 0; i < count / 2; i++) {
        const AimetEntry entry = entries[i];
        entries[i] = entries[count - 1 - i];
        entries[count - 1 - i] = entry;
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t next = best;
        for (size_t k = count; k-- > i + 1;)
            if (entries[k].group == entries[i].group) next = entries[k].candidate;
        entries[i].candidate = next;
    }
}

AimetWalk aimet_walk(const SolveProblem *p, const AimetOptions *options, uint8_t best,
                     uint8_t lowest, Arena *arena) {
    AimetEntry *entries = ARENA_ARRAY(arena, AimetEntry, (size_t)p->groups * p->candidates);
    uint8_t *start = ARENA_ARRAY(arena, uint8_t, p->groups);
    const size_t count = list_alone(p, options, best, entries, arena);
    if (options->reverse) turn_round(entries, count, best);
    solve_uniform(p, options->reverse ? lowest : best, start);
    return (AimetWalk){.problem = p, .entries = entries, .count = count, .start = start};
}

void aimet_walk_to(const AimetWalk *walk, size_t place, uint8_t *assignment) {
    memcpy(assignment, walk->start, walk->problem->groups);
    for (size_t i = 0; i <= place; i++) {
        const AimetEntry *entry = &walk->entries[i];
        const bool may = solve_allowed(walk->problem, entry->group, entry->candidate);
        assignment[entry->group] =
            may ? entry->candidate : solve_first(walk->problem, entry->group);
    }
}

/* ---- the same candidate everywhere ----------------------------------------------------------- */

typedef struct Run {
    SolveTrace *trace;
    const AimetOptions *options;
    AimetResult *result;
    uint8_t *assignment; /* [groups]: to work with */
    size_t *points;      /* by place: SOLVE_NONE where it was not tried */
    size_t everywhere[SOLVE_CANDIDATES];
} Run;

static bool some_group_has(const SolveProblem *p, uint8_t candidate) {
    for (uint32_t g = 0; g < p->groups; g++)
        if (solve_allowed(p, g, candidate)) return true;
    return false;
}

/* The first of the best, and of the cheapest the one with the best score. */
static bool try_everywhere(Run *run) {
    const SolveProblem *p = run->trace->problem;
    size_t best = SOLVE_NONE, lowest = SOLVE_NONE;
    for (uint8_t c = 0; c < p->candidates; c++) {
        if (!some_group_has(p, c)) continue;
        size_t point;
        solve_uniform(p, c, run->assignment);
        if (!solve_trace_score(run->trace, run->assignment, &point)) return false;
        run->everywhere[c] = point;
        const double value = solve_value(run->trace, point);
        const double cost = solve_point(run->trace, point)->cost;
        if (best == SOLVE_NONE || value > solve_value(run->trace, best)) {
            best = point;
            run->result->best = c;
        }
        const double least =
            lowest == SOLVE_NONE ? INFINITY : solve_point(run->trace, lowest)->cost;
        if (cost < least || (cost == least && value > solve_value(run->trace, lowest))) {
            lowest = point;
            run->result->lowest = c;
        }
    }
    return true;
}

/* ---- phase 2 --------------------------------------------------------------------------------- */

static bool value_at(void *user, size_t place, double *value) {
    Run *run = user;
    aimet_walk_to(&run->result->walk, place, run->assignment);
    if (!solve_trace_score(run->trace, run->assignment, &run->points[place])) return false;
    *value = solve_value(run->trace, run->points[place]);
    return true;
}

static void list_tried(Run *run) {
    AimetResult *result = run->result;
    const AimetWalk *walk = &result->walk;
    AimetPlace *tried = ARENA_ARRAY(run->trace->arena, AimetPlace, walk->count);
    const double start = solve_cost(walk->problem, walk->start);
    for (size_t i = 0; i < walk->count; i++) {
        if (run->points[i] == SOLVE_NONE) continue;
        const SolvePoint *point = solve_point(run->trace, run->points[i]);
        tried[result->tried_count++] = (AimetPlace){
            .relative = start != 0 ? point->cost / start : 1,
            .score = point->score,
            .group = walk->entries[i].group,
            .candidate = walk->entries[i].candidate,
            .place = i,
        };
    }
    result->tried = tried;
}

static bool try_all(Run *run) {
    double value;
    for (size_t i = 0; i < run->result->walk.count; i++)
        if (!value_at(run, i, &value)) return false;
    run->result->exit = AIMET_CURVE;
    run->result->point = run->points[run->result->walk.count - 1];
    return true;
}

static bool search_place(Run *run) {
    AimetResult *result = run->result;
    const double target = run->options->float_score - run->options->drop;
    const AimetValues values = {.count = result->walk.count,
                                .rising = run->options->reverse,
                                .value = value_at,
                                .user = run};
    size_t place;
    if (!aimet_search(run->options->search, &values, target, run->trace->arena, &place))
        return false;
    const bool found = solve_value(run->trace, run->points[place]) >= target;
    result->exit = found ? AIMET_FOUND : AIMET_NO_PLACE;
    result->point = found ? run->points[place] : run->everywhere[result->best];
    return true;
}

static bool phase_two(Run *run) {
    Arena *arena = run->trace->arena;
    AimetResult *result = run->result;
    result->walk =
        aimet_walk(run->trace->problem, run->options, result->best, result->lowest, arena);
    result->point = run->everywhere[result->best];
    if (result->walk.count == 0) {
        result->exit = AIMET_NOTHING_TO_DO;
        return true;
    }
    run->points = ARENA_ARRAY(arena, size_t, result->walk.count);
    for (size_t i = 0; i < result->walk.count; i++) run->points[i] = SOLVE_NONE;
    const bool done = isnan(run->options->drop) ? try_all(run) : search_place(run);
    list_tried(run);
    if (!done) {
        result->exit = AIMET_ENDED;
        result->point = SOLVE_NONE;
    }
    return done;
}

static bool run_phases(Run *run) {
    AimetResult *result = run->result;
    const AimetOptions *options = run->options;
    if (!try_everywhere(run)) return false;
    if (isnan(options->drop)) return phase_two(run);
    const size_t best = run->everywhere[result->best], lowest = run->everywhere[result->lowest];
    if (options->float_score - solve_value(run->trace, best) > options->drop) {
        result->exit = AIMET_BEST_MISSES;
        result->point = best;
        return true;
    }
    if (options->float_score - solve_value(run->trace, lowest) < options->drop) {
        result->exit = AIMET_LOWEST_MEETS;
        result->point = lowest;
        return true;
    }
    return phase_two(run);
}

bool aimet_choose(SolveTrace *trace, const AimetOptions *options, AimetResult *result) {
    *result = (AimetResult){.exit = AIMET_ENDED, .point = SOLVE_NONE};
    Run run = {.trace = trace, .options = options, .result = result};
    run.assignment = ARENA_ARRAY(trace->arena, uint8_t, trace->problem->groups);
    if (!run_phases(&run)) result->exit = AIMET_ENDED;
    return !trace->failed;
}
