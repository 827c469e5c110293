// SPDX-License-Identifier: Apache-2.0
/* Tables and number formats of the text form; see text_words.h for the rule that both directions
 * share them. */
#include "text_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "real_text.h"

const TextWord text_attr_types[] = {
    {"float", ATTR_FLOAT},
    {"int", ATTR_INT},
    {"string", ATTR_STRING},
    {"tensor", ATTR_TENSOR},
    {"graph", ATTR_GRAPH},
    {"sparse_tensor", ATTR_SPARSE_TENSOR},
    {"type_proto", ATTR_TYPE},
    {"floats", ATTR_FLOATS},
    {"ints", ATTR_INTS},
    {"strings", ATTR_STRINGS},
    {"tensors", ATTR_TENSORS},
    {"graphs", ATTR_GRAPHS},
    {"sparse_tensors", ATTR_SPARSE_TENSORS},
    {"type_protos", ATTR_TYPES},
    {NULL, 0},
};

const TextWord text_storages[] = {
    {"float_data", TENSOR_FLOATS},
    {"int32_data", TENSOR_INT32S},
    {"int64_data", TENSOR_INT64S},
    {"double_data", TENSOR_DOUBLES},
    {"uint64_data", TENSOR_UINT64S},
    {"string_data", TENSOR_STRINGS},
    {NULL, 0},
};

const TextWord text_type_kinds[] = {
    {"seq", TYPE_SEQUENCE},      {"map", TYPE_MAP},
    {"optional", TYPE_OPTIONAL}, {"sparse_tensor", TYPE_SPARSE_TENSOR},
    {"opaque", TYPE_OPAQUE},     {NULL, 0},
};

const TextWord text_fields[] = {
    {"ir_version", FIELD_IR_VERSION},
    {"opset_import", FIELD_OPSET_IMPORT},
    {"producer_name", FIELD_PRODUCER_NAME},
    {"producer_version", FIELD_PRODUCER_VERSION},
    {"domain", FIELD_DOMAIN},
    {"model_version", FIELD_MODEL_VERSION},
    {"doc_string", FIELD_DOC},
    {"metadata_props", FIELD_METADATA},
    {"overload", FIELD_OVERLOAD},
    {"unknown", FIELD_UNKNOWN},
    {"initialization", FIELD_INITIALIZATION},
    {"algorithm", FIELD_ALGORITHM},
    {"initialization_binding", FIELD_INITIALIZATION_BINDING},
    {"update_binding", FIELD_UPDATE_BINDING},
    {NULL, 0},
};

const TextWord text_marks[] = {
    {"doc", MARK_DOC},
    {"meta", MARK_META},
    {"unknown", MARK_UNKNOWN},
    {"quant", MARK_QUANT},
    {"device", MARK_DEVICE},
    {"training", MARK_TRAINING},
    {"raw", MARK_RAW},
    {"store", MARK_STORE},
    {"external", MARK_EXTERNAL},
    {"denotation", MARK_DENOTATION},
    {"dim_unknown", MARK_DIM_UNKNOWN},
    {"type_unknown", MARK_TYPE_UNKNOWN},
    {"inner_unknown", MARK_INNER_UNKNOWN},
    {"shape_unknown", MARK_SHAPE_UNKNOWN},
    {"untyped", MARK_UNTYPED},
    {"attr_doc", MARK_ATTR_DOC},
    {"attr_unknown", MARK_ATTR_UNKNOWN},
    {NULL, 0},
};

int text_word_value(const TextWord *words, const char *text, size_t length) {
    for (; words->name; words++)
        if (strlen(words->name) == length && !memcmp(words->name, text, length))
            return words->value;
    return -1;
}

const char *text_word_name(const TextWord *words, int value) {
    for (; words->name; words++)
        if (words->value == value) return words->name;
    return NULL;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool text_is_identifier(const char *text, size_t length) {
    if (length == 0 || !is_letter(text[0])) return false;
    for (size_t i = 1; i < length; i++)
        if (!is_letter(text[i]) && !(text[i] >= '0' && text[i] <= '9')) return false;
    return true;
}

bool text_is_dotted(const char *text, size_t length) {
    const char *at = text, *end = text + length;
    for (;;) {
        const char *dot = memchr(at, '.', (size_t)(end - at));
        if (!text_is_identifier(at, (size_t)((dot ? dot : end) - at))) return false;
        if (!dot) return true;
        at = dot + 1;
    }
}

Dtype text_dtype(const char *text, size_t length) {
    /* Other spellings, like half, are names of values to ONNX. */
    Dtype dtype = dtype_from_name(text, length);
    const char *name = dtype_name(dtype);
    return strlen(name) == length && !memcmp(name, text, length) ? dtype : DTYPE_UNDEFINED;
}

bool text_is_type_word(const char *text, size_t length) {
    return text_dtype(text, length) != DTYPE_UNDEFINED ||
           text_word_value(text_type_kinds, text, length) >= 0;
}

bool text_is_float_word(const char *text, size_t length) {
    char lower[9];
    if (length < 3 || length > 8) return false;
    for (size_t i = 0; i < length; i++) lower[i] = (char)(text[i] | 0x20);
    lower[length] = '\0';
    return !strcmp(lower, "inf") || !strcmp(lower, "nan") || !strcmp(lower, "infinity");
}

bool text_is_small_float(Dtype dtype) {
    unsigned bits = dtype_bits(dtype);
    return dtype_is_float(dtype) && bits >= 6 && bits <= 16;
}

bool text_is_packed(Dtype dtype) {
    unsigned bits = dtype_bits(dtype);
    return bits == 2 || bits == 4;
}

/* ---- numbers --------------------------------------------------------------------------------- */

bool text_read_float(const char *text, size_t length, float *value) {
    return real_read_float(text, length, value);
}

bool text_read_double(const char *text, size_t length, double *value) {
    return real_read(text, length, value);
}

size_t text_format_float(char buffer[TEXT_NUMBER], float value) {
    uint32_t bits, back_bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) {
        bool usual = (bits & 0x7fffffffu) == 0x7fc00000u;
        const char *form = !usual ? "nan(0x%x)" : bits >> 31 ? "-nan" : "nan";
        return (size_t)snprintf(buffer, TEXT_NUMBER, form, (unsigned)bits);
    }
    /* Six digits give back any six-digit decimal, so fewer are never needed but for subnormals. */
    for (int digits = fpclassify(value) == FP_SUBNORMAL ? 1 : 6;; digits++) {
        size_t length = real_format(buffer, digits, (double)value);
        float back = 0;
        if (!text_read_float(buffer, length, &back)) continue;
        memcpy(&back_bits, &back, sizeof back_bits);
        if (back_bits == bits || digits >= 9) return length;
    }
}

size_t text_format_double(char buffer[TEXT_NUMBER], double value) {
    uint64_t bits, back_bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) {
        bool usual = bits << 1 >> 1 == 0x7ff8000000000000u;
        const char *form = !usual ? "nan(0x%llx)" : bits >> 63 ? "-nan" : "nan";
        return (size_t)snprintf(buffer, TEXT_NUMBER, form, (unsigned long long)bits);
    }
    for (int digits = fpclassify(value) == FP_SUBNORMAL ? 1 : 15;; digits++) {
        size_t length = real_format(buffer, digits, value);
        double back = 0;
        if (!text_read_double(buffer, length, &back)) continue;
        memcpy(&back_bits, &back, sizeof back_bits);
        if (back_bits == bits || digits >= 17) return length;
    }
}

/* True where `back`, which lies below value in size, is the dtype's largest number and value lies
 * more than half a step beyond: it was cut, not rounded. */
static bool saturated(Dtype dtype, uint64_t bits, double value, double back) {
    double above, below;
    if (back == 0 || !dtype_to_double(dtype, bits + 1, &above) ||
        !dtype_to_double(dtype, bits - 1, &below))
        return false;
    if (isfinite(above) && fabs(above) > fabs(back)) return false;
    return fabs(value) - fabs(back) > (fabs(back) - fabs(below)) / 2;
}

bool text_read_element(Dtype dtype, const char *text, size_t length, uint64_t *bits) {
    double value, back;
    if (!text_read_double(text, length, &value) || isnan(value)) return false;
    if (!dtype_from_double(dtype, value, bits) || !dtype_to_double(dtype, *bits, &back))
        return false;
    if (isinf(value) || isinf(back)) return isinf(value) && isinf(back);
    if (!dtype_is_float(dtype)) return back == value;
    return fabs(value) <= fabs(back) || !saturated(dtype, *bits, value, back);
}

size_t text_format_element(char buffer[TEXT_NUMBER], Dtype dtype, uint64_t bits) {
    double value;
    if (!dtype_to_double(dtype, bits, &value) || isnan(value))
        return (size_t)snprintf(buffer, TEXT_NUMBER, "%llu", (unsigned long long)bits);
    /* Whole numbers as they are, and the coarse types with four digits: their shortest decimals,
     * like 3e+01 for 28, would be too far from the value to be read by people. */
    int least = dtype_bits(dtype) < 16 ? 4 : 1;
    if (fabs(value) < 1e6 && rint(value) == value) least = 6;
    for (int digits = least;; digits++) {
        size_t length = real_format(buffer, digits, value);
        uint64_t back = 0;
        bool same = text_read_element(dtype, buffer, length, &back) && back == bits;
        if (!same && digits < 17) continue;
        memcpy(buffer + length, "v", 2);
        return length + 1;
    }
}

/* ---- opaque types ---------------------------------------------------------------------------- */

/* Tags of length-delimited fields: TypeProto.opaque_type, Opaque.domain, Opaque.name. */
enum { OPAQUE_TAG = 7 << 3 | 2, DOMAIN_TAG = 1 << 3 | 2, NAME_TAG = 2 << 3 | 2 };

static size_t varint_size(size_t value) {
    size_t size = 1;
    for (; value >= 0x80; value >>= 7) size++;
    return size;
}

static size_t field_size(Sym text) {
    return text ? 1 + varint_size(text->length) + text->length : 0;
}

static unsigned char *put_varint(unsigned char *to, size_t value) {
    for (; value >= 0x80; value >>= 7) *to++ = (unsigned char)(value | 0x80);
    *to++ = (unsigned char)value;
    return to;
}

static unsigned char *put_field(unsigned char *to, int tag, Sym text) {
    if (!text) return to;
    *to++ = (unsigned char)tag;
    to = put_varint(to, text->length);
    memcpy(to, text->text, text->length);
    return to + text->length;
}

Bytes text_opaque_encode(Arena *arena, Sym domain, Sym name) {
    size_t inner = field_size(domain) + field_size(name), size = 1 + varint_size(inner) + inner;
    unsigned char *bytes = arena_alloc(arena, size), *to = bytes;
    *to++ = OPAQUE_TAG;
    to = put_varint(to, inner);
    to = put_field(to, DOMAIN_TAG, domain);
    put_field(to, NAME_TAG, name);
    return (Bytes){bytes, size};
}

/* Takes a field with that tag from the front of `rest`, if it is there; lengths must be in their
 * shortest form. */
static bool take_field(Bytes *rest, int tag, Bytes *field) {
    *field = (Bytes){NULL, 0};
    if (rest->size < 2 || rest->data[0] != tag) return false;
    size_t length = 0, at = 1;
    for (unsigned shift = 0; shift < 35 && at < rest->size; shift += 7) {
        unsigned char byte = rest->data[at++];
        length |= (size_t)(byte & 0x7f) << shift;
        if (byte < 0x80) break;
    }
    if (at != 1 + varint_size(length) || length > rest->size - at) return false;
    *field = (Bytes){rest->data + at, length};
    rest->data += at + length;
    rest->size -= at + length;
    return true;
}

bool text_opaque_decode(Bytes rest, Bytes *domain, Bytes *name) {
    Bytes inner;
    if (!take_field(&rest, OPAQUE_TAG, &inner) || rest.size) return false;
    take_field(&inner, DOMAIN_TAG, domain);
    take_field(&inner, NAME_TAG, name);
    return inner.size == 0;
}
