// SPDX-License-Identifier: Apache-2.0
/* Depth first from each node in the graph's order to what it reads; see node_order.h. The way back
 * is kept on a stack of its own: a chain may be as long as the graph. */
#include "node_order.h"

typedef enum NodeState { NODE_NEW, NODE_WAITS, NODE_PLACED } NodeState;

typedef struct Order {
    uint32_t *first; /* [node_count], by the node's id: of what it reads in `read` */
    uint32_t *left;  /* [node_count]: how many of them are to be asked for, the last ones first */
    Node **read;     /* [use_count]: what each reads of its graph, the last ones first */
    uint8_t *state;  /* [node_count]: NodeState */
    Node **stack;    /* [node_count]: those that wait, each for the next one */
    Node **placed;   /* [node_count] */
} Order;

/* The node of `graph` that reads, itself or in a graph that it holds; NULL where an output of the
 * graph does. */
static Node *reader_in(const Use *use, const Graph *graph) {
    Node *node = use->node;
    for (const Graph *at = use_graph(use); at != graph; at = node->graph) {
        node = at->owner;
        if (!node) return NULL;
    }
    return node;
}

/* Counts in `left` what each node of the graph reads; with `list`, lists it, too. */
static void take_reads(const Graph *graph, Order *order, bool list) {
    for (Node *node = graph->last; node; node = node->prev)
        for (uint32_t i = 0; i < node->output_count; i++) {
            const Value *value = node->outputs[i];
            if (!value || value->producer != node || value->output_index != i)
                continue; /* of a name that is given twice, one counts: `read` has room for its uses */
            for (const Use *use = value->uses; use; use = use->next) {
                const Node *reader = reader_in(use, graph);
                if (!reader) continue;
                uint32_t at = order->left[reader->id]++;
                if (list) order->read[order->first[reader->id] + at] = node;
            }
        }
}

static void list_reads(const Graph *graph, Order *order) {
    take_reads(graph, order, false);
    uint32_t count = 0;
    for (const Node *node = graph->first; node; node = node->next) {
        order->first[node->id] = count;
        count += order->left[node->id];
        order->left[node->id] = 0;
    }
    take_reads(graph, order, true);
}

/* Places the node behind all that it reads. */
static void place(Order *order, Node *node, uint32_t *count) {
    if (order->state[node->id] != NODE_NEW) return;
    size_t depth = 0;
    order->stack[depth++] = node;
    order->state[node->id] = NODE_WAITS;
    while (depth) {
        Node *top = order->stack[depth - 1];
        if (!order->left[top->id]) {
            order->state[top->id] = NODE_PLACED;
            order->placed[(*count)++] = top;
            depth--;
            continue;
        }
        Node *read = order->read[order->first[top->id] + --order->left[top->id]];
        if (order->state[read->id] != NODE_NEW) continue; /* there, or waiting for this one */
        order->state[read->id] = NODE_WAITS;
        order->stack[depth++] = read;
    }
}

static bool order_graph(const Graph *graph, Order *order) {
    list_reads(graph, order);
    uint32_t count = 0;
    for (Node *node = graph->first; node; node = node->next) place(order, node, &count);
    bool changed = false;
    uint32_t at = 0;
    for (const Node *node = graph->first; node; node = node->next)
        changed |= order->placed[at++] != node;
    for (uint32_t i = 0; changed && i < count; i++) node_move_before(order->placed[i], NULL);
    return changed;
}

bool model_order_nodes(Model *model, Arena *scratch) {
    const uint32_t count = model->node_count;
    Order order = {.first = ARENA_ARRAY(scratch, uint32_t, count),
                   .left = ARENA_ARRAY(scratch, uint32_t, count),
                   .read = ARENA_ARRAY(scratch, Node *, model->use_count),
                   .state = ARENA_ARRAY(scratch, uint8_t, count),
                   .stack = ARENA_ARRAY(scratch, Node *, count),
                   .placed = ARENA_ARRAY(scratch, Node *, count)};
    GraphList graphs = model_graphs(model, scratch);
    bool changed = false;
    for (size_t i = 0; i < graphs.count; i++) changed |= order_graph(graphs.items[i], &order);
    return changed;
}
