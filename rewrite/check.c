// SPDX-License-Identifier: Apache-2.0
/* Nodes against the operators' schemas. Operators of domains that are not published are not judged;
 * types that are unknown are not either (run infer-dtypes first to know them). */
#include <string.h>

#include "op_facts.h"
#include "op_types.h"
#include "ops.h"
#include "verify.h"

typedef struct Check {
    const Node *node;
    const OpSchema *schema;
    Err *err;
} Check;

static bool count_error(Check *c, const char *what, uint32_t actual, unsigned least,
                        unsigned most) {
    node_error(c->node, c->err, ERR_MODEL, "wrong number of %s", what);
    if (most == OP_UNBOUNDED)
        err_expected(c->err, "at least %u", least);
    else if (least == most)
        err_expected(c->err, "%u", least);
    else
        err_expected(c->err, "%u to %u", least, most);
    err_actual(c->err, "%u", actual);
    return false;
}

static bool check_counts(Check *c) {
    const OpSchema *s = c->schema;
    uint32_t inputs = c->node->input_count, outputs = c->node->output_count;
    /* Trailing optional operands may be left out or named "": only their presence counts below. */
    if (!op_allows(inputs, s->min_input, s->max_input))
        return count_error(c, "inputs", inputs, s->min_input, s->max_input);
    if (!op_allows(outputs, s->min_output, s->max_output))
        return count_error(c, "outputs", outputs, s->min_output, s->max_output);
    /* Its statistics come all or not at all, which the definition says beside its numbers. */
    bool norm = !s->domain[0] && strcmp(s->name, "BatchNormalization") == 0;
    bool trains = s->since < 14 || node_attr_int(c->node, "training_mode", 0) != 0;
    if (norm && outputs != 1 && !(trains && outputs == s->max_output))
        return count_error(c, "outputs", outputs, trains ? s->max_output : 1,
                           trains ? s->max_output : 1);
    for (uint32_t i = 0; i < inputs; i++) {
        if (c->node->inputs[i].value || !op_schema_input_is_required(s, i)) continue;
        const OpParam *param = op_schema_input(s, i);
        node_error(c->node, c->err, ERR_MODEL, "a required input is missing");
        err_operand(c->err, "input '%s'", param ? param->name : "");
        return false;
    }
    for (uint32_t i = 0; i < outputs; i++) {
        const OpParam *param = op_schema_output(s, i);
        if (c->node->outputs[i] || !param || param->option != OP_SINGLE) continue;
        node_error(c->node, c->err, ERR_MODEL, "a required output has no name");
        err_operand(c->err, "output '%s'", param->name);
        return false;
    }
    return true;
}

/* An attribute that says an element type says one that there is. */
static bool check_dtype(Check *c, const OpAttr *formal, const Attr *attr) {
    int64_t number;
    if (!attr_int(attr, &number) || formal->type != ATTR_INT ||
        op_attr_role(c->schema, formal->name) == OP_ATTR_PLAIN ||
        strncmp(formal->name, "value_", 6) == 0) /* a Constant's number is one */
        return true;
    bool named = number > 0 && number < DTYPE_COUNT;
    if (named || (formal->has_default && formal->value.i == number)) return true;
    node_error(c->node, c->err, ERR_MODEL, "not the number of an element type");
    err_operand(c->err, "attribute '%s'", formal->name);
    err_actual(c->err, "%lld", (long long)number);
    return false;
}

/* Kinds, and that what is required is there, are model_verify's. */
static bool check_attrs(Check *c) {
    for (const Attr *attr = c->node->attrs; attr; attr = attr->next) {
        const char *name = sym_text(attr->name);
        const OpAttr *formal = op_schema_attr(c->schema, name);
        if (formal && !check_dtype(c, formal, attr)) return false;
        bool private = strncmp(name, "__", 2) == 0; /* whoever puts such there may */
        if (private || formal) continue;
        node_error(c->node, c->err, ERR_MODEL, "the operator has no such attribute");
        err_operand(c->err, "attribute '%s'", name);
        return false;
    }
    return true;
}

static const char *type_word(OpTypeKind kind) {
    switch (kind) {
    case OPTYPE_TENSOR: return "tensor";
    case OPTYPE_SEQ: return "sequence";
    case OPTYPE_OPTIONAL: return "optional";
    case OPTYPE_OPTIONAL_SEQ: return "optional sequence";
    case OPTYPE_SPARSE: return "sparse tensor";
    case OPTYPE_MAP_INT64:
    case OPTYPE_MAP_STRING: return "map";
    case OPTYPE_SEQ_MAP_INT64:
    case OPTYPE_SEQ_MAP_STRING: return "sequence of maps";
    case OPTYPE_COUNT: break;
    }
    return "type";
}

typedef struct Bound {
    bool set;
    OpType type;
    const char *by; /* operand that bound it */
} Bound;

/* True where all of a type is said, so that it is known to be one that no operator takes where it
 * has no OpType. */
static bool is_complete(const Type *type) {
    for (; type; type = type->elem) {
        if (type->kind == TYPE_TENSOR || type->kind == TYPE_SPARSE_TENSOR)
            return type->dtype > 0 && type->dtype < DTYPE_COUNT;
        if (type->kind != TYPE_SEQUENCE && type->kind != TYPE_OPTIONAL) return false;
    }
    return false;
}

/* One operand against its formal parameter and the type variables bound so far. */
static bool check_operand(Check *c, const OpParam *param, const Value *value, Bound *bound) {
    OpType type;
    if (!value || !param) return true;
    if (!op_type_from(value->type, &type)) {
        if (!is_complete(value->type)) return true;
        node_error(c->node, c->err, ERR_MODEL, "a type that no operator supports");
        err_operand(c->err, "operand '%s' ('%s')", param->name, sym_text(value->name));
        return false;
    }
    if (type.kind == OPTYPE_SPARSE) type.kind = OPTYPE_TENSOR; /* used as if dense */
    if (!type_set_holds(op_param_types(c->schema, param), type)) {
        node_error(c->node, c->err, ERR_MODEL, "type not allowed at opset %lld",
                   (long long)opset_version(c->node->graph->opsets, c->node->domain));
        err_operand(c->err, "operand '%s' ('%s')", param->name, sym_text(value->name));
        err_actual(c->err, "%s of %s", type_word(type.kind), dtype_name(type.dtype));
        return false;
    }
    bool shared = param->var != OP_NO_VAR && (param->option != OP_VARIADIC || param->homogeneous);
    if (!shared) return true;
    Bound *b = &bound[param->var];
    if (!b->set) *b = (Bound){true, type, param->name};
    if (b->type.kind == type.kind && b->type.dtype == type.dtype) return true;
    node_error(c->node, c->err, ERR_MODEL, "operands with the same type variable differ");
    err_operand(c->err, "operand '%s' ('%s')", param->name, sym_text(value->name));
    err_expected(c->err, "%s, as '%s'", dtype_name(b->type.dtype), b->by);
    err_actual(c->err, "%s", dtype_name(type.dtype));
    return false;
}

static bool check_types(Check *c) {
    Bound bound[256] = {0};
    for (uint32_t i = 0; i < c->node->input_count; i++)
        if (!check_operand(c, op_schema_input(c->schema, i), c->node->inputs[i].value, bound))
            return false;
    for (uint32_t i = 0; i < c->node->output_count; i++)
        if (!check_operand(c, op_schema_output(c->schema, i), c->node->outputs[i], bound))
            return false;
    return true;
}

static bool unknown_operator(const Node *node, int64_t opset, Err *err) {
    const char *domain = domain_is_default(node->domain) ? "" : sym_text(node->domain);
    if (opset == 0) {
        node_error(node, err, ERR_MODEL, "the model does not import the operator's domain");
        err_expected(err, "an opset import of '%s'", domain);
        return false;
    }
    if (ops_exists(domain, sym_text(node->op_type))) {
        node_error(node, err, ERR_MODEL, "the operator does not exist at opset %lld",
                   (long long)opset);
        return false;
    }
    node_error(node, err, ERR_MODEL, "unknown operator");
    const char *near = ops_nearest_name(domain, sym_text(node->op_type));
    if (near) err_hint(err, "did you mean '%s'?", near);
    return false;
}

static bool check_node(const Node *node, Err *err) {
    const Model *model = node->graph->model;
    if (model->functions.count && model_find_function(model, node)) return true;
    const char *domain = domain_is_default(node->domain) ? "" : sym_text(node->domain);
    int64_t opset = opset_version(node->graph->opsets, node->domain);
    Check c = {.node = node, .schema = node_schema(node), .err = err};
    if (!c.schema && !ops_domain_is_whole(domain)) return true; /* somebody's own operators */
    if (!c.schema) return unknown_operator(node, opset, err);
    return c.schema->deprecated || (check_counts(&c) && check_attrs(&c));
}

bool node_check_types(const Node *node, Err *err) {
    if (model_find_function(node->graph->model, node)) return true;
    Check c = {.node = node, .schema = node_schema(node), .err = err};
    return !c.schema || check_types(&c);
}

bool model_check_operators(const Model *model, Arena *scratch, Err *err) {
    if (!model_verify(model, scratch, err)) return false;
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (!check_node(node, err)) return false;
    return true;
}

bool model_check_deprecated(const Model *model, Arena *scratch, Err *err) {
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node)) {
            const OpSchema *schema = node_schema(node);
            if (!schema || !schema->deprecated || model_find_function(model, node)) continue;
            return node_error(node, err, ERR_MODEL, "the operator is deprecated at opset %lld",
                              (long long)opset_version(node->graph->opsets, node->domain));
        }
    return true;
}

bool model_check(const Model *model, Arena *scratch, Err *err) {
    if (!model_check_operators(model, scratch, err) || !model_check_deprecated(model, scratch, err))
        return false;
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (!node_check_types(node, err)) return false;
    return true;
}
