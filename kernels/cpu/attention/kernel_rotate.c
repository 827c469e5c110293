// SPDX-License-Identifier: Apache-2.0
/* demi.fused's Rotary: Y = X C + rotated(X) S, where rotated is (-second half, first half) of each
 * row. C and S broadcast to X from the right. Products and sums are rounded one by one, as those of
 * the nodes it stands for. */
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "kernel_rows.h"

enum { X, COSINE, SINE, TABLES = 2, ROTATE_WEIGHT = 2 };

/* A table and where its rows are: `steps` [rank] are elements from place to place, 0 where it
 * broadcasts; that of the last axis is 0 or 1. */
typedef struct Table {
    const float *items;
    const uint64_t *steps;
} Table;

typedef struct Rotate {
    const KernelTensor *x;
    float *y;
    Table tables[TABLES];
    uint64_t size; /* of a row */
} Rotate;

static bool find_table(KernelCall *call, const KernelTensor *table, Table *made) {
    const KernelTensor *x = &call->inputs[X];
    uint64_t *steps = ARENA_ARRAY(call->scratch, uint64_t, x->rank), step = 1;
    bool fits = table->rank <= x->rank;
    for (uint32_t i = 0; fits && i < table->rank; i++) {
        const uint32_t from = table->rank - 1 - i, to = x->rank - 1 - i;
        fits = table->dims[from] == 1 || table->dims[from] == x->dims[to];
        steps[to] = table->dims[from] == 1 ? 0 : step;
        step *= (uint64_t)table->dims[from];
    }
    *made = (Table){table->data, steps};
    return fits || kernel_fail(call, "a table does not broadcast to X");
}

/* Row `row` of X's, and what a table has for it. */
static const float *table_row(const Rotate *job, const Table *table, uint64_t row) {
    uint64_t at = 0;
    for (uint32_t i = job->x->rank - 1; i-- > 0; row /= (uint64_t)job->x->dims[i])
        at += row % (uint64_t)job->x->dims[i] * table->steps[i];
    return table->items + at;
}

ROW_CLONES static void rotate_rows(const Rotate *job, uint64_t first, uint64_t end) {
    const uint64_t size = job->size, half = size / 2;
    const uint32_t last = job->x->rank - 1;
    const bool plain = job->tables[0].steps[last] && job->tables[1].steps[last];
    for (uint64_t row = first; row < end; row++) {
        const float *x = (const float *)job->x->data + row * size;
        const float *c = table_row(job, &job->tables[0], row);
        const float *s = table_row(job, &job->tables[1], row);
        float *y = job->y + row * size;
        if (plain) {
            ROW_EACH(half, y[i] = x[i] * c[i] + -x[half + i] * s[i])
            ROW_EACH(half, y[half + i] = x[half + i] * c[half + i] + x[i] * s[half + i])
            continue;
        }
        const uint64_t by_c = job->tables[0].steps[last], by_s = job->tables[1].steps[last];
        for (uint64_t i = 0; i < size; i++)
            y[i] = x[i] * c[i * by_c] + (i < half ? -x[half + i] : x[i - half]) * s[i * by_s];
    }
}

static void rotate_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    (void)lane;
    rotate_rows(data, first, end);
}

bool kernel_rotate(KernelCall *call) {
    const KernelTensor *x = &call->inputs[X], *y = &call->outputs[0];
    Rotate job = {.x = x, .y = y->data};
    if (x->rank < 1 || x->dims[x->rank - 1] % 2)
        return kernel_fail(call, "a row cannot be split into two halves");
    if (!kernel_want_same_count(call)) return false;
    for (uint32_t i = 0; i < TABLES; i++)
        if (!find_table(call, &call->inputs[COSINE + i], &job.tables[i])) return false;
    if (x->count == 0) return true;
    job.size = (uint64_t)x->dims[x->rank - 1];
    const uint64_t rows = x->count / job.size;
    const unsigned parts = kernel_parts(kernel_threads(call), x->count, ROTATE_WEIGHT);
    kernel_run_parts(call->workers, kernel_element_cut(rows, 1, parts, x->count), rotate_part,
                     &job);
    return true;
}
