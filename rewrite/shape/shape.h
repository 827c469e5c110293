// SPDX-License-Identifier: Apache-2.0
/* Shapes, computed in one place: one function per operator family on plain data.
 *
 * A shape function takes attributes (a plain struct), input shapes and, where they are known, the
 * contents of small tensors, and gives output shapes and contents; so Shape, Gather, Concat,
 * Reshape chains resolve. infer-shapes calls it with symbols, a runtime with numbers. Nothing here
 * knows graphs or models. SHAPE rows of operators/ say which function serves which operator.
 *
 * What is not known stays unknown: no function ever guesses. Numbers come from files, so all
 * arithmetic is checked, and what no valid model can hold gives "invalid: reason", never a crash.
 */
#ifndef DEMI_SHAPE_H
#define DEMI_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "attr_layout.h"
#include "dtype.h"
#include "op_id.h"

enum {
    SHAPE_RANK_LIMIT = 1024, /* shapes of higher rank are invalid: bounds what ranks can grow to */
    SHAPE_ITEM_LIMIT = 1024, /* contents of tensors with more elements are not tracked */
};

typedef enum ShapeNumKind {
    SHAPE_UNKNOWN,
    SHAPE_KNOWN,  /* value */
    SHAPE_SYMBOL, /* symbol: a dimension known by name, so at least 0 */
    SHAPE_REAL,   /* real; in contents of floating-point tensors only */
} ShapeNumKind;

/* A dimension, or one element of a tensor's contents (bools are 0 and 1). */
typedef struct ShapeNum {
    ShapeNumKind kind;
    union {
        int64_t value;
        uint64_t symbol; /* the caller's number for a name: equal numbers are equal dimensions */
        double real;
    };
} ShapeNum;

/* What is known of one input or output. For a sequence or optional: of each of its tensors. */
typedef struct ShapeOperand {
    bool present; /* false: an omitted operand */
    bool wrapped; /* a sequence or optional */
    bool has_rank;
    Dtype dtype; /* element type, UNDEFINED where unknown; contents need it */
    uint32_t rank;
    const ShapeNum *dims;  /* [rank] where has_rank; never negative, never REAL */
    const ShapeNum *items; /* [item_count] in row-major order, or NULL: contents unknown. Needs
                              has_rank and known dims, whose product item_count is */
    uint32_t item_count;
} ShapeOperand;

/* ---- functions ------------------------------------------------------------------------------- */

typedef struct ShapeRow ShapeRow;

typedef struct ShapeCall {
    Arena *arena;        /* outputs go here; they may also point into inputs and attributes */
    const ShapeRow *row; /* set by shape_infer */
    const void *attrs;   /* the row's struct */
    const ShapeOperand *inputs; /* [input_count] */
    ShapeOperand *outputs;      /* [output_count]; `present` is the caller's, the rest written */
    uint32_t input_count, output_count;
    bool strict;      /* what the definition forbids and implementations take all the same (an axis
                         behind the last, a scalar for a list of one) is invalid, too */
    char reason[160]; /* why it is invalid, where shape_infer returned false */
} ShapeCall;

typedef bool (*ShapeFunction)(ShapeCall *call);

/* One operator from version `since` on, until its next row. */
struct ShapeRow {
    int32_t since;
    int32_t variant; /* what the function distinguishes operators by, where it serves several */
    ShapeFunction function;
    const AttrLayout *layout;
};

/* The row in force at `opset`; NULL where the operator is not known or is newer. The domain is ""
 * for ai.onnx. */
const ShapeRow *shape_find(const char *domain, const char *name, int64_t opset);

/* What follows from the operator alone: output 0 has the shape of input 0; or that of all inputs
 * broadcast to each other. */
bool shape_row_keeps(const ShapeRow *row);
bool shape_row_broadcasts(const ShapeRow *row);

/* All rows of an operator, *count of them, sorted by since. */
const ShapeRow *shape_rows(OpId op, size_t *count);

/* Computes outputs from inputs. True: outputs are filled, unknown where undecidable. False: no
 * valid model has these inputs; call->reason says why, and outputs are unknown. */
bool shape_infer(const ShapeRow *row, ShapeCall *call);

/* The number of elements; false where a dim is not known or the product passes 2^63 - 1. */
bool shape_count(const ShapeOperand *operand, uint64_t *count);

/* True where both are known and equal, or the same symbol. */
bool shape_num_same(ShapeNum a, ShapeNum b);

/* What holds of both a and b: equal dims stay, others become unknown; contents likewise. For
 * values that come from one of two places. The result may share a's and b's arrays. */
ShapeOperand shape_meet(Arena *arena, const ShapeOperand *a, const ShapeOperand *b);

#endif
