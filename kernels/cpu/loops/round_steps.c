// SPDX-License-Identifier: Apache-2.0
/* See round_steps.h. Bounds are whole numbers, so that it is the same whether a quotient is bounded
 * first or rounded first. */
#include "round_steps.h"

#include "kernel_rows.h"

/* Adding it rounds a small float to a whole number. */
#define MAGIC 12582912.0f /* 1.5 * 2^23 */

ROW_CLONES void round_steps(float *to, const float *from, uint64_t n, RoundSteps by) {
    const float step = by.step, low = by.low, high = by.high;
    ROW_EACH(n, float q = from[i] / step; q = q > low ? q : low; q = q < high ? q : high;
             to[i] = ((q + MAGIC) - MAGIC) * step)
}
