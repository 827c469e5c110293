// SPDX-License-Identifier: Apache-2.0
/* Arithmetic on numbers that may be unknown, and reading and writing operands: see shape_calc.h. */
#include "shape_calc.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};

ShapeNum num_add(ShapeNum a, ShapeNum b) {
    int64_t sum;
    if (num_is(a, 0)) return b;
    if (num_is(b, 0)) return a;
    if (a.kind != SHAPE_KNOWN || b.kind != SHAPE_KNOWN) return unknown;
    return __builtin_add_overflow(a.value, b.value, &sum) ? unknown : num_known(sum);
}

ShapeNum num_sub(ShapeNum a, ShapeNum b) {
    int64_t difference;
    if (num_is(b, 0)) return a;
    if (a.kind == SHAPE_SYMBOL && shape_num_same(a, b)) return num_known(0);
    if (a.kind != SHAPE_KNOWN || b.kind != SHAPE_KNOWN) return unknown;
    return __builtin_sub_overflow(a.value, b.value, &difference) ? unknown : num_known(difference);
}

ShapeNum num_mul(ShapeNum a, ShapeNum b) {
    int64_t product;
    if (num_is(a, 1)) return b;
    if (num_is(b, 1)) return a;
    if (num_is(a, 0) || num_is(b, 0)) return num_known(0);
    if (a.kind != SHAPE_KNOWN || b.kind != SHAPE_KNOWN) return unknown;
    return __builtin_mul_overflow(a.value, b.value, &product) ? unknown : num_known(product);
}

ShapeNum num_floor_div(ShapeNum a, int64_t divisor) {
    if (divisor == 1) return a;
    if (a.kind != SHAPE_KNOWN || divisor <= 0) return unknown;
    int64_t quotient = a.value / divisor;
    return num_known(quotient - (a.value % divisor < 0));
}

ShapeNum num_ceil_div(ShapeNum a, int64_t divisor) {
    if (divisor == 1) return a;
    if (a.kind != SHAPE_KNOWN || divisor <= 0) return unknown;
    int64_t quotient = a.value / divisor;
    return num_known(quotient + (a.value % divisor > 0));
}

ShapeNum num_product(const ShapeNum *dims, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++)
        if (num_is(dims[i], 0)) return num_known(0);
    ShapeNum product = num_known(1);
    for (uint32_t i = first; i < end; i++) product = num_mul(product, dims[i]);
    return product;
}

bool shape_invalid(ShapeCall *call, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(call->reason, sizeof call->reason, format, args);
    va_end(args);
    return false;
}

const ShapeOperand *shape_input(const ShapeCall *call, uint32_t index) {
    static const ShapeOperand absent = {.present = false};
    return index < call->input_count ? &call->inputs[index] : &absent;
}

const ShapeOperand *shape_ranked(const ShapeCall *call, uint32_t index) {
    const ShapeOperand *input = shape_input(call, index);
    return input->present && input->has_rank ? input : NULL;
}

ShapeNum *shape_output(ShapeCall *call, uint32_t index, uint64_t rank) {
    if (rank > SHAPE_RANK_LIMIT) {
        shape_invalid(call, "output %u would have rank %llu", index, (unsigned long long)rank);
        return NULL;
    }
    ShapeNum *dims = ARENA_ARRAY(call->arena, ShapeNum, rank);
    if (index >= call->output_count) return dims;
    ShapeOperand *output = &call->outputs[index];
    output->has_rank = true;
    output->rank = (uint32_t)rank;
    output->dims = dims;
    return dims;
}

void shape_scalar(ShapeCall *call, uint32_t index) {
    shape_output(call, index, 0);
}

void shape_same_as(ShapeCall *call, uint32_t index, const ShapeOperand *from) {
    if (index >= call->output_count || !from || !from->present) return;
    ShapeOperand *output = &call->outputs[index];
    output->has_rank = from->has_rank;
    output->rank = from->rank;
    output->dims = from->dims;
}

void shape_contents(ShapeCall *call, uint32_t index, Dtype dtype, const ShapeNum *items,
                    uint32_t count) {
    if (index >= call->output_count || dtype == DTYPE_UNDEFINED) return;
    ShapeOperand *output = &call->outputs[index];
    output->dtype = dtype;
    output->items = items;
    output->item_count = count;
}

bool shape_axis(ShapeCall *call, int64_t axis, uint32_t rank, uint32_t *result) {
    int64_t wrapped = axis < 0 ? axis + (int64_t)rank : axis;
    if (wrapped < 0 || wrapped >= (int64_t)rank)
        return shape_invalid(call, "axis %lld is out of range for rank %u", (long long)axis, rank);
    *result = (uint32_t)wrapped;
    return true;
}

bool shape_unify(ShapeCall *call, ShapeNum *into, ShapeNum other) {
    if (into->kind == SHAPE_KNOWN && other.kind == SHAPE_KNOWN && into->value != other.value)
        return shape_invalid(call, "dimensions %lld and %lld should be equal",
                             (long long)into->value, (long long)other.value);
    bool better =
        into->kind == SHAPE_UNKNOWN || (into->kind == SHAPE_SYMBOL && other.kind == SHAPE_KNOWN);
    if (better) *into = other;
    return true;
}

/* A dim that is not known may be 1 or what the other says: where that is known and not 1, it wins;
 * where both are names or unknown, only the same name tells. */
bool shape_broadcast_dim(ShapeCall *call, ShapeNum *into, ShapeNum other) {
    if (num_is(other, 1) || shape_num_same(*into, other)) return true;
    if (num_is(*into, 1)) {
        *into = other;
        return true;
    }
    if (into->kind == SHAPE_KNOWN && other.kind == SHAPE_KNOWN)
        return shape_invalid(call, "dimensions %lld and %lld do not broadcast",
                             (long long)into->value, (long long)other.value);
    if (other.kind == SHAPE_KNOWN)
        *into = other;
    else if (into->kind != SHAPE_KNOWN)
        *into = unknown;
    return true;
}

bool shape_broadcast_all(ShapeCall *call, const ShapeOperand *const *operands, uint32_t count,
                         ShapeDims *result) {
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++)
        if (operands[i] && operands[i]->rank > rank) rank = operands[i]->rank;
    ShapeNum *dims = ARENA_ARRAY(call->arena, ShapeNum, rank);
    for (uint32_t i = 0; i < rank; i++) dims[i] = num_known(1);
    for (uint32_t i = 0; i < count; i++) {
        if (!operands[i]) continue;
        uint32_t shift = rank - operands[i]->rank;
        for (uint32_t k = 0; k < operands[i]->rank; k++)
            if (!shape_broadcast_dim(call, &dims[shift + k], operands[i]->dims[k])) return false;
    }
    *result = (ShapeDims){rank, dims};
    return true;
}

bool shape_want_rank(ShapeCall *call, uint32_t index, uint32_t rank) {
    const ShapeOperand *input = shape_ranked(call, index);
    if (input && input->rank != rank)
        return shape_invalid(call, "input %u has rank %u, not %u", index, input->rank, rank);
    return true;
}

bool shape_known_ints(const ShapeCall *call, const ShapeOperand *operand, AttrInts *ints) {
    if (!operand->present || !operand->items) return false;
    for (uint32_t i = 0; i < operand->item_count; i++)
        if (operand->items[i].kind != SHAPE_KNOWN) return false;
    int64_t *values = ARENA_ARRAY(call->arena, int64_t, operand->item_count);
    for (uint32_t i = 0; i < operand->item_count; i++) values[i] = operand->items[i].value;
    *ints = (AttrInts){true, operand->item_count, values};
    return true;
}

ShapeNum shape_single(const ShapeOperand *operand) {
    if (!operand->present || !operand->items || operand->item_count != 1) return unknown;
    return operand->items[0];
}

ShapeNum shape_length(const ShapeOperand *operand) {
    if (!operand->present || !operand->has_rank || operand->rank != 1) return unknown;
    return operand->dims[0];
}

ShapeNum shape_item(const ShapeOperand *operand, uint32_t i) {
    return operand->items && i < operand->item_count ? operand->items[i] : unknown;
}

bool shape_is_small(const ShapeOperand *operand, uint32_t *count) {
    uint64_t elements;
    if (!shape_count(operand, &elements) || elements > SHAPE_ITEM_LIMIT) return false;
    *count = (uint32_t)elements;
    return true;
}

static bool integer_fits(Dtype dtype, int64_t value) {
    if (dtype == DTYPE_BOOL) return value == 0 || value == 1;
    bool is_signed = dtype == DTYPE_INT64 || dtype == DTYPE_INT32 || dtype == DTYPE_INT16 ||
                     dtype == DTYPE_INT8 || dtype == DTYPE_INT4 || dtype == DTYPE_INT2;
    unsigned bits = dtype_bits(dtype);
    if (is_signed) {
        if (bits >= 64) return true;
        int64_t limit = (int64_t)1 << (bits - 1);
        return value >= -limit && value < limit;
    }
    return value >= 0 && (bits >= 63 || value < ((int64_t)1 << bits));
}

ShapeNum shape_fit(Dtype dtype, ShapeNum num) {
    bool integer = dtype_is_integer(dtype) || dtype == DTYPE_BOOL;
    switch (num.kind) {
    case SHAPE_UNKNOWN: return unknown;
    case SHAPE_SYMBOL: return dtype == DTYPE_INT64 || dtype == DTYPE_INT32 ? num : unknown;
    case SHAPE_KNOWN: return integer && integer_fits(dtype, num.value) ? num : unknown;
    case SHAPE_REAL:
        if (dtype == DTYPE_DOUBLE) return num;
        if (dtype == DTYPE_FLOAT) return num_real((double)(float)num.real);
        return unknown;
    }
    return unknown;
}
