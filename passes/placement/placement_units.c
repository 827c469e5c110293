// SPDX-License-Identifier: Apache-2.0
/* Nodes that ONNX Runtime's optimizer takes for one, casts among them included.
 *
 *   d = Sub(x, ReduceMean(x))   s = Sqrt(ReduceMean(d d) + epsilon)   y = Add(Mul(Div(d, s), g), b)
 *
 * is a LayerNormalization to it, d computed once or twice, of x and g before casts to float and behind one. From opset 17 on
 * that operator has one type for x, g and b, so that a valid model in which one of them is float and
 * another is 16 bit cannot be loaded at its default level (LayerNormFusion, 1.31). So Mul and Add have
 * the type that x has: where one of them has to stay float, all do. */
#include "constants.h"
#include "op_types.h"
#include "placement.h"

enum { ONE_TYPE = 17 }; /* LayerNormalization's first opset */

static const Node *producer(const Node *node, uint32_t operand, const char *op) {
    const Value *value = operand < node->input_count ? node->inputs[operand].value : NULL;
    const Node *made = value ? value->producer : NULL;
    bool is = made && domain_is_default(made->domain) && sym_equals(made->op_type, op);
    return is ? made : NULL;
}

/* d of d d. */
static const Node *squared(const Node *variance) {
    const Value *square = variance && variance->input_count ? variance->inputs[0].value : NULL;
    const Node *node = square ? square->producer : NULL;
    float exponent;
    if (!node || node->input_count != 2 || !node->inputs[1].value) return NULL;
    bool same = sym_equals(node->op_type, "Mul") && node->inputs[0].value == node->inputs[1].value;
    bool pow = sym_equals(node->op_type, "Pow") &&
               constant_scalar(node->inputs[1].value, &exponent) && exponent == 2;
    return same || pow ? producer(node, 0, "Sub") : NULL;
}

/* x of Sub(x, ReduceMean(x)). */
static const Value *centered(const Node *sub) {
    const Node *mean = sub ? producer(sub, 1, "ReduceMean") : NULL;
    return mean && mean->inputs[0].value == sub->inputs[0].value ? sub->inputs[0].value : NULL;
}

/* x of the quotient; NULL where it is another one. */
static const Value *normalized(const Node *quotient) {
    const Value *x = centered(producer(quotient, 0, "Sub"));
    const Node *root = producer(quotient, 1, "Sqrt"), *sum = root ? producer(root, 0, "Add") : NULL;
    for (uint32_t i = 0; x && sum && i < 2; i++)
        if (centered(squared(producer(sum, i, "ReduceMean"))) == x) return x;
    return NULL;
}

/* The only reader, of that operator. */
static const Node *reader(const Node *node, const char *op) {
    const Use *use = node->output_count == 1 && node->outputs[0] ? node->outputs[0]->uses : NULL;
    const Node *next = use && !use->next ? use->node : NULL;
    bool is = next && domain_is_default(next->domain) && sym_equals(next->op_type, op);
    return is ? next : NULL;
}

static void tie_norm(Placement *p, const Node *quotient) {
    const Value *x = normalized(quotient);
    const Node *scaled = x ? reader(quotient, "Mul") : NULL;
    const Node *shifted = scaled ? reader(scaled, "Add") : NULL;
    if (scaled) placement_tie(p, p->value_vars[x->id], p->value_vars[scaled->outputs[0]->id]);
    if (shifted) placement_tie(p, p->value_vars[x->id], p->value_vars[shifted->outputs[0]->id]);
}

void placement_tie_units(Placement *p) {
    for (size_t g = 0; g < p->graphs.count; g++) {
        const Graph *graph = p->graphs.items[g];
        if (opset_version(graph->opsets, NULL) < ONE_TYPE) continue;
        for (const Node *node = graph->first; node; node = node_after(node))
            if (sym_equals(node->op_type, "Div") && domain_is_default(node->domain) &&
                node->input_count == 2)
                tie_norm(p, node);
    }
}
