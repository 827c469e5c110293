// SPDX-License-Identifier: Apache-2.0
/* Products of float matrices in memory: packing of rows and columns, and what needs no packing:
 * matrix times vector, vector times matrix. See gemm.h. */
#include "gemm.h"

#include "kernel_parts.h"

enum { SWEEP_COLUMNS = 4096, DOT_ROWS = 16 };

static const float *start(const GemmMatrix *m, uint64_t batch) {
    return m->data + (m->offsets ? m->offsets[batch] : 0);
}

void gemm_copy_rows(const GemmMatrix *m, const GemmBlock *block, float *to) {
    const float *from = start(m, block->batch) + block->lane * m->row + block->k * m->column;
    if (m->row == 1)
        block->loops->transpose(to, block->depth, from, m->column, block->depth, block->lanes);
    else
        for (uint64_t i = 0; i < block->lanes; i++)
            for (uint64_t k = 0; k < block->depth; k++)
                to[i * block->depth + k] = from[i * m->row + k * m->column];
}

/* Columns that lie side by side in memory, each in its own lane. */
static void pack_turned(const float *from, uint64_t step, const GemmBlock *block, float *to) {
    const uint32_t width = block->width;
    for (uint64_t j = 0; j < block->lanes; j += width, to += width * block->depth) {
        uint64_t lanes = block->lanes - j < width ? block->lanes - j : width;
        block->loops->transpose(to, width, from + j * step, step, lanes, block->depth);
    }
}

static void pack_any(const float *from, const GemmMatrix *m, const GemmBlock *block, float *to) {
    const uint32_t width = block->width;
    for (uint64_t k = 0; k < block->depth; k++)
        for (uint64_t j = 0; j < block->lanes; j++)
            to[(j / width * block->depth + k) * width + j % width] =
                from[k * m->row + j * m->column];
}

void gemm_pack_columns(const void *source, const GemmBlock *block, void *to) {
    const GemmMatrix *m = source;
    const float *from = start(m, block->batch) + block->lane * m->column + block->k * m->row;
    if (m->column == 1)
        block->loops->panels(to, from, m->row, block);
    else if (m->row == 1)
        pack_turned(from, m->column, block, to);
    else
        pack_any(from, m, block, to);
}

/* The vector of `count` elements `step` apart as contiguous ones: itself or a copy. */
static const float *contiguous(KernelCall *call, const float *from, uint64_t step, uint64_t count) {
    if (step == 1 || count < 2) return from;
    float *copy = ARENA_ARRAY(call->scratch, float, count);
    for (uint64_t i = 0; i < count; i++) copy[i] = from[i * step];
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
    const float *m, *x;
    uint64_t row, count, part, k;
    const GemmLoops *loops;
    bool dots;
} VectorJob;

static void vector_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const VectorJob *job = data;
    const GemmLoops *loops = job->loops;
    (void)lane;
    for (uint64_t task = first; task < end; task++) {
        uint64_t i = task * job->part, left = job->count - i;
        uint64_t count = left < job->part ? left : job->part;
        if (job->dots)
            loops->dots(job->y + i, job->m + i * job->row, job->row, job->x, count, job->k);
        else
            loops->sweep(job->y + i, job->m + i, job->row, job->x, job->k, count);
    }
}

/* y = matrix * x, the matrix's rows (`row` apart) being contiguous. */
static void run_dots(KernelCall *call, const GemmMatrices *g, uint64_t batch, bool a_is_vector) {
    const GemmMatrix *matrix = a_is_vector ? &g->b : &g->a, *vector = a_is_vector ? &g->a : &g->b;
    uint64_t rows = a_is_vector ? g->n : g->m, row = a_is_vector ? matrix->column : matrix->row;
    const float *x =
        contiguous(call, start(vector, batch), a_is_vector ? vector->column : vector->row, g->k);
    const float *m = start(matrix, batch);
    float *y = g->c + batch * rows;
    begin(g, batch, y, rows);
    const VectorJob job = {y, m, x, row, rows, DOT_ROWS, g->k, gemm_loops(isa_best()), true};
    kernel_run_parts(
        call->workers,
        kernel_work_cut(call, (double)rows * (double)g->k, (rows + DOT_ROWS - 1) / DOT_ROWS),
        vector_part, &job);
}

/* y = x * matrix, the matrix's rows (along y) being contiguous. */
static void run_sweep(KernelCall *call, const GemmMatrices *g, uint64_t batch, bool a_is_vector) {
    const GemmMatrix *matrix = a_is_vector ? &g->b : &g->a, *vector = a_is_vector ? &g->a : &g->b;
    uint64_t columns = a_is_vector ? g->n : g->m;
    uint64_t row = a_is_vector ? matrix->row : matrix->column;
    const float *x =
        contiguous(call, start(vector, batch), a_is_vector ? vector->column : vector->row, g->k);
    const float *m = start(matrix, batch);
    float *y = g->c + batch * columns;
    begin(g, batch, y, columns);
    double work = (double)columns * (double)g->k;
    uint64_t part = (columns / kernel_work_threads(call, work, (columns + 63) / 64) + 64) / 64 * 64;
    if (part > SWEEP_COLUMNS) part = SWEEP_COLUMNS;
    const VectorJob job = {y, m, x, row, columns, part, g->k, gemm_loops(isa_best()), false};
    kernel_run_parts(call->workers, kernel_work_cut(call, work, (columns + part - 1) / part),
                     vector_part, &job);
}

static bool run_vector(KernelCall *call, const GemmMatrices *g) {
    bool a_is_vector = g->m == 1;
    if ((!a_is_vector && g->n != 1) || g->k == 0) return false;
    const GemmMatrix *matrix = a_is_vector ? &g->b : &g->a;
    uint64_t along_k = a_is_vector ? matrix->row : matrix->column;
    uint64_t along_y = a_is_vector ? matrix->column : matrix->row;
    if (along_k != 1 && along_y != 1) return false;
    for (uint64_t batch = 0; batch < g->batches; batch++) {
        if (along_k == 1 && along_y != 1)
            run_dots(call, g, batch, a_is_vector);
        else
            run_sweep(call, g, batch, a_is_vector);
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
