// SPDX-License-Identifier: Apache-2.0
/* Fewer conversions; see aimet_conversions.h. */
#include "aimet_conversions.h"

#include <math.h>
#include <stdlib.h>

#include "solve_cut.h"

enum { MOST_BRANCHES = 400, PRICE_STEPS = 40 };

enum { OPEN, KEPT, RAISED, SAME }; /* of a group: SAME where both candidates are */

typedef struct Reducing {
    const SolveProblem *problem;
    const AimetConversions *conversions;
    Arena *arena;                     /* of one call */
    const uint8_t *low;               /* [groups]: as phase 2 left them */
    uint8_t *high;                    /* [groups]: gone back */
    uint8_t *state;                   /* [groups] */
    uint8_t *found, *second, *middle; /* [groups]: of cuts */
    double limit;
    uint8_t *best; /* [groups]: the cheapest within the limit so far */
    double best_cost;
    size_t branches;
    bool exact;
} Reducing;

double aimet_conversion_cost(const AimetConversions *c, const uint8_t *assignment) {
    double sum = 0;
    for (size_t i = 0; i < c->edge_count; i++)
        if (assignment[c->edges[i].a] != assignment[c->edges[i].b]) sum += c->edges[i].weight;
    return sum;
}

/* ---- cheapest where conversions have a price ------------------------------------------------- */

typedef struct Network {
    CutProblem cut;
    double (*unary)[2];
    CutTerm *terms;
    uint32_t *number; /* [groups]: of open ones */
} Network;

static uint8_t candidate_of(const Reducing *r, uint32_t group, int raised) {
    if (r->state[group] == OPEN) return raised ? r->high[group] : r->low[group];
    return r->state[group] == RAISED ? r->high[group] : r->low[group];
}

/* What a pair costs, by the candidates of both. */
typedef struct PairCost {
    uint32_t a, b;
    const double *table; /* [candidates][candidates], or NULL: */
    double unequal;      /* where they are different */
} PairCost;

static double pair_cost(const Reducing *r, const PairCost *pair, int a, int b) {
    const uint8_t left = candidate_of(r, pair->a, a), right = candidate_of(r, pair->b, b);
    if (!pair->table) return left == right ? 0 : pair->unequal;
    return pair->table[(size_t)left * r->problem->candidates + right];
}

static void add_pair(const Reducing *r, Network *n, const PairCost *pair) {
    const bool a = r->state[pair->a] == OPEN, b = r->state[pair->b] == OPEN;
    for (int k = 0; k < 2 && a != b; k++) {
        const uint32_t open = n->number[a ? pair->a : pair->b];
        n->unary[open][k] += pair_cost(r, pair, k, k);
    }
    if (!a || !b) return;
    CutTerm *term = &n->terms[n->cut.term_count++];
    *term = (CutTerm){.a = n->number[pair->a], .b = n->number[pair->b]};
    for (int k = 0; k < 4; k++) term->cost[k / 2][k % 2] = pair_cost(r, pair, k / 2, k % 2);
}

/* Sets out[groups]; false where a cut can't express the costs. */
static bool cheapest_at(const Reducing *r, double price, uint8_t *out) {
    const SolveProblem *p = r->problem;
    const AimetConversions *c = r->conversions;
    Arena *scratch = arena_child(r->arena);
    Network n = {.number = ARENA_ARRAY(scratch, uint32_t, p->groups)};
    n.unary = arena_array(scratch, p->groups, sizeof *n.unary);
    n.terms = ARENA_ARRAY(scratch, CutTerm, p->pair_count + c->edge_count);
    for (uint32_t g = 0; g < p->groups; g++) {
        if (r->state[g] != OPEN) continue;
        n.number[g] = n.cut.count++;
        n.unary[n.number[g]][0] = p->cost[solve_at(p, g, r->low[g])];
        n.unary[n.number[g]][1] = p->cost[solve_at(p, g, r->high[g])];
    }
    for (size_t i = 0; i < p->pair_count; i++)
        add_pair(r, &n, &(PairCost){p->pairs[i].a, p->pairs[i].b, p->pairs[i].cost, 0});
    for (size_t i = 0; i < c->edge_count; i++) {
        const AimetEdge *edge = &c->edges[i];
        if (edge->a != edge->b)
            add_pair(r, &n, &(PairCost){edge->a, edge->b, NULL, price * edge->weight});
    }
    uint8_t *choice = ARENA_ARRAY(scratch, uint8_t, n.cut.count);
    n.cut.unary = (const double(*)[2])n.unary;
    n.cut.terms = n.terms;
    const bool solved = solve_cut(&n.cut, scratch, choice);
    for (uint32_t g = 0; g < p->groups && solved; g++)
        out[g] = candidate_of(r, g, r->state[g] == OPEN ? choice[n.number[g]] : 0);
    arena_free(scratch);
    return solved;
}

/* ---- branches -------------------------------------------------------------------------------- */

static double priced(const Reducing *r, double price, const uint8_t *assignment) {
    return solve_cost(r->problem, assignment) +
           price * (aimet_conversion_cost(r->conversions, assignment) - r->limit);
}

static bool keeps_to_limit(const Reducing *r, const uint8_t *assignment) {
    return aimet_conversion_cost(r->conversions, assignment) <= r->limit;
}

static void consider(Reducing *r, const uint8_t *assignment) {
    const double cost = solve_cost(r->problem, assignment);
    if (!keeps_to_limit(r, assignment) || cost >= r->best_cost) return;
    r->best_cost = cost;
    memcpy(r->best, assignment, r->problem->groups);
}

/* A price beyond which conversions are as few as they can be. */
static double highest_price(const Reducing *r) {
    const SolveProblem *p = r->problem;
    double least = INFINITY, range = 1;
    for (size_t i = 0; i < r->conversions->edge_count; i++) {
        const double weight = r->conversions->edges[i].weight;
        if (weight > 0) least = fmin(least, weight);
    }
    for (uint32_t g = 0; g < p->groups; g++)
        range += fabs(p->cost[solve_at(p, g, r->low[g])] - p->cost[solve_at(p, g, r->high[g])]);
    for (size_t i = 0; i < p->pair_count; i++)
        for (size_t k = 0; k < (size_t)p->candidates * p->candidates; k++)
            range += fabs(p->pairs[i].cost[k]);
    return isfinite(least) ? 2 * range / least : 1;
}

/* What the cheapest within the limit costs at least, as groups are now; INFINITY where nothing keeps
 * to it. r->found and r->second are the assignments on both sides of the limit then. */
static double bound_branch(Reducing *r) {
    double low = 0, high = highest_price(r);
    if (!cheapest_at(r, 0, r->second)) return -INFINITY;
    consider(r, r->second);
    double bound = priced(r, 0, r->second);
    memcpy(r->found, r->second, r->problem->groups);
    if (keeps_to_limit(r, r->second)) return bound;
    if (!cheapest_at(r, high, r->found)) return bound;
    consider(r, r->found);
    if (!keeps_to_limit(r, r->found)) return INFINITY;
    for (int step = 0; step < PRICE_STEPS && high - low > 1e-12 * high; step++) {
        /* where both ends' lines meet: no price between would tell more if it is no better there */
        const double price =
            (solve_cost(r->problem, r->found) - solve_cost(r->problem, r->second)) /
            (aimet_conversion_cost(r->conversions, r->second) -
             aimet_conversion_cost(r->conversions, r->found));
        if (!isfinite(price) || !cheapest_at(r, price, r->middle)) break;
        consider(r, r->middle);
        const double at = priced(r, price, r->middle);
        bound = fmax(bound, at);
        if (at >= priced(r, price, r->found) * (1 - 1e-12) - 1e-12) break;
        const bool keeps = keeps_to_limit(r, r->middle);
        memcpy(keeps ? r->found : r->second, r->middle, r->problem->groups);
        *(keeps ? &high : &low) = price;
    }
    return bound;
}

/* Of the groups that both sides of the limit disagree about, the one that costs most to raise. */
static size_t group_to_branch(const Reducing *r) {
    size_t group = SOLVE_NONE;
    double most = -INFINITY;
    for (int differing = 1; differing >= 0 && group == SOLVE_NONE; differing--) {
        for (uint32_t g = 0; g < r->problem->groups; g++) {
            if (r->state[g] != OPEN || (differing && r->found[g] == r->second[g])) continue;
            const double cost = r->problem->cost[solve_at(r->problem, g, r->high[g])] -
                                r->problem->cost[solve_at(r->problem, g, r->low[g])];
            if (cost > most) group = g;
            most = fmax(most, cost);
        }
    }
    return group;
}

/* Depth first, with a stack of decisions: the number of groups decided is the depth. */
static void branch(Reducing *r) {
    VEC(size_t) decided = {0};
    for (;;) {
        const double bound = bound_branch(r);
        if (++r->branches > MOST_BRANCHES) r->exact = false;
        if (r->branches > MOST_BRANCHES) return;
        const double room = 1e-9 * (1 + fabs(r->best_cost));
        const bool hopeless = bound >= r->best_cost - (isfinite(r->best_cost) ? room : 0);
        const size_t group = hopeless ? SOLVE_NONE : group_to_branch(r);
        if (group != SOLVE_NONE) {
            VEC_PUSH(r->arena, &decided, group);
            r->state[group] = KEPT;
            continue;
        }
        while (decided.count && r->state[decided.items[decided.count - 1]] == RAISED)
            r->state[decided.items[--decided.count]] = OPEN;
        if (decided.count == 0) return;
        r->state[decided.items[decided.count - 1]] = RAISED;
    }
}

/* ---- by alpha -------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double limit_of(const Reducing *r, double alpha) {
    const AimetConversions *c = r->conversions;
    const double had = aimet_conversion_cost(c, r->low);
    double *sums = ARENA_ARRAY(r->arena, double, c->edge_count);
    if (alpha >= 1) return had;
    if (alpha <= 0 || c->edge_count == 0) return 0;
    for (size_t i = 0; i < c->edge_count; i++) sums[i] = c->edges[i].weight;
    qsort(sums, c->edge_count, sizeof *sums, by_size);
    size_t last = SOLVE_NONE;
    for (size_t i = 0; i < c->edge_count; i++) {
        if (i) sums[i] += sums[i - 1];
        if (sums[i] < had) last = i;
    }
    return last == SOLVE_NONE ? 0 : sums[(size_t)(alpha * (double)last)];
}

/* The cheapest assignment within alpha's limit, into r->best; where nothing keeps to it, the one with
 * the least conversions. */
static void reduce(Reducing *r, double alpha, AimetReduced *reduced) {
    const SolveProblem *p = r->problem;
    for (uint32_t g = 0; g < p->groups; g++) r->state[g] = r->low[g] == r->high[g] ? SAME : OPEN;
    r->limit = limit_of(r, alpha);
    r->best_cost = INFINITY;
    r->branches = 0;
    r->exact = true;
    memcpy(r->best, r->low, p->groups);
    if (alpha < 1) {
        consider(r, r->low);
        consider(r, r->high);
        branch(r);
    }
    if (alpha < 1 && !isfinite(r->best_cost)) {
        r->exact = false;
        memcpy(r->best, r->high, p->groups);
    }
    *reduced = (AimetReduced){alpha,
                              r->limit,
                              aimet_conversion_cost(r->conversions, r->best),
                              solve_cost(p, r->best),
                              SOLVE_NONE,
                              r->exact};
}

bool aimet_reduce_conversions(SolveTrace *trace, const AimetConversions *c, AimetReduced *reduced,
                              size_t *chosen) {
    const SolveProblem *p = trace->problem;
    Arena *arena = arena_child(trace->arena);
    Reducing r = {.problem = p, .conversions = c, .arena = arena};
    uint8_t **const own[] = {&r.high, &r.state, &r.found, &r.second, &r.middle, &r.best};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        *own[i] = ARENA_ARRAY(arena, uint8_t, p->groups);
    r.low = solve_point(trace, c->point)->assignment;
    solve_uniform(p, c->best, r.high);
    *chosen = c->point;
    double least = solve_point(trace, c->point)->cost + c->price * aimet_conversion_cost(c, r.low);
    bool ok = true;
    for (size_t i = 0; i < c->alpha_count; i++) {
        reduce(&r, c->alphas[i], &reduced[i]);
        if (!ok || !solve_trace_score(trace, r.best, &reduced[i].point)) {
            ok = false;
            continue;
        }
        const double both = reduced[i].cost + c->price * reduced[i].conversions;
        if (solve_value(trace, reduced[i].point) < c->target || both >= least) continue;
        least = both;
        *chosen = reduced[i].point;
    }
    arena_free(arena);
    return ok;
}
