// SPDX-License-Identifier: Apache-2.0
/* strcmp for searching tables of names, where most comparisons end with the first byte, and many
 * are of empty domains: those need no call. */
#ifndef DEMI_BASE_TEXT_ORDER_H
#define DEMI_BASE_TEXT_ORDER_H

#include <stdbool.h>
#include <string.h>

/* Below, above or equal to 0 as a comes before, after or is equal to b. */
static inline int text_order(const char *a, const char *b) {
    int first = (unsigned char)*a - (unsigned char)*b;
    return first || !*a ? first : strcmp(a + 1, b + 1);
}

static inline bool text_equals(const char *a, const char *b) {
    return text_order(a, b) == 0;
}

#endif
