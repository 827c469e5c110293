// SPDX-License-Identifier: Apache-2.0
/* Joins submessages that were given in several parts. */
#ifndef DEMI_WIRE_MERGE_H
#define DEMI_WIRE_MERGE_H

#include <protobuf-c/protobuf-c.h>

#include "arena.h"
#include "vec.h"

/* The same message with each singular submessage given once, its parts joined in order, and of each
 * oneof only what follows the last change of its case: what protobuf makes of the parts. The bytes
 * must have passed the guard. The result is in the arena. */
Bytes wire_merge(const ProtobufCMessageDescriptor *descriptor, Bytes bytes, Arena *arena);

#endif
