// SPDX-License-Identifier: Apache-2.0
/* Losses, made again of operators that have gradients. */
#include "gradient_rule.h"

/* The scores of the labels, less by their weights; ignored labels weigh nothing. Scores are
 * logarithms of shares along axis 1; *weights are by label. */
static Value *label_losses(Grad *g, Value *scores, Value **weights) {
    static const int64_t second = 1;
    Value *labels = grad_in(g, 1), *own = grad_in(g, 2), *kept = NULL;
    int64_t ignored;
    if (attr_int(node_attr(g->node, "ignore_index"), &ignored)) {
        Value *number = grad_cast(g, grad_int_number(g, ignored), type_dtype(labels->type));
        kept = GRAD_AS(g, "Not", DTYPE_BOOL, GRAD_AS(g, "Equal", DTYPE_BOOL, labels, number));
        Value *zero = grad_cast(g, grad_int_number(g, 0), type_dtype(labels->type));
        labels = GRAD_AS(g, "Where", type_dtype(labels->type), kept, labels, zero);
    }
    Value *places = grad_axes(g, "Unsqueeze", labels, (GradAxes){&second, 1});
    Value *chosen = GRAD(g, "GatherElements", scores, places);
    node_set_attr_int(chosen->producer, "axis", 1);
    chosen = grad_axes(g, "Squeeze", chosen, (GradAxes){&second, 1});
    Value *weight = own ? GRAD(g, "Gather", own, labels) : grad_fill(g, 1, chosen);
    if (kept) {
        Value *none = grad_number(g, 0, weight);
        weight = GRAD_AS(g, "Where", type_dtype(weight->type), kept, weight, none);
    }
    *weights = weight;
    return GRAD_CALC(g, "-p * q", chosen, weight);
}

static Value *total(Grad *g, Value *value) {
    Value *sum = GRAD(g, "ReduceSum", value);
    node_set_attr_int(sum->producer, "keepdims", 0);
    return sum;
}

static Value *reduced_loss(Grad *g, Value *scores) {
    Value *weights;
    Value *losses = label_losses(g, scores, &weights);
    if (grad_is(g, "reduction", "none")) return losses;
    Value *sum = total(g, losses);
    return grad_is(g, "reduction", "sum") ? sum : GRAD(g, "Div", sum, total(g, weights));
}

void gradient_label_loss(Grad *g, Value **outputs, uint32_t count) {
    (void)count;
    outputs[0] = reduced_loss(g, grad_in(g, 0));
}

void gradient_softmax_loss(Grad *g, Value **outputs, uint32_t count) {
    Value *shares = GRAD(g, "LogSoftmax", grad_in(g, 0));
    node_set_attr_int(shares->producer, "axis", 1);
    outputs[0] = reduced_loss(g, shares);
    if (count > 1) outputs[1] = shares;
}
