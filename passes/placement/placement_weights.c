// SPDX-License-Identifier: Apache-2.0
/* Weights of products that stay fp32: of recurrent layers, say, which the target is too narrow for. What
 * such a product reads is rounded to the target all the same where it is a weight, as a model is large by
 * them: it is stored in 16 bit and cast when the model runs. What computes weights in fp32, as a norm of
 * them does (g v / |v|), or puts gates into another order (Concat(Slice(w), Slice(w), Slice(w))), stays
 * so, but what it is given is stored in 16 bit, too.
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

/* Computed of constants alone, and always the same. Of quantized ones scales are left, which are small. */
static bool is_still(Placement *p, const bool *still, Node *node) {
    const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
    if (!record || sym_equals(node->op_type, "DequantizeLinear") || !node->input_count ||
        op_record_has(record, OP_RANDOM) || op_record_has(record, OP_RANDOM_TRAINING) ||
        model_find_function(p->model, node))
        return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (value && !still[value->id] && !value_is_constant(value)) return false;
    }
    return !node_holds_graph(node);
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
