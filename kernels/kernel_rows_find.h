// SPDX-License-Identifier: Apache-2.0
/* Which rows of an operator hold of a version: the processor's and each device's. */
#ifndef DEMI_KERNEL_ROWS_FIND_H
#define DEMI_KERNEL_ROWS_FIND_H

#include "kernel.h"

/* kernel_find among an operator's rows of a table, sorted by since. */
const KernelRow *kernel_rows_find(const KernelRow *table, OpSpan span, int64_t opset,
                                  size_t *count);

#endif
