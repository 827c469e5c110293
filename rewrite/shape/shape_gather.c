// SPDX-License-Identifier: Apache-2.0
/* Operators that pick elements by index or condition: Gather*, Scatter* (whose result is shaped as
 * the data), OneHot, Compress, NonZero, Unique, NonMaxSuppression. */
#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

/* Picking from a vector whose contents are known: how exporters take one dim out of a shape. */
static bool gather_contents(ShapeCall *call, const ShapeOperand *x, const ShapeOperand *indices) {
    if (x->rank != 1 || !x->items || !indices->items) return true;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, indices->item_count);
    for (uint32_t i = 0; i < indices->item_count; i++) {
        ShapeNum index = indices->items[i];
        if (index.kind != SHAPE_KNOWN) continue;
        int64_t at = index.value < 0 ? index.value + (int64_t)x->item_count : index.value;
        if (at < 0 || at >= (int64_t)x->item_count)
            return shape_invalid(call, "index %lld of %u elements", (long long)index.value,
                                 x->item_count);
        items[i] = x->items[at];
    }
    shape_contents(call, 0, x->dtype, items, indices->item_count);
    return true;
}

/* Indices that are known are of the axis. */
static bool gather_in_range(ShapeCall *call, ShapeNum size, const ShapeOperand *indices) {
    if (size.kind != SHAPE_KNOWN || !indices->items) return true;
    for (uint32_t i = 0; i < indices->item_count; i++) {
        ShapeNum index = indices->items[i];
        if (index.kind == SHAPE_KNOWN && (index.value < -size.value || index.value >= size.value))
            return shape_invalid(call, "index %lld of %lld elements", (long long)index.value,
                                 (long long)size.value);
    }
    return true;
}

/* data[: axis] + indices + data[axis + 1 :] */
bool shape_gather(ShapeCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *indices = shape_ranked(call, 1);
    uint32_t axis, at = 0;
    if (!x) return true;
    if (!shape_axis(call, attrs->axis, x->rank, &axis)) return false;
    if (!indices) return true;
    if (call->strict && !gather_in_range(call, x->dims[axis], indices)) return false;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)x->rank + indices->rank - 1);
    if (!dims) return false;
    for (uint32_t i = 0; i < axis; i++) dims[at++] = x->dims[i];
    for (uint32_t i = 0; i < indices->rank; i++) dims[at++] = indices->dims[i];
    for (uint32_t i = axis + 1; i < x->rank; i++) dims[at++] = x->dims[i];
    return gather_contents(call, x, indices);
}

bool shape_gather_elements(ShapeCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *indices = shape_ranked(call, 1);
    uint32_t axis;
    if (x && !shape_axis(call, attrs->axis, x->rank, &axis)) return false;
    if (x && indices && !shape_want_rank(call, 1, x->rank)) return false;
    shape_same_as(call, 0, shape_input(call, 1));
    return true;
}

/* indices[: -1] + data[batch_dims + indices.shape[-1] :] */
bool shape_gather_nd(ShapeCall *call) {
    const GatherAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *indices = shape_ranked(call, 1);
    if (!x || !indices) return true;
    int64_t batch = attrs->batch_dims;
    if (batch < 0 || indices->rank == 0 || batch >= x->rank || batch >= indices->rank)
        return shape_invalid(call, "batch_dims %lld for ranks %u and %u", (long long)batch, x->rank,
                             indices->rank);
    ShapeNum depth = indices->dims[indices->rank - 1];
    if (depth.kind != SHAPE_KNOWN) return true;
    if (depth.value < 1 || depth.value > (int64_t)x->rank - batch)
        return shape_invalid(call, "indices of %lld axes for rank %u", (long long)depth.value,
                             x->rank);
    uint32_t first = (uint32_t)(batch + depth.value), at = 0;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)indices->rank - 1 + x->rank - first);
    if (!dims) return false;
    for (uint32_t i = 0; i + 1 < indices->rank; i++) dims[at++] = indices->dims[i];
    for (uint32_t i = first; i < x->rank; i++) dims[at++] = x->dims[i];
    return true;
}

/* indices with an axis of `depth` put in at `axis` of the result */
bool shape_one_hot(ShapeCall *call) {
    const SelectAttrs *attrs = call->attrs;
    const ShapeOperand *indices = shape_ranked(call, 0), *wide = shape_ranked(call, 1);
    uint32_t axis;
    if (call->strict && !shape_want_rank(call, 2, 1)) return false;
    ShapeNum pair = num_known(2);
    if (call->strict && !shape_unify(call, &pair, shape_length(shape_input(call, 2)))) return false;
    if (call->strict && wide && wide->rank > 1)
        return shape_invalid(call, "depth has rank %u", wide->rank);
    ShapeNum one = num_known(1);
    if (call->strict && wide && wide->rank == 1 && !shape_unify(call, &one, wide->dims[0]))
        return false;
    if (!indices) return true;
    if (!shape_axis(call, attrs->axis, indices->rank + 1, &axis)) return false;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)indices->rank + 1);
    if (!dims) return false;
    ShapeNum depth = shape_single(shape_input(call, 1));
    if (depth.kind == SHAPE_REAL) /* depth may be of any numeric type */
        depth = depth.real >= 0 && depth.real < 9007199254740992.0 ? num_known((int64_t)depth.real)
                                                                   : unknown;
    for (uint32_t i = 0; i <= indices->rank; i++)
        dims[i] = i == axis ? depth : indices->dims[i < axis ? i : i - 1];
    return true;
}

/* The number of true conditions, where they are known. */
static ShapeNum count_true(const ShapeOperand *condition) {
    if (!condition->items) return unknown;
    int64_t count = 0;
    for (uint32_t i = 0; i < condition->item_count; i++) {
        if (condition->items[i].kind != SHAPE_KNOWN) return unknown;
        count += condition->items[i].value != 0;
    }
    return num_known(count);
}

bool shape_compress(ShapeCall *call) {
    const SelectAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    uint32_t axis;
    ShapeNum kept = count_true(shape_input(call, 1));
    if (attrs->axis == ATTR_ABSENT) {
        shape_output(call, 0, 1)[0] = kept;
        return true;
    }
    if (!x) return true;
    if (!shape_axis(call, attrs->axis, x->rank, &axis)) return false;
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) dims[i] = i == axis ? kept : x->dims[i];
    return true;
}

/* (rank of X, how many are not zero) */
bool shape_non_zero(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    ShapeNum *dims = shape_output(call, 0, 2);
    if (x) dims[0] = num_known(x->rank);
    return true;
}

/* Y along the axis, and three index vectors; how many are unique depends on data. */
bool shape_unique(ShapeCall *call) {
    const UniqueAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    uint32_t axis = 0;
    for (uint32_t i = 1; i < 4; i++) shape_output(call, i, 1);
    if (attrs->axis == ATTR_ABSENT) {
        shape_output(call, 0, 1);
        if (x) shape_output(call, 2, 1)[0] = num_product(x->dims, 0, x->rank);
        return true;
    }
    if (!x) return true;
    if (!shape_axis(call, attrs->axis, x->rank, &axis)) return false;
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) dims[i] = i == axis ? unknown : x->dims[i];
    shape_output(call, 2, 1)[0] = x->dims[axis]; /* inverse_indices */
    return true;
}

/* (selected, 3): batch, class, box */
bool shape_nms(ShapeCall *call) {
    ShapeNum *dims = shape_output(call, 0, 2);
    dims[1] = num_known(3);
    return shape_want_rank(call, 0, 3) && shape_want_rank(call, 1, 3);
}

/* X (N, C, in …), grid (N, out …, axes) to (N, C, out …) */
bool shape_grid_sample(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0), *grid = shape_ranked(call, 1);
    if (!x && !grid) return true;
    uint32_t rank = x ? x->rank : grid->rank;
    if (rank < 3) return shape_invalid(call, "rank %u leaves no spatial axes", rank);
    if (x && grid && !shape_want_rank(call, 1, rank)) return false;
    ShapeNum *dims = shape_output(call, 0, rank);
    if (!dims) return false;
    if (x) dims[0] = x->dims[0];
    if (x) dims[1] = x->dims[1];
    ShapeNum coordinates = num_known(rank - 2);
    if (grid && grid->rank && !shape_unify(call, &coordinates, grid->dims[grid->rank - 1]))
        return false;
    if (grid && !shape_unify(call, &dims[0], grid->dims[0])) return false;
    for (uint32_t i = 2; grid && i < rank; i++) dims[i] = grid->dims[i - 1];
    return true;
}

/* As the data; one length for each of the batch. */
bool shape_reverse_sequence(ShapeCall *call) {
    shape_same_as(call, 0, shape_input(call, 0));
    return !call->strict || shape_want_rank(call, 1, 1);
}

/* size (N, C, H, W) or (N, C, D, H, W) to (N, H, W, 2) or (N, D, H, W, 3) */
bool shape_affine_grid(ShapeCall *call) {
    const ShapeOperand *theta = shape_ranked(call, 0), *size = shape_input(call, 1);
    ShapeNum length = shape_length(size);
    if (call->strict && !shape_want_rank(call, 1, 1)) return false;
    if (length.kind != SHAPE_KNOWN) return true;
    if (length.value != 4 && length.value != 5)
        return shape_invalid(call, "size has %lld numbers", (long long)length.value);
    uint32_t rank = (uint32_t)length.value;
    ShapeNum *dims = shape_output(call, 0, rank);
    dims[0] = shape_item(size, 0);
    for (uint32_t i = 2; i < rank; i++) dims[i - 1] = shape_item(size, i);
    dims[rank - 1] = num_known(rank - 2);
    return !theta || theta->rank == 0 || shape_unify(call, &dims[0], theta->dims[0]);
}
