// SPDX-License-Identifier: Apache-2.0
/* Operators that move elements from one regular layout to another: Transpose, Slice, Concat, Split,
 * Tile, Expand, DepthToSpace and back, CenterCropPad. Each sets up a strided walk; the output's
 * dims are the shape function's, which has checked them against the input's. */
#include "kernel_functions.h"
#include "kernel_strided.h"

/* ---- Transpose ------------------------------------------------------------------------------- */

bool kernel_transpose(KernelCall *call) {
    const TransposeAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    StridedWalk source = strided_new(call, in->rank), walk = strided_new(call, in->rank);
    strided_set_from(&source, in->dims);
    strided_set_dims(&walk, out->dims);
    strided_set_to(&walk, out->dims);
    for (uint32_t i = 0; i < in->rank; i++) {
        uint32_t axis = in->rank - 1 - i;
        if (attrs->perm.present && !kernel_axis(call, attrs->perm.items[i], in->rank, &axis))
            return false;
        walk.axes[i].from = source.axes[axis].from;
    }
    strided_copy(&walk, out->data, in->data, kernel_element_size(in->dtype));
    return true;
}

/* ---- Slice ----------------------------------------------------------------------------------- */

/* Lists of numbers, from attributes or inputs; axes and steps may be NULL. */
typedef struct SliceLists {
    const int64_t *starts, *axes, *steps;
    uint64_t count;
} SliceLists;

/* The first element and the step of each cut; an end shows in the output's dims only. */
static bool slice_run(KernelCall *call, const SliceLists *lists) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    StridedWalk walk = strided_new(call, in->rank);
    int64_t first = 0;
    strided_set_dims(&walk, out->dims);
    strided_set_to(&walk, out->dims);
    strided_set_from(&walk, in->dims);
    if (out->count == 0) return true;
    int64_t *offsets = ARENA_ARRAY(call->scratch, int64_t, in->rank);
    int64_t *steps = ARENA_ARRAY(call->scratch, int64_t, in->rank);
    for (uint32_t i = 0; i < in->rank; i++) steps[i] = 1;
    for (uint64_t i = 0; i < lists->count; i++) {
        uint32_t axis = (uint32_t)i;
        if (!kernel_axis(call, lists->axes ? lists->axes[i] : (int64_t)i, in->rank, &axis))
            return false;
        int64_t size = in->dims[axis], start = lists->starts[i];
        steps[axis] = lists->steps ? lists->steps[i] : 1;
        if (start < 0) start = start < -size ? 0 : start + size;
        if (start > size - 1) start = size - 1; /* going down; going up nothing would be left */
        offsets[axis] = start;
    }
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t last, span;
        if (__builtin_mul_overflow(out->dims[i] - 1, steps[i], &span) ||
            __builtin_add_overflow(offsets[i], span, &last) || last < 0 || last >= in->dims[i])
            return kernel_fail(call, "axis %u is sliced beyond its %lld elements", i,
                               (long long)in->dims[i]);
        first += offsets[i] * walk.axes[i].from;
        walk.axes[i].from = out->dims[i] > 1 ? walk.axes[i].from * steps[i] : 0;
    }
    size_t size = kernel_element_size(in->dtype);
    strided_copy(&walk, out->data, (const char *)in->data + (uint64_t)first * size, size);
    return true;
}

bool kernel_slice_attr(KernelCall *call) {
    const SliceAttrs *attrs = call->attrs;
    SliceLists lists = {attrs->starts.items, attrs->axes.present ? attrs->axes.items : NULL, NULL,
                        attrs->starts.count};
    if (attrs->axes.present && attrs->axes.count != lists.count)
        return kernel_fail(call, "%u axes and %u starts", attrs->axes.count, attrs->starts.count);
    return slice_run(call, &lists);
}

static bool slice_list(KernelCall *call, uint32_t i, uint64_t count, const int64_t **list) {
    const KernelTensor *tensor = kernel_input(call, i);
    *list = NULL;
    if (!tensor) return true;
    if (tensor->count != count)
        return kernel_fail(call, "input %u has %llu numbers, the starts %llu", i,
                           (unsigned long long)tensor->count, (unsigned long long)count);
    *list = kernel_ints(call, tensor);
    return *list != NULL;
}

bool kernel_slice(KernelCall *call) {
    const KernelTensor *starts = &call->inputs[1];
    SliceLists lists = {.count = starts->count};
    const int64_t *ends;
    if (!slice_list(call, 1, lists.count, &lists.starts) ||
        !slice_list(call, 2, lists.count, &ends) ||
        !slice_list(call, 3, lists.count, &lists.axes) ||
        !slice_list(call, 4, lists.count, &lists.steps))
        return false;
    return slice_run(call, &lists);
}

/* ---- Concat, Split --------------------------------------------------------------------------- */

/* A part and where it lies in the whole: parts are blocks of each row of the whole. */
typedef struct Part {
    int64_t rows, width, pitch, offset; /* elements; pitch: of the whole's rows */
} Part;

static Part part_of(const KernelTensor *whole, const KernelTensor *part, uint32_t axis) {
    int64_t inner = (int64_t)kernel_span(whole, axis + 1, whole->rank);
    return (Part){.rows = (int64_t)kernel_span(whole, 0, axis),
                  .width = part ? inner * part->dims[axis] : 0,
                  .pitch = inner * whole->dims[axis]};
}

/* As of so many bytes a result that no step reads is written past the caches: those of a decoder, its keys
 * and values, are read before and behind it where they were, and there is more of them than a cache holds. */
enum { AWAY = 1 << 18 };

bool kernel_concat(KernelCall *call) {
    const JoinAttrs *attrs = call->attrs;
    KernelTensor *out = &call->outputs[0];
    size_t size = kernel_element_size(out->dtype);
    const bool away = call->unread && out->count >= AWAY / size;
    int64_t offset = 0;
    uint32_t axis;
    if (!kernel_axis(call, attrs->axis, out->rank, &axis)) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const KernelTensor *in = &call->inputs[i];
        Part part = part_of(out, in, axis);
        StridedWalk walk = strided_new(call, 2);
        walk.axes[0] = (StridedAxis){part.rows, part.pitch, part.width};
        walk.axes[1] = (StridedAxis){part.width, 1, 1};
        walk.away = away;
        strided_copy(&walk, (char *)out->data + (uint64_t)offset * size, in->data, size);
        offset += part.width;
    }
    return true;
}

/* The sizes of the parts, which outputs that nobody wants do not tell. NULL with the error set. */
static const int64_t *split_sizes(KernelCall *call, int64_t whole) {
    const JoinAttrs *attrs = call->attrs;
    const KernelTensor *input = kernel_input(call, 1);
    uint64_t given = attrs->split.present ? attrs->split.count : input ? input->count : UINT64_MAX;
    if (given != UINT64_MAX && given != call->output_count) {
        kernel_fail(call, "%llu sizes for %u outputs", (unsigned long long)given,
                    call->output_count);
        return NULL;
    }
    if (attrs->split.present) return attrs->split.items;
    if (input) return kernel_ints(call, input);
    int64_t *sizes = ARENA_ARRAY(call->scratch, int64_t, call->output_count);
    int64_t count = call->output_count, part = whole / count + (whole % count != 0), at = 0;
    for (uint32_t i = 0; i < call->output_count; i++, at += part)
        sizes[i] = whole - at < part ? whole - at : part;
    return sizes;
}

bool kernel_split(KernelCall *call) {
    const JoinAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    size_t size = kernel_element_size(in->dtype);
    uint32_t axis;
    if (!kernel_axis(call, attrs->axis, in->rank, &axis)) return false;
    const int64_t *sizes = split_sizes(call, in->dims[axis]);
    int64_t inner = (int64_t)kernel_span(in, axis + 1, in->rank), at = 0;
    if (!sizes) return false;
    for (uint32_t i = 0; i < call->output_count; i++) {
        KernelTensor *out = kernel_result(call, i);
        if (sizes[i] < 0 || sizes[i] > in->dims[axis] - at || (out && out->dims[axis] != sizes[i]))
            return kernel_fail(call, "part %u of %lld elements does not fit", i,
                               (long long)sizes[i]);
        if (out) {
            Part part = part_of(in, out, axis);
            StridedWalk walk = strided_new(call, 2);
            walk.axes[0] = (StridedAxis){part.rows, part.width, part.pitch};
            walk.axes[1] = (StridedAxis){part.width, 1, 1};
            strided_copy(&walk, out->data, (const char *)in->data + (uint64_t)(at * inner) * size,
                         size);
        }
        at += sizes[i];
    }
    return true;
}

/* ---- Expand, Tile ---------------------------------------------------------------------------- */

bool kernel_expand(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    StridedWalk walk = strided_new(call, out->rank);
    int64_t step = 1;
    strided_set_dims(&walk, out->dims);
    strided_set_to(&walk, out->dims);
    for (uint32_t i = 0; i < in->rank; i++) {
        StridedAxis *axis = &walk.axes[out->rank - 1 - i];
        int64_t size = in->dims[in->rank - 1 - i];
        if (size != 1 && size != axis->count)
            return kernel_fail(call, "cannot reshape %lld elements to %lld", (long long)size,
                               (long long)axis->count);
        axis->from = size == 1 ? 0 : step;
        step *= size;
    }
    strided_copy(&walk, out->data, in->data, kernel_element_size(in->dtype));
    return true;
}

/* Each axis becomes two: how often, and the input's. Serves Tile-1 too, as the dims say it all. */
bool kernel_tile(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    StridedWalk walk = strided_new(call, 2 * in->rank);
    int64_t from = 1, to = 1;
    if (out->count == 0) return true;
    for (uint32_t i = in->rank; i-- > 0;) {
        walk.axes[2 * i] = (StridedAxis){out->dims[i] / in->dims[i], to * in->dims[i], 0};
        walk.axes[2 * i + 1] = (StridedAxis){in->dims[i], to, from};
        from *= in->dims[i];
        to *= out->dims[i];
    }
    strided_copy(&walk, out->data, in->data, kernel_element_size(in->dtype));
    return true;
}

/* ---- DepthToSpace, SpaceToDepth -------------------------------------------------------------- */

/* Walks over N, C, H, row in block, W, column in block: `space` is the tensor of large pictures,
 * whose steps go to axes[].to, `depth` that of many channels. */
static bool depth_walk(KernelCall *call, const KernelTensor *depth, const KernelTensor *space,
                       StridedWalk *walk) {
    const DepthAttrs *attrs = call->attrs;
    int64_t block = attrs->blocksize, channels = space->dims[1], high = depth->dims[2];
    int64_t wide = depth->dims[3], area = high * wide;
    if (attrs->mode < 0) return kernel_fail(call, "the mode is unknown");
    if (block < 1) return kernel_fail(call, "blocksize is %lld", (long long)block);
    bool crd = attrs->mode == COLUMN_FIRST;
    const int64_t dims[] = {depth->dims[0], channels, high, block, wide, block};
    *walk = strided_new(call, 6);
    strided_set_dims(walk, dims);
    strided_set_to(walk, dims);
    int64_t part = area * (crd ? 1 : channels);
    walk->axes[0].from = depth->dims[1] * area;
    walk->axes[1].from = crd ? block * block * area : area;
    walk->axes[2].from = wide;
    walk->axes[3].from = block * part;
    walk->axes[4].from = 1;
    walk->axes[5].from = part;
    return true;
}

bool kernel_depth_to_space(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    StridedWalk walk;
    if (out->count == 0) return true;
    if (!depth_walk(call, in, out, &walk)) return false;
    strided_copy(&walk, out->data, in->data, kernel_element_size(in->dtype));
    return true;
}

/* The same walk the other way; ordered by the output, which is then written in order. */
bool kernel_space_to_depth(KernelCall *call) {
    static const uint32_t order[2][6] = {{0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}};
    const DepthAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    StridedWalk space, walk = strided_new(call, 6);
    if (out->count == 0) return true;
    if (!depth_walk(call, out, in, &space)) return false;
    for (uint32_t i = 0; i < 6; i++) {
        StridedAxis axis = space.axes[order[attrs->mode][i]];
        walk.axes[i] = (StridedAxis){axis.count, axis.from, axis.to};
    }
    strided_copy(&walk, out->data, in->data, kernel_element_size(in->dtype));
    return true;
}

/* ---- CenterCropPad --------------------------------------------------------------------------- */

/* What of the input is in the middle of the output; zeros around it. */
bool kernel_center_crop_pad(KernelCall *call) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    StridedWalk walk = strided_new(call, in->rank);
    size_t size = kernel_element_size(in->dtype);
    int64_t from = 0, to = 0;
    bool whole = true;
    strided_set_to(&walk, out->dims);
    strided_set_from(&walk, in->dims);
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t crop = in->dims[i] - out->dims[i];
        walk.axes[i].count = crop > 0 ? out->dims[i] : in->dims[i];
        if (crop > 0) from += crop / 2 * walk.axes[i].from;
        if (crop < 0) to += -crop / 2 * walk.axes[i].to;
        if (crop < 0) whole = false;
    }
    if (!whole) strided_fill(out, NULL);
    if (out->count == 0 || in->count == 0) return true;
    strided_copy(&walk, (char *)out->data + (uint64_t)to * size,
                 (const char *)in->data + (uint64_t)from * size, size);
    return true;
}
