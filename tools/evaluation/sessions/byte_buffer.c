// SPDX-License-Identifier: Apache-2.0
/* Bytes that a library call writes, in an arena's memory; see byte_buffer.h. */
#include "byte_buffer.h"

#include <string.h>

/* Room for so many bytes behind those that are there; false where memory runs out. */
static bool has_room(ByteBuffer *buffer, size_t size) {
    MemTrap here, *outer = buffer->arena->trap;
    const size_t wanted = buffer->bytes.count + size;
    if (buffer->bytes.capacity >= wanted) return true;
    if (setjmp(here.env)) {
        buffer->arena->trap = outer;
        buffer->exhausted = true;
        return false;
    }
    buffer->arena->trap = &here;
    while (buffer->bytes.capacity < wanted)
        buffer->bytes.items =
            vec_grow(buffer->arena, buffer->bytes.items, &buffer->bytes.capacity, 1);
    buffer->arena->trap = outer;
    return true;
}

bool byte_buffer_write(void *user, const void *bytes, size_t size) {
    ByteBuffer *buffer = user;
    if (!has_room(buffer, size)) return false;
    memcpy(buffer->bytes.items + buffer->bytes.count, bytes, size);
    buffer->bytes.count += size;
    return true;
}

void byte_buffer_end(const ByteBuffer *buffer) {
    if (buffer->exhausted) arena_exhausted(buffer->arena);
}
