// SPDX-License-Identifier: Apache-2.0
/* Slices of slices, for remove-identities. */
#ifndef DEMI_MERGE_SLICES_H
#define DEMI_MERGE_SLICES_H

#include "pass.h"

/* Lets a Slice read what the Slice before it reads, and take from it what both took, where these are
 * constant places along different axes, forwards by one. False, and nothing happens, where not, and
 * where something else reads what lies between: two would then have to be computed. */
bool slices_merge(PassCtx *ctx, Node *outer);

#endif
