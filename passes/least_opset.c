// SPDX-License-Identifier: Apache-2.0
/* Least opset of a conversion; see least_opset.h. One look at every node. */
#include "least_opset.h"

#include "ops.h"

static bool takes(const OpSchema *schema, Dtype target) {
    const OpParam *first = op_schema_input(schema, 0);
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

static bool is_low(const Node *node, const ChosenNodes *chosen) {
    if (!domain_is_default(node->domain) || node->input_count == 0) return false;
    if (chosen->excluded[node->id]) return false;
    if (op_class_of(node, chosen->classes).op_class != CLASS_LOW) return false;
    const Value *first = node->inputs[0].value;
    Dtype dtype = first ? type_dtype(first->type) : DTYPE_UNDEFINED;
    const Model *model = node->graph->model;
    return (dtype == DTYPE_UNDEFINED || dtype == DTYPE_FLOAT) &&
           !(model->functions.count && model_find_function(model, node));
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
            if (!is_low(node, chosen)) continue;
            int64_t first = first_opset(sym_text(node->op_type), own, target);
            if (first <= own) continue;
            needed = true;
            if (first > least) least = first;
        }
    }
    return needed ? least : 0;
}
