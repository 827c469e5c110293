// SPDX-License-Identifier: Apache-2.0
/* How large a model is with the bodies of its functions in place of their calls: calls of calls
 * double it again and again, so that it has to be known before anything is made of it. */
#include "call_size.h"

enum { NODE_BYTES = 256, DEPTH_MAX = 300, SHARE = 64 };
static const uint64_t LEAST_ROOM = UINT64_C(8) << 20;

static uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- nodes with calls replaced --------------------------------------------------------------- */

typedef struct Expansion {
    const Model *model;
    uint64_t *sizes; /* by function: 1 + what its body becomes; 0: not known yet */
    unsigned depth;
    uint64_t total; /* of the graph at hand */
} Expansion;

static void add_graph(Graph *graph, void *data);

static uint64_t size_of_call(Expansion *e, const Function *function) {
    uint64_t *size = &e->sizes[function->index], outer = e->total;
    if (*size) return *size;
    if (e->depth == DEPTH_MAX) return UINT64_MAX;
    *size = UINT64_MAX; /* what calls itself never ends */
    e->total = 1;
    add_graph(function->body, e);
    *size = e->total;
    e->total = outer;
    return *size;
}

static void add_graph(Graph *graph, void *data) {
    Expansion *e = data;
    e->depth++;
    for (const Node *node = graph->first; node; node = node_after(node)) {
        const Function *function = model_find_function(e->model, node);
        e->total = sum(e->total, function ? size_of_call(e, function) : 1);
        if (node->attrs && e->depth < DEPTH_MAX) node_each_graph(node, add_graph, e);
    }
    e->depth--;
}

uint64_t call_size_expanded(const Model *model, Arena *scratch) {
    if (!model->functions.count) return 0;
    Expansion e = {.model = model, .sizes = ARENA_ARRAY(scratch, uint64_t, model->functions.count)};
    add_graph(model->graph, &e);
    return e.total;
}

/* ---- what a model may become ----------------------------------------------------------------- */

static uint64_t size_of_attr(const Attr *attr) {
    const SparseTensor *sparse = attr_sparse(attr);
    const Tensor *tensor = sparse ? sparse->values : attr_tensor(attr);
    Bytes text = {0};
    uint64_t size = 8 * (uint64_t)attr->count;
    attr_string(attr, &text);
    if (tensor && tensor_check(tensor, NULL)) size = sum(size, tensor_raw_size(tensor));
    return sum(size, text.size);
}

uint64_t call_size_room(const Model *model, Arena *scratch) {
    GraphList graphs = model_graphs(model, scratch);
    uint64_t size = 0;
    for (size_t i = 0; i < graphs.count; i++) {
        const Graph *graph = graphs.items[i];
        for (const Node *node = graph->first; node; node = node_after(node)) {
            size = sum(size, NODE_BYTES);
            for (const Attr *attr = node->attrs; attr; attr = attr->next)
                size = sum(size, size_of_attr(attr));
        }
        for (size_t k = 0; k < graph->sparse_initializers.count; k++) {
            const Tensor *values = graph->sparse_initializers.items[k]->sparse_init->values;
            if (values && tensor_check(values, NULL)) size = sum(size, tensor_raw_size(values));
        }
    }
    return size > (UINT64_MAX - LEAST_ROOM) / SHARE ? UINT64_MAX : LEAST_ROOM + SHARE * size;
}
