// SPDX-License-Identifier: Apache-2.0
/* By bisection; see kernel_rows_find.h. */
#include "kernel_rows_find.h"

#include <string.h>

static int compare(const char *domain, const char *op, const KernelRow *row) {
    int order = strcmp(domain, row->domain);
    return order ? order : strcmp(op, row->op);
}

const KernelRow *kernel_rows_find(const KernelRow *rows, size_t row_count, const char *domain,
                                  const char *op, int64_t opset, size_t *count) {
    size_t low = 0, high = row_count;
    while (low < high) { /* the first row of the operator */
        size_t middle = low + (high - low) / 2;
        if (compare(domain, op, &rows[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t best = row_count;
    for (size_t i = low; i < row_count && compare(domain, op, &rows[i]) == 0; i++) {
        if (rows[i].since > opset) break;
        if (best == row_count || rows[i].since != rows[best].since) best = i;
    }
    if (best == row_count) return NULL;
    *count = 1;
    while (best + *count < row_count && compare(domain, op, &rows[best + *count]) == 0 &&
           rows[best + *count].since == rows[best].since)
        ++*count;
    return &rows[best];
}
