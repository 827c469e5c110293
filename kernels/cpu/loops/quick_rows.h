// SPDX-License-Identifier: Apache-2.0
/* Rows of float functions for fast plans: kernel_math.h's, compiled with products and sums
 * contracted where the processor has fused multiply-add. That halves their work, rounds less often
 * and makes results differ between processors in the last places, so that faithful plans go without.
 * `to` may be `from`.
 */
#ifndef DEMI_QUICK_ROWS_H
#define DEMI_QUICK_ROWS_H

#include "kernel_rows.h"

/* UnaryFunctions of float. Errors, in units in the last place, are bounded by quick_rows_test.c. */
void quick_exp(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers);
void quick_sigmoid(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers);
void quick_tanh(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers);
void quick_erf(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers);
/* x times the normal distribution's integral up to x, exactly and as by tanh. */
void quick_gelu(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers);
void quick_gelu_tanh(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers);
/* x sigmoid(a x) */
void quick_swish(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers);

/* The softmax of n elements, summed in float by lanes. All NaN where one is NaN or all are -Inf; NaN
 * at +Inf, and 0 elsewhere. */
void quick_softmax(float *to, const float *from, uint64_t n);

#endif
