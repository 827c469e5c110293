// SPDX-License-Identifier: Apache-2.0
/* Property: model -> text -> model is the identity in every field. Models are made at random, field
 * by field: present, empty and absent names, unknown bytes everywhere, tensors whose data does not
 * fit their dims, attributes with several values, references to values that do not exist. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "text.h"
#include "unit_test.h"

typedef struct Maker {
    Model *model;
    Arena *arena;
    uint64_t seed;
    unsigned names, depth;
    bool function; /* inside a function's body: no initializers, no declared types */
} Maker;

static uint32_t pick(Maker *m, uint32_t below) {
    m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m->seed >> 33) % below;
}

static uint64_t wide(Maker *m) {
    static const uint64_t edges[] = {
        0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, 0x7ff8000000000001};
    uint64_t value =
        (uint64_t)pick(m, INT32_MAX) << 32 ^ (uint64_t)pick(m, INT32_MAX) << 1 ^ pick(m, 2);
    return pick(m, 4) ? value : edges[pick(m, 6)];
}

static Bytes some_bytes(Maker *m, uint32_t size) {
    unsigned char *bytes = arena_alloc(m->arena, size);
    for (uint32_t i = 0; i < size; i++) bytes[i] = (unsigned char)pick(m, 256);
    return (Bytes){bytes, size};
}

static Bytes rest(Maker *m) {
    return pick(m, 4) ? (Bytes){NULL, 0} : some_bytes(m, 1 + pick(m, 9));
}

/* Present text of any kind. */
static Sym text(Maker *m) {
    static const char *const texts[] = {"",        "x",       "float",  "seq",      "inf",  "a b",
                                        "a.b",     "\"q\\\"", "\n\t\r", "\xc3\xa4", "\xff", "N",
                                        "ai.onnx", "1x",      "?",      "@x",       "half"};
    if (pick(m, 5)) return sym_intern_cstr(&m->model->syms, texts[pick(m, 17)]);
    Bytes bytes = some_bytes(m, pick(m, 6));
    return sym_intern(&m->model->syms, (const char *)bytes.data, bytes.size);
}

static Sym maybe(Maker *m) {
    return pick(m, 2) ? text(m) : NULL;
}

/* A name that nothing else has. */
static Sym fresh(Maker *m) {
    static const char *const forms[] = {"v%u", "/layer/%u", "%u", "float %u", "\"%u\""};
    char name[40];
    snprintf(name, sizeof name, forms[pick(m, 5)], m->names++);
    return sym_intern_cstr(&m->model->syms, name);
}

static KeyValue *entries(Maker *m) {
    KeyValue *first = NULL;
    for (uint32_t n = pick(m, 2) ? pick(m, 3) : 0; n > 0; n--) {
        KeyValue *entry = ARENA_NEW(m->arena, KeyValue);
        *entry = (KeyValue){.next = first, .key = maybe(m), .value = maybe(m), .rest = rest(m)};
        first = entry;
    }
    return first;
}

/* ---- types ----------------------------------------------------------------------------------- */

static void some_dims(Maker *m, Type *type) {
    type->has_shape = pick(m, 4) != 0;
    if (!type->has_shape) return;
    type->rank = pick(m, 4);
    Dim *dims = ARENA_ARRAY(m->arena, Dim, type->rank);
    for (uint32_t i = 0; i < type->rank; i++) {
        dims[i].kind = (DimKind)pick(m, 3);
        if (dims[i].kind == DIM_KNOWN) dims[i].size = (int64_t)wide(m);
        if (dims[i].kind == DIM_SYMBOL) dims[i].symbol = text(m);
        if (pick(m, 3)) continue;
        DimExtra *extra = ARENA_NEW(m->arena, DimExtra);
        extra->denotation = text(m);
        extra->rest = rest(m);
        dims[i].extra = extra;
    }
    type->dims = dims;
}

static const Type *some_type(Maker *m, unsigned depth) {
    Type *type = ARENA_NEW(m->arena, Type);
    type->kind = depth > 3 ? TYPE_TENSOR : (TypeKind)pick(m, 7);
    bool tensor = type->kind == TYPE_TENSOR || type->kind == TYPE_SPARSE_TENSOR;
    if (tensor || type->kind == TYPE_MAP) {
        type->has_dtype = pick(m, 5) != 0;
        if (type->has_dtype) type->dtype = (int32_t)pick(m, DTYPE_COUNT + 3);
    }
    if (tensor) some_dims(m, type);
    bool wraps =
        type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL || type->kind == TYPE_MAP;
    if (wraps && pick(m, 5)) type->elem = some_type(m, depth + 1);
    if (pick(m, 3) && type->kind != TYPE_OPAQUE) return type;
    TypeExtra *extra = ARENA_NEW(m->arena, TypeExtra);
    extra->denotation = text(m);
    extra->rest = rest(m);
    if (type->kind == TYPE_OPAQUE) {
        static const unsigned char opaque[] = {0x3a, 6, 0x0a, 1, 'd', 0x12, 1, 'n'};
        extra->rest = (Bytes){opaque, sizeof opaque};
    } else {
        extra->inner_rest = type->kind == TYPE_NONE ? (Bytes){NULL, 0} : rest(m);
        if (tensor && type->has_shape) extra->shape_rest = rest(m);
    }
    type->extra = extra;
    return type;
}

static ValueDecl *some_decl(Maker *m, bool typed) {
    ValueDecl *decl = ARENA_NEW(m->arena, ValueDecl);
    if (typed && pick(m, 5)) decl->type = some_type(m, 0);
    if (m->function && !typed) return decl;
    decl->doc = maybe(m);
    decl->metadata = entries(m);
    decl->rest = rest(m);
    return decl;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Data of `size` bytes as a typed field holds it. Small integers, so that packed types are met. */
static void some_data(Maker *m, Tensor *tensor, uint32_t size, uint32_t width) {
    unsigned char *bytes = arena_alloc(m->arena, size);
    bool small = pick(m, 2);
    for (uint32_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(small && width && i % width ? 0 : pick(m, 256));
    tensor->bytes = bytes;
    tensor->size = size;
}

static Tensor *some_tensor(Maker *m, Sym name) {
    Tensor *tensor = ARENA_NEW(m->arena, Tensor);
    tensor->name = name;
    tensor->has_dtype = pick(m, 8) != 0;
    if (tensor->has_dtype) tensor->dtype = (int32_t)pick(m, DTYPE_COUNT + 2);
    tensor->rank = pick(m, 3);
    int64_t *dims = ARENA_ARRAY(m->arena, int64_t, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[i] = pick(m, 9) ? pick(m, 4) : (int64_t)wide(m);
    tensor->dims = dims;
    tensor->storage = (TensorStorage)pick(m, TENSOR_EXTERNAL + 1);
    uint32_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= (uint32_t)(dims[i] & 3);
    switch (tensor->storage) {
    case TENSOR_NO_DATA: break;
    case TENSOR_RAW: {
        uint64_t fitting;
        bool fits = dtype_bytes((Dtype)tensor->dtype, count, &fitting) && pick(m, 3);
        some_data(m, tensor, fits ? (uint32_t)fitting : pick(m, 20), 0);
        break;
    }
    case TENSOR_FLOATS:
    case TENSOR_INT32S: some_data(m, tensor, (pick(m, 2) ? count : pick(m, 5)) * 4, 4); break;
    case TENSOR_INT64S:
    case TENSOR_DOUBLES:
    case TENSOR_UINT64S: some_data(m, tensor, (pick(m, 2) ? count : pick(m, 5)) * 8, 8); break;
    case TENSOR_STRINGS: {
        Bytes *strings = ARENA_ARRAY(m->arena, Bytes, 3);
        tensor->string_count = pick(m, 4);
        for (uint64_t i = 0; i < tensor->string_count; i++) strings[i] = some_bytes(m, pick(m, 5));
        tensor->strings = strings;
        break;
    }
    case TENSOR_EXTERNAL: break;
    }
    if (tensor->storage == TENSOR_EXTERNAL || !pick(m, 9)) tensor->external = entries(m);
    TensorExtra extra = {.doc = maybe(m)};
    extra.metadata = entries(m);
    extra.rest = rest(m);
    tensor_set_extra(tensor, m->arena, extra);
    return tensor;
}

static SparseTensor *some_sparse(Maker *m, Sym name) {
    SparseTensor *sparse = ARENA_NEW(m->arena, SparseTensor);
    if (name || pick(m, 4)) sparse->values = some_tensor(m, name ? name : maybe(m));
    if (pick(m, 4)) sparse->indices = some_tensor(m, maybe(m));
    sparse->rank = pick(m, 3);
    int64_t *dims = ARENA_ARRAY(m->arena, int64_t, sparse->rank);
    for (uint32_t i = 0; i < sparse->rank; i++) dims[i] = (int64_t)wide(m);
    sparse->dims = dims;
    sparse->rest = rest(m);
    return sparse;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static Graph *some_graph(Maker *m, Graph *parent, Node *owner);

#define FILL(Type, field, value)                                                                   \
    do {                                                                                           \
        Type *items_ = ARENA_ARRAY(m->arena, Type, attr->count);                                   \
        for (uint32_t i_ = 0; i_ < attr->count; i_++) items_[i_] = (value);                        \
        attr->v.field = items_;                                                                    \
    } while (0)

static float any_float(Maker *m) {
    uint32_t bits = (uint32_t)wide(m);
    float value;
    memcpy(&value, &bits, sizeof value);
    return pick(m, 2) ? value : (float)pick(m, 5);
}

static void some_value(Maker *m, Attr *attr, Node *node) {
    bool graphs = attr->type == ATTR_GRAPH || attr->type == ATTR_GRAPHS;
    attr->count = graphs && (!node || m->depth > 2) ? 0 : pick(m, 4);
    attr->has_value = pick(m, 5) != 0;
    bool there = attr->has_value;
    switch (attr->type) {
    case ATTR_UNDEFINED:
        attr->has_value = false;
        attr->count = 0;
        break;
    case ATTR_FLOAT:
        if (there) attr->v.f = any_float(m);
        break;
    case ATTR_INT:
        if (there) attr->v.i = (int64_t)wide(m);
        break;
    case ATTR_STRING:
        if (there) attr->v.s = some_bytes(m, pick(m, 6));
        break;
    case ATTR_TENSOR:
        if (there) attr->v.t = some_tensor(m, maybe(m));
        break;
    case ATTR_GRAPH:
        if (attr->count) attr->v.g = some_graph(m, node->graph, node);
        attr->has_value = attr->v.g != NULL;
        break;
    case ATTR_SPARSE_TENSOR:
        if (there) attr->v.sparse = some_sparse(m, NULL);
        break;
    case ATTR_TYPE:
        if (there) attr->v.tp = some_type(m, 0);
        break;
    case ATTR_FLOATS: FILL(float, floats, any_float(m)); break;
    case ATTR_INTS: FILL(int64_t, ints, (int64_t)wide(m)); break;
    case ATTR_STRINGS: FILL(Bytes, strings, some_bytes(m, pick(m, 4))); break;
    case ATTR_TENSORS: FILL(const Tensor *, tensors, some_tensor(m, maybe(m))); break;
    case ATTR_GRAPHS: FILL(Graph *, graphs, some_graph(m, node->graph, node)); break;
    case ATTR_SPARSE_TENSORS: FILL(const SparseTensor *, sparses, some_sparse(m, NULL)); break;
    case ATTR_TYPES: FILL(const Type *, types, some_type(m, 0)); break;
    }
    bool list = (attr->type >= ATTR_FLOATS && attr->type <= ATTR_GRAPHS) ||
                attr->type == ATTR_SPARSE_TENSORS || attr->type == ATTR_TYPES;
    if (!list)
        attr->count = 0;
    else
        attr->has_value = attr->count > 0;
}

static Attr *some_attr(Maker *m, Node *node) {
    Attr *attr = ARENA_NEW(m->arena, Attr);
    attr->name = maybe(m);
    attr->type = (AttrType)pick(m, ATTR_TYPES + 1);
    attr->has_type = pick(m, 4) != 0;
    if (!pick(m, 4)) attr->ref = text(m);
    some_value(m, attr, node);
    attr->doc = maybe(m);
    attr->rest = rest(m);
    if (pick(m, 5)) return attr;
    attr->also = ARENA_NEW(m->arena, Attr);
    attr->also->type = (AttrType)(1 + pick(m, ATTR_TYPES));
    some_value(m, attr->also, node);
    return attr;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

typedef VEC(Value *) Values;

static NameRef some_ref(Maker *m, const Values *values) {
    if (!pick(m, 4)) return (NameRef){0};
    if (!pick(m, 3)) return (NameRef){.name = fresh(m)};
    Value *value = values->count ? values->items[pick(m, (uint32_t)values->count)] : NULL;
    if (value) value->referenced = true;
    return value ? (NameRef){.name = value->name, .value = value} : (NameRef){.name = fresh(m)};
}

static void some_devices(Maker *m, NodeExtra *node, const Values *values) {
    node->device_count = pick(m, 6) ? 0 : 1 + pick(m, 2);
    node->devices = ARENA_ARRAY(m->arena, DeviceConfig, node->device_count);
    for (uint32_t i = 0; i < node->device_count; i++) {
        DeviceConfig *device = &node->devices[i];
        device->rest = rest(m);
        device->spec_count = pick(m, 3);
        device->specs = ARENA_ARRAY(m->arena, ShardingSpec, device->spec_count);
        for (uint32_t j = 0; j < device->spec_count; j++)
            device->specs[j] = (ShardingSpec){some_ref(m, values), rest(m)};
    }
}

static void some_node(Maker *m, Graph *graph, Values *values) {
    Node *node = node_new(graph, NULL, maybe(m), maybe(m));
    node->name = maybe(m);
    NodeExtra extra = {.overload = maybe(m), .doc = maybe(m)};
    node->metadata = entries(m);
    extra.rest = rest(m);
    node_resize_inputs(node, pick(m, 4));
    for (uint32_t i = 0; i < node->input_count; i++)
        if (values->count && pick(m, 4))
            node_set_input(node, i, values->items[pick(m, (uint32_t)values->count)]);
    some_devices(m, &extra, values);
    node_set_extra(node, extra);
    Attr **tail = &node->attrs;
    for (uint32_t n = pick(m, 4); n > 0; n--, tail = &(*tail)->next) *tail = some_attr(m, node);
    node_resize_outputs(node, pick(m, 3));
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!pick(m, 5)) continue;
        Value *value = value_new(graph, fresh(m));
        node_set_output(node, i, value);
        VEC_PUSH(m->arena, values, value);
    }
}

static void some_annotation(Maker *m, Graph *graph, const Values *values) {
    QuantAnnotation annotation = {.tensor = some_ref(m, values), .rest = rest(m)};
    uint32_t count = annotation.param_count = pick(m, 3);
    annotation.param_keys = ARENA_ARRAY(m->arena, Sym, count);
    annotation.params = ARENA_ARRAY(m->arena, NameRef, count);
    annotation.param_rests = ARENA_ARRAY(m->arena, Bytes, count);
    for (uint32_t i = 0; i < count; i++) {
        annotation.param_keys[i] = maybe(m);
        annotation.params[i] = some_ref(m, values);
        annotation.param_rests[i] = rest(m);
    }
    VEC_PUSH(m->arena, &graph->annotations, annotation);
}

static void add_info(Maker *m, Graph *graph, Value *value) {
    value->info = some_decl(m, true);
    VEC_PUSH(m->arena, &graph->infos, value);
}

static void some_initializers(Maker *m, Graph *graph, Values *values) {
    for (uint32_t n = pick(m, 3); n > 0; n--) {
        Value *value = graph->inputs.count && pick(m, 2) ? graph->inputs.items[0] : NULL;
        if (!value || value->init) {
            value = value_new(graph, fresh(m));
            VEC_PUSH(m->arena, values, value);
        }
        value_set_init(value, some_tensor(m, value->name));
    }
    for (uint32_t n = pick(m, 3) ? 0 : 2; n > 0; n--) {
        Value *value = value_new(graph, fresh(m));
        value->sparse_init = some_sparse(m, value->name);
        VEC_PUSH(m->arena, &graph->sparse_initializers, value);
        VEC_PUSH(m->arena, values, value);
    }
}

static void fill_graph(Maker *m, Graph *graph) {
    Values values = {0};
    if (graph->parent && graph->parent->inputs.count)
        VEC_PUSH(m->arena, &values, graph->parent->inputs.items[0]); /* to be captured */
    for (uint32_t n = pick(m, 4); n > 0; n--) {
        Value *value = value_new(graph, fresh(m));
        value->input = some_decl(m, !m->function || graph->parent);
        VEC_PUSH(m->arena, &graph->inputs, value);
        VEC_PUSH(m->arena, &values, value);
    }
    if (!m->function || graph->parent) some_initializers(m, graph, &values);
    if (!pick(m, 3)) {
        Value *value = value_new(graph, fresh(m));
        VEC_PUSH(m->arena, &graph->undefined, value);
        VEC_PUSH(m->arena, &values, value);
        graph_add_output(graph, value, some_decl(m, !m->function || graph->parent));
    }
    for (uint32_t n = pick(m, 5); n > 0; n--) some_node(m, graph, &values);
    for (size_t i = graph->parent ? 1 : 0; i < values.count; i++)
        if (values.items[i]->graph == graph && !pick(m, 4)) add_info(m, graph, values.items[i]);
    if (!pick(m, 4)) add_info(m, graph, value_new(graph, fresh(m))); /* stale */
    for (uint32_t n = pick(m, 3); n > 0 && values.count; n--)
        graph_add_output(graph, values.items[pick(m, (uint32_t)values.count)],
                         some_decl(m, !m->function || graph->parent));
    if (m->function && !graph->parent) return;
    Values defined = {0};
    for (size_t i = 0; i < values.count; i++)
        if (values.items[i]->producer || values.items[i]->input || values.items[i]->init)
            VEC_PUSH(m->arena, &defined, values.items[i]);
    for (uint32_t n = pick(m, 3); n > 0; n--) some_annotation(m, graph, &defined);
    graph->doc = maybe(m);
    graph->metadata = entries(m);
    graph->rest = rest(m);
}

static Graph *some_graph(Maker *m, Graph *parent, Node *owner) {
    Graph *graph = graph_new(m->model, parent);
    graph->owner = owner;
    graph->name = maybe(m);
    m->depth++;
    fill_graph(m, graph);
    m->depth--;
    return graph;
}

/* ---- models ---------------------------------------------------------------------------------- */

static void some_opsets(Maker *m, OpsetImports *opsets) {
    for (uint32_t n = pick(m, 3); n > 0; n--) {
        OpsetImport import = {.domain = maybe(m), .has_version = pick(m, 3) != 0, .rest = rest(m)};
        if (import.has_version) import.version = (int64_t)wide(m);
        VEC_PUSH(m->arena, opsets, import);
    }
}

static void some_function(Maker *m) {
    Function *function = ARENA_NEW(m->arena, Function);
    *function = (Function){.name = maybe(m),
                           .domain = maybe(m),
                           .overload = maybe(m),
                           .doc = maybe(m),
                           .metadata = entries(m),
                           .rest = rest(m)};
    some_opsets(m, &function->opsets);
    for (uint32_t n = pick(m, 3); n > 0; n--) VEC_PUSH(m->arena, &function->attributes, text(m));
    Attr **tail = &function->attribute_protos;
    for (uint32_t n = pick(m, 3); n > 0; n--, tail = &(*tail)->next) *tail = some_attr(m, NULL);
    function->body = graph_new(m->model, NULL);
    function->body->function = function;
    function->body->opsets = &function->opsets;
    m->function = true;
    fill_graph(m, function->body);
    m->function = false;
    model_add_function(m->model, function);
}

static void some_training(Maker *m) {
    TrainingInfo *info = ARENA_NEW(m->arena, TrainingInfo);
    Graph *main_graph = m->model->graph;
    if (pick(m, 3)) info->initialization = some_graph(m, main_graph, NULL);
    if (pick(m, 3)) info->algorithm = some_graph(m, main_graph, NULL);
    Values none = {0};
    for (uint32_t n = pick(m, 3); n > 0; n--) {
        TrainingBinding first = {some_ref(m, &none), some_ref(m, &none), rest(m)};
        TrainingBinding second = {some_ref(m, &none), some_ref(m, &none), rest(m)};
        VEC_PUSH(m->arena, &info->initialization_bindings, first);
        VEC_PUSH(m->arena, &info->update_bindings, second);
    }
    info->rest = rest(m);
    VEC_PUSH(m->arena, &m->model->training, info);
}

static Model *some_model(uint64_t seed) {
    Model *model = model_new(&test_trap);
    Maker maker = {.model = model, .arena = &model->arena, .seed = seed}, *m = &maker;
    model->has_ir_version = pick(m, 3) != 0;
    if (model->has_ir_version) model->ir_version = (int64_t)wide(m);
    model->has_model_version = pick(m, 3) != 0;
    if (model->has_model_version) model->model_version = (int64_t)wide(m);
    some_opsets(m, &model->opsets);
    model->producer_name = maybe(m);
    model->producer_version = maybe(m);
    model->domain = maybe(m);
    model->doc = maybe(m);
    model->metadata = entries(m);
    model->rest = rest(m);
    model->graph->name = maybe(m);
    fill_graph(m, model->graph);
    for (uint32_t n = pick(m, 3); n > 0; n--) some_function(m);
    for (uint32_t n = pick(m, 3); n > 0; n--) some_training(m);
    return model;
}

/* ---- the property ---------------------------------------------------------------------------- */

typedef struct Buffer {
    Arena *arena;
    VEC(char) text;
} Buffer;

static void buffer_write(void *data, const char *bytes, size_t size) {
    Buffer *buffer = data;
    for (size_t i = 0; i < size; i++) VEC_PUSH(buffer->arena, &buffer->text, bytes[i]);
}

static Buffer print_to(const Model *model, Arena *arena) {
    Buffer buffer = {.arena = arena};
    TextSink sink = {buffer_write, &buffer};
    Err err = {0};
    assert_true(text_print_model(model, TEXT_FULL, &sink, &err));
    return buffer;
}

TEST(test_round_trip) {
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        Model *model = some_model(seed);
        Buffer once = print_to(model, &test_arena);
        Err err = {0};
        Model *again = text_parse_model(once.text.items, once.text.count, &test_trap, &err);
        bool same = again && model_compare(model, again, NULL, &err);
        if (!same) {
            char line[2048];
            err_format(&err, line, sizeof line);
            fail_msg("seed %u: %s in\n%.*s", (unsigned)seed, line, (int)once.text.count,
                     once.text.items);
        }
        Buffer twice = print_to(again, &test_arena);
        assert_int_equal(once.text.count, twice.text.count);
        assert_memory_equal(once.text.items, twice.text.items, once.text.count);
        model_free(model);
        model_free(again);
        arena_free(&test_arena);
    }
}
