// SPDX-License-Identifier: Apache-2.0
/* What a node's attributes are against what they say of themselves and what its operator's
 * definition says: the one place that judges kinds and payloads, before any pass.
 *
 * An attribute is whole where the field that its type names is the only one filled; tensors, graphs
 * and types must be there, numbers and texts that are not filled are 0 and empty and lists without
 * items are empty, as the format has it. One that stands for a function's parameter has no value at
 * all. Operators without a definition (somebody's own, and functions of the model) have any names
 * and kinds they like, whole ones.
 */
#include "op_types.h"
#include "ops.h"
#include "verify.h"

const char *attr_type_name(AttrType type) {
    static const char *const names[] = {
        [ATTR_UNDEFINED] = "undefined",
        [ATTR_FLOAT] = "float",
        [ATTR_INT] = "int",
        [ATTR_STRING] = "string",
        [ATTR_TENSOR] = "tensor",
        [ATTR_GRAPH] = "graph",
        [ATTR_FLOATS] = "floats",
        [ATTR_INTS] = "ints",
        [ATTR_STRINGS] = "strings",
        [ATTR_TENSORS] = "tensors",
        [ATTR_GRAPHS] = "graphs",
        [ATTR_SPARSE_TENSOR] = "sparse_tensor",
        [ATTR_TYPE] = "type_proto",
        [ATTR_SPARSE_TENSORS] = "sparse_tensors",
        [ATTR_TYPES] = "type_protos",
    };
    bool known = (int)type >= 0 && (size_t)type < sizeof names / sizeof *names;
    return known ? names[type] : "unknown";
}

static bool attr_error(const Node *node, const char *name, const char *what, Err *err) {
    node_error(node, err, ERR_MODEL, "%s", what);
    err_operand(err, "attribute '%s'", name);
    return false;
}

/* True where the type names a message, which must be there, and none is. */
static bool lacks_payload(const Attr *attr) {
    switch (attr->type) {
    case ATTR_TENSOR: return !attr_tensor(attr);
    case ATTR_GRAPH: return !attr_graph(attr);
    case ATTR_SPARSE_TENSOR: return !attr_sparse(attr);
    case ATTR_TYPE: return !attr_type(attr);
    case ATTR_UNDEFINED:
    case ATTR_FLOAT:
    case ATTR_INT:
    case ATTR_STRING:
    case ATTR_FLOATS:
    case ATTR_INTS:
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: break;
    }
    return false;
}

static bool attr_is_whole(const Node *node, const Attr *attr, Err *err) {
    if (attr->also) {
        attr_error(node, sym_text(attr->name), "its type and its value differ", err);
        err_expected(err, "%s", attr_type_name(attr->type));
        err_actual(err, "%s%s", attr_type_name(attr->also->type),
                   attr->has_value ? " as well" : "");
        return false;
    }
    if (attr->ref || !lacks_payload(attr)) return true;
    attr_error(node, sym_text(attr->name), "it declares a type, but has no value", err);
    err_expected(err, "%s", attr_type_name(attr->type));
    return false;
}

/* All of a list are whole; `node` is for messages. */
static bool attrs_are_whole(const Node *node, const Attr *attrs, Err *err) {
    for (const Attr *attr = attrs; attr; attr = attr->next)
        if (!attr_is_whole(node, attr, err)) return false;
    return true;
}

static bool check_kinds(const Node *node, const OpSchema *schema, Err *err) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        const OpAttr *formal = op_schema_attr(schema, sym_text(attr->name));
        bool untyped = attr->ref && !attr->has_type;
        if (!formal || untyped || (int)attr->type == formal->type) continue;
        attr_error(node, formal->name, "wrong type of attribute", err);
        err_expected(err, "%s", attr_type_name((AttrType)formal->type));
        err_actual(err, "%s", attr_type_name(attr->type));
        return false;
    }
    return true;
}

/* A pass that imports the default domain, for a Cast, would make what it is of this node. */
static bool no_import(const Node *node, Err *err) {
    node_error(node, err, ERR_MODEL, "the model does not import the operator's domain");
    err_expected(err, "an opset import of ''");
    return false;
}

bool node_attrs_check(const Node *node, Err *err) {
    const Model *model = node->graph->model;
    const OpSchema *schema = node_schema(node);
    if (!attrs_are_whole(node, node->attrs, err)) return false;
    if (!schema && domain_is_default(node->domain) && !opset_version(node->graph->opsets, NULL) &&
        !model_find_function(model, node))
        return no_import(node, err);
    if (!schema || !schema->attr_count) return true;
    if (model->functions.count && model_find_function(model, node)) return true;
    if (!check_kinds(node, schema, err)) return false;
    for (uint32_t i = 0; i < schema->attr_count; i++) {
        const OpAttr *formal = &schema->attrs[i];
        if (formal->required && !node_attr(node, formal->name))
            return attr_error(node, formal->name, "a required attribute is missing", err);
    }
    return true;
}
