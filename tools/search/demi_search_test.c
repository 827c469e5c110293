// SPDX-License-Identifier: Apache-2.0
/* A search as a program calls it: scores of groups by a callback of its own, and rules of a runtime. */
#define _GNU_SOURCE /* open_memstream */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demi_search.h"
#include "test_source.h"
#include "unit_test.h"

/* The second product is what a score of one's own may hold dear. */
static const char two[] =
    "<ir_version: 8, opset_import: [\"\" : 17]>\n"
    "g (float[2,2] x) => (float[2,2] y)\n"
    "<float[2,2] w = {0.3, 0.7, 0.2, 0.9}, float[2,2] v = {1.1, 0.4, 0.6, 0.8}> {\n"
    "  [first] t = MatMul (x, w)\n"
    "  [second] y = MatMul (t, v)\n"
    "}";

typedef struct Asked {
    size_t count;
    size_t fail; /* at which call; 0: never */
} Asked;

/* True where the text has the name behind a DequantizeLinear. */
static bool is_quantized(const char *text, const char *name) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s = DequantizeLinear", name);
    return strstr(text, wanted);
}

static bool write(void *user, const void *bytes, size_t size) {
    return fwrite(bytes, 1, size, user) == size;
}

/* 1, less a half where v is quantized, which w may be for nothing. */
static DemiStatus score(void *user, DemiModel *model, double *found, DemiError *error) {
    Asked *asked = user;
    char *text = NULL;
    size_t size = 0;
    DemiRunOptions run = DEMI_RUN_OPTIONS_INIT;
    FILE *file = open_memstream(&text, &size);
    run.text = write;
    run.text_user = file;
    const DemiStatus status = demi_run_pipeline(model, "print", &run, NULL, error);
    fclose(file);
    *found = is_quantized(text, "v") ? 0.5 : 1;
    free(text);
    demi_free(model);
    if (++asked->count == asked->fail) return DEMI_ERR_ENV;
    return status;
}

static DemiSearchOptions options_of(Asked *asked) {
    static const char *const candidates[] = {"float", "w8"};
    DemiSearchOptions options = DEMI_SEARCH_OPTIONS_INIT;
    options.candidates = candidates;
    options.candidate_count = 2;
    options.metric = DEMI_METRIC_SCORE;
    options.score = score;
    options.score_user = asked;
    options.target = 0.9;
    options.sensitivity = DEMI_SENSITIVITY_SCORE;
    return options;
}

static double noise_of(const DemiSearch *search, const char *name) {
    for (size_t i = 0; i < demi_search_group_count(search); i++)
        if (strcmp(demi_search_group(search, i)->name, name) == 0)
            return demi_search_group(search, i)->noise[1];
    return NAN;
}

TEST(test_scores_of_groups) {
    Asked asked = {0};
    const DemiSource source = source_of(two);
    const DemiSearchOptions options = options_of(&asked);
    DemiSearch *search = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (demi_search_run(&source, &options, &search, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    assert_true(noise_of(search, "x") == 0);
    assert_true(noise_of(search, "t") == 0.5);
    assert_non_null(strstr(demi_search_policy(search), "\"w\": \"int8\""));
    assert_null(strstr(demi_search_policy(search), "\"v\": \"int8\""));
    demi_search_free(search);
    for (size_t at = 1; at <= asked.count; at++) { /* whichever of them fails */
        Asked again = {.fail = at};
        const DemiSearchOptions failing = options_of(&again);
        assert_int_equal(demi_search_run(&source, &failing, &search, &error), DEMI_ERR_ENV);
        assert_null(search);
    }
}

TEST(test_runtime) {
    static const char *const candidates[] = {"float", "a8w8"};
    const DemiSource source = source_of(two);
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    DemiSearchOptions options = DEMI_SEARCH_OPTIONS_INIT;
    DemiSearch *search = NULL;
    DemiError error = DEMI_ERROR_INIT;
    convert.runtime = DEMI_RUNTIME_TENSORRT;
    options.convert = &convert;
    options.candidates = candidates;
    options.candidate_count = 2;
    options.target = 10;
    if (demi_search_run(&source, &options, &search, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    assert_int_equal(demi_search_totals(search)->runtime, DEMI_RUNTIME_TENSORRT);
    assert_string_equal(demi_search_candidate_type(search, 1, false), "int8");
    assert_string_equal(demi_search_candidate_type(search, 0, true), "float");
    assert_null(demi_search_candidate_type(search, 2, true));
    demi_search_free(search);
    convert.symmetric = true;
    options.candidates = (const char *const[]){"float", "a16w8"};
    assert_int_equal(demi_search_run(&source, &options, &search, &error), DEMI_ERR_USAGE);
    assert_non_null(strstr(error.message, "'a16w8'"));
}

TEST(test_refusals) {
    Asked asked = {0};
    const DemiSource source = source_of(two);
    DemiSearchOptions options = options_of(&asked);
    DemiSearch *search = NULL;
    options.sensitivity = DEMI_SENSITIVITY_MEASURED;
    options.sensitivity_score = score;
    assert_int_equal(demi_search_run(&source, &options, &search, NULL), DEMI_ERR_USAGE);
    options.metric = DEMI_METRIC_SQNR;
    options.sensitivity = DEMI_SENSITIVITY_SCORE;
    options.sensitivity_score = options.score = NULL;
    assert_int_equal(demi_search_run(&source, &options, &search, NULL), DEMI_ERR_USAGE);
    options.sensitivity = (DemiSearchSensitivity)3;
    assert_int_equal(demi_search_run(&source, &options, &search, NULL), DEMI_ERR_USAGE);
}
