// SPDX-License-Identifier: Apache-2.0
/* Micro-kernels of igemm.h by AMX: sums of 16 rows by 64 columns are four tiles, to which each
 * instruction adds the products of 16 words of depth. Weights lie as in AVX-512's panels, whose words
 * are those of a tile; sums go through memory to AVX-512's micro-kernels, which finish them.
 *
 * A tile of rows is loaded from where they lie, if they are evenly apart, as pixels beside each other
 * are; else from a copy. Linux gives a process the registers when it asks for them (since 5.16). */
#define _DEFAULT_SOURCE /* syscall */
#include <string.h>

#include "igemm.h"
#include "simd.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX_TARGET                                                                                 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,bmi2,amx-tile,amx-int8,amx-bf16")))

enum {
    ROWS = 16,  /* of a tile */
    WORDS = 16, /* of a row of it */
    WORD = 4,   /* bytes */
    LINE = WORDS * WORD,
    COPIED = 128, /* words of rows that are copied at once */
};

/* Tiles, as instructions are written: 0 to 3 are sums, the last two of the words behind the last 16. */
#define X      4
#define W      5
#define LAST_X 6
#define LAST_W 7

/* ---- the processor ----------------------------------------------------------------------------- */

static bool is_there(void) {
    enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18 };
    return isa_supported(ISA_AVX512) && isa_has_amx() &&
           syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* Asked once a process; who asks at the same time hears the same. */
static bool has_amx(void) {
    enum { UNKNOWN, NO, YES };
    static atomic_int known = UNKNOWN;
    int found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == UNKNOWN) {
        found = is_there() ? YES : NO;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found == YES;
}

/* Compilers don't see what tile instructions read and write. */
#define ORDERED __asm__ volatile("" ::: "memory")

/* What tiles are, as LDTILECFG reads it. */
typedef struct TileShapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
} TileShapes;

/* The words behind the last 16 of depth are the same in every piece that has some: pieces are multiples
 * of 16. */
AMX_TARGET static void begin(uint64_t depth) {
    const unsigned last = depth % WORDS ? (unsigned)(depth % WORDS) : WORDS;
    TileShapes shapes = {.palette = 1};
    for (int i = 0; i <= LAST_W; i++) {
        shapes.bytes[i] = LINE;
        shapes.rows[i] = ROWS;
    }
    shapes.bytes[LAST_X] = (uint16_t)(last * WORD);
    shapes.rows[LAST_W] = (uint8_t)last;
    ORDERED;
    _tile_loadconfig(&shapes);
}

AMX_TARGET static void end(void) {
    _tile_release();
}

/* ---- sums ---------------------------------------------------------------------------------------- */

/* So many of some rows. */
typedef struct Words {
    const char *at;
    uint64_t step; /* bytes from row to row */
    uint64_t count;
} Words;

static bool evenly(const void *const *row, uint64_t *step) {
    const uintptr_t first = (uintptr_t)row[0], apart = (uintptr_t)row[1] - first;
    uintptr_t off = 0;
    for (uint32_t r = 2; r < ROWS; r++) off |= (uintptr_t)row[r] - (first + r * apart);
    if (off == 0) *step = apart;
    return off == 0;
}

/* Words of up to 16 rows, one row behind the other; those that are missing are 0. */
AMX_TARGET static void copy_rows(const void *const *row, uint32_t rows, uint64_t skip,
                                 uint64_t words, char *to) {
    for (uint32_t r = 0; r < rows; r++) {
        const char *from = (const char *)row[r] + skip * WORD;
        for (uint64_t k = 0; k < words; k += WORDS) {
            const __mmask16 mask = avx512_some(words - k < WORDS ? words - k : WORDS);
            _mm512_storeu_si512(to + (r * COPIED + k) * WORD,
                                _mm512_maskz_loadu_epi32(mask, from + k * WORD));
        }
    }
}

#define MULTIPLY(v, x, w)                                                                          \
    if (vecs > (v)) {                                                                              \
        _tile_loadd(w, weights + (v)*LINE, width);                                                 \
        if (bytes)                                                                                 \
            _tile_dpbusd(v, x, w);                                                                 \
        else                                                                                       \
            _tile_dpbf16ps(v, x, w);                                                               \
    }
#define MULTIPLY_ALL(x, w)                                                                         \
    do {                                                                                           \
        MULTIPLY(0, x, w)                                                                          \
        MULTIPLY(1, x, w)                                                                          \
        MULTIPLY(2, x, w)                                                                          \
        MULTIPLY(3, x, w)                                                                          \
    } while (0)
#define EACH_SUM(statement)                                                                        \
    do {                                                                                           \
        statement(0) statement(1) statement(2) statement(3)                                        \
    } while (0)
#define CLEAR(v)                                                                                   \
    if (vecs > (v)) _tile_zero(v);
#define LOAD(v)                                                                                    \
    if (vecs > (v)) _tile_loadd(v, sums + (v)*LINE, width);
#define STORE(v)                                                                                   \
    if (vecs > (v)) _tile_stored(v, sums + (v)*LINE, width);

/* What is wanted next, fetched while sums are made. */
typedef struct Ahead {
    const char *at;
    uint64_t step; /* bytes for every 16 words; 0: nothing */
} Ahead;

/* Products of so many words of rows. Returns the weights behind. */
AMX_TARGET static inline __attribute__((always_inline)) const char *
add_words(Words x, const char *weights, Ahead ahead, const uint32_t vecs, const bool bytes) {
    const uint64_t width = vecs * (uint64_t)LINE;
    uint64_t words = x.count;
    for (; words >= WORDS; words -= WORDS, x.at += LINE, weights += WORDS * width) {
        _tile_loadd(X, x.at, x.step);
        MULTIPLY_ALL(X, W);
        for (uint64_t i = 0; i < ahead.step; i += LINE) __builtin_prefetch(ahead.at + i, 0, 2);
        ahead.at += ahead.step;
    }
    if (words) {
        _tile_loadd(LAST_X, x.at, x.step);
        MULTIPLY_ALL(LAST_X, LAST_W);
    }
    return weights + words * width;
}

/* Where a tile has come to in its taps and their depth. */
typedef struct Place {
    const void *const *row;
    uint64_t tap, k;
} Place;

/* The next words of rows, all of a tap's that lie evenly apart, else some in a copy; none at the end. */
AMX_TARGET static inline __attribute__((always_inline)) Words
next_words(const IgemmTile *t, uint32_t rows, Place *at, char *copied) {
    Words x = {copied, (uint64_t)COPIED * WORD, t->depth - at->k};
    if (at->tap == t->taps) return (Words){0};
    if (at->k == 0 && rows == ROWS && evenly(at->row, &x.step)) {
        x.at = (const char *)at->row[0] + t->skip * WORD;
    } else {
        if (x.count > COPIED) x.count = COPIED;
        copy_rows(at->row, rows, t->skip + at->k, x.count, copied);
    }
    at->k += x.count;
    if (at->k < t->depth) return x;
    at->k = 0;
    at->tap++;
    at->row += t->row_step;
    return x;
}

/* What is copied is so before the products of what came before it, since tiles wait for what was stored
 * until it has left for the cache. */
AMX_TARGET static inline __attribute__((always_inline)) void
add_taps(const IgemmTile *t, const uint32_t rows, const uint32_t vecs, const bool bytes) {
    char copied[2][ROWS * COPIED * WORD] __attribute__((aligned(LINE)));
    const char *weights = t->weights;
    Ahead ahead = {t->ahead, t->ahead_step * WORDS};
    Place at = {t->rows, 0, 0};
    if (rows < ROWS) memset(copied, 0, sizeof copied);
    Words x = next_words(t, rows, &at, copied[0]);
    for (uint32_t i = 1; x.count; i++) {
        const Words next = next_words(t, rows, &at, copied[i % 2]);
        ORDERED;
        weights = add_words(x, weights, ahead, vecs, bytes);
        ORDERED;
        ahead.at += x.count * t->ahead_step;
        x = next;
    }
}

/* The micro-kernel without taps finishes what the sums are. */
static void finish(const IgemmTile *t, uint32_t rows, uint32_t vecs, const char *sums,
                   IgemmKind kind) {
    const IgemmIsa *isa = igemm_isa_avx512(kind);
    const uint32_t most = isa->most[vecs - 1];
    const bool quads = kind == IGEMM_QUADS && t->scale.to != DTYPE_FLOAT;
    const uint64_t element = quads ? 1 : t->narrow ? sizeof(uint16_t) : sizeof(float);
    IgemmTile part = *t;
    part.taps = 0;
    part.goes_on = true;
    for (uint32_t first = 0, count; first < rows; first += count) {
        count = rows - first < most ? rows - first : most;
        part.sums = (float *)(void *)(uintptr_t)(sums + (uint64_t)first * vecs * LINE);
        part.y = (char *)t->y + first * t->y_row * element;
        if (t->z) part.z = t->z + first * t->z_row;
        if (t->z_bfloats) part.z_bfloats = t->z_bfloats + first * t->z_row;
        if (t->z_bytes) part.z_bytes = t->z_bytes + first * t->scale.sum->z_row;
        isa->tiles[vecs - 1][count - 1](&part);
    }
}

AMX_TARGET static inline __attribute__((always_inline)) void
run(const IgemmTile *t, const uint32_t rows, const uint32_t vecs, const bool bytes) {
    char own[ROWS * 4 * LINE] __attribute__((aligned(LINE)));
    const uint64_t width = vecs * (uint64_t)LINE, size = rows * width;
    /* rows that are missing are not in the tile's own sums */
    char *sums = rows == ROWS && !t->ends ? (char *)t->sums : own;
    if (t->goes_on && sums == own) memcpy(own, t->sums, size);
    ORDERED;
    if (t->goes_on)
        EACH_SUM(LOAD);
    else
        EACH_SUM(CLEAR);
    add_taps(t, rows, vecs, bytes);
    EACH_SUM(STORE);
    ORDERED;
    if (t->ends)
        finish(t, rows, vecs, sums, bytes ? IGEMM_QUADS : IGEMM_BFLOATS);
    else if (sums == own)
        memcpy(t->sums, own, size);
}

/* ---- tables ------------------------------------------------------------------------------------ */

/* With few rows missing what is copied for them costs little; what there is for any number is one. */
#define CASE(name, bytes, vecs, rows)                                                              \
    AMX_TARGET static void name##_##rows##_##vecs(const IgemmTile *t) {                            \
        some_##vecs(t, rows, bytes);                                                               \
    }
#define SOME(vecs)                                                                                 \
    AMX_TARGET static __attribute__((noinline)) void some_##vecs(const IgemmTile *t,               \
                                                                 uint32_t rows, bool bytes) {      \
        if (bytes)                                                                                 \
            run(t, rows, vecs, true);                                                              \
        else                                                                                       \
            run(t, rows, vecs, false);                                                             \
    }
SOME(1)
SOME(2)
SOME(3)
SOME(4)
/* clang-format off */
#define CASES(name, bytes, vecs)                                                                   \
    CASE(name, bytes, vecs, 1) CASE(name, bytes, vecs, 2) CASE(name, bytes, vecs, 3)               \
    CASE(name, bytes, vecs, 4) CASE(name, bytes, vecs, 5) CASE(name, bytes, vecs, 6)               \
    CASE(name, bytes, vecs, 7) CASE(name, bytes, vecs, 8) CASE(name, bytes, vecs, 9)               \
    CASE(name, bytes, vecs, 10) CASE(name, bytes, vecs, 11) CASE(name, bytes, vecs, 12)            \
    CASE(name, bytes, vecs, 13) CASE(name, bytes, vecs, 14) CASE(name, bytes, vecs, 15)            \
    CASE(name, bytes, vecs, 16)                                                                    \
    static IgemmTileFunction *const name##_table_##vecs[] = {                                      \
        name##_1_##vecs,  name##_2_##vecs,  name##_3_##vecs,  name##_4_##vecs,                     \
        name##_5_##vecs,  name##_6_##vecs,  name##_7_##vecs,  name##_8_##vecs,                     \
        name##_9_##vecs,  name##_10_##vecs, name##_11_##vecs, name##_12_##vecs,                    \
        name##_13_##vecs, name##_14_##vecs, name##_15_##vecs, name##_16_##vecs};
/* clang-format on */
#define TABLES(name, bytes)                                                                        \
    CASES(name, bytes, 1)                                                                          \
    CASES(name, bytes, 2)                                                                          \
    CASES(name, bytes, 3)                                                                          \
    CASES(name, bytes, 4)

TABLES(quads, true)
TABLES(bfloats, false)

#define ISA(name)                                                                                  \
    {                                                                                              \
        .lanes = 16, .vecs = 4, .most = {ROWS, ROWS, ROWS, ROWS},                                  \
        .tiles = {name##_table_1, name##_table_2, name##_table_3, name##_table_4}, .whole = true,  \
        .begin = begin, .end = end                                                                 \
    }

const IgemmIsa *igemm_isa_amx(IgemmKind kind) {
    static const IgemmIsa quads = ISA(quads), bfloats = ISA(bfloats);
    if ((kind != IGEMM_QUADS && kind != IGEMM_BFLOATS) || !has_amx()) return NULL;
    return kind == IGEMM_QUADS ? &quads : &bfloats;
}

#else

const IgemmIsa *igemm_isa_amx(IgemmKind kind) {
    (void)kind;
    return NULL;
}

#endif
