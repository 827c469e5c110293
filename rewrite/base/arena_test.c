// SPDX-License-Identifier: Apache-2.0
/* The arena, with the vectors and checked sizes that rest on it: contents, order of the deferred
 * calls, and every way to run out of memory. */
#include <string.h>

#include "arena.h"
#include "checked.h"
#include "unit_test.h"
#include "vec.h"

static bool is_zero(const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (((const char *)bytes)[i]) return false;
    return true;
}

TEST(test_memory_is_zeroed_aligned_and_apart) {
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    enum { COUNT = 3000 };
    static unsigned char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i * 7 % 300 + (i % 500 == 0 ? 700000 : 0);
        blocks[i] = arena_alloc(&arena, size);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 8, 0);
        assert_true(is_zero(blocks[i], size));
        memset(blocks[i], (int)(i % 255 + 1), size);
    }
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i * 7 % 300 + (i % 500 == 0 ? 700000 : 0);
        for (size_t k = 0; k < size; k++) assert_int_equal(blocks[i][k], i % 255 + 1);
    }
    assert_ptr_not_equal(arena_alloc(&arena, 0), arena_alloc(&arena, 0));
    arena_free(&arena);
    assert_true(arena.used == 0);
    assert_non_null(arena_alloc(&arena, 10)); /* usable again */
    arena_free(&arena);
    arena_free(&arena);
}

TEST(test_reset_gives_zeroed_memory) {
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    for (size_t round = 0; round < 200; round++) {
        for (size_t i = 0; i < round; i++) {
            size_t size = i * round % 3000 + (i == 50 ? 400000 : 0);
            unsigned char *block = arena_alloc(&arena, size);
            assert_true(is_zero(block, size));
            memset(block, 255, size);
        }
        arena_reset(&arena);
        assert_true(arena.used <= 1 << 18);
        assert_true(arena.large == NULL);
    }
    arena_free(&arena);
    assert_true(arena.used == 0);
    arena_reset(&arena);
}

/* Large blocks between small ones cost their own size, not a new chunk of small ones each. */
TEST(test_large_blocks_waste_nothing) {
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    for (int i = 0; i < 10; i++) {
        arena_alloc(&arena, 2000000);
        arena_alloc(&arena, 100);
    }
    assert_in_range(arena.used, 20000000, 20010000);
    arena_free(&arena);
}

/* What is outgrown does not count any longer, wherever it lies among the large blocks. */
TEST(test_large_blocks_end_early) {
    enum { LARGE = 1 << 20 };
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    char *blocks[3];
    for (int i = 0; i < 3; i++) memset(blocks[i] = arena_alloc(&arena, LARGE), 'a' + i, LARGE);
    arena_release(&arena, blocks[1], LARGE);
    assert_true(arena.used == 2 * LARGE);
    char *resized = arena_resize(&arena, blocks[0], LARGE, 3 * LARGE);
    assert_true(arena.used == 4 * LARGE);
    assert_true(resized[0] == 'a' && resized[LARGE - 1] == 'a' && blocks[2][5] == 'c');
    arena_release(&arena, blocks[2], LARGE);
    arena_release(&arena, resized, 3 * LARGE);
    assert_true(arena.used == 0);
    arena_release(&arena, arena_alloc(&arena, 10), 10); /* small: nothing happens */
    arena_release(&arena, NULL, 0);
    arena_free(&arena);
}

/* From nothing over small to large, and back. */
TEST(test_resize_keeps_contents) {
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    const size_t sizes[] = {5, 100, 1 << 19, 1 << 21, 50};
    size_t held = 0;
    char *bytes = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bytes = arena_resize(&arena, bytes, held, sizes[i]);
        for (size_t k = 0; k < (held < sizes[i] ? held : sizes[i]); k++)
            assert_int_equal(bytes[k], (char)(k % 100));
        held = sizes[i];
        for (size_t k = 0; k < held; k++) bytes[k] = (char)(k % 100);
    }
    assert_true(arena.used < 10000); /* only small blocks are left */
    arena_free(&arena);
}

TEST(test_resize_runs_out_of_memory) {
    enum { LARGE = 1 << 20 };
    MemTrap trap;
    static Arena arena;
    static char *volatile block;
    arena_init(&arena, &trap);
    arena.budget = 2 * LARGE;
    if (setjmp(trap.env) == 0) {
        block = arena_alloc(&arena, LARGE);
        block[LARGE - 1] = 'x';
        arena_resize(&arena, block, LARGE, 4 * LARGE);
        fail_msg("should have run out of memory");
    }
    assert_true(arena.used == LARGE && block[LARGE - 1] == 'x');
    arena_free(&arena);
}

TEST(test_text) {
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    assert_string_equal(arena_printf(&arena, "%d-%s", 42, "x"), "42-x");
    assert_string_equal(arena_printf(&arena, "%s", ""), "");
    const char bytes[] = {'a', 0, 'b'};
    char *copy = arena_copy(&arena, bytes, 3);
    assert_memory_equal(copy, bytes, 3);
    assert_int_equal(copy[3], 0);
    assert_string_equal(arena_copy(&arena, NULL, 0), "");
    arena_free(&arena);
}

/* Whatever room the newest chunk has, more or less than the text takes. */
TEST(test_large_text) {
    enum { LENGTH = 300000, PART = 64 << 10, PARTS = 64 };
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    char *whole = arena_alloc(&arena, LENGTH + 1);
    memset(whole, 'x', LENGTH);
    for (int i = 0; i < PARTS; i++) {
        const char *part = arena_alloc(&arena, PART);
        for (int k = 0; k < PART; k++) assert_int_equal(part[k], 0);
        assert_string_equal(arena_printf(&arena, "%s", whole), whole);
    }
    arena_free(&arena);
}

typedef struct Log {
    Arena *arena;
    char text[16];
} Log;

static void log_a(void *data) {
    strcat(((Log *)data)->text, "a");
}
static void log_b(void *data) {
    strcat(((Log *)data)->text, "b");
}
static void log_and_defer(void *data) {
    Log *log = data;
    strcat(log->text, "d");
    arena_defer(log->arena, log_a, log);
}
static void log_and_exhaust(void *data) {
    strcat(((Log *)data)->text, "x");
    arena_exhausted(((Log *)data)->arena);
}

TEST(test_deferred_calls) {
    MemTrap trap;
    Arena arena;
    static Log log;
    log = (Log){.arena = &arena};
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    arena_defer(&arena, log_b, &log);
    arena_defer(&arena, log_a, &log);
    arena_free(&arena);
    assert_string_equal(log.text, "ab");
    arena_free(&arena);
    assert_string_equal(log.text, "ab");
    arena_defer(&arena, log_b, &log);
    arena_defer(&arena, log_and_defer, &log);
    arena_free(&arena);
    assert_string_equal(log.text, "abdab");
}

/* A deferred call that runs out of memory is not repeated, and those after it still run. */
TEST(test_deferred_call_that_fails) {
    static MemTrap trap;
    static Arena arena;
    static Log log;
    log = (Log){.arena = &arena};
    arena_init(&arena, &trap);
    if (setjmp(trap.env) == 0) {
        arena_defer(&arena, log_b, &log);
        arena_defer(&arena, log_and_exhaust, &log);
    }
    arena_free(&arena);
    assert_string_equal(log.text, "xb");
}

typedef enum Request { ALLOC_MOST, ALLOC_NEAR, ARRAY_PRODUCT, BUDGET, COPY_MOST } Request;

static void request(Arena *arena, Request which) {
    switch (which) {
    case ALLOC_MOST: arena_alloc(arena, SIZE_MAX); break;
    case ALLOC_NEAR: arena_alloc(arena, SIZE_MAX - 40); break;
    case ARRAY_PRODUCT: arena_array(arena, SIZE_MAX / 2, 3); break;
    case BUDGET:
        arena->budget = 10000;
        arena_alloc(arena, 6000);
        arena_alloc(arena, 6000);
        break;
    case COPY_MOST: arena_copy(arena, "", SIZE_MAX); break;
    }
}

TEST(test_running_out_jumps) {
    static MemTrap trap;
    static Arena arena;
    static Log log;
    static volatile int jumps;
    for (volatile int which = ALLOC_MOST; which <= COPY_MOST; which++) {
        log = (Log){.arena = &arena};
        arena_init(&arena, &trap);
        if (setjmp(trap.env) == 0) {
            arena_defer(&arena, log_a, &log);
            request(&arena, (Request)which);
        } else {
            jumps++;
        }
        arena_free(&arena);
        assert_string_equal(log.text, "a");
    }
    assert_int_equal(jumps, COPY_MOST + 1);
}

/* A budget can be used to its last bytes, not only to its last whole chunk. */
TEST(test_budget_is_usable) {
    static MemTrap trap;
    static Arena arena;
    static volatile size_t got;
    arena_init(&arena, &trap);
    arena.budget = 100000;
    got = 0;
    if (setjmp(trap.env) == 0)
        for (;;) {
            arena_alloc(&arena, 160);
            got += 160;
        }
    assert_in_range(got, 99000, 100000);
    assert_true(arena.used <= arena.budget);
    arena_free(&arena);
}

TEST(test_vector) {
    MemTrap trap;
    Arena arena;
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    VEC(uint16_t) numbers = {0};
    for (unsigned i = 0; i < 50000; i++) VEC_PUSH(&arena, &numbers, (uint16_t)i);
    assert_int_equal(numbers.count, 50000);
    for (unsigned i = 0; i < 50000; i++) assert_int_equal(numbers.items[i], i);
    arena_free(&arena);
}

TEST(test_checked_sizes) {
    uint64_t result;
    assert_true(checked_add(UINT64_MAX - 1, 1, &result) && result == UINT64_MAX);
    assert_false(checked_add(UINT64_MAX, 1, &result));
    assert_true(checked_mul(UINT64_MAX / 3, 3, &result) && result == UINT64_MAX);
    assert_false(checked_mul((uint64_t)1 << 32, (uint64_t)1 << 32, &result));
    assert_true(checked_align(65, 64, &result) && result == 128);
    assert_true(checked_align(0, 64, &result) && result == 0);
    assert_false(checked_align(UINT64_MAX - 5, 64, &result));
    assert_true(checked_count(NULL, 0, &result) && result == 1);
    assert_true(checked_count((int64_t[]){2, 3, 4}, 3, &result) && result == 24);
    assert_true(checked_count((int64_t[]){2, 0, 4}, 3, &result) && result == 0);
    assert_true(checked_count((int64_t[]){INT64_MAX}, 1, &result) && result == INT64_MAX);
    assert_false(checked_count((int64_t[]){2, -1}, 2, &result));
    assert_false(checked_count((int64_t[]){0, -1}, 2, &result));
    assert_false(checked_count((int64_t[]){INT64_MAX, 2}, 2, &result));
    assert_false(checked_count((int64_t[]){0, INT64_MAX, INT64_MAX}, 3, &result));
}

/* What comes from a pool is zeroed, aligned, and mostly next to what came before, whatever else the
 * arena gives meanwhile; what is too large for a pool is had all the same. */
TEST(test_pools) {
    MemTrap trap;
    Arena arena;
    ArenaPool pool = {0}, other = {0};
    arena_init(&arena, &trap);
    if (setjmp(trap.env)) fail_msg("out of memory");
    const size_t size = 112;
    char *last = NULL;
    unsigned apart = 0;
    for (int i = 0; i < 2000; i++) {
        char *one = arena_pool_alloc(&arena, &pool, size - 3);
        for (size_t k = 0; k < size - 3; k++) assert_int_equal(one[k], 0);
        memset(one, 1, size - 3);
        assert_int_equal((uintptr_t)one % 8, 0);
        apart += !last || one != last + size;
        last = one;
        memset(arena_alloc(&arena, 24), 2, 24);
        memset(arena_pool_array(&arena, &other, 5, 8), 3, 40);
        assert_int_equal(one[size - 4], 1);
    }
    assert_true(apart < 2000 * size / 8192 + 10);
    memset(arena_pool_alloc(&arena, &pool, 1 << 20), 4, 1 << 20);
    memset(arena_pool_alloc(&arena, &pool, 600), 5, 600);
    assert_ptr_equal(arena_pool_alloc(&arena, &pool, 8), last + size);
    assert_non_null(arena_pool_alloc(&arena, &other, 0));
    if (setjmp(trap.env) == 0) {
        arena_pool_array(&arena, &pool, SIZE_MAX / 4, 8);
        fail_msg("the product wraps");
    }
    arena_free(&arena);
}
