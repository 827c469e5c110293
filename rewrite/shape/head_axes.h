// SPDX-License-Identifier: Apache-2.0
/* Which axes of a tensor are batch, heads, rows and the elements of a head, as demi.fused's
 * Attention says it (operators/fused.def): for its shapes and its kernel. */
#ifndef DEMI_HEAD_AXES_H
#define DEMI_HEAD_AXES_H

#include <stdbool.h>
#include <stdint.h>

#include "attr_layout.h"

enum { HEAD_BATCH, HEAD_HEADS, HEAD_ROWS, HEAD_SIZE, HEAD_AXES };

typedef struct HeadAxes {
    int32_t axis[HEAD_AXES]; /* -1: there is none, so its size is 1 */
    int32_t rest;            /* the axis of which one part is read; -1: none */
} HeadAxes;

/* The axes of a tensor of that rank; absent: the last ones. False where the list is wrong, or the
 * rank leaves more than one axis over. */
bool head_axes_find(const AttrInts *given, uint32_t rank, HeadAxes *axes);

/* The rank that a result of these axes has; 0 where the list is wrong. */
uint32_t head_axes_rank(const AttrInts *given);

#endif
