// SPDX-License-Identifier: Apache-2.0
/* Pad, all modes and versions, of any dtype. Negative pads crop first, so the modes that repeat
 * elements repeat those that are left. The middle is one strided copy; axis after axis, from the
 * last to the first, the borders are then copied from the output itself, by a table of which slice
 * each one repeats. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_index.h"
#include "kernel_strided.h"

/* One axis: elements before the kept ones in the input, in the output, and how many are kept. */
typedef struct PadAxis {
    int64_t crop, before, kept;
} PadAxis;

static bool set_axis(KernelCall *call, uint32_t i, const int64_t pads[2], PadAxis *axis) {
    int64_t size = call->inputs[0].dims[i], total = call->outputs[0].dims[i], sum;
    int64_t cut_end = pads[1] < 0 ? (pads[1] < -size ? size : -pads[1]) : 0;
    if (__builtin_add_overflow(pads[0], pads[1], &sum) || __builtin_add_overflow(sum, size, &sum) ||
        sum != total)
        return kernel_fail(call, "axis %u of %lld elements is padded by %lld and %lld", i,
                           (long long)size, (long long)pads[0], (long long)pads[1]);
    axis->before = pads[0] > 0 ? pads[0] : 0;
    axis->crop = pads[0] < 0 ? (pads[0] < -size ? size : -pads[0]) : 0;
    axis->kept = size - axis->crop - cut_end;
    if (axis->kept < 0) axis->kept = 0;
    if (axis->before > total) axis->before = total; /* a crop took more than there was */
    if (axis->kept > total - axis->before) axis->kept = total - axis->before;
    return true;
}

/* The pads by axis, from attribute or inputs. NULL with the error set. */
static PadAxis *read_pads(KernelCall *call) {
    const PadAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *axes_input = kernel_input(call, 3);
    const KernelTensor *input = kernel_input(call, 1);
    PadAxis *axes = ARENA_ARRAY(call->scratch, PadAxis, in->rank);
    int64_t(*pads)[2] = arena_array(call->scratch, in->rank, sizeof *pads);
    const int64_t *list = attrs->pads.items, *along = NULL;
    uint64_t count = attrs->pads.count, each = in->rank;
    bool ok = true;
    if (call->opset >= 11) {
        if (input && !(list = kernel_ints(call, input))) return NULL;
        if (axes_input && !(along = kernel_ints(call, axes_input))) return NULL;
        count = input ? input->count : 0;
        each = axes_input ? axes_input->count : in->rank;
    }
    if (count / 2 != each || count % 2) {
        kernel_fail(call, "%llu pads for %llu axes", (unsigned long long)count,
                    (unsigned long long)each);
        return NULL;
    }
    for (uint64_t i = 0; ok && i < each; i++) {
        uint32_t axis = (uint32_t)i;
        ok = !along || kernel_axis(call, along[i], in->rank, &axis);
        if (!ok) break;
        pads[axis][0] = list[i];
        pads[axis][1] = list[i + each];
    }
    for (uint32_t i = 0; ok && i < in->rank; i++) ok = set_axis(call, i, pads[i], &axes[i]);
    return ok ? axes : NULL;
}

/* What surrounds the middle in mode constant; NULL means zero. False with the error set. */
static bool read_value(KernelCall *call, const void **value) {
    const PadAttrs *attrs = call->attrs;
    const KernelTensor *input = call->opset >= 11 ? kernel_input(call, 2) : NULL;
    Dtype dtype = call->inputs[0].dtype;
    *value = NULL;
    if (input) {
        if (input->dtype != dtype || input->count > 1)
            return kernel_fail(call, "the padding value is not a scalar of the data's type");
        if (input->count) *value = input->data;
    } else if (call->opset < 11 && attrs->value != 0) {
        uint64_t *bits = ARENA_NEW(call->scratch, uint64_t);
        dtype_from_double(dtype, (double)attrs->value, bits);
        *value = bits;
    }
    return true;
}

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

/* Which of `kept` elements stands at `at`, counted from the first of them. */
static int64_t repeated(int64_t mode, int64_t at, int64_t kept) {
    if (mode == PAD_EDGE || kept == 1) return at < 0 ? 0 : at >= kept ? kept - 1 : at;
    int64_t period = mode == PAD_WRAP ? kept : 2 * (kept - 1);
    at = (at % period + period) % period;
    return at < kept ? at : period - at;
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
        int64_t from = axis->before + repeated(attrs->mode, i - axis->before, axis->kept);
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
    const PadAxis *axes = read_pads(call);
    const void *value;
    if (!axes || !read_value(call, &value)) return false;
    if (attrs->mode < 0) return kernel_fail(call, "the mode is not a known one");
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
