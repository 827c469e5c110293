// SPDX-License-Identifier: Apache-2.0
/* The gradient of an If is an If: each branch computes its own once more and differentiates that with
 * respect to what both capture. */
#include "clone_nodes.h"
#include "gradient_rule.h"

/* What the branches read of outside, and something is to flow into. */
typedef struct Branches {
    Grad *g;
    Node *made; /* the If back */
    Value **xs;
    uint32_t x_count;
} Branches;

/* The outputs that something flows from, in the copy. */
static void find_outputs(Grad *g, const CloneNodes *clone, const Graph *branch, GradientAsk *ask) {
    const uint32_t outputs = g->node->output_count;
    Value **ys = ARENA_ARRAY(g->make.ctx->scratch, Value *, outputs + 1);
    Value **seeds = ARENA_ARRAY(g->make.ctx->scratch, Value *, outputs + 1);
    for (uint32_t i = 0; i < outputs && i < branch->outputs.count; i++) {
        if (!grad_flow(g, i)) continue;
        ys[ask->y_count] = clone_value(clone, branch->outputs.items[i]->use.value);
        seeds[ask->y_count++] = grad_flow(g, i);
    }
    ask->ys = ys;
    ask->seeds = seeds;
}

static void put_gradients(Branches *b, Graph *made, Node *end, Value **gradients) {
    Grad *g = b->g;
    Arena *arena = &g->make.ctx->model->arena;
    const Make make = {g->make.ctx, end, g->make.stem};
    for (uint32_t i = 0; i < b->x_count; i++) {
        Grad inner = *g;
        inner.make = make;
        Value *flow = gradients[i] ? gradients[i] : grad_fill(&inner, 0, b->xs[i]);
        Value *same = make_op(&make, "Identity", &flow, 1, type_dtype(b->xs[i]->type));
        value_set_type(same, b->xs[i]->type);
        ValueDecl *decl = ARENA_NEW(arena, ValueDecl);
        decl->type = b->xs[i]->type;
        graph_add_output(made, same, decl);
    }
}

/* Puts a copy of the branch into the If back, which gives gradients. */
static void differentiate_branch(Branches *b, const char *name) {
    Grad *g = b->g;
    Model *model = g->make.ctx->model;
    const Graph *branch = attr_graph(node_attr(g->node, name));
    CloneNodes clone = clone_begin(model, g->make.ctx->scratch);
    Graph *made = clone_inside(&clone, branch, g->make.at->graph);
    grad_graph_hold(b->made, name, made);
    Node *end = grad_graph_end(g, made);
    GradientAsk ask = {.at = end, .xs = b->xs, .x_count = b->x_count};
    Value **gradients = ARENA_ARRAY(g->make.ctx->scratch, Value *, b->x_count + 1);
    find_outputs(g, &clone, branch, &ask);
    g->failed = !g->walk->expand(g->make.ctx, &ask, gradients, g->err);
    if (!g->failed) put_gradients(b, made, end, gradients);
    gradient_sweep(g->make.ctx, NULL, end);
    node_remove(end);
}

void gradient_if(Grad *g) {
    Branches b = {.g = g};
    b.xs = grad_captures(g, &b.x_count);
    if (g->failed) return;
    Node *made = b.made = make_node(&g->make, sym_text(g->node->op_type), NULL, 1);
    node_set_input(made, 0, grad_in(g, 0));
    differentiate_branch(&b, "then_branch");
    if (!g->failed) differentiate_branch(&b, "else_branch");
    if (g->failed) return;
    for (uint32_t i = 0; i < b.x_count; i++) {
        Value *flow = make_output(&g->make, made, type_dtype(b.xs[i]->type));
        value_set_type(flow, b.xs[i]->type);
        grad_give_value(g, b.xs[i], flow);
    }
}
