// SPDX-License-Identifier: Apache-2.0
/* Subgraph slots and function formals: the operand outside and the formal inside are one variable.
 * Which operand meets which formal is data (BODY of operators/, op_body_slots). */
#include "op_facts.h"
#include "op_types.h"
#include "placement.h"

typedef struct BodyBuild {
    Placement *p;
    const Node *node;
    const OpBodySlots *slots;
    Graph *body;
    const VarId *uses, *outputs; /* of the node */
    size_t states;
} BodyBuild;

/* Formals inside have the operands' variables. */
static void tie_inputs(BodyBuild *b) {
    for (size_t i = 0; i < b->body->inputs.count; i++) {
        const Value *formal = b->body->inputs.items[i];
        if (!value_holds_float(formal)) continue;
        size_t operand = i - (size_t)b->slots->body_input + (size_t)b->slots->node_input;
        bool mapped = b->slots->node_input >= 0 && i >= (size_t)b->slots->body_input &&
                      operand < b->node->input_count;
        VarId var = mapped ? b->uses[operand] : VAR_FP32;
        b->p->value_vars[formal->id] = var == VAR_NONE ? VAR_FP32 : var;
    }
}

/* The variable of the node output or, where that is omitted, of the state, for body output `at`. */
static VarId outer_var(const BodyBuild *b, size_t slot) {
    size_t output = slot + (size_t)b->slots->node_output;
    VarId var = VAR_NONE;
    if (b->slots->node_output >= 0 && output < b->node->output_count) var = b->outputs[output];
    if (slot >= b->states) return var;
    size_t input = slot + (size_t)b->slots->node_input;
    VarId state = input < b->node->input_count ? b->uses[input] : VAR_NONE;
    placement_tie(b->p, var, state);
    return var == VAR_NONE ? state : var;
}

static const Value *state_formal(const BodyBuild *b, size_t slot) {
    size_t at = slot + (size_t)b->slots->body_input;
    return at < b->body->inputs.count ? b->body->inputs.items[at] : NULL;
}

/* True where each iteration adds to the state: a sum as long as the loop runs. */
static bool accumulates(const BodyBuild *b, size_t slot, const Value *next) {
    const Value *state = state_formal(b, slot);
    const Node *node = next->producer;
    if (!state || !node || node->graph != b->body || !domain_is_default(node->domain) ||
        !(sym_equals(node->op_type, "Add") || sym_equals(node->op_type, "Sub") ||
          sym_equals(node->op_type, "Sum")))
        return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value == state) return true;
    return false;
}

static void tie_outputs(BodyBuild *b) {
    for (size_t i = 0; i < b->body->outputs.count; i++) {
        VarId *inner = placement_output_var(b->p, b->body, i);
        if (*inner == VAR_NONE || i < (size_t)b->slots->body_output) continue;
        VarId var = outer_var(b, i - (size_t)b->slots->body_output);
        if (var != VAR_NONE) *inner = var;
        size_t slot = i - (size_t)b->slots->body_output;
        if (slot < b->states && accumulates(b, slot, b->body->outputs.items[i]->use.value))
            placement_pin(b->p, var, NOTE_PRECISE, "sums over iterations");
    }
}

void placement_build_bodies(Placement *p, const Node *node, const VarId *outputs) {
    const OpSchema *schema = NULL;
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        if (!attr_graph(attr)) continue;
        if (!schema) schema = node_schema(node);
        BodyBuild b = {.p = p,
                       .node = node,
                       .slots = op_body_slots(schema, sym_text(attr->name)),
                       .body = attr_graph(attr),
                       .uses = placement_node_vars(p, node),
                       .outputs = outputs};
        if (!b.slots) continue;
        int64_t scans = node_attr_int(node, "num_scan_inputs", 0);
        b.states = op_body_state_count(b.slots, node->input_count, scans);
        tie_inputs(&b);
        tie_outputs(&b);
    }
}

/* What a call passes to a formal that has no type: the body stays as it is. */
static VarId untyped_formal(Placement *p, const Node *node, VarId *memo) {
    if (*memo == VAR_NONE) {
        *memo = placement_new_var(p, node);
        placement_pin(p, *memo, NOTE_UNKNOWN,
                      arena_printf(&p->model->arena,
                                   "type unknown: function %s is called with different types",
                                   sym_text(node->op_type)));
    }
    return *memo;
}

void placement_build_call(Placement *p, const Node *node, const Function *function) {
    const Graph *body = function->body;
    VarId *uses = placement_node_vars(p, node);
    const char *why = p->request.excluded ? p->request.excluded[node->id] : NULL;
    VarId untyped = VAR_NONE;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uses[i] = value_holds_float(node->inputs[i].value) ? VAR_FP32 : VAR_NONE;
        if (uses[i] == VAR_NONE || i >= body->inputs.count) continue;
        VarId formal = p->value_vars[body->inputs.items[i]->id];
        uses[i] = formal == VAR_NONE ? untyped_formal(p, node, &untyped) : formal;
        if (why) placement_pin(p, uses[i], NOTE_EXCLUDED, why);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!value_holds_float(node->outputs[i])) continue;
        VarId var = i < body->outputs.count ? *placement_output_var(p, body, i) : VAR_FP32;
        if (var == VAR_NONE) var = untyped_formal(p, node, &untyped);
        p->value_vars[node->outputs[i]->id] = var;
        if (why) placement_pin(p, var, NOTE_EXCLUDED, why);
    }
}
