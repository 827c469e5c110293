// SPDX-License-Identifier: Apache-2.0
/* Elements of any number type as any other, by the rules of ONNX's Cast. */
#ifndef DEMI_KERNEL_CONVERT_H
#define DEMI_KERNEL_CONVERT_H

#include "kernel.h"
#include "op_attrs.h"

/* What happens past the largest finite number of a float8 kind: the largest, or NaN or Inf. */
typedef struct ConvertRules {
    bool overflow;      /* false: saturate, ONNX's default */
    ConvertRound round; /* how powers of two are found for float8e8m0 */
} ConvertRules;

/* Converts `count` elements; arrays do not overlap, `rules` NULL for the defaults.
 *  - Floats round to nearest, ties to even, once from the exact value.
 *  - Reals to integers are truncated toward zero; what does not fit becomes the nearest limit, NaN
 * 0.
 *  - Integers to narrower integers lose their upper bits; so do reals to those of less than a byte,
 *    which go through int32 as in ONNX's reference.
 *  - Everything but zero is true.
 *  - NaN in types that have none is 0.
 * False for strings, complex and undefined types: nothing is written. */
bool kernel_convert(Dtype to, void *out, Dtype from, const void *in, uint64_t count,
                    const ConvertRules *rules);

/* One real as an element; `dtype` as in kernel_convert. */
void kernel_store_real(Dtype dtype, void *data, uint64_t i, double value);

#endif
