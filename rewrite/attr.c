// SPDX-License-Identifier: Apache-2.0
/* Node attributes and metadata_props: look-up, reading and replacement. Nodes have few, so lists
 * do. */
#include "graph.h"

#include <string.h>

Attr *node_attr(const Node *node, const char *name) {
    for (Attr *attr = node->attrs; attr; attr = attr->next)
        if (sym_equals(attr->name, name)) return attr;
    return NULL;
}

int64_t node_attr_int(const Node *node, const char *name, int64_t otherwise) {
    int64_t number;
    return attr_int(node_attr(node, name), &number) ? number : otherwise;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool holds(const Attr *attr, AttrType type) {
    return attr && attr->type == type && !attr->ref;
}

bool attr_int(const Attr *attr, int64_t *number) {
    if (holds(attr, ATTR_INT)) *number = attr->v.i;
    return holds(attr, ATTR_INT);
}

bool attr_float(const Attr *attr, float *number) {
    if (holds(attr, ATTR_FLOAT)) *number = attr->v.f;
    return holds(attr, ATTR_FLOAT);
}

bool attr_string(const Attr *attr, Bytes *text) {
    if (holds(attr, ATTR_STRING)) *text = attr->v.s;
    return holds(attr, ATTR_STRING);
}

const Tensor *attr_tensor(const Attr *attr) {
    return holds(attr, ATTR_TENSOR) ? attr->v.t : NULL;
}

Graph *attr_graph(const Attr *attr) {
    return holds(attr, ATTR_GRAPH) ? attr->v.g : NULL;
}

const SparseTensor *attr_sparse(const Attr *attr) {
    return holds(attr, ATTR_SPARSE_TENSOR) ? attr->v.sparse : NULL;
}

const Type *attr_type(const Attr *attr) {
    return holds(attr, ATTR_TYPE) ? attr->v.tp : NULL;
}

/* The list's length; 0 where it is none of that type. */
static uint32_t items(const Attr *attr, AttrType type) {
    return holds(attr, type) ? attr->count : 0;
}

const int64_t *attr_ints(const Attr *attr, uint32_t *count) {
    *count = items(attr, ATTR_INTS);
    return *count ? attr->v.ints : NULL;
}

const float *attr_floats(const Attr *attr, uint32_t *count) {
    *count = items(attr, ATTR_FLOATS);
    return *count ? attr->v.floats : NULL;
}

const Bytes *attr_strings(const Attr *attr, uint32_t *count) {
    *count = items(attr, ATTR_STRINGS);
    return *count ? attr->v.strings : NULL;
}

const Tensor *const *attr_tensors(const Attr *attr, uint32_t *count) {
    *count = items(attr, ATTR_TENSORS);
    return *count ? attr->v.tensors : NULL;
}

Graph *const *attr_graphs(const Attr *attr, uint32_t *count) {
    *count = items(attr, ATTR_GRAPHS);
    return *count ? attr->v.graphs : NULL;
}

const SparseTensor *const *attr_sparses(const Attr *attr, uint32_t *count) {
    *count = items(attr, ATTR_SPARSE_TENSORS);
    return *count ? attr->v.sparses : NULL;
}

static bool same_bytes(Bytes a, const void *data, size_t size) {
    return a.size == size && (size == 0 || memcmp(a.data, data, size) == 0);
}

bool attr_is_text(const Attr *attr, const char *text) {
    return holds(attr, ATTR_STRING) && same_bytes(attr->v.s, text, strlen(text));
}

bool attr_same_text(const Attr *a, const Attr *b) {
    return holds(a, ATTR_STRING) && holds(b, ATTR_STRING) &&
           same_bytes(a->v.s, b->v.s.data, b->v.s.size);
}

Graph *const *attr_held_graphs(const Attr *attr, uint32_t *count) {
    *count = attr_graph(attr) ? 1 : 0;
    return *count ? &attr->v.g : attr_graphs(attr, count);
}

/* ---- sharing --------------------------------------------------------------------------------- */

void node_share_lists(Node *node, Node *from) {
    node->attrs = from->attrs;
    node->metadata = from->metadata;
    node->shares_lists = from->shares_lists = true;
    model_touch(node->graph->model);
}

/* Must come before every change. */
static void lists_own(Node *node) {
    if (!node->shares_lists) return;
    Arena *arena = &node->graph->model->arena;
    for (Attr **at = &node->attrs; *at; at = &(*at)->next)
        *at = arena_copy(arena, *at, sizeof **at);
    for (KeyValue **at = &node->metadata; *at; at = &(*at)->next)
        *at = arena_copy(arena, *at, sizeof **at);
    node->shares_lists = false;
}

/* ---- setting --------------------------------------------------------------------------------- */

/* The attribute of that name emptied, or a new one at the end of the list. */
static Attr *attr_reset(Node *node, const char *name, AttrType type) {
    lists_own(node);
    Model *model = node->graph->model;
    Attr **at = &node->attrs;
    while (*at && !sym_equals((*at)->name, name)) at = &(*at)->next;
    if (!*at) *at = ARENA_NEW(&model->arena, Attr);
    Attr *attr = *at;
    *attr = (Attr){.next = attr->next,
                   .name = sym_intern_cstr(&model->syms, name),
                   .doc = attr->doc,
                   .rest = attr->rest,
                   .type = type,
                   .has_type = true,
                   .has_value = true};
    model_touch(model);
    return attr;
}

void node_set_attr_int(Node *node, const char *name, int64_t value) {
    attr_reset(node, name, ATTR_INT)->v.i = value;
}

void node_set_attr_string(Node *node, const char *name, const char *value) {
    size_t size = strlen(value);
    const unsigned char *bytes = arena_copy(&node->graph->model->arena, value, size);
    attr_reset(node, name, ATTR_STRING)->v.s = (Bytes){bytes, size};
}

void node_set_attr_tensor(Node *node, const char *name, const Tensor *tensor) {
    attr_reset(node, name, ATTR_TENSOR)->v.t = tensor;
}

void node_set_attr_type(Node *node, const char *name, const Type *type) {
    attr_reset(node, name, ATTR_TYPE)->v.tp = type;
}

void node_set_attr_float(Node *node, const char *name, float value) {
    attr_reset(node, name, ATTR_FLOAT)->v.f = value;
}

void node_set_attr_graph(Node *node, const char *name, Graph *graph) {
    attr_reset(node, name, ATTR_GRAPH)->v.g = graph;
}

void node_set_attr_ints(Node *node, const char *name, const int64_t *values, uint32_t count) {
    const int64_t *copy =
        arena_copy(&node->graph->model->arena, values, (size_t)count * sizeof *values);
    Attr *attr = attr_reset(node, name, ATTR_INTS);
    attr->v.ints = copy;
    attr->count = count;
}

void node_set_attr_floats(Node *node, const char *name, const float *values, uint32_t count) {
    const float *copy =
        arena_copy(&node->graph->model->arena, values, (size_t)count * sizeof *values);
    Attr *attr = attr_reset(node, name, ATTR_FLOATS);
    attr->v.floats = copy;
    attr->count = count;
}

void node_set_attr_strings(Node *node, const char *name, const char *const *values,
                           uint32_t count) {
    Arena *arena = &node->graph->model->arena;
    Bytes *strings = ARENA_ARRAY(arena, Bytes, count);
    for (uint32_t i = 0; i < count; i++) {
        size_t size = strlen(values[i]);
        strings[i] = (Bytes){arena_copy(arena, values[i], size), size};
    }
    Attr *attr = attr_reset(node, name, ATTR_STRINGS);
    attr->v.strings = strings;
    attr->count = count;
}

void node_rename_attr(Node *node, const char *name, const char *to) {
    lists_own(node);
    Attr *attr = node_attr(node, name);
    if (!attr || sym_equals(attr->name, to)) return;
    attr->name = sym_intern_cstr(&node->graph->model->syms, to);
    model_touch(node->graph->model);
}

void node_remove_attr(Node *node, const char *name) {
    lists_own(node);
    for (Attr **at = &node->attrs; *at; at = &(*at)->next) {
        if (!sym_equals((*at)->name, name)) continue;
        *at = (*at)->next;
        model_touch(node->graph->model);
        return;
    }
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void add_metadata(Model *model, KeyValue **at, const char *key, const char *value) {
    while (*at) at = &(*at)->next;
    *at = ARENA_NEW(&model->arena, KeyValue);
    (*at)->key = sym_intern_cstr(&model->syms, key);
    (*at)->value = sym_intern_cstr(&model->syms, value);
    model_touch(model);
}

void node_add_metadata(Node *node, const char *key, const char *value) {
    lists_own(node);
    add_metadata(node->graph->model, &node->metadata, key, value);
}

static KeyValue **marks_of(Model *model, Function *function) {
    return function ? &function->metadata : &model->metadata;
}

static void remove_metadata(Model *model, KeyValue **list, const char *key) {
    for (KeyValue **at = list; *at;) {
        if (!sym_equals((*at)->key, key)) {
            at = &(*at)->next;
            continue;
        }
        *at = (*at)->next;
        model_touch(model);
    }
}

void node_remove_metadata(Node *node, const char *key) {
    lists_own(node);
    remove_metadata(node->graph->model, &node->metadata, key);
}

void model_mark(Model *model, Function *function, const char *key, const char *value) {
    add_metadata(model, marks_of(model, function), key, value);
}

bool model_take_mark(Model *model, Function *function, const char *key, const char *value) {
    for (KeyValue **at = marks_of(model, function); *at; at = &(*at)->next) {
        if (!sym_equals((*at)->key, key) || !sym_equals((*at)->value, value)) continue;
        *at = (*at)->next;
        model_touch(model);
        return true;
    }
    return false;
}

void node_set_metadata(Node *node, const char *key, const char *value) {
    lists_own(node);
    for (KeyValue *entry = node->metadata; entry; entry = entry->next) {
        if (!sym_equals(entry->key, key)) continue;
        entry->value = sym_intern_cstr(&node->graph->model->syms, value);
        model_touch(node->graph->model);
        return;
    }
    node_add_metadata(node, key, value);
}

void decl_add_metadata(Model *model, ValueDecl *decl, const char *key, const char *value) {
    add_metadata(model, &decl->metadata, key, value);
}

Sym node_metadata(const Node *node, const char *key) {
    for (const KeyValue *entry = node->metadata; entry; entry = entry->next)
        if (sym_equals(entry->key, key)) return entry->value;
    return NULL;
}

void node_each_graph(const Node *node, GraphVisitor visit, void *data) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        for (const Attr *part = attr; part; part = part->also) {
            if (part->type == ATTR_GRAPH && part->v.g) visit(part->v.g, data);
            if (part->type != ATTR_GRAPHS) continue;
            for (uint32_t i = 0; i < part->count; i++) visit(part->v.graphs[i], data);
        }
}

static void note_graph(Graph *graph, void *any) {
    (void)graph;
    *(bool *)any = true;
}

bool node_holds_graph(const Node *node) {
    bool any = false;
    node_each_graph(node, note_graph, &any);
    return any;
}
