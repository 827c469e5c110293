// SPDX-License-Identifier: Apache-2.0
/* Rows of float functions for fast plans; see quick_rows.h. CMakeLists.txt has this file compiled
 * with -ffp-contract=fast, which is all that is quick about it. */
#include "quick_rows.h"

#include <math.h>

#include "formulas.h"
#include "kernel_math.h"
#include "quick_lanes.h"

#define QUICK_ROWS(name, expression)                                                               \
    ROW_CLONES void name(void *to, const void *from, uint64_t n, const UnaryNumbers *numbers) {    \
        float *out = to;                                                                           \
        const float *in = from, p = numbers ? (float)numbers->a : 1;                               \
        (void)p;                                                                                   \
        ROW_EACH(n, const float x = in[i]; out[i] = (expression))                                  \
    }

QUICK_ROWS(quick_exp, math_exp(x))
QUICK_ROWS(quick_sigmoid, math_sigmoid(x))
QUICK_ROWS(quick_tanh, math_tanh(x))
QUICK_ROWS(quick_erf, math_erf(x))
QUICK_ROWS(quick_gelu, x *math_quick_normal(x))
QUICK_ROWS(quick_gelu_tanh, FORMULA_GELU_TANH(x, math_sigmoid))
QUICK_ROWS(quick_swish, FORMULA_SWISH(x, p, math_sigmoid))

/* NaN is for the exponentials to find. */
ROW_CLONES void quick_softmax(float *to, const float *from, uint64_t n) {
    const float top = quick_top(from, n, -HUGE_VALF);
    ROW_EACH(n, to[i] = math_exp(from[i] - top))
    const float factor = 1 / quick_sum(to, n);
    ROW_EACH(n, to[i] *= factor)
}
