// SPDX-License-Identifier: Apache-2.0
/* Building the placement problem: tables, graph inputs and outputs, ties along sequences. What a
 * single node contributes is in placement_node.c and placement_body.c. */
#include "placement.h"

#include "constants.h"
#include "op_types.h"
#include "value_magnitude.h"

static bool is_sequence(const Value *value) {
    TypeKind kind = value_type(value)->kind;
    return value->type && kind != TYPE_TENSOR && kind != TYPE_SPARSE_TENSOR;
}

/* A graph input or output of the main graph. One that no Cast takes gives what it is tied to a
 * reason. */
static VarId io_var(Placement *p, const Value *value, const bool *low) {
    if (!value_holds_float(value)) return VAR_NONE;
    bool io_low = p->request.io_low && !(p->request.keep_defaults && value->input && value->init);
    bool stays = !io_low && !(low && *low);
    if (stays && !is_sequence(value)) return VAR_FP32;
    VarId var = placement_new_var(p, NULL);
    if (stays) {
        placement_pin(p, var, NOTE_FIXED,
                      arena_printf(&p->model->arena, "'%s' keeps its type", sym_text(value->name)));
        return var;
    }
    p->vars.items[var].wants_low = true;
    if (!placement_casts_are_legal(p, value->graph))
        placement_pin(p, var, NOTE_ILLEGAL, placement_no_cast_reason(p));
    return var;
}

static void note_value(Placement *p, Value *value) {
    p->values[value->id] = value;
}

static void build_values(Placement *p, Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++) note_value(p, graph->inputs.items[i]);
    for (size_t i = 0; i < graph->sparse_initializers.count; i++) {
        Value *value = graph->sparse_initializers.items[i];
        note_value(p, value);
        if (value_holds_float(value)) p->value_vars[value->id] = VAR_FP32;
    }
    for (size_t i = 0; i < graph->initializers.count; i++) {
        Value *value = graph->initializers.items[i];
        note_value(p, value);
        if (value->input || !value_holds_float(value)) continue;
        p->value_vars[value->id] = VAR_FP32;
        p->constant[value->id] = p->flexible[value->id] = true;
    }
    for (Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) note_value(p, node->outputs[i]);
    for (size_t i = 0; i < graph->outputs.count; i++)
        if (value_holds_float(graph->outputs.items[i]->use.value))
            *placement_output_var(p, graph, i) = VAR_FP32;
}

static void build_main_io(Placement *p) {
    Graph *graph = p->model->graph;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.items[i];
        p->value_vars[value->id] =
            io_var(p, value, p->request.low_inputs ? &p->request.low_inputs[i] : NULL);
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.items[i]->use.value;
        VarId var = io_var(p, value, p->request.low_outputs ? &p->request.low_outputs[i] : NULL);
        *placement_output_var(p, graph, i) = var;
        /* An input that is an output has one name, so it has one type. */
        if (value->input && value->graph == graph) placement_tie(p, var, p->value_vars[value->id]);
    }
}

/* A function's formals are one variable each, shared by the body and all call sites. */
static void build_formals(Placement *p, const Function *function) {
    const Graph *body = function->body;
    for (size_t i = 0; i < body->inputs.count; i++) {
        const Value *value = body->inputs.items[i];
        if (!value_holds_float(value)) continue;
        VarId var = p->value_vars[value->id] = placement_new_var(p, NULL);
        p->vars.items[var].slot = p->vars.items[var].all = true;
        if (!placement_casts_are_legal(p, body))
            placement_pin(p, var, NOTE_ILLEGAL, placement_no_cast_reason(p));
    }
    for (size_t i = 0; i < body->outputs.count; i++) {
        const Value *value = body->outputs.items[i]->use.value;
        if (!value_holds_float(value)) continue;
        VarId var = *placement_output_var(p, body, i) = placement_new_var(p, NULL);
        p->vars.items[var].slot = p->vars.items[var].all = true;
        if (value->input) placement_tie(p, var, p->value_vars[value->id]);
    }
}

static void build_nodes(Placement *p, const Graph *graph) {
    for (const Node *node = graph->first; node; node = node_after(node)) {
        const Function *function =
            p->model->functions.count ? model_find_function(p->model, node) : NULL;
        if (p->stays[node->id])
            placement_build_stays(p, node);
        else if (function)
            placement_build_call(p, node, function);
        else
            placement_build_node(p, node);
    }
}

/* No Cast takes a sequence or an optional, or the weight side of one: both ends agree. */
static void tie_sequences(Placement *p) {
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = placement_value(p, id);
        if (!value || p->value_vars[id] == VAR_NONE || !is_sequence(value)) continue;
        for (const Use *use = value->uses; use; use = use->next)
            placement_tie(p, p->value_vars[id], placement_use_var(p, use));
    }
}

/* A node's variable is flexible where all it reads is: judged in the graph's order. */
static void mark_flexible(Placement *p, const Node *node) {
    const VarId *uses = placement_node_vars(p, node);
    for (uint32_t o = 0; o < node->output_count; o++) {
        const Value *out = node->outputs[o];
        VarId var = out ? p->value_vars[out->id] : VAR_NONE;
        if (var == VAR_NONE || p->constant[out->id] || placement_root(p, var) == VAR_FP32) continue;
        PlaceVar *own = &p->vars.items[placement_root(p, var)];
        if (own->node != node || own->slot || own->wants_low || own->pinned) continue;
        bool flexible = true;
        for (uint32_t i = 0; flexible && i < node->input_count; i++)
            if (uses[i] != VAR_NONE && placement_root(p, uses[i]) == placement_root(p, var))
                flexible = p->flexible[node->inputs[i].value->id];
        own->flexible = flexible;
        p->flexible[out->id] = flexible;
    }
}

static void init_tables(Placement *p) {
    p->value_count = p->model->value_count;
    p->use_count = p->model->use_count;
    p->graph_count = p->model->graph_count;
    p->value_vars = ARENA_ARRAY(p->scratch, VarId, p->value_count);
    for (uint32_t i = 0; i < p->value_count; i++) p->value_vars[i] = VAR_NONE;
    p->values = ARENA_ARRAY(p->scratch, Value *, p->value_count);
    p->constant = ARENA_ARRAY(p->scratch, bool, p->value_count);
    p->flexible = ARENA_ARRAY(p->scratch, bool, p->value_count);
    p->use_vars = ARENA_ARRAY(p->scratch, VarId, p->use_count);
    for (uint32_t i = 0; i < p->use_count; i++) p->use_vars[i] = VAR_NONE;
    p->training = ARENA_ARRAY(p->scratch, bool, p->graph_count);
    p->fp32_reasons = ARENA_ARRAY(p->scratch, const char *, ops_count());
    p->op_roles = ARENA_ARRAY(p->scratch, uint8_t, ops_count());
    p->graphs = model_graphs(p->model, p->scratch);
    placement_new_var(p, NULL); /* VAR_FP32 */
    p->vars.items[VAR_FP32].pinned = true;
}

bool placement_build(Placement *p, Err *err) {
    init_tables(p);
    for (size_t i = 0; i < p->graphs.count; i++) build_values(p, p->graphs.items[i]);
    build_main_io(p);
    for (size_t i = 0; i < p->model->functions.count; i++)
        build_formals(p, p->model->functions.items[i]);
    placement_mark_training(p);
    for (size_t i = 0; i < p->graphs.count; i++) build_nodes(p, p->graphs.items[i]);
    placement_build_training(p);
    tie_sequences(p);
    placement_keep_precise(p);
    if (!placement_keep_grids(p, err)) return false;
    if (p->request.keep_streams) placement_keep_streams(p);
    if (p->request.guard != GUARD_NONE && !placement_guard_values(p, err)) return false;
    if (p->request.guard != GUARD_NONE && !value_magnitudes_pin(p, err)) return false;
    placement_tie_units(p);
    for (size_t i = 0; i < p->graphs.count; i++)
        for (const Node *node = p->graphs.items[i]->first; node; node = node_after(node))
            mark_flexible(p, node);
    return true;
}
