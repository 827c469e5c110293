// SPDX-License-Identifier: Apache-2.0
/* Values of the runtime (demi_runtime.h) in files and messages. Everything lies in the arena given.
 */
#ifndef DEMI_VALUE_IO_H
#define DEMI_VALUE_IO_H

#include "arena.h"
#include "demi_runtime.h"
#include "err.h"
#include "npy.h"

/* "float[1,3]", "sequence of 2, float[3]", "nothing". */
const char *value_type_text(Arena *arena, const DemiData *value);
/* The same of what is declared: "float[N,?,3]", "optional sequence of float"; without a rank "float".
 */
const char *value_io_text(Arena *arena, const DemiPlanIo *io);

/* Elements of a tensor; those of a value that is none count 0. */
uint64_t value_count(const DemiData *value);

/* The nearest double of element i; 0 for strings, the real part of complex ones. */
double value_item(const DemiData *tensor, uint64_t i);
/* Text of the element. */
const char *value_item_text(Arena *arena, const DemiData *tensor, uint64_t i);

/* A file of arrays, .npy or .npz, whose elements are read later. */
typedef struct ValueFile {
    const Source *source;
    bool archive;
    NpzMembers members; /* of an archive */
} ValueFile;

/* ERR_USAGE where it is neither. */
bool value_file_open(Arena *arena, const char *path, ValueFile *file, Err *err);
/* The only array, or that called io->name. */
bool value_file_find(Arena *arena, const ValueFile *file, const DemiPlanIo *io, NpyArray *array,
                     Err *err);

/* Reads .npy, .npz (the only member, or that called io->name), .pb, and anything else as the bare
 * elements, little-endian, whose type and shape `io` says. ERR_MODEL for what is wrong with the
 * file; err_file is its path. */
bool value_read_file(Arena *arena, const char *path, const DemiPlanIo *io, DemiData *value,
                     Err *err);

/* Bytes of its elements, those of a sequence's tensors together. */
uint64_t value_bytes(const DemiData *value);

/* True where the file begins like a ZIP archive. */
bool value_is_archive(Arena *arena, const char *path);

/* Does it fit what is declared? ERR_USAGE with both types otherwise. */
bool value_check(Arena *arena, const DemiData *value, const DemiPlanIo *io, Err *err);

/* The same elements in another dtype, each rounded once: between floating-point types only, else
 * the value itself. */
DemiData value_convert(Arena *arena, const DemiData *value, int32_t dtype);

/* A copy that outlives what it was made of. */
DemiData value_copy(Arena *arena, const DemiData *value);

/* The name as a file's: bytes but letters, digits and "-._~" as %XX, as URLs have them; long ones
 * cut. */
const char *value_file_name(Arena *arena, const char *name);

#endif
