// SPDX-License-Identifier: Apache-2.0
/* Choosing against all assignments of small problems, against AIMET's order on larger ones, and where
 * scores are worthless, equal, or few. */
#include "test_choose.h"

/* ---- against all assignments ----------------------------------------------------------------- */

typedef struct Ratio {
    double sum, worst, aimet;
    size_t count, evaluations, most;
} Ratio;

static void check_small(Net *net, double target, Ratio *ratio, Arena *arena) {
    Err err = {0};
    ChooseOutcome outcome;
    size_t asked;
    const double best = net_optimum(net, target), aimet = net_aimet(net, target, &asked, arena);
    const ChooseOptions options = net_options(net);
    SolveTrace trace = net_trace(net, 0, arena, &err);
    assert_true(choose_search(&trace, target, &options, &outcome));
    const size_t point = solve_cheapest(&trace, target);
    assert_int_equal(outcome == CHOOSE_NOTHING, point == SOLVE_NONE);
    if (point == SOLVE_NONE) {
        assert_true(net_uniform(net, target) == INFINITY);
        return;
    }
    const double cost = solve_point(&trace, point)->cost;
    assert_true(net_score(net, solve_point(&trace, point)->assignment) >= target);
    assert_true(cost <= net_uniform(net, target) && cost <= aimet && cost >= best);
    if (outcome == CHOOSE_TRIVIAL) assert_true(cost == best);
    ratio->sum += cost / best;
    ratio->aimet += aimet / best;
    ratio->worst = fmax(ratio->worst, cost / best);
    ratio->count++;
    ratio->evaluations += trace.points.count;
    if (trace.points.count > ratio->most) ratio->most = trace.points.count;
}

/* Returns the mean of costs by the optimum's. */
static double check_kind(uint32_t groups, uint32_t candidates, int flags) {
    TEST_ARENA(arena);
    static Net net;
    uint64_t state = groups * 100 + candidates * 10 + (uint32_t)flags;
    Ratio ratio = {0};
    for (int trial = 0; trial < 60; trial++) {
        net_make(&net, &state, 2 + random_below(&state, groups - 1), candidates, flags);
        if (trial % 2) net.problem.groups = groups;
        net_make(&net, &state, net.problem.groups, candidates, flags);
        check_small(&net, net_target(&net, &state), &ratio, &arena);
        arena_reset(&arena);
    }
    const double count = (double)ratio.count;
    print_message("%u groups, %u candidates, %d: %.4f of the optimum, worst %.3f, AIMET %.3f; "
                  "%.1f evaluations, at most %zu\n",
                  groups, candidates, flags, ratio.sum / count, ratio.worst, ratio.aimet / count,
                  (double)ratio.evaluations / count, ratio.most);
    assert_true(ratio.sum / count <= 1.05);
    assert_true(ratio.most <= 80);
    arena_free(&arena);
    return ratio.sum / count;
}

TEST(is_near_the_optimum) {
    const int kinds[] = {
        0,         NET_PAIRED, NET_SECOND, NET_STEPPED,           NET_STEPPED | NET_PAIRED,
        NET_EQUAL, NET_FREE,   NET_WILD,   NET_WILD | NET_PAIRED, NET_LIARS};
    const size_t count = sizeof kinds / sizeof *kinds;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += check_kind(12, 2, kinds[i]) + check_kind(8, 3, kinds[i]);
    print_message("all kinds: %.5f of the optimum\n", sum / (double)(2 * count));
    assert_true(sum / (double)(2 * count) <= 1.005);
}

/* ---- against AIMET --------------------------------------------------------------------------- */

typedef struct Sums {
    double choose, aimet; /* costs by that of the most precise */
    size_t evaluations, most, aimet_evaluations;
} Sums;

static void check_large(Net *net, double target, Sums *sums, Arena *arena) {
    Err err = {0};
    ChooseOutcome outcome;
    size_t asked;
    const uint8_t widest[NET_GROUPS] = {0};
    const double all = solve_cost(&net->problem, widest);
    const double aimet = net_aimet(net, target, &asked, arena);
    const ChooseOptions options = net_options(net);
    SolveTrace trace = net_trace(net, 0, arena, &err);
    assert_true(choose_search(&trace, target, &options, &outcome));
    const size_t point = solve_cheapest(&trace, target);
    assert_int_not_equal(point, SOLVE_NONE);
    const double cost = solve_point(&trace, point)->cost;
    assert_true(cost <= aimet && cost <= net_uniform(net, target));
    sums->choose += cost / all;
    sums->aimet += aimet / all;
    sums->evaluations += trace.points.count;
    sums->aimet_evaluations += asked;
    if (trace.points.count > sums->most) sums->most = trace.points.count;
}

TEST(is_cheaper_than_aimet) {
    static Net net;
    uint64_t state = 120;
    Sums sums = {0};
    const int kinds[] = {0, NET_PAIRED, NET_SECOND | NET_FREE, NET_STEPPED};
    for (int trial = 0; trial < 120; trial++) {
        net_make(&net, &state, 10 + random_below(&state, 31), 2 + random_below(&state, 3),
                 kinds[trial % 4]);
        check_large(&net, net_target(&net, &state), &sums, &test_arena);
        arena_reset(&test_arena);
    }
    print_message("120 nets: %.4f of the most precise one's cost, AIMET %.4f; "
                  "%.1f evaluations, at most %zu, AIMET %.1f\n",
                  sums.choose / 120, sums.aimet / 120, (double)sums.evaluations / 120, sums.most,
                  (double)sums.aimet_evaluations / 120);
    assert_true(sums.choose < sums.aimet);
    assert_true(sums.most <= 80);
}

/* What choosing comes to where nothing is halved and nothing repaired. */
static double cost_by_order(Net *net, double target, Arena *arena) {
    Err err = {0};
    ChooseOutcome outcome;
    const ChooseOptions options = {.alone = NULL};
    SolveTrace trace = net_trace(net, 0, arena, &err);
    assert_true(choose_search(&trace, target, &options, &outcome));
    return solve_point(&trace, solve_cheapest(&trace, target))->cost;
}

/* What a few lines do that know of costs. */
TEST(is_cheaper_than_a_plain_order) {
    static Net net;
    uint64_t state = 25;
    double sum = 0, reference = 0;
    size_t costlier = 0;
    for (int trial = 0; trial < 120; trial++) {
        Sums sums = {0};
        uint8_t widest[NET_GROUPS] = {0};
        net_make(&net, &state, 20 + random_below(&state, 41), 2, trial % 2 ? NET_WILD : NET_LIARS);
        const double target = net_target(&net, &state);
        check_large(&net, target, &sums, &test_arena);
        const double all = solve_cost(&net.problem, widest);
        const double order = net_reference(&net, target, 0, &test_arena);
        assert_true(sums.choose <= order / all);
        assert_true(cost_by_order(&net, target, &test_arena) <= order);
        const double plain = net_reference(&net, target, 8, &test_arena) / all;
        sum += sums.choose;
        reference += plain;
        costlier += sums.choose > plain;
        arena_reset(&test_arena);
    }
    print_message("120 nets: %.4f of the most precise one's cost, a plain order %.4f; costlier %zu "
                  "times\n",
                  sum / 120, reference / 120, costlier);
    assert_true(sum <= 0.932 * reference);
}

/* The cheapest good one of many bounds' solutions. */
static double least_of_bounds(const Net *net, double target, Arena *arena) {
    double least = INFINITY;
    uint8_t assignment[NET_GROUPS];
    for (int i = 0; i < 160; i += 8) {
        choose_knapsack(&net->problem, pow(0.95, i), arena, assignment);
        if (net_score(net, assignment) >= target)
            least = fmin(least, solve_cost(&net->problem, assignment));
    }
    return least;
}

TEST(asks_little_of_large_ones) {
    static Net net;
    uint64_t state = 300;
    const int kinds[] = {0, NET_PAIRED, NET_FREE | NET_SECOND};
    for (int trial = 0; trial < 3; trial++) {
        Sums sums = {0};
        const uint32_t groups = trial > 0 ? NET_GROUPS / 3 : NET_GROUPS;
        net_make(&net, &state, groups, 3, kinds[trial]);
        const double target = net_target(&net, &state);
        check_large(&net, target, &sums, &test_arena);
        print_message("%u groups, kind %d: %.4f, AIMET %.4f; %zu evaluations, AIMET %zu\n", groups,
                      kinds[trial], sums.choose, sums.aimet, sums.evaluations,
                      sums.aimet_evaluations);
        assert_true(sums.evaluations <= 80);
        if (kinds[trial] == 0) {
            const uint8_t widest[NET_GROUPS] = {0};
            const double least = least_of_bounds(&net, target, &test_arena);
            assert_true(sums.choose * solve_cost(&net.problem, widest) <= least);
        }
        arena_reset(&test_arena);
    }
}

/* ---- what comes out of bad scores, few evaluations, and ends ----------------------------------- */

/* Some evaluations give no number: what is chosen was scored, and is good enough. */
TEST(worthless_scores_are_never_chosen) {
    static Net net;
    const double worthless[] = {NAN, INFINITY, -INFINITY};
    for (size_t at = 1; at <= 40; at += at < 10 ? 1 : 3) {
        for (int kind = 0; kind < 6; kind++) {
            Err err = {0};
            ChooseOutcome outcome;
            uint64_t state = 41;
            net_make(&net, &state, 8, 3, kind % 2 ? NET_PAIRED : 0);
            net.worthless = worthless[kind / 2];
            net.worthless_from = at;
            net.worthless_to = kind % 2 ? at : at + 100;
            const double target = net_target(&net, &state);
            const ChooseOptions options = net_options(&net);
            SolveTrace trace = net_trace(&net, 0, &test_arena, &err);
            assert_true(choose_search(&trace, target, &options, &outcome));
            const size_t point = solve_cheapest(&trace, target);
            if (at == 1 && kind % 2 == 0) assert_int_equal(outcome, CHOOSE_NOTHING);
            if (at > 1) assert_int_not_equal(point, SOLVE_NONE);
            if (point != SOLVE_NONE) {
                assert_true(net_score(&net, solve_point(&trace, point)->assignment) >= target);
                assert_true(point + 1 < at || point >= net.worthless_to);
            }
            arena_reset(&test_arena);
        }
    }
}

/* What is not to be chosen by its noise is not even tried, though its scores were the best. */
TEST(unusable_ones_are_not_tried) {
    static Net net;
    uint64_t state = 42;
    for (int trial = 0; trial < 60; trial++) {
        Err err = {0};
        ChooseOutcome outcome;
        net_make(&net, &state, 10, 3, trial % 2 ? NET_PAIRED : 0);
        double noise[30];
        memcpy(noise, net.noise, sizeof noise);
        for (uint32_t i = 0; i < 6; i++)
            noise[3 * random_below(&state, 10) + 1 + i % 2] = i % 3 ? INFINITY : NAN;
        noise[0] = INFINITY; /* the most precise may be anything */
        net.problem.noise = noise;
        const ChooseOptions options = net_options(&net);
        SolveTrace trace = net_trace(&net, 0, &test_arena, &err);
        switch (trial % 4) {
        case 0: assert_true(choose_curve(&trace, 12)); break;
        case 1: assert_true(choose_within(&trace, 5000, 12)); break;
        default: assert_true(choose_search(&trace, net_target(&net, &state), &options, &outcome));
        }
        for (size_t i = 0; i < trace.points.count; i++)
            for (uint32_t g = 0; g < 10; g++)
                assert_true(solve_usable(&net.problem, g, solve_point(&trace, i)->assignment[g]));
        arena_reset(&test_arena);
    }
}

/* One evaluation more is never worse, and what is there is good enough. */
TEST(few_evaluations_leave_the_best_so_far) {
    static Net net;
    double before = INFINITY;
    for (size_t limit = 1; limit <= 60; limit++) {
        Err err = {0};
        ChooseOutcome outcome;
        uint64_t state = 43;
        net_make(&net, &state, 20, 3, NET_SECOND);
        const double target = net_target(&net, &state);
        const ChooseOptions options = net_options(&net);
        SolveTrace trace = net_trace(&net, limit, &test_arena, &err);
        assert_true(choose_search(&trace, target, &options, &outcome));
        assert_true(trace.spent ? trace.points.count == limit : trace.points.count <= limit);
        assert_int_equal(outcome, CHOOSE_FOUND);
        const SolvePoint *point = solve_point(&trace, solve_cheapest(&trace, target));
        assert_true(net_score(&net, point->assignment) >= target && point->cost <= before);
        before = point->cost;
        arena_reset(&test_arena);
    }
}

TEST(failures_end_it) {
    static Net net;
    for (size_t at = 1; at <= 20; at++) {
        for (int kind = 0; kind < 4; kind++) {
            Err err = {0};
            ChooseOutcome outcome;
            uint64_t state = 44;
            size_t widest, cheapest;
            net_make(&net, &state, 20, 3, 0);
            net.stops_at = at;
            const double target = net_target(&net, &state);
            const ChooseOptions options = net_options(&net);
            SolveTrace trace = net_trace(&net, 0, &test_arena, &err);
            bool ok = false;
            switch (kind) {
            case 0: ok = choose_search(&trace, target, &options, &outcome); break;
            case 1: ok = choose_curve(&trace, 30); break;
            case 2: ok = choose_within(&trace, INFINITY, 30) && net.asked < at; break;
            case 3: ok = choose_uniform(&trace, &widest, &cheapest) && at > 3; break;
            }
            assert_int_equal(ok, net.asked < at);
            if (!ok) assert_int_equal(net.asked, at);
            if (!ok) assert_string_equal(err.what, "no disk");
            arena_reset(&test_arena);
        }
    }
}

TEST(ends_are_told_apart) {
    static Net net;
    for (int kind = 0; kind < 3; kind++) {
        Err err = {0};
        ChooseOutcome outcome;
        uint64_t state = 45;
        uint8_t lowest[NET_GROUPS];
        net_make(&net, &state, 20, 3, 0);
        solve_uniform(&net.problem, 2, lowest);
        const double least = net_score(&net, lowest);
        const double targets[] = {least, 101, least + 5};
        const ChooseOutcome want[] = {CHOOSE_TRIVIAL, CHOOSE_NOTHING, CHOOSE_FOUND};
        const ChooseOptions options = net_options(&net);
        SolveTrace trace = net_trace(&net, 0, &test_arena, &err);
        assert_true(choose_search(&trace, targets[kind], &options, &outcome));
        assert_int_equal(outcome, want[kind]);
        if (kind < 2) assert_int_equal(trace.points.count, 3);
        arena_reset(&test_arena);
    }
}

static void choose_of_equal(uint32_t candidates, Arena *arena, uint8_t *chosen) {
    static Net net;
    Err err = {0};
    ChooseOutcome outcome;
    uint64_t state = 46;
    net_make(&net, &state, 30, candidates, NET_EQUAL | NET_STEPPED);
    for (size_t i = 0; i < (size_t)30 * candidates; i++) {
        net.noise[i] = (double)(i % candidates) * 1e-4;
        net.factor[i] = 1;
    }
    const ChooseOptions options = {.effort = CHOOSE_EFFORT};
    SolveTrace trace = net_trace(&net, 0, arena, &err);
    assert_true(choose_search(&trace, 27, &options, &outcome));
    assert_int_equal(outcome, candidates == 1 ? CHOOSE_TRIVIAL : CHOOSE_FOUND);
    memcpy(chosen, solve_point(&trace, solve_cheapest(&trace, 27))->assignment, 30);
}

/* Groups that are all alike have many equal points: the same one comes out each time, whatever was in
 * memory before; also without AIMET's scores, and with nothing that could be chosen. */
TEST(equal_ones_are_chosen_the_same) {
    uint8_t first[30], then[30];
    for (uint32_t candidates = 1; candidates <= 3; candidates += 2) {
        choose_of_equal(candidates, &test_arena, first);
        memset(arena_alloc(&test_arena, 1000), 0xff, 1000);
        choose_of_equal(candidates, &test_arena, then);
        assert_memory_equal(first, then, 30);
    }
}

/* Two groups of which each alone is converted for more than it saves, beside two that are too loud. */
TEST(pairs_are_changed_together) {
    static Net net;
    Err err = {0};
    ChooseOutcome outcome;
    uint64_t state = 49;
    net_make(&net, &state, 4, 2, 0);
    const double conversion[4] = {0, 80, 80, 0};
    const SolvePair pair = {0, 1, conversion};
    for (uint32_t i = 0; i < 8; i++) {
        net.cost[i] = i % 2 ? 50 : 100;
        net.noise[i] = i % 2 ? (i < 4 ? 1e-4 : 1) : 0;
        net.factor[i] = 1;
    }
    net.problem.pairs = &pair;
    net.problem.pair_count = 1;
    const ChooseOptions options = {.effort = {.repairs = 4}};
    SolveTrace trace = net_trace(&net, 0, &test_arena, &err);
    assert_true(choose_search(&trace, 30, &options, &outcome));
    const SolvePoint *point = solve_point(&trace, solve_cheapest(&trace, 30));
    assert_memory_equal(point->assignment, ((uint8_t[]){1, 1, 0, 0}), 4);
}

/* ---- the other way round, and curves ----------------------------------------------------------- */

static double best_score_within(const Net *net, double most_cost) {
    double best = -INFINITY;
    uint8_t assignment[NET_GROUPS] = {0};
    do {
        if (solve_cost(&net->problem, assignment) <= most_cost)
            best = fmax(best, net_score(net, assignment));
    } while (next_assignment(&net->problem, assignment));
    return best;
}

TEST(keeps_within_a_cost) {
    static Net net;
    uint64_t state = 47;
    double lost = 0, worst = 0;
    for (int trial = 0; trial < 120; trial++) {
        Err err = {0};
        uint8_t assignment[NET_GROUPS] = {0};
        const uint32_t candidates = 2 + random_below(&state, 2);
        net_make(&net, &state, candidates == 2 ? 11 : 7, candidates,
                 trial % 2 ? NET_PAIRED : NET_WILD);
        const double most =
            solve_cost(&net.problem, assignment) * (0.05 + 0.9 * random_unit(&state));
        const double best = best_score_within(&net, most);
        SolveTrace trace = net_trace(&net, 0, &test_arena, &err);
        assert_true(choose_within(&trace, most, 24));
        assert_true(trace.points.count <= 24 + 4);
        const size_t point = solve_highest(&trace, most);
        if (best == -INFINITY) {
            assert_int_equal(point, SOLVE_NONE);
            assert_int_equal(trace.points.count, 1);
        } else {
            assert_int_not_equal(point, SOLVE_NONE);
            for (uint8_t c = 0; c < candidates; c++) {
                solve_uniform(&net.problem, c, assignment);
                if (solve_cost(&net.problem, assignment) <= most)
                    assert_true(solve_point(&trace, point)->score >= net_score(&net, assignment));
            }
            lost += best - solve_point(&trace, point)->score;
            worst = fmax(worst, best - solve_point(&trace, point)->score);
        }
        arena_reset(&test_arena);
    }
    print_message("within a cost: %.3f dB less than the best, at most %.2f\n", lost / 120, worst);
    assert_true(lost / 120 <= 0.05);
}

TEST(curves_have_a_front) {
    static Net net;
    uint64_t state = 48;
    for (int trial = 0; trial < 8; trial++) {
        Err err = {0};
        size_t count;
        net_make(&net, &state, 40, 3, trial % 2 ? NET_SECOND : NET_PAIRED);
        SolveTrace trace = net_trace(&net, 0, &test_arena, &err);
        assert_true(choose_curve(&trace, 20));
        assert_true(trace.points.count > 12 && trace.points.count <= 24);
        const size_t *front = solve_front(&trace, &test_arena, &count);
        assert_true(count >= 8);
        for (size_t i = 0; i < count; i++) {
            const SolvePoint *point = solve_point(&trace, front[i]);
            assert_true(point->cost == solve_cost(&net.problem, point->assignment));
            assert_true(point->second == solve_second(&net.problem, point->assignment));
            assert_true(point->score == net_score(&net, point->assignment));
            for (size_t k = 0; k < trace.points.count; k++) {
                const SolvePoint *other = solve_point(&trace, k);
                assert_false(other->cost < point->cost && other->second <= point->second &&
                             other->score >= point->score);
            }
            if (i > 0) assert_true(solve_point(&trace, front[i - 1])->cost <= point->cost);
        }
        arena_reset(&test_arena);
    }
}

/* ---- noises that are not known --------------------------------------------------------------- */

enum { UNKNOWN = 64 };

typedef struct Culprits {
    bool is[UNKNOWN];
    size_t asked;
} Culprits;

static bool count_culprits(void *user, const uint8_t *assignment, double *score, Err *err) {
    Culprits *culprits = user;
    (void)err;
    *score = 0;
    culprits->asked++;
    for (uint32_t g = 0; g < UNKNOWN; g++)
        if (culprits->is[g]) *score -= assignment[g];
    return true;
}

/* A few groups bring all of the noise, which all are thought to bring: they are found, in fewer
 * evaluations than there are groups; and what fails alone is not asked again. */
TEST(all_that_can_be_is_lowered) {
    const ChooseEffort effort = {.lowering = 1000, .thorough = true};
    double cost[2 * UNKNOWN], noise[2 * UNKNOWN];
    uint64_t state = 3;
    for (uint32_t i = 0; i < 2 * UNKNOWN; i++) {
        cost[i] = i % 2 == 0;
        noise[i] = i % 2;
    }
    const SolveProblem problem = {.groups = UNKNOWN, .candidates = 2, .cost = cost, .noise = noise};
    for (uint32_t count = 0; count < 6; count++) {
        Err err = {0};
        Culprits culprits = {.asked = 0};
        const SolveOracle oracle = {.evaluate = count_culprits, .user = &culprits};
        SolveTrace trace;
        const uint8_t widest[UNKNOWN] = {0};
        size_t point;
        for (uint32_t i = 0; i < count; i++) culprits.is[random_below(&state, UNKNOWN)] = true;
        solve_trace_init(&trace, &problem, &oracle, &test_arena, &err);
        assert_true(solve_trace_score(&trace, widest, &point));
        assert_true(choose_repair(&trace, 0, &effort));
        const uint8_t *best = solve_point(&trace, solve_cheapest(&trace, 0))->assignment;
        for (uint32_t g = 0; g < UNKNOWN; g++) assert_int_equal(best[g], !culprits.is[g]);
        assert_true(culprits.asked < 12 + 9 * count);
        arena_reset(&test_arena);
    }
}

/* ---- costs that are equal -------------------------------------------------------------------- */

static bool last_is_bad(void *user, const uint8_t *assignment, double *score, Err *err) {
    (void)user;
    (void)err;
    *score = assignment[3] ? -1 : 0;
    return true;
}

/* Two groups change the second cost alone: the least first cost, which is good enough, is not the end. */
TEST(the_second_cost_is_lowered_at_the_least_first) {
    Err err = {0};
    const double cost[] = {2, 1, 2, 1, 1, 1, 1, 1}, second[] = {2, 1, 2, 1, 2, 1, 2, 1};
    const double noise[] = {0, 1, 0, 1, 0, 1, 0, 1};
    const SolveProblem problem = {
        .groups = 4, .candidates = 2, .cost = cost, .second = second, .noise = noise};
    const SolveOracle oracle = {.evaluate = last_is_bad};
    const ChooseOptions options = {.effort = CHOOSE_EFFORT};
    const uint8_t want[] = {1, 1, 1, 0};
    ChooseOutcome outcome;
    SolveTrace trace;
    solve_trace_init(&trace, &problem, &oracle, &test_arena, &err);
    assert_true(choose_search(&trace, 0, &options, &outcome));
    assert_int_equal(outcome, CHOOSE_FOUND);
    assert_memory_equal(solve_point(&trace, solve_cheapest(&trace, 0))->assignment, want, 4);
}
