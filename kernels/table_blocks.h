// SPDX-License-Identifier: Apache-2.0
/* How the table of com.microsoft's GatherBlockQuantized lies: numbers of 2, 4 or 8 bits, whose blocks along one axis
 * share a scale and a zero point. Bytes hold one number each or several, the first in the lowest bits, and zero points
 * of bytes are packed as numbers are. */
#ifndef DEMI_TABLE_BLOCKS_H
#define DEMI_TABLE_BLOCKS_H

#include "kernel.h"

/* The operands. */
enum { TABLE_NUMBERS, TABLE_INDICES, TABLE_SCALES, TABLE_ZEROS };

/* The table's flat numbers are [outer][along][inner], seen from the axis of blocks, and [before][axis][row], seen from
 * that of indices. */
typedef struct TableBlocks {
    bool is_signed, packed;
    uint32_t bits;
    float middle; /* the zero point where there are none */
    uint64_t along, inner, block, blocks;
    uint64_t axis, row, picks;
} TableBlocks;

/* False with the call's error set where operands or attributes do not fit. */
bool table_blocks_find(KernelCall *call, TableBlocks *blocks);

#endif
