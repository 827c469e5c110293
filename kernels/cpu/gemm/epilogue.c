// SPDX-License-Identifier: Apache-2.0
/* Epilogues; see epilogue.h. Two loops over a block that is in the cache: one adds, one activates.
 * Each activation is a loop of its own, so that it vectorises; the formulas are those of
 * kernel_activation.c, kernel_unary.c and kernel_choose.c, to the bit. */
#include "epilogue.h"

#include <math.h>

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

typedef void ActivateFunction(const Epilogue *e, const EpilogueBlock *block);

#define ACTIVATE(name, expression)                                                                 \
    ROW_CLONES static void name(const Epilogue *e, const EpilogueBlock *block) {                   \
        const float p = e->p, q = e->q;                                                            \
        const uint64_t n = block->columns;                                                         \
        (void)p, (void)q;                                                                          \
        for (uint64_t r = 0; r < block->rows; r++) {                                               \
            float *y = block->y + r * block->y_row;                                                \
            ROW_EACH(n, const float x = y[i]; y[i] = (expression))                                 \
        }                                                                                          \
    }

#define BETWEEN(value, low, high) ((value) < (low) ? (low) : (value) > (high) ? (high) : (value))

static inline float clip(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}
/* sqrt(8 / pi): twice the factor of the tanh form, see kernel_activation.c */
static inline float gelu_tanh(float x) {
    return x * math_sigmoid(1.59576912160573071176f * (x + 0.044715f * x * x * x));
}

ACTIVATE(run_relu, x < 0 ? 0 : x)
ACTIVATE(run_clip, clip(x, p, q))
ACTIVATE(run_leaky_relu, x < 0 ? p * x : x)
ACTIVATE(run_sigmoid, math_sigmoid(x))
ACTIVATE(run_tanh, math_tanh(x))
ACTIVATE(run_hard_sigmoid, BETWEEN(p *x + q, 0.0f, 1.0f))
ACTIVATE(run_hard_swish, x *BETWEEN(x *(1.0f / 6) + 0.5f, 0.0f, 1.0f))
ACTIVATE(run_silu, x *math_sigmoid(x))
ACTIVATE(run_gelu, x *math_normal(x))
ACTIVATE(run_gelu_tanh, gelu_tanh(x))

static ActivateFunction *const activate_functions[ACTIVATION_COUNT] = {
    [ACTIVATION_RELU] = run_relu,
    [ACTIVATION_CLIP] = run_clip,
    [ACTIVATION_LEAKY_RELU] = run_leaky_relu,
    [ACTIVATION_SIGMOID] = run_sigmoid,
    [ACTIVATION_TANH] = run_tanh,
    [ACTIVATION_HARD_SIGMOID] = run_hard_sigmoid,
    [ACTIVATION_HARD_SWISH] = run_hard_swish,
    [ACTIVATION_SILU] = run_silu,
    [ACTIVATION_GELU] = run_gelu,
    [ACTIVATION_GELU_TANH] = run_gelu_tanh,
};

void epilogue_apply(const Epilogue *epilogue, const EpilogueBlock *block) {
    if (epilogue->bias || epilogue->residual) add_terms(epilogue, block);
    if (epilogue->activation != ACTIVATION_NONE)
        activate_functions[epilogue->activation](epilogue, block);
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
        bounds.rest = (Epilogue){.activation = e->activation, .p = e->p, .q = e->q};
    }
    return bounds;
}
