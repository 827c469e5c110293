// SPDX-License-Identifier: Apache-2.0
/* MatMulInteger and QLinearMatMul.
 *
 * MatMulInteger: (a - a_zero) * (b - b_zero), summed in int32 modulo 2^32. QLinearMatMul: those
 * sums times a_scale * b_scale / y_scale, rounded to nearest even, plus y_zero, saturated; its
 * 8-bit float types arrive here as float and are summed as such, the host rounds the result.
 *
 * Zero points and scales are scalars, or one for each row of a (and of y), one for each column of
 * b: as a vector for all batches, or with the matrix's own rank and 1 where it has one for all.
 */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_parts.h"
#include "matmul_quantized.h"
#include "quantized.h"

static bool fits_lines(const KernelTensor *t, const KernelTensor *matrix, uint32_t axis) {
    if (t->rank != matrix->rank) return false;
    for (uint32_t i = 0; i < t->rank; i++) {
        bool free_axis = i + 2 < t->rank || i == axis;
        if (t->dims[i] != 1 && (!free_axis || t->dims[i] != matrix->dims[i])) return false;
    }
    return true;
}

/* Reads operand i. Lines of `matrix` lie along `axis`, its last axis but one (rows) or its last. */
static bool lines_make(KernelCall *call, uint32_t i, const KernelTensor *matrix, bool rows,
                       Lines *result) {
    const KernelTensor *t = kernel_input(call, i);
    *result = (Lines){.one = true, .items = ARENA_ARRAY(call->scratch, double, 1)};
    if (!t) return true;
    if (t->count == 1) {
        result->items[0] = kernel_real(t, 0);
        return true;
    }
    uint32_t axis = matrix->rank - (rows ? 2 : 1);
    if (matrix->rank < 2) return kernel_fail(call, "several scales or zero points for a vector");
    uint64_t lines = (uint64_t)matrix->dims[axis],
             batches = kernel_span(matrix, 0, matrix->rank - 2);
    bool vector = t->rank == 1 && t->count == lines;
    if (!vector && !fits_lines(t, matrix, axis))
        return kernel_fail(call, "operand %u, scales or zero points, does not fit its matrix", i);
    *result = (Lines){.items = arena_array(call->scratch, batches * lines + 1, sizeof(double)),
                      .lines = lines};
    for (uint64_t k = 0; k < batches * lines; k++) {
        uint64_t rest = k / lines, at = k % lines, size = lines;
        if (!vector && t->dims[axis] == 1) at = 0, size = 1;
        for (uint32_t d = matrix->rank - 2; !vector && d-- > 0;) {
            uint64_t dim = (uint64_t)matrix->dims[d];
            if (t->dims[d] != 1) at += rest % dim * size;
            size *= (uint64_t)t->dims[d];
            rest /= dim;
        }
        result->items[k] = kernel_real(t, at);
    }
    return true;
}

static double line(const Lines *l, uint64_t batch, uint64_t i) {
    return l->one ? l->items[0] : l->items[batch * l->lines + i];
}

enum { STORE_WORK = 16 }; /* multiply-adds that rounding and storing a sum takes as long as */

static bool is_byte(const KernelTensor *t) {
    return t->dtype == DTYPE_INT8 || t->dtype == DTYPE_UINT8;
}

/* A matrix's elements less their zero points as int16, rows `width` long. */
static int16_t *widen(KernelCall *call, const KernelTensor *t, const Lines *zeros, bool rows,
                      uint64_t width) {
    uint64_t columns = (uint64_t)t->dims[t->rank - 1], height = columns ? t->count / columns : 0;
    int16_t *wide = arena_array(call->scratch, height + 1, width * sizeof *wide + 2);
    uint64_t count = zeros->one ? 1 : zeros->lines * kernel_span(t, 0, t->rank - 2);
    int64_t *points = ARENA_ARRAY(call->scratch, int64_t, count + 1);
    for (uint64_t i = 0; i < count; i++) points[i] = (int64_t)zeros->items[i];
    uint64_t part = !zeros->one && !rows ? (uint64_t)t->dims[t->rank - 2] : height;
    for (uint64_t i = 0; part && i < height; i += part) {
        WideRows from = {.from = (const char *)t->data + i * columns,
                         .dtype = t->dtype,
                         .rows = part,
                         .columns = columns,
                         .zeros = {.points = points}};
        if (!zeros->one && rows) from.zeros.row = 1;
        if (!zeros->one && !rows) from.zeros.column = 1;
        if (!zeros->one && !rows) from.zeros.points = points + i / part * zeros->lines;
        quantized_widen(wide + i * width, &from, width);
    }
    return wide;
}

/* Zero points of a matrix of bytes are bytes. */
static bool zeros_fit(KernelCall *call, uint32_t i, const KernelTensor *matrix) {
    const KernelTensor *t = kernel_input(call, i);
    if (!t || !is_byte(matrix) || is_byte(t)) return true;
    return kernel_fail(call, "zero points of %s for %s", dtype_name(t->dtype),
                       dtype_name(matrix->dtype));
}

static bool matmul_byte_sums(KernelCall *call, const ByteFactors *f, int32_t *sums) {
    const MatmulBatches *s = &f->s;
    uint64_t width = quantized_width(s->k);
    int16_t *a = widen(call, f->a, &f->a_zero, true, width),
            *b = widen(call, f->b, &f->b_zero, false, s->n);
    uint64_t *a_at = ARENA_ARRAY(call->scratch, uint64_t, s->batches + 1);
    for (uint64_t i = 0; s->k && i < s->batches; i++) a_at[i] = s->a[i] / s->k * (width / 2);
    const GemmMatrix rows = {a, a_at, width / 2, 1, DTYPE_UNDEFINED};
    const PairRows columns = {b, s->b, s->n, s->k};
    const Gemm product = {.kind = GEMM_PAIRS,
                          .batches = s->batches,
                          .m = s->m,
                          .n = s->n,
                          .k = width / 2,
                          .a = &rows,
                          .pack_b = quantized_pack_rows,
                          .b = &columns,
                          .c = sums};
    return gemm_run(call, &product);
}

bool matmul_integer_by(KernelCall *call, ByteSums *sums) {
    KernelTensor *y = &call->outputs[0];
    ByteFactors f = {.a = &call->inputs[0], .b = &call->inputs[1]};
    if (!is_byte(f.a) || !is_byte(f.b) || y->dtype != DTYPE_INT32)
        return kernel_fail(call, "operands are not 8-bit");
    if (!matmul_batches(call, f.a, f.b, y, &f.s) || !lines_make(call, 2, f.a, true, &f.a_zero) ||
        !lines_make(call, 3, f.b, false, &f.b_zero) || !zeros_fit(call, 2, f.a) ||
        !zeros_fit(call, 3, f.b))
        return false;
    return y->count == 0 || sums(call, &f, y->data);
}

bool kernel_matmul_integer(KernelCall *call) {
    return matmul_integer_by(call, matmul_byte_sums);
}

/* ---- QLinearMatMul --------------------------------------------------------------------------- */

typedef struct Scales {
    Lines a, b, y, y_zero;
} Scales;

/* Which matrix of an operand belongs to a batch of y. */
static uint64_t matrix_of(const uint64_t *starts, uint64_t batch, uint64_t size) {
    return size ? starts[batch] / size : 0;
}

typedef struct StoreJob {
    const MatmulBatches *s;
    const Scales *scales;
    const double *columns; /* [n]: b's scales */
    const int32_t *sums;
    KernelTensor *y;
    uint64_t batch, a; /* the batch, and which matrix of a it takes */
} StoreJob;

static void store_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const StoreJob *job = data;
    const Scales *scales = job->scales;
    (void)lane;
    for (uint64_t i = first; i < end; i++) {
        uint64_t at = (job->batch * job->s->m + i) * job->s->n;
        double scale = line(&scales->a, job->a, i) / line(&scales->y, job->batch, i);
        const Requantize how = {.scale = scale,
                                .zero = line(&scales->y_zero, job->batch, i),
                                .scales = job->columns,
                                .dtype = job->y->dtype};
        quantized_store(&how, job->sums + at, (uint8_t *)job->y->data + at, job->s->n);
    }
}

static void store_bytes(KernelCall *call, const ByteFactors *f, const Scales *scales,
                        const int32_t *sums) {
    const MatmulBatches *s = &f->s;
    KernelTensor *y = &call->outputs[0];
    double *columns = ARENA_ARRAY(call->scratch, double, s->n);
    StoreJob job = {.s = s, .scales = scales, .columns = columns, .sums = sums, .y = y};
    for (; job.batch < s->batches; job.batch++) {
        uint64_t b = matrix_of(s->b, job.batch, s->k * s->n);
        job.a = matrix_of(s->a, job.batch, s->m * s->k);
        for (uint64_t j = 0; j < s->n; j++) columns[j] = line(&scales->b, b, j);
        kernel_run_parts(call->workers,
                         kernel_work_cut(call, (double)s->m * (double)s->n * STORE_WORK, s->m),
                         store_rows, &job);
    }
}

static float *less_zero(KernelCall *call, const KernelTensor *t, const Lines *zeros, bool rows) {
    float *wide = ARENA_ARRAY(call->scratch, float, t->count + 1);
    uint64_t columns = (uint64_t)t->dims[t->rank - 1];
    uint64_t height = t->rank > 1 ? (uint64_t)t->dims[t->rank - 2] : 1;
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t at = rows ? i / columns % height : i % columns;
        wide[i] = (float)(kernel_real(t, i) - line(zeros, i / (columns * height), at));
    }
    return wide;
}

/* Operands of which one is not an 8-bit integer: everything in float. */
static bool run_floats(KernelCall *call, const ByteFactors *f, const Scales *scales) {
    const MatmulBatches *s = &f->s;
    KernelTensor *y = &call->outputs[0];
    float *sums = ARENA_ARRAY(call->scratch, float, y->count);
    const GemmMatrices g = {.batches = s->batches,
                            .m = s->m,
                            .n = s->n,
                            .k = s->k,
                            .a = {.data = less_zero(call, f->a, &f->a_zero, true),
                                  .offsets = s->a,
                                  .row = s->k,
                                  .column = 1},
                            .b = {.data = less_zero(call, f->b, &f->b_zero, false),
                                  .offsets = s->b,
                                  .row = s->n,
                                  .column = 1},
                            .c = sums};
    if (!gemm_matrices(call, &g)) return false;
    for (uint64_t i = 0; i < y->count; i++) {
        uint64_t batch = i / (s->m * s->n), row = i / s->n % s->m, column = i % s->n;
        double scale = line(&scales->a, matrix_of(s->a, batch, s->m * s->k), row) *
                       line(&scales->b, matrix_of(s->b, batch, s->k * s->n), column) /
                       line(&scales->y, batch, row);
        double value = (double)sums[i] * scale, zero = line(&scales->y_zero, batch, row);
        uint64_t bits = 0;
        dtype_from_double(y->dtype, value + zero, &bits);
        memcpy((char *)y->data + i * kernel_element_size(y->dtype), &bits,
               kernel_element_size(y->dtype));
    }
    return true;
}

bool qlinear_matmul_by(KernelCall *call, ByteSums *byte_sums) {
    KernelTensor *y = &call->outputs[0];
    const KernelTensor *b = &call->inputs[3];
    ByteFactors f = {.a = &call->inputs[0], .b = b};
    Scales scales;
    if (!matmul_batches(call, f.a, f.b, y, &f.s) || !lines_make(call, 1, f.a, true, &scales.a) ||
        !lines_make(call, 2, f.a, true, &f.a_zero) || !lines_make(call, 4, b, false, &scales.b) ||
        !lines_make(call, 5, b, false, &f.b_zero) || !lines_make(call, 6, y, true, &scales.y) ||
        !lines_make(call, 7, y, true, &scales.y_zero) || !zeros_fit(call, 2, f.a) ||
        !zeros_fit(call, 5, b))
        return false;
    bool vectors = f.a->rank < 2 || b->rank < 2;
    if (vectors && (!scales.y.one || !scales.y_zero.one))
        return kernel_fail(call, "several scales or zero points for a vector");
    if (y->count == 0) return true;
    if (!is_byte(f.a) || !is_byte(b) || !is_byte(y)) return run_floats(call, &f, &scales);
    int32_t *sums = kernel_workspace(call, y->count * sizeof *sums);
    if (!sums || !byte_sums(call, &f, sums)) return false;
    store_bytes(call, &f, &scales, sums);
    return true;
}

bool kernel_qlinear_matmul(KernelCall *call) {
    return qlinear_matmul_by(call, matmul_byte_sums);
}
