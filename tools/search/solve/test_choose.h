// SPDX-License-Identifier: Apache-2.0
/* Random problems whose scores are not what their noises sum up to, for the tests of choosing. */
#ifndef DEMI_TEST_CHOOSE_H
#define DEMI_TEST_CHOOSE_H

#include <stdlib.h>

#include "aimet.h"
#include "choose.h"
#include "solve_bound.h"
#include "test_solve.h"

enum { NET_GROUPS = 300, NET_CANDIDATES = 4, NET_PAIRS = 400 };

enum {
    NET_PAIRED = 1,
    NET_SECOND = 2,
    NET_STEPPED = 4,
    NET_EQUAL = 8,
    NET_FREE = 16,
    NET_WILD = 32,
    NET_LIARS = 64
};

/* A group's noise is multiplied by what its partner's candidate does to it. */
typedef struct Net {
    SolveProblem problem;
    double cost[NET_GROUPS * NET_CANDIDATES], noise[NET_GROUPS * NET_CANDIDATES];
    double second[NET_GROUPS * NET_CANDIDATES];
    double alone[NET_GROUPS * NET_CANDIDATES], bits[NET_GROUPS * NET_CANDIDATES];
    double factor[NET_GROUPS * NET_CANDIDATES];
    uint32_t partner[NET_GROUPS];
    SolvePair pairs[NET_PAIRS];
    double tables[NET_PAIRS][NET_CANDIDATES * NET_CANDIDATES];
    bool stepped;                        /* scores are multiples of 3 */
    size_t asked, stops_at;              /* the evaluation that fails; 0: none */
    size_t worthless_from, worthless_to; /* evaluations that give no number */
    double worthless;
} Net;

static inline double net_score(const Net *net, const uint8_t *assignment) {
    const SolveProblem *p = &net->problem;
    double sum = 1e-10;
    for (uint32_t g = 0; g < p->groups; g++)
        sum += net->noise[solve_at(p, g, assignment[g])] *
               net->factor[solve_at(p, g, assignment[net->partner[g]])];
    const double score = -10 * log10(sum);
    return net->stepped ? 3 * floor(score / 3) : score;
}

static inline bool net_evaluate(void *user, const uint8_t *assignment, double *score, Err *err) {
    Net *net = user;
    if (++net->asked == net->stops_at) return err_set(err, ERR_ENV, "no disk");
    *score = net_score(net, assignment);
    if (net->asked >= net->worthless_from && net->asked <= net->worthless_to)
        *score = net->worthless;
    return true;
}

static inline void net_groups(Net *net, uint64_t *state, int flags) {
    const SolveProblem *p = &net->problem;
    for (uint32_t g = 0; g < p->groups; g++) {
        const bool free = (flags & NET_FREE) && g > 0 && random_below(state, 3) > 0;
        const double weight = flags & NET_EQUAL ? 1 : free ? 0 : pow(30, random_unit(state));
        const double loud = 1e-3 * pow(300, random_unit(state)) / p->groups;
        const bool liar = (flags & NET_LIARS) && g % 5 == 0; /* is noisier than it says */
        net->partner[g] = liar ? g : random_below(state, p->groups);
        for (uint8_t c = 0; c < p->candidates; c++) {
            const size_t i = solve_at(p, g, c);
            const int bits = 32 >> c;
            net->cost[i] = floor(weight * bits * bits);
            net->second[i] = (1 + random_below(state, 4)) * (double)bits;
            net->noise[i] = c == 0 ? 0 : loud * pow(20, c) * (0.5 + random_unit(state)) / 400;
            const double unit = random_unit(state);
            net->factor[i] = flags & NET_WILD ? pow(10, 1.4 * unit - 0.7) : 0.7 + 0.7 * unit;
            if (liar) net->factor[i] = 40;
            if (c == 0) net->factor[i] = 1;
            net->bits[i] = 2 * bits;
        }
    }
}

/* Products of two groups, or conversions between them. */
static inline void net_pairs(Net *net, uint64_t *state) {
    SolveProblem *p = &net->problem;
    p->pair_count = p->groups < NET_PAIRS ? p->groups : NET_PAIRS;
    for (size_t i = 0; i < p->pair_count; i++) {
        const uint32_t a = (uint32_t)i % p->groups;
        const bool product = random_below(state, 2);
        const double weight = floor(pow(30, random_unit(state)));
        net->pairs[i] = (SolvePair){a, (a + 1) % p->groups, net->tables[i]};
        for (uint32_t k = 0; k < p->candidates * p->candidates; k++) {
            const uint32_t x = k / p->candidates, y = k % p->candidates;
            net->tables[i][k] = product ? weight * (32 >> x) * (32 >> y) : x != y ? 64 * weight : 0;
        }
    }
    p->pairs = net->pairs;
}

static inline void net_make(Net *net, uint64_t *state, uint32_t groups, uint32_t candidates,
                            int flags) {
    memset(net, 0, sizeof *net);
    SolveProblem *p = &net->problem;
    *p = (SolveProblem){.groups = groups,
                        .candidates = candidates,
                        .noise = net->noise,
                        .cost = net->cost,
                        .second = flags & NET_SECOND ? net->second : NULL};
    net_groups(net, state, flags);
    if (flags & NET_PAIRED) net_pairs(net, state);
    net->stepped = flags & NET_STEPPED;
    uint8_t assignment[NET_GROUPS] = {0};
    for (uint32_t g = 0; g < groups; g++) {
        for (uint8_t c = 0; c < candidates; c++) {
            assignment[g] = c;
            net->alone[solve_at(p, g, c)] = net_score(net, assignment);
        }
        assignment[g] = 0;
    }
}

/* A target somewhere between those of all cheapest and of all most precise. */
static inline double net_target(const Net *net, uint64_t *state) {
    uint8_t assignment[NET_GROUPS];
    solve_uniform(&net->problem, (uint8_t)(net->problem.candidates - 1), assignment);
    return net_score(net, assignment) + 0.5 + 15 * random_unit(state);
}

static inline SolveTrace net_trace(Net *net, size_t limit, Arena *arena, Err *err) {
    SolveTrace trace;
    const SolveOracle oracle = {.evaluate = net_evaluate, .user = net, .limit = limit};
    net->asked = 0;
    assert_true(solve_problem_check(&net->problem, err));
    solve_trace_init(&trace, &net->problem, &oracle, arena, err);
    return trace;
}

static inline ChooseOptions net_options(const Net *net) {
    return (ChooseOptions){CHOOSE_EFFORT, net->alone, net->bits};
}

/* What AIMET's own algorithm comes to; infinite where that is not good enough. */
static inline double net_aimet(Net *net, double target, size_t *evaluations, Arena *arena) {
    Err err = {0};
    AimetResult result;
    const AimetOptions options = {
        .alone = net->alone, .bits = net->bits, .float_score = target, .search = AIMET_BINARY};
    SolveTrace trace = net_trace(net, 0, arena, &err);
    assert_true(aimet_choose(&trace, &options, &result));
    *evaluations = trace.points.count;
    const SolvePoint *point = solve_point(&trace, result.point);
    return point->score >= target ? point->cost : INFINITY;
}

typedef struct NetGain {
    uint32_t group;
    double noise;
} NetGain;

static inline int net_by_gain(const void *a, const void *b) {
    const NetGain *left = a, *right = b;
    if (left->noise != right->noise) return left->noise < right->noise ? -1 : 1;
    return left->group < right->group ? -1 : 1;
}

typedef struct NetOrder {
    const Net *net;
    NetGain gains[NET_GROUPS];
    size_t count;
} NetOrder;

static inline void net_lower(const NetOrder *order, size_t place, uint8_t *assignment) {
    for (size_t i = 0; i < order->count; i++) assignment[order->gains[i].group] = i <= place;
}

static inline bool net_value(void *user, size_t place, double *value) {
    const NetOrder *order = user;
    uint8_t assignment[NET_GROUPS] = {0};
    net_lower(order, place, assignment);
    *value = net_score(order->net, assignment);
    return true;
}

/* Of two candidates a group: those that save something in the order of their noise per cost saved, the
 * last good place found by halving, and so many groups more one by one. */
static inline double net_reference(const Net *net, double target, size_t more, Arena *arena) {
    const SolveProblem *p = &net->problem;
    static NetOrder order;
    uint8_t assignment[NET_GROUPS] = {0};
    order = (NetOrder){.net = net};
    for (uint32_t g = 0; g < p->groups; g++) {
        const double saved = net->cost[2 * g] - net->cost[2 * g + 1];
        if (saved > 0) order.gains[order.count++] = (NetGain){g, net->noise[2 * g + 1] / saved};
    }
    qsort(order.gains, order.count, sizeof *order.gains, net_by_gain);
    const AimetValues values = {.count = order.count, .value = net_value, .user = &order};
    size_t place;
    assert_true(aimet_search(AIMET_BINARY, &values, target, arena, &place));
    net_lower(&order, place, assignment);
    if (net_score(net, assignment) < target) memset(assignment, 0, sizeof assignment);
    for (size_t i = place + 1; i < order.count && i <= place + more; i++) {
        assignment[order.gains[i].group] = 1;
        assignment[order.gains[i].group] = net_score(net, assignment) >= target;
    }
    return solve_cost(p, assignment);
}

/* The cheapest candidate everywhere that is good enough; infinite where none is. */
static inline double net_uniform(const Net *net, double target) {
    double least = INFINITY;
    uint8_t assignment[NET_GROUPS];
    for (uint8_t c = 0; c < net->problem.candidates; c++) {
        solve_uniform(&net->problem, c, assignment);
        if (net_score(net, assignment) >= target)
            least = fmin(least, solve_cost(&net->problem, assignment));
    }
    return least;
}

/* The least cost of all assignments; infinite where none is good enough. */
static inline double net_optimum(const Net *net, double target) {
    double least = INFINITY;
    uint8_t assignment[NET_GROUPS] = {0};
    do {
        const double cost = solve_cost(&net->problem, assignment);
        if (cost < least && net_score(net, assignment) >= target) least = cost;
    } while (next_assignment(&net->problem, assignment));
    return least;
}

#endif
