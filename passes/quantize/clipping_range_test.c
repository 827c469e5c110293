// SPDX-License-Identifier: Apache-2.0
/* clipping_range.h: where functions of one value stop to differ, and what else reads it. */
#include <math.h>

#include "test_model.h"

#include "clipping_range.h"

/* Every value but x reaches [-100, 100], where `known`. */
static bool ends_of(const void *user, const Value *value, ClippingRange *ends) {
    (void)value;
    *ends = (ClippingRange){-100, 100};
    return *(const bool *)user;
}

/* Of x, in [-20, 30]: the ends within a point's distance. */
static void check(const char *text, bool known, double low, double high) {
    Model *model = test_model(text);
    const UsefulQuestion question = {ends_of, &known, 256};
    ClippingRange ends = {-20, 30};
    clipping_range(&question, model->graph->inputs.items[0], &ends);
    if (!(ends.low <= low && ends.low > low - 0.2) ||
        !(ends.high >= high && ends.high < high + 0.2))
        fail_msg("[%g, %g], expected [%g, %g] of\n%s", ends.low, ends.high, low, high, text);
    model_free(model);
}

#define MODEL(body)                                                                                \
    "g (float[4] x) => (float[4] y)\n<float three = {3}, float zero = {0}, float six = "           \
    "{6}>\n{ " body " }\n"

TEST(test_bounds) {
    check(MODEL("y = Relu (x)"), false, 0, 30);
    check(MODEL("y = HardSigmoid <alpha = 0.25> (x)"), false, -2, 2);
    check(MODEL("y = Clip (x, zero, six)"), false, 0, 6);
    check(MODEL("n = Neg (x)  y = Clip (n, zero, six)"), false, -6, 0);
    check(MODEL("y = HardSwish (x)"), false, -3, 30);
    check(MODEL("a = Add (x, three)  c = Clip (a, zero, six)  d = Div (c, six)  y = Mul (d, x)"),
          false, -3, 30);
    check(MODEL("c = HardSigmoid (x)  d = Relu (x)  y = Mul (c, d)"), false, 0, 30);
}

/* Up to a quarter of a level of results within [-100, 100], 0.195: where that is known. */
TEST(test_slack) {
    check(MODEL("y = Sigmoid (x)"), false, -20, 30);
    check(MODEL("y = Sigmoid (x)"), true, -1.42, 1.42);
    check(MODEL("s = Sigmoid (x)  y = Mul (s, x)"), true, -2.43, 29.9);
}

/* What is no function of x alone, or keeps apart what a later one does not. */
TEST(test_others) {
    check("g (float[4] x, float[4] z) => (float[4] y) { r = Relu (x)  y = Add (x, z) }", false, -20,
          30);
    check("g (float[4] x, float[4] z) => (float[4] y) { r = Relu (x)  y = Mul (r, z) }", false, 0,
          30);
    check("g (float[4] x) => (float[4] y, float[4] x) { y = Relu (x) }", false, -20, 30);
    check("g (float[4] x) => (float[4] y, float[4] a) { a = Abs (x)  y = Relu (x) }", false, -20,
          30);
    check("g (float[4] x) => (float[1] y) { r = Relu (x)  y = ReduceMean (r) }", false, 0, 30);
    check(MODEL("z = Mul (x, zero)  y = Exp (z)"), false, -20, 30);
    check(MODEL("s = Sqrt (x)  y = Relu (s)"), false, -20, 30); /* NaN is no constant */
}
