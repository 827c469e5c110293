// SPDX-License-Identifier: Apache-2.0
/* Puts the nodes of a model's graphs in an order in which they can be computed.
 *
 * The ONNX specification asks files for one, but not every tool writes one: ONNX Runtime's float16
 * converter and its quantizers append nodes that earlier ones read, and ONNX Runtime itself sorts
 * what it loads.
 */
#ifndef DEMI_NODE_ORDER_H
#define DEMI_NODE_ORDER_H

#include "graph.h"

/* In every graph a node comes after those whose results it, or a node in a graph that it holds,
 * reads: just before its first reader where it came later, and else where it was. False where that
 * changed nothing. Nodes that wait for each other stay out of order; model_verify says so. The model
 * need not be sound, but as its reader made it. Memory of `scratch`; time by nodes, and by uses
 * times the depth of graphs. */
bool model_order_nodes(Model *model, Arena *scratch);

#endif
