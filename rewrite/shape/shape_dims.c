// SPDX-License-Identifier: Apache-2.0
/* What dims and contents say of each other: counts, equality, what two shapes have in common; see
 * shape.h. */
#include "checked.h"
#include "shape.h"

bool shape_count(const ShapeOperand *operand, uint64_t *count) {
    if (!operand->has_rank) return false;
    uint64_t product = 1;
    bool zero = false;
    for (uint32_t i = 0; i < operand->rank; i++) {
        if (operand->dims[i].kind != SHAPE_KNOWN || operand->dims[i].value < 0) return false;
        uint64_t size = (uint64_t)operand->dims[i].value;
        if (size == 0)
            zero = true;
        else if (!checked_mul(product, size, &product) || product > INT64_MAX)
            return false;
    }
    *count = zero ? 0 : product;
    return true;
}

bool shape_num_same(ShapeNum a, ShapeNum b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case SHAPE_UNKNOWN: return false;
    case SHAPE_KNOWN: return a.value == b.value;
    case SHAPE_SYMBOL: return a.symbol == b.symbol;
    case SHAPE_REAL: return a.real == b.real;
    }
    return false;
}

static const ShapeNum *meet_nums(Arena *arena, const ShapeNum *a, const ShapeNum *b,
                                 uint32_t count) {
    uint32_t same = 0;
    while (same < count && (a == b || shape_num_same(a[same], b[same]))) same++;
    if (same == count) return a;
    ShapeNum *met = ARENA_ARRAY(arena, ShapeNum, count);
    for (uint32_t i = 0; i < count; i++)
        if (shape_num_same(a[i], b[i])) met[i] = a[i];
    return met;
}

ShapeOperand shape_meet(Arena *arena, const ShapeOperand *a, const ShapeOperand *b) {
    ShapeOperand met = {.present = true, .wrapped = a->wrapped && b->wrapped};
    if (a->dtype == b->dtype) met.dtype = a->dtype;
    if (!a->has_rank || !b->has_rank || a->rank != b->rank) return met;
    met.has_rank = true;
    met.rank = a->rank;
    met.dims = meet_nums(arena, a->dims, b->dims, a->rank);
    uint64_t count;
    if (a->items && b->items && met.dtype && shape_count(&met, &count) && count == a->item_count &&
        count == b->item_count) {
        met.items = meet_nums(arena, a->items, b->items, a->item_count);
        met.item_count = a->item_count;
    }
    return met;
}
