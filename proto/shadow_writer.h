// SPDX-License-Identifier: Apache-2.0
/* Writing of a shadow's pieces: one piece after another into large blocks of an arena.
 *
 * One piece is open at a time. It moves to a new block where it outgrows its own, so positions in
 * it are offsets from its start.
 */
#ifndef DEMI_SHADOW_WRITER_H
#define DEMI_SHADOW_WRITER_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "vec.h"
#include "wire_read.h"

typedef struct ShadowWriter {
    Arena *arena;
    unsigned char *block;
    size_t start, size, capacity; /* of the open piece: [start, size) of the block */
    bool split;                   /* the open piece has a submessage in parts */
    Arena *merging; /* scratch for joining parts, freed with `arena`; NULL: not needed so far */
} ShadowWriter;

/* Where the next piece begins, and going back there: the pieces written since are gone, but their
 * memory is used again. None may be open. */
typedef struct ShadowPosition {
    const unsigned char *block;
    size_t size;
} ShadowPosition;
ShadowPosition shadow_position(const ShadowWriter *writer);
void shadow_rewind(ShadowWriter *writer, ShadowPosition position);

/* Ends the last piece and begins a new one. */
void shadow_begin(ShadowWriter *writer);

/* Moves the open piece to a block with room for `more` bytes. */
void shadow_grow(ShadowWriter *writer, size_t more);

/* Room for `size` bytes at the end of the open piece, which becomes that much longer. */
static inline unsigned char *shadow_extend(ShadowWriter *writer, size_t size) {
    if (size > writer->capacity - writer->size) shadow_grow(writer, size);
    unsigned char *result = writer->block + writer->size;
    writer->size += size;
    return result;
}

static inline void shadow_put_varint(ShadowWriter *writer, uint64_t value) {
    if (WIRE_VARINT_MAX > writer->capacity - writer->size) shadow_grow(writer, WIRE_VARINT_MAX);
    writer->size += wire_put_varint(writer->block + writer->size, value);
}

/* A length to be known later: its position, for shadow_patch_length, which counts everything
 * written since. */
size_t shadow_reserve_length(ShadowWriter *writer);
void shadow_patch_length(ShadowWriter *writer, size_t position);

/* The open piece. Where it has submessages in parts, they are joined first. */
Bytes shadow_end(ShadowWriter *writer, const ProtobufCMessageDescriptor *descriptor);

#endif
