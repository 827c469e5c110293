// SPDX-License-Identifier: Apache-2.0
/* Memory runs out at allocation after allocation, once and for good, in trials, searches,
 * calibration, comparisons and differences: each time the answer is "out of memory" or success, what
 * was asked for is NULL or whole, and nothing leaks. */
#include <stdio.h>
#include <string.h>

#include "demi_trials.h"
#include "test_faults.h"
#include "test_source.h"
#include "unit_test.h"

static const char net[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                          "g (float[2,2] x) => (float[2,2] y)\n"
                          "<float[2,2] w = {0.3, 0.7, 0.1, 0.9}> {\n"
                          "  t = MatMul (x, w)\n"
                          "  y = Relu (t)\n"
                          "}";
static const char low[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                          "g (float[2,2] x) => (float[2,2] y)\n"
                          "<float16[2,2] w = {0.3v, 0.7v, 0.1v, 0.9v}> {\n"
                          "  c = Cast <to = 10> (x)\n"
                          "  t = MatMul (c, w)\n"
                          "  u = Relu (t)\n"
                          "  y = Cast <to = 1> (u)\n"
                          "}";

static bool drop(void *user, const DemiDifference *difference) {
    (void)user;
    return difference->name != NULL;
}

static bool drop_line(void *user, const char *line) {
    (void)user;
    return line[0];
}

/* Each does all of one kind; the status is that of the first call that failed. */
typedef DemiStatus (*Work)(DemiError *error);

static DemiStatus differ(DemiError *error) {
    DemiModel *a = NULL, *b = NULL;
    DemiSource source = source_of(net);
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    DemiAgainstOptions options = DEMI_AGAINST_OPTIONS_INIT;
    options.made_by = &convert;
    DemiStatus status = open_text((void *)(uintptr_t)net, &a, error);
    if (!status) status = open_text((void *)(uintptr_t)low, &b, error);
    if (!status) status = demi_diff(a, b, NULL, drop, NULL, error);
    if (!status) status = demi_against(b, &source, &options, drop_line, NULL, error);
    demi_free(a);
    demi_free(b);
    return status;
}

static DemiTrialOptions options_of(const DemiContextOptions *context,
                                   const DemiInputOptions *inputs) {
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    options.context = context;
    options.inputs = inputs;
    return options;
}

static DemiStatus try_all(DemiError *error) {
    DemiTrials *trials = NULL;
    DemiVerdict *verdict = NULL, *found = NULL, *judged = NULL;
    DemiRanges *ranges = NULL;
    DemiSource source = source_of(net), other = source_of(low);
    DemiContextOptions context = DEMI_CONTEXT_OPTIONS_INIT;
    DemiInputOptions inputs = DEMI_INPUT_OPTIONS_INIT;
    context.threads = 1;
    DemiTrialOptions options = options_of(&context, &inputs);
    DemiStatus status = demi_trials_new(&source, &options, &trials, error);
    if (!status) status = demi_trials_run(trials, NULL, &verdict, error);
    if (!status) status = demi_trials_search(trials, NULL, 1e-9, &found, error);
    if (!status) assert_false(demi_verdict_totals(found)->stopped); /* nobody did */
    if (!status) status = demi_trials_judge(trials, &other, NULL, &judged, error);
    if (!status) status = demi_trials_calibrate(trials, NULL, &ranges, error);
    if (!status) assert_true(verdict && found && judged && ranges);
    demi_verdict_free(verdict);
    demi_verdict_free(found);
    demi_verdict_free(judged);
    demi_ranges_free(ranges);
    demi_trials_free(trials);
    return status;
}

static DemiStatus compare(DemiError *error) {
    DemiComparison *comparison = NULL;
    DemiSource source = source_of(net), other = source_of(low);
    DemiContextOptions context = DEMI_CONTEXT_OPTIONS_INIT;
    DemiCompareOptions options = DEMI_COMPARE_OPTIONS_INIT;
    const DemiLimit limit = {sizeof limit, 1e-9, 0};
    context.threads = 1;
    options.context = &context;
    options.limit = &limit;
    DemiStatus status = demi_compare(&source, &other, &options, &comparison, error);
    if (!status) status = demi_comparison_advise(comparison, true, error);
    demi_comparison_free(comparison);
    return status;
}

/* Every point to 300, then every `step`th. */
static void fail_everywhere(Work work, bool for_good, bool arenas, unsigned step) {
    unsigned point = 0;
    for (unsigned failed = 1; failed; point += point < 300 ? 1 : step) {
        DemiError error = DEMI_ERROR_INIT;
        faults =
            (struct Faults){.armed = true, .for_good = for_good, .arenas = arenas, .left = point};
        DemiStatus status = work(&error);
        failed = faults.failed;
        faults.armed = false;
        if (!failed && status) fail_msg("%s", error.message);
        if (status && (status != DEMI_ERR_ENV || !strstr(error.message, "out of memory")))
            fail_msg("allocation %u: status %d, '%s'", point, (int)status, error.message);
        assert_true(point < 1000000);
    }
    print_message("%u allocations\n", point);
}

static void fail_each_way(Work work, unsigned step) {
    for (int way = 0; way < 4; way++) fail_everywhere(work, way % 2, way / 2, way / 2 ? step : 1);
}

TEST(test_differences) {
    fail_each_way(differ, 3);
}

TEST(test_trials) {
    fail_each_way(try_all, 7);
}

TEST(test_comparisons) {
    fail_each_way(compare, 7);
}
