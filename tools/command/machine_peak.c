// SPDX-License-Identifier: Apache-2.0
/* Measuring the machine; see machine_peak.h. Results of the loops are stored where the compiler
 * can't tell that nobody reads them, so that it keeps the work. */
#include "machine_peak.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "console.h"
#include "isa.h"
#include "machine_peak_loop.h"
#include "workers.h"

enum { CALLS_MOST = 10000, PASSES = 6 };
static const uint64_t memory_bytes = UINT64_C(256) << 20;
static const double least_seconds = 0.02;

/* ---- arithmetic ------------------------------------------------------------------------------ */

static double burn_portable(float *sink) {
    enum { LANES = 4 };
    float chains[PEAK_CHAINS][LANES];
    for (int c = 0; c < PEAK_CHAINS; c++)
        for (int i = 0; i < LANES; i++) chains[c][i] = (float)(c + i);
    for (int round = 0; round < PEAK_ROUNDS; round++)
        for (int c = 0; c < PEAK_CHAINS; c++)
            for (int i = 0; i < LANES; i++) chains[c][i] = chains[c][i] * 0.999f + 0.001f;
    for (int c = 0; c < PEAK_CHAINS; c++)
        for (int i = 0; i < LANES; i++) sink[i] += chains[c][i];
    return 2.0 * PEAK_CHAINS * LANES * PEAK_ROUNDS;
}

#define SIMD_OFFERS peak_floats
#include "simd_offers.inc"
#define SIMD_OFFERS peak_doubles
#include "simd_offers.inc"
#define SIMD_OFFERS peak_bfloats
#include "simd_offers.inc"
#define SIMD_OFFERS peak_bytes
#include "simd_offers.inc"

/* NULL: that of float holds. */
static PeakBurn *best_burn(PeakType type) {
    static const void *const *const *const offers[PEAK_TYPES] = {
        [PEAK_FLOAT] = peak_floats_offers,
        [PEAK_DOUBLE] = peak_doubles_offers,
        [PEAK_BFLOAT16] = peak_bfloats_offers,
        [PEAK_INT8] = peak_bytes_offers,
    };
    const PeakLoop *found = isa_pick(offers[type], isa_here());
    if (found) return found->burn;
    return type == PEAK_FLOAT ? burn_portable : NULL;
}

/* The best of its calls: others may have the processor in between. */
static double flops_of_thread(PeakBurn *burn) {
    float sink[16] = {0};
    double begin = console_seconds(), now = begin, best = 0;
    for (int call = 0; call < CALLS_MOST && now - begin < least_seconds; call++) {
        double start = now, flops = burn(sink);
        now = console_seconds();
        if (now > start && flops / (now - start) > best) best = flops / (now - start);
    }
    volatile float keep = sink[0];
    (void)keep;
    return best;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t read_part(const uint64_t *words, uint64_t count) {
    uint64_t sums[8] = {0};
    for (uint64_t i = 0; i + 8 <= count; i += 8)
        for (int k = 0; k < 8; k++) sums[k] ^= words[i + (uint64_t)k];
    uint64_t all = 0;
    for (int k = 0; k < 8; k++) all ^= sums[k];
    return all;
}

/* What the threads measure together, each its part. */
typedef struct Measure {
    Workers *workers;
    PeakBurn *burn;
    double *flops;   /* [threads] */
    uint64_t *words; /* [threads][each] */
    uint64_t *sums;  /* [threads]: of what was read, so that it is */
    uint64_t each;
    uint64_t repeat; /* how often a part is read in one go */
} Measure;

static void burn_flops(void *data, unsigned t, unsigned lane) {
    const Measure *m = data;
    (void)lane;
    m->flops[t] = flops_of_thread(m->burn);
}

/* Pages are there then, on the node of the thread that wrote them. */
static void write_memory(void *data, unsigned t, unsigned lane) {
    const Measure *m = data;
    (void)lane;
    memset(m->words + t * m->each, 1, m->each * sizeof *m->words);
}

static void read_memory(void *data, unsigned t, unsigned lane) {
    const Measure *m = data;
    (void)lane;
    for (uint64_t i = 0; i < m->repeat; i++) {
        m->sums[t] ^= read_part(m->words + t * m->each, m->each);
        __asm__ volatile("" ::: "memory"); /* not once for all */
    }
}

static double bytes_once(Measure *m) {
    const unsigned threads = workers_lanes(m->workers);
    double start = console_seconds();
    workers_run(m->workers, threads, read_memory, m);
    double seconds = console_seconds() - start;
    return seconds > 0 ? (double)(m->each * threads * m->repeat * sizeof *m->words) / seconds : 0;
}

static double flops_of_all(Measure *m, PeakType type) {
    const unsigned threads = workers_lanes(m->workers);
    double sum = 0;
    m->burn = best_burn(type);
    if (!m->burn) return 0;
    workers_run(m->workers, threads, burn_flops, m);
    for (unsigned t = 0; t < threads; t++) sum += m->flops[t];
    return sum;
}

static void find_flops(Measure *m, MachinePeak *peak) {
    for (int type = 0; type < PEAK_TYPES; type++) {
        const bool tiles = (type == PEAK_BFLOAT16 || type == PEAK_INT8) && (isa_here() & CPU_AMX);
        peak->flops[type] = tiles ? 0 : flops_of_all(m, (PeakType)type);
        if (!tiles && peak->flops[type] < peak->flops[PEAK_FLOAT] && type != PEAK_DOUBLE)
            peak->flops[type] = peak->flops[PEAK_FLOAT];
        if (type == PEAK_DOUBLE && peak->flops[type] <= 0)
            peak->flops[type] = peak->flops[PEAK_FLOAT] / 2;
    }
}

static double best_bytes(Measure *m) {
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        double bytes = bytes_once(m);
        if (bytes > best) best = bytes;
    }
    return best;
}

MachinePeak machine_peak(Arena *scratch, unsigned threads, uint64_t cached) {
    MachinePeak peak = {.bytes = 0};
    Measure m = {.workers = workers_new(scratch, threads),
                 .flops = ARENA_ARRAY(scratch, double, threads),
                 .sums = ARENA_ARRAY(scratch, uint64_t, threads),
                 .each = memory_bytes / sizeof(uint64_t) / threads,
                 .repeat = 1};
    m.words = ARENA_ARRAY(scratch, uint64_t, m.each * threads);
    find_flops(&m, &peak);
    workers_run(m.workers, threads, write_memory, &m);
    peak.bytes = best_bytes(&m);
    if (!cached) return peak;
    m.each = cached / sizeof(uint64_t) / threads + 8;
    if (m.each > memory_bytes / sizeof(uint64_t) / threads) return peak;
    m.repeat = memory_bytes / sizeof(uint64_t) / threads / m.each / PASSES + 1;
    peak.cached = best_bytes(&m);
    return peak;
}

const char *peak_type_name(PeakType type) {
    static const char *const names[] = {"float", "double", "bfloat16", "int8"};
    return names[type];
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* What a file of Linux's description of the first processor's caches begins with; 0: there is none. */
static uint64_t cache_number(int cache, const char *what) {
    char path[96];
    unsigned long long number = 0;
    char unit = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", cache, what);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    const int found = fscanf(file, "%llu%c", &number, &unit);
    fclose(file);
    if (found < 1) return 0;
    return number << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

uint64_t machine_cache(void) {
    enum { MOST = 16 };
    uint64_t level = 0, size = 0;
    for (int i = 0; i < MOST; i++) {
        const uint64_t here = cache_number(i, "level");
        if (!here) break;
        if (here < level) continue;
        level = here;
        size = cache_number(i, "size");
    }
    return size;
}
