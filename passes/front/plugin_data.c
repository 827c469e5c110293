// SPDX-License-Identifier: Apache-2.0
/* Types and tensors as plug-ins read and make them. Both are immutable; new ones are in the model's
 * arena, since they go into the model. */
#include <string.h>

#include "checked.h"
#include "plugin.h"

#define MISUSE(run, what) plugin_misuse((run), __func__ + 4, (what))

_Static_assert((int)DEMI_FLOAT6E3M2 + 1 == (int)DTYPE_COUNT && (int)DEMI_BFLOAT16 == DTYPE_BFLOAT16,
               "element types have the same numbers inside and outside");
_Static_assert((int)DEMI_TYPE_OPAQUE == (int)TYPE_OPAQUE && (int)DEMI_TYPE_NONE == (int)TYPE_NONE &&
                   (int)DEMI_TYPE_OPTIONAL == (int)TYPE_OPTIONAL,
               "kinds of types have the same numbers inside and outside");

static bool is_dtype(DemiDtype dtype) {
    return dtype > DEMI_UNDEFINED && (int)dtype < DTYPE_COUNT;
}

/* ---- types ----------------------------------------------------------------------------------- */

static const char *api_dtype_name(DemiDtype dtype) {
    return dtype_name((Dtype)dtype);
}

static DemiDtype api_dtype_from_name(const char *name) {
    return name ? (DemiDtype)dtype_from_name(name, strlen(name)) : DEMI_UNDEFINED;
}

static unsigned api_dtype_bits(DemiDtype dtype) {
    return is_dtype(dtype) ? dtype_bits((Dtype)dtype) : 0;
}

static DemiTypeKind api_type_kind(const DemiType *type) {
    return type ? (DemiTypeKind)type_of(type)->kind : DEMI_TYPE_NONE;
}

static DemiDtype api_type_dtype(const DemiType *type) {
    return (DemiDtype)type_dtype(type_of(type));
}

static const DemiType *api_type_element(const DemiType *type) {
    return type ? type_out(type_of(type)->elem) : NULL;
}

static bool api_type_has_rank(const DemiType *type) {
    return type && type_of(type)->has_shape;
}

static size_t api_type_rank(const DemiType *type) {
    return api_type_has_rank(type) ? type_of(type)->rank : 0;
}

static int64_t api_type_dim(const DemiType *type, size_t i, const char **symbol) {
    if (symbol) *symbol = NULL;
    if (i >= api_type_rank(type)) return -1;
    const Dim *dim = &type_of(type)->dims[i];
    if (symbol && dim->kind == DIM_SYMBOL) *symbol = sym_text(dim->symbol);
    return dim->kind == DIM_KNOWN && dim->size >= 0 ? dim->size : -1;
}

static Dim dim_of(const DemiPassRun *run, int64_t size, const char *symbol) {
    if (size >= 0) return (Dim){.kind = DIM_KNOWN, .size = size};
    if (!symbol || !symbol[0]) return (Dim){.kind = DIM_UNKNOWN};
    return (Dim){.kind = DIM_SYMBOL, .symbol = plugin_sym(run, symbol)};
}

static const DemiType *api_type_tensor(DemiPassRun *run, DemiDtype dtype, const int64_t *dims,
                                       const char *const *symbols, size_t rank) {
    if (!is_dtype(dtype)) return MISUSE(run, "unknown dtype"), NULL;
    if (rank > UINT16_MAX) return MISUSE(run, "too many dims"), NULL;
    ENTER(run, NULL);
    if (!dims && rank == 0) return type_out(type_plain_tensor((Dtype)dtype));
    if (!dims) return MISUSE(run, "dims are missing"), NULL;
    Dim *axes = ARENA_ARRAY(plugin_arena(run), Dim, rank);
    for (size_t i = 0; i < rank; i++) axes[i] = dim_of(run, dims[i], symbols ? symbols[i] : NULL);
    return type_out(type_new_shaped(plugin_arena(run), (Dtype)dtype, axes, (uint32_t)rank));
}

static const DemiType *api_type_sequence(DemiPassRun *run, const DemiType *element) {
    if (!element) return MISUSE(run, "the element's type is NULL"), NULL;
    ENTER(run, NULL);
    return type_out(type_new_wrapped(plugin_arena(run), TYPE_SEQUENCE, type_of(element)));
}

static const DemiType *api_type_optional(DemiPassRun *run, const DemiType *element) {
    if (!element) return MISUSE(run, "the element's type is NULL"), NULL;
    ENTER(run, NULL);
    return type_out(type_new_wrapped(plugin_arena(run), TYPE_OPTIONAL, type_of(element)));
}

static const DemiType *api_type_with_dtype(DemiPassRun *run, const DemiType *type,
                                           DemiDtype dtype) {
    if (!type || !is_dtype(dtype)) return MISUSE(run, "no type, or an unknown dtype"), NULL;
    ENTER(run, NULL);
    return type_out(type_with_dtype(plugin_arena(run), type_of(type), (Dtype)dtype));
}

/* ---- reading tensors ------------------------------------------------------------------------- */

static DemiDtype api_tensor_dtype(const DemiTensor *tensor) {
    return tensor ? (DemiDtype)tensor_of(tensor)->dtype : DEMI_UNDEFINED;
}

static size_t api_tensor_rank(const DemiTensor *tensor) {
    return tensor ? tensor_of(tensor)->rank : 0;
}

static const int64_t *api_tensor_dims(const DemiTensor *tensor) {
    return tensor ? tensor_of(tensor)->dims : NULL;
}

static uint64_t api_tensor_count(const DemiTensor *tensor) {
    return tensor ? tensor_count(tensor_of(tensor)) : 0;
}

static uint64_t api_tensor_bytes(const DemiTensor *tensor) {
    return tensor ? tensor_raw_size(tensor_of(tensor)) : 0;
}

/* Bytes of an element; 1 where it has less, 0 for strings. */
static uint64_t element_bytes(const Tensor *tensor) {
    unsigned bits = dtype_bits((Dtype)tensor->dtype);
    return bits > 0 && bits < 8 ? 1 : bits / 8;
}

static bool api_tensor_read(DemiPassRun *run, const DemiTensor *handle, uint64_t offset,
                            void *buffer, uint64_t size) {
    const Tensor *tensor = tensor_of(handle);
    if (!tensor || (size && !buffer)) return MISUSE(run, "tensor or buffer is NULL");
    uint64_t width = element_bytes(tensor), whole = tensor_raw_size(tensor);
    if (width == 0) return MISUSE(run, "a tensor of strings has no bytes");
    if (offset > whole || size > whole - offset) return MISUSE(run, "past the tensor's end");
    if (offset % width || size % width) return MISUSE(run, "not a whole number of elements");
    ENTER(run, false);
    return tensor_read_raw(tensor, offset, buffer, size, &run->err);
}

static bool is_within(const Tensor *tensor, uint64_t first, uint64_t count) {
    uint64_t all = tensor_count(tensor);
    return first <= all && count <= all - first;
}

static bool api_tensor_read_floats(DemiPassRun *run, const DemiTensor *handle, uint64_t first,
                                   uint64_t count, float *out) {
    const Tensor *tensor = tensor_of(handle);
    if (!tensor || (count && !out)) return MISUSE(run, "tensor or buffer is NULL");
    if (!dtype_is_working(tensor->dtype))
        return MISUSE(run, "the tensor is not of float, float16 or bfloat16");
    if (!is_within(tensor, first, count)) return MISUSE(run, "past the tensor's end");
    ENTER(run, false);
    return tensor_read_floats(tensor, first, count, out, &run->err);
}

/* One element as int64; `bytes` lie in memory as in raw_data. */
static int64_t int_of(Dtype dtype, const unsigned char *bytes, unsigned width) {
    uint64_t bits = 0;
    for (unsigned i = width; i-- > 0;) bits = bits << 8 | bytes[i];
    bool is_signed = dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32;
    uint64_t sign = 1ULL << (width * 8 - 1);
    if (is_signed && (bits & sign)) bits |= ~(sign | (sign - 1));
    return (int64_t)bits;
}

/* Elements of 2 or 4 bits, the first in a byte's lowest ones. */
static bool read_packed_ints(DemiPassRun *run, const Tensor *tensor, uint64_t first, uint64_t count,
                             int64_t *out) {
    unsigned bits = dtype_bits((Dtype)tensor->dtype);
    bool is_signed = tensor->dtype == DTYPE_INT4 || tensor->dtype == DTYPE_INT2;
    uint64_t begin = first * bits / 8, end = ((first + count) * bits + 7) / 8;
    unsigned char *bytes = arena_alloc(plugin_scratch(run), (size_t)(end - begin));
    if (!tensor_read_raw(tensor, begin, bytes, end - begin, &run->err)) return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = (first + i) * bits - begin * 8;
        int value = bytes[bit / 8] >> bit % 8 & ((1 << bits) - 1);
        out[i] = is_signed && value >> (bits - 1) ? value - (1 << bits) : value;
    }
    return true;
}

static bool api_tensor_read_ints(DemiPassRun *run, const DemiTensor *handle, uint64_t first,
                                 uint64_t count, int64_t *out) {
    const Tensor *tensor = tensor_of(handle);
    if (!tensor || (count && !out)) return MISUSE(run, "tensor or buffer is NULL");
    Dtype dtype = (Dtype)tensor->dtype;
    if (!dtype_is_integer(dtype) && dtype != DTYPE_BOOL)
        return MISUSE(run, "the tensor is not of integers or bool");
    if (!is_within(tensor, first, count)) return MISUSE(run, "past the tensor's end");
    ENTER(run, false);
    if (count == 0) return true;
    if (dtype_bits(dtype) < 8) return read_packed_ints(run, tensor, first, count, out);
    unsigned width = dtype_bits(dtype) / 8;
    /* Into the end of `out`, then widened from its beginning on: no element is overwritten before
     * it is read. */
    unsigned char *bytes = (unsigned char *)out + count * (sizeof *out - width);
    if (!tensor_read_raw(tensor, first * width, bytes, count * width, &run->err)) return false;
    for (uint64_t i = 0; i < count; i++) out[i] = int_of(dtype, bytes + i * width, width);
    return true;
}

static const char *api_tensor_string(DemiPassRun *run, const DemiTensor *handle, uint64_t i,
                                     size_t *size) {
    const Tensor *tensor = tensor_of(handle);
    if (size) *size = 0;
    if (!tensor || tensor->storage != TENSOR_STRINGS || i >= tensor->string_count) return NULL;
    return plugin_text(run, tensor->strings[i], size);
}

/* ---- making tensors -------------------------------------------------------------------------- */

static bool count_elements(const int64_t *dims, size_t rank, uint64_t *count) {
    return rank <= UINT16_MAX && (dims || rank == 0) && checked_count(dims, (uint32_t)rank, count);
}

static const DemiTensor *api_tensor_new(DemiPassRun *run, DemiDtype dtype, const int64_t *dims,
                                        size_t rank, const void *bytes) {
    uint64_t count, size;
    if (!is_dtype(dtype) || dtype == DEMI_STRING)
        return MISUSE(run, "unknown dtype, or strings"), NULL;
    if (!count_elements(dims, rank, &count) || !dtype_bytes((Dtype)dtype, count, &size))
        return MISUSE(run, "no such shape"), NULL;
    if (size && !bytes) return MISUSE(run, "bytes are missing"), NULL;
    ENTER(run, NULL);
    return tensor_out(
        tensor_new_raw(plugin_arena(run), (Dtype)dtype, dims, (uint32_t)rank, bytes, size));
}

/* The shape is valid. */
static Tensor *tensor_of_strings(Arena *arena, const int64_t *dims, size_t rank,
                                 const char *const *strings) {
    Tensor *tensor = ARENA_NEW(arena, Tensor);
    *tensor = (Tensor){.dtype = DTYPE_STRING,
                       .has_dtype = true,
                       .rank = (uint32_t)rank,
                       .dims = arena_copy(arena, dims, rank * sizeof *dims)};
    tensor->string_count = tensor_count(tensor);
    tensor->storage = tensor->string_count ? TENSOR_STRINGS : TENSOR_NO_DATA;
    Bytes *copies = ARENA_ARRAY(arena, Bytes, tensor->string_count);
    for (uint64_t i = 0; i < tensor->string_count; i++) {
        size_t size = strlen(strings[i]);
        copies[i] = (Bytes){arena_copy(arena, strings[i], size), size};
    }
    tensor->strings = copies;
    return tensor;
}

static bool strings_are_there(const char *const *strings, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (!strings || !strings[i]) return false;
    return true;
}

static const DemiTensor *api_tensor_new_strings(DemiPassRun *run, const int64_t *dims, size_t rank,
                                                const char *const *strings) {
    uint64_t count;
    if (!count_elements(dims, rank, &count)) return MISUSE(run, "no such shape"), NULL;
    if (!strings_are_there(strings, count)) return MISUSE(run, "a string is NULL"), NULL;
    ENTER(run, NULL);
    return tensor_out(tensor_of_strings(plugin_arena(run), dims, rank, strings));
}

static bool is_castable(int32_t dtype) {
    return dtype_is_working(dtype);
}

static const DemiTensor *api_tensor_new_cast(DemiPassRun *run, const DemiTensor *handle,
                                             DemiDtype dtype) {
    const Tensor *tensor = tensor_of(handle);
    if (!tensor || !is_castable(tensor->dtype) || !is_castable((int32_t)dtype))
        return MISUSE(run, "not between float, float16 and bfloat16"), NULL;
    ENTER(run, NULL);
    return tensor_out(tensor_new_cast(plugin_arena(run), tensor, (Dtype)dtype));
}

static void fill_types(DemiApi *api) {
    api->dtype_name = api_dtype_name;
    api->dtype_from_name = api_dtype_from_name;
    api->dtype_bits = api_dtype_bits;
    api->type_kind = api_type_kind;
    api->type_dtype = api_type_dtype;
    api->type_element = api_type_element;
    api->type_has_rank = api_type_has_rank;
    api->type_rank = api_type_rank;
    api->type_dim = api_type_dim;
    api->type_tensor = api_type_tensor;
    api->type_sequence = api_type_sequence;
    api->type_optional = api_type_optional;
    api->type_with_dtype = api_type_with_dtype;
}

void plugin_fill_data(DemiApi *api) {
    fill_types(api);
    api->tensor_dtype = api_tensor_dtype;
    api->tensor_rank = api_tensor_rank;
    api->tensor_dims = api_tensor_dims;
    api->tensor_count = api_tensor_count;
    api->tensor_bytes = api_tensor_bytes;
    api->tensor_read = api_tensor_read;
    api->tensor_read_floats = api_tensor_read_floats;
    api->tensor_read_ints = api_tensor_read_ints;
    api->tensor_string = api_tensor_string;
    api->tensor_new = api_tensor_new;
    api->tensor_new_strings = api_tensor_new_strings;
    api->tensor_new_cast = api_tensor_new_cast;
}
