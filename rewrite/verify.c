// SPDX-License-Identifier: Apache-2.0
/* Structural invariants. Linear in the size of the model: one mark array over value ids says which
 * values are defined at the point that the walk has reached. */
#include "verify.h"

#include <stdio.h>

#include "ops.h"

typedef struct Verify {
    const Model *model;
    Arena *scratch;
    bool *defined;   /* [value_count]: visible and computed before the current node */
    uint32_t *named; /* by the name's number: id + 1 of the graph that last defined it */
    Err *err;
} Verify;

static bool graph_error(Verify *v, const Graph *graph, const char *what, const Value *value) {
    err_set(v->err, ERR_MODEL, "%s", what);
    if (value) err_operand(v->err, "value '%s'", sym_text(value->name));
    err_graph(v->err, graph);
    return false;
}

static bool check_use_list(Verify *v, const Value *value) {
    uint32_t count = 0;
    for (const Use *use = value->uses; use; use = use->next, count++) {
        if (use->value != value || (use->next && use->next->prev != use) ||
            count > value->use_count)
            return graph_error(v, value->graph, "internal: broken use list", value);
    }
    return count == value->use_count ||
           graph_error(v, value->graph, "internal: wrong use count", value);
}

static bool define(Verify *v, Value *value) {
    if (value->id >= v->model->value_count)
        return graph_error(v, value->graph, "internal: value id out of range", value);
    v->defined[value->id] = true;
    return check_use_list(v, value);
}

static bool check_name(Verify *v, const Value *value) {
    const Graph *graph = value->graph;
    if (sym_is_empty(value->name)) return graph_error(v, graph, "a value has no name", value);
    if (value->name->number >= v->model->syms.count)
        return graph_error(v, graph, "internal: a name of another model", value);
    uint32_t *last = &v->named[value->name->number];
    if (*last == graph->id + 1) return graph_error(v, graph, "name is defined twice", value);
    *last = graph->id + 1;
    return true;
}

static bool check_unique(Verify *v, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (!check_name(v, graph->inputs.items[i])) return false;
    for (size_t i = 0; i < graph->initializers.count; i++)
        if (!graph->initializers.items[i]->input && !check_name(v, graph->initializers.items[i]))
            return false;
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        if (!graph->sparse_initializers.items[i]->input &&
            !check_name(v, graph->sparse_initializers.items[i]))
            return false;
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] && !check_name(v, node->outputs[i])) return false;
    return true;
}

static bool check_initializer(Verify *v, Value *value) {
    if (!define(v, value)) return false;
    if (!value->init || tensor_check(value->init, v->err)) return true;
    err_operand(v->err, "initializer '%s'", sym_text(value->name));
    err_graph(v->err, value->graph);
    return false;
}

static bool check_inputs(Verify *v, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Use *use = &node->inputs[i];
        if (use->node != node || use->index != i)
            return node_error(node, v->err, ERR_MODEL, "internal: input %u is linked wrongly", i);
        if (!use->value) continue;
        if (!graph_is_within(node->graph, use->value->graph))
            return node_error(node, v->err, ERR_MODEL, "internal: input %u is out of scope", i);
        if (v->defined[use->value->id]) continue;
        bool later = use->value->producer || use->value->input || use->value->init;
        node_error(node, v->err, ERR_MODEL, "%s",
                   later ? "reads a value before it is computed" : "reads an undefined value");
        err_operand(v->err, "input %u '%s'", i, sym_text(use->value->name));
        return false;
    }
    return true;
}

static bool check_tensors(Verify *v, const Node *node) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        uint32_t count;
        const Tensor *bad = attr_tensor(attr);
        if (bad && tensor_check(bad, NULL)) bad = NULL;
        const Tensor *const *tensors = attr_tensors(attr, &count);
        for (uint32_t i = 0; !bad && i < count; i++)
            if (!tensor_check(tensors[i], NULL)) bad = tensors[i];
        if (!bad) continue;
        Err inner = {0};
        tensor_check(bad, &inner);
        node_error(node, v->err, inner.code, "%s", inner.what);
        err_operand(v->err, "attribute '%s'", sym_text(attr->name));
        err_expected(v->err, "%s", inner.expected);
        err_actual(v->err, "%s", inner.actual);
        return false;
    }
    return true;
}

static bool verify_graph(Verify *v, const Graph *graph);

typedef struct NestedVerify {
    Verify *v;
    const Node *node;
    bool ok;
} NestedVerify;

static void verify_nested(Graph *graph, void *data) {
    NestedVerify *nested = data;
    if (!nested->ok) return;
    if (graph->owner != nested->node || graph->parent != nested->node->graph)
        nested->ok = node_error(nested->node, nested->v->err, ERR_MODEL,
                                "internal: subgraph has the wrong owner");
    else
        nested->ok = verify_graph(nested->v, graph);
}

static bool verify_node(Verify *v, const Node *node) {
    if (node->id >= v->model->node_count)
        return node_error(node, v->err, ERR_MODEL, "internal: node id out of range");
    if (!check_inputs(v, node) || !node_attrs_check(node, v->err) || !check_tensors(v, node))
        return false;
    NestedVerify nested = {.v = v, .node = node, .ok = true};
    node_each_graph(node, verify_nested, &nested);
    if (!nested.ok) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        Value *value = node->outputs[i];
        if (!value) continue;
        if (value->producer != node || value->output_index != i || value->graph != node->graph)
            return node_error(node, v->err, ERR_MODEL, "internal: output %u is linked wrongly", i);
        if (!define(v, value)) return false;
    }
    return true;
}

static bool verify_graph(Verify *v, const Graph *graph) {
    if (!check_unique(v, graph)) return false;
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (!define(v, graph->inputs.items[i])) return false;
    for (size_t i = 0; i < graph->initializers.count; i++)
        if (!check_initializer(v, graph->initializers.items[i])) return false;
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        if (!define(v, graph->sparse_initializers.items[i])) return false;
    uint32_t count = 0;
    const Node *previous = NULL;
    for (const Node *node = graph->first; node; previous = node, node = node_after(node), count++) {
        if (node->graph != graph || node->prev != previous)
            return node_error(node, v->err, ERR_MODEL, "internal: node is linked wrongly");
        if (!verify_node(v, node)) return false;
    }
    if (count != graph->node_count || graph->last != previous)
        return graph_error(v, graph, "internal: wrong node count", NULL);
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const Use *use = &graph->outputs.items[i]->use;
        if (use->node || use_graph(use) != graph || use->index != i || !use->value)
            return graph_error(v, graph, "internal: graph output is linked wrongly", NULL);
        if (!graph_is_within(graph, use->value->graph))
            return graph_error(v, graph, "internal: graph output is out of scope", use->value);
        if (!v->defined[use->value->id])
            return graph_error(v, graph, "graph output is an undefined value", use->value);
    }
    return true;
}

bool model_verify(const Model *model, Arena *scratch, Err *err) {
    Verify v = {.model = model, .scratch = scratch, .err = err};
    v.defined = ARENA_ARRAY(scratch, bool, model->value_count + 1);
    v.named = ARENA_ARRAY(scratch, uint32_t, model->syms.count + 1);
    bool ok = verify_graph(&v, model->graph);
    for (size_t i = 0; ok && i < model->functions.count; i++)
        ok = verify_graph(&v, model->functions.items[i]->body);
    for (size_t i = 0; ok && i < model->training.count; i++) {
        const TrainingInfo *info = model->training.items[i];
        if (info->initialization) ok = verify_graph(&v, info->initialization);
        if (ok && info->algorithm) ok = verify_graph(&v, info->algorithm);
    }
    return ok;
}
