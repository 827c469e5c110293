// SPDX-License-Identifier: Apache-2.0
/* Moments of what steps give, against the vectors taken one by one: of matrices either way round, and of windows. */
#include "moment_watch.h"

#include <math.h>

#include "unit_test.h"

enum { RANK = 4 };

static DemiData made_value(const int64_t *dims, uint32_t rank) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= (uint64_t)dims[i];
    float *items = ARENA_ARRAY(&test_arena, float, count);
    uint32_t state = 8;
    for (uint64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        items[i] = (float)(state >> 8) * 0x1p-24f - 0.4f;
    }
    return (DemiData){.kind = DEMI_DATA_TENSOR_KIND,
                      .dtype = DEMI_FLOAT,
                      .rank = rank,
                      .dims = dims,
                      .data = items};
}

static void see(MomentWatch *watch, const char *name, const DemiData *value) {
    const DemiStep step = {.output_count = 1, .output_names = &name, .outputs = value};
    moment_watch_step(watch, &step);
}

static MomentWatch watch_of(const MomentRequest *request) {
    return moment_watch_new(request, 1, workers_new(&test_arena, 2), &test_arena);
}

/* The channel c of the picture at (row, column), which may lie in padding. */
static double pixel(const DemiData *x, int64_t picture, int64_t c, const int64_t at[2]) {
    if (at[0] < 0 || at[1] < 0 || at[0] >= x->dims[2] || at[1] >= x->dims[3]) return 0;
    const float *items = x->data;
    return (double)items[((picture * x->dims[1] + c) * x->dims[2] + at[0]) * x->dims[3] + at[1]];
}

/* The element k of a vector of the window that is `out`. */
static double window_item(const DemiData *x, const MomentWindow *w, const int64_t out[3],
                          int64_t k) {
    const int64_t taps = w->kernel[0] * w->kernel[1],
                  tap[2] = {k % taps / w->kernel[1], k % w->kernel[1]};
    int64_t at[2];
    for (int i = 0; i < 2; i++)
        at[i] = out[i + 1] * w->strides[i] + tap[i] * w->dilations[i] - w->pads[i];
    return pixel(x, out[0], k / taps, at);
}

static void check_windows(const MomentWindow *w, const int64_t dims[RANK], const int64_t outs[2],
                          int64_t groups) {
    const DemiData x = made_value(dims, RANK);
    const MomentRows rows = {.value = "x", .window = *w};
    const int64_t size = dims[1] / groups * w->kernel[0] * w->kernel[1];
    const MomentRequest request = {&rows, 1, (uint64_t)size, (uint64_t)groups};
    MomentWatch watch = watch_of(&request);
    see(&watch, "other", &x);
    see(&watch, "x", &x);
    moment_sums_end(watch.sums);
    assert_int_equal(watch.sums->vectors, dims[0] * outs[0] * outs[1]);
    assert_false(watch.odd[0]);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t i = 0; i < size; i++)
            for (int64_t k = 0; k < size; k++) {
                double sum = 0;
                for (int64_t v = 0; v < dims[0] * outs[0] * outs[1]; v++) {
                    const int64_t out[3] = {v / (outs[0] * outs[1]), v / outs[1] % outs[0],
                                            v % outs[1]};
                    sum += window_item(&x, w, out, g * size + i) *
                           window_item(&x, w, out, g * size + k);
                }
                assert_true(fabs((double)watch.sums->sums[(g * size + i) * size + k] - sum) < 1e-4);
            }
}

TEST(test_windows) {
    const int64_t dims[RANK] = {2, 6, 7, 9};
    MomentWindow w = {
        .axes = 2, .kernel = {3, 2}, .strides = {2, 1}, .dilations = {1, 2}, .pads = {1, 0, 1, 2}};
    check_windows(&w, dims, (const int64_t[]){4, 9}, 1);
    check_windows(&w, dims, (const int64_t[]){4, 9}, 3);
    w = (MomentWindow){.axes = 2, .kernel = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}};
    check_windows(&w, dims, (const int64_t[]){7, 9}, 1);
}

/* As many as a convolution with these pads has, whose pads follow from its sizes. */
TEST(test_windows_of_same_size) {
    for (int32_t same = -1; same <= 1; same += 2) {
        const int64_t dims[RANK] = {1, 1, 6, 6}, size = 16;
        const DemiData x = made_value(dims, RANK);
        MomentWindow w = {
            .axes = 2, .kernel = {4, 4}, .strides = {1, 1}, .dilations = {1, 1}, .same = same};
        const MomentRows rows = {.value = "x", .window = w};
        w.same = 0;
        for (int i = 0; i < 2; i++) {
            w.pads[i] = same > 0 ? 1 : 2;
            w.pads[2 + i] = same > 0 ? 2 : 1;
        }
        const MomentRows given = {.value = "x", .window = w};
        const MomentRequest one = {&rows, 1, (uint64_t)size, 1},
                            other = {&given, 1, (uint64_t)size, 1};
        MomentWatch a = watch_of(&one), b = watch_of(&other);
        see(&a, "x", &x);
        see(&b, "x", &x);
        assert_int_equal(a.sums->vectors, 36);
        assert_memory_equal(a.sums->sums, b.sums->sums, (size_t)(size * size) * sizeof(float));
    }
}

/* Of large pictures, windows in all columns. */
TEST(test_some_windows_of_many) {
    const int64_t dims[RANK] = {1, 1, 200, 128};
    const DemiData x = made_value(dims, RANK);
    const MomentRows rows = {
        .value = "x",
        .window = {.axes = 2, .kernel = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}}};
    const MomentRequest request = {&rows, 1, 1, 1};
    MomentWatch watch = watch_of(&request);
    for (int64_t i = 0; i < 200 * 128; i++) ((float *)x.data)[i] = i % 128 < 64;
    see(&watch, "x", &x);
    assert_true(watch.sums->vectors > 4000 && watch.sums->vectors <= 8192);
    const double share = (double)watch.sums->sums[0] / (double)watch.sums->vectors;
    assert_true(share > 0.45 && share < 0.55);
}

static void check_matrix(bool columns) {
    const int64_t dims[2] = {columns ? 5 : 40, columns ? 40 : 5};
    const DemiData x = made_value(dims, 2);
    const MomentRows rows = {.value = "x", .columns = columns};
    const MomentRequest request = {&rows, 1, 5, 1};
    MomentWatch watch = watch_of(&request);
    const float *items = x.data;
    see(&watch, "x", &x);
    see(&watch, "x", &x);
    moment_sums_end(watch.sums);
    assert_int_equal(watch.sums->vectors, 80);
    for (uint64_t i = 0; i < 5; i++)
        for (uint64_t k = 0; k < 5; k++) {
            double sum = 0;
            for (uint64_t v = 0; v < 40; v++)
                sum += 2 * (double)items[columns ? i * 40 + v : v * 5 + i] *
                       (double)items[columns ? k * 40 + v : v * 5 + k];
            assert_true(fabs((double)watch.sums->sums[i * 5 + k] - sum) < 1e-4);
        }
}

TEST(test_matrices) {
    check_matrix(false);
    check_matrix(true);
}

/* Inputs are read by several steps, but count once in a run; what is of another form is known to be. */
TEST(test_inputs_and_forms) {
    const int64_t dims[2] = {4, 5};
    const DemiData x = made_value(dims, 2);
    const MomentRows rows[] = {{.value = "x"}, {.value = "y"}};
    const MomentRequest requests[] = {{&rows[0], 1, 5, 1}, {&rows[1], 1, 6, 1}};
    MomentWatch watch = moment_watch_new(requests, 2, workers_new(&test_arena, 1), &test_arena);
    const char *const name = "x";
    const DemiStep step = {.input_count = 1, .input_names = &name, .inputs = &x};
    for (int run = 0; run < 2; run++) {
        moment_watch_begin(&watch);
        moment_watch_step(&watch, &step);
        moment_watch_step(&watch, &step);
    }
    assert_int_equal(watch.sums[0].vectors, 8);
    assert_false(watch.odd[0] || watch.odd[1] || watch.bad);
    see(&watch, "y", &x);
    assert_true(watch.odd[1]);
    ((float *)x.data)[3] = NAN;
    see(&watch, "x", &x);
    assert_string_equal(watch.bad, "x");
}
