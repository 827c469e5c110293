// SPDX-License-Identifier: Apache-2.0
/* What kernels of move.cu take; C and C++. Sizes are in elements. */
#ifndef DEMI_MOVE_ARGS_H
#define DEMI_MOVE_ARGS_H

#include <stdint.h>

/* `rows` runs of `width` elements, so far apart on both sides. */
typedef struct RowsArgs {
    const void *x;
    void *y;
    int64_t rows, width, x_pitch, y_pitch;
} RowsArgs;

/* Several of them in one launch, by blockIdx.y: operands of Concat, results of Split. */
enum { ROWS_PARTS = 8 };
typedef struct PartsArgs {
    RowsArgs parts[ROWS_PARTS];
} PartsArgs;

/* y (batches, columns, rows) of x (batches, rows, columns). */
typedef struct TransposeArgs {
    const void *x;
    void *y;
    int64_t batches, rows, columns;
} TransposeArgs;

enum { PAD_RANK = 8 };

/* y, whose element is x's or, where there is none, `value` (its first bytes) or what is repeated. */
typedef struct PadArgs {
    const void *x;
    void *y;
    uint64_t value;
    int64_t count; /* of y */
    int64_t total[PAD_RANK], before[PAD_RANK], crop[PAD_RANK], kept[PAD_RANK], strides[PAD_RANK];
    int32_t rank, mode; /* a PadMode: 0 constant, 1 reflect, 2 edge, 3 wrap */
} PadArgs;

/* Matrices whose elements on one side of a diagonal are 0. */
typedef struct TriangleArgs {
    const void *x;
    void *y;
    int64_t count, rows, columns, diagonal;
    int32_t upper; /* what is above stays, with the diagonal; else what is below */
} TriangleArgs;

/* y (outer, count, inner) of x (outer, size, inner): the slices that indices name, from the end where
 * they are negative; one that is out of range is 0. */
typedef struct GatherArgs {
    const void *x, *indices;
    void *y;
    int64_t outer, size, inner, count;
    int32_t wide; /* indices are int64, else int32 */
} GatherArgs;

#endif
