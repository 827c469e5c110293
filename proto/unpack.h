// SPDX-License-Identifier: Apache-2.0
/* Unpacking of one small message at a time.
 *
 * protobuf-c allocates every field of a message alone; an Unpacker gives it memory from one block
 * that is used again for the next message, so that reading a model of half a million nodes needs
 * the memory of its largest node. Only bytes that wire_guard made may be unpacked: it is the guard
 * that bounds depth and size.
 */
#ifndef DEMI_UNPACK_H
#define DEMI_UNPACK_H

#include <protobuf-c/protobuf-c.h>

#include "arena.h"
#include "vec.h"

typedef struct Unpacker {
    ProtobufCAllocator allocator;
    Arena large; /* what does not fit into the block; freed by unpacker_reset */
    char *block;
    size_t used;
} Unpacker;

/* `owner` holds the block and frees the unpacker with itself; its trap and budget are taken over.
 */
void unpacker_init(Unpacker *unpacker, Arena *owner);

/* Forgets every message unpacked so far. */
void unpacker_reset(Unpacker *unpacker);

/* Zeroed memory that lives until the next reset. */
void *unpacker_alloc(Unpacker *unpacker, size_t size);

/* Unpacks bytes as a message of that descriptor, valid until the next reset. NULL where protobuf-c
 * refuses them. Memory running out goes to the owner's trap. */
ProtobufCMessage *unpacker_unpack(Unpacker *unpacker, const ProtobufCMessageDescriptor *descriptor,
                                  Bytes bytes);

#endif
