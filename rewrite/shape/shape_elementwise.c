// SPDX-License-Identifier: Apache-2.0
/* Elementwise operators: unary ones, those that broadcast, and casts. They also compute small
 * contents, because exporters spell shape arithmetic with them.
 *
 * Integer division truncates, as the definitions say; where an operator's result for negative
 * operands differs between readings of the definition, contents are unknown.
 */
#include <math.h>
#include <stddef.h>

#include "shape_calc.h"

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

static ShapeNum boolean(bool value) {
    return num_known(value);
}

/* ---- contents -------------------------------------------------------------------------------- */

static ShapeNum real_binary(int32_t variant, double a, double b) {
    switch (variant) {
    case SHAPE_ADD: return num_real(a + b);
    case SHAPE_SUB: return num_real(a - b);
    case SHAPE_MUL: return num_real(a * b);
    case SHAPE_DIV: return b != 0 ? num_real(a / b) : unknown;
    case SHAPE_MIN: return isnan(a) || isnan(b) ? unknown : num_real(a < b ? a : b);
    case SHAPE_MAX: return isnan(a) || isnan(b) ? unknown : num_real(a > b ? a : b);
    case SHAPE_EQUAL: return boolean(a == b);
    case SHAPE_LESS: return boolean(a < b);
    case SHAPE_LESS_EQUAL: return boolean(a <= b);
    case SHAPE_GREATER: return boolean(a > b);
    case SHAPE_GREATER_EQUAL: return boolean(a >= b);
    }
    return unknown;
}

static ShapeNum integer_binary(int32_t variant, int64_t a, int64_t b) {
    switch (variant) {
    case SHAPE_DIV: return b == 0 || (a == INT64_MIN && b == -1) ? unknown : num_known(a / b);
    case SHAPE_MOD: return a < 0 || b <= 0 ? unknown : num_known(a % b);
    case SHAPE_MIN: return num_known(a < b ? a : b);
    case SHAPE_MAX: return num_known(a > b ? a : b);
    case SHAPE_EQUAL: return boolean(a == b);
    case SHAPE_LESS: return boolean(a < b);
    case SHAPE_LESS_EQUAL: return boolean(a <= b);
    case SHAPE_GREATER: return boolean(a > b);
    case SHAPE_GREATER_EQUAL: return boolean(a >= b);
    case SHAPE_XOR: return boolean(a != b);
    }
    return unknown;
}

/* A symbol stands for a dimension: equal to itself, never negative. */
static ShapeNum symbol_binary(int32_t variant, ShapeNum a, ShapeNum b) {
    bool same = shape_num_same(a, b);
    bool negative =
        (a.kind == SHAPE_KNOWN && a.value < 0) || (b.kind == SHAPE_KNOWN && b.value < 0);
    switch (variant) {
    case SHAPE_DIV: return num_is(b, 1) ? a : unknown;
    case SHAPE_MIN: return same ? a : unknown;
    case SHAPE_MAX:
        if (a.kind == SHAPE_KNOWN && a.value <= 0) return b;
        return same || (b.kind == SHAPE_KNOWN && b.value <= 0) ? a : unknown;
    case SHAPE_EQUAL: return same ? boolean(true) : negative ? boolean(false) : unknown;
    }
    return unknown;
}

static ShapeNum logic_binary(int32_t variant, ShapeNum a, ShapeNum b) {
    int64_t decisive = variant == SHAPE_OR; /* false decides AND, true decides OR */
    if (num_is(a, decisive) || num_is(b, decisive)) return boolean(decisive);
    if (a.kind != SHAPE_KNOWN || b.kind != SHAPE_KNOWN) return unknown;
    return boolean(!decisive);
}

static ShapeNum binary(int32_t variant, ShapeNum a, ShapeNum b) {
    if (a.kind == SHAPE_REAL || b.kind == SHAPE_REAL) {
        bool both = a.kind == SHAPE_REAL && b.kind == SHAPE_REAL;
        return both ? real_binary(variant, a.real, b.real) : unknown;
    }
    switch (variant) {
    case SHAPE_ADD: return num_add(a, b);
    case SHAPE_SUB: return num_sub(a, b);
    case SHAPE_MUL: return num_mul(a, b);
    case SHAPE_AND:
    case SHAPE_OR: return logic_binary(variant, a, b);
    }
    if (a.kind == SHAPE_KNOWN && b.kind == SHAPE_KNOWN)
        return integer_binary(variant, a.value, b.value);
    if (a.kind == SHAPE_SYMBOL || b.kind == SHAPE_SYMBOL) return symbol_binary(variant, a, b);
    return unknown;
}

static ShapeNum unary(int32_t variant, ShapeNum a) {
    bool known = a.kind == SHAPE_KNOWN, real = a.kind == SHAPE_REAL;
    switch (variant) {
    case SHAPE_IDENTITY: return a;
    case SHAPE_NEG:
        if (real) return num_real(-a.real);
        return known ? num_sub(num_known(0), a) : unknown;
    case SHAPE_ABS:
        if (real) return num_real(fabs(a.real));
        return known && a.value < 0 ? num_sub(num_known(0), a) : a;
    case SHAPE_RELU:
        if (real) return a.real > 0 ? a : a.real <= 0 ? num_real(0) : unknown;
        return known && a.value < 0 ? num_known(0) : a;
    case SHAPE_NOT: return known ? boolean(!a.value) : unknown;
    case SHAPE_FLOOR: return real ? num_real(floor(a.real)) : unknown;
    case SHAPE_CEIL: return real ? num_real(ceil(a.real)) : unknown;
    }
    return unknown;
}

/* ---- one input ------------------------------------------------------------------------------- */

bool shape_unary(ShapeCall *call) {
    const ShapeOperand *input = shape_input(call, 0);
    shape_same_as(call, 0, input);
    if (call->output_count && input->wrapped) call->outputs[0].wrapped = true;
    if (!input->items || call->row->variant == SHAPE_PLAIN) return true;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, input->item_count);
    for (uint32_t i = 0; i < input->item_count; i++)
        items[i] = shape_fit(input->dtype, unary(call->row->variant, input->items[i]));
    shape_contents(call, 0, input->dtype, items, input->item_count);
    return true;
}

/* Matrices, or stacks of them. */
bool shape_trilu(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    if (call->strict && x && x->rank < 2) return shape_invalid(call, "rank %u", x->rank);
    return shape_unary(call);
}

/* Every output has input 0's shape. */
bool shape_same(ShapeCall *call) {
    for (uint32_t i = 0; i < call->output_count; i++) shape_same_as(call, i, shape_input(call, 0));
    return true;
}

/* The quantized tensor, its scale and its zero point. */
bool shape_dynamic_quantize(ShapeCall *call) {
    shape_same_as(call, 0, shape_input(call, 0));
    shape_scalar(call, 1);
    shape_scalar(call, 2);
    return true;
}

/* Bytes, and a number for each row: the last axis is 1 there. */
bool shape_quantize_rows(ShapeCall *call) {
    const ShapeOperand *x = shape_ranked(call, 0);
    shape_same_as(call, 0, shape_input(call, 0));
    if (!x) return true;
    if (x->rank < 1) return shape_invalid(call, "a scalar has no rows");
    for (uint32_t i = 1; i < call->output_count; i++) {
        ShapeNum *dims = shape_output(call, i, x->rank);
        if (!dims) return false;
        for (uint32_t k = 0; k < x->rank; k++) dims[k] = x->dims[k];
        dims[x->rank - 1] = num_known(1);
    }
    return true;
}

/* Each output has the shape of the input at its place. */
bool shape_same_each(ShapeCall *call) {
    for (uint32_t i = 0; i < call->output_count; i++) shape_same_as(call, i, shape_input(call, i));
    return true;
}

static ShapeNum cast_item(Dtype to, ShapeNum item) {
    bool to_float = to == DTYPE_FLOAT || to == DTYPE_DOUBLE;
    if (to == DTYPE_BOOL) {
        if (item.kind == SHAPE_KNOWN) return boolean(item.value != 0);
        return item.kind == SHAPE_REAL ? boolean(item.real != 0) : unknown;
    }
    if (item.kind == SHAPE_KNOWN && to_float) return num_real((double)item.value);
    /* beyond 2^53 neighboring integers are lost; truncation toward zero as in C */
    if (item.kind == SHAPE_REAL && !to_float)
        return fabs(item.real) < 9007199254740992.0 ? num_known((int64_t)item.real) : unknown;
    return item;
}

static void cast_contents(ShapeCall *call, Dtype to) {
    const ShapeOperand *input = shape_input(call, 0);
    if (!input->items || to <= DTYPE_UNDEFINED || to >= DTYPE_COUNT) return;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, input->item_count);
    for (uint32_t i = 0; i < input->item_count; i++)
        items[i] = shape_fit(to, cast_item(to, input->items[i]));
    shape_contents(call, 0, to, items, input->item_count);
}

bool shape_cast(ShapeCall *call) {
    const CastAttrs *attrs = call->attrs;
    shape_same_as(call, 0, shape_input(call, 0));
    if (attrs->to > 0 && attrs->to < DTYPE_COUNT) cast_contents(call, (Dtype)attrs->to);
    return true;
}

bool shape_cast_like(ShapeCall *call) {
    shape_same_as(call, 0, shape_input(call, 0));
    cast_contents(call, shape_input(call, 1)->dtype);
    return true;
}

/* ---- broadcasting ---------------------------------------------------------------------------- */

/* The item of `operand` that broadcasts to place `at` (row-major) of the output. */
static ShapeNum broadcast_item(const ShapeOperand *operand, const ShapeOperand *output,
                               uint32_t at) {
    uint32_t index = 0, stride = 1;
    for (uint32_t k = 0; k < operand->rank; k++) {
        uint32_t size = (uint32_t)operand->dims[operand->rank - 1 - k].value;
        uint32_t extent = (uint32_t)output->dims[output->rank - 1 - k].value;
        uint32_t place = at % extent;
        at /= extent;
        index += size == 1 ? 0 : place * stride;
        stride *= size;
    }
    return operand->items[index];
}

/* All present inputs into output 0; unknown as soon as one rank is. */
static bool broadcast_inputs(ShapeCall *call) {
    const ShapeOperand **operands =
        ARENA_ARRAY(call->arena, const ShapeOperand *, call->input_count);
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!call->inputs[i].present) continue;
        if (!call->inputs[i].has_rank) return true;
        operands[i] = &call->inputs[i];
    }
    ShapeDims result;
    if (!shape_broadcast_all(call, operands, call->input_count, &result)) return false;
    ShapeNum *dims = shape_output(call, 0, result.rank);
    if (!dims) return false;
    for (uint32_t i = 0; i < result.rank; i++) dims[i] = result.dims[i];
    return true;
}

static bool is_comparison(int32_t variant) {
    return variant >= SHAPE_EQUAL && variant <= SHAPE_GREATER_EQUAL;
}

static void broadcast_contents(ShapeCall *call) {
    uint32_t count;
    if (!call->output_count || !call->input_count || !shape_is_small(&call->outputs[0], &count))
        return;
    for (uint32_t i = 0; i < call->input_count; i++)
        if (!call->inputs[i].items || call->inputs[i].dtype != call->inputs[0].dtype) return;
    Dtype dtype = call->inputs[0].dtype,
          out = is_comparison(call->row->variant) ? DTYPE_BOOL : dtype;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, count);
    for (uint32_t i = 0; i < count; i++) {
        ShapeNum item = broadcast_item(&call->inputs[0], &call->outputs[0], i);
        for (uint32_t k = 1; k < call->input_count; k++) {
            ShapeNum other = broadcast_item(&call->inputs[k], &call->outputs[0], i);
            item = shape_fit(out, binary(call->row->variant, item, other));
        }
        items[i] = item;
    }
    shape_contents(call, 0, out, items, count);
}

bool shape_broadcast(ShapeCall *call) {
    if (!broadcast_inputs(call)) return false;
    if (call->row->variant != SHAPE_PLAIN) broadcast_contents(call);
    return true;
}

/* Before version 8 Max, Mean, Min and Sum did not broadcast. What is read all the same is taken as
 * it would be today; only who judges refuses it. */
bool shape_alike(ShapeCall *call) {
    const ShapeOperand *first = shape_ranked(call, 0);
    for (uint32_t i = 1; call->strict && first && i < call->input_count; i++) {
        const ShapeOperand *other = shape_ranked(call, i);
        if (!shape_want_rank(call, i, first->rank)) return false;
        for (uint32_t k = 0; other && k < first->rank; k++) {
            ShapeNum dim = first->dims[k];
            if (!shape_unify(call, &dim, other->dims[k])) return false;
        }
    }
    return shape_broadcast(call);
}

/* Before version 7 only B broadcasts, into A, at a place the attributes `broadcast` and `axis`
 * say: the result has A's shape. Contents are computed where no broadcasting is involved. */
bool shape_broadcast_left(ShapeCall *call) {
    const ShapeOperand *a = shape_input(call, 0), *b = shape_input(call, 1);
    shape_same_as(call, 0, a);
    bool alike = a->has_rank && b->has_rank && a->rank == b->rank;
    for (uint32_t i = 0; alike && i < a->rank; i++) alike = shape_num_same(a->dims[i], b->dims[i]);
    if (alike && call->input_count == 2) broadcast_contents(call);
    return true;
}

bool shape_mod(ShapeCall *call) {
    const ModAttrs *attrs = call->attrs;
    if (!broadcast_inputs(call)) return false;
    if (!attrs->fmod) broadcast_contents(call);
    return true;
}

/* Since opset 11, with the bounds as operands, each of which may be left out. */
bool shape_clip(ShapeCall *call) {
    const ShapeOperand *x = shape_input(call, 0), *low = shape_input(call, 1),
                       *high = shape_input(call, 2);
    shape_same_as(call, 0, x);
    if (!x->items) return true;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, x->item_count);
    for (uint32_t i = 0; i < x->item_count; i++) {
        items[i] = x->items[i];
        if (low->present) items[i] = binary(SHAPE_MAX, items[i], shape_single(low));
        if (high->present) items[i] = binary(SHAPE_MIN, items[i], shape_single(high));
    }
    shape_contents(call, 0, x->dtype, items, x->item_count);
    return true;
}

static ShapeNum where_item(ShapeNum condition, ShapeNum a, ShapeNum b) {
    if (condition.kind == SHAPE_KNOWN) return condition.value ? a : b;
    return shape_num_same(a, b) ? a : unknown;
}

bool shape_where(ShapeCall *call) {
    if (!broadcast_inputs(call)) return false;
    const ShapeOperand *condition = shape_input(call, 0), *a = shape_input(call, 1),
                       *b = shape_input(call, 2);
    uint32_t count;
    if (!condition->items || !a->items || !b->items || !call->output_count ||
        !shape_is_small(&call->outputs[0], &count))
        return true;
    const ShapeOperand *output = &call->outputs[0];
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, count);
    for (uint32_t i = 0; i < count; i++)
        items[i] = where_item(broadcast_item(condition, output, i), broadcast_item(a, output, i),
                              broadcast_item(b, output, i));
    shape_contents(call, 0, a->dtype, items, count);
    return true;
}

/* Expand: data broadcast with a shape that is given as contents. */
bool shape_expand(ShapeCall *call) {
    const ShapeOperand *data = shape_ranked(call, 0), *wanted = shape_input(call, 1);
    ShapeNum length = shape_length(wanted);
    if (call->strict && !shape_want_rank(call, 1, 1)) return false;
    if (length.kind != SHAPE_KNOWN || !data) return true;
    if (length.value > SHAPE_RANK_LIMIT)
        return shape_invalid(call, "the shape has %lld dimensions", (long long)length.value);
    uint32_t rank = (uint32_t)length.value;
    ShapeNum *target = ARENA_ARRAY(call->arena, ShapeNum, rank);
    for (uint32_t i = 0; i < rank; i++) target[i] = shape_item(wanted, i);
    const ShapeOperand shape = {.present = true, .has_rank = true, .rank = rank, .dims = target};
    const ShapeOperand *const both[] = {data, &shape};
    ShapeDims result;
    if (!shape_broadcast_all(call, both, 2, &result)) return false;
    ShapeNum *dims = shape_output(call, 0, result.rank);
    for (uint32_t i = 0; i < result.rank; i++) dims[i] = result.dims[i];
    uint32_t count;
    if (!data->items || !call->output_count || !shape_is_small(&call->outputs[0], &count))
        return true;
    ShapeNum *items = ARENA_ARRAY(call->arena, ShapeNum, count);
    for (uint32_t i = 0; i < count; i++) items[i] = broadcast_item(data, &call->outputs[0], i);
    shape_contents(call, 0, data->dtype, items, count);
    return true;
}
