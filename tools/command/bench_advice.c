// SPDX-License-Identifier: Apache-2.0
/* What a run may be bound by: rules on where its time goes, each with the figures it follows from.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "bench_report.h"

/* Shares of the time from which on something is worth a line; of a peak, from which on a step
 * counts as bound by it, and below which its kernel is what could be faster. */
static const double worth = 0.3, near_peak = 0.5, far_from_peak = 0.15, uneven = 2;

typedef struct Shares {
    double sum;          /* seconds of all steps */
    double arithmetic;   /* of those near the arithmetic peak */
    double memory;       /* of those near that of memory, or past it */
    double cache;        /* of those near that of the cache */
    double moving;       /* of those without arithmetic that are only moving data */
    double slow;         /* of steps with counted arithmetic, far from their roof */
    const char *slowest; /* operator of the longest of these */
    double slowest_seconds;
} Shares;

static Shares find_shares(const Bench *bench) {
    Shares shares = {.slowest = ""};
    for (size_t i = 0; i < bench->steps.count; i++) {
        const BenchStep *step = &bench->steps.items[i];
        if (!step->calls) continue; /* of a branch that was not taken */
        BenchRoof roof = bench_roof(bench, step);
        shares.sum += step->seconds;
        if (roof.bound == BOUND_ARITHMETIC && roof.share >= near_peak)
            shares.arithmetic += step->seconds;
        else if (roof.bound == BOUND_MEMORY && roof.share >= near_peak)
            shares.memory += step->seconds;
        else if (roof.bound == BOUND_CACHE && roof.share >= near_peak)
            shares.cache += step->seconds;
        else if (step->moves)
            shares.moving += step->seconds;
        else if (step->cost.flops > 0 && roof.bound != BOUND_NONE && roof.share < far_from_peak) {
            shares.slow += step->seconds;
            if (step->seconds <= shares.slowest_seconds) continue;
            shares.slowest_seconds = step->seconds;
            shares.slowest = step->op_type;
        }
    }
    return shares;
}

static void say(const Bench *bench, BenchAdvice *advice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(const Bench *bench, BenchAdvice *advice, const char *format, ...) {
    va_list args;
    va_start(args, format);
    VEC_PUSH(bench->arena, advice, arena_vprintf(bench->arena, format, args));
    va_end(args);
}

static void advise_steps(const Bench *bench, const Shares *shares, BenchAdvice *advice) {
    double sum = shares->sum;
    if (shares->arithmetic > worth * sum)
        say(bench, advice,
            "may be bound by arithmetic: %.0f%% of the time is in steps near this "
            "machine's peak for their types",
            100 * shares->arithmetic / sum);
    if (shares->memory > worth * sum)
        say(bench, advice,
            "may be bound by memory: %.0f%% of the time is in steps near its %.1f "
            "GB/s; smaller types or batches that share weights move less",
            100 * shares->memory / sum, bench->peak.bytes / 1e9);
    if (shares->cache > worth * sum)
        say(bench, advice,
            "may be bound by the cache: %.0f%% of the time is in steps near its %.1f GB/s; smaller "
            "types or batches that share weights move less",
            100 * shares->cache / sum, bench->peak.cached / 1e9);
    if (shares->moving > worth * sum)
        say(bench, advice,
            "may be bound by data movement: %.0f%% of the time is in operators that compute "
            "nothing",
            100 * shares->moving / sum);
    if (shares->slow > worth * sum)
        say(bench, advice,
            "may be bound by a slow kernel: %.0f%% of the time is in steps below %.0f%% of the "
            "machine's peak, the longest a %s",
            100 * shares->slow / sum, 100 * far_from_peak, shares->slowest);
}

void bench_advise(const Bench *bench, BenchAdvice *advice) {
    const BenchLatency *l = &bench->latency;
    Shares shares = find_shares(bench);
    double calls = 0, between = bench->profiled_seconds - shares.sum;
    for (size_t i = 0; i < bench->steps.count; i++) calls += (double)bench->steps.items[i].calls;
    if (shares.sum > 0) advise_steps(bench, &shares, advice);
    if (calls > 0 && between > worth * bench->profiled_seconds)
        say(bench, advice,
            "may be bound by overhead between the steps: %.0f%% of the time, %.2f us per step",
            100 * between / bench->profiled_seconds, between / calls * 1e6);
    if (l->p90 > uneven * l->p50)
        say(bench, advice,
            "latency varies: p90 is %.1f times p50; is this machine doing other work?",
            l->p90 / l->p50);
}
