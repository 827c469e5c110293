// SPDX-License-Identifier: Apache-2.0
/* Values as ONNX's data files hold them: TensorProto, SequenceProto, OptionalProto (.pb).
 *
 * A tensor is read by the importer of models, as the value of a Constant in a model made around it:
 * so the same guard checks its bytes, every storage field and dtype is known, and data in other
 * files is refused. The two messages around tensors are walked here.
 */
#ifndef DEMI_VALUE_PB_H
#define DEMI_VALUE_PB_H

#include "arena.h"
#include "demi_runtime.h"
#include "err.h"
#include "vec.h"

typedef struct PbFile {
    Bytes bytes;
    const char *name;  /* for messages */
    DemiDataKind kind; /* what the message is: of a tensor, or of a sequence */
    bool optional;     /* of an OptionalProto around it */
} PbFile;

/* The value on memory of the arena; bytes may go afterwards. */
bool value_pb_parse(Arena *arena, const PbFile *file, DemiData *value, Err *err);

/* The value as a message, called `name`. */
Bytes value_pb_make(Arena *arena, const DemiData *value, const char *name, bool optional);

#endif
