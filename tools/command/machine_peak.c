// SPDX-License-Identifier: Apache-2.0
/* Measuring the machine; see machine_peak.h. Results of the loops are stored where the compiler
 * can't tell that nobody reads them, so that it keeps the work. */
#include "machine_peak.h"

#include <stdint.h>
#include <stdio.h>
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
#define AVX2            "avx2,fma"
#define AVX512          "avx512f"
#define VNNI            "avx512f,avx512bw,avx512vnni"
#define BFLOATS         "avx512f,avx512bw,avx512bf16"
#define INLINE(target_) static inline __attribute__((always_inline, target(target_)))

/* Vectors of bytes and of bfloat16: sums of four and of two products in each 32 bits. */
INLINE(VNNI) __m512i set_bytes(float number) {
    return _mm512_set1_epi8(number > 0.5f);
}
INLINE(VNNI) __m512i dot_bytes(__m512i sum, __m512i a, __m512i b) {
    return _mm512_dpbusd_epi32(sum, a, b);
}
INLINE(BFLOATS) __m512 dot_bfloats(__m512 sum, __m512 a, __m512 b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* Chains are named one by one: an array of vectors would be kept in memory. `products`: of a vector. */
#define BURN(name, target_, V, products, set, fma, add, store)                                     \
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
        store((void *)sink, add(add(ab, ef), add(add(i, j), add(k, l))));                          \
        return 2.0 * CHAINS * products * ROUNDS;                                                   \
    }
BURN(burn_avx2, AVX2, __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_storeu_ps)
BURN(burn_avx512, AVX512, __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps,
     _mm512_storeu_ps)
BURN(burn_double_avx2, AVX2, __m256d, 4, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_add_pd,
     _mm256_storeu_pd)
BURN(burn_double_avx512, AVX512, __m512d, 8, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_add_pd,
     _mm512_storeu_pd)
BURN(burn_bytes, VNNI, __m512i, 64, set_bytes, dot_bytes, _mm512_add_epi32, _mm512_storeu_si512)
BURN(burn_bfloats, BFLOATS, __m512, 32, _mm512_set1_ps, dot_bfloats, _mm512_add_ps,
     _mm512_storeu_ps)
#endif

/* NULL: that of float holds. */
static Burn best_burn(PeakType type) {
#if defined(__x86_64__)
    const bool wide = isa_supported(ISA_AVX512);
    const bool fused = isa_supported(ISA_AVX2) && isa_has_fma();
    switch (type) {
    case PEAK_FLOAT: return wide ? burn_avx512 : fused ? burn_avx2 : burn_portable;
    case PEAK_DOUBLE: return wide ? burn_double_avx512 : fused ? burn_double_avx2 : NULL;
    case PEAK_BFLOAT16: return wide && __builtin_cpu_supports("avx512bf16") ? burn_bfloats : NULL;
    case PEAK_INT8: return wide && __builtin_cpu_supports("avx512vnni") ? burn_bytes : NULL;
    case PEAK_TYPES: break;
    }
#endif
    return type == PEAK_FLOAT ? burn_portable : NULL;
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
        const bool tiles = (type == PEAK_BFLOAT16 || type == PEAK_INT8) && isa_has_amx();
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
