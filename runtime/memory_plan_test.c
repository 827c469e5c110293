// SPDX-License-Identifier: Apache-2.0
/* The memory plan: on random lifetimes no two blocks that live together overlap, the size is that
 * of the furthest end, and is close to the bound; cases whose best is known come out best. */
#include <time.h>

#include "memory_plan.h"
#include "unit_test.h"

static uint64_t random_state;

static uint32_t random_below(uint32_t most) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % most);
}

static void check(const MemoryBlock *blocks, size_t count, uint64_t size) {
    uint64_t furthest = 0;
    for (size_t i = 0; i < count; i++) {
        const MemoryBlock *a = &blocks[i];
        assert_int_equal(a->offset % MEMORY_ALIGN, 0);
        assert_true(a->offset + a->size <= size);
        uint64_t end = a->offset + (a->size ? a->size + 63 : 64) / 64 * 64;
        if (end > furthest) furthest = end;
        for (size_t k = 0; k < i; k++) {
            const MemoryBlock *b = &blocks[k];
            if (a->last < b->first || b->last < a->first) continue;
            if (a->offset < b->offset + b->size && b->offset < a->offset + a->size)
                fail_msg("blocks %zu and %zu overlap", k, i);
        }
    }
    assert_int_equal(furthest, size);
}

/* Plans random lifetimes; the size relative to the bound. */
static double try_random(uint64_t seed) {
    enum { MOST = 120 };
    static MemoryBlock blocks[MOST];
    Arena arena;
    arena_init(&arena, &test_trap);
    random_state = seed;
    uint32_t count = 1 + random_below(MOST), steps = 1 + random_below(60);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = random_below(steps);
        uint32_t most = random_below(4) ? 4 : steps; /* most live shortly, some long */
        uint32_t left = steps - first;
        blocks[i] = (MemoryBlock){.size = random_below(random_below(2) ? 300 : 100000),
                                  .first = first,
                                  .last = first + random_below(left < most ? left : most)};
    }
    uint64_t size = memory_plan(blocks, count, &arena);
    uint64_t bound = memory_plan_bound(blocks, count, &arena);
    check(blocks, count, size);
    assert_true(size >= bound);
    arena_free(&arena);
    return (double)size / (double)bound;
}

TEST(test_random) {
    double total = 0;
    enum { TRIES = 400 };
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        double relative = try_random(seed);
        assert_true(relative < 1.5);
        total += relative;
    }
    assert_true(total / TRIES < 1.05);
}

/* Thousands that live together: too many to be placed by size. */
TEST(test_many) {
    enum { COUNT = 6000, STEPS = 9000 };
    MemoryBlock *blocks = ARENA_ARRAY(&test_arena, MemoryBlock, COUNT);
    for (uint64_t seed = 0; seed < 6; seed++) {
        random_state = seed;
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t first = random_below(STEPS - 4000);
            blocks[i] =
                (MemoryBlock){.size = seed ? random_below(random_below(2) ? 300 : 100000) : 64,
                              .first = first,
                              .last = first + random_below(random_below(2) ? 4000 : 30)};
        }
        const uint64_t size = memory_plan(blocks, COUNT, &test_arena);
        check(blocks, COUNT, size);
        assert_true((double)size < 1.4 * (double)memory_plan_bound(blocks, COUNT, &test_arena));
    }
}

static double plan_time(uint32_t count) {
    Arena arena;
    arena_init(&arena, &test_trap);
    MemoryBlock *blocks = ARENA_ARRAY(&arena, MemoryBlock, count);
    double least = 1e9;
    for (int turn = 0; turn < 5; turn++) {
        for (uint32_t i = 0; i < count;
             i++) /* all live until a half of them is there, and then end */
            blocks[i] = (MemoryBlock){.size = 64 + i % 7 * 64, .first = i, .last = 2 * count - i};
        const clock_t began = clock();
        memory_plan(blocks, count, &arena);
        const double took = (double)(clock() - began);
        if (took < least) least = took;
    }
    arena_free(&arena);
    return least;
}

TEST(test_grows_with_the_work) {
    assert_true(plan_time(120000) < 6 * (plan_time(30000) + (double)CLOCKS_PER_SEC / 1000));
}

TEST(test_known) {
    /* a chain needs two buffers, and a residual around it a third */
    MemoryBlock chain[] = {{.size = 1024, .first = 0, .last = 1},
                           {.size = 1024, .first = 1, .last = 2},
                           {.size = 1024, .first = 2, .last = 3},
                           {.size = 1024, .first = 3, .last = 4}};
    assert_int_equal(memory_plan(chain, 4, &test_arena), 2048);
    assert_int_equal(memory_plan_bound(chain, 4, &test_arena), 2048);
    MemoryBlock residual[] = {{.size = 1000, .first = 0, .last = 3},
                              {.size = 2000, .first = 1, .last = 2},
                              {.size = 2000, .first = 2, .last = 3}};
    assert_int_equal(memory_plan(residual, 3, &test_arena), 1024 + 2048 + 2048);
    /* the gap that a dead one leaves is used, the smallest that fits */
    MemoryBlock gaps[] = {{.size = 4096, .first = 0, .last = 1},
                          {.size = 2048, .first = 0, .last = 9},
                          {.size = 1024, .first = 2, .last = 3}};
    assert_int_equal(memory_plan(gaps, 3, &test_arena), 6144);
    assert_int_equal(gaps[2].offset, 0);
    assert_int_equal(memory_plan(NULL, 0, &test_arena), 0);
    assert_int_equal(memory_plan_bound(NULL, 0, &test_arena), 0);
    MemoryBlock huge[] = {{.size = UINT64_MAX - 63, .first = 0, .last = 1},
                          {.size = UINT64_MAX - 63, .first = 1, .last = 1}};
    assert_true(memory_plan(huge, 2, &test_arena) == UINT64_MAX);
}
