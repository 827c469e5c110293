// SPDX-License-Identifier: Apache-2.0
/* The largest element and the sum of a row of floats, by lanes that are brought together in halves: inline,
 * for functions with ROW_CLONES. Steps are spelt out, as compilers leave a loop over halves to one lane
 * after the other. */
#ifndef DEMI_QUICK_LANES_H
#define DEMI_QUICK_LANES_H

#include <math.h>
#include <stdint.h>

enum {
    QUICK_LANES = 32
}; /* more than a compiler unrolls, so that it vectorises the loops over them */

#define QUICK_HALVES(step)                                                                         \
    for (int k = 0; k < 16; k++) step(16);                                                         \
    for (int k = 0; k < 8; k++) step(8);                                                           \
    for (int k = 0; k < 4; k++) step(4);                                                           \
    for (int k = 0; k < 2; k++) step(2);                                                           \
    for (int k = 0; k < 1; k++) step(1)
#define QUICK_TOP(w) lane[k] = lane[k + (w)] > lane[k] ? lane[k + (w)] : lane[k]
#define QUICK_SUM(w) lane[k] += lane[k + (w)]

/* The larger of `top` and the elements, of which NaN counts as none. */
static inline float quick_top(const float *x, uint64_t n, float top) {
    uint64_t i = 0;
    if (n >= QUICK_LANES) {
        float lane[QUICK_LANES];
        for (int k = 0; k < QUICK_LANES; k++) lane[k] = top;
        for (; n - i >= QUICK_LANES; i += QUICK_LANES)
            for (int k = 0; k < QUICK_LANES; k++)
                lane[k] = x[i + (uint64_t)k] > lane[k] ? x[i + (uint64_t)k] : lane[k];
        QUICK_HALVES(QUICK_TOP);
        top = lane[0];
    }
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static inline float quick_sum(const float *x, uint64_t n) {
    float sum = 0;
    uint64_t i = 0;
    if (n >= QUICK_LANES) {
        float lane[QUICK_LANES] = {0};
        for (; n - i >= QUICK_LANES; i += QUICK_LANES)
            for (int k = 0; k < QUICK_LANES; k++) lane[k] += x[i + (uint64_t)k];
        QUICK_HALVES(QUICK_SUM);
        sum = lane[0];
    }
    for (; i < n; i++) sum += x[i];
    return sum;
}

#endif
