// SPDX-License-Identifier: Apache-2.0
/* demi_diff and demi_against as a program calls them: differences as items, cancelling, models of a
 * callback, and errors that say which file is meant. */
#include <stdio.h>
#include <string.h>

#include "demi_trials.h"
#include "test_source.h"
#include "unit_test.h"

static const char net[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                          "g (float[2] x) => (float[2] y) { h = Abs (x) y = Neg (h) }";
static const char other[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                            "g (float[2] x) => (float[2] y) { h = Exp (x) y = Neg (h) }";

static DemiModel *load(const char *text) {
    DemiModel *model = NULL;
    assert_int_equal(demi_load_memory(text, strlen(text), NULL, &model, NULL), DEMI_OK);
    return model;
}

typedef struct Seen {
    unsigned count, most; /* most: cancelled then; 0: never */
    char first[200];
} Seen;

static bool count_difference(void *user, const DemiDifference *difference) {
    Seen *seen = user;
    if (!seen->count++)
        snprintf(seen->first, sizeof seen->first, "%s %s %s %s>%s",
                 demi_diff_kind_name(difference->kind), difference->name, difference->what,
                 difference->a, difference->b);
    return seen->count != seen->most;
}

static bool count_line(void *user, const char *line) {
    Seen *seen = user;
    if (!seen->count++) snprintf(seen->first, sizeof seen->first, "%s", line);
    return seen->count != seen->most;
}

TEST(test_differences) {
    DemiModel *a = load(net), *b = load(other);
    DemiError error = DEMI_ERROR_INIT;
    Seen seen = {0};
    assert_int_equal(demi_diff(a, b, NULL, count_difference, &seen, &error), DEMI_OK);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.first, "node h operator Abs>Exp");
    seen = (Seen){0};
    assert_int_equal(demi_diff(a, a, NULL, count_difference, &seen, &error), DEMI_OK);
    assert_int_equal(seen.count, 0);
    seen = (Seen){.most = 1};
    assert_int_equal(demi_diff(a, b, NULL, count_difference, &seen, &error), DEMI_ERR_CANCELLED);
    assert_int_equal(error.status, DEMI_ERR_CANCELLED);
    demi_free(a);
    demi_free(b);
}

static bool drop(void *user, const void *bytes, size_t size) {
    (void)user, (void)bytes, (void)size;
    return true;
}

/* A model that was used up is not compared, on either side. */
TEST(test_used_up) {
    DemiModel *gone = load(net), *whole = load(net);
    const DemiSource source = source_of(net);
    Seen seen = {0};
    assert_int_equal(demi_compile(gone, NULL, drop, NULL, NULL), DEMI_OK);
    for (int i = 0; i < 3; i++) {
        DemiError error = DEMI_ERROR_INIT;
        if (i == 0) demi_diff(gone, whole, NULL, count_difference, &seen, &error);
        if (i == 1) demi_diff(whole, gone, NULL, count_difference, &seen, &error);
        if (i == 2) demi_against(gone, &source, NULL, count_line, &seen, &error);
        assert_int_equal(error.status, DEMI_ERR_USAGE);
        assert_non_null(strstr(error.message, "compiled"));
    }
    assert_int_equal(seen.count, 0);
    demi_free(gone);
    demi_free(whole);
}

/* What a walk by names does not see is found by `strict` alone. */
TEST(test_strict) {
    static const char renamed[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                                  "f (float[2] x) => (float[2] y) { h = Abs (x) y = Neg (h) }";
    DemiModel *a = load(net), *b = load(renamed);
    DemiDiffOptions strict = DEMI_DIFF_OPTIONS_INIT;
    Seen seen = {0};
    assert_int_equal(demi_diff(a, b, &strict, count_difference, &seen, NULL), DEMI_OK);
    assert_int_equal(seen.count, 0);
    strict.strict = true;
    assert_int_equal(demi_diff(a, b, &strict, count_difference, &seen, NULL), DEMI_OK);
    assert_int_equal(seen.count, 1);
    demi_free(a);
    demi_free(b);
}

TEST(test_against) {
    const DemiSource source = source_of(net);
    DemiModel *converted = load(net), *wrong = load(other);
    DemiError error = DEMI_ERROR_INIT;
    Seen seen = {0};
    assert_int_equal(demi_convert(converted, NULL, NULL, &error), DEMI_OK);
    assert_int_equal(demi_against(converted, &source, NULL, count_line, &seen, &error), DEMI_OK);
    assert_int_equal(seen.count, 0);
    assert_int_equal(demi_against(wrong, &source, NULL, count_line, &seen, &error), DEMI_OK);
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.first, "node 'h' (Abs) of the reference is missing");
    seen = (Seen){.most = 1};
    assert_int_equal(demi_against(wrong, &source, NULL, count_line, &seen, &error),
                     DEMI_ERR_CANCELLED);
    assert_int_equal(seen.count, 1);
    demi_free(converted);
    demi_free(wrong);
}

TEST(test_made_by) {
    const DemiSource source = source_of(net);
    DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
    DemiAgainstOptions options = DEMI_AGAINST_OPTIONS_INIT;
    DemiModel *model = load(net);
    Seen seen = {0};
    options.made_by = &convert;
    const char *const low[] = {"+Abs", "+Neg"};
    convert.low_ops = low;
    convert.low_op_count = 2;
    assert_int_equal(demi_against(model, &source, &options, count_line, &seen, NULL), DEMI_OK);
    assert_true(seen.count > 0); /* the model was not converted */
    assert_memory_equal(seen.first, "by the policy: ", 15);
    demi_free(model);
}

TEST(test_errors) {
    DemiSource source = DEMI_SOURCE_INIT;
    DemiModel *model = load(net);
    DemiError error = DEMI_ERROR_INIT;
    Seen seen = {0};
    assert_int_equal(demi_against(model, &source, NULL, count_line, &seen, &error), DEMI_ERR_USAGE);
    source.path = "/nowhere.onnx";
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(demi_against(model, &source, NULL, count_line, &seen, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.file, "/nowhere.onnx");
    source.size = 0;
    error = (DemiError)DEMI_ERROR_INIT;
    assert_int_equal(demi_against(model, &source, NULL, count_line, &seen, &error), DEMI_ERR_USAGE);
    assert_string_equal(error.what, "options without a size: use the INIT macro");
    assert_int_equal(seen.count, 0);
    demi_free(model);
}
