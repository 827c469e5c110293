// SPDX-License-Identifier: Apache-2.0
/* Pad, all modes and versions, of any dtype. Negative pads crop first, so the modes that repeat
 * elements repeat those that are left. The middle is one strided copy; axis after axis, from the
 * last to the first, the borders are then copied from the output itself, by a table of which slice
 * each one repeats. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_index.h"
#include "kernel_strided.h"
#include "pad_axes.h"

static void copy_middle(KernelCall *call, const PadAxis *axes) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    size_t size = kernel_element_size(in->dtype);
    StridedWalk walk = strided_new(call, in->rank);
    int64_t from = 0, to = 0;
    strided_set_from(&walk, in->dims);
    strided_set_to(&walk, out->dims);
    for (uint32_t i = 0; i < in->rank; i++) {
        walk.axes[i].count = axes[i].kept;
        if (axes[i].kept == 0) return;
        from += axes[i].crop * walk.axes[i].from;
        to += axes[i].before * walk.axes[i].to;
    }
    strided_copy(&walk, (char *)out->data + (uint64_t)to * size,
                 (const char *)in->data + (uint64_t)from * size, size);
}

/* A slice of an axis that is a border, and the one that it repeats. */
typedef struct Border {
    int64_t to, from;
} Border;

/* The borders of an axis of `total` places: *count of them. */
static Border *find_borders(KernelCall *call, const PadAxis *axis, int64_t total, uint64_t *count) {
    const PadAttrs *attrs = call->attrs;
    Border *borders = ARENA_ARRAY(call->scratch, Border, (uint64_t)(total - axis->kept));
    *count = 0;
    for (int64_t i = 0; i < total; i++) {
        if (i == axis->before) i += axis->kept; /* the middle is there */
        if (i >= total) break;
        int64_t from = axis->before + pad_repeated(attrs->mode, i - axis->before, axis->kept);
        borders[(*count)++] = (Border){i, from};
    }
    return borders;
}

static void copy_borders(char *line, const Border *borders, uint64_t count, uint64_t block) {
    if (block == sizeof(uint32_t)) /* floats along the last axis */
        for (uint64_t i = 0; i < count; i++)
            memcpy(line + (uint64_t)borders[i].to * sizeof(uint32_t),
                   line + (uint64_t)borders[i].from * sizeof(uint32_t), sizeof(uint32_t));
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy(line + (uint64_t)borders[i].to * block, line + (uint64_t)borders[i].from * block,
                   block);
}

/* Fills the borders of one axis, where the axes behind it are whole and those before it are not:
 * only rows through their middles are. */
static void fill_borders(KernelCall *call, const PadAxis *axes, uint32_t axis) {
    KernelTensor *out = &call->outputs[0];
    const int64_t *steps = index_steps(call, out->rank, out->dims);
    uint64_t block = (uint64_t)steps[axis] * kernel_element_size(out->dtype), rows = 1, count;
    const Border *borders = find_borders(call, &axes[axis], out->dims[axis], &count);
    if (count == 0) return;
    int64_t *at = ARENA_ARRAY(call->scratch, int64_t, axis);
    int64_t *kept = ARENA_ARRAY(call->scratch, int64_t, axis);
    for (uint32_t i = 0; i < axis; i++) kept[i] = axes[i].kept;
    for (uint32_t i = 0; i < axis; i++) rows *= (uint64_t)kept[i];
    for (uint64_t row = 0; row < rows; row++) {
        int64_t base = 0;
        for (uint32_t i = 0; i < axis; i++) base += (at[i] + axes[i].before) * steps[i];
        char *line = (char *)out->data + (uint64_t)base * kernel_element_size(out->dtype);
        copy_borders(line, borders, count, block);
        index_advance(axis, kept, at);
    }
}

bool kernel_pad(KernelCall *call) {
    const PadAttrs *attrs = call->attrs;
    KernelTensor *out = &call->outputs[0];
    const PadAxis *axes = pad_axes_read(call);
    const void *value;
    if (!axes || !pad_value_read(call, &value)) return false;
    if (attrs->mode < 0) return kernel_fail(call, "the mode is unknown");
    if (out->count == 0) return true;
    if (attrs->mode == PAD_CONSTANT) {
        strided_fill(out, value);
        copy_middle(call, axes);
        return true;
    }
    for (uint32_t i = 0; i < out->rank; i++)
        if (axes[i].kept == 0) return kernel_fail(call, "axis %u has nothing to repeat", i);
    copy_middle(call, axes);
    for (uint32_t i = out->rank; i-- > 0;) fill_borders(call, axes, i);
    return true;
}
