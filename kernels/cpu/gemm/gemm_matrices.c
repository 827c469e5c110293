// SPDX-License-Identifier: Apache-2.0
/* Products of float matrices in memory, and of those what needs no packing: matrix times vector,
 * vector times matrix. See gemm.h. */
#include "gemm.h"

#include <string.h>

#include "kernel_parts.h"

enum { SWEEP_COLUMNS = 4096, DOT_ROWS = 16 };

/* The vector of `count` elements `step` apart as contiguous floats: itself or a copy. */
static const float *contiguous(KernelCall *call, const GemmMatrix *m, uint64_t batch, uint64_t step,
                               uint64_t count) {
    const char *from = gemm_start(m, batch);
    if (!m->narrow && (step == 1 || count < 2)) return (const void *)from;
    float *copy = ARENA_ARRAY(call->scratch, float, count);
    for (uint64_t i = 0; i < count; i++)
        if (m->narrow)
            gemm_widen(m, &copy[i], from + i * step * gemm_element(m), 1);
        else
            memcpy(&copy[i], from + i * step * gemm_element(m), sizeof *copy);
    return copy;
}

/* What y starts from: bias (per row of C), zero, or what it holds. */
static void begin(const GemmMatrices *g, uint64_t batch, float *y, uint64_t count) {
    if (g->add) return;
    const float *bias = g->bias ? g->bias + batch % g->bias_batches * g->m : NULL;
    for (uint64_t i = 0; i < count; i++) y[i] = bias ? bias[g->m == 1 ? 0 : i] : 0;
}

/* A vector as product, in tasks of `part` of its elements: each a dot product with a row of the
 * matrix, or all of them sums over the matrix's rows. */
typedef struct VectorJob {
    float *y;
    const char *m;
    const float *x;
    uint64_t row, count, part, k;
    const GemmLoops *loops;
    bool dots;
    const GemmMatrix *matrix;
    float *wide; /* narrow elements: [threads][wide_size], some of the matrix's rows */
    uint64_t wide_size;
} VectorJob;

enum { WIDE_ROWS = 8 };

/* Elements of a task, in float: at `from`, `count` of each of `rows` rows side by side. */
static void widen_rows(const VectorJob *job, const char *from, uint64_t rows, uint64_t count,
                       float *to) {
    for (uint64_t r = 0; r < rows; r++)
        gemm_widen(job->matrix, to + r * count, from + r * job->row * sizeof(uint16_t), count);
}

/* Some rows at a time; sums are as if all were there. */
static void narrow_task(const VectorJob *job, uint64_t i, uint64_t count, float *wide) {
    uint64_t rows = job->dots ? count : job->k, length = job->dots ? job->k : count;
    const char *from = job->m + i * (job->dots ? job->row : 1) * sizeof(uint16_t);
    for (uint64_t r = 0; r < rows;
         r += WIDE_ROWS, from += WIDE_ROWS * job->row * sizeof(uint16_t)) {
        uint64_t some = rows - r < WIDE_ROWS ? rows - r : WIDE_ROWS;
        widen_rows(job, from, some, length, wide);
        if (job->dots)
            job->loops->dots(job->y + i + r, wide, length, job->x, some, length);
        else
            job->loops->gemv(job->y + i, wide, length, job->x + r, some, length);
    }
}

static void vector_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const VectorJob *job = data;
    const GemmLoops *loops = job->loops;
    const float *m = (const void *)job->m;
    for (uint64_t task = first; task < end; task++) {
        uint64_t i = task * job->part, left = job->count - i;
        uint64_t count = left < job->part ? left : job->part;
        if (job->wide)
            narrow_task(job, i, count, job->wide + lane * job->wide_size);
        else if (job->dots)
            loops->dots(job->y + i, m + i * job->row, job->row, job->x, count, job->k);
        else
            loops->gemv(job->y + i, m + i, job->row, job->x, job->k, count);
    }
}

/* Runs the job by parts of `work` multiply-adds in all. False with the error set. */
static bool run_job(KernelCall *call, VectorJob *job, double work) {
    KernelCut cut = kernel_work_cut(call, work, (job->count + job->part - 1) / job->part);
    if (job->matrix->narrow) {
        unsigned lanes = cut.parts > 1 ? kernel_threads(call) : 1;
        job->wide_size = WIDE_ROWS * (job->dots ? job->k : job->part);
        job->wide = kernel_workspace(call, lanes * job->wide_size * sizeof *job->wide);
        if (!job->wide) return false;
    }
    kernel_run_parts(call->workers, cut, vector_part, job);
    return true;
}

/* y = matrix * x, the matrix's rows (`row` apart) being contiguous. */
static bool run_dots(KernelCall *call, const GemmMatrices *g, uint64_t batch, bool a_is_vector) {
    const GemmMatrix *matrix = a_is_vector ? &g->b : &g->a, *vector = a_is_vector ? &g->a : &g->b;
    uint64_t rows = a_is_vector ? g->n : g->m, row = a_is_vector ? matrix->column : matrix->row;
    const float *x =
        contiguous(call, vector, batch, a_is_vector ? vector->column : vector->row, g->k);
    float *y = g->c + batch * rows;
    begin(g, batch, y, rows);
    VectorJob job = {.y = y,
                     .m = gemm_start(matrix, batch),
                     .x = x,
                     .row = row,
                     .count = rows,
                     .part = DOT_ROWS,
                     .k = g->k,
                     .loops = gemm_loops(isa_best()),
                     .dots = true,
                     .matrix = matrix};
    return run_job(call, &job, (double)rows * (double)g->k);
}

/* y = x * matrix, the matrix's rows (along y) being contiguous. */
static bool run_sweep(KernelCall *call, const GemmMatrices *g, uint64_t batch, bool a_is_vector) {
    const GemmMatrix *matrix = a_is_vector ? &g->b : &g->a, *vector = a_is_vector ? &g->a : &g->b;
    uint64_t columns = a_is_vector ? g->n : g->m;
    uint64_t row = a_is_vector ? matrix->row : matrix->column;
    const float *x =
        contiguous(call, vector, batch, a_is_vector ? vector->column : vector->row, g->k);
    float *y = g->c + batch * columns;
    begin(g, batch, y, columns);
    double work = (double)columns * (double)g->k;
    uint64_t part = (columns / kernel_work_threads(call, work, (columns + 63) / 64) + 64) / 64 * 64;
    if (part > SWEEP_COLUMNS) part = SWEEP_COLUMNS;
    VectorJob job = {.y = y,
                     .m = gemm_start(matrix, batch),
                     .x = x,
                     .row = row,
                     .count = columns,
                     .part = part,
                     .k = g->k,
                     .loops = gemm_loops(isa_best()),
                     .matrix = matrix};
    return run_job(call, &job, work);
}

/* A product with a vector; *ok is false where it failed. */
static bool run_vector(KernelCall *call, const GemmMatrices *g, bool *ok) {
    bool a_is_vector = g->m == 1;
    if ((!a_is_vector && g->n != 1) || g->k == 0) return false;
    const GemmMatrix *matrix = a_is_vector ? &g->b : &g->a;
    uint64_t along_k = a_is_vector ? matrix->row : matrix->column;
    uint64_t along_y = a_is_vector ? matrix->column : matrix->row;
    if (along_k != 1 && along_y != 1) return false;
    for (uint64_t batch = 0; *ok && batch < g->batches; batch++)
        *ok = along_k == 1 && along_y != 1 ? run_dots(call, g, batch, a_is_vector)
                                           : run_sweep(call, g, batch, a_is_vector);
    return true;
}

bool gemm_matrices(KernelCall *call, const GemmMatrices *g) {
    if (!g->batches || !g->m || !g->n) return true;
    bool ok = true;
    if (run_vector(call, g, &ok)) {
        if (!ok) return false;
        const EpilogueBlock whole = {g->c, g->n, 0, 0, g->batches * g->m, g->n};
        if (g->epilogue) epilogue_run(call, g->epilogue, &whole);
        return true;
    }
    const Gemm gemm = {.kind = GEMM_FLOAT,
                       .batches = g->batches,
                       .m = g->m,
                       .n = g->n,
                       .k = g->k,
                       .a = &g->a,
                       .pack_b = gemm_pack_columns,
                       .b = &g->b,
                       .b_matrix = &g->b,
                       .c = g->c,
                       .add = g->add,
                       .bias = g->bias,
                       .bias_batches = g->bias_batches,
                       .epilogue = g->epilogue};
    return gemm_run(call, &gemm);
}
