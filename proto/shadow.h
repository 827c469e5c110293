// SPDX-License-Identifier: Apache-2.0
/* A model's shadow: its bytes without the weights, checked and cut into pieces.
 *
 * wire_guard makes it, onnx_import reads it. The large containers (ModelProto, GraphProto,
 * FunctionProto) become records: a list of their repeated submessages, each a piece of bytes that
 * protobuf-c can unpack alone, and one piece with everything else. Inside pieces, four things
 * differ from the file, so that no file can forge them:
 *   - TensorProto.raw_data begins with a byte: SHADOW_INLINE, then the data itself; or
 *     SHADOW_REFERENCE, then offset and length in the file, 8 bytes each, little-endian;
 *   - a GraphProto inside an attribute or training info holds nothing but the index of its record,
 *     4 bytes in `name`;
 *   - a field that protobuf keeps as unknown but protobuf-c would refuse (a wrong wire type, a
 *     group) is the payload of an unknown field SHADOW_ESCAPE, tag included;
 *   - a submessage that the file gives in several parts is one.
 */
#ifndef DEMI_SHADOW_H
#define DEMI_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "vec.h"

enum {
    SHADOW_INLINE = 0,
    SHADOW_REFERENCE = 1,
    SHADOW_REFERENCE_SIZE = 17, /* of raw_data that holds a reference */
    SHADOW_INLINE_MAX = 256,    /* larger raw_data is referred to */
    SHADOW_ESCAPE = (1 << 29) - 1,
};

typedef struct ShadowRecord ShadowRecord;

typedef struct ShadowPiece {
    uint32_t field; /* its number in the container */
    uint32_t size;
    union {
        const unsigned char *data;
        ShadowRecord *record; /* where the submessage is itself a container */
    } at;
} ShadowPiece;

struct ShadowRecord {
    uint32_t index;          /* in Shadow.records */
    VEC(ShadowPiece) pieces; /* repeated submessages, and ModelProto.graph, in file order */
    VEC(Bytes) remainder;    /* all other fields, to be joined in this order */
};

typedef struct Shadow {
    ShadowRecord *model; /* NULL where the root is another message */
    Bytes message;       /* that message */
    VEC(ShadowRecord *) records;
    bool escapes; /* there are SHADOW_ESCAPE fields */
} Shadow;

#endif
