// SPDX-License-Identifier: Apache-2.0
/* Tensor: immutable constant data, read in pieces so that no weight is ever held twice.
 *
 * A tensor keeps where its data is stored on the wire (raw_data, one of the typed repeated fields,
 * an external file), because an untouched tensor is written back the same way. Large data stays in
 * its Source; small data and typed fields are in the arena. A tensor may be a lazy cast of another
 * one: it then holds no data, its elements are converted when they are read, and may be multiplied.
 *
 * Nobody changes a Tensor after it was made; a changed constant is a new Tensor.
 */
#ifndef DEMI_TENSOR_H
#define DEMI_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "dtype.h"
#include "err.h"
#include "source.h"
#include "sym.h"
#include "vec.h"

typedef struct KeyValue KeyValue; /* graph.h */

/* The TensorProto field that holds the data. */
typedef enum TensorStorage {
    TENSOR_NO_DATA, /* no data field: an empty tensor, or an invalid one */
    TENSOR_RAW,     /* raw_data: little-endian, packed */
    TENSOR_FLOATS,  /* float_data; also complex64 */
    TENSOR_INT32S,  /* int32_data: int32 and every narrower type, 16-bit floats as bit patterns */
    TENSOR_INT64S,  /* int64_data */
    TENSOR_DOUBLES, /* double_data; also complex128 */
    TENSOR_UINT64S, /* uint64_data: uint32, uint64 */
    TENSOR_STRINGS, /* string_data */
    TENSOR_EXTERNAL /* raw little-endian bytes in another file */
} TensorStorage;

/* What few tensors have. */
typedef struct TensorExtra {
    Sym doc;
    const KeyValue *metadata;
    Bytes rest; /* fields of the TensorProto that are not modeled, as wire bytes */
    const struct DequantizedMaker
        *quantized; /* what makes it of quantized numbers (dequantized.h); NULL: nothing */
} TensorExtra;

typedef struct Tensor {
    Sym name;       /* NULL where absent; of an initializer the owning Value's name counts */
    int32_t dtype;  /* a Dtype, or a number this version does not know */
    bool has_dtype; /* data_type is present on the wire */
    bool clamped;   /* cast_of: finite elements past the type's largest finite one become that */
    TensorStorage storage;
    uint32_t rank;
    const int64_t *dims; /* [rank]; any numbers: check with tensor_check before use */

    /* Data, by storage; all NULL or 0 for a lazy cast.
     * RAW, EXTERNAL: `size` bytes at bytes, or in source at offset.
     * typed fields: `size` bytes at bytes, an array of the field's C type.
     * STRINGS: strings[string_count]. */
    const unsigned char *bytes;
    const Source *source; /* NULL where bytes is used */
    uint64_t size;
    union {
        uint64_t offset;
        uint64_t string_count;
    };
    const Bytes *strings;

    const struct Tensor *cast_of;        /* lazy cast: elements of cast_of converted to dtype */
    const struct TensorFactors *factors; /* of a lazy cast to float; NULL: 1 */
    const KeyValue *external;            /* EXTERNAL: the external_data entries as read */
    const TensorExtra *extra;            /* NULL mostly: ask tensor_extra */
} Tensor;

/* What there is beyond a tensor's own fields. Never NULL. */
const TensorExtra *tensor_extra(const Tensor *tensor);
/* Sets all of that, while the tensor is made. */
void tensor_set_extra(Tensor *tensor, Arena *arena, TensorExtra extra);

/* Checks that dims are non-negative with a product that fits, the dtype is known, and the stored
 * data has exactly the length these need. ERR_MODEL otherwise; the caller adds node or value. */
bool tensor_check(const Tensor *tensor, Err *err);

/* The field that holds a dtype's data where raw_data does not, as the ONNX IR specification lists
 * them; NO_DATA for UNDEFINED. */
TensorStorage tensor_field_of(Dtype dtype);

/* Bytes of one entry of a typed field: 4 or 8; 1 for the other storages. */
unsigned tensor_field_width(TensorStorage storage);

/* Number of elements; 1 for rank 0. The tensor must have passed tensor_check. */
uint64_t tensor_count(const Tensor *tensor);

/* Bytes the elements fill in raw_data form, 0 for strings. Must have passed tensor_check. */
uint64_t tensor_raw_size(const Tensor *tensor);

/* Reads `size` bytes of the raw_data form from byte `offset` on, converting lazy casts and typed
 * fields on the way. For sub-byte types offset and size are bytes of the packed form. `offset` and
 * `size` must be multiples of the element size (bytes) where the dtype has whole bytes. Not for
 * strings. The tensor must have passed tensor_check. */
bool tensor_read_raw(const Tensor *tensor, uint64_t offset, void *buffer, uint64_t size, Err *err);

/* Reads elements [first, first + count) of a float, float16, bfloat16 or double tensor as float: doubles are
 * rounded to nearest, past the largest float to Inf. */
bool tensor_read_floats(const Tensor *tensor, uint64_t first, uint64_t count, float *out, Err *err);

/* Reads all elements of a tensor of at most `most` elements of an integer type or bool as int64
 * into *values (scratch arena), their number into *count. False without an error being set (err is
 * untouched) where the tensor is of another type or larger. */
bool tensor_read_ints(const Tensor *tensor, Arena *scratch, uint64_t most, int64_t **values,
                      uint64_t *count);

/* New tensors; data is copied into the arena, stored as raw_data. */
Tensor *tensor_new_raw(Arena *arena, Dtype dtype, const int64_t *dims, uint32_t rank,
                       const void *bytes, uint64_t size);
Tensor *tensor_new_float_scalar(Arena *arena, float value);

/* A lazy cast of `of` to `to`, with the same name, dims, doc string and metadata. Both types must
 * be among float, float16 and bfloat16. A cast of a cast is kept as two roundings. */
Tensor *tensor_new_cast(Arena *arena, const Tensor *of, Dtype to);

/* The same to float16 or bfloat16, but what is finite stays finite. Inf stays Inf. */
Tensor *tensor_new_cast_clamped(Arena *arena, const Tensor *of, Dtype to);

/* Factors of elements: of element i factors[i / each % count]. */
typedef struct TensorFactors {
    const float *factors;
    uint64_t each, count; /* 1 at least */
} TensorFactors;

/* A float tensor like `of`, of which it has the elements times their factors, as a lazy cast does: the
 * factors are borrowed, for as long as the tensor lives. `of` is float, too. */
Tensor *tensor_new_scaled(Arena *arena, const Tensor *of, TensorFactors factors);

#endif
