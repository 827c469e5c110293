// SPDX-License-Identifier: Apache-2.0
/* What a model becomes where calls of functions are replaced by bodies, and what it may become. */
#ifndef DEMI_CALL_SIZE_H
#define DEMI_CALL_SIZE_H

#include "graph.h"

/* Nodes that the main graph has, nested ones included, once every call is replaced by the body of
 * its function; UINT64_MAX where that has no end. Graphs that a call hands to its function are not
 * followed. 0 for a model without functions. Linear in the model. */
uint64_t call_size_expanded(const Model *model, Arena *scratch);

/* Bytes that may be made of a model beyond what its own nodes and constants take: 8 MiB, and 64
 * times what nodes, their attributes and sparse constants are. A model of layers that call each
 * other needs a small part of it; one that is made to burst is stopped early. */
uint64_t call_size_room(const Model *model, Arena *scratch);

#endif
