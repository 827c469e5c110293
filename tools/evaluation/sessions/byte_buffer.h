// SPDX-License-Identifier: Apache-2.0
/* Where a library call writes bytes to: in memory. */
#ifndef DEMI_BYTE_BUFFER_H
#define DEMI_BYTE_BUFFER_H

#include <stdbool.h>

#include "arena.h"
#include "vec.h"

typedef struct ByteBuffer {
    Arena *arena;
    VEC(char) bytes;
    bool exhausted; /* there was no memory: the call failed for that */
} ByteBuffer;

/* A DemiWriteFn, which must not jump: false where memory runs out. */
bool byte_buffer_write(void *buffer, const void *bytes, size_t size);

/* After the call: jumps where memory ran out within it. */
void byte_buffer_end(const ByteBuffer *buffer);

#endif
