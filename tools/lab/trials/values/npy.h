// SPDX-License-Identifier: Apache-2.0
/* NumPy's files: arrays (.npy, format versions 1 to 3) and archives of them (.npz).
 *
 * A file is untrusted: nothing is allocated that its own size does not cover, or in a deflated
 * member can become. Data comes out as demi_runtime.h's values have it: native byte order,
 * row-major. Types that NumPy lacks are its opaque ones ("|V2"), as ml_dtypes' arrays are saved:
 * they fit any dtype of that width.
 */
#ifndef DEMI_NPY_H
#define DEMI_NPY_H

#include "arena.h"
#include "demi_runtime.h"
#include "err.h"
#include "outfile.h"
#include "source.h"
#include "vec.h"

/* The array in these bytes, on memory of the arena; bytes may go afterwards. `wanted` is the dtype
 * that opaque elements stand for, 0 where none is known. */
bool npy_parse(Arena *arena, Bytes bytes, int32_t wanted, DemiData *value, Err *err);

/* A member of an archive: name without ".npy". */
typedef struct NpzMember {
    const char *name;
    uint64_t header;       /* offset of its local header */
    uint64_t size, packed; /* bytes of the array's file; those in the archive */
    uint32_t method, crc;  /* 0: stored, 8: deflated */
} NpzMember;

typedef VEC(NpzMember) NpzMembers;

/* The members of an archive, from its directory at the end. */
bool npz_list(Arena *arena, const Source *source, NpzMembers *members, Err *err);

/* The bytes of a member, stored or deflated; ERR_MODEL where it is compressed otherwise, damaged,
 * or would become far larger than any data. */
bool npz_read(Arena *arena, const Source *source, const NpzMember *member, Bytes *bytes, Err *err);

/* Writes a tensor as .npy, version 1 (2 where the header is long). Types that NumPy lacks: bfloat16
 * as "|V2", float8 and narrower floats as "|V1", narrow integers as 8-bit ones, strings as the
 * Unicode type. */
bool npy_write(OutFile *file, Arena *arena, const DemiData *tensor, Err *err);

#endif
