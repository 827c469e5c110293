// SPDX-License-Identifier: Apache-2.0
/* Measuring the machine; see machine_peak.h. Results of the loops are stored where the compiler
 * can't tell that nobody reads them, so that it keeps the work. */
#include "machine_peak.h"

#include <stdint.h>
#include <string.h>

#include "console.h"
#include "isa.h"
#include "workers.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { CHAINS = 12, ROUNDS = 20000, CALLS_MOST = 10000, PASSES = 6 };
static const uint64_t memory_bytes = UINT64_C(256) << 20;
static const double least_seconds = 0.02;

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* CHAINS x ROUNDS multiplications and additions of vectors; returns floating-point operations. */
typedef double (*Burn)(float *sink);

static double burn_portable(float *sink) {
    enum { LANES = 4 };
    float chains[CHAINS][LANES];
    for (int c = 0; c < CHAINS; c++)
        for (int i = 0; i < LANES; i++) chains[c][i] = (float)(c + i);
    for (int round = 0; round < ROUNDS; round++)
        for (int c = 0; c < CHAINS; c++)
            for (int i = 0; i < LANES; i++) chains[c][i] = chains[c][i] * 0.999f + 0.001f;
    for (int c = 0; c < CHAINS; c++)
        for (int i = 0; i < LANES; i++) sink[i] += chains[c][i];
    return 2.0 * CHAINS * LANES * ROUNDS;
}

#if defined(__x86_64__)
/* Chains are named one by one: an array of vectors would be kept in memory. */
#define BURN(name, target_, V, lanes, set, fma, add, store)                                        \
    __attribute__((target(target_))) static double name(float *sink) {                             \
        const V by = set(0.999f), plus = set(0.001f);                                              \
        V a = set(1), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a; \
        for (int round = 0; round < ROUNDS; round++) {                                             \
            a = fma(a, by, plus), b = fma(b, by, plus), c = fma(c, by, plus);                      \
            d = fma(d, by, plus), e = fma(e, by, plus), f = fma(f, by, plus);                      \
            g = fma(g, by, plus), h = fma(h, by, plus), i = fma(i, by, plus);                      \
            j = fma(j, by, plus), k = fma(k, by, plus), l = fma(l, by, plus);                      \
            __asm__ volatile(""                                                                    \
                             : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g),      \
                               "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l));                       \
        }                                                                                          \
        V ab = add(add(a, b), add(c, d)), ef = add(add(e, f), add(g, h));                          \
        store(sink, add(add(ab, ef), add(add(i, j), add(k, l))));                                  \
        return 2.0 * CHAINS * lanes * ROUNDS;                                                      \
    }
BURN(burn_avx2, "avx2,fma", __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps,
     _mm256_storeu_ps)
BURN(burn_avx512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps,
     _mm512_storeu_ps)
#endif

static Burn best_burn(void) {
#if defined(__x86_64__)
    if (isa_supported(ISA_AVX512)) return burn_avx512;
    if (isa_supported(ISA_AVX2) && isa_has_fma()) return burn_avx2;
#endif
    return burn_portable;
}

/* The best of its calls: others may have the processor in between. */
static double flops_of_thread(Burn burn) {
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
    Burn burn;
    double *flops;   /* [threads] */
    uint64_t *words; /* [threads][each] */
    uint64_t *sums;  /* [threads]: of what was read, so that it is */
    uint64_t each;
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
    m->sums[t] ^= read_part(m->words + t * m->each, m->each);
}

static double bytes_once(Measure *m) {
    const unsigned threads = workers_lanes(m->workers);
    double start = console_seconds();
    workers_run(m->workers, threads, read_memory, m);
    double seconds = console_seconds() - start;
    return seconds > 0 ? (double)(m->each * threads * sizeof *m->words) / seconds : 0;
}

MachinePeak machine_peak(Arena *scratch, unsigned threads) {
    MachinePeak peak = {0, 0};
    Measure m = {.workers = workers_new(scratch, threads),
                 .burn = best_burn(),
                 .flops = ARENA_ARRAY(scratch, double, threads),
                 .sums = ARENA_ARRAY(scratch, uint64_t, threads),
                 .each = memory_bytes / sizeof(uint64_t) / threads};
    m.words = ARENA_ARRAY(scratch, uint64_t, m.each * threads);
    workers_run(m.workers, threads, burn_flops, &m);
    for (unsigned t = 0; t < threads; t++) peak.flops += m.flops[t];
    workers_run(m.workers, threads, write_memory, &m);
    for (int pass = 0; pass < PASSES; pass++) {
        double bytes = bytes_once(&m);
        if (bytes > peak.bytes) peak.bytes = bytes;
    }
    return peak;
}
