// SPDX-License-Identifier: Apache-2.0
/* Finding groups; see groups.h. A value's class is the value whose group it shares: itself, or what
 * was moved to make it. Classes that share a weight are joined; then classes get numbers. */
#include "groups.h"

#include <string.h>

#include "constants.h"

typedef struct Finding {
    const Model *model;
    Arena *arena;
    bool *varies;     /* [value_count]: it depends on an input, or on chance */
    uint32_t *parent; /* [value_count]: towards the value that names its class */
    Groups *groups;
} Finding;

/* ---- classes --------------------------------------------------------------------------------- */

static uint32_t class_of(const Finding *f, uint32_t value) {
    while (f->parent[value] != value) value = f->parent[value] = f->parent[f->parent[value]];
    return value;
}

/* The one with the smaller number stays: values are numbered as the file has them. */
static void join(Finding *f, uint32_t a, uint32_t b) {
    a = class_of(f, a);
    b = class_of(f, b);
    if (a < b)
        f->parent[b] = a;
    else
        f->parent[a] = b;
}

static bool is_float(const Value *value) {
    if (value->init) return value->init->dtype == DTYPE_FLOAT;
    const Type *type = value_type(value);
    return type->kind == TYPE_TENSOR && type_dtype(type) == DTYPE_FLOAT;
}

static bool is_weight(const Value *value) {
    return value && is_float(value) && value_is_constant(value);
}

static const OpRecord *record_of(const Node *node) {
    return op_record_find(domain_is_default(node->domain) ? "" : node->domain->text,
                          node->op_type->text);
}

/* The operand whose elements the node's output is made of, and of nothing else that varies; NULL where
 * it computes, or has several. */
static const Value *moved_operand(const Finding *f, const Node *node, const OpRecord *record) {
    const Value *moved = NULL;
    if (!record || record->work != WORK_MOVES) return NULL;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (!value || !is_float(value)) continue;
        if (!op_record_gives(record, i) || moved) return NULL;
        moved = value;
    }
    return moved && f->varies[moved->id] ? moved : NULL;
}

typedef struct Capture {
    const Finding *f;
    const Graph *outer;
    bool varies;
} Capture;

static void look_at_captures(Graph *graph, void *data);

static void look_at_use(Capture *capture, const Value *value) {
    if (value && value->graph == capture->outer && capture->f->varies[value->id])
        capture->varies = true;
}

static void look_at_captures(Graph *graph, void *data) {
    Capture *capture = data;
    for (const Node *node = graph->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->input_count; i++)
            look_at_use(capture, node->inputs[i].value);
        node_each_graph(node, look_at_captures, data);
    }
    for (size_t i = 0; i < graph->outputs.count; i++)
        look_at_use(capture, graph->outputs.items[i]->use.value);
}

static bool node_varies(const Finding *f, const Node *node, const OpRecord *record) {
    Capture capture = {.f = f, .outer = node->graph};
    if (!record || record->traits & (OP_RANDOM | OP_RANDOM_TRAINING)) return true;
    for (uint32_t i = 0; i < node->input_count; i++) look_at_use(&capture, node->inputs[i].value);
    node_each_graph(node, look_at_captures, &capture);
    return capture.varies;
}

static void find_classes(Finding *f) {
    const Graph *graph = f->model->graph;
    for (size_t i = 0; i < graph->inputs.count; i++)
        f->varies[graph->inputs.items[i]->id] = !value_is_constant(graph->inputs.items[i]);
    for (const Node *node = graph->first; node; node = node->next) {
        const OpRecord *record = record_of(node);
        const bool varies = node_varies(f, node, record);
        const Value *moved = varies ? moved_operand(f, node, record) : NULL;
        const Value *first = NULL;
        for (uint32_t i = 0; i < node->output_count; i++) {
            const Value *value = node->outputs[i];
            if (!value) continue;
            f->varies[value->id] = varies;
            if (!varies || !is_float(value)) continue;
            if (moved || first) join(f, value->id, (moved ? moved : first)->id);
            if (!first) first = value;
        }
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Multiplications that are counted, of factors that are operands 0 and another. */
static bool is_product(const OpRecord *record) {
    switch ((OpWork)record->work) {
    case WORK_CONV:
    case WORK_DECONV:
    case WORK_MATMUL:
    case WORK_GEMM:
    case WORK_ATTENTION: return true;
    case WORK_FEW:
    case WORK_MOVES:
    case WORK_LAYER:     /* its weights are read with what it makes itself */
    case WORK_SEPARABLE: /* plans alone have it */
    case WORK_OTHER: return false;
    }
    return false;
}

typedef struct Factors {
    const Value *made, *other; /* one that varies; the other factor, which may be a weight */
} Factors;

static bool find_factors(const Finding *f, const Node *node, Factors *factors) {
    const OpRecord *record = record_of(node);
    if (!record || !is_product(record) || node->input_count <= record->weights) return false;
    const Value *a = node->inputs[0].value, *b = node->inputs[record->weights].value;
    if (!a || !b || !is_float(a) || !is_float(b)) return false;
    const bool swapped = !f->varies[a->id];
    *factors = swapped ? (Factors){b, a} : (Factors){a, b};
    return f->varies[factors->made->id];
}

/* Weights that several classes read make them one. */
static void join_by_weights(Finding *f) {
    uint32_t *read_by = ARENA_ARRAY(f->arena, uint32_t, f->model->value_count);
    memset(read_by, 0xff, f->model->value_count * sizeof *read_by);
    for (const Node *node = f->model->graph->first; node; node = node->next) {
        Factors factors;
        if (!find_factors(f, node, &factors) || !is_weight(factors.other)) continue;
        uint32_t *reader = &read_by[factors.other->id];
        if (*reader != GROUP_NONE) join(f, *reader, factors.made->id);
        *reader = factors.made->id;
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static Group *group_at(const Finding *f, const Value *value) {
    const uint32_t group = f->groups->of_value[value->id];
    return group == GROUP_NONE ? NULL : &f->groups->items[group];
}

static uint32_t *number_classes(Finding *f) {
    uint32_t *of_value = ARENA_ARRAY(f->arena, uint32_t, f->model->value_count);
    uint32_t *of_class = ARENA_ARRAY(f->arena, uint32_t, f->model->value_count), count = 0;
    const Graph *graph = f->model->graph;
    memset(of_value, 0xff, f->model->value_count * sizeof *of_value);
    memset(of_class, 0xff, f->model->value_count * sizeof *of_class);
    GroupValues all = {0};
    for (size_t i = 0; i < graph->inputs.count; i++)
        VEC_PUSH(f->arena, &all, graph->inputs.items[i]);
    for (const Node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) VEC_PUSH(f->arena, &all, node->outputs[i]);
    for (size_t i = 0; i < all.count; i++) {
        const Value *value = all.items[i];
        if (!f->varies[value->id] || !is_float(value)) continue;
        uint32_t *group = &of_class[class_of(f, value->id)];
        if (*group == GROUP_NONE) *group = count++;
        of_value[value->id] = *group;
    }
    f->groups->count = count;
    f->groups->items = ARENA_ARRAY(f->arena, Group, count);
    return of_value;
}

static bool has_value(const GroupValues *values, const Value *value) {
    for (size_t i = 0; i < values->count; i++)
        if (values->items[i] == value) return true;
    return false;
}

static void add_reader(Finding *f, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        Group *group = node->inputs[i].value ? group_at(f, node->inputs[i].value) : NULL;
        if (!group ||
            (group->readers.count && group->readers.items[group->readers.count - 1] == node))
            continue;
        VEC_PUSH(f->arena, &group->readers, node);
    }
}

static void add_work(Finding *f, uint32_t *of_value, const Node *node) {
    Factors factors;
    if (!find_factors(f, node, &factors)) return;
    GroupWork work = {node, of_value[factors.made->id], of_value[factors.other->id], NULL};
    if (is_weight(factors.other)) {
        GroupValues *weights = &f->groups->items[work.left].weights;
        if (!has_value(weights, factors.other)) VEC_PUSH(f->arena, weights, factors.other);
        work.right = of_value[factors.other->id] = work.left;
        work.weights = factors.other;
    }
    VEC_PUSH(f->arena, &f->groups->works, work);
}

static void fill_groups(Finding *f, uint32_t *of_value) {
    const Graph *graph = f->model->graph;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        Group *group = group_at(f, graph->inputs.items[i]);
        if (group) VEC_PUSH(f->arena, &group->values, graph->inputs.items[i]);
    }
    for (const Node *node = graph->first; node; node = node->next) {
        const bool moves = moved_operand(f, node, record_of(node));
        for (uint32_t i = 0; !moves && i < node->output_count; i++) {
            Group *group = node->outputs[i] ? group_at(f, node->outputs[i]) : NULL;
            if (group) VEC_PUSH(f->arena, &group->values, node->outputs[i]);
        }
        if (!moves) add_reader(f, node);
        add_work(f, of_value, node);
    }
}

void groups_find(Groups *groups, const Model *model, Arena *arena) {
    Finding f = {.model = model, .arena = arena, .groups = groups};
    *groups = (Groups){.count = 0};
    f.varies = ARENA_ARRAY(arena, bool, model->value_count);
    f.parent = ARENA_ARRAY(arena, uint32_t, model->value_count);
    for (uint32_t i = 0; i < model->value_count; i++) f.parent[i] = i;
    find_classes(&f);
    join_by_weights(&f);
    uint32_t *of_value = number_classes(&f);
    groups->value_count = model->value_count;
    groups->of_value = of_value;
    fill_groups(&f, of_value);
}

void groups_keep_outputs(Groups *groups, const Model *model) {
    const Graph *graph = model->graph;
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.items[i]->use.value;
        if (value && value->id < groups->value_count && groups->of_value[value->id] != GROUP_NONE)
            groups->items[groups->of_value[value->id]].keeps_values = true;
    }
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* What the node makes: no value of a group's readers is newer than the groups. */
static uint32_t group_made(const Groups *groups, const Node *node) {
    const Value *made = node->output_count ? node->outputs[0] : NULL;
    return made && made->id < groups->value_count ? groups->of_value[made->id] : GROUP_NONE;
}

const GroupEdge *groups_edges(const Groups *groups, size_t *count, Arena *arena) {
    VEC(GroupEdge) edges = {0};
    for (uint32_t g = 0; g < groups->count; g++)
        for (size_t i = 0; i < groups->items[g].readers.count; i++) {
            const uint32_t to = group_made(groups, groups->items[g].readers.items[i]);
            if (to != GROUP_NONE && to != g) VEC_PUSH(arena, &edges, ((GroupEdge){g, to}));
        }
    *count = edges.count;
    return edges.items;
}
