// SPDX-License-Identifier: Apache-2.0
/* NodeProto and AttributeProto. An attribute holds one value, chosen by its type; malformed ones
 * that fill other value fields keep those in `also`, so that no tensor or graph ends in `rest`. */
#include <stdio.h>

#include "import.h"

/* ---- attributes ------------------------------------------------------------------------------ */

typedef struct AttrReader {
    Import *import;
    Onnx__AttributeProto *proto;
    Scope *scope; /* parent of subgraphs */
    Node *owner;
} AttrReader;

static bool attr_is_filled(const Onnx__AttributeProto *proto, AttrType type) {
    switch (type) {
    case ATTR_UNDEFINED: return false;
    case ATTR_FLOAT: return proto->has_f;
    case ATTR_INT: return proto->has_i;
    case ATTR_STRING: return proto->has_s;
    case ATTR_TENSOR: return proto->t != NULL;
    case ATTR_GRAPH: return proto->g != NULL;
    case ATTR_FLOATS: return proto->n_floats > 0;
    case ATTR_INTS: return proto->n_ints > 0;
    case ATTR_STRINGS: return proto->n_strings > 0;
    case ATTR_TENSORS: return proto->n_tensors > 0;
    case ATTR_GRAPHS: return proto->n_graphs > 0;
    case ATTR_SPARSE_TENSOR: return proto->sparse_tensor != NULL;
    case ATTR_SPARSE_TENSORS: return proto->n_sparse_tensors > 0;
    case ATTR_TYPE: return proto->tp != NULL;
    case ATTR_TYPES: return proto->n_type_protos > 0;
    }
    return false;
}

static Graph *subgraph_of(const AttrReader *reader, const Onnx__GraphProto *proto) {
    Import *import = reader->import;
    Graph *graph = graph_new(import->model, reader->scope->graph);
    graph->owner = reader->owner;
    return import_queue_graph(import, graph, reader->scope, import_graph_record(import, proto));
}

/* A list's items and count into the attribute, the field cleared. */
static const void *attr_copy(const AttrReader *reader, Attr *attr, const void *items,
                             size_t width) {
    return arena_copy(reader->import->arena, items, attr->count * width);
}

static void attr_read_strings(const AttrReader *reader, Attr *attr) {
    Bytes *strings = ARENA_ARRAY(reader->import->arena, Bytes, attr->count);
    for (uint32_t i = 0; i < attr->count; i++)
        strings[i] = import_bytes(reader->import, reader->proto->strings[i]);
    attr->v.strings = strings;
}

static bool attr_read_tensors(const AttrReader *reader, Attr *attr) {
    const Tensor **tensors = ARENA_ARRAY(reader->import->arena, const Tensor *, attr->count);
    attr->v.tensors = tensors;
    for (uint32_t i = 0; i < attr->count; i++)
        if (!(tensors[i] = import_tensor(reader->import, reader->proto->tensors[i]))) return false;
    return true;
}

static bool attr_read_sparses(const AttrReader *reader, Attr *attr) {
    const SparseTensor **items =
        ARENA_ARRAY(reader->import->arena, const SparseTensor *, attr->count);
    attr->v.sparses = items;
    for (uint32_t i = 0; i < attr->count; i++)
        if (!(items[i] = import_sparse(reader->import, reader->proto->sparse_tensors[i])))
            return false;
    return true;
}

static void attr_read_graphs(const AttrReader *reader, Attr *attr) {
    Graph **graphs = ARENA_ARRAY(reader->import->arena, Graph *, attr->count);
    for (uint32_t i = 0; i < attr->count; i++)
        graphs[i] = subgraph_of(reader, reader->proto->graphs[i]);
    attr->v.graphs = graphs;
}

static void attr_read_types(const AttrReader *reader, Attr *attr) {
    const Type **types = ARENA_ARRAY(reader->import->arena, const Type *, attr->count);
    for (uint32_t i = 0; i < attr->count; i++)
        types[i] = import_type(reader->import, reader->proto->type_protos[i]);
    attr->v.types = types;
}

/* Takes a count over into the attribute and clears it. */
static void attr_take_count(Attr *attr, size_t *count) {
    attr->count = (uint32_t)*count;
    *count = 0;
}

/* Takes over the list field of attr->type. False (err set) where tensor data is out of reach. */
static bool attr_read_list(const AttrReader *reader, Attr *attr) {
    Onnx__AttributeProto *proto = reader->proto;
    switch (attr->type) {
    case ATTR_FLOATS:
        attr_take_count(attr, &proto->n_floats);
        attr->v.floats = attr_copy(reader, attr, proto->floats, sizeof(float));
        return true;
    case ATTR_INTS:
        attr_take_count(attr, &proto->n_ints);
        attr->v.ints = attr_copy(reader, attr, proto->ints, sizeof(int64_t));
        return true;
    case ATTR_STRINGS:
        attr_take_count(attr, &proto->n_strings);
        attr_read_strings(reader, attr);
        return true;
    case ATTR_TENSORS:
        attr_take_count(attr, &proto->n_tensors);
        return attr_read_tensors(reader, attr);
    case ATTR_GRAPHS:
        attr_take_count(attr, &proto->n_graphs);
        attr_read_graphs(reader, attr);
        return true;
    case ATTR_SPARSE_TENSORS:
        attr_take_count(attr, &proto->n_sparse_tensors);
        return attr_read_sparses(reader, attr);
    case ATTR_TYPES:
        attr_take_count(attr, &proto->n_type_protos);
        attr_read_types(reader, attr);
        return true;
    case ATTR_UNDEFINED:
    case ATTR_FLOAT:
    case ATTR_INT:
    case ATTR_STRING:
    case ATTR_TENSOR:
    case ATTR_GRAPH:
    case ATTR_SPARSE_TENSOR:
    case ATTR_TYPE: return true;
    }
    return true;
}

/* Takes over the value field of attr->type, if it is filled, and clears it. */
static bool attr_read_value(const AttrReader *reader, Attr *attr) {
    Import *import = reader->import;
    Onnx__AttributeProto *proto = reader->proto;
    attr->has_value = attr_is_filled(proto, attr->type);
    if (!attr->has_value) return true;
    switch (attr->type) {
    case ATTR_FLOAT:
        attr->v.f = proto->f;
        proto->has_f = 0;
        return true;
    case ATTR_INT:
        attr->v.i = proto->i;
        proto->has_i = 0;
        return true;
    case ATTR_STRING:
        attr->v.s = import_bytes(import, proto->s);
        proto->has_s = 0;
        return true;
    case ATTR_TENSOR:
        attr->v.t = import_tensor(import, proto->t);
        proto->t = NULL;
        return attr->v.t != NULL;
    case ATTR_GRAPH:
        attr->v.g = subgraph_of(reader, proto->g);
        proto->g = NULL;
        return true;
    case ATTR_SPARSE_TENSOR:
        attr->v.sparse = import_sparse(import, proto->sparse_tensor);
        proto->sparse_tensor = NULL;
        return attr->v.sparse != NULL;
    case ATTR_TYPE:
        attr->v.tp = import_type(import, proto->tp);
        proto->tp = NULL;
        return true;
    case ATTR_UNDEFINED: return true;
    case ATTR_FLOATS:
    case ATTR_INTS:
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: break;
    }
    return attr_read_list(reader, attr);
}

/* The first filled value field at or after `from`; UNDEFINED where there is none. */
static AttrType attr_filled(const Onnx__AttributeProto *proto, int from) {
    for (int type = from; type <= ATTR_TYPES; type++)
        if (attr_is_filled(proto, (AttrType)type)) return (AttrType)type;
    return ATTR_UNDEFINED;
}

Attr *import_attr(Import *import, Onnx__AttributeProto *proto, Scope *scope, Node *owner) {
    AttrReader reader = {.import = import, .proto = proto, .scope = scope, .owner = owner};
    Attr *attr = ARENA_NEW(import->arena, Attr);
    attr->name = import_sym(import, proto->has_name, proto->name);
    attr->ref = import_sym(import, proto->has_ref_attr_name, proto->ref_attr_name);
    attr->doc = import_sym(import, proto->has_doc_string, proto->doc_string);
    attr->has_type = proto->has_type;
    attr->type = proto->has_type ? (AttrType)proto->type : attr_filled(proto, ATTR_FLOAT);
    if (!attr_read_value(&reader, attr)) return NULL;
    Attr **also = &attr->also;
    for (AttrType type = attr_filled(proto, ATTR_FLOAT); type != ATTR_UNDEFINED;
         type = attr_filled(proto, (int)type + 1)) {
        *also = ARENA_NEW(import->arena, Attr);
        (*also)->type = type;
        if (!attr_read_value(&reader, *also)) return NULL;
        also = &(*also)->also;
    }
    proto->has_name = proto->has_ref_attr_name = proto->has_doc_string = proto->has_type = 0;
    attr->rest = import_rest(import, &proto->base);
    return attr;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void import_devices(Import *import, Onnx__NodeProto *proto, NodeExtra *node) {
    node->device_count = (uint32_t)proto->n_device_configurations;
    if (!node->device_count) return;
    node->devices = ARENA_ARRAY(import->arena, DeviceConfig, node->device_count);
    for (uint32_t i = 0; i < node->device_count; i++) {
        Onnx__NodeDeviceConfigurationProto *from = proto->device_configurations[i];
        DeviceConfig *to = &node->devices[i];
        to->spec_count = (uint32_t)from->n_sharding_spec;
        to->specs = ARENA_ARRAY(import->arena, ShardingSpec, to->spec_count);
        for (uint32_t k = 0; k < to->spec_count; k++) {
            Onnx__ShardingSpecProto *spec = from->sharding_spec[k];
            NameRef *tensor = &to->specs[k].tensor;
            tensor->name = import_sym(import, spec->has_tensor_name, spec->tensor_name);
            tensor->operand = true;
            VEC_PUSH(&import->scratch, &import->references, tensor);
            spec->has_tensor_name = 0;
            to->specs[k].rest = import_rest(import, &spec->base);
        }
        from->n_sharding_spec = 0;
        to->rest = import_rest(import, &from->base);
    }
    proto->n_device_configurations = 0;
}

static void look_up(Import *import, NodeAhead *ahead, ProtobufCBinaryData name) {
    SymKey key = sym_key(&import->model->syms, (const char *)name.data, name.len);
    VEC_PUSH(&import->scratch, &ahead->names, key);
}

bool import_node_ahead(Import *import, NodeAhead *ahead, ShadowPiece piece) {
    ahead->proto = (Onnx__NodeProto *)import_unpack_with(import, ahead->unpacker,
                                                         &onnx__node_proto__descriptor, piece);
    if (!ahead->proto) return false;
    ahead->names.count = 0;
    look_up(import, ahead, ahead->proto->name);
    for (size_t i = 0; i < ahead->proto->n_input; i++)
        look_up(import, ahead, ahead->proto->input[i]);
    for (size_t i = 0; i < ahead->proto->n_output; i++)
        look_up(import, ahead, ahead->proto->output[i]);
    return true;
}

static Sym found_name(Import *import, const NodeAhead *ahead, size_t index) {
    return sym_intern_key(&import->model->syms, ahead->names.items[index]);
}

static bool import_outputs(Import *import, const NodeAhead *ahead, Scope *scope, Node *node) {
    const Onnx__NodeProto *proto = ahead->proto;
    node_resize_outputs(node, (uint32_t)proto->n_output);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (proto->output[i].len == 0) continue;
        Sym name = found_name(import, ahead, 1 + proto->n_input + i);
        if (scope_find(scope, name)) {
            node_error(node, import->err, ERR_MODEL, "a second definition of '%s'", name->text);
            err_operand(import->err, "output %u", i);
            return false;
        }
        node_set_output(node, i, scope_declare(scope, &import->scratch, name));
    }
    return true;
}

static void import_inputs(Import *import, const NodeAhead *ahead, const Scope *scope, Node *node) {
    const Onnx__NodeProto *proto = ahead->proto;
    node_resize_inputs(node, (uint32_t)proto->n_input);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (proto->input[i].len == 0) continue;
        Sym name = found_name(import, ahead, 1 + i);
        Value *value = scope_find(scope, name);
        PendingUse use = {.node = node, .index = i, .name = name};
        if (value)
            node_set_input(node, i, value);
        else
            VEC_PUSH(&import->scratch, &import->uses, use);
    }
}

/* Adds the node to an error of one of its attributes. */
static bool attr_failed(const Node *node, Err *err) {
    snprintf(err->node, sizeof err->node, "%s", node_label(node));
    snprintf(err->op_type, sizeof err->op_type, "%s", sym_text(node->op_type));
    err_graph(err, node->graph);
    return false;
}

bool import_node(Import *import, const NodeAhead *ahead, Scope *scope) {
    Onnx__NodeProto *proto = ahead->proto;
    Node *node =
        node_new(scope->graph, NULL, import_sym(import, proto->has_op_type, proto->op_type),
                 import_sym(import, proto->has_domain, proto->domain));
    if (proto->has_name) node->name = found_name(import, ahead, 0);
    import_inputs(import, ahead, scope, node);
    if (!import_outputs(import, ahead, scope, node)) return false;
    Attr **next = &node->attrs;
    for (size_t i = 0; i < proto->n_attribute; i++) {
        *next = import_attr(import, proto->attribute[i], scope, node);
        if (!*next) return attr_failed(node, import->err);
        next = &(*next)->next;
    }
    node->metadata = import_key_values(import, proto->n_metadata_props, proto->metadata_props);
    NodeExtra extra = {
        .overload = import_sym(import, proto->has_overload, proto->overload),
        .doc = import_sym(import, proto->has_doc_string, proto->doc_string),
    };
    import_devices(import, proto, &extra);
    proto->n_input = proto->n_output = proto->n_attribute = proto->n_metadata_props = 0;
    proto->has_op_type = proto->has_domain = proto->has_name = 0;
    proto->has_overload = proto->has_doc_string = 0;
    extra.rest = import_rest(import, &proto->base);
    node_set_extra(node, extra);
    return true;
}
