// SPDX-License-Identifier: Apache-2.0
/* Operators that keep all elements and rearrange axes: Reshape, Flatten, Squeeze, Unsqueeze,
 * Transpose, DepthToSpace and back. Contents pass through, in order, where they stay in order. */
#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

static void keep_contents(ShapeCall *call) {
    const ShapeOperand *x = shape_input(call, 0);
    if (x->items) shape_contents(call, 0, x->dtype, x->items, x->item_count);
}

/* ---- Reshape --------------------------------------------------------------------------------- */

/* What remains of a product when factors of another are taken out. */
typedef struct Factors {
    ShapeNum known;  /* product of the known ones */
    uint32_t others; /* symbols and unknowns left */
    ShapeNum last;   /* the last of those */
} Factors;

static void factors_add(Factors *factors, ShapeNum num) {
    if (num.kind == SHAPE_KNOWN) {
        factors->known = num_mul(factors->known, num);
        return;
    }
    factors->others++;
    factors->last = num;
}

/* The dim that -1 stands for: input elements over the other output dims. Dims that were copied
 * from the input cancel, as does a symbol found on both sides. */
static bool infer_minus_one(ShapeCall *call, const ShapeOperand *x, ShapeDims out, bool *used,
                            ShapeNum *result) {
    Factors above = {.known = num_known(1)}, below = {.known = num_known(1)};
    for (uint32_t i = 0; i < out.rank; i++) {
        if (num_is(out.dims[i], -1)) continue;
        uint32_t match = 0;
        while (match < x->rank && (used[match] || x->dims[match].kind != SHAPE_SYMBOL ||
                                   !shape_num_same(x->dims[match], out.dims[i])))
            match++;
        if (match < x->rank)
            used[match] = true;
        else
            factors_add(&below, out.dims[i]);
    }
    for (uint32_t i = 0; i < x->rank; i++)
        if (!used[i]) factors_add(&above, x->dims[i]);
    *result = unknown;
    if (below.others || below.known.kind != SHAPE_KNOWN || above.known.kind != SHAPE_KNOWN ||
        below.known.value <= 0)
        return true;
    if (above.others == 1 && shape_num_same(above.known, below.known)) *result = above.last;
    if (above.others) return true;
    if (above.known.value % below.known.value)
        return shape_invalid(call, "%lld elements do not fill rows of %lld",
                             (long long)above.known.value, (long long)below.known.value);
    *result = num_known(above.known.value / below.known.value);
    return true;
}

/* Where every dim is known, the element counts must agree. */
static bool reshape_check(ShapeCall *call, const ShapeOperand *x, ShapeDims out) {
    const ShapeOperand after = {.has_rank = true, .rank = out.rank, .dims = out.dims};
    uint64_t elements_in, elements_out;
    if (!x || !shape_count(x, &elements_in) || !shape_count(&after, &elements_out)) return true;
    return elements_in == elements_out ||
           shape_invalid(call, "cannot reshape %llu elements to %llu",
                         (unsigned long long)elements_in, (unsigned long long)elements_out);
}

/* Fills dims from the target, 0 meaning a copy; dims copied from the input are marked in used.
 * Places of -1 keep it. */
static bool reshape_dims(ShapeCall *call, const ShapeOperand *x, const ShapeNum *target,
                         ShapeDims out, bool *used) {
    const ReshapeAttrs *attrs = call->attrs;
    uint32_t inferred = 0;
    for (uint32_t i = 0; i < out.rank; i++) {
        out.dims[i] = target[i];
        if (num_is(target[i], -1) && ++inferred > 1)
            return shape_invalid(call, "two dimensions are -1");
        if (!num_is(target[i], 0) || attrs->allowzero) continue;
        out.dims[i] = unknown;
        if (!x) continue;
        if (i >= x->rank) return shape_invalid(call, "dimension %u is 0 for rank %u", i, x->rank);
        out.dims[i] = x->dims[i];
        if (x->dims[i].kind == SHAPE_UNKNOWN) used[i] = true;
    }
    return true;
}

static bool reshape_to(ShapeCall *call, const ShapeNum *target, uint32_t rank) {
    const ShapeOperand *x = shape_ranked(call, 0);
    ShapeNum *dims = shape_output(call, 0, rank);
    bool *used = ARENA_ARRAY(call->arena, bool, x ? x->rank : 0);
    if (!dims || !reshape_dims(call, x, target, (ShapeDims){rank, dims}, used)) return false;
    ShapeNum *asked = NULL; /* the place of -1 */
    for (uint32_t i = 0; i < rank; i++)
        if (num_is(dims[i], -1)) asked = &dims[i];
    ShapeNum inferred = unknown;
    if (asked && x) {
        ShapeDims others = {rank, ARENA_ARRAY(call->arena, ShapeNum, rank)};
        for (uint32_t i = 0; i < rank; i++) {
            bool copied = i < x->rank && used[i] && num_is(target[i], 0);
            others.dims[i] = copied ? num_known(1) : dims[i];
        }
        for (uint32_t i = 0; call->strict && i < rank; i++)
            if (num_is(dims[i], 0)) return shape_invalid(call, "-1 together with a dimension of 0");
        if (!infer_minus_one(call, x, others, used, &inferred)) return false;
    }
    if (asked) *asked = inferred;
    if (!reshape_check(call, x, (ShapeDims){rank, dims})) return false;
    keep_contents(call);
    return true;
}

bool shape_reshape(ShapeCall *call) {
    const ShapeOperand *wanted = shape_input(call, 1);
    ShapeNum length = shape_length(wanted);
    if (wanted->items && wanted->rank == 1)
        return reshape_to(call, wanted->items, wanted->item_count);
    if (wanted->has_rank && wanted->rank != 1)
        return shape_invalid(call, "the shape has rank %u", wanted->rank);
    return length.kind != SHAPE_KNOWN || shape_output(call, 0, (uint64_t)length.value) != NULL;
}

/* Reshape-1: the shape is an attribute. */
bool shape_reshape_attr(ShapeCall *call) {
    const ReshapeAttrs *attrs = call->attrs;
    if (!attrs->shape.present) return true;
    ShapeNum *target = ARENA_ARRAY(call->arena, ShapeNum, attrs->shape.count);
    for (uint32_t i = 0; i < attrs->shape.count; i++) target[i] = num_known(attrs->shape.items[i]);
    return reshape_to(call, target, attrs->shape.count);
}

bool shape_flatten(ShapeCall *call) {
    const ReshapeAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    ShapeNum *dims = shape_output(call, 0, 2);
    if (!x) return true;
    int64_t axis = attrs->axis < 0 ? attrs->axis + (int64_t)x->rank : attrs->axis;
    bool backwards = call->strict && call->row->since < 11 && attrs->axis < 0;
    if (axis < 0 || axis > (int64_t)x->rank || backwards)
        return shape_invalid(call, "axis %lld is out of range for rank %u", (long long)attrs->axis,
                             x->rank);
    dims[0] = num_product(x->dims, 0, (uint32_t)axis);
    dims[1] = num_product(x->dims, (uint32_t)axis, x->rank);
    keep_contents(call);
    return true;
}

/* ---- Squeeze, Unsqueeze ---------------------------------------------------------------------- */

/* Axes from the attribute or, since 13, from input 1. False: not known (and, with `count`, how
 * many there are). Absent axes are a list of none that is not `present`. */
static bool axes_known(ShapeCall *call, AttrInts *axes, ShapeNum *count) {
    const AxesAttrs *attrs = call->attrs;
    const ShapeOperand *input = shape_input(call, 1);
    *axes = attrs->axes;
    *count = shape_length(input);
    return !input->present || shape_known_ints(call, input, axes);
}

/* Marks the axes; each may be named once. */
static bool axes_mark(ShapeCall *call, const AttrInts *axes, uint32_t rank, bool *marked) {
    for (uint32_t i = 0; i < axes->count; i++) {
        uint32_t axis;
        if (!shape_axis(call, axes->items[i], rank, &axis)) return false;
        if (marked[axis]) return shape_invalid(call, "axis %u is named twice", axis);
        marked[axis] = true;
    }
    return true;
}

static bool squeeze_marked(ShapeCall *call, const ShapeOperand *x, const bool *marked) {
    uint32_t rank = 0, at = 0;
    for (uint32_t i = 0; i < x->rank; i++) rank += !marked[i];
    ShapeNum *dims = shape_output(call, 0, rank);
    for (uint32_t i = 0; i < x->rank; i++) {
        if (!marked[i])
            dims[at++] = x->dims[i];
        else if (x->dims[i].kind == SHAPE_KNOWN && x->dims[i].value != 1)
            return shape_invalid(call, "cannot squeeze axis %u of size %lld", i,
                                 (long long)x->dims[i].value);
    }
    keep_contents(call);
    return true;
}

bool shape_squeeze(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    AttrInts axes;
    ShapeNum count;
    if (!x) return true;
    if (!axes_known(call, &axes, &count)) {
        bool usable = count.kind == SHAPE_KNOWN && count.value > 0 && count.value <= x->rank;
        return !usable || shape_output(call, 0, x->rank - (uint32_t)count.value) != NULL;
    }
    bool *marked = ARENA_ARRAY(call->arena, bool, x->rank);
    if (!axes_mark(call, &axes, x->rank, marked)) return false;
    for (uint32_t i = 0; !axes.present && i < x->rank; i++) {
        if (x->dims[i].kind != SHAPE_KNOWN) return true; /* it may be 1 */
        marked[i] = x->dims[i].value == 1;
    }
    return squeeze_marked(call, x, marked);
}

bool shape_unsqueeze(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    AttrInts axes;
    ShapeNum count;
    if (!x) return true;
    if (!axes_known(call, &axes, &count))
        return count.kind != SHAPE_KNOWN ||
               shape_output(call, 0, (uint64_t)x->rank + (uint64_t)count.value) != NULL;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)x->rank + axes.count);
    if (!dims) return false;
    uint32_t rank = x->rank + axes.count, from = 0;
    bool *marked = ARENA_ARRAY(call->arena, bool, rank);
    if (!axes_mark(call, &axes, rank, marked)) return false;
    for (uint32_t i = 0; i < rank; i++) dims[i] = marked[i] ? num_known(1) : x->dims[from++];
    keep_contents(call);
    return true;
}

/* ---- Transpose ------------------------------------------------------------------------------- */

/* Element `at` of the result, row-major, is which one of x; from[i]: the axis of x that axis i is. */
static uint32_t transposed_place(const ShapeOperand *x, const uint32_t *from, uint32_t at) {
    uint32_t place = 0;
    for (uint32_t i = x->rank; i-- > 0;) {
        const uint32_t size = (uint32_t)x->dims[from[i]].value;
        uint32_t stride = 1;
        for (uint32_t k = from[i] + 1; k < x->rank; k++) stride *= (uint32_t)x->dims[k].value;
        place += at % size * stride;
        at /= size;
    }
    return place;
}

static void transpose_contents(ShapeCall *call, const ShapeOperand *x, const uint32_t *from) {
    if (!x->items) return;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, x->item_count + 1u);
    for (uint32_t i = 0; i < x->item_count; i++) items[i] = x->items[transposed_place(x, from, i)];
    shape_contents(call, 0, x->dtype, items, x->item_count);
}

bool shape_transpose(ShapeCall *call) {
    const TransposeAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return !attrs->perm.present || shape_output(call, 0, attrs->perm.count) != NULL;
    if (attrs->perm.present && attrs->perm.count != x->rank)
        return shape_invalid(call, "perm has %u axes for rank %u", attrs->perm.count, x->rank);
    ShapeNum *dims = shape_output(call, 0, x->rank);
    bool *marked = ARENA_ARRAY(call->arena, bool, x->rank);
    uint32_t *axes = ARENA_ARRAY(call->arena, uint32_t, x->rank + 1u);
    for (uint32_t i = 0; call->strict && i < attrs->perm.count; i++)
        if (attrs->perm.items[i] < 0)
            return shape_invalid(call, "axis %lld in perm", (long long)attrs->perm.items[i]);
    if (!axes_mark(call, &attrs->perm, x->rank, marked)) return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        uint32_t from = x->rank - 1 - i;
        if (attrs->perm.present && !shape_axis(call, attrs->perm.items[i], x->rank, &from))
            return false;
        dims[i] = x->dims[from];
        axes[i] = from;
    }
    transpose_contents(call, x, axes);
    return true;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool divide_exactly(ShapeCall *call, ShapeNum num, int64_t divisor, ShapeNum *result) {
    if (num.kind == SHAPE_KNOWN && num.value % divisor)
        return shape_invalid(call, "%lld is not a multiple of %lld", (long long)num.value,
                             (long long)divisor);
    *result = num_floor_div(num, divisor);
    return true;
}

/* The block size and its square; false where the input can't have blocks. */
static bool block_sizes(ShapeCall *call, int64_t *block, int64_t *square) {
    const DepthAttrs *attrs = call->attrs;
    *block = attrs->blocksize;
    *square = 1;
    if (*block < 1 || __builtin_mul_overflow(*block, *block, square))
        return shape_invalid(call, "blocksize is %lld", (long long)attrs->blocksize);
    return shape_want_rank(call, 0, 4);
}

bool shape_depth_to_space(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    int64_t block, square;
    if (!block_sizes(call, &block, &square)) return false;
    ShapeNum *dims = shape_output(call, 0, 4);
    if (!x) return true;
    dims[0] = x->dims[0];
    dims[2] = num_mul(x->dims[2], num_known(block));
    dims[3] = num_mul(x->dims[3], num_known(block));
    return divide_exactly(call, x->dims[1], square, &dims[1]);
}

bool shape_space_to_depth(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    int64_t block, square;
    if (!block_sizes(call, &block, &square)) return false;
    ShapeNum *dims = shape_output(call, 0, 4);
    if (!x) return true;
    dims[0] = x->dims[0];
    dims[1] = num_mul(x->dims[1], num_known(square));
    return divide_exactly(call, x->dims[2], block, &dims[2]) &&
           divide_exactly(call, x->dims[3], block, &dims[3]);
}
