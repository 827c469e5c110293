// SPDX-License-Identifier: Apache-2.0
/* What puts windows back together: Col2Im adds overlapping blocks up, MaxUnpool places maxima where
 * MaxPool found them. Sizes are the file's: all are checked before anything is indexed by them. */
#include <string.h>

#include "checked.h"
#include "kernel_functions.h"
#include "kernel_index.h"
#include "kernel_strided.h"

static int64_t item_or(const AttrInts *list, uint32_t i, int64_t otherwise) {
    return list->present && i < list->count ? list->items[i] : otherwise;
}

/* Lists are of the axes' number, or absent; their numbers small enough for products in int64_t. */
static bool check_list(KernelCall *call, const AttrInts *list, uint32_t count, int64_t least) {
    if (list->present && list->count != count)
        return kernel_fail(call, "an attribute has %u numbers, not %u", list->count, count);
    for (uint32_t i = 0; list->present && i < count; i++)
        if (list->items[i] < least || list->items[i] > INT32_MAX)
            return kernel_fail(call, "an attribute has the number %lld", (long long)list->items[i]);
    return true;
}

static bool check_lists(KernelCall *call, uint32_t spatial) {
    const WindowAttrs *attrs = call->attrs;
    return check_list(call, &attrs->strides, spatial, 1) &&
           check_list(call, &attrs->dilations, spatial, 1) &&
           check_list(call, &attrs->kernel_shape, spatial, 1) &&
           check_list(call, &attrs->pads, 2 * spatial, 0);
}

/* ---- Col2Im ---------------------------------------------------------------------------------- */

#define ADD(name, Type, Wide)                                                                      \
    static void add_##name(Type *to, const Type *from, int64_t count, int64_t step) {              \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i * step] = (Type)((Wide)to[i * step] + (Wide)from[i]);                             \
    }
ADD(float, float, float)
ADD(double, double, double)
ADD(1, uint8_t, uint64_t)
ADD(2, uint16_t, uint64_t)
ADD(4, uint32_t, uint64_t)
ADD(8, uint64_t, uint64_t)

/* to[i * step] += from[i]; integers of both signs add alike. */
static void add(Dtype dtype, void *to, const void *from, int64_t count, int64_t step) {
    if (dtype == DTYPE_FLOAT)
        add_float(to, from, count, step);
    else if (dtype == DTYPE_DOUBLE)
        add_double(to, from, count, step);
    else if (kernel_element_size(dtype) == 1)
        add_1(to, from, count, step);
    else if (kernel_element_size(dtype) == 2)
        add_2(to, from, count, step);
    else if (kernel_element_size(dtype) == 4)
        add_4(to, from, count, step);
    else
        add_8(to, from, count, step);
}

/* Along one axis: blocks, their size, where they begin and how far apart they and their elements
 * are. */
typedef struct FoldAxis {
    int64_t image, block, count, stride, dilation, pad;
} FoldAxis;

/* Blocks i of an axis whose element `offset` lies within the image: [low, high). */
static void inside(const FoldAxis *axis, int64_t offset, int64_t *low, int64_t *high) {
    int64_t start = offset * axis->dilation - axis->pad; /* of block 0 */
    *low = start < 0 ? (-start + axis->stride - 1) / axis->stride : 0;
    int64_t room = axis->image - start;
    *high = room <= 0 ? 0 : (room - 1) / axis->stride + 1;
    if (*high > axis->count) *high = axis->count;
    if (*low > *high) *low = *high;
}

static FoldAxis *fold_axes(KernelCall *call, uint32_t spatial, const int64_t *image,
                           const int64_t *block) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    FoldAxis *axes = ARENA_ARRAY(call->scratch, FoldAxis, spatial);
    int64_t blocks = 1;
    bool ok = true;
    for (uint32_t i = 0; ok && i < spatial; i++) {
        axes[i] = (FoldAxis){.image = image[i],
                             .block = block[i],
                             .stride = item_or(&attrs->strides, i, 1),
                             .dilation = item_or(&attrs->dilations, i, 1),
                             .pad = item_or(&attrs->pads, i, 0)};
        int64_t extent, after = item_or(&attrs->pads, i + spatial, 0);
        ok = image[i] >= 0 && image[i] < INT64_MAX / 4 && block[i] >= 1 &&
             !__builtin_mul_overflow(block[i] - 1, axes[i].dilation, &extent) &&
             extent < INT64_MAX / 4;
        int64_t room = ok ? image[i] + axes[i].pad + after - extent - 1 : -1;
        ok = room >= 0;
        axes[i].count = ok ? room / axes[i].stride + 1 : 0;
        ok = ok && !__builtin_mul_overflow(blocks, axes[i].count, &blocks);
        if (!ok)
            kernel_fail(call, "axis %u: blocks of %lld do not fit an image of %lld", i,
                        (long long)block[i], (long long)image[i]);
    }
    if (ok && blocks != in->dims[2]) {
        kernel_fail(call, "%lld blocks fit, there are %lld", (long long)blocks,
                    (long long)in->dims[2]);
        return NULL;
    }
    return ok ? axes : NULL;
}

/* Adds one row of the columns, which holds element `at` of every block, to the image. */
static void add_row(KernelTensor *out, const FoldAxis *axes, const int64_t *offset, char *image,
                    const char *row, int64_t *scratch) {
    uint32_t spatial = out->rank - 2;
    size_t size = kernel_element_size(out->dtype);
    int64_t *low = scratch, *high = low + spatial, *at = high + spatial;
    for (uint32_t i = 0; i < spatial; i++) {
        inside(&axes[i], offset[i], &low[i], &high[i]);
        if (low[i] == high[i]) return;
        at[i] = low[i];
    }
    const FoldAxis *last = &axes[spatial - 1];
    for (bool more = true; more;) {
        int64_t from = 0, to = 0;
        for (uint32_t i = 0; i < spatial; i++) {
            from = from * axes[i].count + at[i];
            to = to * axes[i].image + at[i] * axes[i].stride + offset[i] * axes[i].dilation -
                 axes[i].pad;
        }
        add(out->dtype, image + (uint64_t)to * size, row + (uint64_t)from * size,
            high[spatial - 1] - low[spatial - 1], last->stride);
        more = false;
        for (uint32_t i = spatial - 1; !more && i-- > 0;) {
            more = ++at[i] < high[i];
            if (!more) at[i] = low[i];
        }
    }
}

bool kernel_col2im(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    uint32_t spatial = out->rank - 2;
    if (in->rank != 3 || out->rank < 3 || call->inputs[1].count != spatial ||
        call->inputs[2].count != spatial)
        return kernel_fail(call, "image_shape and block_shape have different lengths");
    const int64_t *image = kernel_ints(call, &call->inputs[1]);
    const int64_t *block = image ? kernel_ints(call, &call->inputs[2]) : NULL;
    if (!block || !check_lists(call, spatial)) return false;
    const FoldAxis *axes = fold_axes(call, spatial, image, block);
    uint64_t elements;
    if (!axes) return false;
    if (!checked_count(block, spatial, &elements) || elements == 0 ||
        (uint64_t)in->dims[1] != (uint64_t)out->dims[1] * elements)
        return kernel_fail(call, "the channels are not a multiple of the block's elements");
    strided_fill(out, NULL);
    if (out->count == 0 || in->count == 0) return true;
    size_t size = kernel_element_size(out->dtype);
    uint64_t area = kernel_span(out, 2, out->rank), row = (uint64_t)in->dims[2];
    int64_t *offset = ARENA_ARRAY(call->scratch, int64_t, spatial);
    int64_t *scratch = ARENA_ARRAY(call->scratch, int64_t, 3 * (size_t)spatial);
    for (uint64_t i = 0; i < in->count / row; i++) {
        add_row(out, axes, offset, (char *)out->data + i / elements * area * size,
                (const char *)in->data + i * row * size, scratch);
        index_advance(spatial, block, offset);
    }
    return true;
}

/* ---- MaxUnpool ------------------------------------------------------------------------------- */

/* The dims that pooling started from, whatever output_shape says: indices refer to these. */
static bool pooled_dims(KernelCall *call, int64_t *dims) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    uint32_t spatial = in->rank - 2;
    dims[0] = in->dims[0];
    dims[1] = in->dims[1];
    for (uint32_t i = 0; i < spatial; i++) {
        int64_t kernel = item_or(&attrs->kernel_shape, i, 1), size;
        int64_t pads = item_or(&attrs->pads, i, 0) + item_or(&attrs->pads, i + spatial, 0);
        if (__builtin_mul_overflow(in->dims[i + 2] - 1, item_or(&attrs->strides, i, 1), &size) ||
            __builtin_add_overflow(size, kernel - pads, &size) || size < 0)
            return kernel_fail(call, "axis %u has no valid size", i + 2);
        dims[i + 2] = size;
    }
    return true;
}

bool kernel_max_unpool(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *indices = kernel_input(call, 1);
    KernelTensor *out = &call->outputs[0];
    uint64_t total;
    if (in->rank < 3 || out->rank != in->rank || !attrs->kernel_shape.present)
        return kernel_fail(call, "rank %u has no windows", in->rank);
    int64_t *dims = ARENA_ARRAY(call->scratch, int64_t, in->rank);
    if (!indices || indices->count != in->count)
        return kernel_fail(call, "there is not one index for each element");
    if (!check_lists(call, in->rank - 2) || !pooled_dims(call, dims)) return false;
    if (!checked_count(dims, in->rank, &total)) return kernel_fail(call, "the sizes are too large");
    const int64_t *index = index_read(call, indices, (int64_t)total);
    if (!index) return false;
    const int64_t *steps = index_steps(call, in->rank, out->dims);
    size_t size = kernel_element_size(in->dtype);
    strided_fill(out, NULL);
    for (uint64_t i = 0; i < in->count; i++) {
        int64_t rest = index[i], place = 0;
        for (uint32_t k = in->rank; k-- > 0; rest /= dims[k]) {
            if (rest % dims[k] >= out->dims[k])
                return kernel_fail(call, "index %lld is outside of the output",
                                   (long long)index[i]);
            place += rest % dims[k] * steps[k];
        }
        memcpy((char *)out->data + (uint64_t)place * size, (const char *)in->data + i * size, size);
    }
    return true;
}
