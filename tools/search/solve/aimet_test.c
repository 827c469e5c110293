// SPDX-License-Identifier: Apache-2.0
/* AIMET's searches with the places they ask for, its order with all ties, and each of its ends. */
#include "test_solve.h"

#include "aimet.h"

/* ---- searches -------------------------------------------------------------------------------- */

typedef struct Asked {
    const double *scores;
    size_t places[16], count;
} Asked;

static bool value_of(void *user, size_t place, double *value) {
    Asked *asked = user;
    assert_true(asked->count < 16);
    asked->places[asked->count++] = place;
    *value = asked->scores[place];
    return true;
}

typedef struct Trace {
    AimetSearch search;
    double target;
    size_t result, count, places[8];
} Trace;

static void check_trace(const double *scores, bool rising, const Trace *want) {
    TEST_ARENA(arena);
    Asked asked = {.scores = scores};
    const AimetValues values = {.count = 8, .rising = rising, .value = value_of, .user = &asked};
    size_t place = SOLVE_NONE;
    assert_true(aimet_search(want->search, &values, want->target, &arena, &place));
    assert_int_equal(place, want->result);
    assert_int_equal(asked.count, want->count);
    assert_memory_equal(asked.places, want->places, want->count * sizeof *want->places);
    arena_free(&arena);
}

TEST(asks_as_aimet_does) {
    const double falling[8] = {.9, .89, .88, .86, .85, .80, .7, .5};
    const Trace traces[] = {
        {AIMET_BINARY, .855, 3, 5, {7, 0, 4, 2, 3}},
        {AIMET_INTERPOLATION, .855, 3, 6, {7, 0, 1, 2, 3, 4}},
        {AIMET_BRUTE_FORCE, .855, 3, 5, {0, 1, 2, 3, 4}},
        {AIMET_BINARY, .4, 7, 1, {7}},
        {AIMET_BINARY, .95, 0, 2, {7, 0}},
        {AIMET_INTERPOLATION, .5, 7, 1, {7}},
        {AIMET_BRUTE_FORCE, .95, 0, 1, {0}},
        {AIMET_BRUTE_FORCE, .4, 7, 8, {0, 1, 2, 3, 4, 5, 6, 7}},
        {AIMET_BINARY, .85, 4, 3, {7, 0, 4}},
        {AIMET_BRUTE_FORCE, .89, 1, 2, {0, 1}},
    };
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        check_trace(falling, false, &traces[i]);
    const double rising[8] = {.5, .7, .80, .85, .86, .88, .89, .9};
    const Trace back[] = {
        {AIMET_BINARY, .855, 4, 5, {0, 7, 3, 5, 4}},
        {AIMET_BRUTE_FORCE, .855, 4, 5, {0, 1, 2, 3, 4}},
        {AIMET_BRUTE_FORCE, .95, 7, 8, {0, 1, 2, 3, 4, 5, 6, 7}},
        {AIMET_BINARY, .95, 7, 2, {0, 7}},
    };
    for (size_t i = 0; i < sizeof back / sizeof *back; i++) check_trace(rising, true, &back[i]);
}

TEST(finds_what_aimet_finds_where_scores_rise_again) {
    const double scores[8] = {.90, .88, .84, .87, .86, .855, .852, .70};
    const size_t want[3] = {6, 1, 1};
    for (int search = 0; search < 3; search++) {
        Asked asked = {.scores = scores};
        const AimetValues values = {.count = 8, .value = value_of, .user = &asked};
        size_t place;
        assert_true(aimet_search((AimetSearch)search, &values, .85, &test_arena, &place));
        assert_int_equal(place, want[search]);
    }
}

TEST(interpolates_where_ends_are_infinite) {
    const double scores[8] = {.9, .89, .88, .86, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    check_trace(scores, false, &(Trace){AIMET_INTERPOLATION, .87, 2, 5, {7, 0, 4, 2, 3}});
}

/* ---- the whole ------------------------------------------------------------------------------- */

enum { GROUPS = 4, CANDIDATES = 3 };

/* Candidates cost 16, 12 and 8 of a group's weight; scores fall by what candidates are given. */
typedef struct Model {
    double cost[GROUPS * CANDIDATES], noise[GROUPS * CANDIDATES], alone[GROUPS * CANDIDATES];
    double bits[GROUPS * CANDIDATES];
    SolveProblem problem;
    size_t asked, worthless; /* the evaluation from 1 on that gives no number; 0: none */
    double worthless_score;
    size_t fails; /* the one that fails */
} Model;

static void make_model(Model *m, uint64_t *state) {
    *m = (Model){.problem = {.groups = GROUPS, .candidates = CANDIDATES}};
    for (int g = 0; g < GROUPS; g++) {
        const double weight = 1 + random_below(state, 5);
        for (int c = 0; c < CANDIDATES; c++) {
            const int i = g * CANDIDATES + c;
            m->cost[i] = weight * (16 - 4 * c);
            m->bits[i] = 32 - 8 * c;
            m->noise[i] = (double)random_below(state, 6) * c * 0.01;
            m->alone[i] = 1 - m->noise[i];
        }
    }
    m->problem.cost = m->cost;
    m->problem.noise = m->noise;
}

static bool evaluate(void *user, const uint8_t *assignment, double *score, Err *err) {
    Model *m = user;
    if (++m->asked == m->fails) return err_set(err, ERR_ENV, "no disk");
    *score = 1 - solve_noise(&m->problem, assignment);
    if (m->asked == m->worthless) *score = m->worthless_score;
    return true;
}

static AimetOptions options_of(const Model *m, double drop, AimetSearch search, bool reverse) {
    return (AimetOptions){m->alone, m->bits, 1, drop, search, reverse};
}

static SolveTrace trace_of(Model *m, size_t limit, Arena *arena, Err *err) {
    SolveTrace trace;
    const SolveOracle oracle = {.evaluate = evaluate, .user = m, .limit = limit};
    m->asked = 0;
    assert_true(solve_problem_check(&m->problem, err));
    solve_trace_init(&trace, &m->problem, &oracle, arena, err);
    return trace;
}

TEST(list_is_in_aimets_order) {
    uint64_t state = 1;
    static Model m;
    make_model(&m, &state);
    const double alone[] = {9, .8, .8, 9, .8, .8, 9, .9, NAN, 9, .8, .95};
    const double bits[] = {32, 24, 16, 32, 24, 16, 32, 24, 16, 32, 16, 24};
    const double cost[] = {64, 48, 32, 64, 40, 32, 64, 48, 32, 64, 48, 32};
    memcpy(m.alone, alone, sizeof alone);
    memcpy(m.bits, bits, sizeof bits);
    memcpy(m.cost, cost, sizeof cost);
    const AimetOptions forward = options_of(&m, 0, AIMET_BINARY, false);
    const AimetWalk walk = aimet_walk(&m.problem, &forward, 0, 2, &test_arena);
    /* scores; then bits; then the reduction; then groups */
    const uint32_t groups[8] = {3, 2, 1, 0, 0, 1, 3, 2};
    const uint8_t candidates[8] = {2, 1, 1, 1, 2, 2, 1, 2};
    assert_int_equal(walk.count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(walk.entries[i].group, groups[i]);
        assert_int_equal(walk.entries[i].candidate, candidates[i]);
    }
    const AimetOptions backward = options_of(&m, 0, AIMET_BINARY, true);
    const AimetWalk back = aimet_walk(&m.problem, &backward, 0, 2, &test_arena);
    const uint8_t next[8] = {1, 2, 1, 1, 0, 0, 0, 0};
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(back.entries[i].group, groups[7 - i]);
        assert_int_equal(back.entries[i].candidate, next[i]);
        assert_int_equal(back.start[i % GROUPS], 2);
    }
}

/* Each place by plain application of the list, and the rule of the result. */
static void check_result(const Model *m, const SolveTrace *t, const AimetOptions *o,
                         const AimetResult *r) {
    const double target = o->float_score - o->drop;
    if (r->exit == AIMET_ENDED) return;
    const SolvePoint *point = solve_point(t, r->point);
    assert_near(point->cost, solve_cost(&m->problem, point->assignment));
    const double rounding = 1e-12; /* AIMET compares drops, not scores */
    switch (r->exit) {
    case AIMET_FOUND: assert_true(point->score >= target); break;
    case AIMET_LOWEST_MEETS: assert_true(point->score >= target - rounding); break;
    case AIMET_BEST_MISSES: assert_false(point->score >= target + rounding); break;
    case AIMET_NO_PLACE:
    case AIMET_NOTHING_TO_DO: assert_int_equal(point->assignment[0], r->best); break;
    case AIMET_CURVE:
    case AIMET_ENDED: break;
    }
    for (size_t i = 0; i < r->tried_count; i++) {
        uint8_t assignment[GROUPS];
        aimet_walk_to(&r->walk, r->tried[i].place, assignment);
        assert_near(r->tried[i].relative * solve_cost(&m->problem, r->walk.start),
                    solve_cost(&m->problem, assignment));
        assert_int_equal(assignment[r->tried[i].group], r->tried[i].candidate);
    }
}

TEST(every_end_is_told) {
    uint64_t state = 3;
    size_t ends[7] = {0};
    for (int trial = 0; trial < 4000; trial++) {
        static Model m;
        Err err = {0};
        make_model(&m, &state);
        if (trial % 5 == 0) m.worthless = 1 + random_below(&state, 8);
        m.worthless_score = trial % 2 ? NAN : INFINITY;
        if (trial % 7 == 0) m.problem.candidates = 1;
        const size_t limit = trial % 11 == 0 ? 1 + random_below(&state, 8) : 0;
        const AimetOptions o = options_of(&m, (random_below(&state, 40) - 2.0) * 0.01,
                                          (AimetSearch)random_below(&state, 3), trial % 3 == 0);
        SolveTrace trace = trace_of(&m, limit, &test_arena, &err);
        AimetResult result;
        assert_true(aimet_choose(&trace, &o, &result));
        check_result(&m, &trace, &o, &result);
        assert_int_equal(m.asked, trace.points.count);
        assert_true(!limit || m.asked <= limit);
        ends[result.exit]++;
        arena_reset(&test_arena);
    }
    const AimetExit all[] = {AIMET_FOUND,    AIMET_BEST_MISSES,   AIMET_LOWEST_MEETS,
                             AIMET_NO_PLACE, AIMET_NOTHING_TO_DO, AIMET_ENDED};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) assert_true(ends[all[i]] > 0);
}

TEST(whole_curve_has_every_place) {
    uint64_t state = 9;
    static Model m;
    Err err = {0};
    make_model(&m, &state);
    const AimetOptions o = options_of(&m, NAN, AIMET_BINARY, false);
    SolveTrace trace = trace_of(&m, 0, &test_arena, &err);
    AimetResult result;
    assert_true(aimet_choose(&trace, &o, &result));
    assert_int_equal(result.exit, AIMET_CURVE);
    assert_int_equal(result.tried_count, GROUPS * (CANDIDATES - 1));
    for (size_t i = 0; i < result.tried_count; i++) assert_int_equal(result.tried[i].place, i);
}

/* A group that may not have the best candidate keeps its own first one, and both of its candidates are
 * in the list. */
TEST(groups_have_what_they_may) {
    uint64_t state = 4;
    static Model m;
    Err err = {0};
    make_model(&m, &state);
    bool allowed[GROUPS * CANDIDATES];
    for (int i = 0; i < GROUPS * CANDIDATES; i++) allowed[i] = i != 3;
    m.problem.allowed = allowed;
    const AimetOptions o = options_of(&m, NAN, AIMET_BINARY, true);
    SolveTrace trace = trace_of(&m, 0, &test_arena, &err);
    AimetResult result;
    assert_true(aimet_choose(&trace, &o, &result));
    assert_int_equal(result.tried_count, GROUPS * (CANDIDATES - 1));
    for (size_t i = 0; i < trace.points.count; i++)
        assert_int_not_equal(trace.points.items[i].assignment[1], 0);
}

TEST(failures_end_it) {
    for (size_t fails = 1; fails < 6; fails++) {
        uint64_t state = 3;
        static Model m;
        Err err = {0};
        make_model(&m, &state);
        m.fails = fails;
        const AimetOptions o = options_of(&m, .05, AIMET_BRUTE_FORCE, false);
        SolveTrace trace = trace_of(&m, 0, &test_arena, &err);
        AimetResult result;
        assert_false(aimet_choose(&trace, &o, &result));
        assert_int_equal(result.exit, AIMET_ENDED);
        assert_string_equal(err.what, "no disk");
        arena_reset(&test_arena);
    }
}
