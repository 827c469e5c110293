// SPDX-License-Identifier: Apache-2.0
/* Random walks against a walk by hand, element sizes and directions of all kinds; sorting and its
 * keys. */
#include <stdlib.h>
#include <string.h>

#include "kernel_order.h"
#include "kernel_strided.h"
#include "unit_test.h"

enum { WALKS = 3000, MOST_RANK = 5, LONGEST = 40 };

static uint64_t seed = 88172645463325252u;

static int64_t random_below(int64_t end) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)(seed % (uint64_t)end);
}

/* What the walk should do, one element after the other. */
static void by_hand(const StridedWalk *walk, char *to, const char *from, int64_t size) {
    int64_t total = 1;
    for (uint32_t i = 0; i < walk->rank; i++) total *= walk->axes[i].count;
    for (int64_t n = 0; n < total; n++) {
        int64_t rest = n, target = 0, source = 0;
        for (uint32_t i = walk->rank; i-- > 0; rest /= walk->axes[i].count) {
            target += rest % walk->axes[i].count * walk->axes[i].to;
            source += rest % walk->axes[i].count * walk->axes[i].from;
        }
        memcpy(to + target * size, from + source * size, (size_t)size);
    }
}

/* A dense destination whose axes come in random order; a source that may repeat or run backwards.
 * Returns where in the source the walk begins; the sizes of both in elements. */
static int64_t make_walk(KernelCall *call, StridedWalk *walk, int64_t *to_count,
                         int64_t *from_count) {
    uint32_t rank = (uint32_t)random_below(MOST_RANK + 1);
    int64_t to = 1, from = 1, start = 0;
    *walk = strided_new(call, rank);
    for (uint32_t i = rank; i-- > 0;) {
        StridedAxis *axis = &walk->axes[i];
        axis->count = rank < 3 ? 1 + random_below(LONGEST) : 1 + random_below(7);
        axis->to = to;
        to *= axis->count;
    }
    bool *used = ARENA_ARRAY(call->scratch, bool, rank);
    for (uint32_t n = 0; n < rank; n++) {
        uint32_t i = (uint32_t)random_below(rank);
        while (used[i]) i = (i + 1) % rank;
        used[i] = true;
        StridedAxis *axis = &walk->axes[i];
        int64_t kind = random_below(6);
        axis->from = kind == 0 ? 0 : from;
        if (kind == 1) start += (axis->count - 1) * from;
        if (kind == 1) axis->from = -from;
        if (kind != 0) from *= axis->count + random_below(2);
    }
    *to_count = to;
    *from_count = from;
    return start;
}

TEST(test_walks) {
    static const int64_t sizes[] = {1, 2, 4, 8, 16};
    KernelCall call = {.scratch = &test_arena};
    for (int n = 0; n < WALKS; n++) {
        StridedWalk walk;
        int64_t to_count, from_count, size = sizes[random_below(5)];
        int64_t start = make_walk(&call, &walk, &to_count, &from_count);
        char *from = ARENA_ARRAY(&test_arena, char, (size_t)(from_count * size));
        char *to = ARENA_ARRAY(&test_arena, char, (size_t)(to_count * size));
        char *wanted = ARENA_ARRAY(&test_arena, char, (size_t)(to_count * size));
        for (int64_t i = 0; i < from_count * size; i++) from[i] = (char)random_below(256);
        by_hand(&walk, wanted, from + start * size, size);
        walk.away = random_below(4) == 0;
        strided_copy(&walk, to, from + start * size, (size_t)size);
        assert_memory_equal(to, wanted, (size_t)(to_count * size));
        arena_free(&test_arena);
    }
}

/* Runs of all lengths that are written past the caches, beginning anywhere, and nothing beside them. */
TEST(test_away) {
    enum { ROWS = 3, WIDE = 5000, SIZE = ROWS * (WIDE + 64) };
    KernelCall call = {.scratch = &test_arena};
    for (int n = 0; n < WALKS; n++) {
        static const int64_t sizes[] = {1, 2, 4, 8, 16};
        const int64_t size = sizes[random_below(5)], width = random_below(WIDE / size);
        const int64_t pitch = width + random_below(4), offset = random_below(64 / size);
        char *from = ARENA_ARRAY(&test_arena, char, SIZE),
             *to = ARENA_ARRAY(&test_arena, char, SIZE),
             *wanted = ARENA_ARRAY(&test_arena, char, SIZE);
        for (int64_t i = 0; i < SIZE; i++) from[i] = (char)random_below(256);
        StridedWalk walk = strided_new(&call, 2);
        walk.axes[0] = (StridedAxis){ROWS, pitch, width};
        walk.axes[1] = (StridedAxis){width, 1, 1};
        walk.away = true;
        by_hand(&walk, wanted + offset * size, from, size);
        strided_copy(&walk, to + offset * size, from, (size_t)size);
        assert_memory_equal(to, wanted, SIZE);
        arena_free(&test_arena);
    }
}

TEST(test_empty_walk) {
    KernelCall call = {.scratch = &test_arena};
    StridedWalk walk = strided_new(&call, 2);
    walk.axes[1].count = 0;
    strided_copy(&walk, NULL, NULL, 4);
    arena_free(&test_arena);
}

static int compare_keys(const void *context, uint64_t a, uint64_t b) {
    const uint64_t *keys = context;
    return (keys[a] > keys[b]) - (keys[a] < keys[b]);
}

/* Stable, and in the order of values: NaN last, both zeros equal. */
TEST(test_order) {
    float nan = strtof("nan", NULL), infinity = strtof("inf", NULL);
    float values[] = {3, nan, -0.0f, -infinity, 0, infinity, -2.5f, -nan, 3};
    static const uint64_t wanted[] = {3, 6, 2, 4, 0, 8, 5, 1, 7};
    enum { COUNT = sizeof values / sizeof *values };
    KernelTensor tensor = {.present = true, .dtype = DTYPE_FLOAT, .count = COUNT, .data = values};
    KernelCall call = {.scratch = &test_arena};
    uint64_t keys[COUNT];
    order_keys(&tensor, (const uint64_t[]){0, 1, COUNT}, keys);
    for (uint64_t i = 0; i < COUNT; i++) assert_int_equal(keys[i], order_key(&tensor, i, 0));
    const uint64_t *order = order_sort(&call, COUNT, compare_keys, keys);
    for (uint64_t i = 0; i < COUNT; i++) assert_int_equal(order[i], wanted[i]);
    arena_free(&test_arena);
}

TEST(test_strings) {
    const KernelString a = {2, "ab"}, b = {1, "a"}, c = {1, "b"}, none = {0, NULL};
    assert_true(order_strings(&a, &b) > 0);
    assert_true(order_strings(&a, &c) < 0);
    assert_true(order_strings(&none, &b) < 0);
    assert_int_equal(order_strings(&none, &none), 0);
}
