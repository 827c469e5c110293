// SPDX-License-Identifier: Apache-2.0
/* Classes of values, by the operators' definitions; see type_classes.h. */
#include "type_classes.h"

#include <string.h>

#include "op_facts.h"
#include "op_types.h"

static uint32_t root_of(TypeClasses *c, uint32_t id) {
    while (c->parent[id] != id) {
        c->parent[id] = c->parent[c->parent[id]];
        id = c->parent[id];
    }
    return id;
}

unsigned type_classes_said(TypeClasses *c, const Value *value) {
    return c->said[root_of(c, value->id)];
}

static void join(TypeClasses *c, const Value *a, const Value *b) {
    if (!a || !b) return;
    uint32_t x = root_of(c, a->id), y = root_of(c, b->id);
    if (x == y) return;
    c->parent[y] = x;
    c->said[x] |= c->said[y];
}

/* That a value has this type; `ours` where demi's mark says that it was float. */
static void say(TypeClasses *c, const Value *value, Dtype dtype, bool ours) {
    if (!value) return;
    bool low = dtype_is_reduced(dtype);
    if (!low && dtype != DTYPE_FLOAT) return;
    c->said[root_of(c, value->id)] |= low && !ours ? TYPE_SAID_LOW : TYPE_SAID_FLOAT;
}

static const Value *input_at(const Node *node, size_t i) {
    return i < node->input_count ? node->inputs[i].value : NULL;
}

/* True where an entry demi.was is of this attribute: its name, or that and more. */
static bool attr_is_marked(const Node *node, const char *attr) {
    size_t length = strlen(attr);
    for (const KeyValue *entry = node->metadata; entry; entry = entry->next) {
        bool begins = sym_equals(entry->key, "demi.was") && entry->value &&
                      entry->value->length >= length &&
                      memcmp(entry->value->text, attr, length) == 0;
        if (begins && (entry->value->length == length || strchr("=#~", entry->value->text[length])))
            return true;
    }
    return false;
}

/* ---- operators ------------------------------------------------------------------------------- */

typedef struct NodeJoin {
    TypeClasses *classes;
    const Node *node;
    const OpSchema *schema;
    const Value **of_var; /* [var_count]: one value of each type variable */
} NodeJoin;

static bool is_shared(const OpParam *param) {
    return param->var != OP_NO_VAR && (param->option != OP_VARIADIC || param->homogeneous);
}

static void join_operand(NodeJoin *j, const OpParam *param, const Value *value) {
    OpType type;
    if (!param || !value) return;
    if (is_shared(param)) {
        join(j->classes, value, j->of_var[param->var]);
        j->of_var[param->var] = value;
    }
    const TypeSet *types = op_param_types(j->schema, param);
    if (type_set_single(types, &type.kind, &type.dtype))
        say(j->classes, value, type.dtype, false);
    else if (op_type_from(value->type, &type) && type.dtype == DTYPE_FLOAT &&
             !type_set_has(types, type.kind, DTYPE_FLOAT16) &&
             !type_set_has(types, type.kind, DTYPE_BFLOAT16))
        say(j->classes, value, DTYPE_FLOAT, false);
}

/* Formals inside and operands outside; what a state was, and what it becomes. */
static void join_body(NodeJoin *j, const OpBodySlots *slots, const Graph *body) {
    const Node *node = j->node;
    for (size_t i = (size_t)slots->body_input; slots->node_input >= 0 && i < body->inputs.count;
         i++)
        join(j->classes, body->inputs.items[i],
             input_at(node, (size_t)slots->node_input + i - (size_t)slots->body_input));
    int64_t scans = node_attr_int(node, "num_scan_inputs", 0);
    size_t states = op_body_state_count(slots, node->input_count, scans);
    for (size_t i = (size_t)slots->body_output; i < body->outputs.count; i++) {
        const Value *result = body->outputs.items[i]->use.value;
        size_t slot = i - (size_t)slots->body_output;
        size_t output = (size_t)slots->node_output + slot;
        if (slots->node_output >= 0 && output < node->output_count)
            join(j->classes, result, node->outputs[output]);
        if (slot < states)
            join(j->classes, result, input_at(node, (size_t)slots->node_input + slot));
    }
}

static void join_bodies(NodeJoin *j) {
    for (const Attr *attr = j->node->attrs; attr; attr = attr->next) {
        if (!attr_graph(attr)) continue;
        const OpBodySlots *slots = op_body_slots(j->schema, sym_text(attr->name));
        if (slots) join_body(j, slots, attr_graph(attr));
    }
}

static void join_ties(NodeJoin *j) {
    size_t count;
    const OpTie *ties = op_ties(j->schema, &count);
    for (size_t i = 0; i < count; i++) {
        const OpTypeVar *a = op_schema_var(j->schema, ties[i].a);
        const OpTypeVar *b = op_schema_var(j->schema, ties[i].b);
        bool holds = ties[i].unless_input < 0 || !input_at(j->node, (size_t)ties[i].unless_input);
        if (holds && ties[i].why != OP_TIE_WIDTH)
            join(j->classes, j->of_var[a - j->schema->vars], j->of_var[b - j->schema->vars]);
    }
}

/* Where an output's type comes from that no operand gives: the first rule that has something to
 * say, as infer-dtypes asks them. A constant's type is what is to be found out. */
static void join_output(NodeJoin *j, const OpParam *param, const Value *value) {
    size_t count;
    const OpOutputRule *rules =
        op_output_rules(j->schema, (size_t)(param - j->schema->outputs), &count);
    if (strcmp(j->schema->name, "Constant") == 0) {
        if (type_dtype(value->type) == DTYPE_FLOAT) say(j->classes, value, DTYPE_FLOAT, false);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bool given = rules[i].attr && node_attr(j->node, rules[i].attr);
        bool marked = rules[i].attr && attr_is_marked(j->node, rules[i].attr);
        if (rules[i].from == OP_FROM_BODY || rules[i].from == OP_FROM_GROUPS) return;
        if (rules[i].from == OP_FROM_INPUT && input_at(j->node, rules[i].input)) {
            join(j->classes, value, input_at(j->node, rules[i].input));
            return;
        }
        if (marked) say(j->classes, value, DTYPE_FLOAT, false);
        if (marked) return;
        if (given || rules[i].from == OP_FROM_DEFAULT) {
            say(j->classes, value, type_dtype(value->type), false);
            return;
        }
    }
}

static void join_operator(NodeJoin *j) {
    const Node *node = j->node;
    bool bound[256] = {false};
    for (uint32_t i = 0; i < node->input_count; i++) {
        const OpParam *param = op_schema_input(j->schema, i);
        join_operand(j, param, node->inputs[i].value);
        if (param && node->inputs[i].value && is_shared(param)) bound[param->var] = true;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const OpParam *param = op_schema_output(j->schema, i);
        join_operand(j, param, node->outputs[i]);
        if (param && node->outputs[i] && !(is_shared(param) && bound[param->var]))
            join_output(j, param, node->outputs[i]);
    }
    join_ties(j);
    join_bodies(j);
}

/* ---- other nodes ----------------------------------------------------------------------------- */

/* Formals of a function that is called with different types have none, and tie nothing. */
static void join_call(TypeClasses *c, const Node *node, const Function *function) {
    const Graph *body = function->body;
    for (size_t i = 0; i < body->inputs.count; i++)
        if (body->inputs.items[i]->type) join(c, body->inputs.items[i], input_at(node, i));
    for (size_t i = 0; i < body->outputs.count && i < node->output_count; i++) {
        const Value *result = body->outputs.items[i]->use.value;
        if (result->type) join(c, result, node->outputs[i]);
    }
}

/* Nobody changes what an operator without a definition reads and gives. */
static void say_custom(TypeClasses *c, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value)
            say(c, node->inputs[i].value, type_dtype(node->inputs[i].value->type),
                node_is_own_cast(node->inputs[i].value->producer));
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) say(c, node->outputs[i], type_dtype(node->outputs[i]->type), false);
}

static void join_node(TypeClasses *c, const Node *node, const Value **of_var) {
    const Function *function = model_find_function(node->graph->model, node);
    if (function) {
        join_call(c, node, function);
        return;
    }
    if (node_is_own_cast(node)) {
        join(c, node->inputs[0].value, node->outputs[0]);
        say(c, node->outputs[0], DTYPE_FLOAT, false);
        return;
    }
    NodeJoin j = {c, node, node_schema(node), of_var};
    if (!j.schema) {
        say_custom(c, node);
        return;
    }
    for (uint32_t i = 0; i < j.schema->var_count; i++) of_var[i] = NULL;
    join_operator(&j);
}

static bool is_marked(const ValueDecl *decl) {
    for (const KeyValue *entry = decl->metadata; entry; entry = entry->next)
        if (sym_equals(entry->key, "demi.was")) return true;
    return false;
}

static void say_interface(TypeClasses *c, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const ValueDecl *decl = graph->inputs.items[i]->input;
        say(c, graph->inputs.items[i], type_dtype(decl->type), is_marked(decl));
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const GraphOutput *output = graph->outputs.items[i];
        say(c, output->use.value, type_dtype(output->decl->type), is_marked(output->decl));
    }
}

TypeClasses type_classes_build(const Model *model, Arena *scratch) {
    TypeClasses classes = {0};
    const Value *of_var[256];
    classes.parent = ARENA_ARRAY(scratch, uint32_t, model->value_count + 1u);
    classes.said = ARENA_ARRAY(scratch, uint8_t, model->value_count + 1u);
    for (uint32_t i = 0; i < model->value_count; i++) classes.parent[i] = i;
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++) {
        const Graph *graph = graphs.items[i];
        if (!graph->owner && !graph->function) say_interface(&classes, graph);
        for (const Node *node = graph->first; node; node = node_after(node))
            join_node(&classes, node, of_var);
        for (size_t k = 0; k < graph->initializers.count; k++) {
            const Value *value = graph->initializers.items[k];
            if (value->init->dtype == DTYPE_FLOAT) say(&classes, value, DTYPE_FLOAT, false);
        }
    }
    return classes;
}
