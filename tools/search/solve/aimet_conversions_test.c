// SPDX-License-Identifier: Apache-2.0
/* Reduced conversions against all assignments between phase 2's and the best candidate everywhere. */
#include "test_solve.h"

#include "aimet_conversions.h"

enum { TRIALS = 1500, MOST = 9, MOST_EDGES = 14, ALPHAS = 6 };

static const double alphas[ALPHAS] = {1, .8, .6, .4, .2, 0};

typedef struct Net {
    double cost[MOST * 2], noise[MOST * 2], tables[3][4];
    SolvePair pairs[3];
    AimetEdge edges[MOST_EDGES];
    SolveProblem problem;
    AimetConversions conversions;
    uint8_t start[MOST];
} Net;

static void make_net(Net *n, uint64_t *state) {
    const uint32_t groups = 3 + random_below(state, MOST - 2);
    *n = (Net){.problem = {.groups = groups,
                           .candidates = 2,
                           .cost = n->cost,
                           .noise = n->noise,
                           .pairs = n->pairs,
                           .pair_count = random_below(state, 3)}};
    for (uint32_t g = 0; g < groups; g++) {
        n->cost[2 * g + 1] = random_below(state, 30);
        n->cost[2 * g] = n->cost[2 * g + 1] + random_below(state, 60);
        n->noise[2 * g + 1] = random_unit(state);
        n->start[g] = random_below(state, 4) > 0;
    }
    for (size_t i = 0; i < n->problem.pair_count; i++) {
        const uint32_t a = random_below(state, groups);
        n->pairs[i] = (SolvePair){a, (a + 1) % groups, n->tables[i]};
        for (int k = 0; k < 4; k++) n->tables[i][k] = random_below(state, 20);
    }
    AimetConversions *c = &n->conversions;
    *c = (AimetConversions){.edges = n->edges,
                            .edge_count = 2 + random_below(state, MOST_EDGES - 1),
                            .alphas = alphas,
                            .alpha_count = ALPHAS,
                            .price = 1,
                            .target = -2};
    for (size_t i = 0; i < c->edge_count; i++) {
        n->edges[i].a = random_below(state, groups);
        n->edges[i].b = random_below(state, groups);
        n->edges[i].weight = random_below(state, 25);
    }
}

static bool evaluate(void *user, const uint8_t *assignment, double *score, Err *err) {
    (void)err;
    *score = -solve_noise(user, assignment);
    return true;
}

/* Costs of the cheapest assignment within the limit; INFINITY where there is none. */
static double cheapest_within(const Net *n, double limit) {
    uint8_t at[MOST] = {0};
    double least = INFINITY;
    do {
        bool may = true;
        for (uint32_t g = 0; g < n->problem.groups; g++) may &= at[g] <= n->start[g];
        if (may && aimet_conversion_cost(&n->conversions, at) <= limit)
            least = fmin(least, solve_cost(&n->problem, at));
    } while (next_assignment(&n->problem, at));
    return least;
}

TEST(is_cheapest_within_each_limit) {
    uint64_t state = 21;
    size_t exact = 0, all = 0, fewer = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        static Net n;
        Err err = {0};
        SolveTrace trace;
        AimetReduced reduced[ALPHAS];
        size_t chosen;
        make_net(&n, &state);
        const SolveOracle oracle = {.evaluate = evaluate, .user = &n.problem};
        solve_trace_init(&trace, &n.problem, &oracle, &test_arena, &err);
        assert_true(solve_trace_score(&trace, n.start, &n.conversions.point));
        assert_true(aimet_reduce_conversions(&trace, &n.conversions, reduced, &chosen));
        const double had = aimet_conversion_cost(&n.conversions, n.start);
        for (int i = 1; i < ALPHAS; i++) {
            assert_true(reduced[i].limit <= had);
            assert_true(reduced[i].conversions <= reduced[i].limit);
            const double least = cheapest_within(&n, reduced[i].limit);
            assert_true(reduced[i].cost >= least - 1e-9);
            if (reduced[i].exact) assert_near(reduced[i].cost, least);
            exact += reduced[i].exact;
            fewer += reduced[i].conversions < had;
            all++;
        }
        assert_near(reduced[0].cost, solve_cost(&n.problem, n.start));
        assert_true(reduced[ALPHAS - 1].conversions == 0);
        arena_reset(&test_arena);
    }
    assert_true(exact >= all - all / 50);
    assert_true(fewer > all / 2);
}

TEST(chooses_what_was_scored_well) {
    uint64_t state = 8;
    size_t others = 0;
    for (int trial = 0; trial < 300; trial++) {
        static Net n;
        Err err = {0};
        SolveTrace trace;
        AimetReduced reduced[ALPHAS];
        size_t chosen;
        make_net(&n, &state);
        const SolveOracle oracle = {.evaluate = evaluate, .user = &n.problem};
        solve_trace_init(&trace, &n.problem, &oracle, &test_arena, &err);
        assert_true(solve_trace_score(&trace, n.start, &n.conversions.point));
        n.conversions.target = -solve_noise(&n.problem, n.start) * 0.7;
        n.conversions.price = 100;
        assert_true(aimet_reduce_conversions(&trace, &n.conversions, reduced, &chosen));
        for (int i = 0; i < ALPHAS; i++) {
            const SolvePoint *p = solve_point(&trace, reduced[i].point);
            if (p->score < n.conversions.target)
                assert_true(chosen == n.conversions.point || chosen != reduced[i].point);
        }
        others += chosen != n.conversions.point;
        arena_reset(&test_arena);
    }
    assert_true(others > 100);
}
