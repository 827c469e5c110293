// SPDX-License-Identifier: Apache-2.0
/* Which quantized values share a scale; see qdq_plan.h. */
#include "op_types.h"
#include "qdq_plan.h"

uint32_t qdq_plan_scale_of(const QdqPlan *plan, uint32_t id) {
    while (plan->values[id].like != id) id = plan->values[id].like;
    return id;
}

static const QdqValue *quantized(const QdqPlan *plan, const Value *value) {
    const QdqValue *at = value ? &plan->values[value->id] : NULL;
    return at && at->dtype != DTYPE_UNDEFINED ? at : NULL;
}

static bool moves(const Node *node, const OpRecord *record) {
    const Attr *mode = node_attr(node, "mode");
    if (record->quantized == QUANTIZED_MOVE || record->quantized == QUANTIZED_PAD) return true;
    return record->quantized == QUANTIZED_RESIZE && (!mode || attr_is_text(mode, "nearest"));
}

/* What comes out is what went in. */
static void link_moved(QdqPlan *plan, const Node *node) {
    const QdqValue *from = quantized(plan, qdq_input(node, 0));
    for (uint32_t i = 0; from && i < node->output_count; i++) {
        const QdqValue *to = quantized(plan, node->outputs[i]);
        if (to && to->dtype == from->dtype) plan->values[to->value->id].like = from->value->id;
    }
}

/* What nothing else reads is quantized as it will be needed. */
static void link_joined(QdqPlan *plan, const Node *node) {
    const QdqValue *to = quantized(plan, node->outputs[0]);
    for (uint32_t i = 0; to && i < node->input_count; i++) {
        const QdqValue *from = quantized(plan, node->inputs[i].value);
        if (!from || from->dtype != to->dtype || from->value->use_count != 1 ||
            from->like != from->value->id || from->value->graph != node->graph)
            continue;
        plan->values[from->value->id].like = to->value->id;
    }
}

void qdq_plan_link(QdqPlan *plan) {
    for (size_t g = 0; g < plan->graphs.count; g++)
        for (const Node *node = plan->graphs.items[g]->first; node; node = node_after(node)) {
            const OpRecord *record = qdq_record(plan, node);
            if (!record || !node->output_count || !node->outputs[0]) continue;
            if (moves(node, record)) link_moved(plan, node);
            if (record->quantized == QUANTIZED_JOIN) link_joined(plan, node);
        }
}
