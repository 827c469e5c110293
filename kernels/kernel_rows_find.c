// SPDX-License-Identifier: Apache-2.0
/* From behind: an operator has a handful of rows. */
#include "kernel_rows_find.h"

const KernelRow *kernel_rows_find(const KernelRow *table, OpSpan span, int64_t opset,
                                  size_t *count) {
    const KernelRow *rows = &table[span.first];
    size_t end = span.count;
    while (end && rows[end - 1].since > opset) end--;
    size_t first = end;
    while (first && rows[first - 1].since == rows[end - 1].since) first--;
    if (first == end) return NULL;
    *count = end - first;
    return &rows[first];
}
