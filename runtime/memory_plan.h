// SPDX-License-Identifier: Apache-2.0
/* Where values lie in one piece of memory, given how long each lives: plain numbers in, offsets
 * out. Greedy by size: the largest first, each into the smallest gap that fits between those
 * already placed that live at the same time. Where so many live together that this would take quadratic
 * time, in the order in which lives begin: each into a free piece of about its size, as an allocator
 * does it. */
#ifndef DEMI_MEMORY_PLAN_H
#define DEMI_MEMORY_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"

enum { MEMORY_ALIGN = 64 };

typedef struct MemoryBlock {
    uint64_t size;        /* bytes */
    uint32_t first, last; /* it lives from one step to the other, both included; first <= last */
    uint64_t offset;      /* the result, a multiple of MEMORY_ALIGN */
} MemoryBlock;

/* Fills in offsets such that no two blocks that live at the same time overlap. The bytes needed, or
 * UINT64_MAX where they pass that. Takes time in proportion to n log n. */
uint64_t memory_plan(MemoryBlock *blocks, size_t count, Arena *scratch);

/* What no plan can be smaller than: the most bytes, rounded up to MEMORY_ALIGN each, that live at
 * once. */
uint64_t memory_plan_bound(const MemoryBlock *blocks, size_t count, Arena *scratch);

#endif
