// SPDX-License-Identifier: Apache-2.0
/* The variables of one node: one per type variable of its schema that holds float32, pinned where
 * the class, an exclusion, the opset or a fact about the operator says so. */
#include <stdio.h>
#include <string.h>

#include "constants.h"
#include "fused_ops.h"
#include "integer_products.h"
#include "op_facts.h"
#include "op_record.h"
#include "op_types.h"
#include "peer_fault.h"
#include "placement.h"
#include "text_order.h"

typedef struct NodeBuild {
    Placement *p;
    const Node *node;
    const OpSchema *schema;
    VarId vars[256];     /* by type variable */
    bool has_input[256]; /* a float input has that type variable */
    const char *pin;     /* why the policy or the user keeps the node in fp32; NULL: they do not */
    NoteKind pin_kind;
    VarId *uses, *outputs;
    VarId few[8]; /* outputs, where that is enough */
} NodeBuild;

static const char *text(NodeBuild *b, const char *format, const char *first, const char *second) {
    return arena_printf(&b->p->model->arena, format, first, second);
}

/* One operand of the node at hand. */
typedef struct Operand {
    const OpParam *param;
    size_t formal; /* its place among the formal inputs or outputs */
    bool output;
} Operand;

/* The first opset past the node's version that allows the target for the operand; 0: there is none.
 * Names of operands and type variables changed over time, their places did not. */
static int64_t first_legal_opset(const NodeBuild *b, Operand operand, OpTypeKind kind) {
    const OpSchema *last = b->schema;
    for (int64_t opset = b->schema->since + 1; opset <= ops_latest_opset(b->schema->domain);
         opset++) {
        const OpSchema *newer = ops_find(b->schema->domain, b->schema->name, opset);
        if (!newer || newer == last) continue;
        last = newer;
        const OpParam *same = operand.output ? op_schema_output(newer, operand.formal)
                                             : op_schema_input(newer, operand.formal);
        if (same && !newer->deprecated &&
            type_set_has(op_param_types(newer, same), kind, b->p->request.target))
            return newer->since;
    }
    return 0;
}

static const char *illegal_reason(NodeBuild *b, Operand operand, OpTypeKind kind) {
    const char *target = dtype_name(b->p->request.target), *name = b->schema->name;
    Arena *arena = &b->p->model->arena;
    int64_t now = opset_version(b->node->graph->opsets, b->node->domain);
    int64_t first = first_legal_opset(b, operand, kind);
    if (first)
        return arena_printf(arena, "%s is illegal for %s at opset %lld; legal from opset %lld",
                            target, name, (long long)now, (long long)first);
    return arena_printf(arena, "%s is illegal for %s at every opset", target, name);
}

static bool is_exact_number(const Value *value, Dtype target) {
    float number;
    uint64_t bits;
    double rounded;
    return value_is_constant(value) && constant_scalar(value, &number) &&
           dtype_from_double(target, (double)number, &bits) &&
           dtype_to_double(target, bits, &rounded) && rounded == (double)number;
}

/* All operands of the node are to have one type. */
static bool is_uniform(const NodeBuild *b) {
    return b->p->request.uniform && text_equals(b->schema->name, "BatchNormalization");
}

/* True for operands that a 16-bit type would spoil (KEEP of operators/). */
static bool var_is_kept(const NodeBuild *b, const char *var, const Value *value) {
    size_t count;
    const OpKeep *rows = op_keeps_find(b->schema->domain, b->schema->name, &count);
    Dtype target = b->p->request.target;
    if (is_uniform(b)) return false;
    for (size_t i = 0; i < count; i++) {
        const OpKeep *row = &rows[i];
        if (!text_equals(row->var, var) || b->schema->since < row->since ||
            b->schema->since > row->until)
            continue;
        if (row->when == KEEP_INEXACT) return !is_exact_number(value, target);
        if (row->when == KEEP_ALWAYS || target == DTYPE_BFLOAT16) return true;
    }
    return false;
}

static void pin_illegal(NodeBuild *b, VarId id, Operand operand, OpTypeKind kind) {
    const OpTypeVar *var = &b->schema->vars[operand.param->var];
    const char *refusal = op_refusal(b->schema, var->name, b->p->request.target);
    /* other domains may be ahead of the default one, whose Cast they need */
    bool ahead = b->schema->domain[0] && !placement_casts_are_legal(b->p, b->node->graph);
    if (ahead) {
        placement_pin(b->p, id, NOTE_ILLEGAL, placement_no_cast_reason(b->p));
    } else if (!type_set_has(var->types, kind, b->p->request.target)) {
        bool known = b->p->vars.items[id].reason; /* it would go unread */
        placement_pin(b->p, id, NOTE_ILLEGAL, known ? "" : illegal_reason(b, operand, kind));
    } else if (refusal) {
        placement_pin(b->p, id, NOTE_ILLEGAL,
                      text(b, "%s as a 16-bit operator is refused by strict type inference: %s",
                           b->schema->name, refusal));
    }
}

/* A variable of the node, pinned where the whole node is. */
static VarId node_var(NodeBuild *b) {
    VarId id = placement_new_var(b->p, b->node);
    if (b->pin) placement_pin(b->p, id, b->pin_kind, b->pin);
    return id;
}

static VarId operand_var(NodeBuild *b, Operand operand, const Value *value) {
    const OpParam *param = operand.param;
    if (!value) return VAR_NONE;
    bool shared =
        param && param->var != OP_NO_VAR && (param->option != OP_VARIADIC || param->homogeneous);
    OpType type;
    if (!op_type_from(value->type, &type)) { /* nothing is known: its type variable stays */
        if (shared && b->vars[param->var] == VAR_NONE) b->vars[param->var] = node_var(b);
        if (shared)
            placement_pin(b->p, b->vars[param->var], NOTE_UNKNOWN,
                          text(b, "type unknown: operand '%s'%s", sym_text(value->name), ""));
        return VAR_NONE;
    }
    if (!value_holds_float(value)) return VAR_NONE;
    if (!param || param->var == OP_NO_VAR || type.kind == OPTYPE_SPARSE) return VAR_FP32;
    VarId id = shared ? b->vars[param->var] : VAR_NONE;
    if (id == VAR_NONE) {
        id = node_var(b);
        if (shared)
            b->vars[param->var] = id;
        else
            b->p->vars.items[id].slot = b->p->vars.items[id].all = true;
    }
    pin_illegal(b, id, operand, type.kind);
    if (shared && var_is_kept(b, b->schema->vars[param->var].name, value)) {
        placement_pin(b->p, id, NOTE_POLICY,
                      text(b, "%s keeps its operand %s in float32", b->schema->name, param->name));
        b->p->vars.items[id].aside = true;
    }
    return id;
}

/* An operand of another float type than the others of its type variable: an invalid node, which is
 * left as it is. */
static void pin_mixed(NodeBuild *b) {
    for (uint32_t i = 0; i < b->node->input_count; i++) {
        const OpParam *param = op_schema_input(b->schema, i);
        const Value *value = b->node->inputs[i].value;
        if (!value || !param || param->var == OP_NO_VAR || b->uses[i] != VAR_NONE) continue;
        if (param->option == OP_VARIADIC && !param->homogeneous) continue;
        placement_pin(b->p, b->vars[param->var], NOTE_FIXED, "its operands have different types");
    }
}

static void build_operands(NodeBuild *b) {
    for (uint32_t i = 0; i < b->node->input_count; i++) {
        const OpParam *param = op_schema_input(b->schema, i);
        size_t formal = param ? (size_t)(param - b->schema->inputs) : 0;
        b->uses[i] = operand_var(b, (Operand){param, formal, false}, b->node->inputs[i].value);
        if (b->uses[i] != VAR_NONE && param && param->var != OP_NO_VAR)
            b->has_input[param->var] = true;
    }
    for (uint32_t i = 0; i < b->node->output_count; i++) {
        const OpParam *param = op_schema_output(b->schema, i);
        size_t formal = param ? (size_t)(param - b->schema->outputs) : 0;
        b->outputs[i] = operand_var(b, (Operand){param, formal, true}, b->node->outputs[i]);
        if (b->node->outputs[i]) b->p->value_vars[b->node->outputs[i]->id] = b->outputs[i];
    }
    pin_mixed(b);
}

static void build_ties(NodeBuild *b) {
    size_t count;
    for (uint32_t i = 1; is_uniform(b) && i < b->node->input_count; i++)
        placement_tie(b->p, b->uses[0], b->uses[i]);
    const OpTie *ties = op_ties(b->schema, &count);
    for (size_t i = 0; i < count; i++) {
        const OpTypeVar *a = op_schema_var(b->schema, ties[i].a);
        const OpTypeVar *c = op_schema_var(b->schema, ties[i].b);
        VarId va = b->vars[a - b->schema->vars], vc = b->vars[c - b->schema->vars];
        uint32_t unless = (uint32_t)ties[i].unless_input;
        if (ties[i].unless_input >= 0 && unless < b->node->input_count &&
            b->node->inputs[unless].value)
            continue;
        placement_tie(b->p, va, vc);
        if (ties[i].why != OP_TIE_WIDTH) continue;
        placement_pin(b->p, va, NOTE_POLICY, "it reinterprets bits");
        placement_pin(b->p, vc, NOTE_POLICY, "it reinterprets bits");
    }
}

/* Whether the operand has a type that is converted. */
static bool binds(const NodeBuild *b, uint32_t input) {
    return input < b->node->input_count && b->uses[input] != VAR_NONE;
}

/* True where the attribute that says the type of formal output `formal` can be rewritten: not where
 * it is an attribute of the function around, whose value a call gives, nor where the data lies in
 * another one (Constant.sparse_value). */
static bool output_is_rewritable(const NodeBuild *b, size_t formal) {
    const OpOutputRule *own = op_output_rewritable(b->schema, formal);
    size_t count;
    const OpOutputRule *rules = op_output_rules(b->schema, formal, &count);
    for (size_t i = 0; own && i < count; i++) {
        const Attr *attr = rules[i].attr ? node_attr(b->node, rules[i].attr) : NULL;
        if (own->given && !attr && rules[i].attr) return false;
        if (own->given && rules[i].from == OP_FROM_INPUT && binds(b, rules[i].input)) return false;
        if (attr && (attr->ref || strcmp(rules[i].attr, own->attr) != 0)) return false;
    }
    return own != NULL;
}

/* The rule by which the output has the type of an input where an attribute could say another one and does not; NULL:
 * there is none. */
static const OpOutputRule *input_rule(const NodeBuild *b, size_t formal) {
    size_t count;
    const OpOutputRule *rules = op_output_rules(b->schema, formal, &count);
    for (size_t i = 0; i < count; i++) {
        if (rules[i].from == OP_FROM_INPUT) return i ? &rules[i] : NULL;
        if (!rules[i].attr || node_attr(b->node, rules[i].attr)) return NULL;
    }
    return NULL;
}

/* Outputs whose type variable no input binds: an attribute says the type. It can be rewritten, and
 * then the output follows its readers, or the type stays. */
static void build_attribute_outputs(NodeBuild *b) {
    for (uint32_t i = 0; i < b->node->output_count; i++) {
        const OpParam *param = op_schema_output(b->schema, i);
        if (b->outputs[i] == VAR_NONE || b->outputs[i] == VAR_FP32) continue;
        if (b->has_input[param->var] || (param->option == OP_VARIADIC && !param->homogeneous))
            continue;
        size_t formal = (size_t)(param - b->schema->outputs), count;
        if (!op_output_rules(b->schema, formal, &count) || count == 0) continue;
        const OpOutputRule *same = input_rule(b, formal);
        if (output_is_rewritable(b, formal) ||
            b->p->vars.items[placement_root(b->p, b->outputs[i])].slot)
            continue;
        if (same && same->wrap == OP_WRAP_SAME && same->input < b->node->input_count)
            placement_tie(b->p, b->outputs[i], b->uses[same->input]);
        else
            placement_pin(b->p, b->outputs[i], NOTE_FIXED,
                          "the output's type is fixed by an attribute");
    }
}

/* Tensors in attributes that have the type of an input (TreeEnsemble's splits) are data that
 * nothing casts: the input stays with them. */
static void pin_attribute_tensors(NodeBuild *b) {
    for (const Attr *attr = b->node->attrs; attr; attr = attr->next) {
        const Tensor *tensor = attr_tensor(attr);
        if (!tensor || tensor->dtype != DTYPE_FLOAT) continue;
        const OpTypeVar *var = op_tensor_attr_var(b->schema, sym_text(attr->name));
        if (!var || !b->has_input[var - b->schema->vars]) continue;
        placement_pin(
            b->p, b->vars[var - b->schema->vars], NOTE_FIXED,
            text(b, "its attribute %s has floating-point values%s", sym_text(attr->name), ""));
    }
}

/* By nodes whose opset has float32 alone for scales: a cast of what they give would undo what they are for. */
static bool reads_dequantized(const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (value && value->producer && sym_equals(value->producer->op_type, "DequantizeLinear") &&
            domain_is_default(value->producer->domain) && !op_takes_reduced_scales(value->producer))
            return true;
    }
    return false;
}

/* One text for all nodes of an operator. */
static const char *fp32_reason(NodeBuild *b) {
    if (strcmp(b->schema->domain, FUSED_DOMAIN) == 0) return "it is an fp32 operator";
    const char **reason = &b->p->fp32_reasons[b->schema - ops_at(0)];
    if (!*reason) *reason = text(b, "%s is an fp32 operator%s", b->schema->name, "");
    return *reason;
}

/* What the node moves is cast anyway: behind it as well as before. */
static bool is_cast_behind(const NodeBuild *b) {
    if (b->p->request.target != DTYPE_FLOAT16 || !peer_fault_transpose(b->node)) return false;
    const Value *moved = b->node->inputs[0].value;
    VarId var = moved ? b->p->value_vars[moved->id] : VAR_NONE;
    return var != VAR_NONE && !b->p->constant[moved->id] &&
           b->p->vars.items[placement_root(b->p, var)].pinned;
}

static const char *class_reason(NodeBuild *b, OpClassAnswer answer) {
    const char *excluded = b->p->request.excluded ? b->p->request.excluded[b->node->id] : NULL;
    b->pin_kind = excluded && excluded != integer_products_reason ? NOTE_EXCLUDED : NOTE_POLICY;
    if (excluded) return excluded;
    if (answer.op_class == CLASS_FP32) return answer.why ? answer.why : fp32_reason(b);
    if (answer.op_class == CLASS_NONE) return answer.why;
    if (answer.op_class == CLASS_LOW && reads_dequantized(b->node))
        return "quantized: it reads DequantizeLinear";
    if (peer_fault_join(b->node))
        return "ONNX Runtime joins quantized values by float32 scales alone";
    if (is_cast_behind(b)) return "ONNX Runtime 1.31 fails on it in float16";
    return NULL;
}

static void apply_class(NodeBuild *b, VarId id, OpClassAnswer answer) {
    if (id == VAR_NONE || id == VAR_FP32) return;
    PlaceVar *root = &b->p->vars.items[placement_root(b->p, id)];
    if (answer.op_class == CLASS_LOW) root->wants_low = true;
    if (answer.op_class == CLASS_WIDEST) root->all = true;
    if (answer.op_class == CLASS_FOLLOW && !op_has_flags(b->schema, OP_MOVES))
        root->computes = true;
}

static const char *unknown_reason(Placement *p, const Node *node, const OpSchema *schema) {
    Arena *arena = &p->model->arena;
    const char *op = sym_text(node->op_type);
    long long opset = (long long)opset_version(node->graph->opsets, node->domain);
    if (schema) return arena_printf(arena, "%s is deprecated at opset %lld", op, opset);
    if (domain_is_default(node->domain))
        return arena_printf(arena, "type unknown: opset %lld has no operator %s", opset, op);
    return arena_printf(arena, "type unknown: demi does not know %s.%s", sym_text(node->domain),
                        op);
}

/* An operator we know nothing of: what it reads and gives keeps its type. */
static void build_unknown(Placement *p, const Node *node, const OpSchema *schema) {
    const char *excluded = p->request.excluded ? p->request.excluded[node->id] : NULL;
    VarId *uses = placement_node_vars(p, node), var = VAR_NONE;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        bool input = i < node->input_count;
        const Value *value = input ? node->inputs[i].value : node->outputs[i - node->input_count];
        if (!value_holds_float(value)) continue;
        if (var == VAR_NONE) {
            var = placement_new_var(p, node);
            if (excluded)
                placement_pin(p, var, NOTE_EXCLUDED, excluded);
            else
                placement_pin(p, var, schema ? NOTE_ILLEGAL : NOTE_UNKNOWN,
                              unknown_reason(p, node, schema));
        }
        *(input ? &uses[i] : &p->value_vars[value->id]) = var;
    }
}

/* Constants are not decided: they are read through casts, which cast-params folds into them. */
static bool build_constant(Placement *p, const Node *node) {
    const Value *value = node->output_count ? node->outputs[0] : NULL;
    if (!value || !value_is_constant(value)) return false;
    if (!value_holds_float(value)) return true;
    p->value_vars[value->id] = VAR_FP32;
    p->constant[value->id] = p->flexible[value->id] = true;
    return true;
}

void placement_build_node(Placement *p, const Node *node) {
    if (build_constant(p, node)) return;
    const OpSchema *schema = node_schema(node);
    if (!schema || schema->deprecated) {
        build_unknown(p, node, schema);
        return;
    }
    NodeBuild b = {.p = p, .node = node, .schema = schema, .uses = placement_node_vars(p, node)};
    OpClassAnswer answer = op_class_of(node, p->request.classes);
    placement_note_asking(p, schema);
    b.pin = class_reason(&b, answer);
    for (size_t i = 0; i < schema->var_count; i++) b.vars[i] = VAR_NONE;
    bool few = node->output_count <= sizeof b.few / sizeof *b.few;
    b.outputs = few ? b.few : ARENA_ARRAY(p->scratch, VarId, node->output_count);
    build_operands(&b);
    build_ties(&b);
    build_attribute_outputs(&b);
    pin_attribute_tensors(&b);
    placement_build_bodies(p, node, b.outputs);
    for (uint32_t i = 0; i < node->input_count; i++) apply_class(&b, b.uses[i], answer);
    for (uint32_t i = 0; i < node->output_count; i++) apply_class(&b, b.outputs[i], answer);
}
