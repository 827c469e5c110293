// SPDX-License-Identifier: Apache-2.0
/* The table of gradients: the GRADIENT rows of operators/; see gradient_rule.h. */
#include "gradient_rule.h"
#include "op_id.h"

#define ROW_OF_RULE(since, inputs, rule)                                                           \
    ROW(since, GRADIENT_RULE, inputs, gradient_##rule, NULL, {NULL}, NULL)
#define ROW_OF_BODY(since, inputs, rule)                                                           \
    ROW(since, GRADIENT_BODY, inputs, NULL, gradient_##rule, {NULL}, NULL)
#define ROW_OF_FORMULA(since, ...) ROW(since, GRADIENT_FORMULA, 0, NULL, NULL, {__VA_ARGS__}, NULL)
#define ROW_OF_NONE(why)           ROW(1, GRADIENT_NONE, 0, NULL, NULL, {NULL}, why)
#define ROW_OF_REFUSED(why)        ROW(1, GRADIENT_REFUSED, UINT32_MAX, NULL, NULL, {NULL}, why)
#define GRADIENT(kind, ...)        ROW_OF_##kind(__VA_ARGS__)
#define OP_TABLE_TYPE              GradientRow
#define OP_TABLE                   gradients
#include "op_table.inc"

const GradientRow *gradient_row(const char *op) {
    const OpSpan span = gradients_of[op_id("", op)];
    return span.count ? &gradients[span.first] : NULL;
}
