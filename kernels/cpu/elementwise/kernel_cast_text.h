// SPDX-License-Identifier: Apache-2.0
/* Casts between strings and numbers. */
#ifndef DEMI_KERNEL_CAST_TEXT_H
#define DEMI_KERNEL_CAST_TEXT_H

#include "kernel.h"

/* Decimal numbers, with sign, point and exponent; inf, infinity and nan in any case; for bool also
 * true and false. False with the error set for anything else. Integers are exact where the text is
 * one, else the real is truncated and saturated. */
bool kernel_cast_from_text(KernelCall *call, const KernelTensor *in, KernelTensor *out);

/* The fewest digits that read back as the same element, in plain notation from 1e-4 up to 1e16 and
 * with an exponent elsewhere; True and False for bool: as numpy writes them. */
bool kernel_cast_to_text(KernelCall *call, const KernelTensor *in, KernelTensor *out);

#endif
