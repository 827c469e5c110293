// SPDX-License-Identifier: Apache-2.0
/* What demi's own tools and trials may see behind demi.h's handles; not installed. */
#ifndef DEMI_FRONT_H
#define DEMI_FRONT_H

#include "arena.h"
#include "demi.h"
#include "graph.h"

/* The model behind the handle, owned by it; read-only for tools that print more than demi.h tells.
 */
const Model *demi_front_model(const DemiModel *model);

/* The same, whose memory jumps to this trap until the next call that is given the handle. */
Model *demi_front_lend(DemiModel *model, MemTrap *trap);

/* demi_convert for who asks what it does to the graph: nodes and values are what they would be, all
 * weights being finite, and constants may hold anything. */
DemiStatus demi_front_sketch(DemiModel *model, const DemiConvertOptions *options, DemiError *error);

#endif
