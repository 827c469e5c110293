// SPDX-License-Identifier: Apache-2.0
/* Operators that reduce axes: Reduce*, ArgMax and ArgMin, TopK, losses; and the norms, whose
 * statistics are reductions. */
#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

/* Marks the listed axes in `reduced` [rank]. */
static bool mark_axes(ShapeCall *call, const AttrInts *axes, uint32_t rank, bool *reduced) {
    for (uint32_t i = 0; i < axes->count; i++) {
        uint32_t axis;
        if (!shape_axis(call, axes->items[i], rank, &axis)) return false;
        reduced[axis] = true;
    }
    return true;
}

static bool reduce_dims(ShapeCall *call, const ShapeOperand *x, const bool *reduced,
                        bool keepdims) {
    uint32_t rank = 0, at = 0;
    for (uint32_t i = 0; i < x->rank; i++) rank += keepdims || !reduced[i];
    ShapeNum *dims = shape_output(call, 0, rank);
    for (uint32_t i = 0; i < x->rank; i++)
        if (!reduced[i])
            dims[at++] = x->dims[i];
        else if (keepdims)
            dims[at++] = num_known(1);
    return dims != NULL;
}

/* Axes are not known: with keepdims the rank stays, and with a known number of axes it is known. */
static bool reduce_unknown(ShapeCall *call, const ShapeOperand *x, const ShapeOperand *axes) {
    const AxesAttrs *attrs = call->attrs;
    if (attrs->keepdims == 1) return shape_output(call, 0, x->rank) != NULL;
    ShapeNum count = shape_length(axes);
    if (count.kind != SHAPE_KNOWN || count.value == 0 || count.value > x->rank) return true;
    return shape_output(call, 0, x->rank - (uint32_t)count.value) != NULL;
}

/* ReduceSum and the like of a small vector down to one number: sizes computed by exporters. */
static void reduce_contents(ShapeCall *call, const ShapeOperand *x, const bool *reduced) {
    if (!x->items || call->row->variant == SHAPE_PLAIN) return;
    for (uint32_t i = 0; i < x->rank; i++)
        if (!reduced[i]) return;
    bool sum = call->row->variant == SHAPE_ADD;
    ShapeNum total = num_known(sum ? 0 : 1);
    for (uint32_t i = 0; i < x->item_count; i++)
        total = sum ? num_add(total, x->items[i]) : num_mul(total, x->items[i]);
    ShapeNum *items = ARENA_NEW(call->arena, ShapeNum);
    *items = shape_fit(x->dtype, total);
    shape_contents(call, 0, x->dtype, items, 1);
}

bool shape_reduce(ShapeCall *call) {
    const AxesAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *input = shape_input(call, 1);
    if (!x) return true;
    AttrInts axes = attrs->axes;
    if (input->present && !shape_known_ints(call, input, &axes))
        return reduce_unknown(call, x, input);
    bool none = axes.count == 0;
    if (none && attrs->noop) {
        shape_same_as(call, 0, x);
        return true;
    }
    bool *reduced = ARENA_ARRAY(call->arena, bool, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) reduced[i] = none;
    if (!mark_axes(call, &axes, x->rank, reduced)) return false;
    if (!reduce_dims(call, x, reduced, attrs->keepdims == 1)) return false;
    reduce_contents(call, x, reduced);
    return true;
}

bool shape_arg(ShapeCall *call) {
    const ArgAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    uint32_t axis;
    if (!x) return true;
    if (!shape_axis(call, attrs->axis, x->rank, &axis)) return false;
    bool *reduced = ARENA_ARRAY(call->arena, bool, x->rank);
    reduced[axis] = true;
    return reduce_dims(call, x, reduced, attrs->keepdims == 1);
}

bool shape_topk(ShapeCall *call) {
    const TopKAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    ShapeNum k = shape_single(shape_input(call, 1));
    uint32_t axis;
    if (attrs->k != ATTR_ABSENT) k = num_known(attrs->k);
    ShapeNum length = shape_length(shape_input(call, 1));
    if (call->strict && !shape_want_rank(call, 1, 1)) return false;
    if (call->strict && length.kind == SHAPE_KNOWN && length.value != 1)
        return shape_invalid(call, "k has %lld numbers", (long long)length.value);
    if (!x) return true;
    if (!shape_axis(call, attrs->axis, x->rank, &axis)) return false;
    if (k.kind == SHAPE_KNOWN && x->dims[axis].kind == SHAPE_KNOWN && k.value > x->dims[axis].value)
        return shape_invalid(call, "k = %lld of %lld elements", (long long)k.value,
                             (long long)x->dims[axis].value);
    ShapeNum *dims = shape_output(call, 0, x->rank);
    for (uint32_t i = 0; i < x->rank; i++) dims[i] = i == axis ? k : x->dims[i];
    if (call->output_count > 1) shape_same_as(call, 1, &call->outputs[0]);
    return true;
}

/* Axes are checked; the shape stays. */
bool shape_along_axis(ShapeCall *call) {
    const NormAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    uint32_t axis;
    shape_same_as(call, 0, shape_input(call, 0));
    if (call->strict) return !x || shape_axis(call, attrs->axis, x->rank, &axis);
    /* scalars are accepted by implementations, whatever the axis */
    return !x || x->rank == 0 || attrs->axis == x->rank ||
           shape_axis(call, attrs->axis, x->rank, &axis);
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* Scale, bias, mean and variance: a number for each channel. (Until opset 8, spatial=0 had more.)
 */
static bool norm_operands(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    ShapeNum channels = x && x->rank > 1 ? x->dims[1] : unknown;
    if (x && x->rank == 1) channels = num_known(1); /* a batch of numbers has one channel */
    for (uint32_t i = 1; i < 5; i++) {
        const ShapeOperand *operand = shape_ranked(call, i);
        if (!shape_want_rank(call, i, 1)) return false;
        if (operand && !shape_unify(call, &channels, operand->dims[0])) return false;
    }
    return true;
}

/* Outputs beyond Y are statistics, shaped as the inputs mean and var. */
bool shape_batch_norm(ShapeCall *call) {
    if (call->strict && call->row->since >= 9 && !norm_operands(call)) return false;
    shape_same_as(call, 0, shape_input(call, 0));
    for (uint32_t i = 1; i < call->output_count; i++) {
        const ShapeOperand *from = shape_input(call, i % 2 ? 3 : 4);
        const ShapeOperand *x = shape_ranked(call, 0);
        shape_same_as(call, i, from);
        if (from->has_rank || !x || x->rank < 2) continue;
        ShapeNum *dims = shape_output(call, i, 1);
        dims[0] = x->dims[1];
    }
    return true;
}

/* Mean and InvStdDev keep the axes before `axis`; those from it on become 1. */
bool shape_layer_norm(ShapeCall *call) {
    const NormAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    shape_same_as(call, 0, shape_input(call, 0));
    uint32_t axis;
    if (!x) return true;
    if (!shape_axis(call, attrs->axis, x->rank, &axis)) return false;
    for (uint32_t k = 1; k < call->output_count; k++) {
        ShapeNum *dims = shape_output(call, k, x->rank);
        for (uint32_t i = 0; i < x->rank; i++) dims[i] = i < axis ? x->dims[i] : num_known(1);
    }
    return true;
}

/* demi.fused: the normalized sum, the sum itself, and the first in another type. */
bool shape_skip_layer_norm(ShapeCall *call) {
    const NormAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    uint32_t axis;
    shape_same_as(call, 0, shape_input(call, 0));
    for (uint32_t k = 1; k < call->output_count; k++) shape_same_as(call, k, shape_input(call, 0));
    return !x || shape_axis(call, attrs->axis, x->rank, &axis);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* Target (N, …) beside scores (N, C, …), and a weight for each class: no kernel can go on where
 * they do not agree. */
static bool loss_operands(ShapeCall *call, const ShapeOperand *x, ShapeNum *dims) {
    const ShapeOperand *target = shape_ranked(call, 1), *weight = shape_ranked(call, 2);
    ShapeNum classes = x->dims[1];
    if (!shape_want_rank(call, 1, x->rank - 1)) return false;
    for (uint32_t i = 0; i + 1 < x->rank; i++) {
        dims[i] = x->dims[i == 0 ? 0 : i + 1];
        if (!shape_unify(call, &dims[i], target ? target->dims[i] : unknown)) return false;
    }
    if (!call->strict) return true;
    return shape_want_rank(call, 2, 1) && (!weight || shape_unify(call, &classes, weight->dims[0]));
}

static bool loss_dims(ShapeCall *call) {
    const LossAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    if (attrs->reduction < 0) return shape_invalid(call, "reduction is an unknown mode");
    bool all = attrs->reduction == LOSS_NONE;
    if (x && x->rank < 2 && (all || call->strict))
        return shape_invalid(call, "scores have rank %u", x->rank);
    if (all)
        shape_same_as(call, 0, shape_input(call, 1));
    else
        shape_scalar(call, 0);
    if (!x || (!all && !call->strict)) return true;
    ShapeNum *dims =
        all ? shape_output(call, 0, x->rank - 1) : ARENA_ARRAY(call->arena, ShapeNum, x->rank);
    return loss_operands(call, x, dims);
}

/* Scores (N, C, …), target (N, …): a loss per target, or one number. */
bool shape_loss(ShapeCall *call) {
    return loss_dims(call);
}

bool shape_cross_entropy(ShapeCall *call) {
    if (!loss_dims(call)) return false;
    shape_same_as(call, 1, shape_input(call, 0));
    return true;
}
