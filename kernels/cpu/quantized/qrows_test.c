// SPDX-License-Identifier: Apache-2.0
/* QuantizeRows, whose bytes are those of its definition, and QMatMul of rows that have scales of their own, in double. */
#include "byte_case_test.h"

/* ---- rows ------------------------------------------------------------------------------------ */

static float random_float(void) {
    return (float)(random_below(1 << 20) - (1 << 19)) / (1 << 16);
}

/* What row `kind` holds; the rest of them is random. */
typedef enum RowKind { ROW_SAME, ROW_TINY, ROW_NAN, ROW_INFINITE, ROW_HUGE, ROW_RANDOM } RowKind;

static void fill_row(float *x, int64_t length, RowKind kind) {
    const float size = ldexpf(1, (int)random_below(40) - 20), offset = random_float();
    for (int64_t i = 0; i < length; i++) x[i] = kind == ROW_SAME ? offset : size * random_float();
    float *one = &x[random_below(length)];
    for (int64_t i = 0; kind == ROW_TINY && i < length; i++) x[i] = ldexpf(random_float(), -148);
    if (kind == ROW_NAN) *one = NAN;
    if (kind == ROW_INFINITE) *one = random_below(2) ? HUGE_VALF : -HUGE_VALF;
    if (kind == ROW_HUGE) x[0] = 3e38f, x[length - 1] = -3e38f;
}

/* As row_form.h has it. */
static void check_row(const float *x, int64_t length, const uint8_t *y, float scale, float low) {
    float least = x[0], most = x[0];
    bool finite = true;
    for (int64_t i = 0; i < length; i++) {
        least = fminf(least, x[i]);
        most = fmaxf(most, x[i]);
        finite = finite && isfinite(x[i]);
    }
    if (!finite) {
        assert_true(isnan(scale));
        return;
    }
    const float want = fmaxf((most - least) * (1.0f / 255), 0x1p-126f);
    assert_true(scale == want && low == least);
    for (int64_t i = 0; isfinite(want) && i < length; i++) {
        const float near = nearbyintf((x[i] - low) / scale);
        if (y[i] != near) fail_msg("%u, expected %g", y[i], (double)near);
    }
}

TEST(test_rows) {
    for (int i = 0; i < 400; i++) {
        const int64_t rows = 1 + random_below(6), length = 1 + random_below(i % 5 ? 90 : 700);
        static KernelCase c;
        case_begin_in(&c, "demi.fused", "QuantizeRows", 1);
        case_in(&c, DTYPE_FLOAT, 3, CASE_DIMS(1, rows, length), NULL);
        float *x = c.inputs[0].data;
        for (int64_t r = 0; r < rows; r++)
            fill_row(x + r * length, length, (RowKind)random_below(ROW_RANDOM + 3));
        case_out(&c, DTYPE_UINT8, 3, CASE_DIMS(1, rows, length));
        for (int k = 0; k < 2; k++) case_out(&c, DTYPE_FLOAT, 3, CASE_DIMS(1, rows, 1));
        if (!case_run(&c)) fail_msg("%s", c.err.what);
        for (int64_t r = 0; r < rows; r++)
            check_row(x + r * length, length, (const uint8_t *)c.outputs[0].data + r * length,
                      ((const float *)c.outputs[1].data)[r], ((const float *)c.outputs[2].data)[r]);
        case_end(&c);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

static void random_floats(KernelTensor *t) {
    for (uint64_t i = 0; i < t->count; i++) ((float *)t->data)[i] = random_float();
}

/* Columns have numbers each, or one for all. */
static double number_of(const KernelTensor *t, int64_t i) {
    return (double)((const float *)t->data)[t->count == 1 ? 0 : i];
}

enum { FACTOR = 4, SHIFT, ROW_FACTOR = 8, ROW_SHIFT, COLUMN_SHIFT };

TEST(test_products) {
    for (int i = 0; i < 200; i++) {
        const int64_t b = 1 + random_below(3), m = 1 + random_below(30), k = 1 + random_below(70);
        const int64_t n = 1 + random_below(70), channels = random_below(2) ? n : 1;
        const bool transposed = random_below(2), batched = random_below(3) == 0, moves = i % 3;
        static KernelCase c;
        case_begin_in(&c, "demi.fused", "QMatMul", 1);
        case_in(&c, random_below(2) ? DTYPE_UINT8 : DTYPE_INT8, 3, CASE_DIMS(b, m, k), NULL);
        const int64_t rows = transposed ? n : k, columns = transposed ? k : n;
        case_in(&c, DTYPE_INT8, batched ? 3 : 2,
                batched ? CASE_DIMS(b, rows, columns) : CASE_DIMS(rows, columns), NULL);
        const int64_t zero = given_zero(&c, c.inputs[0].dtype);
        case_omit(&c);
        case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(channels), NULL);
        case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(channels), NULL);
        for (int e = 0; e < 2; e++) case_omit(&c);
        case_in(&c, DTYPE_FLOAT, 3, CASE_DIMS(b, m, 1), NULL);
        if (moves) case_in(&c, DTYPE_FLOAT, 3, CASE_DIMS(b, m, 1), NULL);
        if (moves) case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(channels), NULL);
        for (uint32_t e = 0; e < c.call.input_count; e++)
            if (c.inputs[e].present && c.inputs[e].dtype == DTYPE_FLOAT)
                random_floats(&c.inputs[e]);
        random_bytes(&c.inputs[0]);
        random_bytes(&c.inputs[1]);
        case_out(&c, DTYPE_FLOAT, 3, CASE_DIMS(b, m, n));
        const bool constant[COLUMN_SHIFT + 1] = {false, !batched && random_below(2)};
        c.call.constant = constant;
        if (transposed) case_int(&c, "transB", 1);
        case_choose(&c, (uint64_t)random_below(1 << 16));
        if (!case_run(&c)) fail_msg("%s", c.err.what);
        for (int64_t at = 0; at < b * m * n; at++) {
            const int64_t column = at % n, row = at / n;
            int64_t sum = 0;
            for (int64_t e = 0; e < k; e++) {
                const int64_t from = (batched ? row / m * k * n : 0) +
                                     (transposed ? column * k + e : e * n + column);
                sum += (byte_of(&c.inputs[0], (uint64_t)(row * k + e)) - zero) *
                       byte_of(&c.inputs[1], (uint64_t)from);
            }
            const double by_row = number_of(&c.inputs[ROW_FACTOR], row);
            double v = by_row * number_of(&c.inputs[FACTOR], column) * (double)sum;
            v += number_of(&c.inputs[SHIFT], column);
            if (moves)
                v += number_of(&c.inputs[ROW_SHIFT], row) *
                     number_of(&c.inputs[COLUMN_SHIFT], column);
            check_near(&c.outputs[0], (uint64_t)at, v, 0, &(Bound){1e-5, 1e-3, 0});
        }
        case_end(&c);
    }
}

/* Row scales that are too few, shifts without those of columns or without scales, and a result of bytes. */
TEST(test_refusals) {
    for (int wrong = 0; wrong < 5; wrong++) {
        static KernelCase c;
        const uint8_t zero = 3;
        case_begin_in(&c, "demi.fused", "QMatMul", 1);
        case_in(&c, DTYPE_UINT8, 2, CASE_DIMS(4, 8), NULL);
        case_in(&c, DTYPE_INT8, 2, CASE_DIMS(8, 5), NULL);
        case_omit(&c);
        if (wrong == 3)
            case_in(&c, DTYPE_UINT8, 0, NULL, &zero);
        else
            case_omit(&c);
        case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(5), NULL);
        for (int e = 0; e < 3; e++) case_omit(&c);
        if (wrong == 1)
            case_omit(&c);
        else
            case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(wrong == 0 ? 3 : 4, 1), NULL);
        case_in(&c, DTYPE_FLOAT, 2, CASE_DIMS(4, 1), NULL);
        if (wrong != 2) case_in(&c, DTYPE_FLOAT, 1, CASE_DIMS(5), NULL);
        for (uint32_t e = 0; e < c.call.input_count; e++)
            if (c.inputs[e].present && c.inputs[e].dtype == DTYPE_FLOAT)
                random_floats(&c.inputs[e]);
        random_bytes(&c.inputs[0]);
        random_bytes(&c.inputs[1]);
        case_out(&c, wrong == 3 ? DTYPE_UINT8 : DTYPE_FLOAT, 2, CASE_DIMS(4, 5));
        assert_int_equal(case_run(&c), wrong == 4);
        assert_int_equal(c.err.what[0] != 0, wrong != 4);
        case_end(&c);
    }
}
