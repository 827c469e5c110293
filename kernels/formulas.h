// SPDX-License-Identifier: Apache-2.0
/* Functions of one number, as the operators' definitions have them: written once, for the processor's
 * loops, for what follows a product, and for CUDA.
 *
 * x is the operand, p and q are the operator's attributes in the order of its layout. Functions that
 * each side has its own of (exponentials, the smaller of two) are arguments. Macros, as types are those
 * of the arguments: of float alone where a constant is one. Arguments are evaluated several times.
 */
#ifndef DEMI_FORMULAS_H
#define DEMI_FORMULAS_H

#define FORMULA_BETWEEN(value, low, high)                                                          \
    ((value) < (low) ? (low) : (value) > (high) ? (high) : (value))

#define FORMULA_RELU(x)                ((x) < 0 ? 0 : (x))
#define FORMULA_LEAKY_RELU(x, p)       ((x) < 0 ? (p) * (x) : (x))
#define FORMULA_THRESHOLDED_RELU(x, p) ((x) > (p) ? (x) : 0)
#define FORMULA_ELU(x, p, expm1_)      ((x) < 0 ? (p)*expm1_(x) : (x))
#define FORMULA_SELU(x, p, q, expm1_)  ((q) * ((x) <= 0 ? (p)*expm1_(x) : (x)))
/* max(0, x) + min(0, alpha (e^(x / alpha) - 1)): with a negative alpha both may count */
#define FORMULA_CELU(x, p, expm1_, min) (((x) < 0 ? 0 : (x)) + min(0, (p)*expm1_((x) / (p))))
#define FORMULA_SOFTSIGN(x, abs_)       ((x) / (1 + abs_(x)))
#define FORMULA_SHRINK(x, p, q)         ((x) < -(p) ? (x) + (q) : (x) > (p) ? (x) - (q) : 0)
#define FORMULA_SWISH(x, p, sigmoid)    ((x)*sigmoid((p) * (x)))

/* Of float. */
#define FORMULA_HARD_SIGMOID(x, p, q) FORMULA_BETWEEN((p) * (x) + (q), 0.0f, 1.0f)
#define FORMULA_HARD_SWISH(x)         ((x)*FORMULA_BETWEEN((x) * (1.0f / 6) + 0.5f, 0.0f, 1.0f))
/* Gelu's tanh form: 0.5 (1 + tanh(u)) is the logistic function of 2 u, without cancellation where x is
 * negative; the factor is sqrt(8 / pi). */
#define FORMULA_GELU_TANH(x, sigmoid) ((x)*sigmoid(FORMULA_GELU_TANH_OF(x)))
#define FORMULA_GELU_TANH_OF(x)       (1.5957691216057308f * ((x) + 0.044715f * (x) * (x) * (x)))
/* Mish of e = e^x, x up to 20: tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2); past 20 it is 1 */
#define FORMULA_MISH(x, e) ((x) * ((e) * ((e) + 2) / ((e) * ((e) + 2) + 2)))

#endif
