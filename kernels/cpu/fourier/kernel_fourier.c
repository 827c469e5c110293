// SPDX-License-Identifier: Apache-2.0
/* DFT and STFT: which lines there are, by fourier.h. Tables are made once for a step where the
 * length is known without data. */
#include <string.h>

#include "fourier.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "kernel_reduce.h"

/* Tables that were prepared, or made for this call; false with the error set. */
static bool find_tables(KernelCall *call, uint64_t n, FourierKind kind, FourierJob *job) {
    const FourierTables *ready = call->prepared;
    if (ready && ready->n == n && ready->kind == kind) {
        job->tables = ready;
        return true;
    }
    uint64_t bytes = fourier_bytes(n, kind);
    if (!bytes) return kernel_fail(call, "a transform of length %llu", (unsigned long long)n);
    void *memory = kernel_workspace(call, bytes);
    if (memory) job->tables = fourier_make(memory, n, kind);
    return memory;
}

static void prepare_tables(KernelCall *call, int64_t n, FourierKind kind) {
    uint64_t bytes = n > 0 ? fourier_bytes((uint64_t)n, kind) : 0;
    void *memory = bytes ? kernel_keep(call, bytes) : NULL;
    if (memory) call->prepared = fourier_make(memory, (uint64_t)n, kind);
}

typedef struct Lines {
    const FourierJob *job;
    unsigned lanes;
    char *space;
    uint64_t size; /* of it, for each thread */
} Lines;

static void run_lines(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Lines *lines = data;
    void *space = lines->space + lane * lines->size;
    fourier_lines(lines->job, first, end, lines->lanes, space);
}

static bool transform_lines(KernelCall *call, const FourierJob *job) {
    unsigned lanes = fourier_lanes(job->tables, job->lines);
    uint64_t groups = job->lines / lanes + (job->lines % lanes != 0);
    double work = 40.0 * (double)job->tables->n * (double)job->lines;
    unsigned threads = kernel_work_threads(call, work, groups);
    uint64_t size = (fourier_space(job->tables, lanes) + 63) / 64 * 64;
    unsigned spaces = threads > 1 ? kernel_threads(call) : 1;
    Lines lines = {job, lanes, kernel_workspace(call, size * spaces), size};
    if (!lines.space) return false;
    kernel_run_parts(call->workers, kernel_cut(job->lines, lanes, threads, work), run_lines,
                     &lines);
    return true;
}

/* Elements as they are, or as double. */
static bool set_side(KernelCall *call, const KernelTensor *tensor, FourierSide *side) {
    side->is_double = tensor->dtype != DTYPE_FLOAT;
    side->data = (void *)(uintptr_t)(side->is_double ? (const void *)kernel_doubles(call, tensor)
                                                     : kernel_floats(call, tensor));
    return side->data; /* which is only read */
}

/* ---- DFT ------------------------------------------------------------------------------------- */

static bool single_int(KernelCall *call, const KernelTensor *tensor, int64_t *value) {
    const int64_t *items = kernel_ints(call, tensor);
    if (!items || !kernel_want_count(call, tensor, 1, "a length or axis")) return false;
    *value = items[0];
    return true;
}

static bool dft_axis(KernelCall *call, uint32_t *axis) {
    const SignalAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *input = kernel_input(call, 2);
    int64_t value = attrs->axis;
    if (call->row->since >= 20 && input && !single_int(call, input, &value)) return false;
    if (x->rank < 2) return kernel_fail(call, "a transform of rank %u", x->rank);
    if (!kernel_axis(call, value, x->rank, axis)) return false;
    return *axis + 1 < x->rank ||
           kernel_fail(call, "the last axis must hold real and imaginary parts");
}

static AxisLoops pair_loops(const KernelTensor *x, uint32_t axis) {
    return (AxisLoops){kernel_span(x, 0, axis), (uint64_t)x->dims[axis],
                       kernel_span(x, axis + 1, x->rank - 1)};
}

static FourierKind dft_kind(const SignalAttrs *attrs, uint64_t parts) {
    if (attrs->inverse) return attrs->onesided ? FOURIER_REAL_BACK : FOURIER_BACK;
    return parts == 1 ? FOURIER_REAL : FOURIER_COMPLEX;
}

/* The length where no input gives one. */
static int64_t dft_length(const SignalAttrs *attrs, int64_t dim) {
    if (!attrs->inverse || !attrs->onesided) return dim;
    return dim > 0 ? 2 * (dim - 1) : 0;
}

static bool dft_sizes(KernelCall *call, uint32_t axis, int64_t n, FourierJob *job) {
    const SignalAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const bool to_real = attrs->inverse && attrs->onesided;
    uint64_t parts = (uint64_t)x->dims[x->rank - 1], to_parts = to_real ? 1 : 2;
    if (parts != 1 && parts != 2)
        return kernel_fail(call, "numbers with %llu parts", (unsigned long long)parts);
    if (y->rank != x->rank) return kernel_fail(call, "the output has a different rank");
    AxisLoops in = pair_loops(x, axis), out = pair_loops(y, axis);
    uint64_t want = n < 0 ? 0 : (uint64_t)n;
    if (attrs->onesided && !attrs->inverse) want = want / 2 + 1;
    if (out.outer != in.outer || out.inner != in.inner || out.n != want ||
        (uint64_t)y->dims[y->rank - 1] != to_parts)
        return kernel_fail(call, "the output has different dims");
    if (!find_tables(call, n < 0 ? 0 : (uint64_t)n, dft_kind(attrs, parts), job)) return false;
    job->lines = in.outer * in.inner;
    job->from = (FourierSide){.inner = in.inner,
                              .outer_step = in.n * in.inner * parts,
                              .inner_step = parts,
                              .step = in.inner * parts,
                              .parts = parts,
                              .count = in.n};
    job->to = (FourierSide){.inner = out.inner,
                            .outer_step = out.n * out.inner * to_parts,
                            .inner_step = to_parts,
                            .step = out.inner * to_parts,
                            .parts = to_parts,
                            .count = out.n};
    return true;
}

bool kernel_dft(KernelCall *call) {
    FourierJob job = {0};
    uint32_t axis;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const KernelTensor *length = kernel_input(call, 1);
    if (!dft_axis(call, &axis)) return false;
    int64_t n = dft_length(call->attrs, x->dims[axis]);
    if (length && !single_int(call, length, &n)) return false;
    if (!dft_sizes(call, axis, n, &job)) return false;
    if (y->count == 0) return true;
    if (y->dtype != DTYPE_FLOAT && y->dtype != DTYPE_DOUBLE)
        return kernel_fail(call, "a spectrum of %s", dtype_name(y->dtype));
    if (!set_side(call, x, &job.from)) return false;
    job.to.data = y->data;
    job.to.is_double = y->dtype == DTYPE_DOUBLE;
    return transform_lines(call, &job);
}

static KernelReady make_dft(KernelCall *call) {
    const SignalAttrs *attrs = call->attrs;
    uint32_t axis;
    Err ignored = {0};
    int64_t n = 0;
    bool known = call->inputs[0].rank >= 2;
    KernelTensor inputs[3] = {{0}};
    for (uint32_t i = 1; known && i < 3; i++) {
        if (!kernel_input(call, i)) continue;
        const KernelTensor *constant = kernel_constant(call, i);
        known = constant;
        if (known) inputs[i] = *constant;
    }
    if (!known) return KERNEL_READY;
    inputs[0] = call->inputs[0];
    KernelCall with = *call; /* what does not fit is told when it runs */
    with.err = &ignored;
    with.inputs = inputs;
    with.input_count = 3;
    known = dft_axis(&with, &axis);
    if (known) n = dft_length(attrs, inputs[0].dims[axis]);
    if (known && inputs[1].present) known = single_int(&with, &inputs[1], &n);
    if (known)
        prepare_tables(call, n, dft_kind(attrs, (uint64_t)inputs[0].dims[inputs[0].rank - 1]));
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_dft = {make_dft, NULL, 0};

/* ---- STFT ------------------------------------------------------------------------------------ */

static bool stft_sizes(KernelCall *call, int64_t step, int64_t n, FourierJob *job) {
    const SignalAttrs *attrs = call->attrs;
    const KernelTensor *signal = &call->inputs[0], *window = kernel_input(call, 2);
    const KernelTensor *y = &call->outputs[0];
    if (step < 1 || n < 1 || n > signal->dims[1])
        return kernel_fail(call, "frames of %lld every %lld", (long long)n, (long long)step);
    if (window && !kernel_want_count(call, window, (uint64_t)n, "the window")) return false;
    uint64_t batch = (uint64_t)signal->dims[0], length = (uint64_t)signal->dims[1];
    uint64_t parts = signal->rank == 3 ? (uint64_t)signal->dims[2] : 1;
    uint64_t frames = (length - (uint64_t)n) / (uint64_t)step + 1;
    uint64_t bins = attrs->onesided ? (uint64_t)n / 2 + 1 : (uint64_t)n;
    if (parts != 1 && parts != 2)
        return kernel_fail(call, "numbers with a different number of parts");
    if (window && !(job->window = kernel_doubles(call, window))) return false;
    if (y->rank != 4 || (uint64_t)y->dims[1] != frames || (uint64_t)y->dims[2] != bins)
        return kernel_fail(call, "the output has different dims");
    if (!kernel_want_count(call, y, batch * frames * bins * 2, "the output")) return false;
    job->lines = batch * frames;
    job->from = (FourierSide){.inner = frames,
                              .outer_step = length * parts,
                              .inner_step = (uint64_t)step * parts,
                              .step = parts,
                              .parts = parts,
                              .count = (uint64_t)n};
    job->to = (FourierSide){.inner = frames,
                            .outer_step = frames * bins * 2,
                            .inner_step = bins * 2,
                            .step = 2,
                            .parts = 2,
                            .count = bins};
    return find_tables(call, (uint64_t)n, parts == 1 ? FOURIER_REAL : FOURIER_COMPLEX, job);
}

bool kernel_stft(KernelCall *call) {
    FourierJob job = {0};
    int64_t step;
    const KernelTensor *signal = &call->inputs[0], *y = &call->outputs[0];
    const KernelTensor *window = kernel_input(call, 2), *frame = kernel_input(call, 3);
    if (signal->rank < 2 || signal->rank > 3)
        return kernel_fail(call, "a signal of rank %u", signal->rank);
    if (!single_int(call, &call->inputs[1], &step)) return false;
    int64_t n = window ? (int64_t)window->count : signal->dims[1];
    if (frame && !single_int(call, frame, &n)) return false;
    if (!stft_sizes(call, step, n, &job)) return false;
    if (y->count == 0) return true;
    if (y->dtype != DTYPE_FLOAT && y->dtype != DTYPE_DOUBLE)
        return kernel_fail(call, "a spectrum of %s", dtype_name(y->dtype));
    if (!set_side(call, signal, &job.from)) return false;
    job.to.data = y->data;
    job.to.is_double = y->dtype == DTYPE_DOUBLE;
    return transform_lines(call, &job);
}

static KernelReady make_stft(KernelCall *call) {
    const KernelTensor *signal = kernel_input(call, 0), *window = kernel_input(call, 2);
    if (!signal || signal->rank < 2) return KERNEL_READY;
    int64_t n = window ? (int64_t)window->count : signal->dims[1];
    if (kernel_input(call, 3)) {
        const KernelTensor *frame = kernel_constant(call, 3);
        if (!frame || frame->count != 1) return KERNEL_READY;
        n = (int64_t)kernel_real(frame, 0);
    }
    bool complex = signal->rank == 3 && signal->dims[2] == 2;
    prepare_tables(call, n, complex ? FOURIER_COMPLEX : FOURIER_REAL);
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_stft = {make_stft, NULL, 0};
