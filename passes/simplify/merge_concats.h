// SPDX-License-Identifier: Apache-2.0
/* Concats of Concats, for canonicalize. */
#ifndef DEMI_MERGE_CONCATS_H
#define DEMI_MERGE_CONCATS_H

#include "pass.h"

/* Lets a Concat read what Concats along the same axis read that it alone reads, in their place. */
void concats_merge(PassCtx *ctx, Node *outer);

#endif
