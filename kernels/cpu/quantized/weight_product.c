// SPDX-License-Identifier: Apache-2.0
/* Threads and many rows of weight_product.h. */
#include "weight_product.h"

#include <string.h>

#include "checked.h"
#include "gemm.h"
#include "kernel_parts.h"
#include "weight_bytes.h"

/* From so many rows on, widening weights for gemm.h once takes less than widening them for eight
 * rows at a time, as measured with AVX-512 and with AVX2. */
enum { MANY_ROWS = 24 };

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- products ------------------------------------------------------------------------------- */

#define SIMD_OFFERS weight_isas
#include "simd_offers.inc"

typedef struct Job {
    const WeightProduct *product;
    const WeightIsa *isa;
    const float *x; /* blocks as they are packed */
    uint64_t x_row, panel;
} Job;

static WeightTile tile_of(const WeightProduct *p, uint64_t panel_size, uint64_t panel) {
    return (WeightTile){.shape = &p->shape,
                        .data = (const char *)p->data + panel * panel_size,
                        .factors = weight_panel_factors(p, panel)};
}

/* Some rows of a panel's columns. */
static void run_tile(const Job *job, WeightTile *tile, uint64_t column, uint64_t row) {
    const WeightProduct *p = job->product;
    const uint64_t rows = least(p->rows - row, WEIGHT_ROWS_MOST);
    float sums[WEIGHT_ROWS_MOST * WEIGHT_COLUMNS];
    memset(sums, 0, rows * WEIGHT_COLUMNS * sizeof *sums);
    tile->x = job->x + row * job->x_row;
    tile->x_row = job->x_row;
    tile->y = sums;
    job->isa->rows[rows - 1](tile);
    weight_panel_store(p, sums, row, rows, column);
}

static void run_panels(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Job *job = data;
    (void)lane;
    for (uint64_t panel = first; panel < end; panel++) {
        WeightTile tile = tile_of(job->product, job->panel, panel);
        for (uint64_t row = 0; row < job->product->rows; row += WEIGHT_ROWS_MOST)
            run_tile(job, &tile, panel * WEIGHT_COLUMNS, row);
    }
}

/* Rows as packed blocks want them, with zeros where those are longer; NULL with the error set. */
static const float *pad_rows(KernelCall *call, const WeightProduct *p, uint64_t row) {
    const WeightShape *shape = &p->shape;
    const uint64_t depth = weight_block_depth(shape);
    uint64_t size;
    float *to = NULL;
    if (checked_mul(row, p->rows * sizeof *to, &size)) to = kernel_workspace(call, size);
    if (!to) return NULL;
    memset(to, 0, size);
    for (uint64_t r = 0; r < p->rows; r++)
        for (uint64_t b = 0; b < shape->blocks; b++)
            memcpy(to + r * row + b * depth, p->x + r * shape->k + b * shape->block,
                   least(shape->k - b * shape->block, shape->block) * sizeof *to);
    return to;
}

static bool run_few(KernelCall *call, const WeightProduct *p) {
    const WeightShape *shape = &p->shape;
    Job job = {
        .product = p, .isa = isa_pick(weight_isas_offers, p->cpu), .x = p->x, .x_row = shape->k};
    uint64_t all;
    if (!weight_packed_size(shape, &job.panel, &all))
        return kernel_fail(call, "the weights are empty");
    if (shape->block % weight_group(shape) || shape->k % weight_group(shape)) {
        job.x_row = shape->blocks * weight_block_depth(shape);
        job.x = pad_rows(call, p, job.x_row);
        if (!job.x) return false;
    }
    const double work = (double)shape->k * (double)shape->n * (double)p->rows;
    kernel_run_parts(call->workers, kernel_work_cut(call, work, weight_panel_count(shape)),
                     run_panels, &job);
    return true;
}

/* ---- many rows ------------------------------------------------------------------------------- */

/* A GemmPack. What lies in one panel here and in one of gemm.h's is widened in place: both are
 * whole vectors, so that no lane is written that is another part's. */
static void pack_block(const void *source, const GemmBlock *block, void *to) {
    const Job *job = source;
    const uint64_t end = block->lane + block->lanes;
    for (uint64_t lane = block->lane, count; lane < end; lane += count) {
        const uint64_t at = lane % WEIGHT_COLUMNS, place = lane - block->lane;
        const uint64_t in_panel = block->width - place % block->width;
        count = least(least(end - lane, WEIGHT_COLUMNS - at), in_panel);
        WeightPart part = {.tile = tile_of(job->product, job->panel, lane / WEIGHT_COLUMNS),
                           .k = block->k,
                           .depth = block->depth,
                           .column = at,
                           .columns = count,
                           .row = block->width};
        part.tile.y =
            (float *)to + place / block->width * block->depth * block->width + place % block->width;
        job->isa->widen(&part);
    }
}

static bool run_many(KernelCall *call, const WeightProduct *p) {
    Job job = {.product = p, .isa = isa_pick(weight_isas_offers, p->cpu)};
    const GemmMatrix x = {.data = p->x, .row = p->shape.k, .column = 1};
    uint64_t all;
    if (!weight_packed_size(&p->shape, &job.panel, &all))
        return kernel_fail(call, "the weights are empty");
    const Gemm product = {.kind = GEMM_FLOAT,
                          .batches = 1,
                          .m = p->rows,
                          .n = p->shape.n,
                          .k = p->shape.k,
                          .a = &x,
                          .pack_b = pack_block,
                          .b = &job,
                          .c = p->y,
                          .epilogue = p->epilogue};
    return gemm_run_on(call, &product, p->cpu);
}

/* Rows in the order of packed weights, whose blocks are all whole then. */
static bool turn_rows(KernelCall *call, WeightProduct *p) {
    const uint64_t k = p->shape.k, row = p->shape.blocks * p->shape.block;
    uint64_t size;
    float *to = NULL;
    if (checked_mul(row, p->rows * sizeof *to, &size)) to = kernel_workspace(call, size);
    if (!to) return false;
    memset(to, 0, size);
    for (uint64_t r = 0; r < p->rows; r++)
        for (uint64_t i = 0; i < k; i++) to[r * row + p->shape.places[i]] = p->x[r * k + i];
    p->x = to;
    p->shape.k = row;
    p->shape.places = NULL;
    return true;
}

bool weight_product_run(KernelCall *call, const WeightProduct *product) {
    WeightProduct p = *product;
    if (!p.rows || !p.shape.n) return true;
    if (p.shape.places && !turn_rows(call, &p)) return false;
    if (p.bytes && p.shape.k) return weight_bytes_run(call, &p);
    return p.rows < MANY_ROWS ? run_few(call, &p) : run_many(call, &p);
}
