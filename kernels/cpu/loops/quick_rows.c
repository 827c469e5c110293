// SPDX-License-Identifier: Apache-2.0
/* Rows of float functions for fast plans; see quick_rows.h. CMakeLists.txt has this file compiled
 * with -ffp-contract=fast, which is all that is quick about it. */
#include "quick_rows.h"

#include <math.h>

#include "kernel_math.h"

#define QUICK_ROWS(name, expression)                                                               \
    ROW_CLONES void name(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers) {    \
        float *out = to;                                                                           \
        const float *in = from, p = numbers ? (float)numbers->a : 1;                               \
        (void)p;                                                                                   \
        ROW_EACH(n, const float x = in[i]; out[i] = (expression))                                  \
    }

/* sqrt(2 / pi), twice: see kernel_activation.c */
static inline float gelu_tanh(float x) {
    return x * math_sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

QUICK_ROWS(quick_exp, math_exp(x))
QUICK_ROWS(quick_sigmoid, math_sigmoid(x))
QUICK_ROWS(quick_tanh, math_tanh(x))
QUICK_ROWS(quick_erf, math_erf(x))
QUICK_ROWS(quick_gelu, x *math_normal(x))
QUICK_ROWS(quick_gelu_tanh, gelu_tanh(x))
QUICK_ROWS(quick_swish, x *math_sigmoid(p *x))

enum { LANES = 32 }; /* more than a compiler unrolls, so that it vectorises the loops over them */

/* The largest element, where NaN, which is left to exp to find, counts as none. */
static inline float row_top(const float *x, uint64_t n) {
    float top = -HUGE_VALF;
    uint64_t i = 0;
    if (n >= LANES) {
        float lane[LANES];
        for (int k = 0; k < LANES; k++) lane[k] = -HUGE_VALF;
        for (; n - i >= LANES; i += LANES)
            for (int k = 0; k < LANES; k++)
                lane[k] = x[i + (uint64_t)k] > lane[k] ? x[i + (uint64_t)k] : lane[k];
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int k = 0; k < half; k++)
                lane[k] = lane[k] > lane[k + half] ? lane[k] : lane[k + half];
        top = lane[0];
    }
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static inline float row_sum(const float *x, uint64_t n) {
    float sum = 0;
    uint64_t i = 0;
    if (n >= LANES) {
        float lane[LANES] = {0};
        for (; n - i >= LANES; i += LANES)
            for (int k = 0; k < LANES; k++) lane[k] += x[i + (uint64_t)k];
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int k = 0; k < half; k++) lane[k] += lane[k + half];
        sum = lane[0];
    }
    for (; i < n; i++) sum += x[i];
    return sum;
}

ROW_CLONES void quick_softmax(float *to, const float *from, uint64_t n) {
    const float top = row_top(from, n);
    ROW_EACH(n, to[i] = math_exp(from[i] - top))
    const float factor = 1 / row_sum(to, n);
    ROW_EACH(n, to[i] *= factor)
}
