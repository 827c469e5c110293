// SPDX-License-Identifier: Apache-2.0
/* Tables of Fourier transforms, and lines on their way to and from them; see fourier.h. */
#include "fourier.h"

#include <math.h>
#include <string.h>

#include "kernel_clones.h"
#include "kernel_rows.h"

#define PI 3.14159265358979323846

/* ---- tables ---------------------------------------------------------------------------------- */

/* The radixes of n; 0 where it has larger primes. */
static uint32_t find_radixes(uint64_t n, uint64_t radixes[FOURIER_PASSES]) {
    static const uint8_t known[] = {4, 2, 3, 5, 7, 11, 13, 17, 19, FOURIER_PRIME};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof known; i++)
        for (; n % known[i] == 0; n /= known[i]) radixes[count++] = known[i];
    return n == 1 ? count : UINT32_MAX;
}

/* The smallest 2^a 3^b 5^c from `least` on. */
static uint64_t good_length(uint64_t least) {
    uint64_t best = UINT64_MAX;
    for (uint64_t five = 1; five < 5 * least; five *= 5)
        for (uint64_t three = five; three < 3 * least; three *= 3) {
            uint64_t n = three;
            while (n < least) n *= 2;
            if (n < best) best = n;
        }
    return best;
}

static uint64_t complex_bytes(uint64_t n) {
    uint64_t radixes[FOURIER_PASSES], doubles = 0, behind = n;
    uint32_t count = find_radixes(n, radixes);
    if (count == UINT32_MAX) {
        uint64_t m = good_length(2 * n - 1);
        return sizeof(Fourier) + complex_bytes(m) + (2 * n + 6 * m) * sizeof(double);
    }
    for (uint32_t i = 0; i < count; i++) {
        behind /= radixes[i];
        doubles += 2 * (radixes[i] - 1) * behind + (radixes[i] > 5 ? 2 * radixes[i] : 0);
    }
    return doubles * sizeof(double);
}

static bool is_halved(uint64_t n, FourierKind kind) {
    return n % 2 == 0 && (kind == FOURIER_REAL || kind == FOURIER_REAL_BACK);
}

uint64_t fourier_bytes(uint64_t n, FourierKind kind) {
    if (n < 1 || n > INT32_MAX) return 0;
    uint64_t half = is_halved(n, kind) ? n / 2 : n, roots = half == n ? 0 : 2 * (half + 1);
    return sizeof(FourierTables) + complex_bytes(half) + roots * sizeof(double);
}

static double *take(char **memory, uint64_t count) {
    double *doubles = (double *)(void *)*memory;
    *memory += count * sizeof *doubles;
    return doubles;
}

/* exp(-2 pi i k / n), each from its own angle. */
static void root(uint64_t k, uint64_t n, double *re, double *im) {
    double angle = 2 * PI * (double)(k % n) / (double)n;
    *re = cos(angle);
    *im = k % n ? -sin(angle) : 0;
}

static FourierPass make_pass(uint64_t n, uint64_t before, uint64_t radix, char **memory) {
    FourierPass pass = {.radix = radix, .before = before, .behind = n / before / radix};
    double *re = take(memory, (radix - 1) * pass.behind);
    double *im = take(memory, (radix - 1) * pass.behind);
    for (uint64_t j = 1; j < radix; j++)
        for (uint64_t i = 0; i < pass.behind; i++) {
            uint64_t at = (j - 1) * pass.behind + i;
            root(i * j, radix * pass.behind, &re[at], &im[at]);
        }
    pass.re = re;
    pass.im = im;
    if (radix <= 5) return pass;
    double *cosines = take(memory, radix), *sines = take(memory, radix);
    for (uint64_t j = 0; j < radix; j++) {
        root(j, radix, &cosines[j], &sines[j]);
        sines[j] = -sines[j];
    }
    pass.cosines = cosines;
    pass.sines = sines;
    return pass;
}

/* ---- transforms ------------------------------------------------------------------------------ */

#define FOURIER_LOOP ROW_LOOP
#define V            double
#define BODY(name)   one_##name
#include "fourier_body.inc"
#undef V
#undef BODY
#undef FOURIER_LOOP

typedef double Eight __attribute__((vector_size(FOURIER_LANES * sizeof(double))));
#define FOURIER_LOOP
#define V          Eight
#define BODY(name) eight_##name
#include "fourier_body.inc"
#undef V
#undef BODY
#undef FOURIER_LOOP

/* Parts of lines side by side; and where what becomes of them is. */
typedef struct Parts {
    double *re, *im;
} Parts;

ROW_CLONES static void transform_one(const FourierTables *t, const Parts space[3], Parts *result) {
    one_Lines lines[3];
    for (int i = 0; i < 3; i++) lines[i] = (one_Lines){space[i].re, space[i].im};
    one_Lines r = one_transform(t, lines[0], lines[1], lines[2]);
    *result = (Parts){r.re, r.im};
}

ROW_CLONES static void transform_eight(const FourierTables *t, const Parts space[3],
                                       Parts *result) {
    eight_Lines lines[3];
    for (int i = 0; i < 3; i++)
        lines[i] = (eight_Lines){(Eight *)(void *)space[i].re, (Eight *)(void *)space[i].im};
    eight_Lines r = eight_transform(t, lines[0], lines[1], lines[2]);
    *result = (Parts){(double *)(void *)r.re, (double *)(void *)r.im};
}

/* ---- making ---------------------------------------------------------------------------------- */

static void make_complex(Fourier *f, uint64_t n, char **memory);

static void make_chirp(Fourier *f, char **memory) {
    uint64_t n = f->n, m = good_length(2 * n - 1);
    f->inner = (Fourier *)(void *)*memory;
    *memory += sizeof(Fourier);
    make_complex(f->inner, m, memory);
    double *re = take(memory, n), *im = take(memory, n);
    one_Lines x = {take(memory, m), take(memory, m)}, y = {take(memory, m), take(memory, m)};
    double *filter_re = take(memory, m), *filter_im = take(memory, m);
    for (uint64_t k = 0; k < m; k++) x.re[k] = x.im[k] = 0;
    for (uint64_t k = 0; k < n; k++) { /* exp(-pi i k^2 / n) */
        root(k * k, 2 * n, &re[k], &im[k]);
        x.re[k ? m - k : 0] = x.re[k] = re[k];
        x.im[k ? m - k : 0] = x.im[k] = -im[k];
    }
    one_Lines r = one_passes(f->inner, x, y);
    for (uint64_t k = 0; k < m; k++) {
        filter_re[k] = r.re[k] / (double)m;
        filter_im[k] = r.im[k] / (double)m;
    }
    f->chirp_re = re;
    f->chirp_im = im;
    f->filter_re = filter_re;
    f->filter_im = filter_im;
}

static void make_complex(Fourier *f, uint64_t n, char **memory) {
    uint64_t radixes[FOURIER_PASSES], before = 1;
    uint32_t count = find_radixes(n, radixes);
    *f = (Fourier){.n = n};
    if (count == UINT32_MAX) {
        make_chirp(f, memory);
        return;
    }
    for (uint32_t i = 0; i < count; before *= radixes[i++])
        f->passes[i] = make_pass(n, before, radixes[i], memory);
    f->pass_count = count;
}

FourierTables *fourier_make(void *memory, uint64_t n, FourierKind kind) {
    FourierTables *t = memory;
    char *rest = (char *)memory + sizeof *t;
    *t = (FourierTables){.n = n, .kind = kind, .halved = is_halved(n, kind)};
    make_complex(&t->complex, t->halved ? n / 2 : n, &rest);
    if (!t->halved) return t;
    double *re = take(&rest, n / 2 + 1), *im = take(&rest, n / 2 + 1);
    for (uint64_t k = 0; k <= n / 2; k++) root(k, n, &re[k], &im[k]);
    t->re = re;
    t->im = im;
    return t;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Elements of the three arrays, one more than transforms have. */
static void room_of(const FourierTables *t, uint64_t room[3]) {
    const Fourier *inner = t->complex.inner;
    room[0] = t->complex.n + 1;
    room[1] = inner && inner->n > room[0] ? inner->n : room[0];
    room[2] = inner ? inner->n : 0;
}

uint64_t fourier_space(const FourierTables *tables, unsigned lanes) {
    uint64_t room[3];
    room_of(tables, room);
    /* each of the six begins at a multiple of a vector */
    return (room[0] + room[1] + room[2] + 3 * FOURIER_LANES) * 2 * lanes * sizeof(double);
}

unsigned fourier_lanes(const FourierTables *tables, uint64_t lines) {
    enum { LARGEST = 1 << 14 }; /* elements that the caches hold side by side */
    return lines > 2 && tables->complex.n <= LARGEST ? FOURIER_LANES : 1;
}

static uint64_t place(const FourierSide *side, uint64_t line) {
    return line / side->inner * side->outer_step + line % side->inner * side->inner_step;
}

static inline double element(const FourierSide *side, uint64_t i) {
    return side->is_double ? ((const double *)side->data)[i]
                           : (double)((const float *)side->data)[i];
}

static inline void put(const FourierSide *side, uint64_t i, double value) {
    if (side->is_double)
        ((double *)side->data)[i] = value;
    else
        ((float *)side->data)[i] = (float)value;
}

/* Real elements by pairs, or with parts that are 0. */
static void load_real(const FourierJob *job, uint64_t at, unsigned lanes, Parts to) {
    const FourierSide *from = &job->from;
    const bool halved = job->tables->halved;
    for (uint64_t k = 0; k < job->tables->n; k++) {
        double v = k < from->count ? element(from, at + k * from->step) : 0;
        if (job->window) v *= job->window[k];
        if (halved) {
            (k % 2 ? to.im : to.re)[k / 2 * lanes] = v;
        } else {
            to.re[k * lanes] = v;
            to.im[k * lanes] = 0;
        }
    }
}

static void load_complex(const FourierJob *job, uint64_t at, unsigned lanes, Parts to) {
    const FourierSide *from = &job->from;
    for (uint64_t k = 0; k < job->tables->n; k++) {
        bool known = k < from->count;
        double w = job->window ? job->window[k] : 1;
        to.re[k * lanes] = known ? element(from, at + k * from->step) * w : 0;
        to.im[k * lanes] =
            known && from->parts == 2 ? element(from, at + k * from->step + 1) * w : 0;
    }
}

/* Half a spectrum; of a real signal the first and middle elements have no imaginary part. */
static void load_half(const FourierJob *job, uint64_t at, unsigned lanes, Parts to) {
    const FourierSide *from = &job->from;
    const FourierTables *t = job->tables;
    const uint64_t n = t->n, half = n / 2;
    for (uint64_t k = 0; k <= half; k++) {
        bool known = k < from->count;
        double re = known ? element(from, at + k * from->step) : 0;
        double im = known && from->parts == 2 ? element(from, at + k * from->step + 1) : 0;
        if (k == 0 || 2 * k == n) im = 0;
        to.re[k * lanes] = re;
        to.im[k * lanes] = im;
        if (t->halved || k == 0) continue;
        to.re[(n - k) * lanes] = re;
        to.im[(n - k) * lanes] = -im;
    }
}

static void store(const FourierJob *job, uint64_t at, unsigned lanes, Parts from) {
    const FourierSide *to = &job->to;
    const FourierTables *t = job->tables;
    const bool back = t->kind == FOURIER_BACK || t->kind == FOURIER_REAL_BACK;
    const double factor = back ? (double)t->complex.n : 1;
    for (uint64_t k = 0; k < to->count; k++) {
        uint64_t place = k;
        double sign = 1;
        if (t->kind == FOURIER_REAL_BACK) {
            const double *parts = t->halved && k % 2 ? from.im : from.re;
            put(to, at + k * to->step, parts[(t->halved ? k / 2 : k) * lanes] / factor);
            continue;
        }
        if (t->halved && k > t->complex.n) { /* the other half are the conjugates of this one */
            place = t->n - k;
            sign = -1;
        }
        put(to, at + k * to->step, from.re[place * lanes] / factor);
        put(to, at + k * to->step + 1, sign * from.im[place * lanes] / factor);
    }
}

static void lines_of(const FourierJob *job, uint64_t first, uint64_t count, unsigned lanes,
                     const Parts space[3]) {
    Parts result;
    if (count < lanes) { /* lanes of no line */
        uint64_t elements = job->tables->complex.n + 1;
        memset(space[0].re, 0, elements * lanes * sizeof(double));
        memset(space[0].im, 0, elements * lanes * sizeof(double));
    }
    for (uint64_t l = 0; l < count; l++) {
        const Parts lane = {space[0].re + l, space[0].im + l};
        uint64_t at = place(&job->from, first + l);
        if (job->tables->kind == FOURIER_REAL)
            load_real(job, at, lanes, lane);
        else if (job->tables->kind == FOURIER_REAL_BACK)
            load_half(job, at, lanes, lane);
        else
            load_complex(job, at, lanes, lane);
    }
    if (lanes == 1)
        transform_one(job->tables, space, &result);
    else
        transform_eight(job->tables, space, &result);
    for (uint64_t l = 0; l < count; l++)
        store(job, place(&job->to, first + l), lanes, (Parts){result.re + l, result.im + l});
}

void fourier_lines(const FourierJob *job, uint64_t first, uint64_t end, unsigned lanes,
                   double *space) {
    uint64_t room[3];
    Parts parts[3];
    room_of(job->tables, room);
    for (int i = 0; i < 3; i++) {
        uint64_t size = (room[i] + FOURIER_LANES - 1) / FOURIER_LANES * FOURIER_LANES * lanes;
        parts[i] = (Parts){space, space + size};
        space += 2 * size;
    }
    for (uint64_t l = first; l < end; l += lanes)
        lines_of(job, l, end - l < lanes ? end - l : lanes, lanes, parts);
}
