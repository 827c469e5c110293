// SPDX-License-Identifier: Apache-2.0
/* See fuzz_mutate.h. */
#include "fuzz_mutate.h"

#include <string.h>

#include "ops.h"

uint32_t fuzz_below(FuzzRng *rng, uint32_t bound) {
    uint64_t x = rng->state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return bound ? (uint32_t)(x >> 16) % bound : 0;
}

uint64_t fuzz_hash(const uint8_t *data, size_t size) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * UINT64_C(1099511628211);
    return hash;
}

typedef struct Mutation {
    Model *model;
    FuzzRng *rng;
    Arena *scratch;
    GraphList graphs;
    Graph *graph;        /* the one at hand */
    Node *node;          /* in it, or NULL */
    VEC(Value *) before; /* what its nodes may read: defined before `node` */
} Mutation;

static void pick_node(Mutation *m) {
    m->graph = m->graphs.items[fuzz_below(m->rng, (uint32_t)m->graphs.count)];
    uint32_t at = fuzz_below(m->rng, m->graph->node_count + 1);
    m->before.count = 0;
    for (size_t i = 0; i < m->graph->inputs.count; i++)
        VEC_PUSH(m->scratch, &m->before, m->graph->inputs.items[i]);
    for (size_t i = 0; i < m->graph->initializers.count; i++)
        VEC_PUSH(m->scratch, &m->before, m->graph->initializers.items[i]);
    m->node = m->graph->first;
    for (; at > 1 && m->node && m->node->next; at--, m->node = m->node->next)
        for (uint32_t i = 0; i < m->node->output_count; i++)
            if (m->node->outputs[i]) VEC_PUSH(m->scratch, &m->before, m->node->outputs[i]);
}

static Value *pick_value(Mutation *m) {
    uint32_t count = (uint32_t)m->before.count;
    return count ? m->before.items[fuzz_below(m->rng, count)] : NULL;
}

static Dtype pick_dtype(Mutation *m) {
    static const Dtype likely[] = {DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_DOUBLE};
    if (fuzz_below(m->rng, 3)) return likely[fuzz_below(m->rng, 4)];
    return (Dtype)(1 + fuzz_below(m->rng, DTYPE_COUNT - 1));
}

/* ---- changes --------------------------------------------------------------------------------- */

static void change_operand(Mutation *m) {
    if (!m->node || !m->node->input_count) return;
    uint32_t i = fuzz_below(m->rng, m->node->input_count);
    node_set_input(m->node, i, fuzz_below(m->rng, 8) ? pick_value(m) : NULL);
}

/* A node of one operand before the one at hand, which reads it instead. */
static Node *insert_before(Mutation *m, const char *op, const char *domain) {
    SymTable *syms = &m->model->syms;
    if (!m->node || !m->node->input_count) return NULL;
    uint32_t i = fuzz_below(m->rng, m->node->input_count);
    Value *value = m->node->inputs[i].value;
    if (!value) return NULL;
    Sym owner = domain ? sym_intern_cstr(syms, domain) : NULL;
    Node *node = node_new(m->graph, m->node, sym_intern_cstr(syms, op), owner);
    node_resize_inputs(node, 1);
    node_set_input(node, 0, value);
    node_resize_outputs(node, 1);
    node_set_output(node, 0, value_new(m->graph, sym_fresh(syms, "mutated")));
    node_set_input(m->node, i, node->outputs[0]);
    return node;
}

static void insert_own(Mutation *m) {
    SymTable *syms = &m->model->syms;
    Node *node = insert_before(m, "Own", "com.mutated");
    if (node)
        model_import_opset(m->model, m->graph->opsets, sym_intern_cstr(syms, "com.mutated"), 1);
}

static void insert_cast(Mutation *m) {
    Node *node = insert_before(m, "Cast", NULL);
    if (!node) return;
    node_set_attr_int(node, "to", pick_dtype(m));
    if (fuzz_below(m->rng, 2)) node_add_metadata(node, "demi.inserted", "cast");
}

static void change_attribute(Mutation *m) {
    static const int64_t odd[] = {0, 1, -1, 2, 7, INT32_MAX, INT64_MIN, INT64_MAX};
    if (!m->node || !m->node->attrs) return;
    uint32_t count = 0, at;
    for (const Attr *attr = m->node->attrs; attr; attr = attr->next) count++;
    const Attr *attr = m->node->attrs;
    for (at = fuzz_below(m->rng, count); at; at--) attr = attr->next;
    uint32_t items, kind = fuzz_below(m->rng, 4), held;
    const int64_t *ints = attr_ints(attr, &items);
    const char *name = sym_text(attr->name);
    attr_held_graphs(attr, &held);
    if (held) return; /* they hold values that others may read */
    if (kind == 0) {
        node_remove_attr(m->node, name);
    } else if (ints) {
        int64_t *copy = arena_copy(m->scratch, ints, items * sizeof *ints);
        copy[fuzz_below(m->rng, items)] = odd[fuzz_below(m->rng, 8)];
        node_set_attr_ints(m->node, name, copy, items - (kind == 1));
    } else if (attr->type == ATTR_INT || kind == 1) {
        node_set_attr_int(m->node, name, odd[fuzz_below(m->rng, 8)]);
    } else if (attr->type == ATTR_STRING) {
        node_set_attr_string(m->node, name, kind == 2 ? "" : "mutated");
    }
}

static void change_operator(Mutation *m) {
    if (!m->node || m->node->attrs) return;
    const OpSchema *to = ops_at(fuzz_below(m->rng, (uint32_t)ops_count()));
    if (to->domain[0] || to->attr_count > 3) return;
    m->node->op_type = sym_intern_cstr(&m->model->syms, to->name);
    model_touch(m->model);
}

static void change_type(Mutation *m) {
    Value *value = pick_value(m);
    if (value && value->input && value->input->type) value_declare_input(value, pick_dtype(m));
}

static void change_output(Mutation *m) {
    Value *value = pick_value(m);
    if (!m->graph->outputs.count || !value) return;
    GraphOutput *output =
        m->graph->outputs.items[fuzz_below(m->rng, (uint32_t)m->graph->outputs.count)];
    if (output->use.value->graph == m->graph) use_set(&output->use, value);
}

static void change_opset(Mutation *m) {
    OpsetImports *opsets = m->graph->opsets;
    if (!opsets->count) return;
    opsets->items[0].version = 1 + fuzz_below(m->rng, OPS_OPSET_ONNX);
    model_touch(m->model);
}

/* What strip-casts and others look for; the model is somebody else's. */
static void add_mark(Mutation *m) {
    static const char *const marks[] = {"to",    "value=", "value#3f800000",     "value~0", "=",
                                        "dtype", "body",   "softmax_precision=", "value#"};
    if (!m->node) return;
    uint32_t which = fuzz_below(m->rng, sizeof marks / sizeof *marks + 1);
    if (which == 0) {
        node_add_metadata(m->node, "demi.inserted", "cast");
        return;
    }
    const Attr *first = m->node->attrs;
    const char *name = first && fuzz_below(m->rng, 2) ? sym_text(first->name) : marks[which - 1];
    node_add_metadata(m->node, "demi.was", name);
}

static void drop_output(Mutation *m) {
    if (!m->node || !m->node->output_count) return;
    uint32_t i = fuzz_below(m->rng, m->node->output_count);
    const Value *value = m->node->outputs[i];
    if (value && !value->uses) node_set_output(m->node, i, NULL);
}

void fuzz_mutate(Model *model, FuzzRng *rng, unsigned count, Arena *scratch) {
    static void (*const changes[])(Mutation * m) = {
        change_operand,   change_operand,   insert_own,      insert_cast,
        change_attribute, change_attribute, change_operator, change_type,
        change_output,    change_opset,     add_mark,        drop_output,
    };
    enum { CHANGES = sizeof changes / sizeof *changes };
    Mutation m = {.model = model, .rng = rng, .scratch = scratch};
    m.graphs = model_graphs(model, scratch);
    for (unsigned i = 0; i < count; i++) {
        pick_node(&m);
        changes[fuzz_below(rng, CHANGES)](&m);
    }
}

const char *fuzz_name(const Model *model, FuzzRng *rng, Arena *scratch) {
    GraphList graphs = model_graphs(model, scratch);
    const Graph *graph = graphs.items[fuzz_below(rng, (uint32_t)graphs.count)];
    const Node *node = graph->first;
    for (uint32_t at = fuzz_below(rng, graph->node_count); at && node; at--) node = node->next;
    uint32_t inputs = (uint32_t)graph->inputs.count, kind = fuzz_below(rng, 4);
    if (kind == 0 && inputs) return sym_text(graph->inputs.items[fuzz_below(rng, inputs)]->name);
    if (!node) return "none";
    if (kind == 1) return sym_text(node->op_type);
    if (kind == 2 && node->output_count && node->outputs[0])
        return sym_text(node->outputs[0]->name);
    return node_label(node);
}
