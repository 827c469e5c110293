// SPDX-License-Identifier: Apache-2.0
/* Taking nodes out and putting constants in; see simplify_graph.h. */
#include "simplify_graph.h"

#include "constants.h"
#include "op_types.h"

enum { IR_FREE_INITIALIZERS = 4 };

bool simplify_is(const Node *node, const char *op) {
    return node && domain_is_default(node->domain) && sym_equals(node->op_type, op) &&
           !model_find_function(node->graph->model, node);
}

static bool is_output(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node) return true;
    return false;
}

static bool is_output_of(const Value *value, const Graph *graph) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node && use_graph(use) == graph) return true;
    return false;
}

bool value_bypass(Value *result, Value *value) {
    if (result->referenced) return false;
    if (is_output(result)) {
        if (!value->producer || value->graph != result->graph || is_output_of(value, result->graph))
            return false;
        if (value_is_named_output(result)) {
            if (value->referenced) return false;
            value_remove_info(value); /* the output declares its type */
            value_swap_names(result, value);
        }
    }
    value_replace_uses(result, value);
    return true;
}

void result_become(PassCtx *ctx, Node *node, uint32_t i, Value *value) {
    Value *result = node->outputs[i];
    if (value_bypass(result, value)) return;
    Node *same = node_new(node->graph, node, sym_intern_cstr(&ctx->model->syms, "Identity"), NULL);
    node_resize_inputs(same, 1);
    node_resize_outputs(same, 1);
    node_set_input(same, 0, value);
    node_set_output(node, i, NULL);
    node_set_output(same, 0, result);
}

static void count_name(uint32_t *counts, const Value *value) {
    if (value && !sym_is_empty(value->name)) counts[value->name->number]++;
}

static void count_names(const Graph *graph, uint32_t *counts) {
    for (size_t i = 0; i < graph->inputs.count; i++) count_name(counts, graph->inputs.items[i]);
    for (size_t i = 0; i < graph->initializers.count; i++)
        if (!graph->initializers.items[i]->input) count_name(counts, graph->initializers.items[i]);
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        if (!graph->sparse_initializers.items[i]->input)
            count_name(counts, graph->sparse_initializers.items[i]);
    for (size_t i = 0; i < graph->undefined.count; i++)
        count_name(counts, graph->undefined.items[i]);
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++) count_name(counts, node->outputs[i]);
}

NameCounts names_count(PassCtx *ctx) {
    size_t size = ctx->model->syms.count;
    uint32_t *counts = ARENA_ARRAY(ctx->scratch, uint32_t, size + 1);
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++) count_names(graphs.items[i], counts);
    return (NameCounts){counts, size};
}

bool name_is_single(const NameCounts *names, const Value *value) {
    return sym_is_empty(value->name) || value->name->number >= names->size ||
           names->counts[value->name->number] <= 1;
}

bool model_has_free_initializers(const Model *model) {
    return model->has_ir_version && model->ir_version >= IR_FREE_INITIALIZERS;
}

bool simplify_read_ints(PassCtx *ctx, const Value *value, uint64_t most, int64_t **items,
                        uint64_t *count) {
    const Tensor *tensor =
        value && value_is_constant(value) ? constant_tensor(value, ctx->scratch) : NULL;
    return tensor && tensor_check(tensor, NULL) &&
           tensor_read_ints(tensor, ctx->scratch, most, items, count);
}

bool node_may_become_constant(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (value && (value->referenced || is_output(value))) return false;
    }
    return true;
}

static void put_node(PassCtx *ctx, Node *before, Value *value, const Tensor *tensor) {
    Sym op = sym_intern_cstr(&ctx->model->syms, "Constant");
    Node *node = node_new(before->graph, before, op, NULL);
    node_resize_outputs(node, 1);
    node_set_attr_tensor(node, "value", tensor);
    node_set_output(node, 0, value);
}

void node_become_constant(PassCtx *ctx, Node *node, const Tensor *const *tensors) {
    bool free = model_has_free_initializers(ctx->model);
    for (uint32_t i = 0; !free && i < node->output_count; i++) {
        Value *value = node->outputs[i];
        if (!value || !value->uses) continue;
        node_set_output(node, i, NULL);
        put_node(ctx, node, value, tensors[i]);
    }
    node_remove_unswept(node); /* with its outputs' declarations: a tensor says what it is */
    for (uint32_t i = 0; free && i < node->output_count; i++)
        if (node->outputs[i] && node->outputs[i]->uses)
            value_set_init(node->outputs[i], tensors[i]);
    ctx->counts->rewrites++;
}
