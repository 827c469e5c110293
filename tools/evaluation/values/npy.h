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

/* Where the bytes of a .npy file lie. */
typedef struct NpyBytes {
    const Source *source;
    uint64_t at, size;
} NpyBytes;

/* Rows along axis 0. */
typedef struct NpyRows {
    uint64_t first, count; /* 0: all of them */
} NpyRows;

typedef struct NpyHeader NpyHeader;

/* An array whose elements were not read yet. */
typedef struct NpyArray {
    NpyBytes data; /* the elements */
    int32_t dtype;
    uint32_t rank;
    const int64_t *dims;
    const NpyHeader *header;
} NpyArray;

/* Reads the header. `wanted` is the dtype that opaque elements stand for, 0 where none is known. */
bool npy_open(Arena *arena, NpyBytes bytes, int32_t wanted, NpyArray *array, Err *err);

/* The elements, of those rows alone, on memory of the arena; ERR_USAGE where it has no such rows. */
bool npy_read(Arena *arena, const NpyArray *array, NpyRows rows, DemiData *value, Err *err);

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

/* Where a member's bytes lie, or are made as they are read, of one that is deflated; ERR_MODEL where it is
 * compressed otherwise, damaged, or would become far larger than any data. What is deflated is read by one
 * thread at a time, and from front to back without starting anew. */
bool npz_open(Arena *arena, const Source *source, const NpzMember *member, NpyBytes *bytes,
              Err *err);

/* Writes a tensor as .npy, version 1 (2 where the header is long). Types that NumPy lacks: bfloat16
 * as "|V2", float8 and narrower floats as "|V1", narrow integers as 8-bit ones, strings as the
 * Unicode type. */
bool npy_write(OutFile *file, Arena *arena, const DemiData *tensor, Err *err);

#endif
