// SPDX-License-Identifier: Apache-2.0
/* Element types. The numbers are those of ONNX's TensorProto.DataType (IR 14), so that a dtype read
 * from a file needs no translation; a number that is none of these is kept and refused only by what
 * has to compute with it. formats.def has what is known of each. */
#ifndef DEMI_BASE_DTYPE_H
#define DEMI_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum Dtype {
    DTYPE_UNDEFINED = 0,
    DTYPE_FLOAT = 1,
    DTYPE_UINT8 = 2,
    DTYPE_INT8 = 3,
    DTYPE_UINT16 = 4,
    DTYPE_INT16 = 5,
    DTYPE_INT32 = 6,
    DTYPE_INT64 = 7,
    DTYPE_STRING = 8,
    DTYPE_BOOL = 9,
    DTYPE_FLOAT16 = 10,
    DTYPE_DOUBLE = 11,
    DTYPE_UINT32 = 12,
    DTYPE_UINT64 = 13,
    DTYPE_COMPLEX64 = 14,
    DTYPE_COMPLEX128 = 15,
    DTYPE_BFLOAT16 = 16,
    DTYPE_FLOAT8E4M3FN = 17,
    DTYPE_FLOAT8E4M3FNUZ = 18,
    DTYPE_FLOAT8E5M2 = 19,
    DTYPE_FLOAT8E5M2FNUZ = 20,
    DTYPE_UINT4 = 21,
    DTYPE_INT4 = 22,
    DTYPE_FLOAT4E2M1 = 23,
    DTYPE_FLOAT8E8M0 = 24,
    DTYPE_UINT2 = 25,
    DTYPE_INT2 = 26,
    DTYPE_FLOAT6E2M3 = 27,
    DTYPE_FLOAT6E3M2 = 28,
    DTYPE_COUNT /* one more than the last */
} Dtype;

/* ONNX's name in lower case ("float", "float16", "float8e4m3fn", …), as its textual syntax spells
 * it; "undefined" for 0 and "dtype?" for a number that is not a dtype. */
const char *dtype_name(Dtype dtype);

/* The dtype of that name; also numpy's spellings (float32, float64) and fp16, fp32, bf16, half.
 * DTYPE_UNDEFINED where none. */
Dtype dtype_from_name(const char *name, size_t length);

/* Bits of one element as raw_data stores it: 2, 4, 6, 8, 16, 32, 64 or 128; 0 for string and
 * unknown dtypes. Elements of less than a byte are packed without gaps, the first in the lowest
 * bits: four 6-bit elements fill three bytes, the second one lying across two of them. (A
 * TensorProto's int32_data holds the same bytes of the 2- and 4-bit dtypes, one a number, but one
 * 6-bit element a number.) */
unsigned dtype_bits(Dtype dtype);

/* Bytes that `count` elements fill in raw_data, the last byte padded with zero bits; false where
 * that passes 2^63 - 1 or the dtype has no fixed width. */
bool dtype_bytes(Dtype dtype, uint64_t count, uint64_t *bytes);

/* True for float16, bfloat16, float, double and the float8, float6 and float4 kinds. */
bool dtype_is_float(Dtype dtype);
/* True for the floating-point types that nodes may compute in instead of float32: float16, bfloat16. Of a number
 * as files have it, which may be none. */
bool dtype_is_reduced(int64_t dtype);
/* True for those and float32: the types that mixed precision chooses among. */
bool dtype_is_working(int64_t dtype);
/* True for signed and unsigned integers of every width; not bool. */
bool dtype_is_integer(Dtype dtype);

/* The largest finite value, and the least one, of floats and integers; those of 64 bits are rounded. 0 for
 * others. */
double dtype_largest(Dtype dtype);
double dtype_least(Dtype dtype);
/* Of floats, else 0: the most that rounding changes a normal value by, relative to it (half a unit of its last
 * place where the mantissa is 1); and the smallest positive normal value. */
double dtype_roundoff(Dtype dtype);
double dtype_least_normal(Dtype dtype);

/* True where every value of `from` is a value of `to`: a cast there and back gives the same
 * element. Zeros of both signs, Inf and NaN count as values (all NaNs as one); false and true are 0
 * and 1. Strings and unknown dtypes are lossless to themselves only. */
bool dtype_lossless(Dtype from, Dtype to);

/* The value of one element from its bits (those above the dtype's width are ignored). Exact but for
 * 64-bit integers past 2^53, which are rounded; a NaN keeps sign and payload, a bool is 0 or 1.
 * False for complex, string and unknown dtypes, with *value untouched. */
bool dtype_to_double(Dtype dtype, uint64_t bits, double *value);

/* The element nearest to a value, ties to even; the inverse of dtype_to_double on all elements of
 * dtypes up to 32 bits (and on double). Past the largest finite element:
 *  - float, float16, bfloat16: Inf, as IEEE 754 rounds;
 *  - float8, float6 and float4 kinds: finite values saturate; so does Inf where there is none (it
 *    stays Inf in float8e5m2);
 *  - integers saturate, Inf as well.
 * NaN stays NaN with sign and upper payload as far as the dtype has them, and is true as a bool.
 * False, with *bits untouched, where nothing corresponds: NaN in integers, float4 and float6; zero
 * and negative values in float8e8m0, which has only powers of two; dtypes that dtype_to_double
 * refuses. */
bool dtype_from_double(Dtype dtype, double value, uint64_t *bits);

#endif
