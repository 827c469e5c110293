// SPDX-License-Identifier: Apache-2.0
/* Changes that promise something; see choose_repair.h. */
#include "choose_repair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MOVES = 1024, MOST_TRIALS = 64, MOST_CHANGES = 12 };

/* What a failure adds to the noise that was expected, of what was lowered; and what it takes from the
 * noise that was thought to be free. */
static const double disappointed = 0.5, tighter = 0.8;

Repair repair_init(SolveTrace *trace, const SolveProblem *p, const SolveJoint *joint,
                   Arena *arena) {
    Repair r = {.trace = trace,
                .problem = p,
                .joint = joint,
                .target = NAN,
                .most_cost = INFINITY,
                .arena = arena};
    r.noise = ARENA_ARRAY(arena, double, (size_t)p->groups * p->candidates);
    for (uint32_t g = 0; g < p->groups; g++)
        for (uint8_t c = 0; c < p->candidates; c++)
            r.noise[solve_at(p, g, c)] = solve_noise_of(p, g, c);
    return r;
}

/* The best point so far, or SOLVE_NONE. */
static size_t best_of(const Repair *r) {
    if (isnan(r->target)) return solve_highest(r->trace, r->most_cost);
    return solve_cheapest(r->trace, r->target);
}

/* Whether scoring it gives a new best point. */
static bool is_better(Repair *r, const uint8_t *assignment) {
    size_t point;
    return solve_trace_score(r->trace, assignment, &point) && best_of(r) == point;
}

/* ---- moves of one group ---------------------------------------------------------------------- */

typedef struct Move {
    uint32_t group;
    uint8_t to;
    double saved, noise; /* negative where it costs more, where it is less */
} Move;

/* Where nothing is disturbed: little, so that there are orders of what is saved. */
static double more_noise(const Move *move) {
    return fmax(fabs(move->noise), 1e-30);
}

static int by_place(const Move *a, const Move *b) {
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

/* What saves most for its noise first. */
static int by_saved(const void *a, const void *b) {
    const Move *left = a, *right = b;
    const double x = left->saved / more_noise(left), y = right->saved / more_noise(right);
    if (left->noise <= 0 || right->noise <= 0) {
        if ((left->noise <= 0) != (right->noise <= 0)) return left->noise <= 0 ? -1 : 1;
        if (left->saved != right->saved) return left->saved > right->saved ? -1 : 1;
        return by_place(left, right);
    }
    if (x != y) return x > y ? -1 : 1;
    return by_place(left, right);
}

/* What gives back most noise for its cost first. */
static int by_noise(const void *a, const void *b) {
    const Move *left = a, *right = b;
    const double x = -left->noise / fmax(-left->saved, 1e-300);
    const double y = -right->noise / fmax(-right->saved, 1e-300);
    if (x != y) return x > y ? -1 : 1;
    return by_place(left, right);
}

typedef struct Moves {
    Move *down, *up; /* that save; that give back noise and do not */
    size_t downs, ups;
} Moves;

static Moves list_moves(const Repair *r, const uint8_t *from, Arena *arena) {
    const SolveProblem *p = r->problem;
    const size_t room = (size_t)p->groups * p->candidates;
    Moves m = {.down = ARENA_ARRAY(arena, Move, room), .up = ARENA_ARRAY(arena, Move, room)};
    for (uint32_t g = 0; g < p->groups; g++) {
        const double now = solve_joint_of(r->joint, g, from[g], from);
        for (uint8_t c = 0; c < p->candidates; c++) {
            if (c == from[g] || !solve_allowed(p, g, c)) continue;
            const Move move = {g, c, now - solve_joint_of(r->joint, g, c, from),
                               r->noise[solve_at(p, g, c)] - r->noise[solve_at(p, g, from[g])]};
            if (move.saved > 0)
                m.down[m.downs++] = move;
            else if (move.noise < 0)
                m.up[m.ups++] = move;
        }
    }
    if (m.downs) qsort(m.down, m.downs, sizeof *m.down, by_saved);
    if (m.ups) qsort(m.up, m.ups, sizeof *m.up, by_noise);
    if (m.downs > MOST_MOVES) m.downs = MOST_MOVES;
    if (m.ups > MOST_MOVES) m.ups = MOST_MOVES;
    return m;
}

/* What was changed in vain: lower groups are noisier than was thought, and without a target higher ones
 * were less noisy. */
static void learn(Repair *r, const uint8_t *from, const uint8_t *trial) {
    const SolveProblem *p = r->problem;
    r->slack *= tighter;
    for (uint32_t g = 0; g < p->groups; g++) {
        double *was = &r->noise[solve_at(p, g, from[g])], *is = &r->noise[solve_at(p, g, trial[g])];
        if (*is > *was)
            *is += disappointed * (*is - *was);
        else if (isnan(r->target) && *is < *was)
            *was -= disappointed * (*was - *is);
    }
}

/* ---- many at a time -------------------------------------------------------------------------- */

/* The first moves of so many groups. */
static void make_moves(const Move *moves, size_t count, size_t together, uint8_t *assignment,
                       bool *moved) {
    for (size_t i = 0; i < count && together > 0; i++) {
        if (moved[moves[i].group]) continue;
        moved[moves[i].group] = true;
        assignment[moves[i].group] = moves[i].to;
        together--;
    }
}

/* Tries the first moves from the best point; their order is the caller's. */
static bool try_together(Repair *r, const Move *moves, size_t count, size_t together,
                         Arena *arena) {
    const size_t groups = r->problem->groups;
    uint8_t *trial = arena_copy(arena, solve_point(r->trace, best_of(r))->assignment, groups);
    make_moves(moves, count, together, trial, ARENA_ARRAY(arena, bool, groups));
    return is_better(r, trial);
}

void repair_lower(Repair *r, size_t evaluations) {
    const size_t until = r->trace->points.count + evaluations;
    size_t together = 1;
    while (together > 0 && r->trace->points.count < until && !repair_ended(r)) {
        const size_t best = best_of(r);
        if (best == SOLVE_NONE) return;
        Arena *arena = arena_child(r->arena);
        const Moves m = list_moves(r, solve_point(r->trace, best)->assignment, arena);
        const bool better = m.downs > 0 && try_together(r, m.down, m.downs, together, arena);
        together = better ? 2 * together : together / 2;
        arena_free(arena);
    }
}

/* Without those of groups that are given up. */
static size_t leave_out(Move *moves, size_t count, const bool *given_up) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        if (!given_up[moves[i].group]) moves[left++] = moves[i];
    return left;
}

void repair_lower_all(Repair *r, size_t evaluations) {
    const size_t until = r->trace->points.count + evaluations, groups = r->problem->groups;
    bool *given_up = ARENA_ARRAY(r->arena, bool, groups + 1), some = true;
    size_t together = 1, better_before = 0;
    while (some && r->trace->points.count < until && !repair_ended(r)) {
        const size_t best = best_of(r);
        if (best == SOLVE_NONE) return;
        Arena *arena = arena_child(r->arena);
        const uint8_t *from = solve_point(r->trace, best)->assignment;
        const Moves m = list_moves(r, from, arena);
        const size_t count = leave_out(m.down, m.downs, given_up);
        uint8_t *trial = arena_copy(arena, from, groups);
        some = count > 0;
        if (together > count) together = count;
        make_moves(m.down, count, together, trial, ARENA_ARRAY(arena, bool, groups));
        const bool better = some && is_better(r, trial);
        if (!better) learn(r, from, trial);
        if (some && !better && together == 1) given_up[m.down[0].group] = true;
        better_before = better ? better_before + 1 : 0;
        if (better_before > 1) together *= 2;
        if (!better && together > 1) together /= 2;
        arena_free(arena);
    }
}

static size_t list_second(const Repair *r, const uint8_t *from, Move *moves) {
    const SolveProblem *p = r->problem;
    size_t count = 0;
    for (uint32_t g = 0; g < p->groups; g++) {
        for (uint8_t c = 0; c < p->candidates; c++) {
            if (c == from[g] || !solve_allowed(p, g, c)) continue;
            const size_t at = solve_at(p, g, c), was = solve_at(p, g, from[g]);
            if (solve_joint_of(r->joint, g, c, from) != solve_joint_of(r->joint, g, from[g], from))
                continue;
            if (!(p->second[was] > p->second[at])) continue;
            moves[count++] =
                (Move){g, c, p->second[was] - p->second[at], r->noise[at] - r->noise[was]};
        }
    }
    if (count) qsort(moves, count, sizeof *moves, by_saved);
    return count;
}

void repair_second(Repair *r, size_t evaluations) {
    const size_t until = r->trace->points.count + evaluations;
    if (!r->problem->second) return;
    for (size_t together = r->problem->groups; together > 0;) {
        const size_t best = best_of(r);
        if (best == SOLVE_NONE || repair_ended(r) || r->trace->points.count >= until) return;
        Arena *arena = arena_child(r->arena);
        Move *moves = ARENA_ARRAY(arena, Move, (size_t)r->problem->groups * r->problem->candidates);
        const size_t count = list_second(r, solve_point(r->trace, best)->assignment, moves);
        if (together > count) together = count;
        const bool better = count > 0 && try_together(r, moves, count, together, arena);
        if (!better) together /= 2;
        arena_free(arena);
    }
}

/* ---- few at a time --------------------------------------------------------------------------- */

typedef struct Trial {
    double worth;
    size_t count;
    Move changes[MOST_CHANGES];
} Trial;

typedef struct Pool {
    const Repair *repair;
    double spare;  /* what may be spent at most, where there is no target */
    Trial *trials; /* [MOST_TRIALS]: by what they are worth */
    size_t count;
} Pool;

/* What is saved, times how likely it is good: that of half where the slack is used up. Without a target,
 * how little noise there is, as scores are higher for some that have more. */
static double worth_of(const Pool *pool, double saved, double noise) {
    const double share = noise / pool->repair->slack;
    if (isnan(pool->repair->target)) return saved >= -pool->spare ? exp(-fmax(share, -700)) : 0;
    return noise <= 0 ? saved : saved / (1 + share * share);
}

static Trial *offer(Pool *pool, double saved, double noise, size_t count) {
    const double worth = worth_of(pool, saved, noise);
    if (!(worth > 0)) return NULL;
    size_t at = pool->count;
    while (at > 0 && worth > pool->trials[at - 1].worth) at--;
    if (at == MOST_TRIALS) return NULL;
    const size_t last = pool->count < MOST_TRIALS ? pool->count++ : MOST_TRIALS - 1;
    memmove(&pool->trials[at + 1], &pool->trials[at], (last - at) * sizeof *pool->trials);
    Trial *trial = &pool->trials[at];
    trial->worth = worth;
    trial->count = count;
    return trial;
}

static void offer_moves(Pool *pool, const Move *const *moves, size_t count) {
    double saved = 0, noise = 0;
    for (size_t i = 0; i < count; i++) {
        saved += moves[i]->saved;
        noise += moves[i]->noise;
    }
    Trial *trial = offer(pool, saved, noise, count);
    for (size_t i = 0; trial && i < count; i++) trial->changes[i] = *moves[i];
}

/* One, and one for another. */
static void offer_singles(Pool *pool, const Moves *m) {
    for (size_t i = 0; i < m->downs; i++) offer_moves(pool, (const Move *[]){&m->down[i]}, 1);
    for (size_t i = 0; i < m->ups; i++) offer_moves(pool, (const Move *[]){&m->up[i]}, 1);
    for (size_t i = 0; i < m->downs; i++)
        for (size_t k = 0; k < m->ups; k++)
            if (m->down[i].group != m->up[k].group)
                offer_moves(pool, (const Move *[]){&m->down[i], &m->up[k]}, 2);
}

static bool has_group(const Move *const *moves, size_t count, uint32_t group) {
    for (size_t i = 0; i < count; i++)
        if (moves[i]->group == group) return true;
    return false;
}

/* One raised, and others lowered for the noise that it gives back, also with the slack. */
static void offer_refilled(Pool *pool, const Moves *m, const Move *up, double slack) {
    const Move *made[MOST_CHANGES] = {up};
    size_t count = 1;
    double left = slack - up->noise;
    for (size_t i = 0; i < m->downs && count < MOST_CHANGES; i++) {
        const Move *down = &m->down[i];
        if (down->noise > left || has_group(made, count, down->group)) continue;
        left -= down->noise;
        made[count++] = down;
    }
    offer_moves(pool, made, count);
}

/* One lowered, and others raised until its noise is paid back. */
static void offer_paid(Pool *pool, const Moves *m, const Move *down) {
    const Move *made[MOST_CHANGES] = {down};
    size_t count = 1;
    double owed = down->noise;
    for (size_t i = 0; i < m->ups && count < MOST_CHANGES && owed > 0; i++) {
        const Move *up = &m->up[i];
        if (has_group(made, count, up->group)) continue;
        owed += up->noise;
        made[count++] = up;
        offer_moves(pool, made, count);
    }
}

/* Both groups of a pair, as what they cost together depends on both. */
static void offer_pair(Pool *pool, const SolvePair *pair, uint8_t *from) {
    const Repair *r = pool->repair;
    const SolveProblem *p = r->problem;
    const uint8_t a = from[pair->a], b = from[pair->b];
    const double now_a = solve_joint_of(r->joint, pair->a, a, from);
    for (uint8_t c = 0; c < p->candidates; c++) {
        if (c == a || !solve_allowed(p, pair->a, c)) continue;
        const Move first = {pair->a, c, now_a - solve_joint_of(r->joint, pair->a, c, from),
                            r->noise[solve_at(p, pair->a, c)] - r->noise[solve_at(p, pair->a, a)]};
        from[pair->a] = c;
        const double now_b = solve_joint_of(r->joint, pair->b, b, from);
        for (uint8_t d = 0; d < p->candidates; d++) {
            if (d == b || !solve_allowed(p, pair->b, d)) continue;
            const Move then = {pair->b, d, now_b - solve_joint_of(r->joint, pair->b, d, from),
                               r->noise[solve_at(p, pair->b, d)] -
                                   r->noise[solve_at(p, pair->b, b)]};
            offer_moves(pool, (const Move *[]){&first, &then}, 2);
        }
        from[pair->a] = a;
    }
}

static void fill_pool(Pool *pool, const Moves *m, uint8_t *from) {
    const SolveProblem *p = pool->repair->problem;
    offer_singles(pool, m);
    for (size_t i = 0; i < m->ups; i++) {
        offer_refilled(pool, m, &m->up[i], 0);
        offer_refilled(pool, m, &m->up[i], pool->repair->slack);
    }
    for (size_t i = 0; i < m->downs; i++) offer_paid(pool, m, &m->down[i]);
    for (size_t i = 0; i < p->pair_count; i++) offer_pair(pool, &p->pairs[i], from);
}

/* The first that was not scored and is cheaper, by its true cost; false where there is none. */
static bool choose_trial(const Pool *pool, const SolvePoint *best, uint8_t *trial) {
    const Repair *r = pool->repair;
    for (size_t i = 0; i < pool->count; i++) {
        memcpy(trial, best->assignment, r->problem->groups);
        for (size_t k = 0; k < pool->trials[i].count; k++)
            trial[pool->trials[i].changes[k].group] = pool->trials[i].changes[k].to;
        const double cost = solve_cost(r->problem, trial);
        if (isnan(r->target) ? cost > r->most_cost : cost >= best->cost) continue;
        if (solve_trace_find(r->trace, trial) == SOLVE_NONE) return true;
    }
    return false;
}

void repair_change(Repair *r, size_t evaluations) {
    const size_t until = r->trace->points.count + evaluations, groups = r->problem->groups;
    while (r->trace->points.count < until && !repair_ended(r)) {
        const size_t at = best_of(r);
        if (at == SOLVE_NONE) return;
        const SolvePoint best = *solve_point(r->trace, at); /* points move as more are scored */
        Arena *arena = arena_child(r->arena);
        const Moves m = list_moves(r, best.assignment, arena);
        Pool pool = {r, r->most_cost - best.cost, ARENA_ARRAY(arena, Trial, MOST_TRIALS), 0};
        uint8_t *trial = arena_copy(arena, best.assignment, groups);
        fill_pool(&pool, &m, trial);
        const bool some = choose_trial(&pool, &best, trial);
        if (some && !is_better(r, trial)) learn(r, best.assignment, trial);
        arena_free(arena);
        if (!some) return;
    }
}
