// SPDX-License-Identifier: Apache-2.0
/* Reading of .npy; see npy.h. The header is a Python dictionary literal of three keys: a small
 * parser takes exactly what NumPy writes, in any order and spacing, and nothing that would need
 * Python. */
#include "npy.h"

#include <string.h>

#include "checked.h"
#include "dtype.h"
#include "utf8.h"

enum { MOST_RANK = 64, PREFIX = 8 };

/* ---- header ---------------------------------------------------------------------------------- */

struct NpyHeader {
    char order, kind; /* '<', '>', '|', '='; 'f', 'i', … */
    uint32_t width;   /* of an element in bytes; of 'U', characters */
    bool fortran;
    uint32_t rank;
    int64_t dims[MOST_RANK];
};
typedef NpyHeader Header;

typedef struct Cursor {
    const char *at, *end;
} Cursor;

static void skip_space(Cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}

static bool take(Cursor *c, char wanted) {
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_text(Cursor *c, Bytes *text) {
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    text->data = (const unsigned char *)c->at;
    while (c->at < c->end && *c->at != quote) c->at++;
    text->size = (size_t)(c->at - (const char *)text->data);
    return take(c, quote);
}

static bool take_number(Cursor *c, int64_t *number) {
    skip_space(c);
    const char *start = c->at;
    *number = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, *c->at - '0', number))
            return false;
        c->at++;
    }
    bool some = c->at > start;
    if (c->at < c->end && *c->at == 'L') c->at++; /* written by Python 2 */
    return some;
}

static bool take_word(Cursor *c, const char *word) {
    size_t size = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0) return false;
    c->at += size;
    return true;
}

static bool take_shape(Cursor *c, Header *h) {
    if (!take(c, '(')) return false;
    while (!take(c, ')')) {
        if (h->rank == MOST_RANK || !take_number(c, &h->dims[h->rank++])) return false;
        if (!take(c, ',')) return take(c, ')');
    }
    return true;
}

static bool take_descr(Cursor *c, Header *h) {
    Bytes text;
    if (!take_text(c, &text) || text.size < 2) return false;
    const char *p = (const char *)text.data;
    bool ordered = strchr("<>|=", p[0]);
    Cursor width = {p + ordered + 1, p + text.size};
    int64_t number;
    h->order = ordered ? p[0] : '=';
    h->kind = p[ordered];
    if (h->kind == '?' || h->kind == 'O')
        number = 1;
    else if (!take_number(&width, &number) || number > 1 << 24)
        return false;
    if (width.at != width.end) return false;
    h->width = (uint32_t)number;
    return true;
}

static bool parse_header(Cursor c, Header *h) {
    bool descr = false, order = false, shape = false;
    if (!take(&c, '{')) return false;
    while (!take(&c, '}')) {
        Bytes key;
        if (!take_text(&c, &key) || !take(&c, ':')) return false;
        bool ok = false;
        if (key.size == 5 && memcmp(key.data, "descr", 5) == 0)
            ok = descr = take_descr(&c, h);
        else if (key.size == 13 && memcmp(key.data, "fortran_order", 13) == 0)
            ok = order = (h->fortran = take_word(&c, "True")) || take_word(&c, "False");
        else if (key.size == 5 && memcmp(key.data, "shape", 5) == 0)
            ok = shape = h->rank == 0 && take_shape(&c, h);
        if (!ok) return false;
        if (!take(&c, ',')) {
            if (!take(&c, '}')) return false;
            break;
        }
    }
    return descr && order && shape;
}

/* ---- elements -------------------------------------------------------------------------------- */

static Dtype dtype_of(const Header *h, int32_t wanted) {
    static const struct {
        char kind;
        uint32_t width;
        Dtype dtype;
    } rows[] = {
        {'f', 2, DTYPE_FLOAT16}, {'f', 4, DTYPE_FLOAT},     {'f', 8, DTYPE_DOUBLE},
        {'i', 1, DTYPE_INT8},    {'i', 2, DTYPE_INT16},     {'i', 4, DTYPE_INT32},
        {'i', 8, DTYPE_INT64},   {'u', 1, DTYPE_UINT8},     {'u', 2, DTYPE_UINT16},
        {'u', 4, DTYPE_UINT32},  {'u', 8, DTYPE_UINT64},    {'b', 1, DTYPE_BOOL},
        {'?', 1, DTYPE_BOOL},    {'c', 8, DTYPE_COMPLEX64}, {'c', 16, DTYPE_COMPLEX128},
    };
    unsigned bits = wanted > 0 && wanted < DTYPE_COUNT ? dtype_bits((Dtype)wanted) : 0;
    bool narrow = bits && bits < 8 && h->width == 1 && strchr("iuV", h->kind);
    if (h->kind == 'f' && h->width == 1) return DTYPE_FLOAT8E5M2; /* as ml_dtypes calls it */
    if (narrow || (h->kind == 'V' && bits && (bits + 7) / 8 == h->width)) return (Dtype)wanted;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kind == h->kind && rows[i].width == h->width) return rows[i].dtype;
    return h->kind == 'U' || h->kind == 'S' ? DTYPE_STRING : DTYPE_UNDEFINED;
}

/* Where element i of the file, in column-major order, lies in row-major order. */
static uint64_t row_major(const Header *h, uint64_t i) {
    uint64_t index[MOST_RANK], at = 0;
    for (uint32_t k = 0; k < h->rank; k++) {
        index[k] = i % (uint64_t)h->dims[k];
        i /= (uint64_t)h->dims[k];
    }
    for (uint32_t k = 0; k < h->rank; k++) at = at * (uint64_t)h->dims[k] + index[k];
    return at;
}

static void swap_bytes(unsigned char *bytes, size_t width) {
    for (size_t i = 0; i < width / 2; i++) {
        unsigned char byte = bytes[i];
        bytes[i] = bytes[width - 1 - i];
        bytes[width - 1 - i] = byte;
    }
}

static bool is_swapped(const Header *h) {
    return h->order == '>';
}

static DemiString text_of(Arena *arena, const Header *h, const unsigned char *from) {
    if (h->kind == 'S') {
        size_t size = h->width;
        while (size && !from[size - 1]) size--;
        return (DemiString){size, arena_copy(arena, from, size)};
    }
    char *text = arena_alloc(arena, (size_t)h->width * UTF8_MOST + 1);
    size_t size = 0;
    for (uint32_t i = 0; i < h->width; i++) {
        unsigned char bytes[4];
        uint32_t code;
        memcpy(bytes, from + (size_t)i * 4, 4);
        if (is_swapped(h)) swap_bytes(bytes, 4);
        memcpy(&code, bytes, 4);
        if (!code) break;
        size += utf8_put(text + size, code);
    }
    return (DemiString){size, text};
}

/* Bytes of an element in the file. */
static size_t width_of(const Header *h) {
    return h->kind == 'U' ? (size_t)h->width * 4 : h->width;
}

/* As demi lays them out: `data` itself where that is how they are there. */
static const void *elements(Arena *arena, const Header *h, Dtype dtype, unsigned char *data,
                            uint64_t count) {
    const size_t width = width_of(h);
    const bool text = dtype == DTYPE_STRING;
    const size_t size = text ? sizeof(DemiString) : width;
    const size_t unit = dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128 ? width / 2 : width;
    unsigned char *to = text || h->fortran ? arena_array(arena, count + 1, size) : data;
    for (uint64_t i = 0; to != data && i < count; i++) {
        const unsigned char *from = data + i * width;
        unsigned char *slot = to + (h->fortran ? row_major(h, i) : i) * size;
        DemiString string;
        if (text) string = text_of(arena, h, from);
        memcpy(slot, text ? (const void *)&string : from, size);
    }
    for (uint64_t i = 0; !text && is_swapped(h) && i < count * width / unit; i++)
        swap_bytes(to + i * unit, unit);
    if (dtype == DTYPE_BOOL)
        for (uint64_t i = 0; i < count; i++) to[i] = to[i] != 0;
    return to;
}

/* Where the header's text begins, and how long it is. */
static bool find_header(NpyBytes bytes, uint64_t *start, uint64_t *length, Err *err) {
    static const char magic[] = "\x93NUMPY";
    unsigned char p[PREFIX + 4];
    if (bytes.size < sizeof p) return err_set(err, ERR_MODEL, "not a .npy file");
    if (!source_read(bytes.source, bytes.at, p, sizeof p, err)) return false;
    if (memcmp(p, magic, 6) != 0) return err_set(err, ERR_MODEL, "not a .npy file");
    *start = p[6] == 1 ? PREFIX + 2 : PREFIX + 4;
    *length = p[8] | (uint64_t)p[9] << 8;
    if (p[6] != 1) *length |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
    if (p[6] < 1 || p[6] > 3)
        return err_set(err, ERR_MODEL, "a .npy file of version %u.%u", p[6], p[7]);
    return *length <= bytes.size - *start || err_set(err, ERR_MODEL, "the .npy file is truncated");
}

static bool check_dtype(const Header *h, Dtype dtype, Err *err) {
    if (dtype != DTYPE_UNDEFINED) return true;
    if (h->kind == 'O')
        return err_set(err, ERR_MODEL, "its objects are pickled; demi only reads numbers");
    return err_set(err, ERR_MODEL, "the array's type '%c%u' has no counterpart in ONNX", h->kind,
                   h->width);
}

static bool check_size(const Header *h, uint64_t has, Err *err) {
    uint64_t count, size;
    const bool fits =
        checked_count(h->dims, h->rank, &count) && checked_mul(count, width_of(h), &size);
    if (fits && size == has) return true;
    err_set(err, ERR_MODEL, "the .npy file's length does not fit its shape");
    if (fits) err_expected(err, "%llu bytes of data", (unsigned long long)size);
    err_actual(err, "%llu", (unsigned long long)has);
    return false;
}

bool npy_open(Arena *arena, NpyBytes bytes, int32_t wanted, NpyArray *array, Err *err) {
    uint64_t start = 0, length = 0;
    if (!find_header(bytes, &start, &length, err)) return false;
    char *text = arena_alloc(arena, length + 1);
    if (!source_read(bytes.source, bytes.at + start, text, length, err)) return false;
    Header *h = ARENA_NEW(arena, Header);
    h->order = '<';
    if (!parse_header((Cursor){text, text + length}, h))
        return err_set(err, ERR_MODEL, "cannot parse the header of the .npy file");
    const Dtype dtype = dtype_of(h, wanted);
    const uint64_t has = bytes.size - start - length;
    if (!check_dtype(h, dtype, err) || !check_size(h, has, err)) return false;
    *array = (NpyArray){.data = {bytes.source, bytes.at + start + length, has},
                        .dtype = (int32_t)dtype,
                        .rank = h->rank,
                        .dims = h->dims,
                        .header = h};
    return true;
}

static bool read_elements(Arena *arena, const NpyArray *array, NpyBytes from, uint64_t count,
                          const void **data, Err *err) {
    unsigned char *bytes = arena_alloc_raw(arena, from.size + 1);
    if (!source_read(from.source, from.at, bytes, from.size, err)) return false;
    *data = elements(arena, array->header, (Dtype)array->dtype, bytes, count);
    return true;
}

/* Bytes of a row as they were read, those of an array that is not there yet counted. */
static size_t element_size(const NpyArray *array) {
    return array->dtype == DTYPE_STRING ? sizeof(DemiString) : width_of(array->header);
}

bool npy_read(Arena *arena, const NpyArray *array, NpyRows rows, DemiData *value, Err *err) {
    int64_t *dims = arena_copy(arena, array->dims, array->rank * sizeof *dims);
    uint64_t count = 1, row = 1;
    const void *data;
    for (uint32_t i = 0; i < array->rank; i++) count *= (uint64_t)dims[i];
    NpyBytes from = array->data;
    if (rows.count) {
        if (!array->rank || rows.first + rows.count > (uint64_t)dims[0])
            return err_set(err, ERR_USAGE, "the array has fewer rows than others");
        for (uint32_t i = 1; i < array->rank; i++) row *= (uint64_t)dims[i];
        dims[0] = (int64_t)rows.count;
    }
    const bool part = rows.count && !array->header->fortran; /* whose rows lie apart */
    if (part) {
        const uint64_t bytes = row * width_of(array->header);
        count = rows.count * row;
        from.at += rows.first * bytes;
        from.size = rows.count * bytes;
    }
    if (!read_elements(arena, array, from, count, &data, err)) return false;
    if (rows.count && !part)
        data = (const unsigned char *)data + rows.first * row * element_size(array);
    const DemiData made = DEMI_DATA_TENSOR(array->dtype, array->rank, dims, data);
    *value = made;
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *descr_of(Dtype dtype) {
    switch (dtype) {
    case DTYPE_FLOAT: return "<f4";
    case DTYPE_DOUBLE: return "<f8";
    case DTYPE_FLOAT16: return "<f2";
    case DTYPE_INT8:
    case DTYPE_INT4:
    case DTYPE_INT2: return "|i1";
    case DTYPE_UINT8:
    case DTYPE_UINT4:
    case DTYPE_UINT2: return "|u1";
    case DTYPE_INT16: return "<i2";
    case DTYPE_UINT16: return "<u2";
    case DTYPE_INT32: return "<i4";
    case DTYPE_UINT32: return "<u4";
    case DTYPE_INT64: return "<i8";
    case DTYPE_UINT64: return "<u8";
    case DTYPE_BOOL: return "|b1";
    case DTYPE_COMPLEX64: return "<c8";
    case DTYPE_COMPLEX128: return "<c16";
    case DTYPE_BFLOAT16: return "|V2";
    case DTYPE_FLOAT8E4M3FN:
    case DTYPE_FLOAT8E4M3FNUZ:
    case DTYPE_FLOAT8E5M2:
    case DTYPE_FLOAT8E5M2FNUZ:
    case DTYPE_FLOAT8E8M0:
    case DTYPE_FLOAT4E2M1:
    case DTYPE_FLOAT6E2M3:
    case DTYPE_FLOAT6E3M2: return "|V1";
    case DTYPE_STRING:
    case DTYPE_UNDEFINED:
    case DTYPE_COUNT: break;
    }
    return NULL;
}

/* Strings as code points, all as long as the longest. */
static const void *wide_strings(Arena *arena, const DemiString *strings, uint64_t count,
                                uint32_t *width) {
    uint64_t most = 1, size;
    for (uint64_t i = 0; i < count; i++)
        if (strings[i].size > most) most = strings[i].size;
    if (!checked_mul(most * 4, count, &size)) arena_exhausted(arena);
    uint32_t *codes = arena_alloc(arena, size + 1);
    *width = 1;
    for (uint64_t i = 0; i < count; i++) {
        Bytes left = {(const unsigned char *)strings[i].text, strings[i].size};
        uint32_t n = 0;
        while (left.size) codes[i * most + n++] = utf8_take(&left);
        if (n > *width) *width = n;
    }
    for (uint64_t i = 1; i < count; i++)
        memmove(codes + i * *width, codes + i * most, *width * sizeof *codes);
    return codes;
}

/* 2- and 4-bit integers with their sign. */
static const void *signed_narrow(Arena *arena, const DemiData *tensor, uint64_t count) {
    unsigned spare = 8 - dtype_bits((Dtype)tensor->dtype);
    const unsigned char *from = tensor->data;
    signed char *to = arena_alloc(arena, count + 1);
    for (uint64_t i = 0; i < count; i++)
        to[i] = (signed char)((signed char)(unsigned char)(from[i] << spare) >> spare);
    return to;
}

static const char *header_of(Arena *arena, const DemiData *tensor, const char *descr) {
    const char *shape = "";
    for (uint32_t i = 0; i < tensor->rank; i++)
        shape = arena_printf(arena, "%s%lld,%s", shape, (long long)tensor->dims[i],
                             i + 1 < tensor->rank ? " " : "");
    return arena_printf(arena, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr,
                        shape);
}

bool npy_write(OutFile *file, Arena *arena, const DemiData *tensor, Err *err) {
    Dtype dtype = (Dtype)tensor->dtype;
    const char *descr = descr_of(dtype);
    const void *data = tensor->data;
    uint64_t count, size;
    uint32_t width = (dtype_bits(dtype) + 7) / 8;
    if (!checked_count(tensor->dims, tensor->rank, &count)) arena_exhausted(arena);
    if (dtype == DTYPE_INT4 || dtype == DTYPE_INT2) data = signed_narrow(arena, tensor, count);
    if (dtype == DTYPE_STRING) {
        data = wide_strings(arena, data, count, &width);
        descr = arena_printf(arena, "<U%u", width);
        width *= 4;
    }
    if (!descr || !checked_mul(count, width, &size))
        return err_set(err, ERR_MODEL, "a value of unknown type");
    const char *header = header_of(arena, tensor, descr);
    size_t length = strlen(header);
    unsigned char prefix[12] = "\x93NUMPY\x01";
    size_t start = length + 64 + PREFIX > UINT16_MAX ? PREFIX + 4 : PREFIX + 2;
    size_t padded = (start + length + 1 + 63) / 64 * 64 - start; /* data is 64-byte aligned */
    prefix[6] = start == PREFIX + 2 ? 1 : 2;
    for (size_t i = 0; i < start - PREFIX; i++)
        prefix[PREFIX + i] = (unsigned char)(padded >> 8 * i);
    char *text = arena_alloc(arena, padded);
    memset(text, ' ', padded);
    memcpy(text, header, length);
    text[padded - 1] = '\n';
    return outfile_write(file, prefix, start, err) && outfile_write(file, text, padded, err) &&
           (!size || outfile_write(file, data, size, err));
}
