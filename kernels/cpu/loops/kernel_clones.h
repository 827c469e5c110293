// SPDX-License-Identifier: Apache-2.0
/* KERNEL_CLONES before a function: compiled for the baseline, AVX2 and AVX-512, chosen when the
 * program starts. All give the same bits: nothing is contracted to fused operations, and sums are in
 * lanes whose number the code says. For loops that hold their whole work; callees must be inline.
 * Not everywhere: row_clones.h. */
#ifndef DEMI_KERNEL_CLONES_H
#define DEMI_KERNEL_CLONES_H

#include "row_clones.h"

#if ROW_HAS_CLONES
#define KERNEL_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define KERNEL_CLONES
#endif

/* In its place where one version will do: types that models have little of. */
#define KERNEL_ONCE

/* What KERNEL_CLONES functions call: part of each of their clones. */
#define KERNEL_INLINE static inline __attribute__((always_inline))

#endif
