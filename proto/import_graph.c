// SPDX-License-Identifier: Apache-2.0
/* GraphProto and FunctionProto: definitions first (inputs, initializers, node outputs), then what
 * reads or mentions them. Nested graphs are queued and read after the graph that holds them, whose
 * definitions are then complete, so that captures resolve in unsorted files too. */
#include "import.h"
#include "work_progress.h"

enum {
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE_INFO = 13,
    GRAPH_ANNOTATION = 14,
    GRAPH_SPARSE_INITIALIZER = 15,
    GRAPH_METADATA = 16,
    FUNCTION_NODE = 7,
    FUNCTION_OPSET = 9,
    FUNCTION_ATTRIBUTE = 11,
    FUNCTION_VALUE_INFO = 12,
    FUNCTION_METADATA = 14,
};

typedef bool (*PieceReader)(Import *import, Scope *scope, ShadowPiece piece);

static void count_piece(Import *import) {
    progress_at(import->progress, ++import->pieces_read);
}

/* Calls read for every piece of that field, in file order. */
static bool each_piece(Import *import, Scope *scope, const ShadowRecord *record, uint32_t field,
                       PieceReader read) {
    for (size_t i = 0; i < record->pieces.count; i++) {
        if (record->pieces.items[i].field != field) continue;
        if (!read(import, scope, record->pieces.items[i])) return false;
        count_piece(import);
    }
    return true;
}

static bool defined_twice(Import *import, const Scope *scope, const char *what, Sym name) {
    err_set(import->err, ERR_MODEL, "a second definition of '%s'", name->text);
    err_operand(import->err, "%s", what);
    err_graph(import->err, scope->graph);
    return false;
}

/* ---- definitions ----------------------------------------------------------------------------- */

static bool add_input(Import *import, Scope *scope, Sym name, ValueDecl *decl) {
    if (scope_find(scope, name)) return defined_twice(import, scope, "graph input", name);
    Value *value = scope_declare(scope, &import->scratch, name);
    value->input = decl;
    value->type = decl->type;
    VEC_PUSH(import->arena, &scope->graph->inputs, value);
    return true;
}

static bool read_input(Import *import, Scope *scope, ShadowPiece piece) {
    Onnx__ValueInfoProto *proto =
        (Onnx__ValueInfoProto *)import_unpack(import, &onnx__value_info_proto__descriptor, piece);
    if (!proto) return false;
    Sym name = import_name(import, proto->has_name, proto->name);
    proto->has_name = 0;
    return add_input(import, scope, name, import_decl(import, proto));
}

/* The value that an initializer of that name defines, an input perhaps. NULL where it has one. */
static Value *initialized_value(Import *import, Scope *scope, Sym name) {
    Value *value = scope_find(scope, name);
    if (!value) return scope_declare(scope, &import->scratch, name);
    if (!value->init && !value->sparse_init) return value;
    defined_twice(import, scope, "initializer", name);
    return NULL;
}

static bool read_initializer(Import *import, Scope *scope, ShadowPiece piece) {
    Onnx__TensorProto *proto =
        (Onnx__TensorProto *)import_unpack(import, &onnx__tensor_proto__descriptor, piece);
    if (!proto) return false;
    Sym name = import_name(import, proto->has_name, proto->name);
    Value *value = initialized_value(import, scope, name);
    if (!value) return false;
    const Tensor *tensor = import_tensor(import, proto);
    if (!tensor) {
        err_graph(import->err, scope->graph);
        return false;
    }
    value_set_init(value, tensor);
    return true;
}

static bool read_sparse_initializer(Import *import, Scope *scope, ShadowPiece piece) {
    Onnx__SparseTensorProto *proto = (Onnx__SparseTensorProto *)import_unpack(
        import, &onnx__sparse_tensor_proto__descriptor, piece);
    if (!proto) return false;
    SparseTensor *sparse = import_sparse(import, proto);
    if (!sparse) {
        err_graph(import->err, scope->graph);
        return false;
    }
    Sym name = sparse->values ? sparse->values->name : NULL;
    if (!name) name = sym_intern(&import->model->syms, "", 0);
    Value *value = initialized_value(import, scope, name);
    if (!value) return false;
    value->sparse_init = sparse;
    VEC_PUSH(import->arena, &scope->graph->sparse_initializers, value);
    return true;
}

static bool read_nodes(Import *import, Scope *scope, const ShadowRecord *record, uint32_t field) {
    NodeAhead *ready = NULL, *ahead = &import->nodes[0];
    for (size_t i = 0; i < record->pieces.count; i++) {
        if (record->pieces.items[i].field != field) continue;
        if (!import_node_ahead(import, ahead, record->pieces.items[i])) return false;
        count_piece(import);
        if (ready && !import_node(import, ready, scope)) return false;
        ready = ahead;
        ahead = &import->nodes[ready == import->nodes];
    }
    return !ready || import_node(import, ready, scope);
}

/* ---- what refers to definitions -------------------------------------------------------------- */

static bool read_info(Import *import, Scope *scope, ShadowPiece piece) {
    Onnx__ValueInfoProto *proto =
        (Onnx__ValueInfoProto *)import_unpack(import, &onnx__value_info_proto__descriptor, piece);
    if (!proto) return false;
    Sym name = import_name(import, proto->has_name, proto->name);
    Value *value = scope_find(scope, name);
    if (!proto->has_name) { /* means nothing: kept as it is */
        VEC_PUSH(&import->scratch, &import->unmodeled, piece);
        return true;
    }
    bool own = value && !value->info && value_is_defined(value);
    if (!value) value = scope_declare(scope, &import->scratch, name);
    if (value->info) value = value_new(scope->graph, name);
    import->model->mentions |= !own;
    proto->has_name = 0;
    value->info = import_decl(import, proto);
    if (!value->type) value->type = value->info->type;
    VEC_PUSH(import->arena, &scope->graph->infos, value);
    return true;
}

static void add_output(Import *import, Scope *scope, Sym name, ValueDecl *decl) {
    Value *value = scope_resolve(scope, &import->scratch, name);
    if (!value->type && value->graph == scope->graph) value->type = decl->type;
    graph_add_output(scope->graph, value, decl);
}

static bool read_output(Import *import, Scope *scope, ShadowPiece piece) {
    Onnx__ValueInfoProto *proto =
        (Onnx__ValueInfoProto *)import_unpack(import, &onnx__value_info_proto__descriptor, piece);
    if (!proto) return false;
    Sym name = import_name(import, proto->has_name, proto->name);
    proto->has_name = 0;
    add_output(import, scope, name, import_decl(import, proto));
    return true;
}

static bool read_annotation(Import *import, Scope *scope, ShadowPiece piece) {
    Onnx__TensorAnnotation *proto = (Onnx__TensorAnnotation *)import_unpack(
        import, &onnx__tensor_annotation__descriptor, piece);
    if (!proto) return false;
    QuantAnnotation annotation = {
        .tensor.name = import_sym(import, proto->has_tensor_name, proto->tensor_name),
        .param_count = (uint32_t)proto->n_quant_parameter_tensor_names};
    scope_refer(scope, &annotation.tensor);
    annotation.param_keys = ARENA_ARRAY(import->arena, Sym, annotation.param_count);
    annotation.params = ARENA_ARRAY(import->arena, NameRef, annotation.param_count);
    annotation.param_rests = ARENA_ARRAY(import->arena, Bytes, annotation.param_count);
    for (uint32_t i = 0; i < annotation.param_count; i++) {
        KeyValue *entry = import_key_value(import, proto->quant_parameter_tensor_names[i]);
        annotation.param_keys[i] = entry->key;
        annotation.params[i].name = entry->value;
        annotation.param_rests[i] = entry->rest;
        scope_refer(scope, &annotation.params[i]);
    }
    proto->has_tensor_name = 0;
    proto->n_quant_parameter_tensor_names = 0;
    annotation.rest = import_rest(import, &proto->base);
    VEC_PUSH(import->arena, &scope->graph->annotations, annotation);
    return true;
}

/* Links the inputs and references that had to wait for all definitions. */
static void resolve_pending(Import *import, Scope *scope) {
    for (size_t i = 0; i < import->uses.count; i++) {
        PendingUse use = import->uses.items[i];
        node_set_input(use.node, use.index, scope_resolve(scope, &import->scratch, use.name));
    }
    import->uses.count = 0;
    for (size_t i = 0; i < import->references.count; i++)
        scope_refer(scope, import->references.items[i]);
    import->references.count = 0;
}

/* ---- lists of small messages ----------------------------------------------------------------- */

KeyValue *import_metadata(Import *import, const ShadowRecord *record, uint32_t field) {
    KeyValue *first = NULL, **next = &first;
    for (size_t i = 0; i < record->pieces.count; i++) {
        if (record->pieces.items[i].field != field) continue;
        ProtobufCMessage *message = import_unpack(
            import, &onnx__string_string_entry_proto__descriptor, record->pieces.items[i]);
        if (!message) return NULL;
        *next = import_key_value(import, (Onnx__StringStringEntryProto *)message);
        next = &(*next)->next;
    }
    return first;
}

bool import_opsets(Import *import, const ShadowRecord *record, uint32_t field,
                   OpsetImports *opsets) {
    for (size_t i = 0; i < record->pieces.count; i++) {
        if (record->pieces.items[i].field != field) continue;
        Onnx__OperatorSetIdProto *proto = (Onnx__OperatorSetIdProto *)import_unpack(
            import, &onnx__operator_set_id_proto__descriptor, record->pieces.items[i]);
        if (!proto) return false;
        if (opsets->count == OPSET_IMPORTS_MAX)
            return err_set(import->err, ERR_MODEL, "more than %d opset imports", OPSET_IMPORTS_MAX);
        OpsetImport opset = {.domain = import_sym(import, proto->has_domain, proto->domain),
                             .version = proto->version,
                             .has_version = proto->has_version};
        proto->has_domain = proto->has_version = 0;
        opset.rest = import_rest(import, &proto->base);
        VEC_PUSH(import->arena, opsets, opset);
    }
    return true;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

Graph *import_queue_graph(Import *import, Graph *graph, Scope *parent, const ShadowRecord *record) {
    PendingGraph pending = {.scope = scope_new(&import->scratch, graph, parent), .record = record};
    VEC_PUSH(&import->scratch, &import->graphs, pending);
    return graph;
}

/* Makes room for the names of a graph or function body before they come: a node has about one
 * output, and two names with its own. */
static void reserve_names(Import *import, Scope *scope, const ShadowRecord *record,
                          uint32_t node_field) {
    size_t nodes = 0, values = 0;
    for (size_t i = 0; i < record->pieces.count; i++) {
        uint32_t field = record->pieces.items[i].field;
        nodes += field == node_field;
        values += node_field == GRAPH_NODE && (field == GRAPH_INITIALIZER || field == GRAPH_INPUT);
    }
    sym_reserve(&import->model->syms, 2 * nodes + values);
    scope_reserve(scope, &import->scratch, nodes + values);
}

static bool read_graph(Import *import, Scope *scope, const ShadowRecord *record) {
    Graph *graph = scope->graph;
    reserve_names(import, scope, record, GRAPH_NODE);
    if (!each_piece(import, scope, record, GRAPH_INPUT, read_input) ||
        !each_piece(import, scope, record, GRAPH_INITIALIZER, read_initializer) ||
        !each_piece(import, scope, record, GRAPH_SPARSE_INITIALIZER, read_sparse_initializer) ||
        !read_nodes(import, scope, record, GRAPH_NODE) ||
        !each_piece(import, scope, record, GRAPH_VALUE_INFO, read_info))
        return false;
    resolve_pending(import, scope);
    if (!each_piece(import, scope, record, GRAPH_OUTPUT, read_output) ||
        !each_piece(import, scope, record, GRAPH_ANNOTATION, read_annotation))
        return false;
    graph->metadata = import_metadata(import, record, GRAPH_METADATA);
    Onnx__GraphProto *proto =
        (Onnx__GraphProto *)import_remainder(import, &onnx__graph_proto__descriptor, record);
    if (!proto) return false;
    graph->name = import_sym(import, proto->has_name, proto->name);
    graph->doc = import_sym(import, proto->has_doc_string, proto->doc_string);
    proto->has_name = proto->has_doc_string = 0;
    graph->rest = import_rest(import, &proto->base);
    return import->err->code == ERR_NONE;
}

bool import_graphs(Import *import) {
    while (import->graphs_done < import->graphs.count) {
        PendingGraph next = import->graphs.items[import->graphs_done++];
        if (!read_graph(import, next.scope, next.record)) return false;
    }
    return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool read_attributes(Import *import, Scope *scope, const ShadowRecord *record) {
    Attr **next = &scope->graph->function->attribute_protos;
    for (size_t i = 0; i < record->pieces.count; i++) {
        if (record->pieces.items[i].field != FUNCTION_ATTRIBUTE) continue;
        ProtobufCMessage *proto =
            import_unpack(import, &onnx__attribute_proto__descriptor, record->pieces.items[i]);
        if (!proto) return false;
        *next = import_attr(import, (Onnx__AttributeProto *)proto, scope, NULL);
        if (!*next) return false;
        next = &(*next)->next;
    }
    return true;
}

/* Names, parameters and inputs of a function. */
static bool read_signature(Import *import, Scope *scope, Onnx__FunctionProto *proto) {
    Function *function = scope->graph->function;
    function->name = import_sym(import, proto->has_name, proto->name);
    function->domain = import_sym(import, proto->has_domain, proto->domain);
    function->overload = import_sym(import, proto->has_overload, proto->overload);
    function->doc = import_sym(import, proto->has_doc_string, proto->doc_string);
    for (size_t i = 0; i < proto->n_attribute; i++)
        VEC_PUSH(import->arena, &function->attributes, import_sym(import, 1, proto->attribute[i]));
    for (size_t i = 0; i < proto->n_input; i++)
        if (!add_input(import, scope, import_sym(import, 1, proto->input[i]),
                       ARENA_NEW(import->arena, ValueDecl)))
            return false;
    return true;
}

static bool read_body(Import *import, Scope *scope, const ShadowRecord *record) {
    reserve_names(import, scope, record, FUNCTION_NODE);
    if (!read_nodes(import, scope, record, FUNCTION_NODE) ||
        !each_piece(import, scope, record, FUNCTION_VALUE_INFO, read_info) ||
        !read_attributes(import, scope, record))
        return false;
    resolve_pending(import, scope);
    return true;
}

Function *import_function(Import *import, const ShadowRecord *record) {
    Function *function = ARENA_NEW(import->arena, Function);
    function->body = graph_new(import->model, NULL);
    function->body->function = function;
    function->body->opsets = &function->opsets;
    Scope *scope = scope_new(&import->scratch, function->body, NULL);
    Onnx__FunctionProto *proto =
        (Onnx__FunctionProto *)import_remainder(import, &onnx__function_proto__descriptor, record);
    if (!proto || !read_signature(import, scope, proto)) return NULL;
    VEC(Sym) outputs = {0};
    for (size_t i = 0; i < proto->n_output; i++)
        VEC_PUSH(&import->scratch, &outputs, import_sym(import, 1, proto->output[i]));
    if (!read_body(import, scope, record)) return NULL;
    for (size_t i = 0; i < outputs.count; i++)
        add_output(import, scope, outputs.items[i], ARENA_NEW(import->arena, ValueDecl));
    if (!import_opsets(import, record, FUNCTION_OPSET, &function->opsets)) return NULL;
    function->metadata = import_metadata(import, record, FUNCTION_METADATA);
    /* Once more, now with the value_info entries that body reading set aside. */
    proto =
        (Onnx__FunctionProto *)import_remainder(import, &onnx__function_proto__descriptor, record);
    if (!proto) return NULL;
    proto->n_input = proto->n_output = proto->n_attribute = 0;
    proto->has_name = proto->has_domain = proto->has_overload = proto->has_doc_string = 0;
    function->rest = import_rest(import, &proto->base);
    return import->err->code == ERR_NONE ? function : NULL;
}
