// SPDX-License-Identifier: Apache-2.0
/* Broadcasting: elementwise work on operands of different shapes as loops over rows.
 *
 * All shapes are aligned to the output's, dims of 1 dropped and neighboring dims that every
 * operand runs through in one stride made one. What is left is cut into tiles of rows and columns,
 * and a function for the element types is called for each tile; its inner loops are over contiguous
 * elements or one repeated element only, which compilers vectorise. Tiles are independent of each
 * other, so they can be divided among threads.
 */
#ifndef DEMI_KERNEL_BROADCAST_H
#define DEMI_KERNEL_BROADCAST_H

#include "kernel.h"

enum { BROADCAST_OPERANDS = 4 }; /* the output, which is the first, and three inputs */

/* `trailing`: how many of the output's last dims lie behind the operand's last one. 0 is what ONNX
 * does from operator version 7 on; earlier versions align operands elsewhere. */
typedef struct BroadcastOperand {
    const KernelTensor *tensor;
    uint32_t trailing;
} BroadcastOperand;

typedef struct Broadcast {
    uint32_t count, rank;                        /* operands; dims, at least 2 */
    uint64_t tiles;                              /* 0 where the output is empty */
    const uint64_t *dims;                        /* [rank]; the last two are a tile's */
    const uint64_t *strides[BROADCAST_OPERANDS]; /* [rank] each, in elements; 0: repeated */
    char *data[BROADCAST_OPERANDS];
    size_t size[BROADCAST_OPERANDS]; /* of an element, in bytes */
    Dtype dtype[BROADCAST_OPERANDS];
    Workers *workers; /* as a call's */
} Broadcast;

/* Operand k's element of row r and column c is at[k][r * row_step[k] + c * step[k]], in elements;
 * step is 0 or 1, and 1 for the output unless there is one column. */
typedef struct BroadcastTile {
    uint64_t rows, columns;
    void *at[BROADCAST_OPERANDS];
    uint64_t row_step[BROADCAST_OPERANDS], step[BROADCAST_OPERANDS];
} BroadcastTile;

typedef void (*BroadcastFunction)(const BroadcastTile *tile, const void *context);

/* Plans the loops, in scratch. False with the error set where an operand's shape does not broadcast
 * to that of operands[0], the output. */
bool kernel_broadcast_plan(KernelCall *call, const BroadcastOperand *operands, uint32_t count,
                           Broadcast *plan);

/* Calls `function` for all tiles, or parts of them, from several threads at once where that pays.
 */
void kernel_broadcast_run(const Broadcast *plan, BroadcastFunction function, const void *context);

/* The same by the function of that dtype, which all inputs have. Where there is none for 16-bit floats
 * it is that of floats: pieces that stay in the first-level cache are widened for it, and what it gives
 * is rounded once, to nearest, ties to even. False with the error set where there is no function. */
bool kernel_broadcast_by_dtype(KernelCall *call, const Broadcast *plan,
                               const BroadcastFunction functions[DTYPE_COUNT], Dtype dtype);

/* Output 0 from inputs 0 and 1, by the function of their dtype. Serves all operator versions: a row
 * with the layout `broadcast` is one before version 7. False with the error set where shapes do not
 * match or there is no function. */
bool kernel_broadcast_binary(KernelCall *call, const BroadcastFunction functions[DTYPE_COUNT]);

/* Where input 1 lies in input 0's dims. False with the error set. */
bool kernel_broadcast_trailing(KernelCall *call, uint32_t *trailing);

#endif
