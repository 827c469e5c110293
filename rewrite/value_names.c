// SPDX-License-Identifier: Apache-2.0
/* Values that attributes name; see value_names.h. */
#include "value_names.h"

static Value *named_here(const Graph *graph, Sym name) {
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.items[i]->name == name) return graph->inputs.items[i];
    for (size_t i = 0; i < graph->initializers.count; i++)
        if (graph->initializers.items[i]->name == name) return graph->initializers.items[i];
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        if (graph->sparse_initializers.items[i]->name == name)
            return graph->sparse_initializers.items[i];
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] && node->outputs[i]->name == name) return node->outputs[i];
    return NULL;
}

Value *value_named(const Graph *graph, Bytes name) {
    const Sym sym = sym_find(&graph->model->syms, (const char *)name.data, name.size);
    Value *value = NULL;
    for (; sym && graph && !value; graph = graph->parent) value = named_here(graph, sym);
    return value;
}

bool node_names_values(const Node *node) {
    return sym_equals(node->op_type, "Gradient") &&
           sym_equals(node->domain, "ai.onnx.preview.training") &&
           !model_find_function(node->graph->model, node);
}

static void refer(const Graph *graph, Bytes name) {
    Value *value = value_named(graph, name);
    if (value) value->referenced = true;
}

static void refer_all(const Node *node) {
    static const char *const lists[] = {"xs", "zs"};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        uint32_t count;
        const Bytes *names = attr_strings(node_attr(node, lists[k]), &count);
        for (uint32_t i = 0; i < count; i++) refer(node->graph, names[i]);
    }
    Bytes y;
    if (attr_string(node_attr(node, "y"), &y)) refer(node->graph, y);
}

/* Most models have no training operators, and need not be looked through. */
static bool has_training(const Model *model) {
    const Sym domain =
        sym_find(&model->syms, "ai.onnx.preview.training", sizeof "ai.onnx.preview.training" - 1);
    return domain != NULL;
}

static void mark_trained(const TrainingBinding *bindings, size_t count, bool trained) {
    for (size_t i = 0; i < count; i++)
        if (bindings[i].key.value) bindings[i].key.value->trained = trained;
}

void model_mark_trained(const Model *model, bool trained) {
    for (size_t i = 0; i < model->training.count; i++) {
        const TrainingInfo *info = model->training.items[i];
        mark_trained(info->update_bindings.items, info->update_bindings.count, trained);
        mark_trained(info->initialization_bindings.items, info->initialization_bindings.count,
                     trained);
    }
}

void model_refer_named(Model *model, Arena *scratch) {
    model_mark_trained(model, true);
    if (!has_training(model)) return;
    const GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (node_names_values(node)) refer_all(node);
}
