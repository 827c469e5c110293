// SPDX-License-Identifier: Apache-2.0
/* Products that decide what is picked: a router's scores say which experts run, a classifier's which class
 * it is. Where two are close, a rounded product picks another, and what is computed then has nothing to do
 * with what the model computes; so they stay float. See qdq_plan.h.
 *
 * From what TopK, ArgMax and ArgMin choose among it is gone back through softmaxes and sigmoids, elementwise
 * functions of one computed value, and movement of data, up to the products that the numbers come from. */
#include "constants.h"
#include "op_types.h"
#include "qdq_plan.h"

typedef struct Walk {
    QdqPlan *plan;
    const Node *pick;
    bool *seen; /* [value_count]: for all picks, of which one is enough */
    VEC(Value *) queue;
} Walk;

static void visit(Walk *w, Value *value) {
    if (!value || value_is_constant(value) || w->seen[value->id]) return;
    w->seen[value->id] = true;
    VEC_PUSH(w->plan->scratch, &w->queue, value);
}

/* The one computed value that the node is a function of; NULL where there are several. */
static Value *one_computed(const Node *node) {
    Value *found = NULL;
    for (uint32_t i = 0; i < node->input_count; i++) {
        Value *value = node->inputs[i].value;
        if (!value || value_is_constant(value) || value == found) continue;
        if (found) return NULL;
        found = value;
    }
    return found;
}

static void keep_float(Walk *w, const Node *product) {
    QdqNode *at = &w->plan->nodes[product->id];
    const Value *gives = w->pick->outputs[0] ? w->pick->outputs[0] : w->pick->outputs[1];
    if (at->kind != NOTE_NONE) return;
    at->kind = NOTE_PRECISE;
    at->reason = arena_printf(&w->plan->model->arena, "it determines what '%s' (%s) selects",
                              sym_text(w->pick->name ? w->pick->name : gives->name),
                              sym_text(w->pick->op_type));
}

static void go_back(Walk *w, const Value *value) {
    const Node *node = value->producer;
    const OpRecord *record = node ? qdq_record(w->plan, node) : NULL;
    if (!record) return;
    if (record->quantized == QUANTIZED_PRODUCT || record->quantized == QUANTIZED_WEIGHTS)
        keep_float(w, node);
    else if (record->quantized == QUANTIZED_JOIN)
        for (uint32_t i = 0; i < node->input_count; i++) visit(w, node->inputs[i].value);
    else if (record->exact == EXACT_ENDS || record->layout == LAYOUT_EACH ||
             record->quantized == QUANTIZED_MOVE)
        visit(w, one_computed(node));
}

static bool picks(const OpRecord *record) {
    return record && (record->pick == PICK_TOPK || record->pick == PICK_ARG);
}

void qdq_keep_picks(QdqPlan *plan) {
    Walk w = {.plan = plan, .seen = ARENA_ARRAY(plan->scratch, bool, plan->value_count)};
    for (size_t g = 0; g < plan->graphs.count; g++)
        for (const Node *node = plan->graphs.items[g]->first; node; node = node_after(node)) {
            if (!picks(qdq_record(plan, node)) || !qdq_input(node, 0)) continue;
            w.pick = node;
            visit(&w, qdq_input(node, 0));
            while (w.queue.count) go_back(&w, w.queue.items[--w.queue.count]);
        }
}
