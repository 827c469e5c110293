// SPDX-License-Identifier: Apache-2.0
/* Reading of protobuf's wire elements from a Source through a window.
 *
 * A WireReader goes forward only. Bytes it shows are private copies (or borrowed memory), so what
 * was checked can't change afterwards. Tensor data is skipped without being read: behind what was
 * skipped little is read at first, and more as long as nothing else is.
 */
#ifndef DEMI_WIRE_READ_H
#define DEMI_WIRE_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "arena.h"
#include "err.h"
#include "source.h"

/* Wire types, with protobuf's numbers. */
typedef enum WireType {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2, /* length-delimited */
    WIRE_GROUP = 3,
    WIRE_GROUP_END = 4,
    WIRE_FIXED32 = 5,
} WireType;

enum { WIRE_VARINT_MAX = 10, WIRE_LENGTH_PADDED = 5 };

typedef struct WireReader {
    const Source *source;
    const unsigned char *next, *end; /* the window's unread bytes */
    uint64_t window_end;             /* the source's offset of `end` */
    unsigned char *buffer;           /* the window's storage; NULL for memory */
    size_t ahead;                    /* bytes that are read at once next */
    Err *err;                        /* filled where reading the source fails */
} WireReader;

void reader_init(WireReader *reader, Arena *arena, const Source *source, Err *err);

/* Offset in the source of the next byte. */
static inline uint64_t reader_position(const WireReader *reader) {
    return reader->window_end - (uint64_t)(reader->end - reader->next);
}

/* reader_varint where the next byte is not all of it. */
bool reader_varint_slow(WireReader *reader, uint64_t *value);

/* The next varint; false where the source ends or it has more than ten bytes. */
static inline bool reader_varint(WireReader *reader, uint64_t *value) {
    if (reader->next == reader->end || *reader->next >= 0x80)
        return reader_varint_slow(reader, value);
    *value = *reader->next++;
    return true;
}

/* Moves past `size` bytes, which must exist. */
void reader_skip(WireReader *reader, uint64_t size);

/* reader_copy where the window does not hold all bytes. */
bool reader_copy_slow(WireReader *reader, unsigned char *to, uint64_t size);

/* Copies `size` bytes, which must exist. */
static inline bool reader_copy(WireReader *reader, unsigned char *to, uint64_t size) {
    if (size > (uint64_t)(reader->end - reader->next)) return reader_copy_slow(reader, to, size);
    if (size) memcpy(to, reader->next, (size_t)size);
    reader->next += size;
    return true;
}

/* A varint in memory: its length in bytes, or 0 where it does not end before `end` or is too long.
 */
static inline size_t wire_get_varint(const unsigned char *from, const unsigned char *end,
                                     uint64_t *value) {
    uint64_t result = 0;
    for (size_t i = 0; i < WIRE_VARINT_MAX && from + i < end; i++) {
        result |= (uint64_t)(from[i] & 0x7f) << (7 * i);
        if (from[i] < 0x80) {
            *value = result;
            return i + 1;
        }
    }
    return 0;
}

/* Writes a varint, at most WIRE_VARINT_MAX bytes; returns its length. */
static inline size_t wire_put_varint(unsigned char *to, uint64_t value) {
    size_t size = 0;
    for (; value >= 0x80; value >>= 7) to[size++] = (unsigned char)(value | 0x80);
    to[size++] = (unsigned char)value;
    return size;
}

/* Writes a length below 2^35 in exactly WIRE_LENGTH_PADDED bytes: for lengths known only later. */
static inline void wire_put_padded(unsigned char *to, uint64_t value) {
    for (int i = 0; i < WIRE_LENGTH_PADDED - 1; i++, value >>= 7)
        to[i] = (unsigned char)(value | 0x80);
    to[WIRE_LENGTH_PADDED - 1] = (unsigned char)(value & 0x7f);
}

static inline uint32_t wire_tag_number(uint64_t tag) {
    return (uint32_t)(tag >> 3);
}
static inline WireType wire_tag_type(uint64_t tag) {
    return (WireType)(tag & 7);
}

#endif
