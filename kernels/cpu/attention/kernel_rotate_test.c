// SPDX-License-Identifier: Apache-2.0
/* demi.fused's Rotary beside its definition, bit by bit: rows around the size of vectors, tables of
 * every broadcast; and what it refuses. */
#include "kernel_case_test.h"

enum { RANK = 3, SIZES = 5 };

static KernelCase c;
static uint32_t state = 1;
static uint32_t random_below(uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * end) >> 32);
}

static const int64_t *dims_of(const int64_t *dims, uint32_t rank) {
    return arena_copy(&c.arena, dims, rank * sizeof *dims);
}

static float *floats(int64_t count) {
    float *items = ARENA_ARRAY(&c.arena, float, (uint64_t)count + 1);
    for (int64_t i = 0; i < count; i++) items[i] = (float)random_below(1 << 20) / (1 << 18) - 2;
    return items;
}

/* A table that broadcasts to X by chance, of its last axes or all. */
static void add_table(const int64_t *x) {
    int64_t dims[RANK], count = 1;
    const uint32_t drop = random_below(RANK);
    for (uint32_t i = drop; i < RANK; i++) {
        dims[i] = random_below(4) ? x[i] : 1;
        count *= dims[i];
    }
    case_in(&c, DTYPE_FLOAT, RANK - drop, dims_of(dims + drop, RANK - drop), floats(count));
}

/* The table's element for X's element (a, b, i). */
static float table_at(const KernelTensor *table, const int64_t *place) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < table->rank; i++) {
        const int64_t dim = table->dims[i], p = place[RANK - table->rank + i];
        at = at * (uint64_t)dim + (uint64_t)(dim == 1 ? 0 : p);
    }
    return ((const float *)table->data)[at];
}

static void try_once(void) {
    case_begin_in(&c, "demi.fused", "Rotary", 1);
    const int64_t x[RANK] = {1 + random_below(SIZES), 1 + random_below(SIZES),
                             2 * (int64_t)random_below(40)};
    const int64_t count = x[0] * x[1] * x[2], half = x[2] / 2;
    case_in(&c, DTYPE_FLOAT, RANK, dims_of(x, RANK), floats(count));
    add_table(x);
    add_table(x);
    case_out(&c, DTYPE_FLOAT, RANK, dims_of(x, RANK));
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    const float *from = c.inputs[0].data, *y = c.outputs[0].data;
    for (int64_t n = 0; n < count; n++) {
        const int64_t i = n % x[2], place[RANK] = {n / x[2] / x[1], n / x[2] % x[1], i};
        const float other = i < half ? -from[n + half] : from[n - half];
        const float first = from[n] * table_at(&c.inputs[1], place);
        const float second = other * table_at(&c.inputs[2], place);
        assert_true(y[n] == first + second);
    }
    case_end(&c);
}

TEST(test_values) {
    for (int i = 0; i < 500; i++) try_once();
}

static void refuses(const int64_t *x, const int64_t *table, const char *says) {
    case_begin_in(&c, "demi.fused", "Rotary", 1);
    case_in(&c, DTYPE_FLOAT, 2, x, NULL);
    case_in(&c, DTYPE_FLOAT, 2, table, NULL);
    case_in(&c, DTYPE_FLOAT, 2, x, NULL);
    case_out(&c, DTYPE_FLOAT, 2, x);
    assert_false(case_run(&c));
    if (!strstr(c.err.what, says)) fail_msg("%s", c.err.what);
    case_end(&c);
}

TEST(test_refusals) {
    refuses(CASE_DIMS(2, 3), CASE_DIMS(2, 3), "into two halves");
    refuses(CASE_DIMS(2, 4), CASE_DIMS(3, 4), "does not broadcast");
    refuses(CASE_DIMS(2, 4), CASE_DIMS(2, 2), "does not broadcast");
}
