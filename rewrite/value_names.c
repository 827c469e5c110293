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

/* ---- many names ------------------------------------------------------------------------------ */

/* What names mean in the graph at hand. Who enters a graph notes what it hides of those around, so that all
 * graphs take one walk. */
typedef struct Meaning {
    const Model *model;
    Arena *scratch;
    Value **by_name;     /* [name_count], by a name's number */
    VEC(Value *) hidden; /* what entries were before graphs at hand, NULL for none; with `names` */
    VEC(Sym) names;
} Meaning;

/* The first of one name in a graph counts. */
static void define(Meaning *m, Value *value) {
    if (!value || !value->name) return;
    Value **entry = &m->by_name[value->name->number];
    if (*entry && (*entry)->graph == value->graph) return;
    VEC_PUSH(m->scratch, &m->hidden, *entry);
    VEC_PUSH(m->scratch, &m->names, value->name);
    *entry = value;
}

/* In the order of named_here. */
static void define_all(Meaning *m, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++) define(m, graph->inputs.items[i]);
    for (size_t i = 0; i < graph->initializers.count; i++) define(m, graph->initializers.items[i]);
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        define(m, graph->sparse_initializers.items[i]);
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++) define(m, node->outputs[i]);
}

static void define_around(Meaning *m, const Graph *graph) {
    if (graph->parent) define_around(m, graph->parent);
    define_all(m, graph);
}

static void leave(Meaning *m, size_t count) {
    while (m->names.count > count) {
        m->names.count--;
        m->by_name[m->names.items[m->names.count]->number] = m->hidden.items[m->names.count];
    }
    m->hidden.count = count;
}

static Meaning meaning_new(const Model *model, Arena *scratch) {
    Meaning m = {.model = model, .scratch = scratch};
    m.by_name = ARENA_ARRAY(scratch, Value *, model->syms.count + 1);
    return m;
}

static Value *meant(const Meaning *m, Bytes name) {
    const Sym sym = sym_find(&m->model->syms, (const char *)name.data, name.size);
    return sym ? m->by_name[sym->number] : NULL;
}

Value **values_named(const Graph *graph, const Bytes *names, uint32_t count, Arena *scratch) {
    Meaning m = meaning_new(graph->model, scratch);
    Value **values = ARENA_ARRAY(scratch, Value *, count + 1u);
    define_around(&m, graph);
    for (uint32_t i = 0; i < count; i++) values[i] = meant(&m, names[i]);
    return values;
}

/* ---- marking --------------------------------------------------------------------------------- */

static void refer(const Meaning *m, Bytes name) {
    Value *value = meant(m, name);
    if (value) value->referenced = true;
}

static void refer_all(const Meaning *m, const Node *node) {
    static const char *const lists[] = {"xs", "zs"};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        uint32_t count;
        const Bytes *names = attr_strings(node_attr(node, lists[k]), &count);
        for (uint32_t i = 0; i < count; i++) refer(m, names[i]);
    }
    Bytes y;
    if (attr_string(node_attr(node, "y"), &y)) refer(m, y);
}

static void refer_in(Graph *graph, void *data) {
    Meaning *m = data;
    const size_t outside = m->names.count;
    define_all(m, graph);
    for (const Node *node = graph->first; node; node = node_after(node)) {
        if (node_names_values(node)) refer_all(m, node);
        node_each_graph(node, refer_in, m);
    }
    leave(m, outside);
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

/* Training graphs lie in the main graph. */
static void refer_in_main(Meaning *m) {
    const Model *model = m->model;
    refer_in(model->graph, m);
    define_all(m, model->graph);
    for (size_t i = 0; i < model->training.count; i++) {
        const TrainingInfo *info = model->training.items[i];
        if (info->initialization) refer_in(info->initialization, m);
        if (info->algorithm) refer_in(info->algorithm, m);
    }
    leave(m, 0);
}

void model_refer_named(Model *model, Arena *scratch) {
    model_mark_trained(model, true);
    if (!has_training(model)) return;
    Meaning m = meaning_new(model, scratch);
    refer_in_main(&m);
    for (size_t i = 0; i < model->functions.count; i++)
        refer_in(model->functions.items[i]->body, &m);
}
