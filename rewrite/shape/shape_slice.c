// SPDX-License-Identifier: Apache-2.0
/* Operators that cut, join, repeat or extend along axes: Slice, Split, Concat, Tile, Pad,
 * CenterCropPad. Contents follow, of those that join and split one-dimensional ones, because shapes are
 * cut and joined with them. */
#include <stddef.h>

#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

static ShapeNum *copy_dims(ShapeCall *call, uint32_t index, const ShapeOperand *from) {
    ShapeNum *dims = shape_output(call, index, from->rank);
    for (uint32_t i = 0; i < from->rank; i++) dims[i] = from->dims[i];
    return dims;
}

/* An attribute's list as if it were an input. */
static ShapeOperand operand_of_ints(ShapeCall *call, const AttrInts *ints) {
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, ints->count);
    ShapeNum *length = ARENA_NEW(call->arena, ShapeNum);
    for (uint32_t i = 0; i < ints->count; i++) items[i] = num_known(ints->items[i]);
    *length = num_known(ints->count);
    return (ShapeOperand){.present = ints->present,
                          .has_rank = true,
                          .dtype = DTYPE_INT64,
                          .rank = 1,
                          .dims = length,
                          .items = items,
                          .item_count = ints->count};
}

/* ---- Concat ---------------------------------------------------------------------------------- */

/* Contents of vectors one after another; the contents of those whose length alone is known are
 * unknown numbers. */
static void concat_contents(ShapeCall *call) {
    const ShapeOperand *output = &call->outputs[0];
    uint32_t count, at = 0;
    if (output->rank != 1 || !shape_is_small(output, &count)) return;
    Dtype dtype = DTYPE_UNDEFINED;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, count);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const ShapeOperand *input = &call->inputs[i];
        uint32_t length;
        if (!shape_is_small(input, &length) || length > count - at) return;
        if (input->items) dtype = input->dtype;
        for (uint32_t k = 0; k < length; k++) items[at++] = shape_item(input, k);
    }
    if (at == count) shape_contents(call, 0, dtype, items, count);
}

static const ShapeOperand *first_ranked(const ShapeCall *call) {
    for (uint32_t i = 0; i < call->input_count; i++)
        if (shape_ranked(call, i)) return &call->inputs[i];
    return NULL;
}

static bool concat_along(ShapeCall *call, uint32_t axis, ShapeNum *dims, uint32_t rank) {
    ShapeNum total = num_known(0);
    for (uint32_t i = 0; i < call->input_count; i++) {
        const ShapeOperand *input = shape_ranked(call, i);
        if (!input) {
            total = unknown;
            continue;
        }
        if (!shape_want_rank(call, i, rank)) return false;
        for (uint32_t k = 0; k < rank; k++)
            if (k != axis && !shape_unify(call, &dims[k], input->dims[k])) return false;
        total = num_add(total, input->dims[axis]);
    }
    dims[axis] = total;
    return true;
}

bool shape_concat(ShapeCall *call) {
    const JoinAttrs *attrs = call->attrs;
    const ShapeOperand *first = first_ranked(call);
    uint32_t axis;
    if (attrs->axis == ATTR_ABSENT) return shape_invalid(call, "axis is missing");
    if (!first) return true;
    if (!shape_axis(call, attrs->axis, first->rank, &axis)) return false;
    ShapeNum *dims = copy_dims(call, 0, first);
    if (!concat_along(call, axis, dims, first->rank)) return false;
    if (call->output_count) concat_contents(call);
    return true;
}

/* ---- Split ----------------------------------------------------------------------------------- */

/* The size of part i along the axis. Given sizes must add up to the whole. */
static bool split_sizes(ShapeCall *call, const ShapeOperand *sizes, ShapeNum whole,
                        ShapeNum *parts) {
    ShapeNum length = shape_length(sizes), total = num_known(0);
    if (length.kind == SHAPE_KNOWN && length.value != call->output_count)
        return shape_invalid(call, "%lld sizes for %u outputs", (long long)length.value,
                             call->output_count);
    for (uint32_t i = 0; i < call->output_count; i++) {
        parts[i] = shape_item(sizes, i);
        total = num_add(total, parts[i]);
    }
    return shape_unify(call, &total, whole);
}

/* Equal parts; since 18 the last one may be smaller. */
static bool split_equally(ShapeCall *call, ShapeNum whole, bool uneven, ShapeNum *parts) {
    int64_t count = call->output_count;
    if (!uneven && whole.kind == SHAPE_KNOWN && whole.value % count)
        return shape_invalid(call, "%lld does not split into %lld equal parts",
                             (long long)whole.value, (long long)count);
    ShapeNum part = num_ceil_div(whole, count);
    for (uint32_t i = 0; i < call->output_count; i++) parts[i] = part;
    ShapeNum before = num_mul(part, num_known(count - 1));
    if (count > 1) parts[count - 1] = num_sub(whole, before);
    return true;
}

static void split_contents(ShapeCall *call, const ShapeOperand *x) {
    uint32_t at = 0;
    for (uint32_t i = 0; x->rank == 1 && x->items && i < call->output_count; i++) {
        uint32_t count;
        if (!shape_is_small(&call->outputs[i], &count) || count > x->item_count - at) return;
        shape_contents(call, i, x->dtype, x->items + at, count);
        at += count;
    }
}

bool shape_split(ShapeCall *call) {
    const JoinAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *sizes = shape_input(call, 1);
    uint32_t axis;
    if (!x || !call->output_count) return true;
    if (!shape_axis(call, attrs->axis == ATTR_ABSENT ? 0 : attrs->axis, x->rank, &axis))
        return false;
    bool counted = attrs->num_outputs != ATTR_ABSENT;
    if (call->strict && call->row->since >= 18 && !counted && !sizes->present)
        return shape_invalid(call, "neither sizes nor num_outputs is given");
    if (counted && attrs->num_outputs != call->output_count)
        return shape_invalid(call, "num_outputs is %lld for %u outputs",
                             (long long)attrs->num_outputs, call->output_count);
    ShapeNum *parts = ARENA_ARRAY(call->arena, ShapeNum, call->output_count);
    const ShapeOperand from_attr = operand_of_ints(call, &attrs->split);
    if (attrs->split.present) sizes = &from_attr;
    bool ok = sizes->present ? split_sizes(call, sizes, x->dims[axis], parts)
                             : split_equally(call, x->dims[axis], call->row->since >= 18, parts);
    if (!ok) return false;
    for (uint32_t i = 0; i < call->output_count; i++) copy_dims(call, i, x)[axis] = parts[i];
    split_contents(call, x);
    return true;
}

/* ---- Slice ----------------------------------------------------------------------------------- */

typedef struct Cut {
    ShapeNum start, end, step;
} Cut;

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* First element and number of elements of a cut through `size` > 0 elements; bounds clamp as the
 * definition says (going down, a start before the first element is the first). */
static void cut_measure(const Cut *cut, int64_t size, int64_t *first, int64_t *count) {
    int64_t start = cut->start.value, end = cut->end.value, step = cut->step.value;
    if (start < 0) start = start < -size ? -1 : start + size; /* -1: before the first */
    if (end < 0) end = end < -size ? -1 : end + size;
    start = clamp(start, 0, step > 0 ? size : size - 1);
    end = step > 0 ? clamp(end, 0, size) : clamp(end, -1, size - 1);
    int64_t span = step > 0 ? end - start : start - end;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    *first = start;
    *count = span <= 0 ? 0 : (int64_t)(((uint64_t)span - 1) / stride + 1);
}

/* Exporters write "to the end" as the largest 32- or 64-bit number, or as the dim itself. */
static bool cut_is_all(const Cut *cut, ShapeNum size) {
    bool forward = num_is(cut->step, 1) && num_is(cut->start, 0);
    bool backward = num_is(cut->step, -1) && num_is(cut->start, -1);
    if (forward && shape_num_same(cut->end, size)) return true;
    if (cut->end.kind != SHAPE_KNOWN) return false;
    return (forward && cut->end.value >= INT32_MAX) || (backward && cut->end.value <= INT32_MIN);
}

static bool cut_is_known(const Cut *cut) {
    return cut->start.kind == SHAPE_KNOWN && cut->end.kind == SHAPE_KNOWN &&
           cut->step.kind == SHAPE_KNOWN && cut->step.value != 0;
}

static bool cut_size(ShapeCall *call, const Cut *cut, ShapeNum size, ShapeNum *result) {
    *result = unknown;
    if (num_is(cut->step, 0)) return shape_invalid(call, "a step is 0");
    if (num_is(size, 0) || cut_is_all(cut, size)) {
        *result = size;
        return true;
    }
    if (!cut_is_known(cut) || size.kind != SHAPE_KNOWN) return true;
    int64_t first, count;
    cut_measure(cut, size.value, &first, &count);
    *result = num_known(count);
    return true;
}

/* Contents of what one cut leaves. */
static void slice_contents(ShapeCall *call, const ShapeOperand *x, uint32_t axis, const Cut *cut) {
    int64_t first, count, inner = 1;
    if (!x->items || x->item_count == 0 || !cut_is_known(cut)) return;
    const int64_t size = x->dims[axis].value;
    for (uint32_t i = axis + 1; i < x->rank; i++) inner *= x->dims[i].value;
    const int64_t outer = (int64_t)x->item_count / (size * inner);
    cut_measure(cut, size, &first, &count);
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, (size_t)(outer * count * inner));
    uint32_t at = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < count; i++)
            for (int64_t k = 0; k < inner; k++)
                items[at++] = x->items[(o * size + first + i * cut->step.value) * inner + k];
    shape_contents(call, 0, x->dtype, items, at);
}

typedef struct SliceArgs {
    const ShapeOperand *starts, *ends, *axes, *steps; /* axes, steps: may be absent */
} SliceArgs;

/* How many axes are cut: as many as the longest list of known length says. */
static ShapeNum slice_count(const SliceArgs *args) {
    ShapeNum count = shape_length(args->starts);
    if (count.kind != SHAPE_KNOWN) count = shape_length(args->ends);
    if (count.kind != SHAPE_KNOWN) count = shape_length(args->axes);
    return count;
}

static bool slice_axes(ShapeCall *call, const ShapeOperand *x, const SliceArgs *args,
                       ShapeNum *dims) {
    ShapeNum count = slice_count(args);
    AttrInts axes = {0};
    bool known =
        args->axes->present ? shape_known_ints(call, args->axes, &axes) : count.kind == SHAPE_KNOWN;
    for (uint32_t i = 0; !known && i < x->rank; i++) dims[i] = unknown;
    if (!known) return true;
    uint32_t cuts = args->axes->present ? axes.count : (uint32_t)clamp(count.value, 0, UINT32_MAX);
    if (cuts > x->rank || (count.kind == SHAPE_KNOWN && count.value != cuts))
        return shape_invalid(call, "%u axes to slice for rank %u", cuts, x->rank);
    bool cut_already[SHAPE_RANK_LIMIT] = {false};
    for (uint32_t i = 0; i < cuts; i++) {
        uint32_t axis = i;
        if (axes.present && !shape_axis(call, axes.items[i], x->rank, &axis)) return false;
        if (call->strict && cut_already[axis]) return shape_invalid(call, "axis %u twice", axis);
        cut_already[axis] = true;
        Cut cut = {shape_item(args->starts, i), shape_item(args->ends, i), num_known(1)};
        if (args->steps->present) cut.step = shape_item(args->steps, i);
        if (!cut_size(call, &cut, x->dims[axis], &dims[axis])) return false;
        if (cuts == 1) slice_contents(call, x, axis, &cut);
    }
    if (cuts == 0 && x->items) shape_contents(call, 0, x->dtype, x->items, x->item_count);
    return true;
}

bool shape_slice(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    const SliceArgs args = {shape_input(call, 1), shape_input(call, 2), shape_input(call, 3),
                            shape_input(call, 4)};
    for (uint32_t i = 2; call->strict && i <= 4; i++) { /* as many ends, axes and steps as starts */
        ShapeNum length = shape_length(shape_input(call, 1));
        if (shape_input(call, i)->present &&
            !shape_unify(call, &length, shape_length(shape_input(call, i))))
            return false;
    }
    if (!x) return true;
    return slice_axes(call, x, &args, copy_dims(call, 0, x));
}

/* Slice-1: the same from attributes. */
bool shape_slice_attr(ShapeCall *call) {
    const SliceAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), none = {.present = false};
    ShapeOperand starts = operand_of_ints(call, &attrs->starts);
    ShapeOperand ends = operand_of_ints(call, &attrs->ends);
    ShapeOperand axes = operand_of_ints(call, &attrs->axes);
    if (!x) return true;
    if (starts.item_count != ends.item_count)
        return shape_invalid(call, "%u starts, %u ends", starts.item_count, ends.item_count);
    const SliceArgs args = {&starts, &ends, attrs->axes.present ? &axes : &none, &none};
    return slice_axes(call, x, &args, copy_dims(call, 0, x));
}

/* ---- Tile, Pad ------------------------------------------------------------------------------- */

bool shape_tile(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0), *repeats = shape_input(call, 1);
    if (call->strict && !shape_want_rank(call, 1, 1)) return false;
    if (!x) {
        ShapeNum length = shape_length(repeats);
        return length.kind != SHAPE_KNOWN || shape_output(call, 0, (uint64_t)length.value) != NULL;
    }
    if (repeats->items && repeats->item_count != x->rank)
        return shape_invalid(call, "%u repeats for rank %u", repeats->item_count, x->rank);
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) {
        ShapeNum repeat = shape_item(repeats, i);
        if (repeat.kind == SHAPE_KNOWN && repeat.value < 0)
            return shape_invalid(call, "repeats %lld times", (long long)repeat.value);
        dims[i] = num_mul(x->dims[i], repeat);
    }
    return true;
}

/* A size or axis that an operator of old takes as a floating-point number. */
static ShapeNum whole_number(ShapeNum num) {
    if (num.kind != SHAPE_REAL) return num;
    bool whole = num.real > -9007199254740992.0 && num.real < 9007199254740992.0;
    return whole ? num_known((int64_t)num.real) : unknown;
}

/* Tile-1: `tiles` times along `axis`, both inputs. */
bool shape_tile_1(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    ShapeNum tiles = whole_number(shape_single(shape_input(call, 1)));
    ShapeNum along = whole_number(shape_single(shape_input(call, 2)));
    uint32_t axis;
    if (!x) return true;
    ShapeNum *dims = shape_output(call, 0, x->rank);
    if (along.kind != SHAPE_KNOWN) return true;
    if (!shape_axis(call, along.value, x->rank, &axis)) return false;
    for (uint32_t i = 0; i < x->rank; i++)
        dims[i] = i == axis ? num_mul(x->dims[i], tiles) : x->dims[i];
    return true;
}

/* pads: begins of the `count` axes, then their ends. axes NULL: all. */
static bool pad_axes(ShapeCall *call, const ShapeOperand *x, const ShapeOperand *pads,
                     const AttrInts *axes) {
    ShapeNum *dims = copy_dims(call, 0, x);
    uint32_t count = axes ? axes->count : x->rank;
    if (pads->items && pads->item_count != (uint64_t)count * 2)
        return shape_invalid(call, "%u pads for %u axes", pads->item_count, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = i;
        if (axes && !shape_axis(call, axes->items[i], x->rank, &axis)) return false;
        ShapeNum both = num_add(shape_item(pads, i), shape_item(pads, i + count));
        dims[axis] = num_add(x->dims[axis], both);
    }
    return true;
}

bool shape_pad(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0), *axes_input = shape_input(call, 3);
    const PadAttrs *attrs = call->attrs;
    AttrInts axes;
    if (!x) return true;
    if (call->row->variant == SHAPE_BY_ATTR) {
        ShapeOperand pads = operand_of_ints(call, &attrs->pads);
        return pad_axes(call, x, &pads, NULL);
    }
    if (call->strict && (!shape_want_rank(call, 1, 1) || !shape_want_rank(call, 3, 1)))
        return false;
    if (!axes_input->present) return pad_axes(call, x, shape_input(call, 1), NULL);
    if (!shape_known_ints(call, axes_input, &axes)) return shape_output(call, 0, x->rank) != NULL;
    return pad_axes(call, x, shape_input(call, 1), &axes);
}

bool shape_center_crop_pad(ShapeCall *call) {
    const AxesAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *wanted = shape_input(call, 1);
    if (!x) return true;
    uint32_t count = attrs->axes.present ? attrs->axes.count : x->rank;
    if (wanted->items && wanted->item_count != count)
        return shape_invalid(call, "%u sizes for %u axes", wanted->item_count, count);
    ShapeNum *dims = copy_dims(call, 0, x);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = i;
        if (attrs->axes.present && !shape_axis(call, attrs->axes.items[i], x->rank, &axis))
            return false;
        dims[axis] = shape_item(wanted, i);
    }
    return true;
}
