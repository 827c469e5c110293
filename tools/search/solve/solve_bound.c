// SPDX-License-Identifier: Apache-2.0
/* Knapsacks and priced cuts; see solve_bound.h. */
#include "solve_bound.h"

#include <math.h>
#include <string.h>

#include "solve_cut.h"

enum { MOST_STATES = 4096, LINEAR_ROUNDS = 3, PRICE_STEPS = 24, SWEEPS = 2 };

/* ---- both costs ------------------------------------------------------------------------------ */

SolveJoint solve_joint(const SolveProblem *p, double weight, Arena *arena) {
    SolveJoint j = {.problem = p, .weight = weight};
    j.pairs = ARENA_ARRAY(arena, const SolvePair *, 2 * p->pair_count);
    j.first = ARENA_ARRAY(arena, size_t, (size_t)p->groups + 1);
    for (size_t i = 0; i < p->pair_count; i++) {
        j.first[p->pairs[i].a + 1]++;
        j.first[p->pairs[i].b + 1]++;
    }
    for (uint32_t g = 0; g < p->groups; g++) j.first[g + 1] += j.first[g];
    size_t *at = arena_copy(arena, j.first, ((size_t)p->groups + 1) * sizeof *at);
    for (size_t i = 0; i < p->pair_count; i++) {
        j.pairs[at[p->pairs[i].a]++] = &p->pairs[i];
        j.pairs[at[p->pairs[i].b]++] = &p->pairs[i];
    }
    return j;
}

double solve_joint_cost(const SolveJoint *j, const uint8_t *assignment) {
    const double cost = solve_cost(j->problem, assignment);
    return j->weight > 0 ? cost + j->weight * solve_second(j->problem, assignment) : cost;
}

/* Of the group alone. */
static double own_cost(const SolveJoint *j, uint32_t group, uint8_t candidate) {
    const SolveProblem *p = j->problem;
    const size_t at = solve_at(p, group, candidate);
    return p->second ? p->cost[at] + j->weight * p->second[at] : p->cost[at];
}

double solve_joint_of(const SolveJoint *j, uint32_t group, uint8_t candidate,
                      const uint8_t *assignment) {
    double cost = own_cost(j, group, candidate);
    for (size_t i = j->first[group]; i < j->first[group + 1]; i++) {
        const SolvePair *pair = j->pairs[i];
        const size_t a = pair->a == group ? candidate : assignment[pair->a];
        const size_t b = pair->b == group ? candidate : assignment[pair->b];
        cost += pair->cost[a * j->problem->candidates + b];
    }
    return cost;
}

/* ---- knapsack -------------------------------------------------------------------------------- */

typedef struct State {
    double noise, cost;
} State;

/* How a state came to be. */
typedef struct Origin {
    uint16_t before; /* of the states of the group before */
    uint8_t candidate;
} Origin;

/* The states after a group. */
typedef struct Row {
    State *states; /* by noise; their costs fall */
    Origin *origins;
    size_t count;
} Row;

typedef struct Option {
    State own, sum; /* with the next of the states before */
    uint8_t candidate;
    size_t next;
} Option;

typedef struct Knapsack {
    const SolveProblem *problem;
    double bound, width; /* the most noise; of what is alike where states are too many */
    State *before;       /* [MOST_STATES * candidates], as are those of the row */
    size_t before_count;
    Row row; /* to work with */
} Knapsack;

/* Makes the option's next sum; false where none is left within the bound, as noises rise. */
static bool make_sum(const Knapsack *k, Option *o) {
    if (o->next == k->before_count) return false;
    const State *s = &k->before[o->next];
    o->sum = (State){s->noise + o->own.noise, s->cost + o->own.cost};
    return o->sum.noise <= k->bound;
}

/* The one whose sum is first by noise, then by cost. */
static size_t first_of(const Option *options, size_t count) {
    size_t first = 0;
    for (size_t i = 1; i < count; i++) {
        const State *sum = &options[i].sum, *least = &options[first].sum;
        if (sum->noise < least->noise || (sum->noise == least->noise && sum->cost < least->cost))
            first = i;
    }
    return first;
}

/* The cheapest of each width stays, and the first of all. */
static void thin(const Knapsack *k, Row *row) {
    size_t kept = 1;
    double held = -1;
    for (size_t i = 1; i < row->count; i++) {
        const double slot = floor(row->states[i].noise / k->width);
        if (slot != held) kept++;
        held = slot;
        row->states[kept - 1] = row->states[i];
        row->origins[kept - 1] = row->origins[i];
    }
    row->count = kept;
}

/* Goes on to the states after the group; returns how each came to be. */
static Origin *add_group(Knapsack *k, uint32_t group, const double *costs, Arena *arena) {
    const SolveProblem *p = k->problem;
    Option options[SOLVE_CANDIDATES];
    size_t count = 0;
    for (uint8_t c = 0; c < p->candidates; c++) {
        if (!solve_usable(p, group, c)) continue;
        options[count] = (Option){
            .own = {solve_noise_of(p, group, c), costs[solve_at(p, group, c)]}, .candidate = c};
        if (make_sum(k, &options[count])) count++;
    }
    Row *row = &k->row;
    row->count = 0;
    while (count > 0) {
        const size_t first = first_of(options, count);
        Option *o = &options[first];
        if (row->count == 0 || o->sum.cost < row->states[row->count - 1].cost) {
            row->origins[row->count] = (Origin){(uint16_t)o->next, o->candidate};
            row->states[row->count++] = o->sum;
        }
        o->next++;
        if (!make_sum(k, o)) *o = options[--count];
    }
    if (row->count > MOST_STATES) thin(k, row);
    State *swap = k->before;
    k->before = row->states;
    k->before_count = row->count;
    row->states = swap;
    return arena_copy(arena, row->origins, row->count * sizeof *row->origins);
}

/* costs: [groups][candidates]. False where nothing is within the bound. */
static bool solve_knapsack(const SolveProblem *p, double bound, const double *costs, Arena *arena,
                           uint8_t *assignment) {
    Knapsack k = {.problem = p, .bound = bound};
    double most = 0;
    for (uint32_t g = 0; g < p->groups; g++) {
        double noise = 0;
        for (uint8_t c = 0; c < p->candidates; c++)
            if (solve_usable(p, g, c)) noise = fmax(noise, solve_noise_of(p, g, c));
        most += noise;
    }
    k.width = fmin(bound, most) / (MOST_STATES - 2);
    const size_t room = (size_t)MOST_STATES * p->candidates;
    k.before = ARENA_ARRAY(arena, State, room); /* the first one: nothing yet */
    k.before_count = 1;
    k.row = (Row){ARENA_ARRAY(arena, State, room), ARENA_ARRAY(arena, Origin, room), 0};
    Origin **origins = ARENA_ARRAY(arena, Origin *, p->groups);
    for (uint32_t g = 0; g < p->groups; g++) {
        origins[g] = add_group(&k, g, costs, arena);
        if (k.before_count == 0) return false;
    }
    size_t at = k.before_count - 1; /* the cheapest */
    for (uint32_t g = p->groups; g-- > 0;) {
        const Origin *origin = &origins[g][at];
        assignment[g] = origin->candidate;
        at = origin->before;
    }
    return true;
}

/* ---- priced cuts ----------------------------------------------------------------------------- */

/* What the price of noise is added to. */
static double priced(const SolveJoint *j, double price, const uint8_t *assignment) {
    return solve_joint_cost(j, assignment) + price * solve_noise(j->problem, assignment);
}

/* The best of two options for each group, options[0] and [1], which may be the same. False where a cut
 * can't express the costs. */
static bool cut_between(const SolveJoint *j, double price, const uint8_t *const options[2],
                        Arena *arena, uint8_t *out) {
    const SolveProblem *p = j->problem;
    double(*unary)[2] = arena_array(arena, p->groups, sizeof *unary);
    CutTerm *terms = ARENA_ARRAY(arena, CutTerm, p->pair_count);
    for (uint32_t g = 0; g < p->groups; g++)
        for (int k = 0; k < 2; k++)
            unary[g][k] =
                own_cost(j, g, options[k][g]) + price * solve_noise_of(p, g, options[k][g]);
    for (size_t i = 0; i < p->pair_count; i++) {
        const SolvePair *pair = &p->pairs[i];
        terms[i] = (CutTerm){.a = pair->a, .b = pair->b};
        for (int k = 0; k < 4; k++)
            terms[i].cost[k / 2][k % 2] =
                pair->cost[(size_t)options[k / 2][pair->a] * p->candidates +
                           options[k % 2][pair->b]];
    }
    const CutProblem cut = {p->groups, (const double(*)[2])unary, terms, p->pair_count};
    uint8_t *choice = ARENA_ARRAY(arena, uint8_t, p->groups);
    if (!solve_cut(&cut, arena, choice)) return false;
    for (uint32_t g = 0; g < p->groups; g++) out[g] = options[choice[g]][g];
    return true;
}

/* Offers the candidate to all groups that may have it. */
static bool offer(const SolveJoint *j, double price, uint8_t candidate, Arena *arena,
                  uint8_t *assignment) {
    const SolveProblem *p = j->problem;
    uint8_t *other = arena_copy(arena, assignment, p->groups);
    uint8_t *out = ARENA_ARRAY(arena, uint8_t, p->groups);
    for (uint32_t g = 0; g < p->groups; g++)
        if (solve_usable(p, g, candidate)) other[g] = candidate;
    if (memcmp(other, assignment, p->groups) == 0) return true;
    if (!cut_between(j, price, (const uint8_t *const[]){assignment, other}, arena, out))
        return false;
    if (priced(j, price, out) < priced(j, price, assignment)) memcpy(assignment, out, p->groups);
    return true;
}

typedef struct Pricing {
    const SolveJoint *joint;
    const uint8_t *low, *high; /* [groups]: both usable candidates; NULL where a group has more */
} Pricing;

static bool cut_at(const Pricing *pricing, double price, Arena *owner, uint8_t *out) {
    const SolveProblem *p = pricing->joint->problem;
    Arena *arena = arena_child(owner);
    bool ok = true;
    if (pricing->low) {
        const uint8_t *const options[2] = {pricing->high, pricing->low};
        ok = cut_between(pricing->joint, price, options, arena, out);
    } else {
        solve_uniform(p, 0, out);
        for (int sweep = 0; sweep < SWEEPS; sweep++)
            for (uint8_t c = 0; c < p->candidates && ok; c++)
                ok = offer(pricing->joint, price, c, arena, out);
    }
    arena_free(arena);
    return ok;
}

static Pricing prepare_pricing(const SolveJoint *j, Arena *arena) {
    const SolveProblem *p = j->problem;
    uint8_t *low = ARENA_ARRAY(arena, uint8_t, p->groups);
    uint8_t *high = ARENA_ARRAY(arena, uint8_t, p->groups);
    for (uint32_t g = 0; g < p->groups; g++) {
        int count = 0;
        low[g] = high[g] = solve_first(p, g);
        for (uint8_t c = 0; c < p->candidates; c++) {
            if (!solve_usable(p, g, c)) continue;
            low[g] = c;
            if (++count > 2) return (Pricing){.joint = j};
        }
    }
    return (Pricing){j, low, high};
}

/* The least price, as far as halving goes, at which the noise is within the bound: of what is found on
 * the way the cheapest that is. False where there is none. */
static bool solve_priced(const SolveJoint *j, double bound, Arena *arena, uint8_t *assignment) {
    const SolveProblem *p = j->problem;
    const Pricing pricing = prepare_pricing(j, arena);
    uint8_t *out = ARENA_ARRAY(arena, uint8_t, p->groups);
    double least = INFINITY, low = 0, high = INFINITY, price = 0;
    double scale = 0;
    solve_uniform(p, 0, out);
    scale = fabs(solve_joint_cost(j, out));
    for (int i = 0; i < PRICE_STEPS; i++) {
        if (!cut_at(&pricing, price, arena, out)) return false;
        const bool within = solve_noise(p, out) <= bound;
        const double cost = solve_joint_cost(j, out);
        if (within && cost < least) {
            least = cost;
            memcpy(assignment, out, p->groups);
        }
        if (within && price == 0) break;
        if (within)
            high = price;
        else
            low = price;
        if (high == INFINITY)
            price = low > 0 ? 16 * low : fmax(scale, 1e-300) / bound;
        else
            price = low > 0 ? sqrt(low) * sqrt(high) : high / 16;
        if (!isfinite(price)) break;
    }
    return least < INFINITY;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Single groups, what saves most first, as long as the bound holds. */
static void descend(const SolveJoint *j, double bound, uint8_t *assignment) {
    const SolveProblem *p = j->problem;
    for (size_t round = 0; round < (size_t)p->groups * p->candidates; round++) {
        const double noise = solve_noise(p, assignment);
        uint32_t group = 0;
        uint8_t to = assignment[0];
        double most = 0;
        for (uint32_t g = 0; g < p->groups; g++) {
            const double now = solve_joint_of(j, g, assignment[g], assignment);
            const double left = bound - noise + solve_noise_of(p, g, assignment[g]);
            for (uint8_t c = 0; c < p->candidates; c++) {
                if (c == assignment[g] || !solve_usable(p, g, c)) continue;
                if (solve_noise_of(p, g, c) > left) continue;
                const double saved = now - solve_joint_of(j, g, c, assignment);
                if (saved <= most) continue;
                group = g;
                to = c;
                most = saved;
            }
        }
        const uint8_t had = assignment[group];
        const double cost = solve_joint_cost(j, assignment);
        assignment[group] = to;
        if (solve_joint_cost(j, assignment) < cost && solve_noise(p, assignment) <= bound) continue;
        assignment[group] = had; /* nothing was found, or rounding found it */
        return;
    }
}

typedef struct Found {
    const SolveJoint *joint;
    double bound, cost, noise;
    uint8_t *best;
} Found;

/* Takes what is better than what was found. */
static void take(Found *found, uint8_t *assignment) {
    const SolveProblem *p = found->joint->problem;
    descend(found->joint, found->bound, assignment);
    const double cost = solve_joint_cost(found->joint, assignment);
    const double noise = solve_noise(p, assignment);
    if (cost > found->cost || (cost == found->cost && noise >= found->noise)) return;
    found->cost = cost;
    found->noise = noise;
    memcpy(found->best, assignment, p->groups);
}

void solve_bound(const SolveJoint *j, double bound, Arena *owner, uint8_t *assignment) {
    const SolveProblem *p = j->problem;
    solve_uniform(p, 0, assignment);
    if (p->groups == 0) return;
    Arena *arena = arena_child(owner);
    Found found = {j, bound, INFINITY, INFINITY, assignment};
    uint8_t *trial = arena_copy(arena, assignment, p->groups);
    double *costs = ARENA_ARRAY(arena, double, (size_t)p->groups * p->candidates);
    bool ok = true;
    for (int round = 0; round < (p->pair_count ? LINEAR_ROUNDS : 1) && ok; round++) {
        Arena *within = arena_child(arena);
        for (uint32_t g = 0; g < p->groups; g++)
            for (uint8_t c = 0; c < p->candidates; c++)
                costs[solve_at(p, g, c)] = solve_joint_of(j, g, c, trial);
        ok = solve_knapsack(p, bound, costs, within, trial);
        if (ok) take(&found, trial);
        arena_free(within);
    }
    if (ok && p->pair_count && solve_priced(j, bound, arena, trial)) take(&found, trial);
    arena_free(arena);
}
