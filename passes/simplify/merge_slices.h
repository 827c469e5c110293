// SPDX-License-Identifier: Apache-2.0
/* Slices of slices, and slices that make up the whole, for canonicalize. */
#ifndef DEMI_MERGE_SLICES_H
#define DEMI_MERGE_SLICES_H

#include "pass.h"

/* Lets a Slice read what the Slice before it reads, and take from it what both took, where these are
 * constant places along different axes, forwards by one. False, and nothing happens, where not, and
 * where something else reads what lies between: two would then have to be computed. */
bool slices_merge(PassCtx *ctx, Node *outer);

/* Puts a Split in the place of Slices of one value that together are all of it, each element once: constant
 * places along one axis of known size, forwards by one. Slices that Slices or Squeezes read stay, which
 * have merges of their own. False, and nothing happens, where `slice` is not one of such. Since opset
 * 13. */
bool slices_become_split(PassCtx *ctx, const Node *slice);

#endif
