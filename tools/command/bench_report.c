// SPDX-License-Identifier: Apache-2.0
/* Showing what a benchmark found; see bench_report.h. Sums over all profiled runs are divided by
 * their number only here. */
#include "bench_report.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "report_out.h"
#include "value_io.h"

bool bench_in_cache(const Bench *bench) {
    return bench->working_set && bench->working_set <= bench->cache;
}

BenchRoof bench_roof(const Bench *bench, const BenchStep *step) {
    BenchRoof roof = {BOUND_NONE, 0};
    const double flops = bench->peak.flops[step->type];
    if (bench->peak.bytes <= 0 || step->seconds <= 0) return roof;
    if (step->cost.flops > 0 && flops <= 0) return roof;
    double arithmetic = step->cost.flops > 0 ? step->cost.flops / flops : 0;
    const bool cached = bench_in_cache(bench) && bench->peak.cached > 0;
    double memory = step->cost.bytes / (cached ? bench->peak.cached : bench->peak.bytes);
    if (arithmetic <= 0 && memory <= 0) return roof;
    roof.bound = arithmetic > memory ? BOUND_ARITHMETIC : cached ? BOUND_CACHE : BOUND_MEMORY;
    roof.share = (arithmetic > memory ? arithmetic : memory) / step->seconds;
    return roof;
}

static const char *bound_name(BenchBound bound) {
    static const char *const names[] = {[BOUND_NONE] = "",
                                        [BOUND_ARITHMETIC] = "arithmetic",
                                        [BOUND_MEMORY] = "memory",
                                        [BOUND_CACHE] = "cache"};
    return names[bound];
}

static int by_time(const void *a, const void *b) {
    double x = ((const BenchStep *)a)->seconds, y = ((const BenchStep *)b)->seconds;
    return (x < y) - (x > y);
}

/* The slowest first, those that ran alone; *sum is their time. */
static size_t sort_steps(const Bench *bench, BenchStep **steps, double *sum) {
    size_t count = 0;
    *steps = ARENA_ARRAY(bench->arena, BenchStep, bench->steps.count + 1);
    *sum = 0;
    for (size_t i = 0; i < bench->steps.count; i++)
        if (bench->steps.items[i].calls) (*steps)[count++] = bench->steps.items[i];
    if (count) qsort(*steps, count, sizeof **steps, by_time);
    for (size_t i = 0; i < count; i++) *sum += (*steps)[i].seconds;
    return count;
}

/* What the rows past the shown ones take. */
static double rest_of(const Bench *bench, const BenchStep *steps, size_t count) {
    double rest = 0;
    for (size_t i = (size_t)bench->shown; i < count; i++) rest += steps[i].seconds;
    return rest;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A number, or "-" where there is nothing to measure. */
static void print_number(FILE *out, int width, int digits, double number) {
    if (number > 0 && isfinite(number))
        fprintf(out, " %*.*f", width, digits, number);
    else
        fprintf(out, " %*s", width, "-");
}

static void print_row(const Bench *bench, const BenchStep *step, double sum, FILE *out) {
    double runs = (double)bench->profiled;
    size_t length = strlen(step->op_type);
    fprintf(out, "%10.4f %5.1f%%", step->seconds / runs * 1e3, 100 * step->seconds / sum);
    print_number(out, 9, 3, step->cost.flops / runs / 1e6);
    print_number(out, 8, 3, step->cost.bytes / runs / 1e6);
    print_number(out, 8, 1, step->cost.flops / step->seconds / 1e9);
    print_number(out, 7, 1, step->cost.bytes / step->seconds / 1e9);
    print_number(out, 6, 0, 100 * bench_roof(bench, step).share);
    fputs("  ", out);
    report_put(out, step->op_type, length);
    fprintf(out, "%*s ", length < 18 ? (int)(18 - length) : 0, "");
    report_put(out, step->name, strlen(step->name));
    fputc('\n', out);
}

static void print_steps(const Bench *bench, FILE *out) {
    double sum, runs = (double)bench->profiled;
    BenchStep *steps;
    size_t count = sort_steps(bench, &steps, &sum);
    if (count == 0 || bench->shown == 0) return;
    fprintf(out, "\nsteps, sorted by time in %llu profiled runs of %.3f ms\n",
            (unsigned long long)bench->profiled, bench->profiled_seconds / runs * 1e3);
    fprintf(out, "%10s %6s %9s %8s %8s %7s %6s  %-18s %s\n", "ms", "share", "MFLOP", "MB",
            "GFLOP/s", "GB/s", "% peak", "operator", "name");
    for (size_t i = 0; i < count && i < bench->shown; i++) print_row(bench, &steps[i], sum, out);
    double rest = rest_of(bench, steps, count);
    if (rest > 0) fprintf(out, "%10.4f %5.1f%%  all others\n", rest / runs * 1e3, 100 * rest / sum);
}

static void print_advice(const Bench *bench, FILE *out) {
    BenchAdvice advice = {0};
    bench_advise(bench, &advice);
    if (advice.count) fputc('\n', out);
    for (size_t i = 0; i < advice.count; i++) {
        report_puts(out, advice.items[i]);
        fputc('\n', out);
    }
}

/* Types whose peak is float's go without a word. */
static void print_machine(const Bench *bench, FILE *out) {
    const double *flops = bench->peak.flops;
    if (bench->peak.bytes <= 0) return;
    fprintf(out, "machine     %.0f GFLOP/s of float32", flops[PEAK_FLOAT] / 1e9);
    for (int type = PEAK_FLOAT + 1; type < PEAK_TYPES; type++)
        if (flops[type] > 0 && flops[type] != flops[PEAK_FLOAT])
            fprintf(out, ", %.0f of %s", flops[type] / 1e9, peak_type_name((PeakType)type));
    fprintf(out, "; %.1f GB/s from memory\n", bench->peak.bytes / 1e9);
    if (!bench->cache) return;
    fprintf(out, "cache       %.4g MB, %s the %.4g MB that a run accesses",
            (double)bench->cache / 1e6,
            bench_in_cache(bench) ? "large enough for" : "too small for",
            (double)bench->working_set / 1e6);
    if (bench->peak.cached > 0) fprintf(out, "; %.1f GB/s from it", bench->peak.cached / 1e9);
    fputc('\n', out);
}

void bench_print_text(const Bench *bench, FILE *out) {
    const BenchLatency *l = &bench->latency;
    const Session *s = &bench->session;
    report_puts(out, s->path);
    fprintf(out, ": %u thread%s, %s, %zu runs in %.2f s\n", s->threads, s->threads == 1 ? "" : "s",
            plan_isa_name(plan_isa_here()), bench->seconds.count, bench->total);
    for (size_t i = 0; i < s->input_count; i++) {
        if (!s->given[i]) continue;
        fputs("input       ", out);
        report_put(out, s->inputs[i].name, strlen(s->inputs[i].name));
        fprintf(out, " %s\n", value_type_text(bench->arena, &s->values[i]));
    }
    fprintf(out, "latency     min %.4g  mean %.4g  p50 %.4g  p90 %.4g  p99 %.4g  max %.4g ms\n",
            l->min * 1e3, l->mean * 1e3, l->p50 * 1e3, l->p90 * 1e3, l->p99 * 1e3, l->max * 1e3);
    fprintf(out, "throughput  %.4g runs/s\n", (double)bench->seconds.count / bench->total);
    fputs("oneDNN      ", out);
    report_puts(out, bench->onednn);
    fputc('\n', out);
    fprintf(out, "memory      %.1f MB resident at most, of which %.1f MB for values\n",
            (double)bench->peak_resident / 1e6, (double)bench->peak_values / 1e6);
    if (bench->counted) fprintf(out, "%s\n", device_counts_text(bench->arena, &bench->counts));
    print_machine(bench, out);
    print_steps(bench, out);
    print_advice(bench, out);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* Text of a model, in or out of a table: what Markdown gives a meaning has a backslash before it. That
 * of '_' is at the ends of words alone. */
static void put_cell(FILE *out, const char *text) {
    char before = 0;
    while (*text) {
        size_t length = strcspn(text, "|`\\<>&*[]_");
        report_put(out, text, length);
        if (length) before = text[length - 1];
        text += length;
        if (!*text) break;
        if (*text != '_' || !is_word(before) || !is_word(text[1])) fputc('\\', out);
        before = *text;
        fputc(*text++, out);
    }
}

static void put_number(FILE *out, int digits, double number) {
    if (number > 0 && isfinite(number))
        fprintf(out, " %.*f |", digits, number);
    else
        fputs(" |", out);
}

void bench_print_markdown(const Bench *bench, FILE *out) {
    const BenchLatency *l = &bench->latency;
    double sum, runs = (double)bench->profiled;
    BenchStep *steps;
    size_t count = sort_steps(bench, &steps, &sum);
    fprintf(out, "| model | threads | min [ms] | mean [ms] | p50 [ms] | p90 [ms] | p99 [ms] | max "
                 "[ms] | runs/s | resident [MB] |\n"
                 "|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n| ");
    put_cell(out, bench->session.path);
    fprintf(out, " | %u | %.4g | %.4g | %.4g | %.4g | %.4g | %.4g | %.4g | %.1f |\n",
            bench->session.threads, l->min * 1e3, l->mean * 1e3, l->p50 * 1e3, l->p90 * 1e3,
            l->p99 * 1e3, l->max * 1e3, (double)bench->seconds.count / bench->total,
            (double)bench->peak_resident / 1e6);
    if (count && bench->shown)
        fputs("\n| step | operator | ms | share [%] | MFLOP | MB | GFLOP/s | GB/s | of peak [%] "
              "|\n|:---|:---|---:|---:|---:|---:|---:|---:|---:|\n",
              out);
    for (size_t i = 0; i < count && i < bench->shown; i++) {
        const BenchStep *step = &steps[i];
        fputs("| ", out);
        put_cell(out, step->name);
        fputs(" | ", out);
        put_cell(out, step->op_type);
        fputs(" |", out);
        put_number(out, 4, step->seconds / runs * 1e3);
        put_number(out, 1, 100 * step->seconds / sum);
        put_number(out, 3, step->cost.flops / runs / 1e6);
        put_number(out, 3, step->cost.bytes / runs / 1e6);
        put_number(out, 1, step->cost.flops / step->seconds / 1e9);
        put_number(out, 1, step->cost.bytes / step->seconds / 1e9);
        put_number(out, 0, 100 * bench_roof(bench, step).share);
        fputc('\n', out);
    }
    BenchAdvice advice = {0};
    bench_advise(bench, &advice);
    if (advice.count) fputc('\n', out);
    for (size_t i = 0; i < advice.count; i++) {
        fputs("- ", out);
        put_cell(out, advice.items[i]);
        fputc('\n', out);
    }
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* RFC 4180: in quotes, those within doubled. Spreadsheets take what begins as a formula for one, in
 * quotes, too: an apostrophe before it makes it text. */
static void put_field(FILE *out, const char *text) {
    fputc('"', out);
    if (*text && strchr("=+-@", *text)) fputc('\'', out);
    for (size_t length; *text; text += length) {
        length = strcspn(text, "\"");
        report_put(out, text, length);
        if (text[length] == '"') {
            fputs("\"\"", out);
            length++;
        }
    }
    fputc('"', out);
}

void bench_print_csv(const Bench *bench, FILE *out) {
    double sum, runs = (double)bench->profiled;
    BenchStep *steps;
    size_t count = sort_steps(bench, &steps, &sum);
    fputs("name,operator,kernel,calls,ms,share,flops,bytes,flops_per_s,bytes_per_s,bound,of_peak\n",
          out);
    for (size_t i = 0; i < count; i++) {
        const BenchStep *step = &steps[i];
        BenchRoof roof = bench_roof(bench, step);
        double rate = step->seconds > 0 ? 1 / step->seconds : 0;
        put_field(out, step->name);
        fputc(',', out);
        put_field(out, step->op_type);
        fputc(',', out);
        put_field(out, step->kernel);
        fprintf(out, ",%g,%.9g,%.6g,%.17g,%.17g,%.6g,%.6g,%s,%.6g\n", (double)step->calls / runs,
                step->seconds / runs * 1e3, sum > 0 ? step->seconds / sum : 0,
                step->cost.flops / runs, step->cost.bytes / runs, step->cost.flops * rate,
                step->cost.bytes * rate, bound_name(roof.bound), roof.share);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_steps(const Bench *bench, JsonWriter *json) {
    double runs = (double)bench->profiled;
    json_open(json, "steps", '[');
    for (size_t i = 0; i < bench->steps.count; i++) {
        const BenchStep *step = &bench->steps.items[i];
        BenchRoof roof = bench_roof(bench, step);
        if (!step->calls) continue;
        json_open(json, NULL, '{');
        json_text(json, "name", step->name);
        json_text(json, "op_type", step->op_type);
        json_text(json, "kernel", step->kernel);
        json_number(json, "ms", step->seconds / runs * 1e3);
        json_number(json, "flops", step->cost.flops / runs);
        json_number(json, "bytes", step->cost.bytes / runs);
        json_number(json, "calls", (double)step->calls / runs);
        if (roof.bound != BOUND_NONE) {
            json_text(json, "bound", bound_name(roof.bound));
            json_number(json, "of_peak", roof.share);
        }
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void json_machine(const Bench *bench, JsonWriter *json) {
    const double *flops = bench->peak.flops;
    json_number(json, "machine_flops_per_s", flops[PEAK_FLOAT]);
    json_open(json, "machine_flops_by_type", '{');
    for (int type = 0; type < PEAK_TYPES; type++)
        json_number(json, peak_type_name((PeakType)type), flops[type] > 0 ? flops[type] : NAN);
    json_close(json, '}');
    json_number(json, "machine_bytes_per_s", bench->peak.bytes);
    json_number(json, "machine_cached_bytes_per_s",
                bench->peak.cached > 0 ? bench->peak.cached : NAN);
    json_number(json, "cache_bytes", bench->cache ? (double)bench->cache : NAN);
    json_unsigned(json, "working_set_bytes", bench->working_set);
}

static void json_advice(const Bench *bench, JsonWriter *json) {
    BenchAdvice advice = {0};
    bench_advise(bench, &advice);
    json_open(json, "advice", '[');
    for (size_t i = 0; i < advice.count; i++) json_text(json, NULL, advice.items[i]);
    json_close(json, ']');
}

void bench_fill_json(JsonWriter *json, void *data) {
    const Bench *bench = data;
    const BenchLatency *l = &bench->latency;
    const struct {
        const char *key;
        double value;
    } rows[] = {{"min", l->min}, {"mean", l->mean}, {"p50", l->p50},
                {"p90", l->p90}, {"p99", l->p99},   {"max", l->max}};
    json_open(json, NULL, '{');
    json_text(json, "file", bench->session.path);
    json_open(json, "latency_ms", '{');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_number(json, rows[i].key, rows[i].value * 1e3);
    json_close(json, '}');
    json_number(json, "throughput_per_s", (double)bench->seconds.count / bench->total);
    json_text(json, "onednn", bench->onednn);
    json_unsigned(json, "peak_rss_bytes", bench->peak_resident);
    json_unsigned(json, "peak_value_bytes", bench->peak_values);
    if (bench->counted) device_counts_json(json, &bench->counts);
    json_unsigned(json, "threads", bench->session.threads);
    json_text(json, "isa", plan_isa_name(plan_isa_here()));
    if (bench->peak.bytes > 0) json_machine(bench, json);
    json_unsigned(json, "runs", bench->seconds.count);
    json_unsigned(json, "profiled_runs", bench->profiled);
    json_steps(bench, json);
    json_advice(bench, json);
    json_close(json, '}');
}

void bench_fill_trace(JsonWriter *json, void *data) {
    const Bench *bench = data;
    double start = bench->events.count ? bench->events.items[0].start : 0;
    for (size_t i = 0; i < bench->events.count; i++) /* a step around others is told of last */
        if (bench->events.items[i].start < start) start = bench->events.items[i].start;
    json_open(json, NULL, '{');
    json_text(json, "displayTimeUnit", "ms");
    json_open(json, "traceEvents", '[');
    for (size_t i = 0; i < bench->events.count; i++) {
        const BenchEvent *event = &bench->events.items[i];
        const BenchStep *step = &bench->steps.items[event->step];
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
