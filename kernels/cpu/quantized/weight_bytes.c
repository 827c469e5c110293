// SPDX-License-Identifier: Apache-2.0
/* Rows and threads of weight_bytes.h. */
#include "weight_bytes.h"

#include <string.h>

#include "checked.h"
#include "kernel_parts.h"

#define SIMD_OFFERS weight_bytes
#include "simd_offers.inc"

/* Bytes of rows that stay in the second-level cache while panels pass by. */
enum { CACHED = 512 << 10 };

typedef struct Job {
    const WeightProduct *product;
    const ByteIsa *isa;
    uint64_t panel, x_row, x_parts; /* bytes of a panel, of a row; parts of a row */
    int8_t *x;
    float *x_scales;
    int32_t *x_sums;
    uint64_t first_row, end_row; /* of the rows that are cached */
} Job;

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- rounding -------------------------------------------------------------------------------- */

static void round_block(const Job *job, uint64_t row, uint64_t block) {
    const WeightShape *shape = &job->product->shape;
    const uint64_t parts = weight_parts(shape), first = block * shape->block;
    const uint64_t count = least(shape->k - first, shape->block);
    const uint64_t part = row * job->x_parts + block * parts;
    int8_t *to = job->x + row * job->x_row + block * weight_block_depth(shape);
    for (uint64_t i = 0; i * WEIGHT_PART < count; i++)
        job->isa->round(
            &(BytePart){.from = job->product->x + row * shape->k + first + i * WEIGHT_PART,
                        .count = least(count - i * WEIGHT_PART, WEIGHT_PART),
                        .bits = shape->bits,
                        .to = to + i * WEIGHT_PART,
                        .scale = &job->x_scales[part + i],
                        .sum = &job->x_sums[part + i]});
}

static void round_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Job *job = data;
    (void)lane;
    for (uint64_t row = first; row < end; row++)
        for (uint64_t b = 0; b < job->product->shape.blocks; b++) round_block(job, row, b);
}

/* ---- products -------------------------------------------------------------------------------- */

static void run_tile(const Job *job, ByteTile *tile, uint64_t column, uint64_t row, uint64_t rows) {
    float sums[WEIGHT_ROWS_MOST * WEIGHT_COLUMNS];
    memset(sums, 0, rows * WEIGHT_COLUMNS * sizeof *sums);
    tile->x = job->x + row * job->x_row;
    tile->x_scales = job->x_scales + row * job->x_parts;
    tile->x_sums = job->x_sums + row * job->x_parts;
    tile->y = sums;
    job->isa->rows[rows - 1](tile);
    weight_panel_store(job->product, sums, row, rows, column);
}

static void run_panels(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Job *job = data;
    const WeightProduct *p = job->product;
    (void)lane;
    for (uint64_t panel = first; panel < end; panel++) {
        ByteTile tile = {.shape = &p->shape,
                         .data = (const char *)p->data + panel * job->panel,
                         .factors = weight_panel_factors(p, panel),
                         .x_row = job->x_row};
        for (uint64_t row = job->first_row; row < job->end_row; row += WEIGHT_ROWS_MOST)
            run_tile(job, &tile, panel * WEIGHT_COLUMNS, row,
                     least(job->end_row - row, WEIGHT_ROWS_MOST));
    }
}

static bool find_room(KernelCall *call, Job *job) {
    const WeightProduct *p = job->product;
    uint64_t bytes, parts;
    job->x_row = p->shape.blocks * weight_block_depth(&p->shape);
    job->x_parts = p->shape.blocks * weight_parts(&p->shape);
    if (!checked_mul(p->rows, job->x_row, &bytes) ||
        !checked_mul(p->rows * sizeof(float), job->x_parts, &parts))
        return kernel_fail(call, "the rows are too large");
    job->x = kernel_workspace(call, bytes);
    job->x_scales = job->x ? kernel_workspace(call, parts) : NULL;
    job->x_sums = job->x_scales ? kernel_workspace(call, parts) : NULL;
    return job->x_sums != NULL;
}

bool weight_bytes_run(KernelCall *call, const WeightProduct *p) {
    const WeightShape *shape = &p->shape;
    Job job = {.product = p, .isa = isa_pick(weight_bytes_offers, p->cpu)};
    uint64_t all;
    if (!weight_packed_size(shape, &job.panel, &all))
        return kernel_fail(call, "the weights are empty");
    if (!find_room(call, &job)) return false;
    const double elements = (double)shape->k * (double)p->rows;
    kernel_run_parts(call->workers, kernel_work_cut(call, elements, p->rows), round_rows, &job);
    const uint64_t cached = CACHED / job.x_row / WEIGHT_ROWS_MOST * WEIGHT_ROWS_MOST;
    const uint64_t step = cached > WEIGHT_ROWS_MOST ? cached : WEIGHT_ROWS_MOST;
    for (; job.first_row < p->rows; job.first_row = job.end_row) {
        job.end_row = least(job.first_row + step, p->rows);
        const double work =
            (double)shape->k * (double)shape->n * (double)(job.end_row - job.first_row);
        kernel_run_parts(call->workers, kernel_work_cut(call, work, weight_panel_count(shape)),
                         run_panels, &job);
    }
    return true;
}
