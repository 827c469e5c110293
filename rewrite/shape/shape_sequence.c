// SPDX-License-Identifier: Apache-2.0
/* Sequences and optionals. The operand of a sequence says what all its tensors have in common, so
 * putting in meets, taking out copies. Strings, which only ever change their last axis, are here
 * too. */
#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

static void wrap(ShapeCall *call, uint32_t index) {
    if (index < call->output_count) call->outputs[index].wrapped = true;
}

static void meet_inputs(ShapeCall *call, uint32_t first, uint32_t end) {
    ShapeOperand met = *shape_input(call, first);
    for (uint32_t i = first + 1; i < end; i++)
        met = shape_meet(call->arena, &met, shape_input(call, i));
    shape_same_as(call, 0, &met);
    wrap(call, 0);
}

bool shape_sequence_construct(ShapeCall *call) {
    meet_inputs(call, 0, call->input_count);
    return true;
}

/* An empty sequence has tensors of no shape: nothing is known of later ones. */
bool shape_sequence_empty(ShapeCall *call) {
    wrap(call, 0);
    return true;
}

bool shape_sequence_insert(ShapeCall *call) {
    meet_inputs(call, 0, 2);
    return true;
}

/* SequenceErase, Optional: what input 0 holds, still or newly wrapped. */
bool shape_sequence_same(ShapeCall *call) {
    shape_same_as(call, 0, shape_input(call, 0));
    wrap(call, 0);
    return true;
}

/* SequenceAt, OptionalGetElement. The element of an optional may be a sequence itself; the type
 * says so, the shape is the same. */
bool shape_sequence_at(ShapeCall *call) {
    shape_same_as(call, 0, shape_input(call, 0));
    return true;
}

bool shape_to_scalar(ShapeCall *call) {
    shape_scalar(call, 0);
    return true;
}

/* As many tensors as the sequence has are joined: that axis is unknown. */
bool shape_concat_from_sequence(ShapeCall *call) {
    const JoinAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    uint32_t axis;
    if (attrs->axis == ATTR_ABSENT) return shape_invalid(call, "axis is missing");
    if (call->strict && attrs->new_axis != 0 && attrs->new_axis != 1)
        return shape_invalid(call, "new_axis is %lld", (long long)attrs->new_axis);
    if (!x) return true;
    uint32_t rank = x->rank + (attrs->new_axis ? 1 : 0);
    if (!shape_axis(call, attrs->axis, rank, &axis)) return false;
    ShapeNum *dims = shape_output(call, 0, rank);
    if (!dims) return false;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t from = attrs->new_axis && i > axis ? i - 1 : i;
        dims[i] = i == axis ? unknown : x->dims[from];
    }
    return true;
}

/* The size along the axis that all parts share: with a scalar only where it divides the whole. */
static ShapeNum part_size(const ShapeOperand *split, ShapeNum whole) {
    if (!split->present) return num_known(1);
    ShapeNum size = shape_item(split, 0);
    if (!split->items || size.kind != SHAPE_KNOWN) return unknown;
    for (uint32_t i = 1; i < split->item_count; i++)
        if (!shape_num_same(size, split->items[i])) return unknown;
    if (split->rank == 1) return size;
    bool even = whole.kind == SHAPE_KNOWN && size.value > 0 && whole.value % size.value == 0;
    return even ? size : unknown;
}

/* Sizes of parts that are known make up the whole. */
static bool parts_fit(ShapeCall *call, const ShapeOperand *split, ShapeNum whole) {
    if (!split->present || !split->has_rank || split->rank != 1 || !split->items) return true;
    ShapeNum sum = num_known(0);
    for (uint32_t i = 0; i < split->item_count; i++) sum = num_add(sum, split->items[i]);
    if (sum.kind != SHAPE_KNOWN || whole.kind != SHAPE_KNOWN || sum.value == whole.value)
        return true;
    return shape_invalid(call, "parts of %lld in all, of %lld", (long long)sum.value,
                         (long long)whole.value);
}

bool shape_split_to_sequence(ShapeCall *call) {
    const JoinAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0), *split = shape_input(call, 1);
    uint32_t axis, at = 0;
    wrap(call, 0);
    if (!x) return true;
    if (!shape_axis(call, attrs->axis, x->rank, &axis)) return false;
    if (call->strict && !parts_fit(call, split, x->dims[axis])) return false;
    bool drop = !split->present && !attrs->keepdims;
    ShapeNum *dims = shape_output(call, 0, x->rank - (drop ? 1 : 0));
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i == axis && drop) continue;
        dims[at++] = i == axis ? part_size(split, x->dims[i]) : x->dims[i];
    }
    return true;
}

/* Nothing is known, and nothing can be: data-dependent rank, maps, or subgraphs that callers
 * handle themselves. */
bool shape_unknown(ShapeCall *call) {
    (void)call;
    return true;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* [C] or [1, C]; stop words are removed. */
bool shape_string_normalizer(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!x) return true;
    if (x->rank != 1 && x->rank != 2) return shape_invalid(call, "rank %u", x->rank);
    ShapeNum one = num_known(1);
    if (call->strict && x->rank == 2 && !shape_unify(call, &one, x->dims[0])) return false;
    if (call->strict && num_is(x->dims[x->rank - 1], 0)) return shape_invalid(call, "no texts");
    ShapeNum *dims = shape_output(call, 0, x->rank);
    if (x->rank == 2) dims[0] = num_known(1);
    return true;
}

bool shape_string_split(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    shape_same_as(call, 1, shape_input(call, 0));
    if (!x) return true;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)x->rank + 1);
    for (uint32_t i = 0; dims && i < x->rank; i++) dims[i] = x->dims[i];
    return dims != NULL;
}

/* [C] to [n], [N, C] to [N, n] with n one more than the largest index */
bool shape_tf_idf(ShapeCall *call) {
    const TfIdfAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    int64_t largest = -1;
    for (uint32_t i = 0; i < attrs->indexes.count; i++)
        if (attrs->indexes.items[i] > largest) largest = attrs->indexes.items[i];
    if (!x) return true;
    if (x->rank != 1 && x->rank != 2) return shape_invalid(call, "rank %u", x->rank);
    ShapeNum *dims = shape_output(call, 0, x->rank);
    if (x->rank == 2) dims[0] = x->dims[0];
    dims[x->rank - 1] = num_add(num_known(largest), num_known(1));
    return true;
}

/* (height, width, channels) of a picture that is yet to be read */
bool shape_image_decoder(ShapeCall *call) {
    shape_output(call, 0, 3);
    return !call->strict || shape_want_rank(call, 0, 1);
}
