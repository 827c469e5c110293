// SPDX-License-Identifier: Apache-2.0
/* Products of float matrices in memory, and of those what needs no packing: matrix times vector,
 * vector times matrix. See gemm.h. */
#include "gemm.h"

#include <string.h>

#include "kernel_pace.h"
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
    bool dots;
    size_t element; /* bytes of one of the matrix */
    GemmVectorFunction *function;
} VectorJob;

static void vector_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const VectorJob *job = data;
    (void)lane;
    for (uint64_t task = first; task < end; task++) {
        uint64_t i = task * job->part, left = job->count - i;
        uint64_t count = left < job->part ? left : job->part;
        const char *m = job->m + i * (job->dots ? job->row : 1) * job->element;
        if (job->dots)
            job->function(job->y + i, m, job->row, job->x, count, job->k);
        else
            job->function(job->y + i, m, job->row, job->x, job->k, count);
    }
}

static GemmVectorFunction *function_of(const GemmMatrix *matrix, bool dots) {
    const GemmLoops *loops = gemm_loops(isa_here());
    if (!matrix->narrow) return dots ? loops->dots : loops->gemv;
    if (matrix->narrow == DTYPE_FLOAT16) return dots ? loops->half_dots : loops->half_gemv;
    return dots ? loops->bfloat_dots : loops->bfloat_gemv;
}

/* Runs the job by parts of `work` multiply-adds in all. */
static void run_job(KernelCall *call, VectorJob *job, const GemmMatrix *matrix, double work) {
    job->element = gemm_element(matrix);
    job->function = function_of(matrix, job->dots);
    uint64_t tasks = (job->count + job->part - 1) / job->part;
    kernel_run_parts(call->workers, kernel_work_cut(call, work, tasks), vector_part, job);
}

/* y = matrix * x, the matrix's rows (`row` apart) being contiguous. */
static void run_dots(KernelCall *call, const GemmMatrices *g, uint64_t batch, bool a_is_vector) {
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
                     .dots = true};
    run_job(call, &job, matrix, (double)rows * (double)g->k);
}

/* y = x * matrix, the matrix's rows (along y) being contiguous. */
static void run_sweep(KernelCall *call, const GemmMatrices *g, uint64_t batch, bool a_is_vector) {
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
                     .k = g->k};
    run_job(call, &job, matrix, work);
}

/* A product with a vector; false where it is none of those. */
static bool run_vector(KernelCall *call, const GemmMatrices *g) {
    bool a_is_vector = g->m == 1;
    if ((!a_is_vector && g->n != 1) || g->k == 0) return false;
    const GemmMatrix *matrix = a_is_vector ? &g->b : &g->a;
    uint64_t along_k = a_is_vector ? matrix->row : matrix->column;
    uint64_t along_y = a_is_vector ? matrix->column : matrix->row;
    if (along_k != 1 && along_y != 1) return false;
    KernelPace pace = {call, 0};
    for (uint64_t batch = 0; batch < g->batches; batch++) {
        kernel_pace(&pace, 16 + g->m * g->n * g->k);
        (along_k == 1 && along_y != 1 ? run_dots : run_sweep)(call, g, batch, a_is_vector);
    }
    return true;
}

bool gemm_matrices(KernelCall *call, const GemmMatrices *g) {
    if (!g->batches || !g->m || !g->n) return true;
    if (run_vector(call, g)) {
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
