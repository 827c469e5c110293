// SPDX-License-Identifier: Apache-2.0
/* The table of gradients; see gradient_rule.h. */
#include <string.h>

#include "gradient_rule.h"

static const GradientRow rows[] = {
#define GRADIENT(op, since, inputs, rule)                                                          \
    {op, since, GRADIENT_RULE, inputs, gradient_##rule, NULL, {NULL}, NULL},
#define BODY(op, since, inputs, rule)                                                              \
    {op, since, GRADIENT_BODY, inputs, NULL, gradient_##rule, {NULL}, NULL},
#define FORMULA(op, since, ...) {op, since, GRADIENT_FORMULA, 0, NULL, NULL, {__VA_ARGS__}, NULL},
#define NONE(op, why)           {op, 1, GRADIENT_NONE, 0, NULL, NULL, {NULL}, why},
#define REFUSED(op, why)        {op, 1, GRADIENT_REFUSED, UINT32_MAX, NULL, NULL, {NULL}, why},
#include "gradient_rules.def"
};

const GradientRow *gradient_row(const char *op) {
    size_t low = 0, high = sizeof rows / sizeof *rows;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = strcmp(rows[middle].op, op);
        if (order == 0) return &rows[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
