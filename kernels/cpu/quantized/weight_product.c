// SPDX-License-Identifier: Apache-2.0
/* Packing, threads and many rows of weight_product.h. */
#include "weight_product.h"

#include <string.h>

#include "checked.h"
#include "gemm.h"
#include "kernel_parts.h"
#include "weight_bytes.h"

/* From so many rows on, widening weights for gemm.h once takes less than widening them for eight
 * rows at a time, as measured with AVX-512 and with AVX2. */
enum { MANY_ROWS = 24 };

static uint64_t panels_of(const WeightShape *shape) {
    return shape->n / WEIGHT_COLUMNS + (shape->n % WEIGHT_COLUMNS != 0);
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- packing --------------------------------------------------------------------------------- */

bool weight_packed_size(const WeightShape *shape, uint64_t *panel, uint64_t *all) {
    return checked_mul(shape->blocks, weight_block_depth(shape), panel) &&
           checked_mul(*panel, WEIGHT_COLUMNS / 8 * shape->bits, panel) &&
           checked_mul(*panel, panels_of(shape), all);
}

bool weight_factors_count(const WeightShape *shape, uint64_t *count) {
    return checked_mul(shape->blocks, WEIGHT_COLUMNS, count) &&
           checked_mul(*count, panels_of(shape), count);
}

/* A column of a panel's words. */
static void pack_column(const WeightShape *shape, const uint8_t *from, uint32_t *to) {
    const uint32_t bits = shape->bits, stored = shape->stored, mask = (1u << stored) - 1;
    const uint32_t middle = weight_middle(stored), kept = (1u << bits) - 1;
    const uint64_t each = 8 / stored, bytes = (shape->block + each - 1) / each;
    const uint64_t depth = weight_block_depth(shape), group = weight_group(shape);
    for (uint64_t k = 0; k < shape->k; k++) {
        const uint64_t in = k % shape->block, place = shape->places ? shape->places[k] : k;
        const uint32_t item =
            from[k / shape->block * bytes + in / each] >> in % each * stored & mask;
        const uint64_t at = place / shape->block * depth + place % shape->block;
        to[at / group * WEIGHT_COLUMNS] |= ((item - middle) & kept)
                                           << (WEIGHT_WORD_BITS - bits - at % group * bits);
    }
}

void weight_pack(const WeightShape *shape, const uint8_t *from, void *to) {
    uint64_t panel = 0, all = 0;
    if (!weight_packed_size(shape, &panel, &all)) return;
    memset(to, 0, all);
    const uint64_t each = 8 / shape->stored;
    const uint64_t column = shape->blocks * ((shape->block + each - 1) / each);
    for (uint64_t n = 0; n < shape->n; n++) {
        char *start = (char *)to + n / WEIGHT_COLUMNS * panel;
        pack_column(shape, from + n * column, (uint32_t *)(void *)start + n % WEIGHT_COLUMNS);
    }
}

bool weight_pack_zeros(const WeightShape *shape, const float *from, uint8_t *to) {
    const float most = (float)((1u << shape->bits) - 1);
    uint64_t count = 0;
    if (!weight_factors_count(shape, &count)) return false;
    memset(to, 0, count);
    for (uint64_t n = 0; n < shape->n; n++) {
        uint8_t *column =
            to + n / WEIGHT_COLUMNS * shape->blocks * WEIGHT_COLUMNS + n % WEIGHT_COLUMNS;
        for (uint64_t b = 0; b < shape->blocks; b++) {
            const float zero = from[n * shape->blocks + b];
            if (!(zero >= 0 && zero <= most) || zero != (float)(uint8_t)zero) return false;
            column[b * WEIGHT_COLUMNS] = (uint8_t)zero;
        }
    }
    return true;
}

void weight_pack_factors(const WeightShape *shape, const float *from, float offset, float *to) {
    uint64_t count = 0;
    if (!weight_factors_count(shape, &count)) return;
    memset(to, 0, count * sizeof *to);
    for (uint64_t n = 0; n < shape->n; n++) {
        float *column =
            to + n / WEIGHT_COLUMNS * shape->blocks * WEIGHT_COLUMNS + n % WEIGHT_COLUMNS;
        for (uint64_t b = 0; b < shape->blocks; b++)
            column[b * WEIGHT_COLUMNS] = from[n * shape->blocks + b] - offset;
    }
}

/* ---- products -------------------------------------------------------------------------------- */

#define SIMD_OFFERS weight_isas
#include "simd_offers.inc"

typedef struct Job {
    const WeightProduct *product;
    const WeightIsa *isa;
    const float *x; /* blocks as they are packed */
    uint64_t x_row, panel;
} Job;

WeightFactors weight_product_factors(const WeightProduct *p, uint64_t panel) {
    const uint64_t first = panel * p->shape.blocks * WEIGHT_COLUMNS;
    const WeightFactors *f = &p->factors;
    return (WeightFactors){.scales = f->scales + first,
                           .zeros = f->zeros ? f->zeros + first : NULL,
                           .zero_bytes = f->zero_bytes ? f->zero_bytes + first : NULL};
}

static WeightTile tile_of(const WeightProduct *p, uint64_t panel_size, uint64_t panel) {
    return (WeightTile){.shape = &p->shape,
                        .data = (const char *)p->data + panel * panel_size,
                        .factors = weight_product_factors(p, panel)};
}

void weight_product_store(const WeightProduct *p, const float *sums, uint64_t row, uint64_t rows,
                          uint64_t column) {
    const uint64_t n = p->shape.n, columns = least(n - column, WEIGHT_COLUMNS);
    float *y = p->y + row * n + column;
    for (uint64_t r = 0; r < rows; r++)
        memcpy(y + r * n, sums + r * WEIGHT_COLUMNS, columns * sizeof *y);
    epilogue_apply(
        p->epilogue,
        &(EpilogueBlock){
            .y = y, .y_row = n, .row = row, .column = column, .rows = rows, .columns = columns});
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
    weight_product_store(p, sums, row, rows, column);
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
    kernel_run_parts(call->workers, kernel_work_cut(call, work, panels_of(shape)), run_panels,
                     &job);
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
    if (p.bytes) return weight_bytes_run(call, &p);
    return p.rows < MANY_ROWS ? run_few(call, &p) : run_many(call, &p);
}
