// SPDX-License-Identifier: Apache-2.0
/* What a benchmark found, and how it is shown: as text, Markdown, CSV, JSON and a trace. */
#ifndef DEMI_BENCH_REPORT_H
#define DEMI_BENCH_REPORT_H

#include <stdio.h>

#include "device_counts.h"
#include "json_write.h"
#include "machine_peak.h"
#include "session.h"
#include "step_cost.h"

/* A step of the plan, over all profiled runs. */
typedef struct BenchStep {
    const char *name, *op_type, *kernel;
    double seconds; /* without those of steps inside it */
    StepCost cost;
    bool moves;    /* it only moves or converts data */
    PeakType type; /* that its arithmetic is in */
    uint64_t calls;
    size_t number;
} BenchStep;

/* One execution in the last profiled run. */
typedef struct BenchEvent {
    size_t step;
    double start, seconds;
    const char *shapes;
} BenchEvent;

typedef struct BenchLatency {
    double min, mean, p50, p90, p99, max; /* seconds */
} BenchLatency;

typedef struct Bench {
    Arena *arena;
    Session session;
    uint64_t shown;      /* steps to print */
    VEC(double) seconds; /* of each measured run */
    double total;        /* of all measured runs, with what is between them */
    BenchLatency latency;
    uint64_t peak_values, peak_resident;
    bool counted;            /* it runs on a device */
    DemiDeviceCounts counts; /* of a measured run */
    VEC(BenchStep) steps;
    VEC(BenchEvent) events;
    uint64_t profiled;       /* runs */
    double profiled_seconds; /* of all of them */
    MachinePeak peak;        /* zero where it was not measured */
    uint64_t working_set;    /* bytes that the steps of a run read and write, each once */
    uint64_t cache;          /* bytes of the last-level cache; 0: not known */
    const char *onednn;      /* its version, or why it is not used */
} Bench;

/* Where a step stands under the roofline: the time that its operations or its bytes take at least
 * on this machine, whichever is longer. */
typedef enum BenchBound { BOUND_NONE, BOUND_ARITHMETIC, BOUND_MEMORY, BOUND_CACHE } BenchBound;
typedef struct BenchRoof {
    BenchBound bound; /* NONE: no peak was measured, or it does neither */
    double share;     /* that least time by the time it took; past 1 where data came from caches */
} BenchRoof;
/* All that a run touches fits the last-level cache: that bounds its steps, and memory does not. */
bool bench_in_cache(const Bench *bench);
BenchRoof bench_roof(const Bench *bench, const BenchStep *step);

/* "latency min ..." and the steps, the slowest first, and what the run may be bound by. */
void bench_print_text(const Bench *bench, FILE *out);
void bench_print_markdown(const Bench *bench, FILE *out);
/* The steps, all of them, one a line after a header. */
void bench_print_csv(const Bench *bench, FILE *out);
/* JsonFill functions; data is the Bench. */
void bench_fill_json(JsonWriter *json, void *bench);
/* Trace Event Format: complete events ("X"), times in microseconds. */
void bench_fill_trace(JsonWriter *json, void *bench);

/* Lines "may be bound by ...", each with its figures; none where nothing stands out. */
typedef VEC(const char *) BenchAdvice;
void bench_advise(const Bench *bench, BenchAdvice *advice);

#endif
