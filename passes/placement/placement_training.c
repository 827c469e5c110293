// SPDX-License-Identifier: Apache-2.0
/* Which nodes of a training are decided as those of the model are, and which stay as they are.
 *
 * What an algorithm computes forward (its own nodes, where some are others in training) and backward
 * (where its Gradients are expanded) is decided. The update stays in fp32: what a binding is given, and
 * from there backwards what moves or computes element by element, up to a product, a sum or a
 * normalization. So masters, the optimizer's state, gradients' unscaling, clipping and checks are
 * never rounded, while products before them may be. So do operators of ai.onnx.preview.training, and
 * initializations, which run once. */
#include "op_types.h"
#include "placement.h"

typedef struct Updating {
    Placement *p;
    const Graph *algorithm;
    VEC(const Node *) queue;
} Updating;

static bool is_training_operator(const Node *node) {
    return node->domain && sym_equals(node->domain, "ai.onnx.preview.training");
}

static void keep(Updating *u, const Node *node) {
    if (u->p->stays[node->id]) return;
    u->p->stays[node->id] = true;
    VEC_PUSH(u->p->scratch, &u->queue, node);
}

/* True of an operator that a part of an update may be: its one result is as its operands are. */
static bool goes_along(const Updating *u, const Node *node) {
    if (node->output_count != 1 || !node_schema(node) || node_holds_graph(node) ||
        model_find_function(u->p->model, node))
        return false;
    const OpClass op_class = op_class_of(node, u->p->request.classes).op_class;
    return op_class == CLASS_FOLLOW || op_class == CLASS_WIDEST;
}

static void keep_before(Updating *u, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        const Node *before = value ? value->producer : NULL;
        if (before && graph_is_within(before->graph, u->algorithm) &&
            (is_training_operator(before) || goes_along(u, before)))
            keep(u, before);
    }
}

/* A further result of a node, as a normalization's running statistics, stays by itself. */
static void keep_updates(Updating *u, const TrainingInfo *info) {
    for (size_t i = 0; i < info->update_bindings.count; i++) {
        const Value *value = info->update_bindings.items[i].value.value;
        if (value && value->producer && !value->output_index &&
            graph_is_within(value->graph, u->algorithm))
            keep(u, value->producer);
    }
    for (size_t i = 0; i < u->queue.count; i++) keep_before(u, u->queue.items[i]);
}

static void keep_graph(Placement *p, const Graph *graph, bool all) {
    for (const Node *node = graph->first; node; node = node_after(node))
        p->stays[node->id] = p->stays[node->id] || all || is_training_operator(node);
}

void placement_mark_training(Placement *p) {
    const Model *model = p->model;
    p->stays = ARENA_ARRAY(p->scratch, bool, model->node_count + 1);
    for (size_t i = 0; i < model->training.count; i++) {
        const TrainingInfo *info = model->training.items[i];
        Updating u = {.p = p, .algorithm = info->algorithm};
        if (info->algorithm) keep_updates(&u, info);
        for (size_t g = 0; g < p->graphs.count; g++) {
            const Graph *graph = p->graphs.items[g];
            const bool begins =
                info->initialization && graph_is_within(graph, info->initialization);
            if (begins || (info->algorithm && graph_is_within(graph, info->algorithm))) {
                p->training[graph->id] = true;
                keep_graph(p, graph, begins);
            }
        }
    }
}

/* What such a node reads and gives is of the types it has. */
void placement_build_stays(Placement *p, const Node *node) {
    VarId *uses = placement_node_vars(p, node);
    for (uint32_t i = 0; i < node->input_count; i++)
        uses[i] = value_holds_float(node->inputs[i].value) ? VAR_FP32 : VAR_NONE;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && value_holds_float(node->outputs[i]))
            p->value_vars[node->outputs[i]->id] = VAR_FP32;
}

/* Inputs of training graphs, and of graphs in nodes that stay; updates that no such node gives. */
void placement_build_training(Placement *p) {
    const Model *model = p->model;
    for (size_t i = 0; i < p->graphs.count; i++) {
        const Graph *graph = p->graphs.items[i];
        if (!p->training[graph->id] || (graph->owner && !p->stays[graph->owner->id])) continue;
        for (size_t k = 0; k < graph->inputs.count; k++)
            if (value_holds_float(graph->inputs.items[k]))
                p->value_vars[graph->inputs.items[k]->id] = VAR_FP32;
    }
    for (size_t i = 0; i < model->training.count; i++) {
        const TrainingInfo *info = model->training.items[i];
        for (size_t k = 0; k < info->update_bindings.count; k++) {
            const Value *value = info->update_bindings.items[k].value.value;
            const VarId var = value ? p->value_vars[value->id] : VAR_NONE;
            if (var != VAR_NONE && var != VAR_FP32)
                placement_pin(p, var, NOTE_FIXED, "training updates with it");
        }
    }
}
