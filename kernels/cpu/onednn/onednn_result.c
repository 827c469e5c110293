// SPDX-License-Identifier: Apache-2.0
/* Sums to results, tile by tile; see onednn_result.h. */
#include "onednn_result.h"

#include <string.h>

#include "gemm.h"
#include "half.h"
#include "kernel_parts.h"

enum { TILE = 1024, TILE_COLUMNS = 64, TILE_ROWS = TILE / TILE_COLUMNS, STORE_WORK = 8 };

/* Part of a result: rows and columns of one image. */
typedef struct Part {
    uint64_t image, row, rows, column, columns;
} Part;

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void widen(float *to, const KernelTensor *from, uint64_t at, uint64_t count) {
    if (from->dtype == DTYPE_FLOAT)
        memcpy(to, (const float *)from->data + at, count * sizeof *to);
    else
        reduced_convert_to_float(from->dtype, to, (const uint16_t *)from->data + at, count);
}

static void narrow(const KernelTensor *to, uint64_t at, const float *from, uint64_t count) {
    if (to->dtype == DTYPE_FLOAT)
        memmove((float *)to->data + at, from, count * sizeof *from);
    else
        reduced_convert_from_float(to->dtype, (uint16_t *)to->data + at, from, count);
}

static void store_part(const OnednnResult *r, const GemmLoops *loops, const Part *p) {
    float tile[TILE + GEMM_SLACK], other[TILE];
    uint64_t first = (p->image * r->rows + p->row) * r->columns + p->column;
    if (r->channels_last)
        loops->transpose(tile, p->columns,
                         r->sums + (p->image * r->columns + p->column) * r->rows + p->row, r->rows,
                         p->columns, p->rows);
    else
        for (uint64_t i = 0; i < p->rows; i++)
            memcpy(tile + i * p->columns, r->sums + first + i * r->columns,
                   p->columns * sizeof *tile);
    Epilogue epilogue = r->epilogue;
    if (epilogue.bias) epilogue.bias += epilogue.bias_of_rows ? p->row : p->column;
    if (r->residual) {
        for (uint64_t i = 0; i < p->rows; i++)
            widen(other + i * p->columns, r->residual, first + i * r->columns, p->columns);
        epilogue.residual = other;
        epilogue.residual_row = p->columns;
    }
    const EpilogueBlock block = {
        .y = tile, .y_row = p->columns, .rows = p->rows, .columns = p->columns};
    epilogue_apply(&epilogue, &block);
    for (uint64_t i = 0; i < p->rows; i++)
        narrow(r->y, first + i * r->columns, tile + i * p->columns, p->columns);
}

typedef struct StoreJob {
    const OnednnResult *result;
    const GemmLoops *loops;
    uint64_t height, width, down; /* of a part; parts one below the other in an image */
} StoreJob;

static void store_parts(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const StoreJob *job = data;
    const OnednnResult *r = job->result;
    (void)lane;
    for (uint64_t i = first; i < end; i++) {
        Part part = {.image = i / job->down, .row = i % job->down * job->height};
        part.rows = least(r->rows - part.row, job->height);
        for (; part.column < r->columns; part.column += job->width) {
            part.columns = least(r->columns - part.column, job->width);
            store_part(r, job->loops, &part);
        }
    }
}

void onednn_store(KernelCall *call, const OnednnResult *r) {
    uint64_t height = r->channels_last ? TILE_ROWS : 1,
             width = r->channels_last ? TILE_COLUMNS : TILE;
    uint64_t down = (r->rows + height - 1) / height, tasks = r->images * down;
    const StoreJob job = {r, gemm_loops(isa_here()), height, width, down};
    kernel_run_parts(call->workers, kernel_work_cut(call, STORE_WORK * (double)r->y->count, tasks),
                     store_parts, &job);
}
