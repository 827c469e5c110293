// SPDX-License-Identifier: Apache-2.0
/* Reshapes and Transposes in a row, for canonicalize. */
#ifndef DEMI_MERGE_MOVES_H
#define DEMI_MERGE_MOVES_H

#include "pass.h"

/* Where `last` ends a row of Reshapes (Squeezes, Unsqueezes, Flattens) and Transposes, each read by the
 * next alone, that fewer of them can stand for: one Reshape, one Transpose, a Transpose and a Reshape or
 * the other way round, or both around a Transpose. The row is replaced then, and true comes back. Sizes
 * are known, or names that come and go as they are. */
bool moves_merge(PassCtx *ctx, Node *last);

#endif
