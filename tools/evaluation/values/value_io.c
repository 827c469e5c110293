// SPDX-License-Identifier: Apache-2.0
/* Files of values, and how values are named in messages; see value_io.h. */
#define _POSIX_C_SOURCE 200809L
#include "value_io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "checked.h"
#include "dtype.h"
#include "kernel.h"
#include "value_pb.h"

enum { MOST_NAME = 200 };
#define MOST_FILE (UINT64_C(1) << 40) /* of a pipe; a regular file is as long as it is */

/* ---- text ------------------------------------------------------------------------------------ */

static const char *dims_text(Arena *arena, const int64_t *dims, uint32_t rank) {
    const char *text = "";
    for (uint32_t i = 0; i < rank; i++) {
        const char *comma = i ? "," : "";
        text = dims[i] < 0 ? arena_printf(arena, "%s%s?", text, comma)
                           : arena_printf(arena, "%s%s%" PRId64, text, comma, dims[i]);
    }
    return text;
}

/* Open sizes by name. */
static const char *io_dims_text(Arena *arena, const DemiPlanIo *io) {
    const char *text = "";
    for (uint32_t i = 0; i < io->rank; i++) {
        const char *name = io->dim_names ? io->dim_names[i] : NULL;
        const char *dim = io->dims[i] < 0 && name ? name : dims_text(arena, &io->dims[i], 1);
        text = arena_printf(arena, "%s%s%s", text, i ? "," : "", dim);
    }
    return text;
}

const char *value_type_text(Arena *arena, const DemiData *value) {
    if (value->kind == DEMI_DATA_NONE) return "nothing";
    if (value->kind == DEMI_DATA_SEQUENCE_KIND)
        return value->count == 0 ? "empty sequence"
                                 : arena_printf(arena, "sequence of %zu, %s", value->count,
                                                value_type_text(arena, &value->items[0]));
    return arena_printf(arena, "%s[%s]", dtype_name((Dtype)value->dtype),
                        dims_text(arena, value->dims, value->rank));
}

const char *value_io_text(Arena *arena, const DemiPlanIo *io) {
    const char *dims = io->has_rank ? arena_printf(arena, "[%s]", io_dims_text(arena, io)) : "";
    return arena_printf(arena, "%s%s%s%s", io->optional ? "optional " : "",
                        io->kind == DEMI_DATA_SEQUENCE_KIND ? "sequence of " : "",
                        dtype_name((Dtype)io->dtype), dims);
}

/* ---- elements -------------------------------------------------------------------------------- */

uint64_t value_count(const DemiData *value) {
    uint64_t count = 0;
    if (value->kind == DEMI_DATA_TENSOR_KIND) checked_count(value->dims, value->rank, &count);
    return count;
}

static size_t element_size(const DemiData *tensor) {
    return kernel_element_size((Dtype)tensor->dtype);
}

double value_item(const DemiData *tensor, uint64_t i) {
    Dtype dtype = (Dtype)tensor->dtype;
    size_t size = element_size(tensor);
    uint64_t bits = 0;
    double value = 0;
    float real;
    if (dtype == DTYPE_STRING) return 0;
    const unsigned char *at = (const unsigned char *)tensor->data + i * size;
    memcpy(&bits, at, size < sizeof bits ? size : sizeof bits);
    if (dtype == DTYPE_COMPLEX128)
        memcpy(&value, at, sizeof value);
    else if (dtype == DTYPE_COMPLEX64)
        value = (double)(memcpy(&real, at, sizeof real), real);
    else
        dtype_to_double(dtype, bits, &value);
    return value;
}

const char *value_item_text(Arena *arena, const DemiData *tensor, uint64_t i) {
    Dtype dtype = (Dtype)tensor->dtype;
    if (dtype == DTYPE_STRING) {
        const DemiString *string = (const DemiString *)tensor->data + i;
        return arena_printf(arena, "\"%.*s\"", (int)(string->size < 64 ? string->size : 64),
                            string->text);
    }
    if (dtype == DTYPE_BOOL) return value_item(tensor, i) != 0 ? "true" : "false";
    if (dtype == DTYPE_INT64) {
        int64_t number;
        memcpy(&number, (const int64_t *)tensor->data + i, sizeof number);
        return arena_printf(arena, "%" PRId64, number);
    }
    return arena_printf(arena, "%.*g", dtype == DTYPE_DOUBLE ? 9 : 6, value_item(tensor, i));
}

DemiData value_convert(Arena *arena, const DemiData *value, int32_t dtype) {
    DemiData made = *value;
    if (value->kind == DEMI_DATA_SEQUENCE_KIND) {
        DemiData *items = ARENA_ARRAY(arena, DemiData, value->count);
        for (size_t i = 0; i < value->count; i++)
            items[i] = value_convert(arena, &value->items[i], dtype);
        made.items = items;
    }
    if (value->kind != DEMI_DATA_TENSOR_KIND || value->dtype == dtype ||
        !dtype_is_float((Dtype)value->dtype) || !dtype_is_float((Dtype)dtype))
        return made;
    uint64_t count = value_count(value);
    size_t size = kernel_element_size((Dtype)dtype);
    unsigned char *data = arena_array(arena, count + 1, size);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        dtype_from_double((Dtype)dtype, value_item(value, i), &bits);
        memcpy(data + i * size, &bits, size);
    }
    made.dtype = dtype;
    made.data = data;
    return made;
}

DemiData value_copy(Arena *arena, const DemiData *value) {
    DemiData made = *value;
    if (value->kind == DEMI_DATA_SEQUENCE_KIND) {
        DemiData *items = ARENA_ARRAY(arena, DemiData, value->count);
        for (size_t i = 0; i < value->count; i++) items[i] = value_copy(arena, &value->items[i]);
        made.items = items;
    }
    if (value->kind != DEMI_DATA_TENSOR_KIND) return made;
    uint64_t count = value_count(value);
    made.dims = arena_copy(arena, value->dims, value->rank * sizeof *value->dims);
    made.data = count ? arena_copy(arena, value->data, count * element_size(value)) : "";
    DemiString *strings = (DemiString *)(uintptr_t)made.data;
    for (uint64_t i = 0; value->dtype == DTYPE_STRING && i < count; i++)
        strings[i].text = arena_copy(arena, strings[i].text, strings[i].size);
    return made;
}

uint64_t value_bytes(const DemiData *value) {
    uint64_t bytes = 0;
    for (size_t i = 0; value->kind == DEMI_DATA_SEQUENCE_KIND && i < value->count; i++)
        bytes += value_bytes(&value->items[i]);
    if (value->kind == DEMI_DATA_TENSOR_KIND) bytes = value_count(value) * element_size(value);
    return bytes;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_all(Arena *arena, const Source *source, Bytes *bytes, Err *err) {
    unsigned char *data = arena_alloc(arena, (size_t)source->size + 1);
    *bytes = (Bytes){data, (size_t)source->size};
    return source_read(source, 0, data, source->size, err);
}

static bool starts(const Source *source, const char *magic, size_t size) {
    char found[8];
    Err ignored = {.code = ERR_NONE};
    return source->size >= size && source_read(source, 0, found, size, &ignored) &&
           memcmp(found, magic, size) == 0;
}

static bool is_zip(const Source *source) {
    return starts(source, "PK\x03\x04", 4) || starts(source, "PK\x05\x06", 4);
}

bool value_is_archive(Arena *arena, const char *path) {
    Err ignored = {.code = ERR_NONE};
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    Arena *within = arena_child(arena);
    const Source *source = source_open(within, path, MOST_FILE, &ignored);
    const bool archive = source && is_zip(source);
    arena_free(within);
    return archive;
}

static bool has_ending(const char *path, const char *ending) {
    size_t size = strlen(path), length = strlen(ending);
    return size >= length && strcmp(path + size - length, ending) == 0;
}

static bool is_array(const Source *source, const char *path) {
    return has_ending(path, ".npy") || starts(source, "\x93NUMPY", 6);
}

bool value_file_open(Arena *arena, const char *path, ValueFile *file, Err *err) {
    *file = (ValueFile){.source = source_open(arena, path, MOST_FILE, err)};
    if (!file->source) return false;
    file->archive = is_zip(file->source);
    if (file->archive) return npz_list(arena, file->source, &file->members, err);
    return is_array(file->source, path) ||
           err_set(err, ERR_USAGE, "neither a .npy file nor an .npz archive");
}

bool value_file_find(Arena *arena, const ValueFile *file, const DemiPlanIo *io, NpyArray *array,
                     Err *err) {
    const NpzMembers *members = &file->members;
    NpyBytes bytes = {file->source, 0, file->source->size};
    if (!file->archive) return npy_open(arena, bytes, io->dtype, array, err);
    const NpzMember *found = members->count == 1 ? &members->items[0] : NULL;
    for (size_t i = 0; i < members->count; i++)
        if (strcmp(members->items[i].name, io->name) == 0) found = &members->items[i];
    if (!found) {
        err_set(err, ERR_USAGE, "the archive has no array '%s'", io->name);
        if (members->count) err_hint(err, "its first one is '%s'", members->items[0].name);
        return false;
    }
    return npz_open(arena, file->source, found, &bytes, err) &&
           npy_open(arena, bytes, io->dtype, array, err);
}

/* All of an array; what is needed for that in `within`. */
static bool read_array(Arena *arena, Arena *within, const ValueFile *file, const DemiPlanIo *io,
                       DemiData *value, Err *err) {
    NpyArray array;
    return value_file_find(within, file, io, &array, err) &&
           npy_read(arena, &array, (NpyRows){0, 0}, value, err);
}

static bool wrong_size(Err *err, const Source *source, uint64_t expected) {
    err_set(err, ERR_USAGE, "the file's length does not fit the shape");
    if (expected) err_expected(err, "%" PRIu64 " bytes", expected);
    err_actual(err, "%" PRIu64, source->size);
    return false;
}

/* Bare elements: one open dim follows from the file's length. */
static bool read_bare(Arena *arena, const Source *source, const DemiPlanIo *io, DemiData *value,
                      Err *err) {
    unsigned bits = dtype_bits((Dtype)io->dtype);
    uint64_t count, size;
    uint32_t open = 0, where = 0;
    Bytes bytes;
    if (io->kind != DEMI_DATA_TENSOR_KIND || !io->has_rank || bits < 8) {
        err_set(err, ERR_USAGE, "cannot read %s from raw elements", value_io_text(arena, io));
        err_hint(err, "provide it as .npy or as a TensorProto, .pb");
        return false;
    }
    int64_t *dims = arena_copy(arena, io->dims, io->rank * sizeof *dims);
    for (uint32_t i = 0; i < io->rank; i++)
        if (dims[i] < 0) dims[i] = 1, where = i, open++;
    if (open > 1) {
        err_set(err, ERR_USAGE, "the shape of raw elements must be known");
        err_actual(err, "%s", value_io_text(arena, io));
        err_hint(err, "give it with --shape %s=...", io->name);
        return false;
    }
    if (!checked_count(dims, io->rank, &count) || !checked_mul(count, bits / 8, &size))
        return wrong_size(err, source, 0);
    if (open && size && source->size % size == 0) {
        dims[where] = (int64_t)(source->size / size);
        size = source->size;
    }
    if (size != source->size) return wrong_size(err, source, size);
    if (!read_all(arena, source, &bytes, err)) return false;
    DemiData made = DEMI_DATA_TENSOR(io->dtype, io->rank, dims, bytes.data);
    *value = made;
    return true;
}

/* The file is closed with `within`. */
static bool read_file(Arena *arena, Arena *within, const char *path, const DemiPlanIo *io,
                      DemiData *value, Err *err) {
    const Source *source = source_open(within, path, MOST_FILE, err);
    bool ok = source;
    if (ok && is_zip(source)) {
        ValueFile file = {source, true, {0}};
        ok = npz_list(within, source, &file.members, err);
        ok = ok && read_array(arena, within, &file, io, value, err);
    } else if (ok && is_array(source, path)) {
        ok = read_array(arena, within, &(ValueFile){source, false, {0}}, io, value, err);
    } else if (ok && has_ending(path, ".npz")) {
        ok = err_set(err, ERR_MODEL, "not an .npz archive");
    } else if (ok && has_ending(path, ".pb")) {
        PbFile file = {.name = path, .kind = io->kind, .optional = io->optional};
        ok = read_all(arena, source, &file.bytes, err) && value_pb_parse(arena, &file, value, err);
    } else if (ok) {
        ok = read_bare(arena, source, io, value, err);
    }
    return ok;
}

bool value_read_file(Arena *arena, const char *path, const DemiPlanIo *io, DemiData *value,
                     Err *err) {
    Arena *within = arena_child(arena);
    const bool ok = read_file(arena, within, path, io, value, err);
    arena_free(within);
    if (!ok) err_file(err, path);
    return ok;
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool tensor_fits(const DemiData *tensor, const DemiPlanIo *io) {
    if (tensor->kind != DEMI_DATA_TENSOR_KIND || tensor->dtype != io->dtype) return false;
    if (!io->has_rank) return true;
    bool same = tensor->rank == io->rank;
    for (uint32_t i = 0; same && i < io->rank; i++)
        same = io->dims[i] < 0 || io->dims[i] == tensor->dims[i];
    return same;
}

bool value_check(Arena *arena, const DemiData *value, const DemiPlanIo *io, Err *err) {
    bool fits = value->kind == DEMI_DATA_NONE ? io->optional : value->kind == io->kind;
    if (fits && value->kind == DEMI_DATA_TENSOR_KIND) fits = tensor_fits(value, io);
    for (size_t i = 0; fits && value->kind == DEMI_DATA_SEQUENCE_KIND && i < value->count; i++)
        fits = tensor_fits(&value->items[i], io);
    if (fits) return true;
    bool same_type = value->kind == io->kind && value->dtype == io->dtype;
    err_set(err, ERR_USAGE, same_type ? "wrong shape" : "wrong type");
    err_expected(err, "%s", value_io_text(arena, io));
    err_actual(err, "%s", value_type_text(arena, value));
    return false;
}

/* ---- names of files ------------------------------------------------------------------------- */

const char *value_file_name(Arena *arena, const char *name) {
    static const char hex[] = "0123456789ABCDEF";
    char *text = arena_alloc(arena, MOST_NAME + 4);
    size_t size = 0;
    if (!name[0]) return "%";
    for (const unsigned char *p = (const unsigned char *)name; *p && size < MOST_NAME; p++) {
        bool plain = (*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= 'a' && *p <= 'z') || strchr("-._~", *p);
        if (!plain) {
            text[size++] = '%';
            text[size++] = hex[*p >> 4];
        }
        text[size++] = plain ? (char)*p : hex[*p & 15];
    }
    return text;
}
