// SPDX-License-Identifier: Apache-2.0
/* Finding an operator's rows in a table of them: the processor's and each device's. */
#ifndef DEMI_KERNEL_ROWS_FIND_H
#define DEMI_KERNEL_ROWS_FIND_H

#include "kernel.h"

/* kernel_find in rows[row_count], sorted by domain, operator and since. */
const KernelRow *kernel_rows_find(const KernelRow *rows, size_t row_count, const char *domain,
                                  const char *op, int64_t opset, size_t *count);

#endif
