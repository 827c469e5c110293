// SPDX-License-Identifier: Apache-2.0
/* QConv, QConvLast, QMatMul, QAdd, QTable against their definitions in double, within one quantum
 * where rounding may go either way and nothing else: random windows, groups, zero points, scales for
 * all and by channel, bounds, results of bytes and of float. */
#include "kernel_case_test.h"

#include <math.h>

static uint32_t state = 7;
static int64_t random_below(int64_t end) {
    state = state * 1664525u + 1013904223u;
    return (int64_t)(((uint64_t)state * (uint64_t)end) >> 32);
}

typedef struct Numbers {
    Dtype x, y; /* FLOAT: without a zero point */
    int64_t x_zero, y_zero, columns;
    bool by_column, shift, bounds;
    float factor[256], shifts[256], low, high;
    uint8_t zero_bytes[2];
} Numbers;

static Numbers random_numbers(int64_t columns, double typical) {
    static const Dtype kinds[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_FLOAT};
    Numbers n = {.x = kinds[random_below(2)], .y = kinds[random_below(3)], .columns = columns};
    n.x_zero = random_below(256) - (n.x == DTYPE_INT8 ? 128 : 0);
    n.y_zero = n.y == DTYPE_FLOAT ? 0 : random_below(256) - (n.y == DTYPE_INT8 ? 128 : 0);
    n.zero_bytes[0] = (uint8_t)n.x_zero;
    n.zero_bytes[1] = (uint8_t)n.y_zero;
    n.by_column = random_below(2);
    n.shift = random_below(2);
    n.bounds = random_below(2);
    for (int64_t i = 0; i < columns; i++) {
        n.factor[i] = (float)((1 + (double)random_below(1000) / 1000) * 60 / typical);
        n.shifts[i] = (float)random_below(4000) / 100 - 20;
    }
    n.low = -30;
    n.high = 77;
    return n;
}

static void given_numbers(KernelCase *c, const Numbers *n) {
    if (n->x_zero || random_below(2))
        case_in(c, n->x, 0, NULL, &n->zero_bytes[0]);
    else
        case_omit(c);
    if (n->y != DTYPE_FLOAT)
        case_in(c, n->y, 0, NULL, &n->zero_bytes[1]);
    else
        case_omit(c);
    case_in(c, DTYPE_FLOAT, n->by_column ? 1 : 0, &n->columns, n->factor);
    if (n->shift)
        case_in(c, DTYPE_FLOAT, 1, &n->columns, n->shifts);
    else
        case_omit(c);
    if (!n->bounds) return;
    case_in(c, DTYPE_FLOAT, 0, NULL, &n->low);
    case_in(c, DTYPE_FLOAT, 0, NULL, &n->high);
}

static int64_t byte_of(const KernelTensor *t, uint64_t i) {
    return t->dtype == DTYPE_INT8 ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

static void check(const KernelTensor *y, uint64_t i, double v) {
    if (y->dtype == DTYPE_FLOAT) {
        const double got = ((const float *)y->data)[i];
        if (!(fabs(got - v) <= 1e-5 * (1 + fabs(v)) + 1e-4)) fail_msg("%g, expected %g", got, v);
        return;
    }
    const double least = y->dtype == DTYPE_INT8 ? -128 : 0;
    const double want = fmin(fmax(v, least), least + 255), got = (double)byte_of(y, i);
    if (!(fabs(got - want) <= 0.501)) fail_msg("%g, expected %g", got, want);
}

/* v of the sum of column n. */
static double value_of(const Numbers *n, int64_t sum, int64_t column) {
    double v = (double)sum * (double)n->factor[n->by_column ? column : 0];
    if (n->shift) v += (double)n->shifts[column];
    if (n->bounds) v = fmin(fmax(v, (double)n->low), (double)n->high);
    return v + (double)n->y_zero;
}

static void random_bytes(KernelTensor *t) {
    for (uint64_t i = 0; i < t->count; i++) ((uint8_t *)t->data)[i] = (uint8_t)random_below(256);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

typedef struct Shape {
    uint32_t spatial;
    int64_t images, groups, channels, filters, in[2], out[2], taps[2], strides[2], pads[4];
} Shape;

static Shape random_shape(void) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 17, 20};
    Shape s = {.spatial = 1 + (uint32_t)random_below(2), .out = {1, 1}, .in = {1, 1}};
    s.images = 1 + random_below(2);
    s.groups = random_below(3) ? 1 : 1 + random_below(7);
    s.channels = random_below(4) ? sizes[random_below(8)] : 1;
    s.filters = random_below(4) ? sizes[random_below(8)] : 1;
    s.taps[1] = s.strides[1] = 1;
    for (uint32_t i = 0; i < s.spatial; i++) {
        s.taps[i] = 1 + random_below(4);
        s.strides[i] = 1 + random_below(3);
        s.pads[i] = random_below(s.taps[i]);
        s.pads[i + s.spatial] = random_below(s.taps[i]);
        s.in[i] = s.taps[i] + random_below(12);
        s.out[i] = (s.in[i] + s.pads[i] + s.pads[i + s.spatial] - s.taps[i]) / s.strides[i] + 1;
    }
    return s;
}

/* Element of channel c and place (a, b) of image n. */
static uint64_t at(const Shape *s, bool last, int64_t channels, const int64_t *size, int64_t n,
                   int64_t c, int64_t a, int64_t b) {
    const int64_t width = s->spatial > 1 ? size[1] : 1, place = a * width + b;
    const int64_t places = size[0] * width;
    return (uint64_t)(last ? (n * places + place) * channels + c
                           : (n * channels + c) * places + place);
}

static int64_t conv_sum(const Shape *s, const KernelCase *c, const Numbers *numbers, bool last,
                        const int64_t *y) {
    const KernelTensor *x = &c->inputs[0], *w = &c->inputs[1];
    const int64_t group = y[1] / s->filters, channels = s->groups * s->channels;
    const int64_t across = s->spatial > 1 ? s->taps[1] : 1, wide = s->spatial > 1 ? s->in[1] : 1;
    int64_t sum = 0;
    for (int64_t k = 0; k < s->channels; k++)
        for (int64_t a = 0; a < s->taps[0]; a++)
            for (int64_t b = 0; b < across; b++) {
                const int64_t i = y[2] * s->strides[0] + a - s->pads[0];
                const int64_t j = s->spatial > 1 ? y[3] * s->strides[1] + b - s->pads[1] : 0;
                if (i < 0 || j < 0 || i >= s->in[0] || j >= wide) continue;
                const uint64_t from =
                    at(s, last, channels, s->in, y[0], group * s->channels + k, i, j);
                const uint64_t by =
                    (uint64_t)(((y[1] * s->channels + k) * s->taps[0] + a) * across + b);
                sum += (byte_of(x, from) - numbers->x_zero) * byte_of(w, by);
            }
    return sum;
}

static void set_ints(KernelCase *c, const char *name, const int64_t *items, uint32_t count) {
    case_attr(c, name, (PlainAttr){.kind = PLAIN_INTS, .count = count, .v.ints = items});
}

/* Bytes that are added to a result of bytes, u = 0.75 v - 0.5 z + 3.5 within [-60, 70]; or none. */
typedef struct Added {
    Dtype dtype; /* FLOAT: none */
    float numbers[5];
} Added;

static Added random_added(const Shape *s, const Numbers *n) {
    static const Dtype kinds[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_FLOAT};
    Added added = {.dtype = kinds[random_below(3)], .numbers = {0.75f, -0.5f, 3.5f, -60, 70}};
    if (n->y == DTYPE_FLOAT || (s->channels == 1 && s->filters == 1)) added.dtype = DTYPE_FLOAT;
    return added;
}

static void give_added(KernelCase *c, const Numbers *n, const Added *added, uint32_t rank,
                       const int64_t *dims) {
    if (added->dtype == DTYPE_FLOAT) return;
    for (int i = 0; i < 2 && !n->bounds; i++) case_omit(c);
    case_in(c, added->dtype, rank, dims, NULL);
    random_bytes(&c->inputs[8]);
    for (int i = 0; i < 5; i++) case_in(c, DTYPE_FLOAT, 0, NULL, &added->numbers[i]);
}

/* With what is added; where v may round either way, within that much. */
static void check_added(const KernelCase *c, uint64_t i, const Numbers *n, double v) {
    v -= (double)n->y_zero;
    const bool tie = fabs(v - floor(v) - 0.5) < 1e-3;
    const double z = (double)byte_of(&c->inputs[8], i);
    double u[2];
    for (int k = 0; k < 2; k++) {
        u[k] = 0.75 * (tie ? floor(v) + k : rint(v)) - 0.5 * z + 3.5;
        u[k] = fmin(fmax(u[k], -60), 70) + (double)n->y_zero;
    }
    const double least = c->outputs[0].dtype == DTYPE_INT8 ? -128 : 0;
    const double got = (double)byte_of(&c->outputs[0], i);
    for (int k = 0; k < 2; k++)
        if (fabs(got - fmin(fmax(u[k], least), least + 255)) <= 0.501) return;
    fail_msg("%g, expected %g", got, u[0]);
}

static void run_conv(const Shape *s, bool last) {
    const int64_t channels = s->groups * s->channels, filters = s->groups * s->filters;
    const int64_t taps = s->taps[0] * (s->spatial > 1 ? s->taps[1] : 1);
    const Numbers n = random_numbers(filters, sqrt((double)(s->channels * taps)) * 5000);
    const bool constant[14] = {false, random_below(2)};
    const Added added = random_added(s, &n);
    int64_t x[4], y[4], w[4] = {filters, s->channels, s->taps[0], s->taps[1]};
    static KernelCase c;
    x[0] = y[0] = s->images;
    x[last ? s->spatial + 1 : 1] = channels;
    y[last ? s->spatial + 1 : 1] = filters;
    for (uint32_t i = 0; i < s->spatial; i++) {
        x[(last ? 1 : 2) + i] = s->in[i];
        y[(last ? 1 : 2) + i] = s->out[i];
    }
    case_begin_in(&c, "demi.fused", last ? "QConvLast" : "QConv", 1);
    case_in(&c, n.x, s->spatial + 2, x, NULL);
    case_in(&c, DTYPE_INT8, s->spatial + 2, w, NULL);
    random_bytes(&c.inputs[0]);
    random_bytes(&c.inputs[1]);
    given_numbers(&c, &n);
    give_added(&c, &n, &added, s->spatial + 2, y);
    case_out(&c, n.y, s->spatial + 2, y);
    c.call.constant = constant;
    set_ints(&c, "strides", s->strides, s->spatial);
    set_ints(&c, "pads", s->pads, 2 * s->spatial);
    case_int(&c, "group", s->groups);
    case_choose(&c, (uint64_t)random_below(1 << 16));
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    const int64_t wide = s->spatial > 1 ? s->out[1] : 1;
    for (int64_t i = 0; i < s->images * filters * s->out[0] * wide; i++) {
        const int64_t place[] = {i / wide / s->out[0] / filters, i / wide / s->out[0] % filters,
                                 i / wide % s->out[0], i % wide};
        const uint64_t to = at(s, last, filters, s->out, place[0], place[1], place[2], place[3]);
        const double v = value_of(&n, conv_sum(s, &c, &n, last, place), place[1]);
        if (added.dtype == DTYPE_FLOAT)
            check(&c.outputs[0], to, v);
        else
            check_added(&c, to, &n, v);
    }
    case_end(&c);
}

TEST(test_convolutions) {
    for (int i = 0; i < 500; i++) {
        const Shape s = random_shape();
        run_conv(&s, false);
        run_conv(&s, true);
    }
}

/* ---- matrices -------------------------------------------------------------------------------- */

TEST(test_matrices) {
    for (int i = 0; i < 300; i++) {
        const int64_t b = 1 + random_below(3), m = 1 + random_below(9), k = 1 + random_below(70);
        const int64_t n = 1 + random_below(70);
        const bool transposed = random_below(2), batched = random_below(3) == 0;
        const bool constant[8] = {false, !batched && random_below(2)};
        const Numbers numbers = random_numbers(n, sqrt((double)k) * 5000);
        static KernelCase c;
        case_begin_in(&c, "demi.fused", "QMatMul", 1);
        case_in(&c, numbers.x, 3, CASE_DIMS(b, m, k), NULL);
        const int64_t rows = transposed ? n : k, columns = transposed ? k : n;
        case_in(&c, DTYPE_INT8, batched ? 3 : 2,
                batched ? CASE_DIMS(b, rows, columns) : CASE_DIMS(rows, columns), NULL);
        random_bytes(&c.inputs[0]);
        random_bytes(&c.inputs[1]);
        given_numbers(&c, &numbers);
        case_out(&c, numbers.y, 3, CASE_DIMS(b, m, n));
        c.call.constant = constant;
        if (transposed) case_int(&c, "transB", 1);
        case_choose(&c, (uint64_t)random_below(1 << 16));
        if (!case_run(&c)) fail_msg("%s", c.err.what);
        for (int64_t at_y = 0; at_y < b * m * n; at_y++) {
            const int64_t column = at_y % n, row = at_y / n;
            int64_t sum = 0;
            for (int64_t e = 0; e < k; e++) {
                const int64_t from = (batched ? row / m * k * n : 0) +
                                     (transposed ? column * k + e : e * n + column);
                sum += (byte_of(&c.inputs[0], (uint64_t)(row * k + e)) - numbers.x_zero) *
                       byte_of(&c.inputs[1], (uint64_t)from);
            }
            check(&c.outputs[0], (uint64_t)at_y, value_of(&numbers, sum, column));
        }
        case_end(&c);
    }
}

/* ---- elementwise ----------------------------------------------------------------------------- */

TEST(test_sums) {
    static const Dtype kinds[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_FLOAT};
    for (int i = 0; i < 200; i++) {
        const int64_t rows = 1 + random_below(5), columns = 1 + random_below(70);
        const bool one_row = random_below(3) == 0;
        const Dtype a = kinds[random_below(2)], b = kinds[random_below(2)];
        const Dtype y = kinds[random_below(3)];
        const float factors[] = {0.3f, (float)random_below(100) / 50, 11.25f, -50, 60};
        const uint8_t zero = (uint8_t)random_below(256);
        const bool bounds = random_below(2);
        static KernelCase c;
        case_begin_in(&c, "demi.fused", "QAdd", 1);
        case_in(&c, a, 2, CASE_DIMS(rows, columns), NULL);
        case_in(&c, b, one_row ? 1 : 2, one_row ? CASE_DIMS(columns) : CASE_DIMS(rows, columns),
                NULL);
        random_bytes(&c.inputs[0]);
        random_bytes(&c.inputs[1]);
        for (int k = 0; k < 3; k++) case_in(&c, DTYPE_FLOAT, 0, NULL, &factors[k]);
        if (y == DTYPE_FLOAT)
            case_omit(&c);
        else
            case_in(&c, y, 0, NULL, &zero);
        for (int k = 3; bounds && k < 5; k++) case_in(&c, DTYPE_FLOAT, 0, NULL, &factors[k]);
        case_out(&c, y, 2, CASE_DIMS(rows, columns));
        if (!case_run(&c)) fail_msg("%s", c.err.what);
        for (uint64_t k = 0; k < c.outputs[0].count; k++) {
            const uint64_t other = one_row ? k % (uint64_t)columns : k;
            double v = (double)factors[0] * (double)byte_of(&c.inputs[0], k) +
                       (double)factors[1] * (double)byte_of(&c.inputs[1], other) + 11.25;
            if (bounds) v = fmin(fmax(v, -50), 60);
            if (y != DTYPE_FLOAT) v += y == DTYPE_INT8 ? (int8_t)zero : zero;
            check(&c.outputs[0], k, v);
        }
        case_end(&c);
    }
}

TEST(test_tables) {
    static const Dtype kinds[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_FLOAT};
    for (int i = 0; i < 9; i++) {
        const Dtype y = kinds[i % 3];
        static KernelCase c;
        case_begin_in(&c, "demi.fused", "QTable", 1);
        case_in(&c, kinds[i / 3 % 2], 1, CASE_DIMS(50000), NULL);
        random_bytes(&c.inputs[0]);
        case_in(&c, y, 1, CASE_DIMS(256), NULL);
        const size_t size = y == DTYPE_FLOAT ? 4 : 1;
        for (int k = 0; k < 256; k++) {
            const float number = (float)k * 1.5f;
            memcpy((char *)c.inputs[1].data + (size_t)k * size,
                   y == DTYPE_FLOAT ? (const void *)&number : (const uint8_t[]){(uint8_t)(k * 7)},
                   size);
        }
        case_out(&c, y, 1, CASE_DIMS(50000));
        if (!case_run(&c)) fail_msg("%s", c.err.what);
        for (uint64_t k = 0; k < 50000; k++)
            assert_memory_equal(
                (char *)c.outputs[0].data + k * size,
                (char *)c.inputs[1].data + ((const uint8_t *)c.inputs[0].data)[k] * size, size);
        case_end(&c);
    }
}

/* What a plan may say that is wrong. */
TEST(test_refusals) {
    const uint8_t zeros[2] = {0, 0};
    const float one = 1, two[2] = {2, 1};
    for (int i = 0; i < 5; i++) {
        static KernelCase c;
        case_begin_in(&c, "demi.fused", "QMatMul", 1);
        case_in(&c, i == 0 ? DTYPE_FLOAT : DTYPE_UINT8, 2, CASE_DIMS(2, 3), NULL);
        case_in(&c, i == 1 ? DTYPE_UINT8 : DTYPE_INT8, 2, CASE_DIMS(3, 4), NULL);
        case_in(&c, i == 2 ? DTYPE_INT8 : DTYPE_UINT8, 0, NULL, zeros);
        case_in(&c, DTYPE_UINT8, 1, i == 3 ? CASE_DIMS(2) : CASE_DIMS(1), zeros);
        case_in(&c, DTYPE_FLOAT, 1, i == 4 ? CASE_DIMS(2) : CASE_DIMS(1), i == 4 ? two : &one);
        case_out(&c, DTYPE_UINT8, 2, CASE_DIMS(2, 4));
        assert_false(case_run(&c));
        assert_true(c.err.what[0]);
        case_end(&c);
    }
}
