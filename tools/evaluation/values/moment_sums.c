// SPDX-License-Identifier: Apache-2.0
/* See moment_sums.h. */
#include "moment_sums.h"

#include <string.h>

#include "row_clones.h"

enum {
    TILE = 64,          /* rows and columns of a tile */
    ROWS = 8,           /* of these, in registers at once */
    STRIP = ROW_FLOATS, /* columns, the same */
    CHUNK = 128,        /* vectors that are added up in registers, before they are in memory */
};

/* A part of each vector of a chunk, side by side; 0 where there are fewer. */
typedef float Part[CHUNK][TILE];

/* Adds to ROWS rows of the tile, a strip of its columns, the products of vectors. */
ROW_CLONES static void add_rows(const float *rows, const float *columns, uint64_t count,
                                float *tile) {
    RowFloats sums[ROWS] = {{0}}, with;
    for (uint64_t v = 0; v < count; v++) {
        const float *row = rows + v * TILE;
        memcpy(&with, columns + v * TILE, sizeof with);
        ROW_UNROLL
        for (unsigned i = 0; i < ROWS; i++) sums[i] += row[i] * with;
    }
    for (unsigned i = 0; i < ROWS; i++) {
        memcpy(&with, tile + i * TILE, sizeof with);
        with += sums[i];
        memcpy(tile + i * TILE, &with, sizeof with);
    }
}

typedef struct Adding {
    MomentSums *m;
    const float *vectors;
    uint64_t count, tiles; /* along one side */
} Adding;

static uint64_t tile_size(const Adding *a, uint64_t tile) {
    const uint64_t left = a->m->size - tile * TILE;
    return left < TILE ? left : TILE;
}

static void take_part(const Adding *a, uint64_t group, uint64_t tile, uint64_t first,
                      uint64_t count, Part part) {
    const uint64_t size = tile_size(a, tile), stride = a->m->groups * a->m->size;
    const uint64_t width = (size + STRIP - 1) / STRIP * STRIP;
    const float *from = a->vectors + first * stride + group * a->m->size + tile * TILE;
    for (uint64_t v = 0; v < count; v++) {
        memcpy(part[v], from + v * stride, size * sizeof(float));
        memset(part[v] + size, 0, (width - size) * sizeof(float));
    }
}

static void add_chunk(const Part rows, const Part columns, uint64_t count, const uint64_t sizes[2],
                      float *tile) {
    for (uint64_t i = 0; i < sizes[0]; i += ROWS)
        for (uint64_t k = 0; k < sizes[1]; k += STRIP)
            add_rows(rows[0] + i, columns[0] + k, count, tile + i * TILE + k);
}

/* A tile at or below the diagonal. */
static void add_task(void *data, unsigned task, unsigned lane) {
    const Adding *a = data;
    const uint64_t each = a->tiles * (a->tiles + 1) / 2, group = task / each;
    uint64_t row = 0, column = task % each;
    Part rows, columns;
    float tile[TILE * TILE]; /* of which little is used where groups are small */
    (void)lane;
    while (column > row) column -= ++row;
    const uint64_t sizes[2] = {tile_size(a, row), tile_size(a, column)};
    memset(tile, 0, (sizes[0] + ROWS - 1) / ROWS * ROWS * TILE * sizeof(float));
    for (uint64_t v = 0, count; v < a->count; v += count) {
        count = a->count - v < CHUNK ? a->count - v : CHUNK;
        take_part(a, group, row, v, count, rows);
        if (column != row) take_part(a, group, column, v, count, columns);
        add_chunk(rows, column == row ? rows : columns, count, sizes, tile);
    }
    float *to = a->m->sums + (group * a->m->size + row * TILE) * a->m->size + column * TILE;
    for (uint64_t i = 0; i < sizes[0]; i++)
        for (uint64_t k = 0; k < sizes[1]; k++) to[i * a->m->size + k] += tile[i * TILE + k];
}

void moment_sums_add(MomentSums *m, const float *vectors, uint64_t count, Workers *workers) {
    Adding a = {.m = m, .vectors = vectors, .count = count, .tiles = (m->size + TILE - 1) / TILE};
    if (!count) return;
    workers_run(workers, (unsigned)(m->groups * a.tiles * (a.tiles + 1) / 2), add_task, &a);
    m->vectors += count;
}

void moment_sums_end(const MomentSums *m) {
    for (uint64_t g = 0; g < m->groups; g++) {
        float *sums = m->sums + g * m->size * m->size;
        for (uint64_t i = 0; i < m->size; i++)
            for (uint64_t k = 0; k < i; k++) sums[k * m->size + i] = sums[i * m->size + k];
    }
}
