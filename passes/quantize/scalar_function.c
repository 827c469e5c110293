// SPDX-License-Identifier: Apache-2.0
/* See scalar_function.h. */
#include "scalar_function.h"

#include <math.h>

#include "op_types.h"

/* X(operator, its value of x, y and z, with the attributes p and q, those's names and defaults) */
#define FUNCTIONS(X)                                                                               \
    X(Abs, fabs(x), NULL, 0, NULL, 0)                                                              \
    X(Add, x + y, NULL, 0, NULL, 0)                                                                \
    X(Celu, fmax(x, 0) + fmin(0, p * expm1(x / p)), "alpha", 1, NULL, 0)                           \
    X(Clip, clamp(x, y, z), "min", -INFINITY, "max", INFINITY)                                     \
    X(Div, x / y, NULL, 0, NULL, 0)                                                                \
    X(Elu, x < 0 ? p * expm1(x) : x, "alpha", 1, NULL, 0)                                          \
    X(Erf, erf(x), NULL, 0, NULL, 0)                                                               \
    X(Exp, exp(x), NULL, 0, NULL, 0)                                                               \
    X(Gelu, x *erfc(-x *sqrt(0.5)) / 2, NULL, 0, NULL, 0)                                          \
    X(HardSigmoid, clamp(p *x + q, 0, 1), "alpha", 0.2, "beta", 0.5)                               \
    X(HardSwish, x *clamp(x / 6 + 0.5, 0, 1), NULL, 0, NULL, 0)                                    \
    X(LeakyRelu, x < 0 ? p * x : x, "alpha", 0.01, NULL, 0)                                        \
    X(Max, fmax(x, y), NULL, 0, NULL, 0)                                                           \
    X(Min, fmin(x, y), NULL, 0, NULL, 0)                                                           \
    X(Mish, x *tanh(softplus(x)), NULL, 0, NULL, 0)                                                \
    X(Mul, x *y, NULL, 0, NULL, 0)                                                                 \
    X(Neg, -x, NULL, 0, NULL, 0)                                                                   \
    X(Pow, pow(x, y), NULL, 0, NULL, 0)                                                            \
    X(Reciprocal, 1 / x, NULL, 0, NULL, 0)                                                         \
    X(Relu, clamp(x, 0, INFINITY), NULL, 0, NULL, 0)                                               \
    X(Selu, q *(x < 0 ? p * expm1(x) : x), "alpha", 1.67326319, "gamma", 1.05070102)               \
    X(Sigmoid, sigmoid(x), NULL, 0, NULL, 0)                                                       \
    X(Softplus, softplus(x), NULL, 0, NULL, 0)                                                     \
    X(Softsign, x / (1 + fabs(x)), NULL, 0, NULL, 0)                                               \
    X(Sqrt, sqrt(x), NULL, 0, NULL, 0)                                                             \
    X(Sub, x - y, NULL, 0, NULL, 0)                                                                \
    X(Swish, x *sigmoid(p *x), "alpha", 1, NULL, 0)                                                \
    X(Tanh, tanh(x), NULL, 0, NULL, 0)                                                             \
    X(ThresholdedRelu, x > p ? x : 0, "alpha", 1, NULL, 0)

/* NaN stays. */
static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double softplus(double x) {
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

typedef enum Op {
#define NAMED(op, ...) OP_##op,
    FUNCTIONS(NAMED)
#undef NAMED
        OP_COUNT
} Op;

typedef struct Row {
    const char *op, *p_name, *q_name;
    double p, q;
} Row;

static const Row rows[] = {
#define ROW(op, formula, p_name, p, q_name, q) {#op, p_name, q_name, p, q},
    FUNCTIONS(ROW)
#undef ROW
};

static bool read(const Node *node, const char *name, double otherwise, double *number) {
    float given = 0;
    const Attr *attr = name ? node_attr(node, name) : NULL;
    *number = otherwise;
    if (!attr) return true;
    if (!attr_float(attr, &given)) return false;
    *number = (double)given;
    return true;
}

bool scalar_function_of(const Node *node, ScalarFunction *f) {
    if (!domain_is_default(node->domain) || node->output_count != 1 || !node->outputs[0] ||
        node->input_count < 1 || node->input_count > SCALAR_OPERANDS || !node->inputs[0].value)
        return false;
    for (f->op = 0; f->op < OP_COUNT && !sym_equals(node->op_type, rows[f->op].op);) f->op++;
    if (f->op == OP_COUNT) return false;
    const Row *row = &rows[f->op];
    if (!read(node, row->p_name, row->p, &f->p) || !read(node, row->q_name, row->q, &f->q))
        return false;
    f->otherwise[0] = NAN;
    f->otherwise[1] = f->op == OP_Clip ? f->p : NAN; /* version 6 has attributes, 11 operands */
    f->otherwise[2] = f->op == OP_Clip ? f->q : NAN;
    return true;
}

double scalar_function_at(const ScalarFunction *f, const double operands[SCALAR_OPERANDS]) {
    const double x = operands[0], y = operands[1], z = operands[2], p = f->p, q = f->q;
    (void)y, (void)z, (void)q;
    switch ((Op)f->op) {
#define CASE(op, formula, ...)                                                                     \
    case OP_##op: return formula;
        FUNCTIONS(CASE)
#undef CASE
    case OP_COUNT: break;
    }
    return NAN;
}
