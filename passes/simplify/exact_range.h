// SPDX-License-Identifier: Apache-2.0
/* Whether a Range of floats is the same in every engine. */
#ifndef DEMI_EXACT_RANGE_H
#define DEMI_EXACT_RANGE_H

#include "pass.h"

/* True of a Range of floats whose operands are constants, and whose elements and their number come out
 * alike whether an engine adds delta again and again or multiplies it: nothing is rounded. *count is
 * that number then. */
bool range_is_exact(PassCtx *ctx, const Node *range, int64_t *count);

#endif
