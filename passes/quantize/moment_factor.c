// SPDX-License-Identifier: Apache-2.0
/* See moment_factor.h. The factor is found panel by panel, and what a panel takes off the rest tile by tile, by
 * several threads: each element is worked at in one order, so no bit depends on their number. */
#include "moment_factor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "row_clones.h"

enum {
    PANEL = 64,         /* columns of a panel, and rows of a tile */
    ROWS = 8,           /* of these, in registers at once */
    STRIP = ROW_DOUBLES /* columns, the same */
};

/* The diagonal is raised by DAMPING of its mean, as GPTQ's authors have it. And each element by a part of itself, as
 * moments of few vectors say more of how inputs depend on each other than there is to it: SHRINKING times the number of
 * inputs by that of vectors, and SHRINKING at most. */
static const double DAMPING = 0.01, SHRINKING = 0.5;
enum { TRIES = 6 }; /* each with ten times the damping of the one before */

/* ---- the order ------------------------------------------------------------------------------- */

typedef struct Rank {
    double weight;
    uint64_t number;
} Rank;

static int by_weight(const void *a, const void *b) {
    const Rank *one = a, *other = b;
    if (one->weight != other->weight) return one->weight < other->weight ? -1 : 1;
    return one->number > other->number
               ? -1
               : one->number < other->number; /* the first is to be rounded first */
}

/* The places of a block, from `first` on, by what they multiply. */
static double rank_places(const float *moments, uint64_t size, uint64_t first, uint64_t count,
                          Rank *ranks) {
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double weight = (double)moments[(first + i) * size + first + i];
        ranks[i] = (Rank){weight, first + i};
        sum += weight;
    }
    qsort(ranks, count, sizeof *ranks, by_weight);
    return sum / (double)count;
}

static void find_order(MomentFactor *f, const float *moments, uint64_t block, Arena *arena) {
    const uint64_t size = f->size, step = block ? block : size;
    Arena *within = arena_child(arena);
    Rank *ranks = ARENA_ARRAY(within, Rank, size);
    f->run_count = (size + step - 1) / step;
    f->runs = ARENA_ARRAY(arena, MomentRun, f->run_count);
    f->places = ARENA_ARRAY(arena, uint32_t, size);
    Rank *blocks = ARENA_ARRAY(within, Rank, f->run_count);
    for (uint64_t b = 0; b < f->run_count; b++) {
        const uint64_t first = b * step, left = size - first;
        blocks[b] =
            (Rank){rank_places(moments, size, first, left < step ? left : step, ranks + first), b};
    }
    qsort(blocks, f->run_count, sizeof *blocks, by_weight);
    uint64_t at = 0;
    for (uint64_t r = 0; r < f->run_count; r++) {
        const uint64_t first = blocks[r].number * step, left = size - first;
        f->runs[r] = (MomentRun){at, left < step ? left : step, blocks[r].number};
        for (uint64_t i = 0; i < f->runs[r].count; i++)
            f->places[at++] = (uint32_t)ranks[first + i].number;
    }
    arena_free(within);
}

/* ---- the factor ------------------------------------------------------------------------------ */

/* A matrix of which the lower triangle counts. */
typedef struct Lower {
    double *items; /* [size][size] */
    uint64_t size;
    uint64_t panel, width; /* the one that is at hand: its first column, and how many it has */
} Lower;

static void fill(Lower *lower, const MomentFactor *f, const float *moments, double damping) {
    for (uint64_t a = 0; a < f->size; a++) {
        const float *row = moments + (uint64_t)f->places[a] * f->size;
        double *to = lower->items + a * f->size;
        for (uint64_t b = 0; b <= a; b++) to[b] = (double)row[f->places[b]];
        f->dampings[a] = damping + f->shrinking * to[a];
        to[a] += f->dampings[a];
    }
}

/* Factors the panel's own square; false where it is not positive. */
static bool factor_square(const Lower *m) {
    for (uint64_t a = m->panel; a < m->panel + m->width; a++) {
        double *row = m->items + a * m->size;
        for (uint64_t b = m->panel; b <= a; b++) {
            const double *other = m->items + b * m->size;
            double sum = row[b];
            for (uint64_t k = m->panel; k < b; k++) sum -= row[k] * other[k];
            if (a == b && !(sum > 0 && isfinite(sum))) return false;
            row[b] = a == b ? sqrt(sum) : sum / other[b];
        }
    }
    return true;
}

/* The panel's columns of PANEL rows below its square, one column after the other: turned, so that rows are worked at
 * side by side. */
ROW_CLONES static void solve_turned(double (*turned)[PANEL], const double *square, uint64_t stride,
                                    uint64_t width) {
    for (uint64_t b = 0; b < width; b++) {
        const double *row = square + b * stride;
        for (uint64_t k = 0; k < b; k++) {
            ROW_LOOP
            for (unsigned i = 0; i < PANEL; i++) turned[b][i] -= turned[k][i] * row[k];
        }
        ROW_LOOP
        for (unsigned i = 0; i < PANEL; i++) turned[b][i] /= row[b];
    }
}

static uint64_t rows_of(const Lower *m, uint64_t first) {
    return m->size - first < PANEL ? m->size - first : PANEL;
}

/* [width][PANEL] of rows from `first` on; 0 where there are none. */
static void turn_rows(const Lower *m, uint64_t first, double (*turned)[PANEL]) {
    const uint64_t rows = rows_of(m, first);
    memset(turned, 0, sizeof *turned * m->width);
    for (uint64_t i = 0; i < rows; i++) {
        const double *row = m->items + (first + i) * m->size + m->panel;
        for (uint64_t k = 0; k < m->width; k++) turned[k][i] = row[k];
    }
}

static void solve_task(void *data, unsigned task, unsigned lane) {
    const Lower *m = data;
    const uint64_t first = m->panel + m->width + task * (uint64_t)PANEL, rows = rows_of(m, first);
    double turned[PANEL][PANEL];
    (void)lane;
    turn_rows(m, first, turned);
    solve_turned(turned, m->items + m->panel * m->size + m->panel, m->size, m->width);
    for (uint64_t i = 0; i < rows; i++) {
        double *row = m->items + (first + i) * m->size + m->panel;
        for (uint64_t k = 0; k < m->width; k++) row[k] = turned[k][i];
    }
}

/* Rows less the products of theirs with a strip of columns: `from` has their panel's columns, `to` their strip's. */
ROW_CLONES static void take_off(double (*to)[STRIP], const double *const from[ROWS],
                                const double (*turned)[PANEL], uint64_t width) {
    RowDoubles sums[ROWS] = {{0}}, with;
    for (uint64_t k = 0; k < width; k++) {
        memcpy(&with, turned[k], sizeof with);
        ROW_UNROLL
        for (unsigned i = 0; i < ROWS; i++) sums[i] += from[i][k] * with;
    }
    for (unsigned i = 0; i < ROWS; i++) {
        memcpy(&with, to[i], sizeof with);
        with -= sums[i];
        memcpy(to[i], &with, sizeof with);
    }
}

/* Rows of a tile, ROWS at a time, the last of which are there several times at its end. What lies beyond the last column
 * is not written. */
static void take_off_rows(const Lower *m, uint64_t row, uint64_t column,
                          const double (*turned)[PANEL]) {
    const uint64_t rows = rows_of(m, row), columns = rows_of(m, column);
    for (uint64_t i = 0; i < rows; i += ROWS) {
        double *at[ROWS];
        const double *from[ROWS];
        for (uint64_t r = 0; r < ROWS; r++) {
            at[r] = m->items + (row + (i + r < rows ? i + r : rows - 1)) * m->size;
            from[r] = at[r] + m->panel;
        }
        for (uint64_t c = 0; c < columns; c += STRIP) {
            const size_t bytes = (columns - c < STRIP ? columns - c : STRIP) * sizeof(double);
            double to[ROWS][STRIP] = {{0}};
            for (uint64_t r = 0; r < ROWS; r++) memcpy(to[r], at[r] + column + c, bytes);
            take_off(to, from, (const double(*)[PANEL])(turned[0] + c), m->width);
            for (uint64_t r = 0; r < ROWS; r++) memcpy(at[r] + column + c, to[r], bytes);
        }
    }
}

/* A row of tiles below the panel, up to the diagonal. */
static void rest_task(void *data, unsigned task, unsigned lane) {
    const Lower *m = data;
    const uint64_t first = m->panel + m->width, tiles = (m->size - first + PANEL - 1) / PANEL;
    const uint64_t row = first + (tiles - 1 - task) * PANEL; /* the longest first */
    double turned[PANEL][PANEL];
    (void)lane;
    for (uint64_t column = first; column <= row; column += PANEL) {
        turn_rows(m, column, turned);
        take_off_rows(m, row, column, (const double(*)[PANEL])turned);
    }
}

static bool factor_lower(Lower *m, Workers *workers) {
    for (m->panel = 0; m->panel < m->size; m->panel += PANEL) {
        m->width = rows_of(m, m->panel);
        if (!factor_square(m)) return false;
        const uint64_t first = m->panel + m->width;
        const unsigned tiles = (unsigned)((m->size - first + PANEL - 1) / PANEL);
        if (tiles) workers_run(workers, tiles, solve_task, m);
        if (tiles) workers_run(workers, tiles, rest_task, m);
    }
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void take_moments(const MomentFactor *f, const float *moments) {
    for (uint64_t a = 0; a < f->size; a++) {
        const float *row = moments + (uint64_t)f->places[a] * f->size;
        for (uint64_t b = 0; b < f->size; b++) f->moments[a * f->size + b] = row[f->places[b]];
    }
}

/* L of the lower triangle, and D. */
static void take_factor(MomentFactor *f, const Lower *m) {
    for (uint64_t a = 0; a < f->size; a++) {
        const double *row = m->items + a * f->size;
        float *to = f->gains + a * f->size;
        f->pivots[a] = row[a];
        for (uint64_t b = 0; b < a; b++) to[b] = (float)(row[b] / f->pivots[b]);
    }
    for (uint64_t a = 0; a < f->size; a++) f->pivots[a] *= f->pivots[a];
}

static double mean_of(const float *moments, uint64_t size) {
    double sum = 0;
    for (uint64_t i = 0; i < size; i++) sum += (double)moments[i * size + i];
    return sum / (double)size;
}

bool moment_factor_find(MomentFactor *f, const float *moments, MomentSizes sizes, Workers *workers,
                        Arena *arena) {
    const uint64_t size = sizes.size;
    const double mean = mean_of(moments, size);
    const double shrinking = SHRINKING * (double)size / (double)(sizes.vectors ? sizes.vectors : 1);
    *f = (MomentFactor){.size = size,
                        .block = sizes.block,
                        .shrinking = shrinking < SHRINKING ? shrinking : SHRINKING};
    if (!(mean > 0) || !isfinite(mean)) return false;
    find_order(f, moments, sizes.block, arena);
    f->gains = arena_alloc_raw(arena, size * size * sizeof(float));
    f->moments = arena_alloc_raw(arena, size * size * sizeof(float));
    f->pivots = ARENA_ARRAY(arena, double, size);
    f->dampings = ARENA_ARRAY(arena, double, size);
    take_moments(f, moments);
    Arena *within = arena_child(arena);
    Lower lower = {.items = arena_alloc_raw(within, size * size * sizeof(double)), .size = size};
    double damping = DAMPING * mean;
    bool found = false;
    for (int i = 0; i < TRIES && !found; i++) {
        fill(&lower, f, moments, damping);
        damping *= 10;
        found = factor_lower(&lower, workers);
    }
    if (found) take_factor(f, &lower);
    if (!found) f->run_count = 0;
    arena_free(within);
    return found;
}
