// SPDX-License-Identifier: Apache-2.0
/* Mentions: value_info entries that are not the entry of a value that their graph defines.
 *
 * A file may repeat an entry, give a branch one for a value that it captures, or the main graph one
 * for a value of a branch. ONNX's inference takes each at its word wherever the name is visible, so
 * what it says must stay what the value is. Readers make a Value of its own for each, which nothing
 * defines and nothing reads; the pipeline brings them in line after every pass that edited the
 * model.
 */
#ifndef DEMI_MENTIONS_H
#define DEMI_MENTIONS_H

#include "graph.h"

/* Gives every mention the dtypes of the value that its name stands for: of its own graph, else of
 * the nearest enclosing one, else of the graphs inside, if they agree. One that stands for values
 * of different dtypes is dropped; one that stands for nothing stays as it is. */
void mentions_sync(Model *model, Arena *scratch);

#endif
