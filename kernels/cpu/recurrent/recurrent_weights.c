// SPDX-License-Identifier: Apache-2.0
/* Packed weights of recurrent layers; see recurrent_weights.h. */
#include "recurrent_weights.h"

#include <string.h>

#include "kernel_parts.h"

/* Units of a panel. */
static uint64_t panel_width(const GemmIsa *isa) {
    return (uint64_t)isa->vecs * isa->lanes;
}

static uint64_t panel_count(const GemmIsa *isa, uint64_t rows) {
    return (rows + panel_width(isa) - 1) / panel_width(isa);
}

uint64_t recurrent_packed_size(const RecurrentRows *rows, IsaLevel level) {
    const GemmIsa *isa = gemm_isa(GEMM_FLOAT, level);
    return panel_count(isa, rows->rows) * panel_width(isa) * rows->depth * sizeof(float);
}

void recurrent_pack(void *to, const RecurrentRows *rows, IsaLevel level) {
    const GemmIsa *isa = gemm_isa(GEMM_FLOAT, level);
    const uint64_t width = panel_width(isa), depth = rows->depth;
    float *panel = to;
    memset(to, 0, recurrent_packed_size(rows, level));
    for (uint64_t first = 0; first < rows->rows; first += width, panel += width * depth) {
        const uint64_t count = rows->rows - first < width ? rows->rows - first : width;
        for (uint64_t r = 0; r < count; r++)
            for (uint64_t k = 0; k < depth; k++)
                panel[k * width + r] = rows->data[(first + r) * depth + k];
    }
}

typedef struct ProductJob {
    const RecurrentProduct *product;
    const GemmIsa *isa;
} ProductJob;

static void multiply_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const ProductJob *job = data;
    const RecurrentProduct *p = job->product;
    const GemmIsa *isa = job->isa;
    const uint64_t width = panel_width(isa);
    (void)lane;
    for (uint64_t panel = first; panel < end; panel++) {
        const uint64_t begin = panel * width;
        const uint64_t columns = p->rows - begin < width ? p->rows - begin : width;
        GemmTile tile = {.depth = p->depth,
                         .b = (const float *)p->packed + begin * p->depth,
                         .a_row = p->depth,
                         .c_row = p->to_row,
                         .columns = (uint32_t)columns,
                         .add = p->add};
        for (uint64_t b = 0; b < p->count; b += tile.rows) {
            tile.rows = p->count - b < isa->rows ? (uint32_t)(p->count - b) : isa->rows;
            tile.a = p->vectors + b * p->depth;
            tile.c = p->to + b * p->to_row + begin;
            isa->tiles[tile.rows - 1][(columns - 1) / isa->lanes](&tile);
        }
    }
}

void recurrent_multiply(const KernelCall *call, const RecurrentProduct *product, IsaLevel level) {
    const ProductJob job = {product, gemm_isa(GEMM_FLOAT, level)};
    const double work = (double)product->rows * (double)product->depth * (double)product->count;
    kernel_run_parts(call->workers,
                     kernel_work_cut(call, work, panel_count(job.isa, product->rows)),
                     multiply_part, &job);
}
