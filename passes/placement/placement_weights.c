// SPDX-License-Identifier: Apache-2.0
/* Weights of products that stay fp32: of recurrent layers, say, which the target is too narrow for.
 *
 * What such a product reads is rounded to the target all the same where it is a weight, as a model is
 * large by them: it is stored in 16 bit and cast when the model runs. Exporters lay weights out anew
 * in front of the product,
 *
 *     W = Unsqueeze(Concat(Slice(w), Slice(w), Slice(w))); y = GRU(x, W, R, B)
 *
 * which costs a cast that no constant's bytes pay for, so that a solver leaves it in fp32. Here such a
 * group goes low: one that only moves constants, which nobody else reads, to operands of such products.
 * What computes weights in fp32, as a norm of them does (g v / |v|), stays so, but what it is given is
 * stored in 16 bit, too.
 */
#include "constants.h"
#include "op_facts.h"
#include "op_record.h"
#include "op_types.h"
#include "placement.h"

bool placement_reads_weight(Placement *p, const Use *use) {
    const VarId var = placement_use_var(p, use);
    const OpSchema *schema = use->node ? node_schema(use->node) : NULL;
    if (!schema || var == VAR_NONE || var == VAR_FP32 ||
        !op_class_is_product(schema->domain, schema->name) ||
        placement_elements(use->value) < PLACEMENT_LEAST_WEIGHT ||
        !placement_casts_are_legal(p, use->value->graph))
        return false;
    const PlaceVar *root = &p->vars.items[placement_root(p, var)];
    if (root->low || !root->pinned || root->precise || root->culprit == VAR_NONE) return false;
    switch ((NoteKind)p->vars.items[root->culprit].kind) {
    case NOTE_POLICY:
    case NOTE_ILLEGAL: return true;
    case NOTE_VALUE: return !p->guarded || !p->guarded[use->value->id];
    case NOTE_NONE:
    case NOTE_LOW:
    case NOTE_NO_FLOAT:
    case NOTE_CONSTANT:
    case NOTE_EXCLUDED:
    case NOTE_PRECISE:
    case NOTE_UNKNOWN:
    case NOTE_FIXED:
    case NOTE_FOLLOWS:
    case NOTE_READS:
    case NOTE_TIED:
    case NOTE_MOVED:
    case NOTE_QUANTIZED:
    case NOTE_CHEAPER: break;
    }
    return false;
}

typedef struct Carriers {
    Placement *p;
    uint32_t *sharers;        /* by root: how many nodes have that variable */
    bool *carries;            /* [node_count]: may carry weights, as far as is known */
    bool *seen;               /* [value_count]: its readers are barred */
    VEC(const Node *) barred; /* whose neighbours are not yet */
} Carriers;

static VarId result_root(const Carriers *c, const Node *node) {
    const VarId var = c->p->value_vars[node->outputs[0]->id];
    return var == VAR_NONE ? VAR_NONE : placement_root(c->p, var);
}

/* It moves constants, or what was moved of them, to its only result, and a solver left it in fp32. */
static bool may_carry(const Carriers *c, const Node *node) {
    Placement *p = c->p;
    const OpSchema *schema = node_schema(node);
    const OpRecord *record = schema ? op_record_find(schema->domain, schema->name) : NULL;
    if (!record || record->work != WORK_MOVES || node->output_count != 1 || !node->outputs[0] ||
        node->outputs[0]->referenced || !node->input_count || model_find_function(p->model, node))
        return false;
    const VarId root = result_root(c, node);
    if (root == VAR_NONE || c->sharers[root] > 1) return false;
    const PlaceVar *var = &p->vars.items[root];
    const VarId *inputs = placement_node_vars(p, node);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (inputs[i] != VAR_NONE &&
            (placement_root(p, inputs[i]) != root || !p->flexible[node->inputs[i].value->id]))
            return false;
    return !var->pinned && !var->precise && !var->slot && !var->low;
}

static void bar(Carriers *c, const Node *node) {
    if (!node || !c->carries[node->id]) return;
    c->carries[node->id] = false;
    VEC_PUSH(c->p->scratch, &c->barred, node);
}

static bool is_carried_on(const Carriers *c, const Value *value) {
    const Use *use = value->uses;
    for (; use; use = use->next)
        if (!use->node || (!c->carries[use->node->id] && !placement_reads_weight(c->p, use))) break;
    return !use && !value->referenced;
}

/* Where what it gives or takes is read by something else, or made by it. */
static bool ends_here(const Carriers *c, const Node *node) {
    const VarId *inputs = placement_node_vars(c->p, node);
    if (!node->outputs[0]->uses || !is_carried_on(c, node->outputs[0])) return true;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (inputs[i] == VAR_NONE) continue;
        const bool made = value->producer && !c->p->constant[value->id];
        if (made ? !c->carries[value->producer->id] : !is_carried_on(c, value)) return true;
    }
    return false;
}

static void bar_readers(Carriers *c, const Value *value) {
    if (c->seen[value->id]) return;
    c->seen[value->id] = true;
    for (const Use *use = value->uses; use; use = use->next) bar(c, use->node);
}

/* All that carries together does, or nothing of it. */
static void bar_neighbours(Carriers *c, const Node *node) {
    const VarId *inputs = placement_node_vars(c->p, node);
    bar_readers(c, node->outputs[0]);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (inputs[i] == VAR_NONE) continue;
        bar(c, node->inputs[i].value->producer);
        bar_readers(c, node->inputs[i].value);
    }
}

static void count_sharers(const Carriers *c) {
    const Placement *p = c->p;
    for (size_t g = 0; g < p->graphs.count; g++)
        for (const Node *node = p->graphs.items[g]->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++) {
                const Value *value = node->outputs[i];
                const VarId var = value ? p->value_vars[value->id] : VAR_NONE;
                if (var != VAR_NONE) c->sharers[placement_root(c->p, var)]++;
            }
}

void placement_lower_weights(Placement *p) {
    Carriers c = {.p = p,
                  .sharers = ARENA_ARRAY(p->scratch, uint32_t, p->vars.count),
                  .carries = ARENA_ARRAY(p->scratch, bool, p->model->node_count + 1),
                  .seen = ARENA_ARRAY(p->scratch, bool, p->value_count + 1)};
    VEC(const Node *) nodes = {0};
    count_sharers(&c);
    for (size_t g = 0; g < p->graphs.count; g++)
        for (const Node *node = p->graphs.items[g]->first; node; node = node_after(node))
            if (may_carry(&c, node)) VEC_PUSH(p->scratch, &nodes, node);
    for (size_t i = 0; i < nodes.count; i++) c.carries[nodes.items[i]->id] = true;
    for (size_t i = 0; i < nodes.count; i++)
        if (c.carries[nodes.items[i]->id] && ends_here(&c, nodes.items[i])) bar(&c, nodes.items[i]);
    while (c.barred.count) bar_neighbours(&c, c.barred.items[--c.barred.count]);
    for (size_t i = 0; i < nodes.count; i++)
        if (c.carries[nodes.items[i]->id])
            p->vars.items[result_root(&c, nodes.items[i])].low = true;
}

/* ---- what weights are computed of ------------------------------------------------------------- */

/* The precision of a use was asked for, or has to be exact. */
static bool is_meant(Placement *p, const Use *use, VarId var) {
    const PlaceVar *root = &p->vars.items[placement_root(p, var)];
    const NoteKind kind =
        root->culprit == VAR_NONE ? NOTE_NONE : (NoteKind)p->vars.items[root->culprit].kind;
    if (root->precise || kind == NOTE_EXCLUDED || kind == NOTE_PRECISE) return true;
    return p->guarded && p->guarded[use->value->id];
}

/* True where a product reads its weights that may be rounded, or what computes them does. */
static bool is_of_weights(Placement *p, const bool *makers, const Use *use, const Graph *graph) {
    const VarId var = placement_use_var(p, use);
    if (!use->node || var == VAR_NONE || use->node->graph != graph) return false;
    if (makers[use->node->id]) return true;
    const OpRecord *record = node_record(use->node);
    const bool weights =
        record && use->index > 0 && op_class_is_product(record->domain, record->name);
    return weights && (placement_is_low(p, var) || placement_reads_weight(p, use));
}

static void note_graph(Graph *graph, void *data) {
    (void)graph;
    *(bool *)data = true;
}

/* Computed of constants alone, and always the same. Of quantized ones scales are left, which are small. */
static bool is_still(Placement *p, const bool *still, Node *node) {
    bool graphs = false;
    const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
    if (!record || sym_equals(node->op_type, "DequantizeLinear") || !node->input_count ||
        op_record_has(record, OP_RANDOM) || op_record_has(record, OP_RANDOM_TRAINING) ||
        model_find_function(p->model, node))
        return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (value && !still[value->id] && !value_is_constant(value)) return false;
    }
    node_each_graph(node, note_graph, &graphs);
    return !graphs;
}

static bool makes_weights(Placement *p, const bool *makers, const Node *node) {
    bool any = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const VarId var = placement_use_var(p, &node->inputs[i]);
        if (node->inputs[i].value && var != VAR_NONE && is_meant(p, &node->inputs[i], var))
            return false;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        for (const Use *use = value ? value->uses : NULL; use; use = use->next, any = true)
            if (!is_of_weights(p, makers, use, node->graph)) return false;
    }
    return any;
}

/* Nodes that compute a product's weights of constants alone, as a norm of them does that an exporter has
 * left in the model: what they read is weights, too. */
const bool *placement_weight_makers(Placement *p) {
    bool *still = ARENA_ARRAY(p->scratch, bool, p->value_count + 1);
    bool *candidates = ARENA_ARRAY(p->scratch, bool, p->model->node_count + 1);
    bool *makers = ARENA_ARRAY(p->scratch, bool, p->model->node_count + 1);
    for (size_t g = 0; g < p->graphs.count; g++)
        for (Node *node = p->graphs.items[g]->first; node; node = node_after(node)) {
            candidates[node->id] = is_still(p, still, node);
            for (uint32_t i = 0; candidates[node->id] && i < node->output_count; i++)
                if (node->outputs[i]) still[node->outputs[i]->id] = true;
        }
    for (size_t g = 0; g < p->graphs.count; g++)
        for (const Node *node = p->graphs.items[g]->last; node; node = node->prev)
            makers[node->id] = candidates[node->id] && makes_weights(p, makers, node);
    return makers;
}
