// SPDX-License-Identifier: Apache-2.0
/* demi bench: how long a model or plan takes, and where. Latency is measured without anything
 * watching; the profile comes from runs of its own afterwards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench_report.h"
#include "commands.h"
#include "op_record.h"
#include "report_out.h"
#include "run_options.h"
#include "value_io.h"
#include "work_progress.h"

enum { MOST_RUNS = 1000000, PROFILE_RUNS = 10, LEAST_RUNS = 10, MOST_DEPTH = 256 };
static const double warmup_seconds = 1, profile_seconds = 1; /* at most */

static const ArgumentRow arguments[] = {
    {"FILE", "A model (.onnx, .onnxtxt, or '-') or a plan."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    RUN_OPTIONS,
    OPTION_CARRY,
    {"warmup", 'w', OPTION_ROW_VALUE, "N", NULL,
     "Warm-up runs before measuring, for at most a second (default 3)."},
    {"runs", 'n', OPTION_ROW_VALUE, "N", NULL,
     "Number of runs to measure. By default, as many as fit into --duration, and at least 10."},
    {"duration", 0, OPTION_ROW_VALUE, "SECONDS", NULL, "How long to measure (default 3)."},
    {"steps", 0, OPTION_ROW_VALUE, "N", NULL,
     "Number of steps to print, the slowest first (default 12). --json and --trace have all."},
    {"format", 0, OPTION_ROW_VALUE, "FORMAT", "text markdown csv",
     "Format of the report: text (default), markdown, or csv, which has every step."},
    {"no-peak", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Do not measure the machine's peak, which takes 0.2 seconds and 256 MiB. The report then "
     "omits shares of the peak."},
    {"trace", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "Write the steps of the last profiled run as a trace, for chrome://tracing or Perfetto."},
    OPTION_JSON("Also write the result as JSON. Without FILE (as the last word, or before another "
                "option), JSON goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_HELP,
    {"iterations", 0, OPTION_ROW_ALIAS, "runs", NULL, "trtexec"},
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

/* Of addresses. */
typedef struct BenchRange {
    uintptr_t start, end;
} BenchRange;

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    SessionOptions options;
    Bench bench;
    ReportPlan plan, trace; /* trace.file: NULL where there is none */
    uint64_t warmup, runs;
    double duration;
    double inside[MOST_DEPTH]; /* seconds of steps at that depth since one around them ended */
    bool last, tracing;        /* it is the last profiled run; its steps are for the trace */
    VEC(BenchRange) touched;   /* by steps of that run */
} Job;

/* ---- measuring ------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nearest rank: the smallest value that at least that share of all do not exceed. */
static double percentile(const double *sorted, size_t count, double share) {
    double rank = ceil(share * (double)count);
    return sorted[rank < 1 ? 0 : (size_t)rank - 1];
}

static void sum_up(Job *job) {
    size_t count = job->bench.seconds.count;
    double *sorted = job->bench.seconds.items, sum = 0;
    qsort(sorted, count, sizeof *sorted, by_value);
    for (size_t i = 0; i < count; i++) sum += sorted[i];
    job->bench.latency = (BenchLatency){.min = sorted[0],
                                        .mean = sum / (double)count,
                                        .p50 = percentile(sorted, count, 0.5),
                                        .p90 = percentile(sorted, count, 0.9),
                                        .p99 = percentile(sorted, count, 0.99),
                                        .max = sorted[count - 1]};
}

static bool warm_up(Job *job, Err *err) {
    double start = console_seconds();
    for (uint64_t i = 0; i < job->warmup; i++) {
        if (!session_run(&job->bench.session, err)) return false;
        session_rewind(&job->bench.session);
        if (console_seconds() - start > warmup_seconds) break;
    }
    return true;
}

/* Bytes. Of this program alone: getrusage would count what its parent held before it began. */
static uint64_t peak_resident(void) {
    char line[256];
    unsigned long long kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && !kilobytes && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0) kilobytes = strtoull(line + 6, NULL, 10);
    if (file) fclose(file);
    if (kilobytes) return kilobytes * 1024;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

static bool measure(Job *job, Err *err) {
    DemiDeviceCounts before = DEMI_DEVICE_COUNTS_INIT;
    demi_context_device_counts(job->bench.session.context, &before);
    double begin = console_seconds(), end = begin;
    uint64_t most = job->runs ? job->runs : MOST_RUNS;
    const unsigned piece = progress_begin("timing", job->runs, PROGRESS_STEPS);
    for (uint64_t i = 0; i < most; i++) {
        double start = console_seconds();
        if (!session_run(&job->bench.session, err)) return false;
        end = console_seconds();
        session_rewind(&job->bench.session);
        progress_at(piece, i + 1);
        VEC_PUSH(job->bench.arena, &job->bench.seconds, end - start);
        if (!job->runs && i + 1 >= LEAST_RUNS && end - begin > job->duration) break;
    }
    progress_end(piece);
    job->bench.total = end - begin;
    job->bench.counted = device_counts_since(job->bench.session.context, &before,
                                             job->bench.seconds.count, &job->bench.counts);
    job->bench.peak_resident = peak_resident();
    job->bench.peak_values = demi_context_peak(job->bench.session.context);
    sum_up(job);
    return true;
}

/* ---- profile --------------------------------------------------------------------------------- */

static const char *shapes_of(Arena *arena, const DemiStep *step) {
    const char *text = "";
    for (size_t i = 0; i < step->input_count; i++)
        text = arena_printf(arena, "%s%s%s", text, i ? " " : "",
                            value_type_text(arena, &step->inputs[i]));
    return text;
}

static bool is_all(const DemiStep *step, const OpRecord *record, int32_t a, int32_t b) {
    for (uint32_t i = 0; i <= record->weights; i += record->weights ? record->weights : 1) {
        const DemiData *value = i < step->input_count ? &step->inputs[i] : NULL;
        if (!value || (value->dtype != a && value->dtype != b)) return false;
    }
    return true;
}

/* Of its two factors: what an instruction for one type takes is of that type on both sides. */
static PeakType peak_type(const DemiStep *step, const OpRecord *record) {
    const int32_t left = step->input_count ? step->inputs[0].dtype : DEMI_FLOAT;
    if (is_all(step, record, DEMI_UINT8, DEMI_INT8)) return PEAK_INT8;
    if (is_all(step, record, DEMI_BFLOAT16, DEMI_BFLOAT16)) return PEAK_BFLOAT16;
    return left == DEMI_DOUBLE ? PEAK_DOUBLE : PEAK_FLOAT;
}

static int by_start(const void *a, const void *b) {
    const BenchRange *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Joins what overlaps. */
static void join_ranges(Job *job) {
    size_t count = 0;
    BenchRange *ranges = job->touched.items;
    if (job->touched.count) qsort(ranges, job->touched.count, sizeof *ranges, by_start);
    for (size_t i = 0; i < job->touched.count; i++) {
        if (!count || ranges[i].start > ranges[count - 1].end)
            ranges[count++] = ranges[i];
        else if (ranges[i].end > ranges[count - 1].end)
            ranges[count - 1].end = ranges[i].end;
    }
    job->touched.count = count;
}

static void touch(Job *job, const DemiData *values, size_t count) {
    enum { MANY = 1 << 16 };
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == DEMI_DATA_SEQUENCE_KIND) touch(job, values[i].items, values[i].count);
        const uintptr_t start = (uintptr_t)values[i].data;
        if (values[i].kind != DEMI_DATA_TENSOR_KIND || !start) continue;
        const BenchRange range = {start, start + (uintptr_t)step_value_bytes(&values[i])};
        VEC_PUSH(job->bench.arena, &job->touched, range);
    }
    if (job->touched.count >= MANY) join_ranges(job);
}

static void after_step(void *user, const DemiStep *step) {
    Job *job = user;
    size_t number = step->number, depth = step->depth < MOST_DEPTH - 1 ? step->depth : 0;
    while (job->bench.steps.count <= number) {
        BenchStep none = {.number = job->bench.steps.count};
        VEC_PUSH(job->bench.arena, &job->bench.steps, none);
    }
    BenchStep *profile = &job->bench.steps.items[number];
    StepCost cost = step_cost(step);
    if (!profile->calls++) {
        profile->name = arena_copy(job->bench.arena, step->name, strlen(step->name));
        profile->op_type = arena_copy(job->bench.arena, step->op_type, strlen(step->op_type));
        const OpRecord *record = op_record_find(step->domain, step->op_type);
        profile->moves = record && record->work == WORK_MOVES;
        profile->type = record ? peak_type(step, record) : PEAK_FLOAT;
        profile->kernel = arena_copy(job->bench.arena, step->kernel, strlen(step->kernel));
    }
    double inside = job->inside[depth + 1];
    profile->seconds += step->seconds > inside ? step->seconds - inside : 0;
    job->inside[depth + 1] = 0;
    job->inside[depth] += step->seconds;
    profile->cost.bytes += cost.bytes;
    profile->cost.flops += cost.flops;
    if (job->last) {
        touch(job, step->inputs, step->input_count);
        touch(job, step->outputs, step->output_count);
    }
    if (!job->tracing) return;
    BenchEvent event = {number, step->start, step->seconds, shapes_of(job->bench.arena, step)};
    VEC_PUSH(job->bench.arena, &job->bench.events, event);
}

static bool watch(Job *job, DemiStepFn step, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    return error_take(err, demi_context_watch(job->bench.session.context, step, job, &error),
                      &error);
}

static bool profile(Job *job, Err *err) {
    bool trace = parsed_flag(job->parsed, "trace");
    if (!watch(job, after_step, err)) return false;
    double begin = console_seconds();
    for (bool last = false; !last; job->bench.profiled++) {
        double start = console_seconds();
        last = job->bench.profiled + 1 == PROFILE_RUNS ||
               job->bench.profiled + 1 >= job->bench.seconds.count ||
               start - begin > profile_seconds;
        job->last = last;
        job->tracing = last && trace;
        memset(job->inside, 0, sizeof job->inside);
        if (!session_run(&job->bench.session, err)) return false;
        job->bench.profiled_seconds += console_seconds() - start;
        session_rewind(&job->bench.session);
    }
    return watch(job, NULL, err);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_report(const Job *job) {
    const char *format = parsed_value(job->parsed, "format");
    if (!format || format[0] == 't')
        bench_print_text(&job->bench, job->plan.text);
    else if (format[0] == 'm')
        bench_print_markdown(&job->bench, job->plan.text);
    else
        bench_print_csv(&job->bench, job->plan.text);
}

static void find_onednn(Job *job) {
    DemiError error = DEMI_ERROR_INIT;
    const char *kernels = parsed_value(job->parsed, "kernels");
    bool own = kernels && strcmp(kernels, "own") == 0;
    const char *version = own ? NULL : demi_onednn_version(&error);
    job->bench.onednn = version ? version
                        : own   ? "not used: --kernels own"
                                : arena_printf(job->program->arena, "not used: %s", error.message);
}

/* The processor's; after the runs, so that it is not in their memory. */
static void find_peak(Job *job) {
    Arena scratch;
    if (parsed_flag(job->parsed, "no-peak") || job->bench.counted) return;
    arena_init(&scratch, job->program->arena->trap);
    join_ranges(job);
    for (size_t i = 0; i < job->touched.count; i++)
        job->bench.working_set += job->touched.items[i].end - job->touched.items[i].start;
    job->bench.cache = machine_cache();
    job->bench.peak = machine_peak(&scratch, job->bench.session.threads,
                                   bench_in_cache(&job->bench) ? job->bench.working_set : 0);
    arena_free(&scratch);
}

static bool bench(Job *job, Err *err) {
    Words folders;
    Session *s = &job->bench.session;
    if (!session_data_sets(s, job->program->arena, job->options.inputs.data, &folders, err))
        return false;
    const SessionSet set = {.path = folders.count ? folders.items[0] : NULL, .random = true};
    if (!session_find_inputs(s, job->program->arena, &set, err) || !session_bind(s, err) ||
        !warm_up(job, err) || !measure(job, err) || !profile(job, err))
        return false;
    find_onednn(job);
    find_peak(job);
    if (job->plan.text) print_report(job);
    if (job->trace.file &&
        !report_json_to(job->program, &job->trace, bench_fill_trace, &job->bench, err))
        return false;
    return (!job->plan.json ||
            report_json_to(job->program, &job->plan, bench_fill_json, &job->bench, err)) &&
           outputs_commit(job->program, NULL, err);
}

static bool open_outputs(Job *job, Err *err) {
    const char *trace = parsed_value(job->parsed, "trace");
    if (!report_plan(job->program, trace && !strcmp(trace, "-"), &job->plan, err)) return false;
    if (trace) job->trace.file = report_open(job->program, "trace", trace, err);
    return !trace || job->trace.file;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job *job = ARENA_NEW(program->arena, Job);
    const char *path = parsed_argument(parsed, 0);
    job->program = program;
    job->parsed = parsed;
    job->bench.arena = program->arena;
    if (!path) return console_missing(parsed, "a model or plan to measure", err);
    bool ok = parsed_number(parsed, "warmup", 0, &job->warmup, 3, err) &&
              parsed_number(parsed, "runs", 1, &job->runs, 0, err) &&
              parsed_number(parsed, "steps", 0, &job->bench.shown, 12, err) &&
              parsed_real(parsed, "duration", &job->duration, 3, err) && open_outputs(job, err);
    ConsoleModel model = {program, parsed, path};
    DemiSource source = run_source(&model);
    job->bench.session.how = &job->options;
    ok = ok && run_options_fill(&model, false, &job->options, err) &&
         session_open(&job->bench.session, program->arena, &source, err) && bench(job, err);
    session_close(&job->bench.session);
    return ok;
}

const Command command_bench = {
    .name = "bench",
    .summary = "measure the latency and throughput of a model or plan, step by step",
    .usage = "FILE [OPTIONS]",
    .about =
        "Runs FILE repeatedly on one set of inputs and prints latency, throughput, memory, and the "
        "slowest steps. Inputs that you do not give are random, as with --random 0.\n\nMethod: "
        "--warmup runs are not counted. Each measured run is timed from the call to its return, "
        "after its inputs were set, without instrumentation. pNN is the nearest-rank percentile. "
        "State that --carry names has the same length in every run as in the first. Throughput is "
        "the number of runs divided by their total time. Up to 10 more runs are then profiled step "
        "by step. The time of a step excludes the steps inside it. FLOPs are counted for "
        "convolutions, matrix products, attention, and recurrent layers, from the shapes. Bytes "
        "are those of a step's operands and results, each counted once.\n\nFinally, demi measures "
        "the machine's peak with as many threads: vector multiplications and additions in "
        "registers, for each type with its own instructions, and reading 256 MiB. A step needs at "
        "least the time for its FLOPs or its bytes at these rates, whichever is longer. '% peak' "
        "is that time relative to the measured time. If all data of a run fits into the last-level "
        "cache, the rate is that of reading from there. Otherwise, it can exceed 100, since some "
        "data is in a cache. The lines 'may be bound by' follow from these figures.\n\nIn "
        "Markdown, special characters in names are escaped. In CSV, a name that begins with =, +, "
        "-, or @ gets an apostrophe in front, so that spreadsheets do not interpret it as a "
        "formula.",
    .examples = "demi bench model.onnx\n"
                "demi bench model.plan --threads 1 --runs 200 --json bench.json\n"
                "demi bench model.onnx --shape image=8x3x224x224 --trace trace.json\n"
                "demi bench model.onnx --format csv > steps.csv\n",
    .arguments = arguments,
    .options = options,
    .common = "input data random shape runs duration threads trace json format quiet help",
    .run = run,
};
