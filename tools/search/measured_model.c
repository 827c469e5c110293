// SPDX-License-Identifier: Apache-2.0
/* Putting Identities before products' weights; see measured_model.h. */
#include "measured_model.h"

#include <string.h>

static Value *hand_on(Model *model, Value *weights) {
    Graph *graph = model->graph;
    Node *node = node_new(graph, graph->first, sym_intern_cstr(&model->syms, "Identity"), NULL);
    Value *value = value_new(graph, sym_fresh(&model->syms, weights->name->text));
    value_set_type(value, weights->type);
    node_resize_inputs(node, 1);
    node_resize_outputs(node, 1);
    node_set_input(node, 0, weights);
    node_set_output(node, 0, value);
    if (weights->producer) node_move_before(weights->producer, node); /* a Constant comes first */
    return value;
}

static void read_handed_on(Node *node, const Value *weights, Value *value) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value == weights) use_set(&node->inputs[i], value);
}

void measured_model_make(MeasuredModel *made, Model *model, Arena *arena) {
    groups_find(&made->groups, model, arena);
    made->value_count = model->value_count;
    made->handed_on = ARENA_ARRAY(arena, const char *, model->value_count);
    made->works = ARENA_ARRAY(arena, const GroupWork *, model->value_count);
    Value **values = ARENA_ARRAY(arena, Value *, model->value_count);
    for (size_t i = 0; i < made->groups.works.count; i++) {
        const GroupWork *work = &made->groups.works.items[i];
        if (!work->weights) continue;
        Value *weights = (Value *)(uintptr_t)work->weights;
        const uint32_t id = weights->id;
        if (!values[id]) {
            values[id] = hand_on(model, weights);
            made->handed_on[id] = values[id]->name->text;
            made->works[id] = work;
        }
        read_handed_on((Node *)(uintptr_t)work->node, weights, values[id]);
    }
}
