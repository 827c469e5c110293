// SPDX-License-Identifier: Apache-2.0
/* Epilogues; see epilogue.h. Two loops over a block that is in the cache: one adds, one activates.
 * The formulas are those of kernel_activation.c, kernel_unary.c and kernel_choose.c, to the bit; of quick
 * ones those of quick_rows.c. */
#include "epilogue.h"

#include <math.h>

#include "formulas.h"
#include "kernel_math.h"
#include "kernel_parts.h"
#include "kernel_rows.h"

/* ---- sums ------------------------------------------------------------------------------------ */

/* Called for whole blocks, as what chooses between the clones is a call that is not inline. */
ROW_CLONES static void add_terms(const Epilogue *e, const EpilogueBlock *block) {
    const uint64_t n = block->columns;
    for (uint64_t r = 0; r < block->rows; r++) {
        float *y = block->y + r * block->y_row;
        const uint64_t row = block->row + r;
        if (e->bias && e->bias_of_rows) {
            const float bias = e->bias[row];
            ROW_EACH(n, y[i] = y[i] + bias)
        } else if (e->bias) {
            const float *bias = e->bias + block->column;
            ROW_EACH(n, y[i] = y[i] + bias[i])
        }
        if (e->residual) {
            const float *residual = e->residual + row * e->residual_row + block->column;
            ROW_EACH(n, y[i] = y[i] + residual[i])
        }
    }
}

/* ---- activations ----------------------------------------------------------------------------- */

#define ACTIVATE_TABLE     epilogue_exact
#define ACTIVATE_NORMAL(x) math_normal(x)
#include "epilogue_activate.inc"

void epilogue_apply(const Epilogue *epilogue, const EpilogueBlock *block) {
    if (epilogue->bias || epilogue->residual) add_terms(epilogue, block);
    if (epilogue->activation != ACTIVATION_NONE)
        (epilogue->quick ? epilogue_quick : epilogue_exact)[epilogue->activation](epilogue, block);
}

/* ---- whole results --------------------------------------------------------------------------- */

typedef struct BlocksJob {
    const Epilogue *epilogue;
    const EpilogueBlock *whole;
    uint64_t width, height, across; /* of a block; blocks side by side */
} BlocksJob;

static void apply_blocks(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const BlocksJob *job = data;
    const EpilogueBlock *whole = job->whole;
    (void)lane;
    for (uint64_t b = first; b < end; b++) {
        const uint64_t row = b / job->across * job->height, column = b % job->across * job->width;
        const uint64_t rows = whole->rows - row, columns = whole->columns - column;
        const EpilogueBlock block = {
            .y = whole->y + row * whole->y_row + column,
            .y_row = whole->y_row,
            .row = whole->row + row,
            .column = whole->column + column,
            .rows = rows < job->height ? rows : job->height,
            .columns = columns < job->width ? columns : job->width,
        };
        epilogue_apply(job->epilogue, &block);
    }
}

void epilogue_run(const KernelCall *call, const Epilogue *epilogue, const EpilogueBlock *whole) {
    enum { BLOCK = 4096 }; /* elements of a block: 16 KiB, half a first-level cache */
    const uint64_t n = whole->columns;
    if (whole->rows == 0 || n == 0 || epilogue_is_empty(epilogue)) return;
    const uint64_t width = n < BLOCK ? n : BLOCK, height = BLOCK / width;
    const uint64_t across = (n + width - 1) / width, down = (whole->rows + height - 1) / height;
    const BlocksJob job = {epilogue, whole, width, height, across};
    kernel_run_parts(call->workers,
                     kernel_work_cut(call, 4 * (double)whole->rows * (double)n, across * down),
                     apply_blocks, &job);
}

/* ---- parameters ------------------------------------------------------------------------------ */

bool epilogue_params(Epilogue *epilogue, const float *given, uint64_t count) {
    static const struct {
        uint8_t count;
        float p, q;
    } defaults[ACTIVATION_COUNT] = {
        [ACTIVATION_CLIP] = {2, -HUGE_VALF, HUGE_VALF},
        [ACTIVATION_LEAKY_RELU] = {1, 0.01f, 0},
        [ACTIVATION_HARD_SIGMOID] = {2, 0.2f, 0.5f},
    };
    if (count > defaults[epilogue->activation].count) return false;
    epilogue->p = count > 0 ? given[0] : defaults[epilogue->activation].p;
    epilogue->q = count > 1 ? given[1] : defaults[epilogue->activation].q;
    return true;
}

EpilogueBounds epilogue_bounds(const Epilogue *e) {
    EpilogueBounds bounds = {.low = -HUGE_VALF, .high = HUGE_VALF};
    if (!e) return bounds;
    if (e->activation == ACTIVATION_RELU) {
        bounds.low = 0;
    } else if (e->activation == ACTIVATION_CLIP && e->p <= e->q) {
        bounds.low = e->p;
        bounds.high = e->q;
    } else {
        bounds.rest =
            (Epilogue){.activation = e->activation, .p = e->p, .q = e->q, .quick = e->quick};
    }
    return bounds;
}
