// SPDX-License-Identifier: Apache-2.0
/* Activation functions; formulas.h has those that others compute, too. p and q are the two
 * attributes of an operator, in the order of its layout.
 *
 * exp, tanh and the like of float come from kernel_math.h, those of double from the C library.
 */
#include <math.h>

#include "formulas.h"
#include "kernel_functions.h"
#include "kernel_math.h"
#include "kernel_rows.h"
#include "kernel_saturate.h"
#include "kernel_types.h"
#include "quick_rows.h"

/* The double of the decimal number that a float attribute was written as is not known: the float's
 * own value counts. */
static bool activate_quick(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT],
                           UnaryFunction quick) {
    const ActivationAttrs *attrs = call->attrs;
    UnaryNumbers numbers = {(double)attrs->p, (double)attrs->q};
    return kernel_unary_quick(call, functions, &numbers, quick);
}
static bool activate(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT]) {
    return activate_quick(call, functions, NULL);
}

#define PLAIN(name, expression_32, expression_64, run)                                             \
    UNARY_ROWS_FOR(ROW_CLONES, name##_f32, float, float, float, expression_32)                     \
    UNARY_ROWS(name##_f64, double, double, double, expression_64)                                  \
    bool kernel_##name(KernelCall *call) {                                                         \
        static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(name)};               \
        return run;                                                                                \
    }
#define WITH_ATTRS    activate(call, functions)
#define WITHOUT_ATTRS kernel_unary(call, functions, NULL)

PLAIN(leaky_relu, FORMULA_LEAKY_RELU(x, p), FORMULA_LEAKY_RELU(x, p), WITH_ATTRS)
PLAIN(elu, FORMULA_ELU(x, p, math_expm1), FORMULA_ELU(x, p, expm1), WITH_ATTRS)
PLAIN(thresholded_relu, FORMULA_THRESHOLDED_RELU(x, p), FORMULA_THRESHOLDED_RELU(x, p), WITH_ATTRS)
PLAIN(hard_sigmoid, FORMULA_HARD_SIGMOID(x, p, q), FORMULA_BETWEEN(p *x + q, 0.0, 1.0), WITH_ATTRS)
PLAIN(hard_swish, FORMULA_HARD_SWISH(x), x *FORMULA_BETWEEN(x *(1.0 / 6) + 0.5, 0.0, 1.0),
      WITHOUT_ATTRS)

static inline float mish_float(float x) {
    const float e = math_exp(x > 20 ? 20 : x);
    return FORMULA_MISH(x, e);
}
PLAIN(mish, mish_float(x), x *tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))), WITHOUT_ATTRS)

PLAIN(swish, FORMULA_SWISH(x, p, math_sigmoid), x / (1 + exp(-p * x)),
      activate_quick(call, functions, quick_swish))
/* Swish of the first operand times the second, which has its shape. */
#define TIMES(T)                                                                                   \
    for (uint64_t i = 0; i < out->count; i++) ((T *)out->data)[i] *= ((const T *)by->data)[i]

bool kernel_swiglu(KernelCall *call) {
    const KernelTensor *by = &call->inputs[1], *out = &call->outputs[0];
    bool same = by->rank == out->rank;
    for (uint32_t i = 0; same && i < by->rank; i++) same = by->dims[i] == out->dims[i];
    if (!same) return kernel_fail(call, "its operands have different shapes");
    if (!kernel_swish(call)) return false;
    if (out->dtype == DTYPE_FLOAT)
        TIMES(float);
    else
        TIMES(double);
    return true;
}

PLAIN(softplus, math_softplus(x), x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)), WITHOUT_ATTRS)

/* ---- functions of one formula ----------------------------------------------------------------- */

#define MATH_EXP   math_exp
#define MATH_EXPM1 math_expm1
#define MATH_LOG1P math_log1p
#define MATH_TANH  math_tanh
#define MATH_ABS   fabsf
#define MATH_MIN   fminf
#define MATH_MAX   fmaxf
#define UNARY_FUNCTION(name, number, attributes, formula)                                          \
    UNARY_ROWS_FOR(ROW_CLONES, name##_f32, float, float, float, formula)
#include "unary.def"

#define MATH_EXP   exp
#define MATH_EXPM1 expm1
#define MATH_LOG1P log1p
#define MATH_TANH  tanh
#define MATH_ABS   fabs
#define MATH_MIN   fmin
#define MATH_MAX   fmax
#define UNARY_FUNCTION(name, number, attributes, formula)                                          \
    UNARY_ROWS(name##_f64, double, double, double, formula)                                        \
    bool kernel_##name(KernelCall *call) {                                                         \
        static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(name)};               \
        return attributes;                                                                         \
    }
#include "unary.def"

/* ---- Gelu ------------------------------------------------------------------------------------ */

/* sqrt(2 / pi) */
#define GELU_SCALE 0.79788456080286535588

UNARY_ROWS_FOR(ROW_CLONES, gelu_f32, float, float, float, x *math_normal(x))
UNARY_ROWS(gelu_f64, double, double, double, x * 0.5 * erfc(-x * 0.70710678118654752440))
UNARY_ROWS_FOR(ROW_CLONES, gelu_tanh_f32, float, float, float, FORMULA_GELU_TANH(x, math_sigmoid))
UNARY_ROWS(gelu_tanh_f64, double, double, double,
           x / (1 + exp(-2 * GELU_SCALE * (x + 0.044715 * x * x * x))))

bool kernel_gelu(KernelCall *call) {
    static const UnaryFunction exact[DTYPE_COUNT] = {KERNEL_BY_FLOAT(gelu)};
    static const UnaryFunction by_tanh[DTYPE_COUNT] = {KERNEL_BY_FLOAT(gelu_tanh)};
    const GeluAttrs *attrs = call->attrs;
    if (attrs->approximate < 0) return kernel_fail(call, "approximate is neither none nor tanh");
    return kernel_unary_quick(call, attrs->approximate ? by_tanh : exact, NULL,
                              attrs->approximate ? quick_gelu_tanh : quick_gelu);
}

/* ---- integers too ---------------------------------------------------------------------------- */

#define RELUS(D, T, s) UNARY_ROWS(relu_##s, T, T, T, FORMULA_RELU(x))
UNARY_ROWS_FOR(ROW_CLONES, relu_f32, float, float, float, FORMULA_RELU(x))
UNARY_ROWS_FOR(ROW_CLONES, relu_f64, double, double, double, FORMULA_RELU(x))
KERNEL_SIGNED_LIST(RELUS)

bool kernel_relu(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(relu),
                                                         KERNEL_BY_SIGNED(relu)};
    return kernel_unary(call, functions, NULL);
}

UNARY_ROWS_FOR(ROW_CLONES, shrink_f32, float, float, float, FORMULA_SHRINK(x, p, q))
UNARY_ROWS_FOR(ROW_CLONES, shrink_f64, double, double, double, FORMULA_SHRINK(x, p, q))

/* Of integers: computed as double, truncated and saturated. */
#define INT_SHRINK(D, T, s, least, most, past)                                                     \
    UNARY_ROWS(shrink_##s, T, T, double, saturate_##s(FORMULA_SHRINK((double)x, p, q)))
SATURATE_LIST(INT_SHRINK)

bool kernel_shrink(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(shrink),
                                                         KERNEL_BY_INT(shrink)};
    return activate(call, functions);
}
