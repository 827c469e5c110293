// SPDX-License-Identifier: Apache-2.0
/* Mentions; see mentions.h. Graphs are numbered as model_graphs lists them, so that those inside a
 * graph are a range; with names sorted by number and graph, every lookup is a binary search. */
#include "mentions.h"

#include <stdlib.h>

#include "scope.h"

typedef struct Named {
    Value *value;
    uint32_t order; /* its graph's place in the list of graphs */
} Named;

typedef VEC(Named) NamedList;

typedef struct Mentions {
    Arena *scratch;
    GraphList graphs;
    uint32_t *order; /* by graph id: place in graphs */
    uint32_t *end;   /* by place: behind the last graph inside */
    bool *wanted;    /* by name's number: a mention has that name */
    NamedList mentions, definitions;
} Mentions;

static int compare_number(uint32_t a, uint32_t b) {
    return (a > b) - (a < b);
}

static int compare_named(const void *left, const void *right) {
    const Named *a = left, *b = right;
    int by_name = compare_number(a->value->name->number, b->value->name->number);
    if (by_name) return by_name;
    int by_graph = compare_number(a->order, b->order);
    return by_graph ? by_graph : compare_number(a->value->id, b->value->id);
}

static void sort(NamedList *list) {
    if (list->count) qsort(list->items, list->count, sizeof *list->items, compare_named);
}

static void number_graphs(Mentions *m) {
    for (uint32_t i = 0; i < m->graphs.count; i++) {
        m->order[m->graphs.items[i]->id] = i;
        m->end[i] = i + 1;
    }
    for (size_t i = m->graphs.count; i-- > 0;) {
        const Graph *parent = m->graphs.items[i]->parent;
        uint32_t *end = parent ? &m->end[m->order[parent->id]] : NULL;
        if (end && *end < m->end[i]) *end = m->end[i];
    }
}

static void find_mentions(Mentions *m) {
    for (uint32_t i = 0; i < m->graphs.count; i++) {
        const Graph *graph = m->graphs.items[i];
        for (size_t k = 0; k < graph->infos.count; k++) {
            Value *value = graph->infos.items[k];
            if (!value->info || value_is_defined(value)) continue;
            m->wanted[value->name->number] = true;
            VEC_PUSH(m->scratch, &m->mentions, ((Named){value, i}));
        }
    }
    sort(&m->mentions);
}

static void define(Mentions *m, Value *value, uint32_t order) {
    if (value && m->wanted[value->name->number])
        VEC_PUSH(m->scratch, &m->definitions, ((Named){value, order}));
}

static void find_definitions(Mentions *m) {
    for (uint32_t i = 0; i < m->graphs.count; i++) {
        const Graph *graph = m->graphs.items[i];
        for (size_t k = 0; k < graph->inputs.count; k++) define(m, graph->inputs.items[k], i);
        for (size_t k = 0; k < graph->initializers.count; k++)
            define(m, graph->initializers.items[k], i);
        for (size_t k = 0; k < graph->sparse_initializers.count; k++)
            define(m, graph->sparse_initializers.items[k], i);
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t o = 0; o < node->output_count; o++) define(m, node->outputs[o], i);
    }
    sort(&m->definitions);
}

/* The place of the first definition of that name in a graph from `order` on. */
static size_t first_from(const Mentions *m, Sym name, uint32_t order) {
    size_t low = 0, high = m->definitions.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const Named *item = &m->definitions.items[middle];
        int by_name = compare_number(item->value->name->number, name->number);
        bool before = by_name ? by_name < 0 : item->order < order;
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The definition of that name in graphs [from, to), those of one type if there are several; NULL
 * where there is none of known type. *agree is made false where they differ. */
static const Type *type_among(const Mentions *m, Sym name, uint32_t from, uint32_t to,
                              bool *agree) {
    const Type *type = NULL;
    for (size_t i = first_from(m, name, from); i < m->definitions.count; i++) {
        const Named *item = &m->definitions.items[i];
        if (item->value->name != name || item->order >= to) break;
        if (!item->value->type) continue;
        if (type && !type_same_dtypes(type, item->value->type)) *agree = false;
        type = item->value->type;
    }
    return type;
}

static const Type *type_of_mention(const Mentions *m, const Named *mention, bool *agree) {
    Sym name = mention->value->name;
    *agree = true;
    for (const Graph *graph = mention->value->graph; graph; graph = graph->parent) {
        uint32_t order = m->order[graph->id];
        const Type *type = type_among(m, name, order, order + 1, agree);
        if (type) return type;
    }
    return type_among(m, name, mention->order + 1, m->end[mention->order], agree);
}

static void sync_all(Mentions *m) {
    const Named *before = NULL;
    const Type *type = NULL;
    bool agree = true;
    for (size_t i = 0; i < m->mentions.count; i++) {
        const Named *mention = &m->mentions.items[i];
        Value *value = mention->value;
        if (!before || before->value->name != value->name || before->order != mention->order)
            type = type_of_mention(m, mention, &agree);
        before = mention;
        if (!agree) {
            value->info = NULL;
            value->graph->unswept = true;
            model_touch(value->graph->model);
        } else if (type) {
            value_set_type(value, type);
            value_sync_info(value);
        }
    }
    for (size_t i = 0; i < m->graphs.count; i++) graph_sweep(m->graphs.items[i]);
}

void mentions_sync(Model *model, Arena *scratch) {
    Mentions m = {.scratch = scratch, .graphs = model_graphs(model, scratch)};
    m.wanted = ARENA_ARRAY(scratch, bool, model->syms.count + 1);
    m.order = ARENA_ARRAY(scratch, uint32_t, model->graph_count + 1);
    m.end = ARENA_ARRAY(scratch, uint32_t, m.graphs.count + 1);
    number_graphs(&m);
    find_mentions(&m);
    if (m.mentions.count == 0) return;
    find_definitions(&m);
    sync_all(&m);
}
