// SPDX-License-Identifier: Apache-2.0
/* MatMul, plain and fused, by a second matrix that is constant: each way that the row can be told
 * gives the sums of the others. */
#include <math.h>
#include <stdlib.h>

#include "kernel_case_test.h"
#include "packed_product.h"

static uint32_t state = 1;
static uint32_t random_below(uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * end) >> 32);
}

static void random_floats(const KernelTensor *to) {
    for (uint64_t i = 0; i < to->count; i++)
        ((float *)to->data)[i] = (float)random_below(1 << 20) / (float)(1 << 19) - 1;
}

typedef struct Sizes {
    int64_t rows, depth, columns;
    bool is_fused, transposed;
} Sizes;

static void check(const KernelCase *c, const Sizes *s) {
    const float *a = c->inputs[0].data, *b = c->inputs[1].data, *y = c->outputs[0].data;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t n = 0; n < s->columns; n++) {
            double sum = 0, size = 1;
            for (int64_t k = 0; k < s->depth; k++) {
                const int64_t at = s->transposed ? n * s->depth + k : k * s->columns + n;
                const double term = (double)a[r * s->depth + k] * (double)b[at];
                sum += term;
                size += fabs(term);
            }
            if (!(fabs(sum - (double)y[r * s->columns + n]) <= 1e-6 * size))
                fail_msg("choice %u: %g, expected %g", c->call.choice,
                         (double)y[r * s->columns + n], sum);
        }
}

/* Returns the choice that was taken. */
static uint32_t run(const Sizes *s, uint32_t choice, Workers *workers) {
    static const bool constant[] = {false, true, false, false};
    static KernelCase c;
    const int64_t b[] = {s->transposed ? s->columns : s->depth,
                         s->transposed ? s->depth : s->columns};
    case_begin_in(&c, s->is_fused ? "demi.fused" : "", "MatMul", s->is_fused ? 1 : 13);
    while (c.call.row->prepare->release) c.call.row++; /* the own one */
    if (s->transposed) case_int(&c, "transB", 1);
    case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(s->rows, s->depth), NULL);
    case_in(&c, DTYPE_FLOAT, 2, b, NULL);
    case_out(&c, DTYPE_FLOAT, 2, CASE_DIMS(s->rows, s->columns));
    random_floats(&c.inputs[0]);
    random_floats(&c.inputs[1]);
    c.call.constant = constant;
    c.call.workers = workers;
    case_choose(&c, choice);
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    check(&c, s);
    case_end(&c);
    return c.call.choice;
}

static void test_choices(void **unused) {
    unsigned taken[PACKED_PRODUCT_CHOICES + 1] = {0};
    MemTrap trap;
    Arena arena;
    (void)unused;
    if (setjmp(trap.env)) fail_msg("out of memory");
    arena_init(&arena, &trap);
    Workers *workers = workers_new(&arena, 2);
    for (uint32_t i = 0; i < 40 * (PACKED_PRODUCT_CHOICES + 1); i++) {
        const bool is_fused = i % 2;
        const Sizes s = {.rows = i % 3 ? 1 + random_below(500) : 1,
                         .depth = 1 + random_below(120),
                         .columns = 1 + random_below(200),
                         .is_fused = is_fused,
                         .transposed = is_fused && random_below(2)};
        taken[run(&s, i % (PACKED_PRODUCT_CHOICES + 1), workers)]++;
    }
    for (uint32_t i = 0; i <= PACKED_PRODUCT_CHOICES; i++)
        if (taken[i] < 5) fail_msg("choice %u was taken %u times", i, taken[i]);
    arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
