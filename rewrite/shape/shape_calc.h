// SPDX-License-Identifier: Apache-2.0
/* What the shape functions are written with: numbers that may be unknown, operands, outputs.
 * Internal to this folder.
 *
 * Arithmetic on ShapeNum never fails: what can't be told, or does not fit 64 bits, is unknown. A
 * symbol survives only where the result is the very same number (x + 0, x * 1, x / 1).
 */
#ifndef DEMI_SHAPE_CALC_H
#define DEMI_SHAPE_CALC_H

#include "shape.h"
#include "op_attrs.h"

#define OPERATOR(domain, name, ...)             __VA_ARGS__
#define SHAPE(since, function, layout, variant) bool shape_##function(ShapeCall *call);
#include "operators.def"

/* Variants: what one function distinguishes operators by. */
typedef enum ShapeVariant {
    SHAPE_PLAIN,
    /* elementwise: how contents are computed */
    SHAPE_ADD,
    SHAPE_SUB,
    SHAPE_MUL,
    SHAPE_DIV,
    SHAPE_MOD,
    SHAPE_MIN,
    SHAPE_MAX,
    SHAPE_EQUAL,
    SHAPE_LESS,
    SHAPE_LESS_EQUAL,
    SHAPE_GREATER,
    SHAPE_GREATER_EQUAL,
    SHAPE_AND,
    SHAPE_OR,
    SHAPE_XOR,
    SHAPE_NEG,
    SHAPE_ABS,
    SHAPE_NOT,
    SHAPE_FLOOR,
    SHAPE_CEIL,
    SHAPE_RELU,
    SHAPE_IDENTITY,
    /* where axes, sizes and the like come from */
    SHAPE_BY_ATTR,
    SHAPE_BY_INPUT,
    /* windows: which inputs hold data and weights */
    SHAPE_INPUTS_0_1,
    SHAPE_INPUTS_0_3,
    /* optimizers: how many groups of tensors come out */
    SHAPE_TWO_GROUPS,
    SHAPE_THREE_GROUPS,
} ShapeVariant;

static inline ShapeNum num_known(int64_t value) {
    return (ShapeNum){.kind = SHAPE_KNOWN, .value = value};
}
static inline ShapeNum num_real(double real) {
    return (ShapeNum){.kind = SHAPE_REAL, .real = real};
}
static inline bool num_is(ShapeNum num, int64_t value) {
    return num.kind == SHAPE_KNOWN && num.value == value;
}

ShapeNum num_add(ShapeNum a, ShapeNum b);
ShapeNum num_sub(ShapeNum a, ShapeNum b);
ShapeNum num_mul(ShapeNum a, ShapeNum b);
/* Rounded toward minus infinity / plus infinity; unknown where the divisor is not positive. */
ShapeNum num_floor_div(ShapeNum a, int64_t divisor);
ShapeNum num_ceil_div(ShapeNum a, int64_t divisor);
/* Product of dims [first, end). */
ShapeNum num_product(const ShapeNum *dims, uint32_t first, uint32_t end);

/* Fills call->reason; returns false. */
bool shape_invalid(ShapeCall *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The input, or an absent one where there is none. Never NULL. */
const ShapeOperand *shape_input(const ShapeCall *call, uint32_t index);
/* The same, in the shape's eyes: NULL where it is absent or its rank is unknown. */
const ShapeOperand *shape_ranked(const ShapeCall *call, uint32_t index);

/* Gives output `index` a rank, all dims unknown, and returns them to be filled. Where the call has
 * no such output the dims go nowhere. NULL (reason set) above SHAPE_RANK_LIMIT. */
ShapeNum *shape_output(ShapeCall *call, uint32_t index, uint64_t rank);
/* Output `index` is a scalar. */
void shape_scalar(ShapeCall *call, uint32_t index);
/* Output `index` has the shape of `from`; contents and dtype are not copied. */
void shape_same_as(ShapeCall *call, uint32_t index, const ShapeOperand *from);
/* Contents of output `index`, whose dims are set; dropped where their number does not fit. */
void shape_contents(ShapeCall *call, uint32_t index, Dtype dtype, const ShapeNum *items,
                    uint32_t count);

/* axis in [-rank, rank) to [0, rank). */
bool shape_axis(ShapeCall *call, int64_t axis, uint32_t rank, uint32_t *result);

/* One dim from two sources that must agree; invalid where both are known and differ. */
bool shape_unify(ShapeCall *call, ShapeNum *into, ShapeNum other);
/* One dim broadcast with another. */
bool shape_broadcast_dim(ShapeCall *call, ShapeNum *into, ShapeNum other);
/* Broadcasts all operands given, NULLs left out, into a rank and dims in the arena. */
typedef struct ShapeDims {
    uint32_t rank;
    ShapeNum *dims;
} ShapeDims;
bool shape_broadcast_all(ShapeCall *call, const ShapeOperand *const *operands, uint32_t count,
                         ShapeDims *result);

/* Requires that the input, where its rank is known, has it. */
bool shape_want_rank(ShapeCall *call, uint32_t index, uint32_t rank);

/* The contents of an integer operand where each is known; false where one is not. */
bool shape_known_ints(const ShapeCall *call, const ShapeOperand *operand, AttrInts *ints);
/* The only item of a scalar (or one-element tensor): unknown where it is not known. */
ShapeNum shape_single(const ShapeOperand *operand);
/* How many elements a 1-D operand has; unknown where not known. */
ShapeNum shape_length(const ShapeOperand *operand);
/* Item i, or unknown where contents are not known. */
ShapeNum shape_item(const ShapeOperand *operand, uint32_t i);

/* Number of elements known and small enough for contents. */
bool shape_is_small(const ShapeOperand *operand, uint32_t *count);

/* What an element of this dtype can hold: num itself, or unknown. Reals are rounded to float. */
ShapeNum shape_fit(Dtype dtype, ShapeNum num);

#endif
