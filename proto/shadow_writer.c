// SPDX-License-Identifier: Apache-2.0
/* Blocks of growing pieces; see shadow_writer.h. */
#include "shadow_writer.h"

#include <string.h>

#include "wire_merge.h"

enum { FIRST_BLOCK = 1 << 12, LARGEST_BLOCK = 1 << 20 };

ShadowPosition shadow_position(const ShadowWriter *writer) {
    return (ShadowPosition){writer->block, writer->size};
}

void shadow_rewind(ShadowWriter *writer, ShadowPosition position) {
    /* A block that is newer than the position holds nothing older. */
    writer->size = writer->block == position.block ? position.size : 0;
    writer->start = writer->size;
}

void shadow_begin(ShadowWriter *writer) {
    writer->start = writer->size;
    writer->split = false;
}

void shadow_grow(ShadowWriter *writer, size_t more) {
    size_t held = writer->size - writer->start;
    size_t capacity = writer->capacity * 2;
    if (capacity < FIRST_BLOCK) capacity = FIRST_BLOCK;
    if (capacity > LARGEST_BLOCK) capacity = LARGEST_BLOCK;
    if (more > SIZE_MAX / 4 - held) arena_exhausted(writer->arena);
    if (capacity < (held + more) * 2) capacity = (held + more) * 2;
    unsigned char *block = arena_alloc(writer->arena, capacity);
    if (held) memcpy(block, writer->block + writer->start, held);
    writer->block = block;
    writer->start = 0;
    writer->size = held;
    writer->capacity = capacity;
}

size_t shadow_reserve_length(ShadowWriter *writer) {
    size_t position = writer->size - writer->start;
    shadow_extend(writer, WIRE_LENGTH_PADDED);
    return position;
}

void shadow_patch_length(ShadowWriter *writer, size_t position) {
    size_t length = writer->size - writer->start - position - WIRE_LENGTH_PADDED;
    wire_put_padded(writer->block + writer->start + position, length);
}

Bytes shadow_end(ShadowWriter *writer, const ProtobufCMessageDescriptor *descriptor) {
    if (!writer->block) return (Bytes){(const unsigned char *)"", 0}; /* nothing was written */
    Bytes piece = {writer->block + writer->start, writer->size - writer->start};
    if (!writer->split) return piece;
    if (!writer->merging) writer->merging = arena_child(writer->arena);
    Arena *scratch = writer->merging;
    Bytes merged = wire_merge(descriptor, piece, scratch);
    memcpy(writer->block + writer->start, merged.data, merged.size);
    writer->size = writer->start + merged.size;
    piece.size = merged.size;
    arena_free(scratch);
    return piece;
}
