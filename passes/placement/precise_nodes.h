// SPDX-License-Identifier: Apache-2.0
/* Nodes that have to be exact, for whoever makes anything less of float: see placement_precise.c. */
#ifndef DEMI_PRECISE_NODES_H
#define DEMI_PRECISE_NODES_H

#include "pass.h"

/* Why 16 bits are too few for what a node computes, by id: [node_count], NULL for most, in scratch. NULL
 * with *err set on failure. Types must be exact. */
const char **precise_nodes(PassCtx *ctx, Err *err);

#endif
