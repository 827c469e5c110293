// SPDX-License-Identifier: Apache-2.0
/* Reading of constant data in the raw_data form, whatever field it is stored in.
 *
 * The layers, from the bottom: stored bytes (arena or Source); elements of a typed field narrowed
 * to the dtype's width; lazy casts, converted a window at a time. All sizes were checked against
 * the dims by tensor_check before anything here indexes. */
#include "tensor.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "checked.h"
#include "half.h"

enum { WINDOW = 1 << 14 }; /* elements converted at a time, on the stack */

static Dtype dtype_of(const Tensor *tensor) {
    return (unsigned)tensor->dtype < DTYPE_COUNT ? (Dtype)tensor->dtype : DTYPE_UNDEFINED;
}

/* ---- checking -------------------------------------------------------------------------------- */

unsigned tensor_field_width(TensorStorage storage) {
    switch (storage) {
    case TENSOR_FLOATS:
    case TENSOR_INT32S: return 4;
    case TENSOR_INT64S:
    case TENSOR_DOUBLES:
    case TENSOR_UINT64S: return 8;
    case TENSOR_NO_DATA:
    case TENSOR_RAW:
    case TENSOR_STRINGS:
    case TENSOR_EXTERNAL: return 1;
    }
    return 1;
}

TensorStorage tensor_field_of(Dtype dtype) {
    switch (dtype) {
    case DTYPE_FLOAT:
    case DTYPE_COMPLEX64: return TENSOR_FLOATS;
    case DTYPE_INT64: return TENSOR_INT64S;
    case DTYPE_DOUBLE:
    case DTYPE_COMPLEX128: return TENSOR_DOUBLES;
    case DTYPE_UINT32:
    case DTYPE_UINT64: return TENSOR_UINT64S;
    case DTYPE_STRING: return TENSOR_STRINGS;
    case DTYPE_UNDEFINED:
    case DTYPE_COUNT: return TENSOR_NO_DATA;
    case DTYPE_UINT8:
    case DTYPE_INT8:
    case DTYPE_UINT16:
    case DTYPE_INT16:
    case DTYPE_INT32:
    case DTYPE_BOOL:
    case DTYPE_FLOAT16:
    case DTYPE_BFLOAT16:
    case DTYPE_FLOAT8E4M3FN:
    case DTYPE_FLOAT8E4M3FNUZ:
    case DTYPE_FLOAT8E5M2:
    case DTYPE_FLOAT8E5M2FNUZ:
    case DTYPE_UINT4:
    case DTYPE_INT4:
    case DTYPE_FLOAT4E2M1:
    case DTYPE_FLOAT8E8M0:
    case DTYPE_UINT2:
    case DTYPE_INT2:
    case DTYPE_FLOAT6E2M3:
    case DTYPE_FLOAT6E3M2: return TENSOR_INT32S;
    }
    return TENSOR_NO_DATA;
}

/* Entries that a typed field needs for `count` elements: complex numbers take two; types narrower
 * than a byte are packed into bytes, one byte an entry, but 6-bit ones have an entry each. */
static bool field_entries(Dtype dtype, uint64_t count, uint64_t *entries) {
    if (dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128)
        return checked_mul(count, 2, entries);
    if (dtype_bits(dtype) < 6) return dtype_bytes(dtype, count, entries);
    *entries = count;
    return true;
}

static bool wrong_length(Err *err, const char *unit, uint64_t expected, uint64_t actual) {
    err_set(err, ERR_MODEL, "data length does not match the tensor's shape and type");
    err_expected(err, "%llu %s", (unsigned long long)expected, unit);
    err_actual(err, "%llu", (unsigned long long)actual);
    return false;
}

static bool check_stored(const Tensor *tensor, Dtype dtype, uint64_t count, Err *err) {
    uint64_t wanted;
    if (tensor->storage == TENSOR_RAW || tensor->storage == TENSOR_EXTERNAL) {
        if (dtype == DTYPE_STRING) return err_set(err, ERR_MODEL, "string data cannot be raw");
        if (!dtype_bytes(dtype, count, &wanted))
            return err_set(err, ERR_MODEL, "the shape's number of elements is too large");
        return wanted == tensor->size || wrong_length(err, "bytes", wanted, tensor->size);
    }
    if (tensor->storage != tensor_field_of(dtype))
        return err_set(err, ERR_MODEL, "data of type %s is stored in the wrong field",
                       dtype_name(dtype));
    if (tensor->storage == TENSOR_STRINGS)
        return count == tensor->string_count ||
               wrong_length(err, "strings", count, tensor->string_count);
    if (!field_entries(dtype, count, &wanted))
        return err_set(err, ERR_MODEL, "the shape's number of elements is too large");
    uint64_t entries = tensor->size / tensor_field_width(tensor->storage);
    return wanted == entries || wrong_length(err, "entries", wanted, entries);
}

bool tensor_check(const Tensor *tensor, Err *err) {
    if (tensor->cast_of) return tensor_check(tensor->cast_of, err);
    uint64_t count;
    Dtype dtype = dtype_of(tensor);
    if (!checked_count(tensor->dims, tensor->rank, &count))
        return err_set(err, ERR_MODEL, "tensor shape has a negative or too large dimension");
    if (dtype == DTYPE_UNDEFINED) {
        err_set(err, ERR_MODEL, "unknown element type");
        err_actual(err, "data_type %d", tensor->dtype);
        return false;
    }
    if (tensor->storage == TENSOR_NO_DATA)
        return count == 0 || wrong_length(err, "elements", count, 0);
    return check_stored(tensor, dtype, count, err);
}

uint64_t tensor_count(const Tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= (uint64_t)tensor->dims[i];
    return count;
}

uint64_t tensor_raw_size(const Tensor *tensor) {
    uint64_t bytes = 0;
    if (!dtype_bytes(dtype_of(tensor), tensor_count(tensor), &bytes)) return 0;
    return bytes;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_stored(const Tensor *tensor, uint64_t offset, void *buffer, uint64_t size,
                        Err *err) {
    if (tensor->source)
        return source_read(tensor->source, tensor->offset + offset, buffer, size, err);
    if (size) memcpy(buffer, tensor->bytes + offset, size);
    return true;
}

/* Narrows the entries of int32_data or uint64_data to elements of `width` bytes; little-endian, so
 * the low bytes come first. */
static bool read_narrowed(const Tensor *tensor, unsigned width, uint64_t offset, void *buffer,
                          uint64_t size, Err *err) {
    unsigned field = tensor_field_width(tensor->storage);
    unsigned char window[WINDOW], *to = buffer;
    for (uint64_t first = offset / width, end = first + size / width; first < end;) {
        uint64_t count = end - first < WINDOW / field ? end - first : WINDOW / field;
        if (!read_stored(tensor, first * field, window, count * field, err)) return false;
        for (uint64_t i = 0; i < count; i++, to += width) memcpy(to, window + i * field, width);
        first += count;
    }
    return true;
}

/* Finite values that would round to Inf become the largest finite ones. */
static void clamp_floats(float *values, uint64_t count, Dtype to) {
    const float most = (float)dtype_largest(to);
    for (uint64_t i = 0; i < count; i++) {
        if (values[i] > most && values[i] <= FLT_MAX) values[i] = most;
        if (values[i] < -most && values[i] >= -FLT_MAX) values[i] = -most;
    }
}

/* Of elements [first, first + count), those of one factor at a time. */
static void multiply(const TensorFactors *by, uint64_t first, uint64_t count, float *elements) {
    for (uint64_t i = 0, now; i < count; i += now) {
        const uint64_t at = first + i, left = by->each - at % by->each;
        const float factor = by->factors[at / by->each % by->count];
        now = count - i < left ? count - i : left;
        for (uint64_t k = i; k < i + now; k++) elements[k] *= factor;
    }
}

/* Doubles, nearest; finite ones past the largest float become Inf, or with `clamp` that one. */
static bool read_doubles(const Tensor *tensor, uint64_t first, uint64_t count, bool clamp,
                         float *out, Err *err) {
    enum { PART = WINDOW / 4 };
    double window[PART];
    while (count > 0) {
        const uint64_t now = count < PART ? count : PART;
        if (!tensor_read_raw(tensor, first * sizeof *window, window, now * sizeof *window, err))
            return false;
        for (uint64_t i = 0; i < now; i++) {
            out[i] = (float)window[i];
            if (clamp && isinf(out[i]) && !isinf(window[i])) out[i] = copysignf(FLT_MAX, out[i]);
        }
        out += now;
        first += now;
        count -= now;
    }
    return true;
}

static bool read_cast_floats(const Tensor *tensor, uint64_t first, uint64_t count, float *out,
                             Err *err) {
    if (dtype_of(tensor->cast_of) == DTYPE_DOUBLE) {
        if (!read_doubles(tensor->cast_of, first, count, tensor->clamped, out, err)) return false;
    } else if (!tensor_read_floats(tensor->cast_of, first, count, out, err)) {
        return false;
    }
    if (tensor->factors) multiply(tensor->factors, first, count, out);
    return true;
}

static bool read_cast(const Tensor *tensor, uint64_t offset, void *buffer, uint64_t size,
                      Err *err) {
    float window[WINDOW];
    bool to_float = dtype_of(tensor) == DTYPE_FLOAT;
    uint64_t first = offset / (to_float ? 4 : 2), count = size / (to_float ? 4 : 2);
    if (to_float) return read_cast_floats(tensor, first, count, buffer, err);
    uint16_t *to = buffer;
    while (count > 0) {
        uint64_t now = count < WINDOW ? count : WINDOW;
        if (!tensor_read_floats(tensor->cast_of, first, now, window, err)) return false;
        if (tensor->clamped) clamp_floats(window, now, dtype_of(tensor));
        reduced_convert_from_float(dtype_of(tensor), to, window, now);
        to += now;
        first += now;
        count -= now;
    }
    return true;
}

bool tensor_read_raw(const Tensor *tensor, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    if (tensor->cast_of) return read_cast(tensor, offset, buffer, size, err);
    if (tensor->storage == TENSOR_INT32S || tensor->storage == TENSOR_UINT64S) {
        unsigned width = dtype_bits(dtype_of(tensor)) / 8;
        if (dtype_bits(dtype_of(tensor)) == 6)
            return err_set(err, ERR_MODEL, "cannot read 6-bit elements in int32_data as raw data");
        return read_narrowed(tensor, width ? width : 1, offset, buffer, size, err);
    }
    return read_stored(tensor, offset, buffer, size, err);
}

bool tensor_read_floats(const Tensor *tensor, uint64_t first, uint64_t count, float *out,
                        Err *err) {
    Dtype dtype = dtype_of(tensor);
    if (dtype == DTYPE_FLOAT) return tensor_read_raw(tensor, first * 4, out, count * 4, err);
    if (dtype == DTYPE_DOUBLE) return read_doubles(tensor, first, count, false, out, err);
    uint16_t window[WINDOW];
    while (count > 0) {
        uint64_t now = count < WINDOW ? count : WINDOW;
        if (!tensor_read_raw(tensor, first * 2, window, now * 2, err)) return false;
        reduced_convert_to_float(dtype, out, window, now);
        out += now;
        first += now;
        count -= now;
    }
    return true;
}

/* One little-endian integer of `bits` bits (8 to 64), extended by its sign where it has one. */
static int64_t read_int(const unsigned char *bytes, unsigned bits, bool is_signed) {
    uint64_t value = 0;
    memcpy(&value, bytes, bits / 8);
    if (!is_signed || bits == 64) return (int64_t)value;
    uint64_t sign = UINT64_C(1) << (bits - 1);
    return (int64_t)((value ^ sign) - sign);
}

bool tensor_read_ints(const Tensor *tensor, Arena *scratch, uint64_t most, int64_t **values,
                      uint64_t *count) {
    Dtype dtype = dtype_of(tensor);
    unsigned bits = dtype_bits(dtype);
    if ((!dtype_is_integer(dtype) && dtype != DTYPE_BOOL) || bits < 8) return false;
    if (!tensor_check(tensor, NULL) || tensor_count(tensor) > most) return false;
    uint64_t size = tensor_raw_size(tensor);
    unsigned char *bytes = arena_alloc(scratch, size);
    if (!tensor_read_raw(tensor, 0, bytes, size, NULL)) return false;
    bool is_signed =
        dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 || dtype == DTYPE_INT64;
    *count = tensor_count(tensor);
    *values = ARENA_ARRAY(scratch, int64_t, *count);
    for (uint64_t i = 0; i < *count; i++)
        (*values)[i] = read_int(bytes + i * (bits / 8), bits, is_signed);
    return true;
}

/* ---- making ---------------------------------------------------------------------------------- */

const TensorExtra *tensor_extra(const Tensor *tensor) {
    static const TensorExtra none;
    return tensor->extra ? tensor->extra : &none;
}

void tensor_set_extra(Tensor *tensor, Arena *arena, TensorExtra extra) {
    bool any = extra.doc || extra.metadata || extra.rest.size || extra.quantized;
    tensor->extra = any ? arena_copy(arena, &extra, sizeof extra) : NULL;
}

Tensor *tensor_new_raw(Arena *arena, Dtype dtype, const int64_t *dims, uint32_t rank,
                       const void *bytes, uint64_t size) {
    Tensor *tensor = ARENA_NEW(arena, Tensor);
    *tensor = (Tensor){.dtype = (int32_t)dtype,
                       .has_dtype = true,
                       .storage = TENSOR_RAW,
                       .rank = rank,
                       .dims = arena_copy(arena, dims, rank * sizeof *dims),
                       .bytes = arena_copy(arena, bytes, size),
                       .size = size};
    return tensor;
}

Tensor *tensor_new_float_scalar(Arena *arena, float value) {
    return tensor_new_raw(arena, DTYPE_FLOAT, NULL, 0, &value, sizeof value);
}

Tensor *tensor_new_cast(Arena *arena, const Tensor *of, Dtype to) {
    Tensor *tensor = ARENA_NEW(arena, Tensor);
    *tensor = (Tensor){.name = of->name,
                       .dtype = (int32_t)to,
                       .has_dtype = true,
                       .storage = TENSOR_RAW,
                       .rank = of->rank,
                       .dims = of->dims,
                       .cast_of = of,
                       .extra = of->extra};
    return tensor;
}

Tensor *tensor_new_cast_clamped(Arena *arena, const Tensor *of, Dtype to) {
    Tensor *tensor = tensor_new_cast(arena, of, to);
    tensor->clamped = true;
    return tensor;
}

Tensor *tensor_new_scaled(Arena *arena, const Tensor *of, TensorFactors factors) {
    Tensor *tensor = tensor_new_cast(arena, of, DTYPE_FLOAT);
    tensor->factors = arena_copy(arena, &factors, sizeof factors);
    return tensor;
}
