// SPDX-License-Identifier: Apache-2.0
/* Affine: y = act((x - mean) * scale + shift), with a number of each for every place along one axis:
 * what is left of a BatchNormalization, channels second or last. Computed in float, in the operator's
 * order (kernel_norm_body.inc: the same bits), a block that stays in the cache at a time; 16-bit floats
 * are widened and rounded with their block. */
#include "epilogue.h"
#include "fused_operands.h"
#include "kernel_convert.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "kernel_rows.h"

enum { BLOCK = 4096 }; /* elements at once: 16 KiB */

/* The operand as a matrix: a row for each place along the axis (and all before it), or, where nothing
 * is behind the axis, a column for each. */
typedef struct Affine {
    const char *x;
    char *y;
    Dtype from, to;
    bool of_columns;
    uint64_t rows, columns, channels;
    uint64_t width, height,
        across; /* of a block, which is whole rows or a part of one; blocks side by side */
    const float *mean, *scale, *shift; /* [channels] */
    Epilogue epilogue;
    float *tiles; /* [lanes][BLOCK], where 16-bit floats are read or written */
} Affine;

/* Rows [row, row + rows) from `column` on; `from` may be `to`. */
ROW_CLONES static void scale_block(const Affine *a, uint64_t row, uint64_t column,
                                   const float *from, const EpilogueBlock *to) {
    const uint64_t n = to->columns;
    for (uint64_t r = 0; r < to->rows; r++) {
        const float *x = from + r * n;
        float *y = to->y + r * n;
        if (a->of_columns) {
            const float *mean = a->mean + column, *scale = a->scale + column;
            const float *shift = a->shift + column;
            ROW_EACH(n, y[i] = (x[i] - mean[i]) * scale[i] + shift[i])
        } else {
            const uint64_t c = (row + r) % a->channels;
            const float mean = a->mean[c], scale = a->scale[c], shift = a->shift[c];
            ROW_EACH(n, y[i] = (x[i] - mean) * scale + shift)
        }
    }
}

static void run_blocks(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Affine *a = data;
    float *tile = a->tiles ? a->tiles + lane * (uint64_t)BLOCK : NULL;
    for (uint64_t b = first; b < end; b++) {
        const uint64_t row = b / a->across * a->height, column = b % a->across * a->width;
        const uint64_t rows = a->rows - row, columns = a->columns - column;
        const uint64_t at = row * a->columns + column;
        EpilogueBlock block = {.rows = rows < a->height ? rows : a->height,
                               .columns = columns < a->width ? columns : a->width};
        const uint64_t count = block.rows * block.columns;
        const void *x = a->x + at * kernel_element_size(a->from);
        void *y = a->y + at * kernel_element_size(a->to);
        block.y = a->to == DTYPE_FLOAT ? y : tile;
        block.y_row = block.columns;
        if (a->from != DTYPE_FLOAT) kernel_convert(DTYPE_FLOAT, block.y, a->from, x, count, NULL);
        scale_block(a, row, column, a->from == DTYPE_FLOAT ? x : block.y, &block);
        epilogue_apply(&a->epilogue, &block);
        if (a->to != DTYPE_FLOAT) kernel_convert(a->to, y, DTYPE_FLOAT, tile, count, NULL);
    }
}

/* One number for each place along the axis; NULL with the error set. */
static const float *factor(KernelCall *call, uint32_t i, uint64_t channels) {
    const KernelTensor *tensor = kernel_input(call, i);
    if (!kernel_want_count(call, tensor, channels, "mean, scale or shift")) return NULL;
    return kernel_floats(call, tensor);
}

static void cut_blocks(Affine *a) {
    a->width = a->columns < BLOCK ? a->columns : BLOCK;
    a->height = BLOCK / a->width; /* 1 where a row is several */
    a->across = (a->columns + a->width - 1) / a->width;
}

bool kernel_affine(KernelCall *call) {
    const AffineAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    KernelTensor *y = &call->outputs[0];
    if (!kernel_want_same_count(call)) return false;
    const int64_t axis = attrs->axis < 0 ? attrs->axis + x->rank : attrs->axis;
    if (axis < 0 || axis >= x->rank) return kernel_fail(call, "there is no such axis");
    Affine a = {.x = x->data,
                .y = y->data,
                .from = x->dtype,
                .to = y->dtype,
                .channels = (uint64_t)x->dims[axis]};
    const uint64_t outer = kernel_span(x, 0, (uint32_t)axis);
    const uint64_t inner = kernel_span(x, (uint32_t)axis + 1, x->rank);
    if (!fused_read_activation(call, &attrs->act, &a.epilogue) ||
        !(a.mean = factor(call, 1, a.channels)) || !(a.scale = factor(call, 2, a.channels)) ||
        !(a.shift = factor(call, 3, a.channels)))
        return false;
    if (x->count == 0) return true;
    a.of_columns = inner == 1;
    a.rows = a.of_columns ? outer : outer * a.channels;
    a.columns = a.of_columns ? a.channels : inner;
    cut_blocks(&a);
    if (a.from != DTYPE_FLOAT || a.to != DTYPE_FLOAT) {
        a.tiles = kernel_workspace(call, kernel_threads(call) * (uint64_t)BLOCK * sizeof *a.tiles);
        if (!a.tiles) return false;
    }
    const uint64_t blocks = (a.rows + a.height - 1) / a.height * a.across;
    kernel_run_parts(call->workers, kernel_work_cut(call, 4 * (double)x->count, blocks), run_blocks,
                     &a);
    return true;
}
