// SPDX-License-Identifier: Apache-2.0
/* The window over a source; see wire_read.h. */
#include "wire_read.h"

#include <string.h>

enum { WINDOW = 1 << 18, FIRST_AHEAD = 1 << 13 };

void reader_init(WireReader *reader, Arena *arena, const Source *source, Err *err) {
    *reader = (WireReader){.source = source, .ahead = WINDOW, .err = err};
    if (source->memory) {
        reader->next = source->memory;
        reader->end = source->memory + source->size;
        reader->window_end = source->size;
        return;
    }
    reader->buffer = arena_alloc(arena, source->size < WINDOW ? (size_t)source->size : WINDOW);
    reader->next = reader->end = reader->buffer;
}

/* Makes the window hold at least `size` (below 256 KiB) unread bytes, or all that are left. False
 * where reading fails. */
static bool reader_fill(WireReader *reader, size_t size) {
    size_t held = (size_t)(reader->end - reader->next);
    if (held >= size || reader->window_end == reader->source->size) return true;
    uint64_t left = reader->source->size - reader->window_end;
    if (held) memmove(reader->buffer, reader->next, held);
    const size_t wanted = size - held > reader->ahead ? size - held : reader->ahead;
    const size_t room = wanted < WINDOW - held ? wanted : WINDOW - held;
    const size_t more = left < room ? (size_t)left : room;
    if (reader->ahead < WINDOW) reader->ahead *= 2;
    reader->next = reader->buffer;
    reader->end = reader->buffer + held;
    if (!source_read(reader->source, reader->window_end, reader->buffer + held, more, reader->err))
        return false;
    reader->end += more;
    reader->window_end += more;
    return true;
}

bool reader_varint_slow(WireReader *reader, uint64_t *value) {
    if (reader->end - reader->next < WIRE_VARINT_MAX && !reader_fill(reader, WIRE_VARINT_MAX))
        return false;
    size_t size = wire_get_varint(reader->next, reader->end, value);
    reader->next += size;
    return size > 0;
}

void reader_skip(WireReader *reader, uint64_t size) {
    uint64_t held = (uint64_t)(reader->end - reader->next);
    if (size <= held) {
        reader->next += size;
        return;
    }
    reader->window_end += size - held; /* only files: memory is held whole */
    reader->next = reader->end = reader->buffer;
    reader->ahead = FIRST_AHEAD;
}

bool reader_copy_slow(WireReader *reader, unsigned char *to, uint64_t size) {
    uint64_t held = (uint64_t)(reader->end - reader->next);
    uint64_t first = size < held ? size : held;
    if (first) memcpy(to, reader->next, first);
    reader->next += first;
    if (size - first >= WINDOW) {
        uint64_t from = reader->window_end;
        reader_skip(reader, size - first);
        return source_read(reader->source, from, to + first, size - first, reader->err);
    }
    if (!reader_fill(reader, (size_t)(size - first))) return false;
    memcpy(to + first, reader->next, size - first);
    reader->next += size - first;
    return true;
}
