// SPDX-License-Identifier: Apache-2.0
/* A model as JSON; see show_model.h. Nested graphs are written where their attribute is, so that
 * the depth is that of the model, which the reader bounds. */
#include <string.h>

#include "show_model.h"

static void write_graph(const Graph *graph, const char *key, JsonWriter *json);

static void write_sym(JsonWriter *json, const char *key, Sym sym) {
    if (sym) json_bytes(json, key, sym->text, sym->length);
}

static void write_dims(const Type *type, JsonWriter *json) {
    json_open(json, "shape", '[');
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        switch (dim->kind) {
        case DIM_UNKNOWN: json_text(json, NULL, "?"); break;
        case DIM_KNOWN: json_signed(json, NULL, dim->size); break;
        case DIM_SYMBOL: write_sym(json, NULL, dim->symbol); break;
        }
    }
    json_close(json, ']');
}

static const char *kind_name(TypeKind kind) {
    switch (kind) {
    case TYPE_NONE: return "none";
    case TYPE_TENSOR: return "tensor";
    case TYPE_SPARSE_TENSOR: return "sparse_tensor";
    case TYPE_SEQUENCE: return "sequence";
    case TYPE_OPTIONAL: return "optional";
    case TYPE_MAP: return "map";
    case TYPE_OPAQUE: return "opaque";
    }
    return "?";
}

static void write_type(const Type *type, const char *key, JsonWriter *json) {
    if (!type) return;
    json_open(json, key, '{');
    json_text(json, "kind", kind_name(type->kind));
    if (type->has_dtype) json_text(json, "dtype", dtype_name((Dtype)type->dtype));
    if (type->has_shape) write_dims(type, json);
    write_type(type->elem, "elem", json);
    json_close(json, '}');
}

static void write_tensor_fields(const Tensor *tensor, JsonWriter *json) {
    json_text(json, "dtype", dtype_name((Dtype)tensor->dtype));
    json_open(json, "shape", '[');
    for (uint32_t i = 0; i < tensor->rank; i++) json_signed(json, NULL, tensor->dims[i]);
    json_close(json, ']');
    if (tensor->storage == TENSOR_EXTERNAL) json_boolean(json, "external", true);
}

static void write_tensor(const Tensor *tensor, const char *key, JsonWriter *json) {
    json_open(json, key, '{');
    write_sym(json, "name", tensor->name);
    write_tensor_fields(tensor, json);
    json_close(json, '}');
}

static void write_sparse(const SparseTensor *sparse, const char *key, JsonWriter *json) {
    json_open(json, key, '{');
    if (sparse->values) write_tensor(sparse->values, "values", json);
    if (sparse->indices) write_tensor(sparse->indices, "indices", json);
    json_close(json, '}');
}

static void write_bytes(JsonWriter *json, const char *key, Bytes bytes) {
    json_bytes(json, key, (const char *)bytes.data, bytes.size);
}

static void write_items(const Attr *attr, JsonWriter *json) {
    json_open(json, "value", '[');
    for (uint32_t i = 0; i < attr->count; i++) {
        switch (attr->type) {
        case ATTR_FLOATS: json_number(json, NULL, (double)attr->v.floats[i]); break;
        case ATTR_INTS: json_signed(json, NULL, attr->v.ints[i]); break;
        case ATTR_STRINGS: write_bytes(json, NULL, attr->v.strings[i]); break;
        case ATTR_TENSORS: write_tensor(attr->v.tensors[i], NULL, json); break;
        case ATTR_GRAPHS: write_graph(attr->v.graphs[i], NULL, json); break;
        case ATTR_SPARSE_TENSORS: write_sparse(attr->v.sparses[i], NULL, json); break;
        case ATTR_TYPES: write_type(attr->v.types[i], NULL, json); break;
        case ATTR_UNDEFINED:
        case ATTR_FLOAT:
        case ATTR_INT:
        case ATTR_STRING:
        case ATTR_TENSOR:
        case ATTR_GRAPH:
        case ATTR_SPARSE_TENSOR:
        case ATTR_TYPE: break;
        }
    }
    json_close(json, ']');
}

static void write_attr_value(const Attr *attr, JsonWriter *json) {
    switch (attr->type) {
    case ATTR_UNDEFINED: break;
    case ATTR_FLOAT: json_number(json, "value", (double)attr->v.f); break;
    case ATTR_INT: json_signed(json, "value", attr->v.i); break;
    case ATTR_STRING: write_bytes(json, "value", attr->v.s); break;
    case ATTR_TENSOR:
        if (attr->v.t) write_tensor(attr->v.t, "value", json);
        break;
    case ATTR_GRAPH:
        if (attr->v.g) write_graph(attr->v.g, "value", json);
        break;
    case ATTR_SPARSE_TENSOR:
        if (attr->v.sparse) write_sparse(attr->v.sparse, "value", json);
        break;
    case ATTR_TYPE: write_type(attr->v.tp, "value", json); break;
    case ATTR_FLOATS:
    case ATTR_INTS:
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: write_items(attr, json); break;
    }
}

static void write_attrs(const Attr *attr, const char *key, JsonWriter *json) {
    if (!attr) return;
    json_open(json, key, '[');
    for (; attr; attr = attr->next) {
        json_open(json, NULL, '{');
        write_sym(json, "name", attr->name);
        if (attr->ref)
            write_sym(json, "ref", attr->ref);
        else
            write_attr_value(attr, json);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_metadata(const KeyValue *entry, JsonWriter *json) {
    if (!entry) return;
    json_open(json, "metadata", '{');
    for (; entry; entry = entry->next) write_sym(json, sym_text(entry->key), entry->value);
    json_close(json, '}');
}

static void write_node(const Node *node, JsonWriter *json) {
    json_open(json, NULL, '{');
    write_sym(json, "name", node->name);
    write_sym(json, "op_type", node->op_type);
    write_sym(json, "domain", node->domain);
    json_open(json, "inputs", '[');
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        json_text(json, NULL, value ? sym_text(value->name) : "");
    }
    json_close(json, ']');
    json_open(json, "outputs", '[');
    for (uint32_t i = 0; i < node->output_count; i++)
        json_text(json, NULL, node->outputs[i] ? sym_text(node->outputs[i]->name) : "");
    json_close(json, ']');
    write_attrs(node->attrs, "attributes", json);
    write_metadata(node->metadata, json);
    json_close(json, '}');
}

static void write_value(const Value *value, const ValueDecl *decl, JsonWriter *json) {
    json_open(json, NULL, '{');
    write_sym(json, "name", value->name);
    write_type(decl && decl->type ? decl->type : value->type, "type", json);
    json_close(json, '}');
}

static void write_initializers(const Graph *graph, JsonWriter *json) {
    json_open(json, "initializers", '[');
    for (size_t i = 0; i < graph->initializers.count; i++) {
        const Value *value = graph->initializers.items[i];
        json_open(json, NULL, '{');
        write_sym(json, "name", value->name);
        if (value->init) write_tensor_fields(value->init, json);
        json_close(json, '}');
    }
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        write_sparse(graph->sparse_initializers.items[i]->sparse_init, NULL, json);
    json_close(json, ']');
}

static void write_graph(const Graph *graph, const char *key, JsonWriter *json) {
    json_open(json, key, '{');
    write_sym(json, "name", graph->name);
    json_open(json, "inputs", '[');
    for (size_t i = 0; i < graph->inputs.count; i++)
        write_value(graph->inputs.items[i], graph->inputs.items[i]->input, json);
    json_close(json, ']');
    json_open(json, "outputs", '[');
    for (size_t i = 0; i < graph->outputs.count; i++)
        write_value(graph->outputs.items[i]->use.value, graph->outputs.items[i]->decl, json);
    json_close(json, ']');
    write_initializers(graph, json);
    json_open(json, "nodes", '[');
    for (const Node *node = graph->first; node; node = node_after(node)) write_node(node, json);
    json_close(json, ']');
    json_close(json, '}');
}

static void write_function(const Function *function, JsonWriter *json) {
    json_open(json, NULL, '{');
    write_sym(json, "name", function->name);
    write_sym(json, "domain", function->domain);
    write_sym(json, "overload", function->overload);
    json_open(json, "attributes", '[');
    for (size_t i = 0; i < function->attributes.count; i++)
        write_sym(json, NULL, function->attributes.items[i]);
    json_close(json, ']');
    write_attrs(function->attribute_protos, "attribute_defaults", json);
    write_graph(function->body, "body", json);
    json_close(json, '}');
}

void show_write_json(const Model *model, JsonWriter *json) {
    write_sym(json, "producer_name", model->producer_name);
    write_sym(json, "producer_version", model->producer_version);
    write_metadata(model->metadata, json);
    write_graph(model->graph, "graph", json);
    json_open(json, "functions", '[');
    for (size_t i = 0; i < model->functions.count; i++)
        write_function(model->functions.items[i], json);
    json_close(json, ']');
}
