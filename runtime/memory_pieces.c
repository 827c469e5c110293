// SPDX-License-Identifier: Apache-2.0
/* An allocator of offsets; see memory_pieces.h. */
#include "memory_pieces.h"

#include <string.h>

void memory_pieces_init(MemoryPieces *p, uint64_t count, Arena *arena) {
    *p = (MemoryPieces){.items = ARENA_ARRAY(arena, MemoryPiece, 2 * count + 1),
                        .spare = NO_PIECE,
                        .last = NO_PIECE};
    memset(p->heads, 0xff, sizeof p->heads);
}

/* Of sizes in multiples of MEMORY_ALIGN: the class in which all that are as large, or larger, are. */
static unsigned class_floor(uint64_t size) {
    const uint64_t units = size / MEMORY_ALIGN;
    if (units < 8) return (unsigned)units;
    const unsigned log = 63u - (unsigned)__builtin_clzll(units);
    return (log - 2) * 8 + (unsigned)(units >> (log - 3) & 7);
}

static void list_remove(MemoryPieces *p, uint32_t number) {
    MemoryPiece *piece = &p->items[number];
    const unsigned bin = class_floor(piece->size);
    if (piece->prev == NO_PIECE)
        p->heads[bin] = piece->next;
    else
        p->items[piece->prev].next = piece->next;
    if (piece->next != NO_PIECE) p->items[piece->next].prev = piece->prev;
    if (p->heads[bin] == NO_PIECE) p->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    piece->free = false;
}

static void list_add(MemoryPieces *p, uint32_t number) {
    MemoryPiece *piece = &p->items[number];
    const unsigned bin = class_floor(piece->size);
    piece->free = true;
    piece->prev = NO_PIECE;
    piece->next = p->heads[bin];
    if (piece->next != NO_PIECE) p->items[piece->next].prev = number;
    p->heads[bin] = number;
    p->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

static uint32_t new_piece(MemoryPieces *p, MemoryPiece piece) {
    uint32_t number = p->spare;
    if (number == NO_PIECE)
        number = p->used++;
    else
        p->spare = p->items[number].next;
    p->items[number] = piece;
    if (piece.before != NO_PIECE) p->items[piece.before].behind = number;
    if (piece.behind != NO_PIECE)
        p->items[piece.behind].before = number;
    else
        p->last = number;
    return number;
}

/* Joins a piece with the one behind it, which is in no list. */
static void join(MemoryPieces *p, uint32_t number) {
    MemoryPiece *piece = &p->items[number], *behind = &p->items[piece->behind];
    const uint32_t gone = piece->behind;
    piece->size += behind->size;
    piece->behind = behind->behind;
    if (piece->behind == NO_PIECE)
        p->last = number;
    else
        p->items[piece->behind].before = number;
    behind->next = p->spare;
    p->spare = gone;
}

/* A free piece that is large enough: of the smallest class that has one; NO_PIECE: there is none. */
static uint32_t find_piece(const MemoryPieces *p, uint64_t size) {
    enum { TRIES = 8 }; /* in the class of `size` itself, where not all are large enough */
    unsigned bin = class_floor(size);
    for (uint32_t at = p->heads[bin], tries = 0; at != NO_PIECE && tries < TRIES;
         at = p->items[at].next, tries++)
        if (p->items[at].size >= size) return at;
    for (bin++; bin < MEMORY_CLASSES; bin = (bin / 64 + 1) * 64) {
        const uint64_t bits = p->filled[bin / 64] >> bin % 64;
        if (bits) return p->heads[bin + (unsigned)__builtin_ctzll(bits)];
    }
    return NO_PIECE;
}

uint32_t memory_take(MemoryPieces *p, uint64_t size) {
    uint32_t number = find_piece(p, size);
    if (number == NO_PIECE && p->last != NO_PIECE && p->items[p->last].free) {
        number = p->last;
        list_remove(p, number);
        p->items[number].size = size; /* the end moves */
        return number;
    }
    if (number == NO_PIECE) {
        const MemoryPiece *last = p->last == NO_PIECE ? NULL : &p->items[p->last];
        return new_piece(p, (MemoryPiece){.offset = last ? last->offset + last->size : 0,
                                          .size = size,
                                          .before = p->last,
                                          .behind = NO_PIECE});
    }
    list_remove(p, number);
    const MemoryPiece piece = p->items[number];
    if (piece.size > size) {
        p->items[number].size = size;
        list_add(p, new_piece(p, (MemoryPiece){.offset = piece.offset + size,
                                               .size = piece.size - size,
                                               .before = number,
                                               .behind = piece.behind}));
    }
    return number;
}

void memory_give(MemoryPieces *p, uint32_t number) {
    const uint32_t before = p->items[number].before, behind = p->items[number].behind;
    if (behind != NO_PIECE && p->items[behind].free) {
        list_remove(p, behind);
        join(p, number);
    }
    if (before != NO_PIECE && p->items[before].free) {
        list_remove(p, before);
        join(p, before);
        number = before;
    }
    list_add(p, number);
}
