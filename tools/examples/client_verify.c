// SPDX-License-Identifier: Apache-2.0
/* Measures with libdemi how a conversion changes a model: the errors of its outputs, which values
 * come close to the limits of the type's range, which nodes must be kept in float32 for an error
 * bound, where two files differ, and where their results begin to differ. Inputs are random.
 *     client_verify MODEL CONVERTED BOUND
 * writes MODEL in float16 to CONVERTED. link_test.sh and client_verify.sh build and run it. */
#include <demi/demi_trials.h>

#include <stdio.h>
#include <string.h>

/* Counts calls for one purpose, and cancels the one with that number (0: none). */
typedef struct Watch {
    const char *what; /* the purpose */
    unsigned calls, cancel_at;
} Watch;

static bool watch(void *user, const char *what, size_t done, size_t total) {
    Watch *w = user;
    if (strcmp(what, w->what) != 0 || done > total) return true;
    return ++w->calls != w->cancel_at;
}

static DemiTrials *open_trials(const char *path, Watch *watched, DemiError *error) {
    DemiSource source = DEMI_SOURCE_INIT;
    DemiInputOptions inputs = DEMI_INPUT_OPTIONS_INIT;
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    DemiTrials *trials = NULL;
    source.path = path;
    inputs.sets = 3;
    options.inputs = &inputs;
    options.progress = watch;
    options.progress_user = watched;
    demi_trials_new(&source, &options, &trials, error);
    return trials;
}

static void verify(DemiTrials *trials, Watch *watched, DemiError *error) {
    DemiVerdict *verdict = NULL;
    *watched = (Watch){.what = "verifying"};
    if (demi_trials_run(trials, NULL, &verdict, error) != DEMI_OK) return;
    const DemiVerdictTotals *totals = demi_verdict_totals(verdict);
    printf("verified: off by %.3g on %zu sets, told %u times%s\n", totals->error, totals->sets,
           watched->calls, totals->broken ? ", broken" : "");
    for (size_t i = 0; i < demi_verdict_output_count(verdict); i++) {
        const DemiOutputError *output = demi_verdict_output(verdict, i);
        printf("  %s: %llu elements, %.3g of scale\n", output->name,
               (unsigned long long)output->diff.count, output->diff.error);
    }
    demi_verdict_free(verdict);
    *watched = (Watch){.what = "verifying", .cancel_at = 2};
    DemiError cancelled = DEMI_ERROR_INIT;
    if (demi_trials_run(trials, NULL, &verdict, &cancelled) == DEMI_ERR_CANCELLED && !verdict)
        printf("verified: %s after %u\n", cancelled.message, watched->calls);
}

static void calibrate(DemiTrials *trials, Watch *watched, DemiError *error) {
    DemiRanges *ranges = NULL;
    *watched = (Watch){.what = "calibrating"};
    if (demi_trials_calibrate(trials, NULL, &ranges, error) != DEMI_OK) return;
    printf("calibrated: %zu values reach 64, on %u sets\n", demi_ranges_count(ranges),
           watched->calls);
    for (size_t i = 0; i < demi_ranges_count(ranges); i++)
        printf("  %s\n", demi_ranges_texts(ranges)[i]);
    demi_ranges_free(ranges);
}

/* Cancels the search at call `cancel_at`; 0: runs it to its end. */
static void search(DemiTrials *trials, Watch *watched, unsigned cancel_at, double bound) {
    DemiVerdict *verdict = NULL;
    DemiError error = DEMI_ERROR_INIT;
    *watched = (Watch){.what = "finding nodes to keep", .cancel_at = cancel_at};
    DemiStatus status = demi_trials_search(trials, NULL, bound, &verdict, &error);
    if (status != DEMI_OK) {
        printf("searched: %s after %u%s%s\n", error.message, watched->calls,
               error.hint[0] ? "; " : "", error.hint);
        return;
    }
    const DemiVerdictTotals *totals = demi_verdict_totals(verdict);
    size_t patterns;
    demi_verdict_keep(verdict, &patterns);
    printf("searched: off by %.3g with %zu nodes kept, %zu patterns%s\n", totals->error,
           demi_verdict_kept_count(verdict), patterns, totals->stopped ? ", stopped" : "");
    for (size_t i = 0; i < demi_verdict_kept_count(verdict); i++)
        printf("  %s\n", demi_verdict_kept(verdict, i));
    demi_verdict_free(verdict);
}

static bool count(void *user, const DemiDifference *difference) {
    Watch *w = user;
    if (!w->calls) printf("  %s %s\n", demi_diff_kind_name(difference->kind), difference->name);
    return ++w->calls != w->cancel_at;
}

static bool count_line(void *user, const char *difference) {
    Watch *w = user;
    printf("  %s\n", difference);
    return ++w->calls != w->cancel_at;
}

static void differ(DemiModel *model, DemiModel *converted, const DemiSource *source,
                   DemiError *error) {
    Watch all = {0}, first = {.cancel_at = 1}, lines = {0};
    DemiError cancelled = DEMI_ERROR_INIT;
    if (demi_diff(model, converted, NULL, count, &all, error) != DEMI_OK) return;
    if (demi_diff(model, converted, NULL, count, &first, &cancelled) == DEMI_ERR_CANCELLED)
        printf("differ: %u times, %s after %u\n", all.calls, cancelled.message, first.calls);
    if (demi_against(converted, source, NULL, count_line, &lines, error) == DEMI_OK)
        printf("against: %u differences but for precision\n", lines.calls);
}

static void compare(const DemiSource *source, const char *converted, double bound,
                    DemiError *error) {
    DemiSource other = DEMI_SOURCE_INIT;
    DemiLimit limit = DEMI_LIMIT_INIT;
    DemiCompareOptions options = DEMI_COMPARE_OPTIONS_INIT;
    DemiComparison *comparison = NULL;
    Watch watched = {.what = "trying which nodes to keep"};
    other.path = converted;
    limit.error = bound;
    options.limit = &limit;
    options.progress = watch;
    options.progress_user = &watched;
    if (demi_compare(source, &other, &options, &comparison, error) == DEMI_OK &&
        demi_comparison_advise(comparison, true, error) == DEMI_OK) {
        const DemiComparedValue *first = demi_comparison_first(comparison);
        const DemiAdvice *advice = demi_comparison_advice(comparison);
        size_t kept;
        const char *const *keep = demi_comparison_keep(comparison, &kept);
        printf("compared: %zu values, %zu beyond, first %s\n",
               demi_comparison_value_count(comparison),
               demi_comparison_totals(comparison)->values_beyond, first ? first->name : "none");
        printf("advised: %s, %zu to keep, off by %.3g with them, a policy of %zu bytes\n",
               advice->state == DEMI_ADVICE_REACHES ? "reaches" : "does not reach", kept,
               advice->error, demi_comparison_policy(comparison, NULL, 0, error));
        for (size_t i = 0; i < kept; i++) printf("  %s\n", keep[i]);
    }
    demi_comparison_free(comparison);
}

/* Judges the other model by the default limits. */
static void judge(DemiTrials *trials, const char *converted, DemiError *error) {
    DemiSource source = DEMI_SOURCE_INIT;
    DemiVerdict *verdict = NULL;
    source.path = converted;
    if (demi_trials_judge(trials, &source, NULL, &verdict, error) == DEMI_OK)
        printf("judged: %zu beyond %g\n", demi_verdict_totals(verdict)->beyond,
               demi_verdict_totals(verdict)->limit.error);
    demi_verdict_free(verdict);
}

int main(int argc, char **argv) {
    DemiError error = DEMI_ERROR_INIT;
    DemiModel *model = NULL, *converted = NULL;
    DemiSource source = DEMI_SOURCE_INIT;
    Watch watched = {.what = ""};
    double bound;
    if (argc != 4 || sscanf(argv[3], "%lf", &bound) != 1) return DEMI_ERR_USAGE;
    source.path = argv[1];
    DemiTrials *trials = open_trials(argv[1], &watched, &error);
    if (error.status == DEMI_OK && demi_load_file(argv[1], NULL, &model, &error) == DEMI_OK &&
        demi_load_file(argv[1], NULL, &converted, &error) == DEMI_OK &&
        demi_convert(converted, NULL, NULL, &error) == DEMI_OK &&
        demi_save_file(converted, argv[2], NULL, &error) == DEMI_OK) {
        verify(trials, &watched, &error);
        calibrate(trials, &watched, &error);
        search(trials, &watched, 0, bound);
        search(trials, &watched, 2, bound);
        search(trials, &watched, 1, bound);
        judge(trials, argv[2], &error);
        differ(model, converted, &source, &error);
        compare(&source, argv[2], bound, &error);
    }
    if (error.status != DEMI_OK) fprintf(stderr, "%s\n", error.message);
    demi_free(model);
    demi_free(converted);
    demi_trials_free(trials);
    return (int)error.status;
}
