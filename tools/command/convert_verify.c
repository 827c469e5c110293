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
    const TrialInputs inputs = {parsed_value(parsed, "calibrate"), verified->sets};
    for (size_t i = 0; i < options->range_count; i++)
        VEC_PUSH(program->arena, &ranges, options->ranges[i]);
    /* Names that the user gave must match; what was measured may be gone once the opset is
     * raised. */
    bool ok = trials_open(&trials, program, parsed, path, &inputs, err) &&
              trials_try(&trials, options, err) && trials_ranges(&trials, &ranges, err);
    console_progress_end(program);
    options->allow_unmatched = true;
    verified->calibrated = trials.count;
    verified->ranges = ranges.count - options->range_count;
    trials_close(&trials);
    options->ranges = ranges.items;
    options->range_count = ranges.count;
    return ok;
}

static bool measure(Trials *trials, DemiConvertOptions *options, Verified *verified, Err *err) {
    KeptNodes kept = {.stopped = false};
    bool ok = verified->bounded ? keep_search(trials, options, verified->most, &kept, err)
                                : trials_run(trials, options, &kept.result, err);
    console_progress_end(trials->program);
    verified->result = kept.result.judgement;
    verified->kept = kept.nodes;
    verified->stopped = kept.stopped;
    verified->trials = trials->done;
    verified->sets = trials->count;
    verified->assumed = trials_assumed(trials);
    if (!ok || !verified->result.broken) return ok;
    ok = trials_find_broken(trials, options, &verified->broken, err);
    verified->broken_text = nonfinite_text(trials->program->arena, &verified->broken);
    return ok;
}

static bool read_options(const Parsed *parsed, Verified *verified, Err *err) {
    enum { SETS = 4 };
    uint64_t sets;
    verified->bounded = parsed_flag(parsed, "max-error");
    if (!session_real(parsed, "max-error", &verified->most, 0, err) ||
        !session_number(parsed, "sets", 1, &sets, SETS, err))
        return false;
    verified->sets = sets < 10000 ? (size_t)sets : 10000;
    if (!verified->bounded || parsed_value(parsed, "verify")) return true;
    err_set(err, ERR_USAGE, "'--max-error' needs inputs to measure it on");
    err_hint(err, "give --verify DIR, or --verify random");
    return false;
}

bool verify_run(Program *program, const Parsed *parsed, const char *path,
                DemiConvertOptions *options, Verified *verified, Err *err) {
    Trials trials;
    if (!read_options(parsed, verified, err) ||
        (parsed_flag(parsed, "calibrate") &&
         !calibrate(program, parsed, path, options, verified, err)))
        return false;
    const TrialInputs inputs = {parsed_value(parsed, "verify"), verified->sets};
    verified->sets = 0;
    if (!inputs.from) return true;
    verified->random = strcmp(inputs.from, "random") == 0;
    bool ok = trials_open(&trials, program, parsed, path, &inputs, err) &&
              measure(&trials, options, verified, err);
    trials_close(&trials);
    return ok;
}

bool verify_judge(const Verified *v, const char *path, Err *err) {
    if (!v->result.broken || !v->sets) return true;
    const Nonfinite *b = &v->broken;
    if (b->node) {
        err_set(err, ERR_MODEL, "%s; outputs are NaN or infinite that the source has as numbers",
                v->broken_text);
        snprintf(err->node, sizeof err->node, "%s", b->node);
        snprintf(err->op_type, sizeof err->op_type, "%s", b->op_type);
    } else {
        err_set(err, ERR_MODEL, "outputs are NaN or infinite that the source has as numbers");
    }
    err_file(err, path);
    if (b->dtype == DEMI_BFLOAT16)
        err_hint(err, "nothing was written; --calibrate DIR (inputs as the model will see them) "
                      "keeps in float what it takes");
    else
        err_hint(err, "nothing was written; --calibrate DIR (inputs as the model will see them) "
                      "keeps in float what it takes, or --to bfloat16 has float's range");
    return false;
}

/* ---- saying it ------------------------------------------------------------------------------- */

static const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

static void put(FILE *out, const char *text) {
    report_put(out, text, strlen(text));
}

static void print_output(const OutputError *row, FILE *out) {
    fputs("verified ", out);
    put(out, row->output);
    if (row->diff.mismatch) {
        fprintf(out, ": %s\n", row->diff.mismatch);
        return;
    }
    if (row->diff.special) {
        fprintf(out, ": %llu of %llu elements are NaN or infinite in one of both\n",
                (unsigned long long)row->diff.special, (unsigned long long)row->diff.count);
        return;
    }
    fprintf(out, ": off by %.3g of the largest magnitude, %.3g on average\n", row->diff.error,
            row->diff.scale > 0 ? row->diff.mean_abs / row->diff.scale : 0);
}

/* All of them have one reason, so only their names are told. */
static void print_kept(const Verified *v, FILE *out) {
    enum { MOST = 24, WIDTH = 78 };
    size_t column = 0, shown = v->kept.count <= MOST ? v->kept.count : MOST;
    for (size_t i = 0; i < shown; i++) {
        size_t length = strlen(v->kept.items[i]);
        if (column == 0 || column + length > WIDTH) {
            fputs(column ? ",\n         " : "         ", out);
            column = 0;
        } else {
            fputs(", ", out);
        }
        put(out, v->kept.items[i]);
        column += length + 2;
    }
    if (shown) fputc('\n', out);
    if (shown < v->kept.count)
        fprintf(out, "         and %zu more, which --json lists\n", v->kept.count - shown);
}

static void print_bound(const Verified *v, FILE *out) {
    const char *stopped = v->stopped ? "; interrupted, fewer may do" : "";
    if (v->kept.count == 0)
        fprintf(out, "         within %g without keeping any node float\n", v->most);
    else
        fprintf(out, "         %zu node%s kept float for --max-error %g, found in %zu trial%s%s:\n",
                v->kept.count, plural(v->kept.count), v->most, v->trials, plural(v->trials),
                stopped);
    print_kept(v, out);
}

static void print_picks(const Verified *v, FILE *out) {
    for (size_t i = 0; i < v->result.picks.count; i++) {
        const PickRow *row = &v->result.picks.items[i];
        fputs("         ", out);
        pick_print(row, out);
        fputc('\n', out);
    }
    if (v->result.picks.count)
        fputs("         outputs are compared with what the source picked\n", out);
}

static void print_verified(const Verified *v, FILE *out) {
    for (size_t i = 0; i < v->result.outputs.count; i++)
        print_output(&v->result.outputs.items[i], out);
    print_picks(v, out);
    fprintf(out, "         on %zu set%s of %sinputs", v->sets, plural(v->sets),
            v->random ? "random " : "");
    if (v->assumed[0]) {
        fputs("; sizes assumed: ", out);
        put(out, v->assumed);
    }
    fputc('\n', out);
    if (v->bounded) print_bound(v, out);
}

void verify_print(const Verified *v, FILE *out) {
    if (v->calibrated)
        fprintf(out, "measured the range of %zu values on %zu set%s of inputs\n", v->ranges,
                v->calibrated, plural(v->calibrated));
    if (v->sets) print_verified(v, out);
}

void verify_advise(const Verified *v, FILE *out) {
    if (!v->sets)
        fputs(
            "note: no output was verified: --verify random runs both models, --verify DIR on your "
            "inputs\n",
            out);
}

static void json_broken(const Verified *v, JsonWriter *json) {
    if (!v->broken.node) return;
    json_open(json, "broken", '{');
    json_text(json, "node", v->broken.node);
    json_text(json, "op_type", v->broken.op_type);
    json_text(json, "value", v->broken.value);
    json_boolean(json, "nan", v->broken.nan);
    json_close(json, '}');
}

static void json_bound(const Verified *v, JsonWriter *json) {
    if (!v->bounded) return;
    json_number(json, "max_error", v->most);
    json_unsigned(json, "kept", v->kept.count);
    json_boolean(json, "interrupted", v->stopped);
    json_open(json, "kept_nodes", '[');
    for (size_t i = 0; i < v->kept.count; i++) json_text(json, NULL, v->kept.items[i]);
    json_close(json, ']');
}

void verify_json(const Verified *v, JsonWriter *json) {
    const Limit limit = {v->bounded ? v->most : 0, 0};
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
    if (v->assumed[0]) json_text(json, "assumed_sizes", v->assumed);
    json_bound(v, json);
    json_number(json, "error", v->result.error);
    json_open(json, "outputs", '[');
    for (size_t i = 0; i < v->result.outputs.count; i++) {
        const OutputError *row = &v->result.outputs.items[i];
        json_open(json, NULL, '{');
        json_text(json, "name", row->output);
        output_error_json(json, &row->diff, &limit);
        json_close(json, '}');
    }
    json_close(json, ']');
    picks_json(json, &v->result.picks, &limit);
    json_broken(v, json);
    json_close(json, '}');
}
