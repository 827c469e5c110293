// SPDX-License-Identifier: Apache-2.0
/* Graphs that rules make for attributes of nodes; see gradient_rule.h. */
#include "gradient_rule.h"

Graph *grad_graph(Grad *g, Sym name) {
    const Graph *around = g->make.at->graph;
    Graph *graph = graph_new(g->make.ctx->model, g->make.at->graph);
    graph->function = around->function;
    graph->opsets = around->opsets;
    graph->name = name;
    return graph;
}

static ValueDecl *decl_of(Grad *g, const Type *type) {
    ValueDecl *decl = ARENA_NEW(&g->make.ctx->model->arena, ValueDecl);
    decl->type = type;
    return decl;
}

Value *grad_graph_input(Grad *g, Graph *graph, const char *stem, const Type *type) {
    Model *model = g->make.ctx->model;
    Value *value = value_new(graph, sym_fresh(&model->syms, stem));
    value_set_type(value, type);
    value->input = decl_of(g, type);
    VEC_PUSH(&model->arena, &graph->inputs, value);
    return value;
}

void grad_graph_output(Grad *g, Graph *graph, Node *end, Value *value) {
    const Make make = {g->make.ctx, end, g->make.stem};
    Value *same = make_op(&make, "Identity", &value, 1, type_dtype(value->type));
    const Type *type = type_plain_tensor(type_dtype(value->type));
    graph_add_output(graph, same, decl_of(g, type));
}

Node *grad_graph_end(Grad *g, Graph *graph) {
    return node_new(graph, NULL, sym_intern_cstr(&g->make.ctx->model->syms, "Identity"), NULL);
}

void grad_graph_hold(Node *node, const char *name, Graph *graph) {
    graph->owner = node;
    node_set_attr_graph(node, name, graph);
}

/* ---- scans ----------------------------------------------------------------------------------- */

GradScan grad_scan_begin(Grad *g) {
    GradScan scan = {.g = g, .inner = *g};
    scan.body = grad_graph(g, sym_intern_cstr(&g->make.ctx->model->syms, "step"));
    scan.inner.make.at = grad_graph_end(g, scan.body);
    return scan;
}

Value *grad_scan_state(GradScan *scan, Value *first, const Type *type) {
    VEC_PUSH(scan->g->make.ctx->scratch, &scan->operands, first);
    return grad_graph_input(scan->g, scan->body, "state", type);
}

Value *grad_scan_input(GradScan *scan, Value *all, const Type *type) {
    scan->inputs++;
    VEC_PUSH(scan->g->make.ctx->scratch, &scan->operands, all);
    return grad_graph_input(scan->g, scan->body, "part", type);
}

void grad_scan_give(GradScan *scan, Value *value) {
    grad_graph_output(scan->g, scan->body, scan->inner.make.at, value);
}

Node *grad_scan_end(GradScan *scan) {
    Grad *g = scan->g;
    const uint32_t count = (uint32_t)scan->operands.count;
    g->failed = g->failed || scan->inner.failed;
    gradient_sweep(g->make.ctx, NULL, scan->inner.make.at);
    node_remove(scan->inner.make.at);
    Node *node = make_node(&g->make, "Scan", NULL, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, scan->operands.items[i]);
    node_set_attr_int(node, "num_scan_inputs", scan->inputs);
    grad_graph_hold(node, "body", scan->body);
    return node;
}
