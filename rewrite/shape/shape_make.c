// SPDX-License-Identifier: Apache-2.0
/* Operators that make tensors: constants, shapes of others, ranges, random numbers, windows.
 * These are where contents come from. */
#include <math.h>

#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

static void vector_of(ShapeCall *call, uint32_t count) {
    ShapeNum *dims = shape_output(call, 0, 1);
    dims[0] = num_known(count);
}

static void ints_contents(ShapeCall *call, const int64_t *values, uint32_t count) {
    if (count > SHAPE_ITEM_LIMIT) return;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, count);
    for (uint32_t i = 0; i < count; i++) items[i] = num_known(values[i]);
    shape_contents(call, 0, DTYPE_INT64, items, count);
}

static void floats_contents(ShapeCall *call, const AttrFloats *floats) {
    if (floats->count > SHAPE_ITEM_LIMIT) return;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, floats->count);
    for (uint32_t i = 0; i < floats->count; i++) items[i] = num_real((double)floats->items[i]);
    shape_contents(call, 0, DTYPE_FLOAT, items, floats->count);
}

bool shape_constant(ShapeCall *call) {
    const ConstantAttrs *attrs = call->attrs;
    if (attrs->value.shape) {
        shape_same_as(call, 0, attrs->value.shape);
        shape_contents(call, 0, attrs->value.shape->dtype, attrs->value.shape->items,
                       attrs->value.shape->item_count);
    } else if (attrs->value_ints.present) {
        vector_of(call, attrs->value_ints.count);
        ints_contents(call, attrs->value_ints.items, attrs->value_ints.count);
    } else if (attrs->value_floats.present) {
        vector_of(call, attrs->value_floats.count);
        floats_contents(call, &attrs->value_floats);
    } else if (attrs->value_int != ATTR_ABSENT) {
        shape_scalar(call, 0);
        ints_contents(call, &attrs->value_int, 1);
    } else if (attrs->value_float.present) {
        shape_scalar(call, 0);
        floats_contents(call, &attrs->value_float);
    } else if (attrs->value_strings.present) {
        vector_of(call, attrs->value_strings.count);
    } else if (attrs->value_string.present) {
        shape_scalar(call, 0);
    } else if (attrs->sparse_value.shape) {
        shape_same_as(call, 0, attrs->sparse_value.shape);
    }
    return true;
}

/* A shape given as contents of an operand; only the rank where just its length is known. */
static bool shape_from(ShapeCall *call, const ShapeOperand *wanted) {
    ShapeNum length = shape_length(wanted);
    if (wanted->has_rank && wanted->rank != 1)
        return shape_invalid(call, "the shape has rank %u", wanted->rank);
    if (length.kind != SHAPE_KNOWN) return true;
    ShapeNum *dims = shape_output(call, 0, (uint64_t)length.value);
    if (!dims) return false;
    for (uint32_t i = 0; i < (uint32_t)length.value; i++) dims[i] = shape_item(wanted, i);
    return true;
}

bool shape_constant_of_shape(ShapeCall *call) {
    const ConstantAttrs *attrs = call->attrs;
    uint32_t count;
    if (!shape_from(call, shape_input(call, 0))) return false;
    if (!call->output_count || !shape_is_small(&call->outputs[0], &count)) return true;
    Dtype dtype = attrs->value.shape ? attrs->value.shape->dtype : DTYPE_FLOAT;
    ShapeNum fill = attrs->value.shape ? shape_single(attrs->value.shape) : num_real(0);
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, count);
    for (uint32_t i = 0; i < count; i++) items[i] = fill;
    if (fill.kind != SHAPE_UNKNOWN) shape_contents(call, 0, dtype, items, count);
    return true;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* The dims [start, end) as contents; since 15 with bounds, which clamp. */
bool shape_shape(ShapeCall *call) {
    const ShapeAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    ShapeNum *dims = shape_output(call, 0, 1);
    if (!x) return true;
    int64_t rank = x->rank;
    int64_t start = clamp(attrs->start < 0 ? attrs->start + rank : attrs->start, 0, rank);
    int64_t end = attrs->end == ATTR_ABSENT ? rank : attrs->end;
    end = clamp(end < 0 ? end + rank : end, 0, rank);
    uint32_t count = end > start ? (uint32_t)(end - start) : 0;
    dims[0] = num_known(count);
    const ShapeNum *items = count ? x->dims + start : ARENA_NEW(call->arena, ShapeNum);
    shape_contents(call, 0, DTYPE_INT64, items, count);
    return true;
}

bool shape_size(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    shape_scalar(call, 0);
    if (!x) return true;
    ShapeNum *items = ARENA_NEW(call->arena, ShapeNum);
    *items = num_product(x->dims, 0, x->rank);
    shape_contents(call, 0, DTYPE_INT64, items, 1);
    return true;
}

/* ---- Range ----------------------------------------------------------------------------------- */

static ShapeNum range_count(ShapeNum start, ShapeNum limit, ShapeNum delta) {
    if (num_is(start, 0) && num_is(delta, 1) && limit.kind == SHAPE_SYMBOL) return limit;
    if (start.kind == SHAPE_REAL && limit.kind == SHAPE_REAL && delta.kind == SHAPE_REAL) {
        double count = ceil((limit.real - start.real) / delta.real);
        if (!(count < 9007199254740992.0)) return unknown; /* NaN too */
        return num_known(count < 0 ? 0 : (int64_t)count);
    }
    ShapeNum span = num_sub(limit, start);
    if (delta.kind != SHAPE_KNOWN || span.kind != SHAPE_KNOWN || delta.value == 0) return unknown;
    if (delta.value < 0) {
        span = num_sub(num_known(0), span);
        delta = num_sub(num_known(0), delta);
        if (span.kind != SHAPE_KNOWN || delta.kind != SHAPE_KNOWN) return unknown;
    }
    ShapeNum count = num_ceil_div(span, delta.value);
    return count.value < 0 ? num_known(0) : count;
}

bool shape_range(ShapeCall *call) {
    const ShapeOperand *first = shape_input(call, 0);
    ShapeNum start = shape_single(first), delta = shape_single(shape_input(call, 2));
    ShapeNum count = range_count(start, shape_single(shape_input(call, 1)), delta);
    ShapeNum *dims = shape_output(call, 0, 1);
    dims[0] = count;
    if (num_is(delta, 0)) return shape_invalid(call, "delta is 0");
    if (count.kind != SHAPE_KNOWN || count.value > SHAPE_ITEM_LIMIT || start.kind == SHAPE_REAL)
        return true;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, (size_t)count.value);
    for (int64_t i = 0; i < count.value; i++, start = num_add(start, delta)) items[i] = start;
    shape_contents(call, 0, first->dtype, items, (uint32_t)count.value);
    return true;
}

/* ---- random numbers -------------------------------------------------------------------------- */

bool shape_random(ShapeCall *call) {
    const RandomAttrs *attrs = call->attrs;
    if (!attrs->shape.present) return shape_invalid(call, "shape is missing");
    ShapeNum *dims = shape_output(call, 0, attrs->shape.count);
    if (!dims) return false;
    for (uint32_t i = 0; i < attrs->shape.count; i++) dims[i] = num_known(attrs->shape.items[i]);
    return true;
}

bool shape_multinomial(ShapeCall *call) {
    const RandomAttrs *attrs = call->attrs;
    const ShapeOperand *x = shape_ranked(call, 0);
    if (!shape_want_rank(call, 0, 2)) return false;
    ShapeNum *dims = shape_output(call, 0, 2);
    if (x) dims[0] = x->dims[0];
    dims[1] = num_known(attrs->sample_size);
    return true;
}

bool shape_eye_like(ShapeCall *call) {
    if (!shape_want_rank(call, 0, 2)) return false;
    shape_same_as(call, 0, shape_input(call, 0));
    return true;
}

/* Hann, Hamming, Blackman: as long as the scalar input says. */
bool shape_window_function(ShapeCall *call) {
    ShapeNum *dims = shape_output(call, 0, 1);
    dims[0] = shape_single(shape_input(call, 0));
    return true;
}

bool shape_mel_weights(ShapeCall *call) {
    ShapeNum bins = shape_single(shape_input(call, 0)), length = shape_single(shape_input(call, 1));
    ShapeNum *dims = shape_output(call, 0, 2);
    dims[0] = num_floor_div(length, 2);
    if (dims[0].kind == SHAPE_KNOWN) dims[0] = num_add(dims[0], num_known(1));
    dims[1] = bins;
    return true;
}
