// SPDX-License-Identifier: Apache-2.0
/* The table of gradients: the GRADIENT rows of operators/; see gradient_rule.h. */
#include "gradient_rule.h"
#include "op_id.h"

#define ROW_OF_RULE(since, inputs, rule)                                                           \
    {since, GRADIENT_RULE, inputs, gradient_##rule, NULL, {NULL}, NULL},
#define ROW_OF_BODY(since, inputs, rule)                                                           \
    {since, GRADIENT_BODY, inputs, NULL, gradient_##rule, {NULL}, NULL},
#define ROW_OF_FORMULA(since, ...) {since, GRADIENT_FORMULA, 0, NULL, NULL, {__VA_ARGS__}, NULL},
#define ROW_OF_NONE(why)           {1, GRADIENT_NONE, 0, NULL, NULL, {NULL}, why},
#define ROW_OF_REFUSED(why)        {1, GRADIENT_REFUSED, UINT32_MAX, NULL, NULL, {NULL}, why},

#define OPERATOR(domain, name, ...) [OP_##domain##_##name] = OP_ROWS(GradientRow, __VA_ARGS__),
#define GRADIENT(kind, ...)         ROW_OF_##kind(__VA_ARGS__)
static const OpRows table[OP_ID_COUNT] = {
#include "operators.def"
};

const GradientRow *gradient_row(const char *op) {
    const OpRows *rows = &table[op_id("", op)];
    return rows->count ? rows->rows : NULL;
}
