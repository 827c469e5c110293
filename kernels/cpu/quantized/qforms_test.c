// SPDX-License-Identifier: Apache-2.0
/* QMul, QDiv and QMean against their definitions in double: bytes to the nearest, either where
 * two are as near, floats within rounding; random shapes, axes, zero points and types. */
#include "byte_case_test.h"

static const Dtype kinds[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_FLOAT};

static void check(const KernelTensor *y, uint64_t i, double v, int64_t zero) {
    check_near(y, i, v, zero, &(Bound){2e-6, 1e-9, 1e-4});
}

/* ---- products -------------------------------------------------------------------------------- */

/* a b, or a / b, which may be infinite, and where it is no number becomes the least byte. */
static double combine(bool divides, int64_t a, int64_t b) {
    if (!divides) return (double)(a * b);
    return a || b ? (double)a / (double)b : -HUGE_VAL;
}

TEST(test_products) {
    for (int i = 0; i < 400; i++) {
        const int64_t rows = 1 + random_below(5), columns = 1 + random_below(90);
        const int form = (int)random_below(3); /* B is as A, a row, a number for each row */
        const bool divides = i % 2;
        const Dtype y = kinds[random_below(divides ? 2 : 3)];
        const float factor = (divides ? 5.0f : 0.005f) * (float)(1 + random_below(9)),
                    bounds[] = {-40, 55};
        const bool bounded = !divides && random_below(2);
        static KernelCase c;
        case_begin_in(&c, "demi.fused", divides ? "QDiv" : "QMul", 1);
        case_in(&c, kinds[random_below(2)], 2, CASE_DIMS(rows, columns), NULL);
        case_in(&c, kinds[random_below(2)], 2,
                CASE_DIMS(form == 1 ? 1 : rows, form == 2 ? 1 : columns), NULL);
        random_bytes(&c.inputs[0]);
        random_bytes(&c.inputs[1]);
        case_in(&c, DTYPE_FLOAT, 0, NULL, &factor);
        const int64_t a_zero = given_zero(&c, c.inputs[0].dtype);
        const int64_t b_zero = given_zero(&c, c.inputs[1].dtype), zero = given_zero(&c, y);
        for (int k = 0; bounded && k < 2; k++) case_in(&c, DTYPE_FLOAT, 0, NULL, &bounds[k]);
        case_out(&c, y, 2, CASE_DIMS(rows, columns));
        if (!case_run(&c)) fail_msg("%s", c.err.what);
        for (int64_t k = 0; k < rows * columns; k++) {
            const int64_t other = form == 0 ? k : form == 1 ? k % columns : k / columns;
            double v =
                (double)factor * combine(divides, byte_of(&c.inputs[0], (uint64_t)k) - a_zero,
                                         byte_of(&c.inputs[1], (uint64_t)other) - b_zero);
            if (bounded) v = fmin(fmax(v, -40), 55);
            check(&c.outputs[0], (uint64_t)k, v, zero);
        }
        case_end(&c);
    }
}

/* ---- means ----------------------------------------------------------------------------------- */

typedef struct MeanCase {
    int64_t dims[3], axes[3], axis_count;
    bool reduced[3];
} MeanCase;

static MeanCase random_mean(int i) {
    static const int64_t sizes[] = {1, 2, 5, 7, 16, 33, 49, 100};
    MeanCase m = {.dims = {1 + random_below(3), sizes[random_below(8)], sizes[random_below(8)]}};
    if (i == 0) m = (MeanCase){.dims = {1, 1, 3000000}}; /* no 24 bits hold the sum */
    for (int64_t k = 0; k < 3; k++) {
        m.reduced[k] = i == 0 ? k == 2 : random_below(2);
        if (m.reduced[k]) m.axes[m.axis_count++] = random_below(2) ? k : k - 3;
    }
    for (int64_t k = 0; m.axis_count == 0 && k < 3; k++) m.reduced[k] = true;
    return m;
}

/* The sum of what belongs to element `to` of the result, and how many that are. */
static int64_t sum_of(const MeanCase *m, const KernelTensor *x, int64_t to, int64_t zero,
                      int64_t *count) {
    int64_t sum = 0;
    *count = 0;
    for (int64_t i = 0; i < (int64_t)x->count; i++) {
        const int64_t at[] = {i / (m->dims[1] * m->dims[2]), i / m->dims[2] % m->dims[1],
                              i % m->dims[2]};
        int64_t place = 0;
        for (int k = 0; k < 3; k++)
            if (!m->reduced[k]) place = place * m->dims[k] + at[k];
        if (place != to) continue;
        sum += byte_of(x, (uint64_t)i) - zero;
        ++*count;
    }
    return sum;
}

TEST(test_means) {
    for (int i = 0; i < 150; i++) {
        const MeanCase m = random_mean(i);
        const Dtype y = kinds[random_below(3)];
        const float factor = 0.25f * (float)(1 + random_below(9));
        int64_t kept[3];
        static KernelCase c;
        for (int k = 0; k < 3; k++) kept[k] = m.reduced[k] ? 1 : m.dims[k];
        case_begin_in(&c, "demi.fused", "QMean", 1);
        case_in(&c, kinds[random_below(2)], 3, m.dims, NULL);
        random_bytes(&c.inputs[0]);
        if (m.axis_count)
            case_in(&c, DTYPE_INT64, 1, &m.axis_count, m.axes);
        else
            case_omit(&c);
        const int64_t x_zero = given_zero(&c, c.inputs[0].dtype), zero = given_zero(&c, y);
        case_in(&c, DTYPE_FLOAT, 0, NULL, &factor);
        case_out(&c, y, 3, kept);
        if (!case_run(&c)) fail_msg("%s", c.err.what);
        for (int64_t k = 0; k < kept[0] * kept[1] * kept[2]; k++) {
            int64_t count;
            const int64_t sum = sum_of(&m, &c.inputs[0], k, x_zero, &count);
            check(&c.outputs[0], (uint64_t)k, (double)factor * (double)sum / (double)count, zero);
        }
        case_end(&c);
    }
}

/* What a plan may say that is wrong: an operand of floats, factors that are no number, a result of
 * another type than its zero point. */
TEST(test_refusals) {
    const float two[2] = {1, 1};
    const uint8_t zero = 0;
    for (int wrong = 0; wrong < 4; wrong++) {
        static KernelCase c;
        case_begin_in(&c, "demi.fused", "QMul", 1);
        case_in(&c, wrong == 0 ? DTYPE_FLOAT : DTYPE_UINT8, 1, CASE_DIMS(4), NULL);
        case_in(&c, DTYPE_INT8, 1, CASE_DIMS(4), NULL);
        case_in(&c, DTYPE_FLOAT, 1, wrong == 1 ? CASE_DIMS(2) : CASE_DIMS(1), two);
        for (int k = 0; k < 2; k++) case_omit(&c);
        case_in(&c, DTYPE_UINT8, 0, NULL, &zero);
        case_out(&c, wrong == 2 ? DTYPE_INT8 : DTYPE_UINT8, 1, CASE_DIMS(4));
        assert_int_equal(case_run(&c), wrong == 3);
        assert_int_equal(c.err.what[0] != 0, wrong != 3);
        case_end(&c);
    }
}
