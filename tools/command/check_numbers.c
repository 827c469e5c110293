// SPDX-License-Identifier: Apache-2.0
/* Running a model beside its reference; see check_numbers.h. */
#include "check_numbers.h"

#include <string.h>

#include "judge_text.h"
#include "report_out.h"
#include "run_options.h"

bool check_numbers_asked(const Parsed *parsed) {
    return parsed_value(parsed, "data") || parsed_flag(parsed, "random") ||
           parsed_flag(parsed, "input") || parsed_value(parsed, "max-error") ||
           parsed_value(parsed, "atol");
}

bool check_numbers_run(const CheckPair *pair, DemiVerdict **verdict, Err *err) {
    ConsoleModel reference = pair->reference, model = pair->model;
    DemiError error = DEMI_ERROR_INIT;
    DemiTrialOptions options = DEMI_TRIAL_OPTIONS_INIT;
    DemiSource reference_source = console_source(&reference), source = console_source(&model);
    DemiTrials *trials = NULL;
    DemiLimit limit;
    SessionOptions run;
    if (!parsed_limit(model.parsed, &limit, err) || !run_options_fill(&reference, true, &run, err))
        return false;
    run.inputs.random = true;
    options.inputs = &run.inputs;
    options.compile = &run.compile;
    options.context = &run.context;
    DemiStatus status = demi_trials_new(&reference_source, &options, &trials, &error);
    if (status == DEMI_OK) status = demi_trials_judge(trials, &source, &limit, verdict, &error);
    demi_trials_free(trials);
    return error_take(err, status, &error);
}

static void print_picks(const DemiVerdict *verdict, const DemiLimit *limit, FILE *out) {
    for (size_t i = 0; i < demi_verdict_pick_count(verdict); i++) {
        const DemiPick *pick = demi_verdict_pick(verdict, i);
        pick_print(pick, out);
        if (demi_pick_beyond(limit, pick)) fprintf(out, "; beyond %g", limit->error);
        fputc('\n', out);
    }
}

void check_numbers_print(const DemiVerdict *verdict, Arena *arena, FILE *out) {
    const DemiVerdictTotals *totals = demi_verdict_totals(verdict);
    const DemiLimit *limit = &totals->limit;
    size_t beyond = 0, count = demi_verdict_output_count(verdict);
    for (size_t i = 0; i < count; i++) {
        const DemiOutputError *worst = demi_verdict_output(verdict, i);
        bool is_beyond = demi_limit_beyond(limit, &worst->diff);
        fputs("output '", out);
        report_put(out, worst->name, strlen(worst->name));
        fprintf(out, "': %s", output_error_text(arena, &worst->diff));
        beyond += is_beyond;
        if (is_beyond) fprintf(out, "; beyond %g", limit->error);
        if (worst->set[0] && totals->sets > 1) {
            fputs(", with ", out);
            report_put(out, worst->set, strlen(worst->set));
        }
        fputc('\n', out);
    }
    print_picks(verdict, limit, out);
    fprintf(out, "%zu of %zu outputs beyond %g of scale, over %zu set%s of inputs\n", beyond, count,
            limit->error, totals->sets, totals->sets == 1 ? "" : "s");
}

void check_numbers_json(const DemiVerdict *verdict, JsonWriter *json) {
    const DemiVerdictTotals *totals = demi_verdict_totals(verdict);
    json_open(json, "numbers", '{');
    json_number(json, "max_error", totals->limit.error);
    json_number(json, "atol", totals->limit.least);
    json_unsigned(json, "sets", totals->sets);
    json_unsigned(json, "beyond", totals->beyond);
    json_open(json, "outputs", '[');
    for (size_t i = 0; i < demi_verdict_output_count(verdict); i++) {
        const DemiOutputError *worst = demi_verdict_output(verdict, i);
        json_open(json, NULL, '{');
        json_text(json, "name", worst->name);
        if (worst->set[0]) json_text(json, "set", worst->set);
        output_error_json(json, &worst->diff, &totals->limit);
        json_close(json, '}');
    }
    json_close(json, ']');
    picks_json(json, verdict, &totals->limit);
    json_close(json, '}');
}
