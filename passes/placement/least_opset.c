// SPDX-License-Identifier: Apache-2.0
/* Least opset of a conversion; see least_opset.h. One look at every node. */
#include "least_opset.h"

#include "op_types.h"
#include "ops.h"

static bool takes(const OpSchema *schema, Dtype target) {
    const OpParam *first = op_schema_input(schema, 0);
    return first && type_set_has(op_param_types(schema, first), OPTYPE_TENSOR, target);
}

static bool hands_out(const OpSchema *schema, Dtype target) {
    const OpParam *first = op_schema_output(schema, 0);
    return first && type_set_has(op_param_types(schema, first), OPTYPE_TENSOR, target);
}

/* The first opset from `opset` on at which the operator takes the target; `opset` where none. */
static int64_t first_opset(const char *op, int64_t opset, Dtype target) {
    const OpSchema *schema = ops_find("", op, opset);
    while (schema && !takes(schema, target) && schema->until < OPS_OPSET_ONNX)
        schema = ops_find("", op, (int64_t)schema->until + 1);
    bool legal = schema && !schema->deprecated && takes(schema, target);
    return legal && schema->since > opset ? schema->since : opset;
}

static bool is_low(const Node *node, const ChosenNodes *chosen, Dtype target) {
    if (!domain_is_default(node->domain) || node->input_count == 0) return false;
    if (chosen->excluded[node->id]) return false;
    if (op_class_of(node, chosen->classes).op_class != CLASS_LOW) return false;
    const Value *first = node->inputs[0].value;
    Dtype dtype = first ? type_dtype(first->type) : DTYPE_UNDEFINED;
    const Model *model = node->graph->model;
    const bool other = dtype_is_float(dtype) && dtype_bits(dtype) >= 16 && dtype != target;
    return (dtype == DTYPE_UNDEFINED || other) && /* to-float32 makes it float32 first */
           !(model->functions.count && model_find_function(model, node));
}

/* The first opset at which the node can hand the target into its bodies and out of them. */
static int64_t first_holder_opset(const Node *holder, int64_t opset, Dtype target) {
    const OpSchema *schema = node_schema(holder);
    if (!schema || schema->domain[0] || !op_schema_output(schema, 0)) return opset;
    while (!hands_out(schema, target) && schema->until < OPS_OPSET_ONNX)
        schema = ops_find("", schema->name, (int64_t)schema->until + 1);
    return hands_out(schema, target) && schema->since > opset ? schema->since : opset;
}

/* The first opset at which the node, and all that it lies in, take the target. */
static int64_t first_with_holders(const Node *node, int64_t own, Dtype target) {
    int64_t first = first_opset(sym_text(node->op_type), own, target);
    for (const Node *holder = node->graph->owner; holder; holder = holder->graph->owner) {
        int64_t around = first_holder_opset(holder, own, target);
        if (around > first) first = around;
    }
    return first;
}

int64_t least_opset_for(const Model *model, Dtype target, const ChosenNodes *chosen,
                        Arena *scratch) {
    int64_t least = opset_version(&model->opsets, NULL);
    bool needed = false;
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++) {
        int64_t own = opset_version(graphs.items[i]->opsets, NULL);
        if (own <= 0) continue;
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node)) {
            if (!is_low(node, chosen, target)) continue;
            int64_t first = first_with_holders(node, own, target);
            if (first <= own) continue;
            needed = true;
            if (first > least) least = first;
        }
    }
    return needed ? least : 0;
}
