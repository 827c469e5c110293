// SPDX-License-Identifier: Apache-2.0
/* DFT and STFT, computed in double.
 *
 * Lengths that are powers of two: iterative radix 2. Others: Bluestein's algorithm, a convolution
 * with a chirp by transforms of a power of two, so that no length costs more than O(n log n).
 * Twiddle factors are computed each from its own angle, once a call. Data is pairs (real,
 * imaginary).
 */
#include <math.h>
#include <string.h>

#include "kernel_functions.h"
#include "kernel_reals.h"
#include "kernel_reduce.h"

#define PI 3.14159265358979323846

typedef struct Complex {
    double re, im;
} Complex;

typedef struct Fourier {
    uint64_t n;             /* length of the transforms */
    uint64_t m;             /* a power of two: n, or at least 2n - 1 */
    Complex *roots;         /* [m / 2]: exp(-2 pi i k / m) */
    Complex *chirp;         /* [n]: exp(-pi i k^2 / n); NULL where n is a power of two */
    Complex *filter, *work; /* [m]: the transformed chirp; space */
} Fourier;

static Complex times(Complex a, Complex b) {
    return (Complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* In place, of m elements; `work` is not used. Bit reversal, then butterflies. */
static void transform_power(const Fourier *f, Complex *x) {
    for (uint64_t i = 1, j = 0; i < f->m; i++) {
        uint64_t bit = f->m >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i >= j) continue;
        Complex swap = x[i];
        x[i] = x[j];
        x[j] = swap;
    }
    for (uint64_t half = 1; half < f->m; half *= 2)
        for (uint64_t start = 0; start < f->m; start += 2 * half)
            for (uint64_t k = 0; k < half; k++) {
                Complex *a = &x[start + k], *b = a + half;
                Complex t = times(*b, f->roots[k * (f->m / 2 / half)]);
                *b = (Complex){a->re - t.re, a->im - t.im};
                *a = (Complex){a->re + t.re, a->im + t.im};
            }
}

/* The transform of n elements, in place. */
static void transform(const Fourier *f, Complex *x) {
    if (!f->chirp) {
        transform_power(f, x);
        return;
    }
    memset(f->work, 0, f->m * sizeof *f->work);
    for (uint64_t k = 0; k < f->n; k++) f->work[k] = times(x[k], f->chirp[k]);
    transform_power(f, f->work);
    for (uint64_t k = 0; k < f->m; k++) { /* conjugates turn the next transform into its inverse */
        Complex v = times(f->work[k], f->filter[k]);
        f->work[k] = (Complex){v.re, -v.im};
    }
    transform_power(f, f->work);
    for (uint64_t k = 0; k < f->n; k++) {
        Complex v = {f->work[k].re / (double)f->m, -f->work[k].im / (double)f->m};
        x[k] = times(v, f->chirp[k]);
    }
}

static void make_chirp(Fourier *f, Arena *arena) {
    f->chirp = ARENA_ARRAY(arena, Complex, f->n);
    f->filter = ARENA_ARRAY(arena, Complex, f->m);
    f->work = ARENA_ARRAY(arena, Complex, f->m);
    for (uint64_t k = 0; k < f->n; k++) {
        double angle = PI * (double)(k * k % (2 * f->n)) / (double)f->n;
        f->chirp[k] = (Complex){cos(angle), -sin(angle)};
        Complex back = {cos(angle), sin(angle)};
        f->filter[k] = back;
        if (k) f->filter[f->m - k] = back;
    }
    transform_power(f, f->filter);
}

static bool make_fourier(KernelCall *call, uint64_t n, Fourier *f) {
    *f = (Fourier){.n = n, .m = 1};
    if (n < 1 || n > INT32_MAX)
        return kernel_fail(call, "a transform of length %llu", (unsigned long long)n);
    while (f->m < n) f->m *= 2;
    if (f->m != n) f->m *= 2;
    f->roots = ARENA_ARRAY(call->scratch, Complex, f->m / 2 + 1);
    for (uint64_t k = 0; k < f->m / 2; k++) {
        double angle = 2 * PI * (double)k / (double)f->m;
        f->roots[k] = (Complex){cos(angle), -sin(angle)};
    }
    if (f->m != n) make_chirp(f, call->scratch);
    return true;
}

/* The inverse by way of conjugates, divided by n. */
static void transform_back(const Fourier *f, Complex *x) {
    for (uint64_t k = 0; k < f->n; k++) x[k].im = -x[k].im;
    transform(f, x);
    for (uint64_t k = 0; k < f->n; k++)
        x[k] = (Complex){x[k].re / (double)f->n, -x[k].im / (double)f->n};
}

/* ---- DFT ------------------------------------------------------------------------------------- */

typedef struct DftAttrs {
    int64_t axis, inverse, onesided;
} DftAttrs;
KERNEL_LAYOUT(dft_17, DftAttrs, KERNEL_INT(DftAttrs, axis, "axis", 1),
              KERNEL_INT(DftAttrs, inverse, "inverse", 0),
              KERNEL_INT(DftAttrs, onesided, "onesided", 0));
KERNEL_LAYOUT(dft, DftAttrs, KERNEL_INT(DftAttrs, inverse, "inverse", 0),
              KERNEL_INT(DftAttrs, onesided, "onesided", 0));

typedef struct DftJob {
    Fourier fourier;
    AxisLoops in, out;            /* around the axis, the pairs not counted in inner */
    uint64_t in_parts, out_parts; /* 1: real, 2: complex */
    bool inverse, onesided;
    Complex *row; /* [n] */
} DftJob;

/* Reads one row, cut or padded with zeros to n; the half spectrum of a real signal is completed. */
static void dft_read(const DftJob *job, const double *x) {
    uint64_t n = job->fourier.n, known = job->inverse && job->onesided ? n / 2 + 1 : n;
    memset(job->row, 0, n * sizeof *job->row);
    for (uint64_t k = 0; k < job->in.n && k < known; k++) {
        const double *v = x + k * job->in.inner * job->in_parts;
        job->row[k] = (Complex){v[0], job->in_parts == 2 ? v[1] : 0};
    }
    for (uint64_t k = known; k < n; k++)
        job->row[k] = (Complex){job->row[n - k].re, -job->row[n - k].im};
}

static void dft_rows(const DftJob *job, const double *x, double *y) {
    for (uint64_t r = 0; r < job->in.outer * job->in.inner; r++) {
        uint64_t o = r / job->in.inner, i = r % job->in.inner;
        dft_read(job, x + (o * job->in.n * job->in.inner + i) * job->in_parts);
        if (job->inverse)
            transform_back(&job->fourier, job->row);
        else
            transform(&job->fourier, job->row);
        for (uint64_t k = 0; k < job->out.n; k++) {
            double *to = y + ((o * job->out.n + k) * job->out.inner + i) * job->out_parts;
            to[0] = job->row[k].re;
            if (job->out_parts == 2) to[1] = job->row[k].im;
        }
    }
}

static bool single_int(KernelCall *call, const KernelTensor *tensor, int64_t *value) {
    const int64_t *items = kernel_ints(call, tensor);
    if (!items || !kernel_want_count(call, tensor, 1, "a length or axis")) return false;
    *value = items[0];
    return true;
}

static bool dft_axis(KernelCall *call, uint32_t *axis) {
    const DftAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *input = kernel_input(call, 2);
    int64_t value = call->row->since < 20 ? attrs->axis : -2;
    if (call->row->since >= 20 && input && !single_int(call, input, &value)) return false;
    if (x->rank < 2) return kernel_fail(call, "a transform of rank %u", x->rank);
    if (!kernel_axis(call, value, x->rank, axis)) return false;
    return *axis + 1 < x->rank || kernel_fail(call, "the last axis holds the parts of numbers");
}

static AxisLoops pair_loops(const KernelTensor *x, uint32_t axis) {
    return (AxisLoops){kernel_span(x, 0, axis), (uint64_t)x->dims[axis],
                       kernel_span(x, axis + 1, x->rank - 1)};
}

static bool dft_sizes(KernelCall *call, DftJob *job) {
    const DftAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = kernel_result(call, 0);
    const KernelTensor *length = kernel_input(call, 1);
    uint32_t axis;
    if (!y) return kernel_fail(call, "the output is missing");
    if (!dft_axis(call, &axis)) return false;
    job->inverse = attrs->inverse != 0;
    job->onesided = attrs->onesided != 0;
    int64_t n = x->dims[axis], parts = x->dims[x->rank - 1];
    if (job->inverse && job->onesided) n = n > 0 ? 2 * (n - 1) : 0;
    if (length && !single_int(call, length, &n)) return false;
    if (parts != 1 && parts != 2)
        return kernel_fail(call, "numbers of %lld parts", (long long)parts);
    if (y->rank != x->rank) return kernel_fail(call, "the output has another rank");
    job->in = pair_loops(x, axis);
    job->out = pair_loops(y, axis);
    job->in_parts = (uint64_t)parts;
    job->out_parts = job->inverse && job->onesided ? 1 : 2;
    uint64_t want = n < 0 ? 0 : (uint64_t)n;
    if (job->onesided && !job->inverse) want = want / 2 + 1;
    if (job->out.outer != job->in.outer || job->out.inner != job->in.inner || job->out.n != want ||
        (uint64_t)y->dims[y->rank - 1] != job->out_parts)
        return kernel_fail(call, "the output has other dims");
    if (!make_fourier(call, n < 0 ? 0 : (uint64_t)n, &job->fourier)) return false;
    job->row = ARENA_ARRAY(call->scratch, Complex, job->fourier.n);
    return true;
}

bool kernel_dft(KernelCall *call) {
    DftJob job;
    if (!kernel_want_input(call, 0) || !dft_sizes(call, &job)) return false;
    const double *x = kernel_doubles(call, &call->inputs[0]);
    double *y = kernel_reals_for(call, &call->outputs[0], DTYPE_DOUBLE);
    if (!x || !y) return false;
    dft_rows(&job, x, y);
    kernel_reals_done(&call->outputs[0], y, DTYPE_DOUBLE);
    return true;
}

/* ---- STFT ------------------------------------------------------------------------------------ */

typedef struct StftAttrs {
    int64_t onesided;
} StftAttrs;
KERNEL_LAYOUT(stft, StftAttrs, KERNEL_INT(StftAttrs, onesided, "onesided", 1));

typedef struct StftJob {
    uint64_t batch, length, parts; /* of the signal */
    uint64_t step, frames, bins;
    const double *signal, *window; /* window [n], or NULL */
    Fourier fourier;
} StftJob;

static void stft_frames(const StftJob *job, Complex *row, double *y) {
    for (uint64_t f = 0; f < job->batch * job->frames; f++) {
        uint64_t b = f / job->frames, start = b * job->length + f % job->frames * job->step;
        for (uint64_t k = 0; k < job->fourier.n; k++) {
            const double *v = job->signal + (start + k) * job->parts;
            double w = job->window ? job->window[k] : 1;
            row[k] = (Complex){v[0] * w, job->parts == 2 ? v[1] * w : 0};
        }
        transform(&job->fourier, row);
        memcpy(y + f * job->bins * 2, row, job->bins * sizeof *row);
    }
}

static bool stft_sizes(KernelCall *call, StftJob *job) {
    const StftAttrs *attrs = call->attrs;
    const KernelTensor *signal = &call->inputs[0], *window = kernel_input(call, 2);
    const KernelTensor *frame = kernel_input(call, 3), *y = kernel_result(call, 0);
    int64_t step, n;
    if (!y || signal->rank < 2 || signal->rank > 3)
        return kernel_fail(call, "a signal of rank %u", signal->rank);
    if (!kernel_want_input(call, 1) || !single_int(call, &call->inputs[1], &step)) return false;
    n = window ? (int64_t)window->count : signal->dims[1];
    if (frame && !single_int(call, frame, &n)) return false;
    if (step < 1 || n < 1 || n > signal->dims[1])
        return kernel_fail(call, "frames of %lld every %lld", (long long)n, (long long)step);
    if (window && !kernel_want_count(call, window, (uint64_t)n, "the window")) return false;
    *job = (StftJob){.batch = (uint64_t)signal->dims[0],
                     .length = (uint64_t)signal->dims[1],
                     .parts = signal->rank == 3 ? (uint64_t)signal->dims[2] : 1,
                     .step = (uint64_t)step,
                     .frames = (uint64_t)((signal->dims[1] - n) / step + 1),
                     .bins = attrs->onesided ? (uint64_t)n / 2 + 1 : (uint64_t)n};
    if (job->parts != 1 && job->parts != 2) return kernel_fail(call, "numbers of other parts");
    if (window && !(job->window = kernel_doubles(call, window))) return false;
    if (y->rank != 4 || (uint64_t)y->dims[1] != job->frames || (uint64_t)y->dims[2] != job->bins)
        return kernel_fail(call, "the output has other dims");
    return kernel_want_count(call, y, job->batch * job->frames * job->bins * 2, "the output") &&
           make_fourier(call, (uint64_t)n, &job->fourier);
}

bool kernel_stft(KernelCall *call) {
    StftJob job;
    if (!kernel_want_input(call, 0) || !stft_sizes(call, &job)) return false;
    Complex *row = ARENA_ARRAY(call->scratch, Complex, job.fourier.n);
    double *y = kernel_reals_for(call, &call->outputs[0], DTYPE_DOUBLE);
    job.signal = kernel_doubles(call, &call->inputs[0]);
    if (!job.signal || !y) return false;
    stft_frames(&job, row, y);
    kernel_reals_done(&call->outputs[0], y, DTYPE_DOUBLE);
    return true;
}
