// SPDX-License-Identifier: Apache-2.0
/* Elements of one dtype as another: what the runtime does around kernels that do not take a
 * dtype. */
#ifndef DEMI_ELEMENT_CONVERT_H
#define DEMI_ELEMENT_CONVERT_H

#include "kernel.h"

/* The dtype a kernel is given instead: float for 16-bit and smaller floats, an 8-bit integer for
 * narrower ones; the dtype itself for all others. */
Dtype element_wide(Dtype dtype);

/* Converts between a dtype and its element_wide, either way: widening is exact, narrowing rounds to
 * nearest, ties to even, once, and saturates integers. */
void element_convert(Dtype to_dtype, void *to, Dtype from_dtype, const void *from, uint64_t count);

#endif
