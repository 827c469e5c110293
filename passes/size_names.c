// SPDX-License-Identifier: Apache-2.0
/* Names of sizes that have none; see size_names.h. */
#include "size_names.h"

enum { STEP = 2 };

static bool is_name(ShapeNum num) {
    return num.kind == SHAPE_SYMBOL && num.symbol % STEP == SIZE_NAME_FIRST;
}

void size_names_give(Arena *arena, ShapeOperand *shape, uint64_t *next) {
    ShapeNum *dims = NULL;
    if (shape->wrapped || !shape->has_rank) return;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i].kind != SHAPE_UNKNOWN) continue;
        if (!dims) dims = arena_copy(arena, shape->dims, shape->rank * sizeof *dims);
        dims[i] = (ShapeNum){.kind = SHAPE_SYMBOL, .symbol = *next};
        *next += STEP;
    }
    if (dims) shape->dims = dims;
}

const ShapeOperand *size_names_drop(Arena *arena, const ShapeOperand *shape) {
    uint32_t count = 0;
    for (uint32_t i = 0; shape->has_rank && i < shape->rank; i++) count += is_name(shape->dims[i]);
    if (!count) return shape;
    ShapeOperand *plain = arena_copy(arena, shape, sizeof *shape);
    ShapeNum *dims = arena_copy(arena, shape->dims, shape->rank * sizeof *dims);
    for (uint32_t i = 0; i < shape->rank; i++)
        if (is_name(dims[i])) dims[i] = (ShapeNum){.kind = SHAPE_UNKNOWN};
    plain->dims = dims;
    return plain;
}
