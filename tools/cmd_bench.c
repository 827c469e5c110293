// SPDX-License-Identifier: Apache-2.0
/* demi bench: how long a model or plan takes, and where. Latency is measured without anything
 * watching; the profile comes from runs of its own afterwards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "commands.h"
#include "isa.h"
#include "report_out.h"
#include "session.h"
#include "step_cost.h"
#include "value_io.h"

enum { MOST_RUNS = 1000000, PROFILE_RUNS = 10, LEAST_RUNS = 10, MOST_DEPTH = 256 };
static const double warmup_seconds = 1, profile_seconds = 1; /* at most */

static const ArgumentRow arguments[] = {
    {"FILE", "A model (.onnx, .onnxtxt, or '-') or a plan."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    SESSION_OPTIONS,
    {"warmup", 'w', OPTION_ROW_VALUE, "N", NULL,
     "Runs before measuring, at most a second of them; default 3."},
    {"runs", 'n', OPTION_ROW_VALUE, "N", NULL,
     "Runs to measure; default: as many as --duration takes, at least 10."},
    {"duration", 0, OPTION_ROW_VALUE, "SECONDS", NULL, "How long to measure; default 3."},
    {"steps", 0, OPTION_ROW_VALUE, "N", NULL,
     "Steps to print, the slowest first; default 12. --json and --trace have all."},
    {"trace", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "Write the last profiled run's steps as a trace, which chrome://tracing and Perfetto show."},
    OPTION_JSON("Write the result as JSON too. Without FILE (as the last word, or before another "
                "option) it goes to standard output and the text to standard error."),
    OPTION_QUIET,
    OPTION_HELP,
    {"iterations", 0, OPTION_ROW_ALIAS, "runs", NULL, "trtexec"},
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

/* A step of the plan, over all profiled runs. */
typedef struct StepProfile {
    const char *name, *op_type, *kernel;
    double seconds; /* without those of steps inside it */
    StepCost cost;
    uint64_t calls;
    size_t number;
} StepProfile;

/* One execution in the last profiled run. */
typedef struct StepEvent {
    size_t step;
    double start, seconds;
    const char *shapes;
} StepEvent;

typedef struct Latency {
    double min, mean, p50, p90, p99, max; /* seconds */
} Latency;

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    Arena *arena;
    Session session;
    ReportPlan plan;
    uint64_t warmup, runs, shown;
    double duration;
    VEC(double) seconds;
    double total; /* of all measured runs, with what is between them */
    Latency latency;
    uint64_t peak_values, peak_resident;
    VEC(StepProfile) steps;
    VEC(StepEvent) events;
    double inside[MOST_DEPTH]; /* seconds of steps at that depth since one around them ended */
    bool tracing;
    uint64_t profiled;
    double profiled_seconds;
} Job;

/* ---- measuring ------------------------------------------------------------------------------ */

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
    size_t count = job->seconds.count;
    double *sorted = job->seconds.items, sum = 0;
    qsort(sorted, count, sizeof *sorted, by_value);
    for (size_t i = 0; i < count; i++) sum += sorted[i];
    job->latency = (Latency){.min = sorted[0],
                             .mean = sum / (double)count,
                             .p50 = percentile(sorted, count, 0.5),
                             .p90 = percentile(sorted, count, 0.9),
                             .p99 = percentile(sorted, count, 0.99),
                             .max = sorted[count - 1]};
}

static bool warm_up(Job *job, Err *err) {
    double start = console_seconds();
    for (uint64_t i = 0; i < job->warmup; i++) {
        if (!session_run(&job->session, err)) return false;
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
    double begin = console_seconds(), end = begin;
    uint64_t most = job->runs ? job->runs : MOST_RUNS;
    for (uint64_t i = 0; i < most; i++) {
        double start = console_seconds();
        if (!session_run(&job->session, err)) return false;
        end = console_seconds();
        VEC_PUSH(job->arena, &job->seconds, end - start);
        if (!job->runs && i + 1 >= LEAST_RUNS && end - begin > job->duration) break;
    }
    job->total = end - begin;
    job->peak_resident = peak_resident();
    job->peak_values = demi_context_peak(job->session.context);
    sum_up(job);
    return true;
}

/* ---- profile -------------------------------------------------------------------------------- */

static const char *shapes_of(Arena *arena, const DemiStep *step) {
    const char *text = "";
    for (size_t i = 0; i < step->input_count; i++)
        text = arena_printf(arena, "%s%s%s", text, i ? " " : "",
                            value_type_text(arena, &step->inputs[i]));
    return text;
}

static void after_step(void *user, const DemiStep *step) {
    Job *job = user;
    size_t number = step->number, depth = step->depth < MOST_DEPTH - 1 ? step->depth : 0;
    while (job->steps.count <= number) {
        StepProfile none = {.number = job->steps.count};
        VEC_PUSH(job->arena, &job->steps, none);
    }
    StepProfile *profile = &job->steps.items[number];
    StepCost cost = step_cost(step);
    if (!profile->calls++) {
        profile->name = arena_copy(job->arena, step->name, strlen(step->name));
        profile->op_type = arena_copy(job->arena, step->op_type, strlen(step->op_type));
        profile->kernel = arena_copy(job->arena, step->kernel, strlen(step->kernel));
    }
    double inside = job->inside[depth + 1];
    profile->seconds += step->seconds > inside ? step->seconds - inside : 0;
    job->inside[depth + 1] = 0;
    job->inside[depth] += step->seconds;
    profile->cost.bytes += cost.bytes;
    profile->cost.flops += cost.flops;
    if (!job->tracing) return;
    StepEvent event = {number, step->start, step->seconds, shapes_of(job->arena, step)};
    VEC_PUSH(job->arena, &job->events, event);
}

static bool watch(Job *job, DemiStepFn step, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    return console_check(demi_context_watch(job->session.context, step, job, &error), &error, err);
}

static bool profile(Job *job, Err *err) {
    bool trace = parsed_flag(job->parsed, "trace");
    if (!watch(job, after_step, err)) return false;
    double begin = console_seconds();
    for (bool last = false; !last; job->profiled++) {
        double start = console_seconds();
        last = job->profiled + 1 == PROFILE_RUNS || job->profiled + 1 >= job->seconds.count ||
               start - begin > profile_seconds;
        job->tracing = last && trace;
        memset(job->inside, 0, sizeof job->inside);
        if (!session_run(&job->session, err)) return false;
        job->profiled_seconds += console_seconds() - start;
    }
    return watch(job, NULL, err);
}

static int by_time(const void *a, const void *b) {
    double x = ((const StepProfile *)a)->seconds, y = ((const StepProfile *)b)->seconds;
    return (x < y) - (x > y);
}

/* ---- reports -------------------------------------------------------------------------------- */

/* A rate, or "-" where there is nothing to measure. */
static void print_rate(FILE *out, double amount, double seconds) {
    if (amount > 0 && seconds > 0)
        fprintf(out, " %8.1f", amount / seconds / 1e9);
    else
        fprintf(out, " %8s", "-");
}

static void print_steps(Job *job, FILE *out) {
    double sum = 0, rest = 0, runs = (double)job->profiled;
    StepProfile *sorted = ARENA_ARRAY(job->arena, StepProfile, job->steps.count + 1);
    if (job->steps.count == 0 || job->shown == 0) return;
    memcpy(sorted, job->steps.items, job->steps.count * sizeof *sorted);
    qsort(sorted, job->steps.count, sizeof *sorted, by_time);
    for (size_t i = 0; i < job->steps.count; i++) sum += sorted[i].seconds;
    fprintf(out, "\nsteps, by time in %llu profiled runs of %.3f ms\n",
            (unsigned long long)job->profiled, job->profiled_seconds / runs * 1e3);
    fprintf(out, "%10s %6s %8s %8s  %-18s %s\n", "ms", "share", "GFLOP/s", "GB/s", "operator",
            "name");
    for (size_t i = 0; i < job->steps.count; i++) {
        const StepProfile *step = &sorted[i];
        if (!step->calls) continue;
        if (i >= job->shown) {
            rest += step->seconds;
            continue;
        }
        fprintf(out, "%10.4f %5.1f%%", step->seconds / runs * 1e3, 100 * step->seconds / sum);
        print_rate(out, step->cost.flops, step->seconds);
        print_rate(out, step->cost.bytes, step->seconds);
        fputs("  ", out);
        report_put(out, step->op_type, strlen(step->op_type));
        fprintf(out, "%*s ", strlen(step->op_type) < 18 ? (int)(18 - strlen(step->op_type)) : 0,
                "");
        report_put(out, step->name, strlen(step->name));
        fputc('\n', out);
    }
    if (rest > 0) fprintf(out, "%10.4f %5.1f%%  all others\n", rest / runs * 1e3, 100 * rest / sum);
}

static void print_onednn(const Job *job, FILE *out) {
    DemiError error = DEMI_ERROR_INIT;
    const char *version = NULL, *kernels = parsed_value(job->parsed, "kernels");
    bool own = kernels && strcmp(kernels, "own") == 0;
    if (!own) version = demi_onednn_version(&error);
    fprintf(out, "oneDNN      %s%s\n", version ? version : "not used: ",
            version ? "" : own ? "--kernels own" : error.message);
}

static void print_report(Job *job, FILE *out) {
    const Latency *l = &job->latency;
    const Session *s = &job->session;
    fprintf(out, "%s: %u thread%s, %s, %zu runs in %.2f s\n", s->path, s->threads,
            s->threads == 1 ? "" : "s", isa_name(isa_best()), job->seconds.count, job->total);
    for (size_t i = 0; i < s->input_count; i++) {
        if (!s->given[i]) continue;
        fputs("input       ", out);
        report_put(out, s->inputs[i].name, strlen(s->inputs[i].name));
        fprintf(out, " %s\n", value_type_text(job->arena, &s->values[i]));
    }
    fprintf(out, "latency     min %.4g  mean %.4g  p50 %.4g  p90 %.4g  p99 %.4g  max %.4g ms\n",
            l->min * 1e3, l->mean * 1e3, l->p50 * 1e3, l->p90 * 1e3, l->p99 * 1e3, l->max * 1e3);
    fprintf(out, "throughput  %.4g runs/s\n", (double)job->seconds.count / job->total);
    print_onednn(job, out);
    fprintf(out, "memory      %.1f MB resident at most, %.1f MB of it for values\n",
            (double)job->peak_resident / 1e6, (double)job->peak_values / 1e6);
    print_steps(job, out);
}

static void json_steps(const Job *job, JsonWriter *json) {
    double runs = (double)job->profiled;
    json_open(json, "steps", '[');
    for (size_t i = 0; i < job->steps.count; i++) {
        const StepProfile *step = &job->steps.items[i];
        if (!step->calls) continue;
        json_open(json, NULL, '{');
        json_text(json, "name", step->name);
        json_text(json, "op_type", step->op_type);
        json_text(json, "kernel", step->kernel);
        json_number(json, "ms", step->seconds / runs * 1e3);
        json_number(json, "flops", step->cost.flops / runs);
        json_number(json, "bytes", step->cost.bytes / runs);
        json_number(json, "calls", (double)step->calls / runs);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void fill_json(JsonWriter *json, void *data) {
    const Job *job = data;
    const Latency *l = &job->latency;
    const struct {
        const char *key;
        double value;
    } rows[] = {{"min", l->min}, {"mean", l->mean}, {"p50", l->p50},
                {"p90", l->p90}, {"p99", l->p99},   {"max", l->max}};
    json_open(json, NULL, '{');
    json_text(json, "file", job->session.path);
    json_open(json, "latency_ms", '{');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_number(json, rows[i].key, rows[i].value * 1e3);
    json_close(json, '}');
    json_number(json, "throughput_per_s", (double)job->seconds.count / job->total);
    json_unsigned(json, "peak_rss_bytes", job->peak_resident);
    json_unsigned(json, "peak_value_bytes", job->peak_values);
    json_unsigned(json, "threads", job->session.threads);
    json_text(json, "isa", isa_name(isa_best()));
    json_unsigned(json, "runs", job->seconds.count);
    json_unsigned(json, "profiled_runs", job->profiled);
    json_steps(job, json);
    json_close(json, '}');
}

/* Trace Event Format: complete events ("X"), times in microseconds. */
static void fill_trace(JsonWriter *json, void *data) {
    const Job *job = data;
    double start = job->events.count ? job->events.items[0].start : 0;
    for (size_t i = 0; i < job->events.count; i++) /* a step around others is told of last */
        if (job->events.items[i].start < start) start = job->events.items[i].start;
    json_open(json, NULL, '{');
    json_text(json, "displayTimeUnit", "ms");
    json_open(json, "traceEvents", '[');
    for (size_t i = 0; i < job->events.count; i++) {
        const StepEvent *event = &job->events.items[i];
        const StepProfile *step = &job->steps.items[event->step];
        json_open(json, NULL, '{');
        json_text(json, "name", step->name);
        json_text(json, "cat", step->op_type);
        json_text(json, "ph", "X");
        json_number(json, "ts", (event->start - start) * 1e6);
        json_number(json, "dur", event->seconds * 1e6);
        json_unsigned(json, "pid", 1);
        json_unsigned(json, "tid", 1);
        json_open(json, "args", '{');
        json_text(json, "operator", step->op_type);
        json_text(json, "kernel", step->kernel);
        json_text(json, "inputs", event->shapes);
        json_close(json, '}');
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool bench(Job *job, Err *err) {
    Words folders;
    Session *s = &job->session;
    const char *trace = parsed_value(job->parsed, "trace");
    if (!session_data_folders(job->program, parsed_value(job->parsed, "data"), &folders, err)) return false;
    const char *folder = folders.count ? folders.items[0] : NULL;
    if (!session_find_inputs(s, job->program, job->parsed, folder, "0", err) ||
        !session_bind(s, err) || !warm_up(job, err) || !measure(job, err) || !profile(job, err))
        return false;
    if (job->plan.text) print_report(job, job->plan.text);
    ReportPlan trace_plan = {.results = stderr, .json = trace};
    if (trace && !report_json_to(job->program, &trace_plan, fill_trace, job, err)) return false;
    return !job->plan.json || report_json_to(job->program, &job->plan, fill_json, job, err);
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job *job = ARENA_NEW(program->arena, Job);
    const char *path = parsed_argument(parsed, 0), *trace = parsed_value(parsed, "trace");
    job->program = program;
    job->parsed = parsed;
    job->arena = program->arena;
    if (!path) return console_missing(parsed, "a model or plan to measure", err);
    if (trace && !report_check_path("trace", trace, err)) return false;
    bool ok = session_number(parsed, "warmup", 0, &job->warmup, 3, err) &&
              session_number(parsed, "runs", 1, &job->runs, 0, err) &&
              session_number(parsed, "steps", 0, &job->shown, 12, err) &&
              session_real(parsed, "duration", &job->duration, 3, err) &&
              report_plan(parsed, false, &job->plan, err) &&
              session_open(&job->session, program, parsed, path, err) && bench(job, err);
    session_close(&job->session);
    return ok;
}

const Command command_bench = {
    .name = "bench",
    .summary = "measure how fast a model or plan runs, and where its time goes",
    .usage = "FILE [OPTIONS]",
    .about =
        "Runs FILE again and again on one input and prints latency, throughput, memory, and the "
        "slowest steps. Inputs that nothing gives are random, as of --random 0.\n"
        "\n"
        "Method: --warmup runs are not counted. Then each run is timed from the call to its "
        "return, "
        "inputs being set before, with nothing watching; pNN is the nearest-rank percentile. "
        "Throughput is runs by the time of all. Then up to 10 more runs are profiled step by step, "
        "the time of a step being without that of steps inside it. FLOPs are counted for "
        "convolutions, matrix products and recurrent layers, from the shapes; bytes are those of a "
        "step's operands and results, each once.",
    .examples = "demi bench model.onnx\n"
                "demi bench model.plan --threads 1 --runs 200 --json bench.json\n"
                "demi bench model.onnx --shape image=8x3x224x224 --trace trace.json\n",
    .arguments = arguments,
    .options = options,
    .run = run,
};
