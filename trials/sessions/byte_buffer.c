// SPDX-License-Identifier: Apache-2.0
/* Bytes that a library call writes, in an arena's memory; see byte_buffer.h. */
#include "byte_buffer.h"

#include <string.h>

bool byte_buffer_write(void *user, const void *bytes, size_t size) {
    ByteBuffer *buffer = user;
    MemTrap here, *outer = buffer->arena->trap;
    if (setjmp(here.env)) {
        buffer->arena->trap = outer;
        buffer->exhausted = true;
        return false;
    }
    buffer->arena->trap = &here;
    while (buffer->bytes.capacity - buffer->bytes.count < size)
        buffer->bytes.items =
            vec_grow(buffer->arena, buffer->bytes.items, &buffer->bytes.capacity, 1);
    buffer->arena->trap = outer;
    memcpy(buffer->bytes.items + buffer->bytes.count, bytes, size);
    buffer->bytes.count += size;
    return true;
}

void byte_buffer_end(const ByteBuffer *buffer) {
    if (buffer->exhausted) arena_exhausted(buffer->arena);
}
