// SPDX-License-Identifier: Apache-2.0
/* Minimum cuts, by the highest-label preflow-push method (Cherkassky and Goldberg 1997).
 *
 * Build a network with flow_add_arc, solve it, ask which side of the cut a node is on. Nodes are
 * numbered from 0; FLOW_SOURCE and FLOW_SINK are the first two. */
#ifndef DEMI_MAX_FLOW_H
#define DEMI_MAX_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "vec.h"

enum { FLOW_SOURCE = 0, FLOW_SINK = 1 };

typedef struct FlowArc {
    uint32_t from, to;
    int64_t residual; /* arc 2i and 2i + 1 are each other's reverse */
} FlowArc;

typedef struct FlowNetwork {
    Arena *arena;
    uint32_t node_count;
    VEC(FlowArc) arcs;
    uint32_t *first, *order; /* arcs by tail: order[first[v] .. first[v + 1]) */
    uint32_t *label, *current, *next_active, *bucket, *label_count;
    int64_t *excess;
    uint32_t highest;
    bool *reaches_sink; /* the answer */
} FlowNetwork;

/* An empty network: source and sink only. */
void flow_init(FlowNetwork *network, Arena *arena);

uint32_t flow_add_node(FlowNetwork *network);

/* An arc of that capacity, and of `backward` in the other direction. Capacities are not negative;
 * the sum over all arcs must stay below 2^62. Arcs into the source or out of the sink are
 * dropped. */
void flow_add_arc(FlowNetwork *network, uint32_t from, uint32_t to, int64_t forward,
                  int64_t backward);

/* Finds the minimum cut whose source side is largest. */
void flow_solve(FlowNetwork *network);

/* True where the node lies on the source's side of that cut. */
bool flow_on_source_side(const FlowNetwork *network, uint32_t node);

#endif
