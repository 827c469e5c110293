// SPDX-License-Identifier: Apache-2.0
/* Gradients of elementwise operators that a formula of the table can't say: those with operands that
 * may be absent, with any number of operands, or with attributes that are words. */
#include <math.h>

#include "gradient_rule.h"

void gradient_cast(Grad *g) {
    grad_give(g, 0, grad_cast(g, grad_flow(g, 0), type_dtype(grad_in(g, 0)->type)));
}

/* Every bound may be absent. What lies on one is taken to lie within. */
void gradient_clip(Grad *g) {
    Value *x = grad_in(g, 0), *low = grad_in(g, 1), *high = grad_in(g, 2);
    Value *inner = grad_flow(g, 0);
    if (low && grad_wants(g, 1)) grad_give_sum(g, 1, GRAD_CALC(g, "Where(x < b, dy, 0)", NULL));
    if (high && grad_wants(g, 2)) grad_give_sum(g, 2, GRAD_CALC(g, "Where(x > c, dy, 0)", NULL));
    if (!grad_wants(g, 0)) return;
    if (low) inner = GRAD_CALC(g, "Where(p >= q, r, 0)", x, low, inner);
    if (high) inner = GRAD_CALC(g, "Where(p <= q, r, 0)", x, high, inner);
    grad_give(g, 0, inner);
}

/* What it kept. A node that gives no mask gives one from now on. */
static Value *mask_of(Grad *g) {
    Node *node = (Node *)(uintptr_t)g->node;
    Model *model = node->graph->model;
    if (grad_out(g, 1)) return grad_out(g, 1);
    const Value *y = node->outputs[0];
    Value *mask = value_new(
        node->graph,
        sym_fresh(&model->syms, arena_printf(g->make.ctx->scratch, "%s_mask", sym_text(y->name))));
    value_set_type(mask, type_with_dtype(&model->arena, value_type(y), DTYPE_BOOL));
    if (node->output_count < 2) node_resize_outputs(node, 2);
    node_set_output(node, 1, mask);
    return mask;
}

void gradient_dropout(Grad *g) {
    Value *ratio = grad_in(g, 1), *mode = grad_in(g, 2);
    if (!mode) { /* it trains nothing: it is an Identity */
        grad_give(g, 0, grad_flow(g, 0));
        return;
    }
    Value *dy = grad_flow(g, 0);
    Value *kept = GRAD_CALC(g, "Where(p, dy, 0)", mask_of(g));
    Value *share = ratio ? grad_cast(g, ratio, type_dtype(dy->type)) : grad_number(g, 0.5, dy);
    Value *scaled = GRAD_CALC(g, "p / (1 - q)", kept, share);
    grad_give(g, 0, GRAD_AS(g, "Where", type_dtype(dy->type), mode, scaled, dy));
}

void gradient_gelu(Grad *g) {
    const char *formula = "dy * (0.5 * (1 + Erf(x * 0.7071067811865475)) + "
                          "x * 0.3989422804014327 * Exp(-0.5 * x * x))";
    if (grad_is(g, "approximate", "tanh")) {
        Value *t =
            GRAD_CALC(g, "Tanh(x * (0.7978845608028654 + 0.035677408136300125 * x * x))", NULL);
        grad_give(g, 0,
                  GRAD_CALC(g,
                            "dy * (0.5 * (1 + p) + 0.5 * x * (1 - p * p) * "
                            "(0.7978845608028654 + 0.10703222440890037 * x * x))",
                            t));
        return;
    }
    grad_give(g, 0, GRAD_CALC(g, formula, NULL));
}

/* Operands that are equally large share what flows. */
void gradient_extreme(Grad *g) {
    Value *dy = grad_flow(g, 0), *count = NULL;
    const uint32_t inputs = g->node->input_count;
    Value **hits = ARENA_ARRAY(g->make.ctx->scratch, Value *, inputs + 1);
    for (uint32_t i = 0; i < inputs; i++) {
        hits[i] = grad_cast(g, GRAD_CALC(g, "p == y", grad_in(g, i)), type_dtype(dy->type));
        count = count ? GRAD(g, "Add", count, hits[i]) : hits[i];
    }
    Value *share = GRAD(g, "Div", dy, count);
    for (uint32_t i = 0; i < inputs; i++)
        if (grad_wants(g, i)) grad_give_sum(g, i, GRAD(g, "Mul", share, hits[i]));
}

void gradient_mean(Grad *g) {
    Value *dy = grad_flow(g, 0);
    Value *share = GRAD(g, "Mul", dy, grad_number(g, 1.0 / g->node->input_count, dy));
    for (uint32_t i = 0; i < g->node->input_count; i++)
        if (grad_wants(g, i)) grad_give_sum(g, i, share);
}

void gradient_sum(Grad *g) {
    for (uint32_t i = 0; i < g->node->input_count; i++)
        if (grad_wants(g, i)) grad_give_sum(g, i, grad_flow(g, 0));
}

/* a to the 0 is constant, also where a is 0; 0 to the b too, and has no logarithm. */
void gradient_pow(Grad *g) {
    Value *a = grad_in(g, 0);
    Value *b = grad_cast(g, grad_in(g, 1), type_dtype(a->type));
    if (grad_wants(g, 0)) {
        Value *zero = GRAD_CALC(g, "p == 0", b);
        Value *less = GRAD_CALC(g, "Where(p, 1, q - 1)", zero, b);
        grad_give_sum(g, 0, GRAD_CALC(g, "dy * p * Pow(a, q)", b, less));
    }
    if (grad_wants(g, 1)) {
        Value *log = GRAD_CALC(g, "Log(Where(a > 0, a, 1))", NULL);
        Value *flow = grad_sum_to(g, GRAD_CALC(g, "dy * y * p", log), value_type(grad_out(g, 0)),
                                  grad_in(g, 1));
        grad_give(g, 1, grad_cast(g, flow, type_dtype(grad_in(g, 1)->type)));
    }
}
