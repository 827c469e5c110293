// SPDX-License-Identifier: Apache-2.0
/* demi's own operators, which one kernel computes in place of several: the domain demi.fused. The
 * rows are operators/fused.def. ops_find knows them; they are not among ops_at's published ones, and no
 * ONNX file holds them. */
#ifndef DEMI_FUSED_OPS_H
#define DEMI_FUSED_OPS_H

#include "ops.h"

#define FUSED_DOMAIN "demi.fused"
enum { FUSED_OPSET = 1 };

/* The operator of that name; NULL where there is none. */
const OpSchema *fused_ops_find(const char *name, size_t length);

/* All of them, sorted by name: 0 <= index < fused_ops_count(). */
size_t fused_ops_count(void);
const OpSchema *fused_ops_at(size_t index);

#endif
