// SPDX-License-Identifier: Apache-2.0
/* demi run: computes a model's or plan's outputs, shows or writes them, and compares them with
 * those that test data expect. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "device_counts.h"
#include "dtype.h"
#include "report_out.h"
#include "run_options.h"
#include "value_compare.h"
#include "value_io.h"
#include "value_write.h"
#include "work_progress.h"

enum { SHOWN_VALUES = 8 };

static const ArgumentRow arguments[] = {
    {"FILE", "A model (.onnx, .onnxtxt, or '-') or a plan."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    RUN_OPTIONS,
    OPTION_CARRY,
    {"rtol", 0, OPTION_ROW_VALUE, "X", NULL,
     "With --data: the tolerance relative to the expected output (default 1e-3). Without --rtol "
     "and --atol, integers must be equal."},
    {"atol", 0, OPTION_ROW_VALUE, "X", NULL, "The absolute tolerance (default 1e-7)."},
    {"output-dir", 'o', OPTION_ROW_VALUE, "DIR", NULL,
     "Write every output as output_N.pb, and tensors also as NAME.npy. Characters of NAME other "
     "than letters, digits, and '-._~' are written as %XX."},
    {"save-inputs", 0, OPTION_ROW_VALUE, "DIR", NULL,
     "Write the inputs that were used as input_N.pb, for --data."},
    OPTION_JSON("Also write the result as JSON. Without FILE (as the last word, or before another "
                "option), JSON goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

typedef struct Output {
    DemiData value;
    bool expected; /* there was something to compare with */
    DemiDistance diff;
} Output;

typedef struct Run {
    const char *folder; /* NULL: none */
    double seconds;
    uint64_t peak;
    bool counted; /* it was on a device */
    DemiDeviceCounts counts;
    Output *outputs; /* [output_count] */
} Run;

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    Arena *arena;
    Session session;
    Tolerance tolerance;
    ReportPlan plan;
    SessionOptions options;
    Words folders;
    Run *runs;
    size_t run_count;
} Job;

/* ---- one run --------------------------------------------------------------------------------- */

static bool is_there(const char *path) {
    struct stat status;
    return stat(path, &status) == 0;
}

static bool compare_expected(Job *job, Run *run, Err *err) {
    const Session *s = &job->session;
    for (size_t i = 0; i < s->output_count; i++) {
        const char *path = arena_printf(job->arena, "%s/output_%zu.pb", run->folder, i);
        DemiData want;
        if (!is_there(path)) continue;
        if (!value_read_file(job->arena, path, &s->outputs[i], &want, err)) return false;
        run->outputs[i].expected = true;
        value_compare(job->arena, &run->outputs[i].value, &want, &job->tolerance,
                      &run->outputs[i].diff);
    }
    const char *more = arena_printf(job->arena, "%s/output_%zu.pb", run->folder, s->output_count);
    if (!is_there(more)) return true;
    err_set(err, ERR_MODEL, "the model has only %zu outputs", s->output_count);
    err_file(err, more);
    return false;
}

/* Of several data sets each has a folder of its own in there, called like it. NULL on error. */
static const char *folder_for(Job *job, const Run *run, const char *folder, Err *err) {
    if (job->folders.count <= 1) return folder;
    if (!outputs_make_folder(job->program, folder, err)) return NULL;
    return arena_printf(job->arena, "%s/%s", folder, session_set_name(job->arena, run->folder));
}

static bool write_outputs(Job *job, const Run *run, const char *folder, Err *err) {
    const Session *s = &job->session;
    folder = folder_for(job, run, folder, err);
    if (!folder || !outputs_make_folder(job->program, folder, err)) return false;
    for (size_t i = 0; i < s->output_count; i++) {
        const DemiData *value = &run->outputs[i].value;
        const char *name = value_file_name(job->arena, s->outputs[i].name);
        const char *pb = arena_printf(job->arena, "%s/output_%zu.pb", folder, i);
        const char *npy = arena_printf(job->arena, "%s/%s.npy", folder, name);
        OutputFile file = {outputs_open(job->program, "output-dir", pb, err), err};
        if (!file.file || !value_write_pb(&file, job->arena, value, &s->outputs[i])) return false;
        if (value->kind != DEMI_DATA_TENSOR_KIND) continue;
        file.file = outputs_open(job->program, "output-dir", npy, err);
        if (!file.file || !value_write_npy(&file, job->arena, value)) return false;
    }
    return true;
}

static bool save_inputs(Job *job, const char *folder, Err *err) {
    const Session *s = &job->session;
    SavedInput *inputs = ARENA_ARRAY(job->arena, SavedInput, s->input_count + 1);
    for (size_t i = 0; i < s->input_count; i++)
        inputs[i] = (SavedInput){&s->inputs[i], s->given[i] ? &s->values[i] : NULL};
    return inputs_save(&(SavedInputs){inputs, s->input_count}, job->program, folder, err);
}

static bool run_once(Job *job, Run *run, Err *err) {
    Session *s = &job->session;
    const char *inputs = parsed_value(job->parsed, "save-inputs");
    const char *outputs = parsed_value(job->parsed, "output-dir");
    const SessionSet set = {.path = run->folder, .random = job->options.inputs.random};
    if (!session_find_inputs(s, job->arena, &set, err)) return false;
    if (inputs) inputs = folder_for(job, run, inputs, err);
    if (err->code != ERR_NONE) return false;
    if (inputs && !save_inputs(job, inputs, err)) return false;
    if (!session_bind(s, err)) return false;
    DemiDeviceCounts before = DEMI_DEVICE_COUNTS_INIT;
    demi_context_device_counts(s->context, &before);
    double start = console_seconds();
    if (!session_run(s, err)) return false;
    run->seconds = console_seconds() - start;
    run->peak = demi_context_peak(s->context);
    run->counted = device_counts_since(s->context, &before, 1, &run->counts);
    run->outputs = ARENA_ARRAY(job->arena, Output, s->output_count + 1);
    for (size_t i = 0; i < s->output_count; i++) {
        const DemiData *value = demi_context_output(s->context, i);
        /* The next run's take the place of these. */
        run->outputs[i].value = job->run_count > 1 ? value_copy(job->arena, value) : *value;
    }
    return (!run->folder || compare_expected(job, run, err)) &&
           (!outputs || write_outputs(job, run, outputs, err));
}

/* ---- reports --------------------------------------------------------------------------------- */

static bool is_wrong(const Output *output) {
    return output->expected && (output->diff.mismatch || output->diff.beyond);
}

static void print_value(Job *job, const DemiData *value, FILE *out) {
    ValueStats stats;
    uint64_t count = value_count(value);
    if (value->kind != DEMI_DATA_TENSOR_KIND) return;
    if (count <= SHOWN_VALUES) {
        fputs(" = ", out);
        if (value->rank) fputc('[', out);
        for (uint64_t i = 0; i < count; i++) {
            const char *text = value_item_text(job->arena, value, i);
            if (i) fputs(", ", out);
            report_put(out, text, strlen(text));
        }
        if (value->rank) fputc(']', out);
        return;
    }
    value_stats(value, &stats);
    if (stats.nan + stats.inf < stats.count && value->dtype != DEMI_STRING)
        fprintf(out, ": min %.6g, max %.6g, mean %.6g", stats.min, stats.max, stats.mean);
    if (stats.nan) fprintf(out, ", %llu NaN", (unsigned long long)stats.nan);
    if (stats.inf) fprintf(out, ", %llu infinite", (unsigned long long)stats.inf);
}

static const char *diff_text(Arena *arena, const DemiDistance *diff) {
    if (diff->mismatch) return arena_printf(arena, "it is %s", diff->mismatch);
    return arena_printf(arena,
                        "%llu of %llu elements beyond tolerance, worst at %llu: %.6g, "
                        "expected %.6g",
                        (unsigned long long)diff->beyond, (unsigned long long)diff->count,
                        (unsigned long long)diff->worst, diff->worst_got, diff->worst_want);
}

static void print_run(Job *job, const Run *run) {
    FILE *out = job->plan.text;
    const Session *s = &job->session;
    report_puts(out, run->folder ? run->folder : s->path);
    fprintf(out, ": %.3f ms", run->seconds * 1e3);
    report_puts(out, run->folder ? "" : session_assumed(s));
    fputc('\n', out);
    if (run->counted) fprintf(out, "  %s\n", device_counts_text(job->arena, &run->counts));
    for (size_t i = 0; i < s->output_count; i++) {
        const Output *output = &run->outputs[i];
        const char *type = value_type_text(job->arena, &output->value);
        fputs("  ", out);
        report_put(out, s->outputs[i].name, strlen(s->outputs[i].name));
        fprintf(out, " %s", type);
        print_value(job, &output->value, out);
        if (is_wrong(output))
            fprintf(out, "\n    %sWRONG:%s %s", console_paint(job->plan.color, PAINT_BAD),
                    console_paint(job->plan.color, PAINT_PLAIN),
                    diff_text(job->arena, &output->diff));
        else if (output->expected)
            fprintf(out, "\n    as expected, largest difference %.3g", output->diff.max_abs);
        fputc('\n', out);
    }
}

static void json_type(JsonWriter *json, const DemiPlanIo *io, const DemiData *value) {
    json_text(json, "name", io->name);
    if (value->kind != DEMI_DATA_TENSOR_KIND) {
        bool sequence = value->kind == DEMI_DATA_SEQUENCE_KIND;
        json_text(json, "kind", sequence ? "sequence" : "none");
        if (sequence) json_unsigned(json, "count", value->count);
        return;
    }
    json_text(json, "dtype", dtype_name((Dtype)value->dtype));
    json_open(json, "shape", '[');
    for (uint32_t i = 0; i < value->rank; i++) json_signed(json, NULL, value->dims[i]);
    json_close(json, ']');
}

static void json_output(JsonWriter *json, const DemiPlanIo *io, const Output *output) {
    ValueStats stats;
    json_open(json, NULL, '{');
    json_type(json, io, &output->value);
    if (output->value.kind == DEMI_DATA_TENSOR_KIND) {
        value_stats(&output->value, &stats);
        json_number(json, "min", stats.min);
        json_number(json, "max", stats.max);
        json_number(json, "mean", stats.mean);
        json_unsigned(json, "nan", stats.nan);
        json_unsigned(json, "inf", stats.inf);
    }
    if (output->expected) {
        json_boolean(json, "as_expected", !is_wrong(output));
        json_number(json, "max_error", output->diff.max_abs);
        json_unsigned(json, "beyond", output->diff.beyond);
        if (output->diff.mismatch) json_text(json, "mismatch", output->diff.mismatch);
    }
    json_close(json, '}');
}

static void fill_json(JsonWriter *json, void *data) {
    Job *job = data;
    const Session *s = &job->session;
    json_open(json, NULL, '{');
    json_text(json, "file", s->path);
    json_unsigned(json, "threads", s->threads);
    json_open(json, "runs", '[');
    for (size_t r = 0; r < job->run_count; r++) {
        const Run *run = &job->runs[r];
        json_open(json, NULL, '{');
        if (run->folder) json_text(json, "data", run->folder);
        json_number(json, "ms", run->seconds * 1e3);
        json_unsigned(json, "peak_bytes", run->peak);
        if (run->counted) device_counts_json(json, &run->counts);
        json_open(json, "outputs", '[');
        for (size_t i = 0; i < s->output_count; i++)
            json_output(json, &s->outputs[i], &run->outputs[i]);
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

/* The first output that is not as expected is the command's error. */
static bool judge(const Job *job, Err *err) {
    for (size_t r = 0; r < job->run_count; r++)
        for (size_t i = 0; i < job->session.output_count; i++) {
            const Output *output = &job->runs[r].outputs[i];
            if (!is_wrong(output)) continue;
            err_set(err, ERR_MODEL, "it differs from the expected output: %s",
                    diff_text(job->arena, &output->diff));
            err_file(err, arena_printf(job->arena, "%s/output_%zu.pb", job->runs[r].folder, i));
            err_operand(err, "output '%s'", job->session.outputs[i].name);
            return false;
        }
    return true;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Before the work, which may be long. */
static bool make_folders(Job *job, Err *err) {
    const char *inputs = parsed_value(job->parsed, "save-inputs");
    const char *outputs = parsed_value(job->parsed, "output-dir");
    return (!inputs || outputs_make_folder(job->program, inputs, err)) &&
           (!outputs || outputs_make_folder(job->program, outputs, err));
}

static bool run_all(Job *job, Err *err) {
    if (!session_data_sets(&job->session, job->arena, job->options.inputs.data, &job->folders, err))
        return false;
    job->run_count = job->folders.count ? job->folders.count : 1;
    job->runs = ARENA_ARRAY(job->arena, Run, job->run_count);
    const bool several = job->run_count > 1;
    const unsigned piece = several ? progress_begin("sets", job->run_count, PROGRESS_STEPS) : 0;
    for (size_t r = 0; r < job->run_count; r++) {
        if (job->folders.count) job->runs[r].folder = job->folders.items[r];
        if (!run_once(job, &job->runs[r], err)) return false;
        progress_at(piece, r + 1);
    }
    progress_end(piece);
    for (size_t r = 0; job->plan.text && r < job->run_count; r++) print_run(job, &job->runs[r]);
    if (job->plan.json && !report_json_to(job->program, &job->plan, fill_json, job, err))
        return false;
    return outputs_commit(job->program, NULL, err) && judge(job, err);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job job = {.program = program, .parsed = parsed, .arena = program->arena};
    const char *path = parsed_argument(parsed, 0);
    if (!path) return console_missing(parsed, "a model or plan to run", err);
    job.tolerance.exact_integers = !parsed_flag(parsed, "rtol") && !parsed_flag(parsed, "atol");
    bool ok = parsed_real(parsed, "rtol", &job.tolerance.relative, 1e-3, err) &&
              parsed_real(parsed, "atol", &job.tolerance.absolute, 1e-7, err) &&
              report_plan(program, false, &job.plan, err) && make_folders(&job, err);
    ConsoleModel model = {program, parsed, path};
    DemiSource source = run_source(&model);
    job.session.how = &job.options;
    ok = ok && run_options_fill(&model, false, &job.options, err) &&
         session_open(&job.session, program->arena, &source, err) && run_all(&job, err);
    session_close(&job.session);
    return ok;
}

const Command command_run = {
    .name = "run",
    .summary = "run a model or plan",
    .usage = "FILE [--input NAME=FILE] [--data DIR] [--random SEED] [OPTIONS]",
    .about = "Computes the outputs of FILE and prints their types, shapes, and ranges, or all "
             "elements of small ones. Each input comes from --input, else from --data, else from "
             "--random.\n\nIf the folder of --data contains files output_N.pb, demi compares the "
             "outputs with them. The exit code is 1 if one differs in type or shape, or if an "
             "element is off by more than --atol + --rtol times the expected one. NaN equals NaN.",
    .examples = "demi run model.onnx --random 1\n"
                "demi run model.onnx --input image=cat.npy --output-dir out\n"
                "# ONNX's test data, and what they expect\n"
                "demi run model.plan --data test_add/test_data_set_0\n"
                "demi run model.onnx --random 7 --shape image=4x3x224x224 --save-inputs data\n",
    .arguments = arguments,
    .options = options,
    .common = "input data random shape output-dir save-inputs threads json quiet help",
    .run = run,
};
