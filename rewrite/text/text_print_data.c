// SPDX-License-Identifier: Apache-2.0
/* Prints tensors: their elements in the form that reads back as the same bits in the same field.
 *
 * A tensor's usual field (tensor_field_of) needs no word; raw_data is @raw{…}, any other field
 * @store(field){…}. Data that its dtype and dims don't explain, wrong lengths for instance, is
 * printed as the field's numbers or as hexadecimal bytes, so that nothing is lost.
 */
#include <stdio.h>
#include <string.h>

#include "checked.h"
#include "text_out.h"
#include "text_words.h"

enum {
    ELIDED = 16,       /* elements above which TEXT_SHORT prints none */
    WINDOW = 48 * 256, /* bytes read at a time: whole elements of every width */
};

static bool elide(TextOut *out, uint64_t count) {
    if (out->detail != TEXT_SHORT || count <= ELIDED) return false;
    char text[64];
    snprintf(text, sizeof text, "{\xe2\x80\xa6 %llu elements}", (unsigned long long)count);
    out_text(out, text);
    return true;
}

static bool is_complex(Dtype dtype) {
    return dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128;
}

static bool is_signed(Dtype dtype) {
    return dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 ||
           dtype == DTYPE_INT64;
}

/* The integer of `width` bytes at bytes, extended by its sign where it has one. */
static uint64_t load(const unsigned char *bytes, unsigned width, bool sign) {
    uint64_t value = 0;
    memcpy(&value, bytes, width);
    if (!sign || width == 8) return value;
    uint64_t top = UINT64_C(1) << (width * 8 - 1);
    return (value ^ top) - top;
}

/* One element of at least a byte, of raw data. Complex ones come as their two halves. */
static void out_element(TextOut *out, Dtype dtype, const unsigned char *bytes, unsigned width) {
    char text[TEXT_NUMBER];
    float f;
    double d;
    uint64_t bits = load(bytes, width, is_signed(dtype));
    if (dtype == DTYPE_FLOAT) {
        memcpy(&f, bytes, sizeof f);
        out_bytes(out, text, text_format_float(text, f));
    } else if (dtype == DTYPE_DOUBLE) {
        memcpy(&d, bytes, sizeof d);
        out_bytes(out, text, text_format_double(text, d));
    } else if (text_is_small_float(dtype)) {
        out_bytes(out, text, text_format_element(text, dtype, bits));
    } else if (is_signed(dtype)) {
        out_int(out, (int64_t)bits);
    } else {
        out_bytes(out, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)bits));
    }
}

static void out_separator(TextOut *out, uint64_t index) {
    if (index) out_text(out, ", ");
}

/* Elements narrower than a byte, from packed bytes; bit `first` on. */
static void out_packed(TextOut *out, Dtype dtype, const unsigned char *bytes, uint64_t count) {
    unsigned width = dtype_bits(dtype);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = i * width;
        unsigned both = bytes[bit / 8];
        if (bit % 8 + width > 8) both |= (unsigned)bytes[bit / 8 + 1] << 8;
        char text[TEXT_NUMBER];
        uint64_t element = both >> (bit % 8) & ((1u << width) - 1);
        out_bytes(out, text, text_format_element(text, dtype, element));
        if (i + 1 < count) out_text(out, ", ");
    }
}

/* ---- typed fields ---------------------------------------------------------------------------- */

static Dtype field_dtype(TensorStorage storage) {
    switch (storage) {
    case TENSOR_FLOATS: return DTYPE_FLOAT;
    case TENSOR_INT32S: return DTYPE_INT32;
    case TENSOR_INT64S: return DTYPE_INT64;
    case TENSOR_DOUBLES: return DTYPE_DOUBLE;
    case TENSOR_UINT64S: return DTYPE_UINT64;
    case TENSOR_NO_DATA:
    case TENSOR_RAW:
    case TENSOR_STRINGS:
    case TENSOR_EXTERNAL: break;
    }
    return DTYPE_UNDEFINED;
}

/* Bytes of the packed form that `tensor`'s dims ask for, and its elements; false where that can't
 * be said. */
static bool packed_size(const Tensor *tensor, uint64_t *count, uint64_t *size) {
    return checked_count(tensor->dims, tensor->rank, count) &&
           dtype_bytes((Dtype)tensor->dtype, *count, size);
}

/* True where the bits of the last byte beyond `count` elements are zero. */
static bool padding_is_zero(Dtype dtype, uint64_t count, unsigned last) {
    unsigned used = (unsigned)(count % 8 * dtype_bits(dtype) % 8);
    return used == 0 || last >> used == 0;
}

/* 2- and 4-bit elements in int32_data, one byte an entry: true where they are as dims ask. */
static bool entries_are_packed(const Tensor *tensor, const int32_t *entries, uint64_t entry_count,
                               uint64_t *count) {
    uint64_t size;
    if (!text_is_packed((Dtype)tensor->dtype) || !packed_size(tensor, count, &size) ||
        size != entry_count || size == 0)
        return false;
    for (uint64_t i = 0; i < entry_count; i++)
        if (entries[i] < 0 || entries[i] > 255) return false;
    return padding_is_zero((Dtype)tensor->dtype, *count, (unsigned)entries[entry_count - 1]);
}

static void out_packed_entries(TextOut *out, const Tensor *tensor, uint64_t count) {
    unsigned per_byte = 8 / dtype_bits((Dtype)tensor->dtype);
    for (uint64_t i = 0; i < count; i += per_byte) {
        unsigned char byte = tensor->bytes[i / per_byte * 4]; /* little-endian */
        out_separator(out, i);
        out_packed(out, (Dtype)tensor->dtype, &byte, count - i < per_byte ? count - i : per_byte);
    }
}

static void out_entry(TextOut *out, const Tensor *tensor, uint64_t index, bool usual) {
    unsigned width = tensor_field_width(tensor->storage);
    const unsigned char *bytes = tensor->bytes + index * width;
    int32_t entry;
    memcpy(&entry, bytes, sizeof entry);
    bool element = usual && tensor->storage == TENSOR_INT32S &&
                   text_is_small_float((Dtype)tensor->dtype) && entry >= 0 &&
                   entry >> dtype_bits((Dtype)tensor->dtype) == 0;
    if (element)
        out_element(out, (Dtype)tensor->dtype, bytes, 4);
    else
        out_element(out, field_dtype(tensor->storage), bytes, width);
}

static void out_field(TextOut *out, const Tensor *tensor) {
    bool strings = tensor->storage == TENSOR_STRINGS;
    uint64_t entries =
        strings ? tensor->string_count : tensor->size / tensor_field_width(tensor->storage);
    bool usual = entries && tensor_field_of((Dtype)tensor->dtype) == tensor->storage;
    if (!usual) {
        out_text(out, "@store(");
        out_text(out, text_word_name(text_storages, (int)tensor->storage));
        out_text(out, ") ");
    }
    uint64_t count = entries;
    bool packed =
        usual && !strings &&
        entries_are_packed(tensor, (const int32_t *)(const void *)tensor->bytes, entries, &count);
    if (!packed) count = entries;
    if (elide(out, count)) return;
    out_text(out, "{");
    if (packed) out_packed_entries(out, tensor, count);
    for (uint64_t i = 0; i < entries && !packed; i++) {
        out_separator(out, i);
        if (strings)
            out_quoted(out, (const char *)tensor->strings[i].data, tensor->strings[i].size);
        else
            out_entry(out, tensor, i, usual);
    }
    out_text(out, "}");
}

/* ---- raw data -------------------------------------------------------------------------------- */

/* Reads stored bytes; those of a lazy cast are converted. */
static bool read_raw(TextOut *out, const Tensor *tensor, uint64_t offset, void *to, uint64_t size) {
    bool ok = true;
    if (tensor->cast_of)
        ok = tensor_read_raw(tensor, offset, to, size, out->err);
    else if (tensor->source)
        ok = source_read(tensor->source, tensor->offset + offset, to, size, out->err);
    else if (size)
        memcpy(to, tensor->bytes + offset, size);
    if (!ok) out->failed = true;
    return ok;
}

static void out_raw_hex(TextOut *out, const Tensor *tensor, uint64_t size) {
    unsigned char window[WINDOW];
    out_text(out, "@raw(\"");
    for (uint64_t at = 0; at < size;) {
        uint64_t now = size - at < WINDOW ? size - at : WINDOW;
        if (!read_raw(out, tensor, at, window, now)) return;
        for (uint64_t i = 0; i < now; i++) {
            char hex[3];
            snprintf(hex, sizeof hex, "%02x", window[i]);
            out_bytes(out, hex, 2);
        }
        at += now;
    }
    out_text(out, "\")");
}

/* True where the bytes are whole elements (of packed ones: as many as dims ask, with zero padding);
 * says how many. */
static bool raw_elements(TextOut *out, const Tensor *tensor, uint64_t size, uint64_t *count) {
    Dtype dtype = (Dtype)tensor->dtype;
    unsigned bits = dtype_bits(dtype);
    if (bits == 0) return false;
    if (bits >= 8) {
        *count = size / (bits / 8);
        return size % (bits / 8) == 0;
    }
    uint64_t wanted;
    unsigned char last = 0;
    return packed_size(tensor, count, &wanted) && wanted == size &&
           read_raw(out, tensor, size - 1, &last, 1) && padding_is_zero(dtype, *count, last);
}

static void out_raw_elements(TextOut *out, const Tensor *tensor, uint64_t size, uint64_t count) {
    Dtype dtype = (Dtype)tensor->dtype;
    unsigned bits = dtype_bits(dtype), width = bits / 8;
    if (is_complex(dtype)) {
        dtype = dtype == DTYPE_COMPLEX64 ? DTYPE_FLOAT : DTYPE_DOUBLE;
        width /= 2;
    }
    unsigned char window[WINDOW];
    for (uint64_t at = 0; at < size;) {
        uint64_t now = size - at < WINDOW ? size - at : WINDOW;
        if (!read_raw(out, tensor, at, window, now)) return;
        out_separator(out, at);
        if (width == 0) {
            uint64_t before = at * 8 / bits;
            uint64_t here = now * 8 / bits < count - before ? now * 8 / bits : count - before;
            out_packed(out, dtype, window, here);
        }
        for (uint64_t i = 0; width && i < now; i += width) {
            out_separator(out, i);
            out_element(out, dtype, window + i, width);
        }
        at += now;
    }
}

static void out_raw(TextOut *out, const Tensor *tensor) {
    uint64_t size = tensor->size, count = 0;
    if (tensor->cast_of) {
        if (!tensor_check(tensor, out->err)) {
            out->failed = true;
            return;
        }
        size = tensor_raw_size(tensor);
    }
    if (size == 0) {
        out_text(out, "@raw {}");
        return;
    }
    bool elements = raw_elements(out, tensor, size, &count);
    if (out->detail == TEXT_SHORT && (elements ? count : size) > ELIDED) {
        out_text(out, "@raw ");
        elide(out, elements ? count : size);
        return;
    }
    if (!elements) {
        out_raw_hex(out, tensor, size);
        return;
    }
    out_text(out, "@raw {");
    out_raw_elements(out, tensor, size, count);
    out_text(out, "}");
}

/* ---- whole tensors --------------------------------------------------------------------------- */

static void out_tensor_type(TextOut *out, const Tensor *tensor) {
    if (tensor->has_dtype && tensor->dtype > 0 && tensor->dtype < DTYPE_COUNT) {
        out_text(out, dtype_name((Dtype)tensor->dtype));
    } else {
        out_text(out, "?");
        if (tensor->has_dtype) out_int(out, tensor->dtype);
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        out_text(out, i ? "," : "[");
        out_int(out, tensor->dims[i]);
    }
    if (tensor->rank) out_text(out, "]");
}

void out_tensor(TextOut *out, const Tensor *tensor, Sym name, bool initializer) {
    out_tensor_type(out, tensor);
    out_text(out, " ");
    if (name) {
        out_name(out, name);
        out_text(out, " ");
    }
    if (initializer || tensor->storage == TENSOR_EXTERNAL) out_text(out, "= ");
    switch (tensor->storage) {
    case TENSOR_NO_DATA: out_text(out, "{}"); break;
    case TENSOR_RAW: out_raw(out, tensor); break;
    case TENSOR_EXTERNAL: out_entries(out, tensor->external); break;
    case TENSOR_FLOATS:
    case TENSOR_INT32S:
    case TENSOR_INT64S:
    case TENSOR_DOUBLES:
    case TENSOR_UINT64S:
    case TENSOR_STRINGS: out_field(out, tensor); break;
    }
    if (tensor->storage != TENSOR_EXTERNAL && tensor->external) {
        out_text(out, " @external");
        out_entries(out, tensor->external);
    }
    const TensorExtra *extra = tensor_extra(tensor);
    out_extras(out, extra->doc, extra->metadata, extra->rest);
}

void out_sparse(TextOut *out, const SparseTensor *sparse, Sym name) {
    out_text(out, text_word_name(text_type_kinds, TYPE_SPARSE_TENSOR));
    for (uint32_t i = 0; i < sparse->rank; i++) {
        out_text(out, i ? "," : "[");
        out_int(out, sparse->dims[i]);
    }
    if (sparse->rank) out_text(out, "]");
    if (name) {
        out_text(out, " ");
        out_name(out, name);
        out_text(out, " =");
    }
    out_text(out, " {");
    if (sparse->values)
        out_tensor(out, sparse->values, name ? NULL : sparse->values->name, false);
    else
        out_text(out, "!");
    out_text(out, ", ");
    if (sparse->indices)
        out_tensor(out, sparse->indices, sparse->indices->name, false);
    else
        out_text(out, "!");
    out_text(out, "}");
    out_rest(out, "unknown", sparse->rest);
}
