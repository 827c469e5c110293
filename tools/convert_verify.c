// SPDX-License-Identifier: Apache-2.0
/* Calibration, then verification; see convert_verify.h. */
#include "convert_verify.h"

#include <string.h>

#include "keep_search.h"
#include "report_out.h"

static bool calibrate(Program *program, const Parsed *parsed, const char *path,
                      DemiConvertOptions *options, Verified *verified, Err *err) {
    Trials trials;
    Words ranges = {0};
    for (size_t i = 0; i < options->range_count; i++)
        VEC_PUSH(program->arena, &ranges, options->ranges[i]);
    /* Names that the user gave must match; what was measured may be gone once the opset is
     * raised. */
    bool ok = trials_open(&trials, program, parsed, path, parsed_value(parsed, "calibrate"), err) &&
              trials_try(&trials, options, err) && trials_ranges(&trials, &ranges, err);
    options->allow_unmatched = true;
    verified->calibrated = trials.sets.count;
    verified->ranges = ranges.count - options->range_count;
    trials_close(&trials);
    options->ranges = ranges.items;
    options->range_count = ranges.count;
    return ok;
}

static bool measure(Trials *trials, DemiConvertOptions *options, Verified *verified, Err *err) {
    size_t before = options->keep_count;
    bool ok = verified->bounded
                  ? keep_search(trials, options, verified->most, &verified->result, err)
                  : trials_run(trials, options, &verified->result, err);
    verified->kept = options->keep_count - before;
    verified->trials = trials->done;
    verified->sets = trials->sets.count;
    return ok;
}

bool verify_run(Program *program, const Parsed *parsed, const char *path,
                DemiConvertOptions *options, Verified *verified, Err *err) {
    Trials trials;
    const char *from = parsed_value(parsed, "verify");
    verified->bounded = parsed_flag(parsed, "max-error");
    if (!session_real(parsed, "max-error", &verified->most, 0, err)) return false;
    if (verified->bounded && !from) {
        err_set(err, ERR_USAGE, "'--max-error' needs inputs to measure it on");
        err_hint(err, "give --verify DIR, or --verify random");
        return false;
    }
    if (parsed_flag(parsed, "calibrate") &&
        !calibrate(program, parsed, path, options, verified, err))
        return false;
    if (!from) return true;
    bool ok = trials_open(&trials, program, parsed, path, from, err) &&
              measure(&trials, options, verified, err);
    trials_close(&trials);
    return ok;
}

/* ---- saying it ------------------------------------------------------------------------------- */

static void print_outputs(const Verified *v, FILE *out) {
    static const char *const ending[] = {"s", ""};
    for (size_t i = 0; i < v->result.outputs.count; i++) {
        const OutputError *row = &v->result.outputs.items[i];
        fputs("verified ", out);
        report_put(out, row->output, strlen(row->output));
        if (row->diff.mismatch || row->diff.special)
            fprintf(out, ": %s\n", row->diff.mismatch ? row->diff.mismatch : "NaN or infinite");
        else
            fprintf(out, ": off by %.3g of the largest magnitude, %.3g on average\n",
                    row->diff.error,
                    row->diff.scale > 0 ? row->diff.mean_abs / row->diff.scale : 0);
    }
    fprintf(out, "         on %zu set%s of inputs", v->sets, ending[v->sets == 1]);
    if (v->bounded)
        fprintf(out, "; %zu node%s kept float for %g, found in %zu trial%s", v->kept,
                ending[v->kept == 1], v->most, v->trials, ending[v->trials == 1]);
    fputc('\n', out);
}

void verify_print(const Verified *v, FILE *out) {
    if (v->calibrated)
        fprintf(out, "measured the range of %zu values on %zu set%s of inputs\n", v->ranges,
                v->calibrated, v->calibrated == 1 ? "" : "s");
    if (v->sets) print_outputs(v, out);
}

void verify_json(const Verified *v, JsonWriter *json) {
    static const Limit none = {0};
    if (v->calibrated) {
        json_open(json, "calibration", '{');
        json_unsigned(json, "sets", v->calibrated);
        json_unsigned(json, "values", v->ranges);
        json_close(json, '}');
    }
    if (!v->sets) return;
    json_open(json, "verification", '{');
    json_unsigned(json, "sets", v->sets);
    json_unsigned(json, "trials", v->trials);
    if (v->bounded) json_number(json, "max_error", v->most);
    if (v->bounded) json_unsigned(json, "kept", v->kept);
    json_number(json, "error", v->result.error);
    json_open(json, "outputs", '[');
    for (size_t i = 0; i < v->result.outputs.count; i++) {
        const OutputError *row = &v->result.outputs.items[i];
        const Limit limit = v->bounded ? (Limit){v->most, 0} : none;
        json_open(json, NULL, '{');
        json_text(json, "name", row->output);
        output_error_json(json, &row->diff, &limit);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}
