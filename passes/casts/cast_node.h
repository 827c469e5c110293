// SPDX-License-Identifier: Apache-2.0
/* Casts that demi puts into a graph: one place that makes, names and marks them. */
#ifndef DEMI_CAST_NODE_H
#define DEMI_CAST_NODE_H

#include "pass.h"

/* Puts a cast of value right behind value's producer (first in its graph where it has none), marked
 * as demi's own, and counts it. `type` is the result's: value's with another element type. Imports
 * the default domain where the graph's opsets lack it. *like is a cast inserted before, or NULL:
 * where both say the same, that is kept once, else *like becomes this one. `like` may be NULL. */
Value *cast_insert(PassCtx *ctx, Value *value, const Type *type, Node **like);

/* The cast's result takes over the name that value, an output of the model or of a function, has;
 * value is called by its own type then. */
void cast_name_output(PassCtx *ctx, Value *value, Value *cast);

/* Sets the type that a Cast node casts to, as its opset spells it. */
void cast_set_to(Node *cast, Dtype to);

/* True where something in the model says that demi changed it: a cast of its own, or an entry
 * demi.was of a node, an input, an output or the model. `graphs` are the model's. */
bool casts_left_mark(const Model *model, const GraphList *graphs);

/* Where casts were added and nothing is left to say so, as all of them were folded into constants,
 * the model says it: strip-casts then knows whose 16-bit constants they are. */
void casts_leave_mark(PassCtx *ctx);

/* What that entry demi.was of the model holds. */
#define CONSTANTS_MARK "constants"

#endif
