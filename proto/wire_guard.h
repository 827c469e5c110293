// SPDX-License-Identifier: Apache-2.0
/* Checks a protobuf file's bytes before protobuf-c sees any, and makes the shadow (shadow.h).
 *
 * One iterative walk over the whole file, guided by protobuf-c's own descriptors: nesting at most
 * 100 messages deep, at most 2^31 - 1 bytes, no field number 0, no varint beyond ten bytes, every
 * length inside its message, groups closed, and an estimate of the memory that the objects will
 * take within a budget. What passes can be unpacked by protobuf-c 1.4, which checks none of this.
 */
#ifndef DEMI_WIRE_GUARD_H
#define DEMI_WIRE_GUARD_H

#include <protobuf-c/protobuf-c.h>

#include "err.h"
#include "shadow.h"
#include "source.h"

enum { WIRE_DEPTH_MAX = 100 };
#define WIRE_SIZE_MAX ((uint64_t)INT32_MAX) /* protobuf's limit of a message */

typedef struct GuardInput {
    const Source *source;
    const ProtobufCMessageDescriptor *root; /* ModelProto's, or that of a message to be one piece */
    uint64_t memory_budget; /* most bytes of estimated objects; 0: 1 GiB and eight times the file */
    /* Where set, the main graph is given away in parts as the walk goes on: take gets its record
     * with some pieces, which are gone afterwards. What is left at the end stays in the record. */
    bool (*take)(void *data, const Shadow *shadow, const ShadowRecord *graph);
    void *data;
} GuardInput;

/* Walks the source and fills *shadow, whose bytes are in the arena. ERR_MODEL names what is wrong
 * and the offset; ERR_ENV where reading fails. */
bool wire_guard(const GuardInput *input, Arena *arena, Shadow *shadow, Err *err);

#endif
