// SPDX-License-Identifier: Apache-2.0
/* MatMul, plain and fused, by a second matrix that is constant: each way that the row can be told
 * gives the sums of the others. */
#include <math.h>
#include <stdlib.h>

#include "half.h"
#include "kernel_case_test.h"
#include "kernel_functions.h"
#include "packed_product.h"

static uint32_t state = 1;
static uint32_t random_below(uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * end) >> 32);
}

static void random_items(const KernelTensor *to) {
    for (uint64_t i = 0; i < to->count; i++) {
        const float number = (float)random_below(1 << 20) / (float)(1 << 19) - 1;
        if (to->dtype == DTYPE_FLOAT)
            ((float *)to->data)[i] = number;
        else
            ((uint16_t *)to->data)[i] = bfloat_from_float(number);
    }
}

typedef struct Sizes {
    int64_t rows, depth, columns;
    bool is_fused, transposed, bfloats, wide; /* wide: what comes of bfloats is float */
} Sizes;

static double item(const KernelTensor *tensor, int64_t i) {
    if (tensor->dtype == DTYPE_FLOAT) return (double)((const float *)tensor->data)[i];
    return (double)bfloat_to_float(((const uint16_t *)tensor->data)[i]);
}

static void check(const KernelCase *c, const Sizes *s) {
    const KernelTensor *a = &c->inputs[0], *b = &c->inputs[1], *y = &c->outputs[0];
    const double slack = y->dtype == DTYPE_FLOAT ? 0 : 1.0 / 256;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t n = 0; n < s->columns; n++) {
            double sum = 0, size = 1;
            for (int64_t k = 0; k < s->depth; k++) {
                const int64_t at = s->transposed ? n * s->depth + k : k * s->columns + n;
                const double term = item(a, r * s->depth + k) * item(b, at);
                sum += term;
                size += fabs(term);
            }
            if (c->inputs[3].present) sum += item(&c->inputs[3], r * s->columns + n);
            const double got = item(y, r * s->columns + n);
            if (!(fabs(sum - got) <= 1e-6 * size + slack * fabs(sum)))
                fail_msg("choice %u: %g, expected %g", c->call.choice, got, sum);
        }
}

/* Returns the choice that was taken. */
static uint32_t run(const Sizes *s, uint32_t choice, Workers *workers) {
    static const bool constant[] = {false, true, false, false};
    static KernelCase c;
    const int64_t b[] = {s->transposed ? s->columns : s->depth,
                         s->transposed ? s->depth : s->columns};
    const int64_t y[] = {s->rows, s->columns};
    case_begin_in(&c, s->is_fused ? "demi.fused" : "", "MatMul", s->is_fused ? 1 : 13);
    while (!s->bfloats && c.call.row->prepare != &kernel_prepare_matmul &&
           c.call.row->prepare != &kernel_prepare_fused_matmul)
        c.call.row++;
    const Dtype dtype = s->bfloats ? DTYPE_BFLOAT16 : DTYPE_FLOAT,
                to = s->wide ? DTYPE_FLOAT : dtype;
    if (s->transposed) case_int(&c, "transB", 1);
    case_in(&c, dtype, 2, CASE_DIMS(s->rows, s->depth), NULL);
    case_in(&c, dtype, 2, b, NULL);
    random_items(&c.inputs[0]);
    random_items(&c.inputs[1]);
    if (s->is_fused && s->bfloats) {
        case_omit(&c);
        case_in(&c, to, 2, y, NULL);
        random_items(&c.inputs[3]);
    }
    case_out(&c, to, 2, y);
    c.call.constant = constant;
    c.call.workers = workers;
    case_choose(&c, choice);
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    check(&c, s);
    case_end(&c);
    return c.call.choice;
}

TEST(test_choices) {
    unsigned taken[PACKED_PRODUCT_CHOICES + 1] = {0};
    Workers *workers = workers_new(&test_arena, 2);
    for (uint32_t i = 0; i < 100 * (PACKED_PRODUCT_CHOICES + 1); i++) {
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
}

TEST(test_bfloats) {
    for (uint32_t i = 0; i < 400 && igemm_has_bfloats(isa_here()); i++) {
        const bool is_fused = i % 2;
        const Sizes s = {.rows = i % 3 ? 1 + random_below(100) : 1,
                         .depth = 2 * (1 + random_below(100)),
                         .columns = 1 + random_below(200),
                         .is_fused = is_fused,
                         .transposed = is_fused && random_below(2),
                         .bfloats = true,
                         .wide = is_fused && random_below(3) == 0};
        run(&s, i % (PACKED_PRODUCT_CHOICES + 1), NULL);
    }
}
