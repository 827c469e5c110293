// SPDX-License-Identifier: Apache-2.0
/* Types of the graph for what schemas say of them, and back; see op_types.h. */
#include "op_types.h"

static const Type *map_type(Arena *arena, Dtype key, Dtype value) {
    Type *type = ARENA_NEW(arena, Type);
    *type = (Type){.kind = TYPE_MAP,
                   .dtype = (int32_t)key,
                   .has_dtype = true,
                   .elem = type_plain_tensor(value)};
    return type;
}

static const Type *type_new(Arena *arena, OpType type) {
    const Type *tensor = type_plain_tensor(type.dtype);
    switch (type.kind) {
    case OPTYPE_TENSOR: return tensor;
    case OPTYPE_SEQ: return type_new_wrapped(arena, TYPE_SEQUENCE, tensor);
    case OPTYPE_OPTIONAL: return type_new_wrapped(arena, TYPE_OPTIONAL, tensor);
    case OPTYPE_OPTIONAL_SEQ:
        return type_new_wrapped(arena, TYPE_OPTIONAL,
                                type_new_wrapped(arena, TYPE_SEQUENCE, tensor));
    case OPTYPE_SPARSE: {
        Type *sparse = ARENA_NEW(arena, Type);
        *sparse = *tensor;
        sparse->kind = TYPE_SPARSE_TENSOR;
        return sparse;
    }
    case OPTYPE_MAP_INT64: return map_type(arena, DTYPE_INT64, type.dtype);
    case OPTYPE_MAP_STRING: return map_type(arena, DTYPE_STRING, type.dtype);
    case OPTYPE_SEQ_MAP_INT64:
        return type_new_wrapped(arena, TYPE_SEQUENCE, map_type(arena, DTYPE_INT64, type.dtype));
    case OPTYPE_SEQ_MAP_STRING:
        return type_new_wrapped(arena, TYPE_SEQUENCE, map_type(arena, DTYPE_STRING, type.dtype));
    case OPTYPE_COUNT: break;
    }
    return tensor;
}

const Type *type_refine(Arena *arena, const Type *known, OpType type) {
    OpType old;
    if (!known || !op_type_from(known, &old) || old.kind != type.kind) return type_new(arena, type);
    if (old.dtype == type.dtype) return known;
    if (type.kind >= OPTYPE_MAP_INT64) return type_new(arena, type);
    return type_with_dtype(arena, known, type.dtype);
}

static const OpSchema *declared_schema(const Node *node) {
    const Model *model = node->graph->model;
    for (size_t i = 0; i < model->declared_op_count; i++) {
        const OpSchema *schema = model->declared_ops[i];
        if (sym_equals(node->op_type, schema->name) && node->domain &&
            sym_equals(node->domain, schema->domain))
            return schema;
    }
    return NULL;
}

const OpSchema *node_schema(const Node *node) {
    int64_t opset = opset_version(node->graph->opsets, node->domain);
    const OpSchema *schema = opset > 0 ? ops_find_sym(node->domain, node->op_type, opset) : NULL;
    return schema ? schema : declared_schema(node);
}

const OpRecord *node_record(const Node *node) {
    const char *domain = domain_is_default(node->domain) ? "" : sym_text(node->domain);
    return op_record_find(domain, sym_text(node->op_type));
}

bool node_is_cast(const Node *node) {
    return node && domain_is_default(node->domain) && sym_equals(node->op_type, "Cast") &&
           node->input_count == 1 && node->output_count == 1 && node->inputs[0].value &&
           node->outputs[0];
}

bool node_is_own_cast(const Node *node) {
    return node_is_cast(node) && sym_equals(node_metadata(node, "demi.inserted"), "cast");
}

bool node_is_own_quantizer(const Node *node) {
    return node->metadata && domain_is_default(node->domain) && node->input_count >= 1 &&
           node->output_count == 1 && node_metadata(node, OWN_QUANTIZER);
}

bool value_is_named_output(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node && !use_graph(use)->owner) return true;
    return false;
}
