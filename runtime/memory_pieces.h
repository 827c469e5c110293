// SPDX-License-Identifier: Apache-2.0
/* Pieces of one memory that are taken and given back, in offsets: good fit by classes of sizes, and
 * neighbors that are free become one. Each call takes constant time. */
#ifndef DEMI_MEMORY_PIECES_H
#define DEMI_MEMORY_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "memory_plan.h"

/* A piece of the memory, free or a block's. Free ones are in the list of their class of sizes: eight
 * classes for each power of two, so that what is found is near the size that is asked for. */
typedef struct MemoryPiece {
    uint64_t offset, size;
    uint32_t before, behind; /* its neighbors in memory, NO_PIECE: none */
    uint32_t next, prev;     /* in the list, or of pieces that are not in use */
    bool free;
} MemoryPiece;
enum { NO_PIECE = UINT32_MAX, MEMORY_CLASSES = 64 * 8 };

typedef struct MemoryPieces {
    MemoryPiece *items; /* [2 * count + 1] */
    uint32_t used, spare, last;
    uint32_t heads[MEMORY_CLASSES];
    uint64_t filled[MEMORY_CLASSES / 64]; /* a bit for each class that has a piece */
} MemoryPieces;

/* Begins with no memory, and room for taking `count` pieces in all. */
void memory_pieces_init(MemoryPieces *pieces, uint64_t count, Arena *arena);
/* The number of a piece of `size` bytes, a multiple of MEMORY_ALIGN, that was free or is new at the
 * end. Offsets wrap around where they pass UINT64_MAX: the caller sees to that. */
uint32_t memory_take(MemoryPieces *pieces, uint64_t size);
void memory_give(MemoryPieces *pieces, uint32_t number);

#endif
