// SPDX-License-Identifier: Apache-2.0
/* The least cost for a bound against all assignments: exact without pairs, and for two candidates near
 * it with them, as cuts are exact for a price of noise; and against coarser sums where groups are many. */
#include "test_choose.h"

/* The least cost of all usable assignments within the bound. */
static double least_within(const SolveProblem *p, double bound) {
    double least = INFINITY;
    uint8_t assignment[NET_GROUPS] = {0};
    do {
        const double noise = solve_noise(p, assignment);
        if (isfinite(noise) && noise <= bound) least = fmin(least, solve_cost(p, assignment));
    } while (next_assignment(p, assignment));
    return least;
}

/* What is infinite, NaN, or not allowed here and there. */
static void spoil(Net *net, bool *allowed, uint64_t *state) {
    const SolveProblem *p = &net->problem;
    for (uint32_t g = 0; g < p->groups; g++) {
        for (uint8_t c = 0; c < p->candidates; c++) {
            const size_t i = solve_at(p, g, c);
            const uint32_t kind = random_below(state, 12);
            allowed[i] = c == p->candidates - 1u || kind != 0;
            if (kind == 1) net->noise[i] = INFINITY;
            if (kind == 2) net->noise[i] = NAN;
            if (kind == 3) net->noise[i] = 0;
        }
    }
    net->problem.allowed = allowed;
}

TEST(is_exact_where_costs_add_up) {
    static Net net;
    uint64_t state = 5;
    for (int trial = 0; trial < 400; trial++) {
        bool allowed[NET_GROUPS * NET_CANDIDATES];
        uint8_t assignment[NET_GROUPS];
        const uint32_t candidates = 1 + random_below(&state, 4);
        net_make(&net, &state, 2 + random_below(&state, candidates > 2 ? 5 : 9), candidates,
                 trial % 3 ? 0 : NET_EQUAL);
        spoil(&net, allowed, &state);
        const SolveProblem *p = &net.problem;
        const double bound = trial % 10 ? 0.05 * pow(random_unit(&state), 4) : INFINITY;
        choose_knapsack(p, bound, &test_arena, assignment);
        const double least = least_within(p, bound);
        for (uint32_t g = 0; g < p->groups; g++) assert_true(solve_usable(p, g, assignment[g]));
        if (least == INFINITY) {
            for (uint32_t g = 0; g < p->groups; g++)
                assert_int_equal(assignment[g], solve_first(p, g));
        } else {
            assert_true(solve_noise(p, assignment) <= bound);
            assert_near(solve_cost(p, assignment), least);
        }
        arena_reset(&test_arena);
    }
}

TEST(is_near_it_where_pairs_cost) {
    static Net net;
    uint64_t state = 6;
    for (uint32_t candidates = 2; candidates <= 3; candidates++) {
        double sum = 0, worst = 0;
        size_t exact = 0;
        for (int trial = 0; trial < 200; trial++) {
            uint8_t assignment[NET_GROUPS], cheapest[NET_GROUPS];
            net_make(&net, &state, candidates == 2 ? 9 : 6, candidates, NET_PAIRED);
            const SolveProblem *p = &net.problem;
            solve_uniform(p, (uint8_t)(candidates - 1), assignment);
            const double bound = solve_noise(p, assignment) * (0.02 + 0.9 * random_unit(&state));
            choose_knapsack(p, bound, &test_arena, assignment);
            assert_true(solve_noise(p, assignment) <= bound);
            const double ratio = solve_cost(p, assignment) / least_within(p, bound);
            assert_true(ratio >= 1 - 1e-12);
            sum += ratio;
            worst = fmax(worst, ratio);
            exact += ratio < 1 + 1e-12;
            /* nothing is to be paid for where noise is free */
            choose_knapsack(p, INFINITY, &test_arena, cheapest);
            if (candidates == 2) assert_near(solve_cost(p, cheapest), least_within(p, INFINITY));
            arena_reset(&test_arena);
        }
        print_message("%u candidates with pairs: %.4f of the least, worst %.3f, %zu of 200 exact\n",
                      candidates, sum / 200, worst, exact);
        assert_true(sum / 200 <= 1.005 && worst <= 1.25);
    }
}

/* Integer noises, which all steps of a table are for: a plain knapsack of as many groups as are never
 * enumerated. */
static double least_by_table(const SolveProblem *p, uint32_t bound) {
    static double table[2][4096];
    for (uint32_t s = 0; s <= bound; s++) table[0][s] = 0;
    for (uint32_t g = 0; g < p->groups; g++) {
        double *before = table[g % 2], *after = table[(g + 1) % 2];
        for (uint32_t s = 0; s <= bound; s++) {
            after[s] = INFINITY;
            for (uint8_t c = 0; c < p->candidates; c++) {
                const uint32_t noise = (uint32_t)p->noise[solve_at(p, g, c)];
                if (noise <= s)
                    after[s] = fmin(after[s], before[s - noise] + p->cost[solve_at(p, g, c)]);
            }
        }
    }
    return table[p->groups % 2][bound];
}

TEST(is_exact_as_a_table_is) {
    static Net net;
    uint64_t state = 7;
    for (int trial = 0; trial < 8; trial++) {
        uint8_t assignment[NET_GROUPS];
        net_make(&net, &state, 40 + random_below(&state, 200), 4, trial % 2 ? NET_FREE : 0);
        const SolveProblem *p = &net.problem;
        for (size_t i = 0; i < (size_t)p->groups * 4; i++)
            net.noise[i] = (double)(i % 4 * random_below(&state, 30));
        const uint32_t bound = 50 + random_below(&state, 3900);
        choose_knapsack(p, bound, &test_arena, assignment);
        assert_true(solve_noise(p, assignment) <= bound);
        assert_true(solve_cost(p, assignment) == least_by_table(p, bound));
        arena_reset(&test_arena);
    }
}

/* Real noises have more sums than are kept: next to nothing is lost by that. */
TEST(loses_little_where_states_are_too_many) {
    static Net net;
    uint64_t state = 8;
    for (int trial = 0; trial < 4; trial++) {
        uint8_t assignment[NET_GROUPS];
        net_make(&net, &state, NET_GROUPS, 4, 0);
        SolveProblem p = net.problem;
        solve_uniform(&p, 3, assignment);
        const double bound = solve_noise(&p, assignment) * pow(0.1, 1 + trial);
        choose_knapsack(&p, bound, &test_arena, assignment);
        assert_true(solve_noise(&p, assignment) <= bound);
        const double cost = solve_cost(&p, assignment);
        /* noises that were rounded down have a least cost that is none too high */
        static double steps[NET_GROUPS * NET_CANDIDATES];
        for (size_t i = 0; i < (size_t)p.groups * 4; i++)
            steps[i] = fmin(floor(net.noise[i] / bound * 4000), 4095);
        p.noise = steps;
        const double least = least_by_table(&p, 4000);
        print_message("a bound of 10^-%d: %.5f of what it costs at least\n", 1 + trial,
                      cost / least);
        assert_true(cost >= least && cost <= least * 1.025);
        arena_reset(&test_arena);
    }
}

TEST(weighs_second_costs) {
    static Net net;
    uint64_t state = 9;
    for (int trial = 0; trial < 50; trial++) {
        uint8_t assignment[NET_GROUPS] = {0}, each[NET_GROUPS] = {0};
        net_make(&net, &state, 8, 2, NET_SECOND | NET_PAIRED);
        const SolveJoint joint = solve_joint(&net.problem, trial % 5, &test_arena);
        assert_near(solve_joint_cost(&joint, each),
                    solve_cost(&net.problem, each) + trial % 5 * solve_second(&net.problem, each));
        double least = INFINITY;
        do {
            least = fmin(least, solve_joint_cost(&joint, each));
        } while (next_assignment(&net.problem, each));
        solve_bound(&joint, INFINITY, &test_arena, assignment);
        assert_near(solve_joint_cost(&joint, assignment), least);
        const double had = solve_joint_of(&joint, 3, 0, each) - solve_joint_of(&joint, 3, 1, each);
        const double before = solve_joint_cost(&joint, each);
        each[3] = 1;
        assert_near(before - solve_joint_cost(&joint, each), had);
        arena_reset(&test_arena);
    }
}

TEST(nothing_is_nothing) {
    uint8_t none[1] = {7};
    const SolveProblem p = {.candidates = 2};
    choose_knapsack(&p, 1, &test_arena, none);
    assert_int_equal(none[0], 7);
}
