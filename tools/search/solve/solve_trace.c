// SPDX-License-Identifier: Apache-2.0
/* Scored assignments; see solve_trace.h. */
#include "solve_trace.h"

#include <math.h>
#include <stdlib.h>

#include "hash64.h"

void solve_trace_init(SolveTrace *t, const SolveProblem *problem, const SolveOracle *oracle,
                      Arena *arena, Err *err) {
    *t = (SolveTrace){.problem = problem, .oracle = *oracle, .arena = arena, .err = err};
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The slot that holds the assignment, or that it would go to. */
static size_t slot_of(const SolveTrace *t, const uint8_t *assignment) {
    size_t slot = (size_t)hash64_bytes(assignment, t->problem->groups, 0);
    for (;; slot++) {
        slot &= t->slot_count - 1;
        if (t->slots[slot] == SOLVE_NONE) return slot;
        const SolvePoint *point = solve_point(t, t->slots[slot]);
        if (memcmp(point->assignment, assignment, t->problem->groups) == 0) return slot;
    }
}

size_t solve_trace_find(const SolveTrace *t, const uint8_t *assignment) {
    return t->slot_count == 0 ? SOLVE_NONE : t->slots[slot_of(t, assignment)];
}

static void grow(SolveTrace *t) {
    t->slot_count = t->slot_count ? t->slot_count * 2 : 64;
    t->slots = ARENA_ARRAY(t->arena, size_t, t->slot_count);
    for (size_t i = 0; i < t->slot_count; i++) t->slots[i] = SOLVE_NONE;
    for (size_t i = 0; i < t->points.count; i++)
        t->slots[slot_of(t, t->points.items[i].assignment)] = i;
}

/* ---- scoring --------------------------------------------------------------------------------- */

static bool may_evaluate(SolveTrace *t) {
    if (t->failed || t->spent) return false;
    const SolveOracle *oracle = &t->oracle;
    t->spent = (oracle->limit && t->points.count >= oracle->limit) ||
               (oracle->stop && oracle->stop(oracle->user));
    return !t->spent;
}

bool solve_trace_score(SolveTrace *t, const uint8_t *assignment, size_t *point) {
    *point = solve_trace_find(t, assignment);
    if (*point != SOLVE_NONE) return true;
    if (!may_evaluate(t)) return false;
    double score = NAN;
    if (!t->oracle.evaluate(t->oracle.user, assignment, &score, t->err)) {
        t->failed = true;
        return false;
    }
    const SolvePoint made = {
        .assignment = arena_copy(t->arena, assignment, t->problem->groups),
        .score = isfinite(score) ? score : NAN,
        .cost = solve_cost(t->problem, assignment),
        .second = solve_second(t->problem, assignment),
    };
    if (2 * (t->points.count + 1) > t->slot_count) grow(t);
    *point = t->points.count;
    t->slots[slot_of(t, assignment)] = *point;
    VEC_PUSH(t->arena, &t->points, made);
    return true;
}

double solve_value(const SolveTrace *t, size_t point) {
    const double score = solve_point(t, point)->score;
    return isnan(score) ? -INFINITY : score;
}

/* ---- choosing -------------------------------------------------------------------------------- */

bool solve_cheaper(const SolveTrace *t, size_t a, size_t b) {
    const SolvePoint *left = solve_point(t, a), *right = solve_point(t, b);
    if (left->cost != right->cost) return left->cost < right->cost;
    if (left->second != right->second) return left->second < right->second;
    const double left_value = solve_value(t, a), right_value = solve_value(t, b);
    if (left_value != right_value) return left_value > right_value;
    return memcmp(left->assignment, right->assignment, t->problem->groups) < 0;
}

size_t solve_cheapest(const SolveTrace *t, double target) {
    size_t best = SOLVE_NONE;
    for (size_t i = 0; i < t->points.count; i++) {
        const double score = t->points.items[i].score;
        if (isnan(score) || !(score >= target)) continue;
        if (best == SOLVE_NONE || solve_cheaper(t, i, best)) best = i;
    }
    return best;
}

size_t solve_highest(const SolveTrace *t, double most_cost) {
    size_t best = SOLVE_NONE;
    for (size_t i = 0; i < t->points.count; i++) {
        const SolvePoint *point = &t->points.items[i];
        if (isnan(point->score) || !(point->cost <= most_cost)) continue;
        const double held = best == SOLVE_NONE ? -INFINITY : t->points.items[best].score;
        if (point->score > held || (point->score == held && solve_cheaper(t, i, best))) best = i;
    }
    return best;
}

static bool stands_behind(const SolvePoint *point, const SolvePoint *other) {
    const bool no_better = other->cost <= point->cost && other->second <= point->second &&
                           other->score >= point->score;
    return no_better && (other->cost < point->cost || other->second < point->second ||
                         other->score > point->score || other < point);
}

static int by_cost(const void *a, const void *b) {
    const SolvePoint *left = *(const SolvePoint *const *)a, *right = *(const SolvePoint *const *)b;
    if (left->cost != right->cost) return left->cost < right->cost ? -1 : 1;
    if (left->second != right->second) return left->second < right->second ? -1 : 1;
    return left < right ? -1 : left > right;
}

const size_t *solve_front(const SolveTrace *t, Arena *arena, size_t *count) {
    const SolvePoint *points = t->points.items;
    const SolvePoint **front = ARENA_ARRAY(arena, const SolvePoint *, t->points.count);
    *count = 0;
    for (size_t i = 0; i < t->points.count; i++) {
        bool on = !isnan(points[i].score);
        for (size_t k = 0; k < t->points.count && on; k++)
            on = k == i || isnan(points[k].score) || !stands_behind(&points[i], &points[k]);
        if (on) front[(*count)++] = &points[i];
    }
    if (*count) qsort(front, *count, sizeof *front, by_cost);
    size_t *numbers = ARENA_ARRAY(arena, size_t, *count);
    for (size_t i = 0; i < *count; i++) numbers[i] = (size_t)(front[i] - points);
    return numbers;
}
