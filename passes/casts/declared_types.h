// SPDX-License-Identifier: Apache-2.0
/* What a graph declares of its values, for passes that change types as they go. */
#ifndef DEMI_DECLARED_TYPES_H
#define DEMI_DECLARED_TYPES_H

#include "graph.h"

/* Brings a graph's declarations in line with the types that its values are known to have: the
 * entries of value_info of any graph, inputs and outputs of all but the main one, whose interface
 * is its author's. */
void declared_types_follow(Graph *graph);

#endif
