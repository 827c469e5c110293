// SPDX-License-Identifier: Apache-2.0
/* Minimum cuts against all 2^n choices: terms that draw together, apart, and both. */
#include "test_solve.h"

#include "solve_cut.h"

enum { TRIALS = 3000, MOST = 10, MOST_TERMS = 16 };

typedef struct Random {
    CutProblem problem;
    double unary[MOST][2];
    CutTerm terms[MOST_TERMS];
} Random;

/* `side` says which terms draw apart: those between different sides; NULL: any may. */
static void make_random(Random *r, uint64_t *state, const uint8_t *side) {
    const uint32_t count = 2 + random_below(state, MOST - 1);
    const size_t term_count = random_below(state, MOST_TERMS + 1);
    for (uint32_t i = 0; i < count; i++)
        for (int k = 0; k < 2; k++) r->unary[i][k] = (double)random_below(state, 40);
    for (size_t i = 0; i < term_count; i++) {
        CutTerm *t = &r->terms[i];
        t->a = random_below(state, count);
        t->b = (t->a + 1 + random_below(state, count - 1)) % count;
        for (int k = 0; k < 4; k++) t->cost[k / 2][k % 2] = (double)random_below(state, 20);
        if (!side) continue;
        /* the diagonal against the rest: less where the sides are the same, more where not */
        const double had = t->cost[0][0] + t->cost[1][1] - t->cost[0][1] - t->cost[1][0];
        const bool apart = side[t->a] != side[t->b];
        if (apart != (had > 0)) t->cost[0][0] -= had * (1 + random_unit(state));
    }
    r->problem = (CutProblem){count, (const double(*)[2])r->unary, r->terms, term_count};
}

static double cost_of(const CutProblem *p, const uint8_t *choice) {
    double sum = 0;
    for (uint32_t i = 0; i < p->count; i++) sum += p->unary[i][choice[i]];
    for (size_t i = 0; i < p->term_count; i++)
        sum += p->terms[i].cost[choice[p->terms[i].a]][choice[p->terms[i].b]];
    return sum;
}

static double least_of(const CutProblem *p) {
    double least = INFINITY;
    for (uint32_t bits = 0; bits < UINT32_C(1) << p->count; bits++) {
        uint8_t choice[MOST];
        for (uint32_t i = 0; i < p->count; i++) choice[i] = bits >> i & 1;
        least = fmin(least, cost_of(p, choice));
    }
    return least;
}

TEST(is_least_where_it_can_be_cut) {
    uint64_t state = 11;
    for (int trial = 0; trial < TRIALS; trial++) {
        static Random r;
        uint8_t side[MOST], choice[MOST];
        for (int i = 0; i < MOST; i++) side[i] = (uint8_t)random_below(&state, 2);
        make_random(&r, &state, side);
        assert_true(solve_cut(&r.problem, &test_arena, choice));
        assert_near(cost_of(&r.problem, choice), least_of(&r.problem));
        arena_reset(&test_arena);
    }
}

TEST(refuses_or_is_least) {
    uint64_t state = 5;
    int solved = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        static Random r;
        uint8_t choice[MOST];
        make_random(&r, &state, NULL);
        if (!solve_cut(&r.problem, &test_arena, choice)) continue;
        solved++;
        assert_near(cost_of(&r.problem, choice), least_of(&r.problem));
        arena_reset(&test_arena);
    }
    assert_in_range(solved, TRIALS / 20, TRIALS - TRIALS / 20);
}

/* Three that each want to differ from both others. */
TEST(refuses_odd_rings) {
    const double unary[3][2] = {{0, 0}, {0, 0}, {0, 0}};
    const CutTerm ring[3] = {
        {0, 1, {{1, 0}, {0, 1}}}, {1, 2, {{1, 0}, {0, 1}}}, {2, 0, {{1, 0}, {0, 1}}}};
    uint8_t choice[3];
    assert_false(solve_cut(&(CutProblem){3, unary, ring, 3}, &test_arena, choice));
    assert_true(solve_cut(&(CutProblem){3, unary, ring, 2}, &test_arena, choice));
    assert_true(choice[0] != choice[1] && choice[1] != choice[2]);
}
