// SPDX-License-Identifier: Apache-2.0
/* A model, or a plan, to what runs it in one call. */
#define _DEFAULT_SOURCE /* mkstemps */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demi_trials.h"
#include "test_folder.h"
#include "test_source.h"
#include "unit_test.h"

/* y = x + w */
static const char model_text[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                                 "g (float[N,2] x) => (float[N,2] y)\n"
                                 "<float[2] w = {3, 4}> { y = Add (x, w) }";

static void check_runs(DemiContext *context) {
    static const int64_t dims[] = {1, 2};
    static const float x[] = {1, 2};
    const DemiData data = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, x);
    DemiPlanIo io = DEMI_PLAN_IO_INIT;
    assert_true(demi_plan_input(demi_context_plan(context), 0, &io));
    assert_string_equal(io.name, "x");
    assert_string_equal(io.dim_names[0], "N");
    assert_int_equal(demi_context_set_input(context, "x", &data, NULL), DEMI_OK);
    assert_int_equal(demi_context_run(context, NULL), DEMI_OK);
    const float *y = demi_context_output(context, 0)->data;
    assert_float_equal(y[0], 4, 0);
    assert_float_equal(y[1], 6, 0);
}

TEST(test_model) {
    const DemiSource source = source_of(model_text);
    DemiContext *context;
    DemiError error = DEMI_ERROR_INIT;
    assert_int_equal(demi_context_open(&source, NULL, NULL, &context, &error), DEMI_OK);
    check_runs(context);
    demi_context_free(context);
}

static bool write_file(void *file, const void *bytes, size_t size) {
    return fwrite(bytes, 1, size, file) == size;
}

TEST(test_plan) {
    char path[200];
    test_place(path, sizeof path, "demi_open_XXXXXX.plan");
    const int fd = mkstemps(path, 5);
    FILE *file = fdopen(fd, "wb");
    DemiModel *model;
    DemiSource source = DEMI_SOURCE_INIT;
    DemiContext *context;
    DemiError error = DEMI_ERROR_INIT;
    assert_int_equal(open_text((void *)(uintptr_t)model_text, &model, NULL), DEMI_OK);
    assert_int_equal(demi_compile(model, NULL, write_file, file, NULL), DEMI_OK);
    demi_free(model);
    fclose(file);
    source.path = path;
    assert_int_equal(demi_context_open(&source, NULL, NULL, &context, &error), DEMI_OK);
    check_runs(context);
    demi_context_free(context);
    unlink(path);
    DemiPlan *plan;
    assert_int_equal(demi_plan_open(&source, NULL, &plan, &error), DEMI_ERR_USAGE);
    assert_null(plan);
    assert_string_equal(error.file, path);
}

TEST(test_wrong) {
    static const struct {
        const char *text;
        DemiStatus status;
    } cases[] = {{"nonsense", DEMI_ERR_MODEL},
                 {"<ir_version: 8, opset_import: [\"\" : 17]>\n"
                  "g (float[2] x) => (float[2] y) { y = Nothing (x) }",
                  DEMI_ERR_MODEL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const DemiSource source = source_of(cases[i].text);
        DemiContext *context = (DemiContext *)&source;
        DemiError error = DEMI_ERROR_INIT;
        assert_int_equal(demi_context_open(&source, NULL, NULL, &context, &error), cases[i].status);
        assert_int_equal(error.status, cases[i].status);
        assert_null(context);
    }
    const DemiSource nothing = DEMI_SOURCE_INIT, good = source_of(model_text);
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    DemiContext *context;
    options.kernels = (DemiKernels)9;
    assert_int_equal(demi_context_open(&nothing, NULL, NULL, &context, NULL), DEMI_ERR_USAGE);
    assert_int_equal(demi_context_open(&good, NULL, &options, &context, NULL), DEMI_ERR_USAGE);
    assert_null(context);
}
