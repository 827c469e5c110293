// SPDX-License-Identifier: Apache-2.0
/* Trials and comparisons as a program calls them: inputs of its own, verdicts, where a conversion
 * breaks, cancelling, and going on after an error. */
#define _DEFAULT_SOURCE /* mkstemps */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demi_trials.h"
#include "test_folder.h"
#include "test_source.h"
#include "unit_test.h"

/* y = (x W) V, where x W passes float16's range for inputs above 2; no constant does. */
static const char overflowing[] =
    "<ir_version: 8, opset_import: [\"\" : 17]>\n"
    "g (float[N,2] x) => (float[N,2] y)\n"
    "<float[2,2] w = {30000, 0, 0, 30000}, float[2,2] v = {0.0001, 0, 0, 0.0001}> {\n"
    "  [up] t = MatMul (x, w)\n"
    "  [down] y = MatMul (t, v)\n"
    "}";

/* The same without its last node's halving: another model for judging. */
static const char scaled[] =
    "<ir_version: 8, opset_import: [\"\" : 17]>\n"
    "g (float[N,2] x) => (float[N,2] y)\n"
    "<float[2,2] w = {30000, 0, 0, 30000}, float[2,2] v = {0.0002, 0, 0, 0.0002}> {\n"
    "  [up] t = MatMul (x, w)\n"
    "  [down] y = MatMul (t, v)\n"
    "}";

typedef struct Given {
    int64_t dims[2];
    float x[2][2];
    DemiData data[2];
    DemiInputValue values[2];
    DemiInputOptions options;
} Given;

/* Two sets, of which the second breaks float16. */
static void give(Given *g, float second) {
    *g = (Given){.dims = {1, 2}, .x = {{0.5f, 1}, {1, second}}};
    for (size_t i = 0; i < 2; i++) {
        DemiData data = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, g->dims, g->x[i]);
        g->data[i] = data;
        g->values[i] = (DemiInputValue){i, "x", &g->data[i]};
    }
    g->options = (DemiInputOptions)DEMI_INPUT_OPTIONS_INIT;
    g->options.values = g->values;
    g->options.value_count = 2;
}

static DemiTrials *open_trials(const char *text, const DemiTrialOptions *options) {
    DemiSource source = source_of(text);
    DemiTrials *trials = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (demi_trials_new(&source, options, &trials, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    return trials;
}

static DemiTrials *trials_on(Given *given) {
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    options.inputs = &given->options;
    return open_trials(overflowing, &options);
}

TEST(test_values_and_where_it_breaks) {
    Given given;
    give(&given, 4);
    DemiTrials *trials = trials_on(&given);
    DemiVerdict *verdict = NULL;
    assert_int_equal(demi_trials_set_count(trials), 2);
    assert_int_equal(demi_trials_run(trials, NULL, &verdict, NULL), DEMI_OK);
    const DemiVerdictTotals *totals = demi_verdict_totals(verdict);
    assert_true(totals->broken && isinf(totals->error));
    assert_int_equal(totals->sets, 2);
    assert_int_equal(demi_verdict_output_count(verdict), 1);
    assert_string_equal(demi_verdict_output(verdict, 0)->name, "y");
    assert_int_equal(demi_verdict_output(verdict, 0)->diff.broken, 2); /* Inf * 0 is NaN */
    assert_null(demi_verdict_output(verdict, 1));
    const DemiBroken *broken = demi_verdict_broken(verdict);
    assert_non_null(broken);
    assert_string_equal(broken->node, "up");
    assert_string_equal(broken->value, "t");
    assert_string_equal(broken->text,
                        "its output 't' is infinite in float16, where the source reaches 1.2e+05");
    demi_trials_free(trials); /* which a verdict outlives */
    assert_string_equal(broken->op_type, "MatMul");
    demi_verdict_free(verdict);
}

TEST(test_small_values_hold) {
    Given given;
    give(&given, 1.5f);
    DemiTrials *trials = trials_on(&given);
    DemiVerdict *verdict = NULL;
    assert_int_equal(demi_trials_run(trials, NULL, &verdict, NULL), DEMI_OK);
    assert_false(demi_verdict_totals(verdict)->broken);
    assert_true(demi_verdict_totals(verdict)->error < 1e-3);
    assert_null(demi_verdict_broken(verdict));
    demi_verdict_free(verdict);
    demi_trials_free(trials);
}

/* What calibration measures keeps the nodes in float that would break. */
TEST(test_calibration) {
    Given given;
    give(&given, 4);
    DemiTrials *trials = trials_on(&given);
    DemiRanges *ranges = NULL;
    DemiVerdict *verdict = NULL;
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    assert_int_equal(demi_trials_calibrate(trials, NULL, &ranges, NULL), DEMI_OK);
    bool found = false;
    for (size_t i = 0; i < demi_ranges_count(ranges); i++)
        found = found || !strcmp(demi_ranges_texts(ranges)[i], "t=120000");
    assert_true(found);
    assert_null(demi_ranges_item(ranges, demi_ranges_count(ranges)));
    convert.ranges = demi_ranges_texts(ranges);
    convert.range_count = demi_ranges_count(ranges);
    convert.allow_unmatched = true;
    assert_int_equal(demi_trials_run(trials, &convert, &verdict, NULL), DEMI_OK);
    assert_false(demi_verdict_totals(verdict)->broken);
    demi_ranges_free(ranges);
    demi_verdict_free(verdict);
    demi_trials_free(trials);
}

TEST(test_search) {
    Given given;
    give(&given, 4);
    DemiTrials *trials = trials_on(&given);
    DemiVerdict *verdict = NULL;
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    size_t count;
    assert_int_equal(demi_trials_search(trials, &convert, 0.01, &verdict, NULL), DEMI_OK);
    assert_true(demi_verdict_totals(verdict)->error <= 0.01);
    assert_true(demi_verdict_kept_count(verdict) > 0);
    assert_false(demi_verdict_totals(verdict)->stopped);
    assert_int_equal(demi_verdict_totals(verdict)->beyond, 0);
    convert.keep = demi_verdict_keep(verdict, &count);
    convert.keep_count = count;
    convert.allow_unmatched = true;
    DemiVerdict *again = NULL;
    assert_int_equal(demi_trials_run(trials, &convert, &again, NULL), DEMI_OK);
    assert_true(demi_verdict_totals(again)->error == demi_verdict_totals(verdict)->error);
    demi_verdict_free(again);
    demi_verdict_free(verdict);
    demi_trials_free(trials);
}

TEST(test_another_model) {
    Given given;
    give(&given, 1);
    DemiTrials *trials = trials_on(&given);
    DemiVerdict *verdict = NULL;
    DemiSource other = source_of(scaled), same = source_of(overflowing);
    assert_int_equal(demi_trials_judge(trials, &other, NULL, &verdict, NULL), DEMI_OK);
    assert_true(demi_verdict_totals(verdict)->limit.error == 1e-4); /* both are float */
    assert_int_equal(demi_verdict_totals(verdict)->beyond, 1);
    assert_true(fabs(demi_verdict_output(verdict, 0)->diff.error - 1) < 1e-5);
    demi_verdict_free(verdict);
    assert_int_equal(demi_trials_judge(trials, &same, NULL, &verdict, NULL), DEMI_OK);
    assert_int_equal(demi_verdict_totals(verdict)->beyond, 0);
    demi_verdict_free(verdict);
    demi_trials_free(trials);
}

/* After a call that failed the trials go on; the handle that was asked for is NULL. */
TEST(test_errors) {
    Given given;
    give(&given, 1);
    DemiTrials *trials = trials_on(&given);
    DemiVerdict *verdict = NULL;
    DemiError error = DEMI_ERROR_INIT;
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    const char *const keep[] = {"nowhere"};
    convert.keep = keep;
    convert.keep_count = 1;
    assert_int_equal(demi_trials_run(trials, &convert, &verdict, &error), DEMI_ERR_USAGE);
    assert_null(verdict);
    assert_non_null(strstr(error.message, "nowhere"));
    given.x[1][1] = 1; /* borrowed: what is there counts */
    assert_int_equal(demi_trials_run(trials, NULL, &verdict, NULL), DEMI_OK);
    demi_verdict_free(verdict);
    demi_trials_free(trials);
    /* A name that no input has is found when the set is run. */
    given.values[1].name = "z";
    trials = trials_on(&given);
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(demi_trials_run(trials, NULL, &verdict, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.hint, "did you mean 'x'? the inputs are: x float[N,2]");
    demi_trials_free(trials);
}

typedef struct Stop {
    const char *what;
    unsigned left; /* calls about `what` until it is cancelled; 0: never */
} Stop;

static bool stop(void *user, const char *what, size_t done, size_t total) {
    Stop *s = user;
    assert_true(done <= total);
    return strcmp(what, s->what) != 0 || s->left == 0 || --s->left > 0;
}

TEST(test_cancelling) {
    Given given;
    give(&given, 4);
    Stop at = {"calibrating", 2};
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    DemiVerdict *verdict = NULL;
    DemiRanges *ranges = NULL;
    DemiError error = DEMI_ERROR_INIT;
    options.inputs = &given.options;
    options.progress = stop;
    options.progress_user = &at;
    DemiTrials *trials = open_trials(overflowing, &options);
    assert_int_equal(demi_trials_calibrate(trials, NULL, &ranges, &error), DEMI_ERR_CANCELLED);
    assert_null(ranges);
    assert_int_equal(error.status, DEMI_ERR_CANCELLED);
    at = (Stop){"verifying", 1};
    assert_int_equal(demi_trials_run(trials, NULL, &verdict, NULL), DEMI_ERR_CANCELLED);
    assert_null(verdict);
    at = (Stop){"finding nodes to keep", 2}; /* all kept was good enough */
    assert_int_equal(demi_trials_search(trials, NULL, 0.01, &verdict, NULL), DEMI_OK);
    assert_true(demi_verdict_totals(verdict)->stopped);
    assert_int_equal(demi_verdict_kept_count(verdict), 2);
    demi_verdict_free(verdict);
    at = (Stop){"finding nodes to keep", 1};
    assert_int_equal(demi_trials_search(trials, NULL, 0.01, &verdict, NULL), DEMI_ERR_CANCELLED);
    assert_null(verdict);
    at.left = 0; /* and nothing of that is left */
    assert_int_equal(demi_trials_search(trials, NULL, 0.01, &verdict, NULL), DEMI_OK);
    assert_false(demi_verdict_totals(verdict)->stopped);
    demi_verdict_free(verdict);
    demi_trials_free(trials);
}

/* A run that takes long: the callback of its context ends it, and with it the trial. */
static bool never(void *user) {
    ++*(unsigned *)user;
    return false;
}

TEST(test_cancelled_run) {
    static const char endless[] =
        "<ir_version: 8, opset_import: [\"\" : 17]>\n"
        "g (float[1] x) => (float[1] y)\n<int64 m = {1099511627776}, bool c = {1}> {\n"
        "  y = Loop (m, c, x) <body = b (int64 i, bool go, float[1] s) => (bool on, float[1] t) {\n"
        "    on = Identity (go)\n    t = Add (s, s)\n  }>\n}";
    unsigned asked = 0;
    DemiContextOptions context = DEMI_CONTEXT_OPTIONS_INIT;
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    DemiVerdict *verdict = NULL;
    DemiError error = DEMI_ERROR_INIT;
    context.go_on = never;
    context.go_on_user = &asked;
    options.context = &context;
    DemiTrials *trials = open_trials(endless, &options);
    assert_int_equal(demi_trials_run(trials, NULL, &verdict, &error), DEMI_ERR_CANCELLED);
    assert_int_equal(error.status, DEMI_ERR_CANCELLED);
    assert_null(verdict);
    assert_int_equal(asked, 1);
    assert_int_equal(demi_trials_search(trials, NULL, 0.01, &verdict, NULL), DEMI_ERR_CANCELLED);
    demi_trials_free(trials);
}

/* A source by its path; options of loading need not stay. */
TEST(test_path) {
    DemiSource source = DEMI_SOURCE_INIT;
    DemiLoadOptions load = DEMI_LOAD_OPTIONS_INIT;
    DemiTrials *trials = NULL;
    DemiVerdict *verdict = NULL;
    char path[] = DEMI_TESTDATA "/models/conv_net.onnx";
    source.path = path;
    source.load = &load;
    assert_int_equal(demi_trials_new(&source, NULL, &trials, NULL), DEMI_OK);
    load.size = 0;
    path[0] = '?';
    assert_int_equal(demi_trials_run(trials, NULL, &verdict, NULL), DEMI_OK);
    assert_true(demi_verdict_totals(verdict)->error > 0);
    assert_string_equal(demi_verdict_totals(verdict)->assumed, "N 1");
    demi_verdict_free(verdict);
    demi_trials_free(trials);
}

/* Random sets differ, and their open sizes do. */
TEST(test_random_sets) {
    DemiInputOptions inputs = DEMI_INPUT_OPTIONS_INIT;
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    DemiVerdict *verdict = NULL;
    char text[] = "N=3";
    const char *const dims[] = {text};
    inputs.sets = 2;
    inputs.dims = dims;
    inputs.dim_count = 1;
    options.inputs = &inputs;
    DemiTrials *trials = open_trials(overflowing, &options);
    text[2] = '4'; /* it was copied */
    assert_int_equal(demi_trials_run(trials, NULL, &verdict, NULL), DEMI_OK);
    assert_int_equal(demi_verdict_output(verdict, 0)->diff.count, 6);
    assert_string_equal(demi_verdict_totals(verdict)->assumed, "");
    demi_verdict_free(verdict);
    demi_trials_free(trials);
}

/* ---- value by value -------------------------------------------------------------------------- */

static DemiComparison *compare(const char *a, const char *b, const DemiCompareOptions *options) {
    DemiSource reference = source_of(a), model = source_of(b);
    DemiComparison *comparison = NULL;
    DemiError error = DEMI_ERROR_INIT;
    if (demi_compare(&reference, &model, options, &comparison, &error) != DEMI_OK)
        fail_msg("%s", error.message);
    return comparison;
}

TEST(test_comparison) {
    Given given;
    give(&given, 1);
    DemiCompareOptions options = DEMI_COMPARE_OPTIONS_INIT;
    options.inputs = &given.options;
    DemiComparison *c = compare(overflowing, scaled, &options);
    assert_int_equal(demi_comparison_value_count(c), 2);
    assert_string_equal(demi_comparison_value(c, 0)->name, "t");
    assert_true(demi_comparison_value(c, 0)->diff.error == 0);
    assert_null(demi_comparison_value(c, 2));
    assert_string_equal(demi_comparison_first(c)->node, "down");
    assert_int_equal(demi_comparison_totals(c)->values_beyond, 1);
    assert_true(demi_comparison_totals(c)->beyond);
    assert_int_equal(demi_comparison_input_count(c), 1);
    assert_string_equal(demi_comparison_input(c, 0)->name, "x");
    assert_ptr_equal(demi_comparison_input_value(c, 0)->data, given.x[0]); /* the worse set */
    assert_int_equal(demi_comparison_totals(c)->sets, 2);
    assert_int_equal(demi_comparison_totals(c)->set, 0);
    assert_null(demi_comparison_input(c, 1));
    assert_int_equal(demi_comparison_advice(c)->state, DEMI_ADVICE_NONE);
    assert_int_equal(demi_comparison_advise(c, true, NULL), DEMI_OK); /* neither is low */
    assert_int_equal(demi_comparison_advice(c)->state, DEMI_ADVICE_NONE);
    demi_comparison_free(c);
}

/* A conversion with Inf: the advice is tried, and reaches the limit; cancelled, it was not. */
TEST(test_advice) {
    static char converted[8192];
    Given given;
    Stop at = {"trying which nodes to keep", 1};
    DemiModel *model = NULL;
    DemiCompareOptions options = DEMI_COMPARE_OPTIONS_INIT;
    DemiSource reference = source_of(overflowing), other = DEMI_SOURCE_INIT;
    DemiComparison *c = NULL;
    DemiError error = DEMI_ERROR_INIT;
    char path[200];
    size_t count;
    test_place(path, sizeof path, "demi_trials_XXXXXX.onnx");
    give(&given, 4);
    given.values[1].set = 0;
    given.values[0].set = 1;
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(open_text((void *)(uintptr_t)overflowing, &model, NULL), DEMI_OK);
    assert_int_equal(demi_convert(model, NULL, NULL, NULL), DEMI_OK);
    assert_int_equal(demi_save_file(model, path, NULL, NULL), DEMI_OK);
    demi_free(model);
    other.path = path;
    options.inputs = &given.options;
    options.progress = stop;
    options.progress_user = &at;
    assert_int_equal(demi_compare(&reference, &other, &options, &c, &error), DEMI_OK);
    assert_int_equal(demi_comparison_advise(c, true, &error), DEMI_ERR_CANCELLED);
    assert_int_equal(demi_comparison_advice(c)->state, DEMI_ADVICE_UNTRIED);
    assert_string_equal(demi_comparison_advice(c)->node, "up");
    at.left = 0;
    assert_int_equal(demi_comparison_advise(c, true, NULL), DEMI_OK);
    assert_int_equal(demi_comparison_advice(c)->state, DEMI_ADVICE_REACHES);
    const char *const *keep = demi_comparison_keep(c, &count);
    assert_true(count > 0);
    assert_string_equal(keep[0], "up");
    assert_true(demi_comparison_policy(c, converted, sizeof converted, NULL) > 0);
    assert_non_null(strstr(converted, "\"up\""));
    assert_int_equal(demi_comparison_value_count(c), 2); /* what was compared stays */
    demi_comparison_free(c);
    unlink(path);
}
