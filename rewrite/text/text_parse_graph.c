// SPDX-License-Identifier: Apache-2.0
/* Parses graphs and nodes. What a graph defines is entered in its scope at once; what reads a name
 * is noted and resolved when the outermost graph has ended. */
#include <string.h>

#include "text_parser.h"

/* A name that can't be absent. */
static bool parse_value_name(Parser *p, Sym *name) {
    if (parser_at_name(p)) return parser_name(p, name);
    return parser_fail(p, &p->token, "expected the name of a value");
}

static bool fail_twice(Parser *p, const Token *at, Sym name) {
    return parser_fail(p, at, "'%s' is defined twice", sym_text(name));
}

/* Notes a reference, and reads its name and @unknown. */
static bool parser_ref(Parser *p, NameRef *ref, Bytes *rest) {
    if (!parser_name(p, &ref->name)) return false;
    return !parser_at_mark(p, MARK_UNKNOWN) || parser_mark_hex(p, rest);
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* [type] name extras; *at is the name's token. */
static bool parse_decl(Parser *p, ValueDecl **result, Sym *name, Token *at) {
    ValueDecl *decl = ARENA_NEW(p->arena, ValueDecl);
    Extras extras = {0};
    if (parser_at_type(p) && !parser_type(p, &decl->type)) return false;
    *at = p->token;
    if (!parse_value_name(p, name) || !parser_extras(p, &extras)) return false;
    decl->doc = extras.doc;
    decl->metadata = extras.metadata;
    decl->rest = extras.rest;
    *result = decl;
    return true;
}

/* Entries come before what they declare: which of them are mentions shows later. */
static void add_info(Parser *p, Value *value, ValueDecl *decl) {
    if (value->info) value = value_new(value->graph, value->name);
    value->info = decl;
    if (!value->type) value->type = decl->type;
    VEC_PUSH(p->arena, &p->scope->graph->infos, value);
    p->model->mentions = true;
}

/* Functions declare no types: those of their inputs and outputs become value_info entries. */
static void move_function_type(Parser *p, Sym name, ValueDecl *decl) {
    const Graph *graph = p->scope->graph;
    if (!decl->type || !graph->function || graph->parent) return;
    ValueDecl *info = ARENA_NEW(p->arena, ValueDecl);
    info->type = decl->type;
    decl->type = NULL;
    add_info(p, scope_declare(p->scope, p->scratch, name), info);
}

static bool add_initializer(Parser *p, const Token *at, Value *value, const Tensor *tensor) {
    if (value->init || value->sparse_init || value->producer) return fail_twice(p, at, value->name);
    value_set_init(value, tensor);
    return true;
}

static bool parse_input(Parser *p) {
    ValueDecl *decl;
    Sym name;
    Token at;
    if (!parse_decl(p, &decl, &name, &at)) return false;
    const Type *type = decl->type;
    Value *value = scope_declare(p->scope, p->scratch, name);
    if (value->input) return fail_twice(p, &at, name);
    value->input = decl;
    value->type = type;
    VEC_PUSH(p->arena, &p->scope->graph->inputs, value);
    move_function_type(p, name, decl);
    if (!parser_at(p, '=')) return true;
    Tensor *tensor;
    if (!type) return parser_fail(p, &at, "a default value needs the input's type");
    return parser_tensor(p, type, name, &tensor) && add_initializer(p, &at, value, tensor);
}

static bool parse_output(Parser *p) {
    Reader reader = {.scope = p->scope};
    Token at;
    if (!parse_decl(p, &reader.decl, &reader.name, &at)) return false;
    readers_add(&p->readers, reader);
    move_function_type(p, reader.name, reader.decl);
    return true;
}

static bool parse_list(Parser *p, bool (*item)(Parser *)) {
    if (!parser_expect(p, '(')) return false;
    if (parser_accept(p, ')')) return true;
    do {
        if (!item(p)) return false;
    } while (parser_accept(p, ','));
    return parser_expect(p, ')');
}

bool parser_signature(Parser *p) {
    return parse_list(p, parse_input) && parser_expect(p, TOKEN_ARROW) &&
           parse_list(p, parse_output);
}

static bool parse_sparse_initializer(Parser *p) {
    Token at = p->token;
    Sym name;
    SparseTensor *sparse;
    if (!parser_sparse(p, &name, &sparse)) return false;
    if (!name) return parser_fail(p, &at, "expected the name of a value");
    Value *value = scope_declare(p->scope, p->scratch, name);
    if (value->init || value->sparse_init || value->producer) return fail_twice(p, &at, name);
    value->sparse_init = sparse;
    VEC_PUSH(p->arena, &p->scope->graph->sparse_initializers, value);
    return true;
}

/* An initializer or a value_info entry. */
static bool parse_value_item(Parser *p) {
    if (parser_accept_sparse(p)) return parse_sparse_initializer(p);
    ValueDecl *decl;
    Sym name;
    Token at;
    if (!parse_decl(p, &decl, &name, &at)) return false;
    Value *value = scope_declare(p->scope, p->scratch, name);
    if (!parser_at(p, '=')) {
        add_info(p, value, decl);
        return true;
    }
    Tensor *tensor;
    if (!decl->type) return parser_fail(p, &at, "an initializer needs a type");
    if (!parser_tensor(p, decl->type, name, &tensor)) return false;
    return add_initializer(p, &at, value, tensor);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef VEC(Sym) Names;

/* Names separated by commas up to `close`; an empty place is an empty name. */
static bool parse_names(Parser *p, int close, Names *names) {
    while (!parser_at(p, close)) {
        Sym name = sym_intern(&p->model->syms, "", 0);
        if (parser_at_name(p) && !parser_name(p, &name)) return false;
        VEC_PUSH(p->scratch, names, name);
        if (!parser_accept(p, ',')) break;
    }
    return parser_expect(p, close);
}

static bool set_outputs(Parser *p, Node *node, const Names *names, const Token *at) {
    if (names->count > UINT32_MAX) return parser_fail(p, at, "too many outputs");
    node_resize_outputs(node, (uint32_t)names->count);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (sym_is_empty(names->items[i])) continue;
        Value *value = scope_declare(p->scope, p->scratch, names->items[i]);
        if (value_is_defined(value)) return fail_twice(p, at, value->name);
        node_set_output(node, i, value);
    }
    return true;
}

static bool set_inputs(Parser *p, Node *node, const Names *names) {
    if (names->count > UINT32_MAX) return parser_fail(p, &p->token, "too many inputs");
    node_resize_inputs(node, (uint32_t)names->count);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!sym_is_empty(names->items[i]))
            readers_add(
                &p->readers,
                (Reader){.scope = p->scope, .name = names->items[i], .node = node, .index = i});
    return true;
}

/* An op_type, or a part of the domain before it: ? and nothing stand for an absent one. */
static bool parse_operator_part(Parser *p, Sym *name) {
    *name = NULL;
    return parser_accept(p, '?') || !parser_at_name(p) || parser_name(p, name);
}

/* [domain "."] op_type [":" overload]; the domain is identifiers with dots between, or a string. */
static bool parse_operator(Parser *p, Node *node) {
    const char *first = p->token.text;
    bool plain = parser_at(p, TOKEN_NAME);
    Sym domain = NULL, last = NULL;
    const char *end = first + p->token.length;
    if (!parse_operator_part(p, &last)) return false;
    while (parser_accept(p, '.')) {
        domain = plain ? sym_intern(&p->model->syms, first, (size_t)(end - first)) : last;
        if (!domain) domain = sym_intern(&p->model->syms, "", 0);
        end = p->token.text + p->token.length;
        if (!parse_operator_part(p, &last)) return false;
        if (!plain) break;
    }
    node->domain = domain;
    node->op_type = last;
    if (!parser_accept(p, ':')) return true;
    NodeExtra extra = {0};
    if (!parser_name(p, &extra.overload)) return false;
    node_set_extra(node, extra);
    return true;
}

static bool parse_device(Parser *p, DeviceConfig *device) {
    VEC(ShardingSpec) specs = {0};
    parser_advance(p);
    if (!parser_expect(p, '(') || !parser_hex(p, &device->rest)) return false;
    while (parser_accept(p, ',')) {
        ShardingSpec spec = {0};
        if (!parser_ref(p, &spec.tensor, &spec.rest)) return false;
        spec.tensor.operand = true;
        VEC_PUSH(p->scratch, &specs, spec);
    }
    device->specs = arena_copy(p->arena, specs.items, specs.count * sizeof *specs.items);
    device->spec_count = (uint32_t)specs.count;
    for (uint32_t i = 0; i < device->spec_count; i++)
        if (device->specs[i].tensor.name)
            readers_add(&p->readers, (Reader){.scope = p->scope,
                                              .name = device->specs[i].tensor.name,
                                              .ref = &device->specs[i].tensor});
    return parser_expect(p, ')');
}

static bool parse_node_marks(Parser *p, Node *node) {
    VEC(DeviceConfig) devices = {0};
    while (parser_at_mark(p, MARK_DEVICE)) {
        DeviceConfig device = {0};
        if (!parse_device(p, &device)) return false;
        VEC_PUSH(p->scratch, &devices, device);
    }
    Extras extras = {0};
    if (!parser_extras(p, &extras)) return false;
    NodeExtra extra = {.overload = node_extra(node)->overload,
                       .doc = extras.doc,
                       .device_count = (uint32_t)devices.count,
                       .rest = extras.rest};
    if (devices.count)
        extra.devices = arena_copy(p->arena, devices.items, devices.count * sizeof *devices.items);
    node_set_extra(node, extra);
    node->metadata = extras.metadata;
    return true;
}

static bool parse_node(Parser *p) {
    Node *node = node_new(p->scope->graph, NULL, NULL, NULL);
    Names outputs = {0}, inputs = {0};
    if (parser_accept(p, '[') && (!parser_name(p, &node->name) || !parser_expect(p, ']')))
        return false;
    Token at = p->token;
    bool ok = parse_names(p, '=', &outputs) && set_outputs(p, node, &outputs, &at) &&
              parse_operator(p, node) && parser_attrs(p, node, &node->attrs) &&
              parser_expect(p, '(') && parse_names(p, ')', &inputs) && set_inputs(p, node, &inputs);
    if (!ok) return false;
    if (!node->attrs && !parser_attrs(p, node, &node->attrs)) return false;
    return parse_node_marks(p, node);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* @quant(tensor, "KEY": name, …) */
static bool parse_annotation(Parser *p, Graph *graph) {
    QuantAnnotation annotation = {0};
    VEC(Sym) keys = {0};
    VEC(NameRef) params = {0};
    VEC(Bytes) rests = {0};
    parser_advance(p);
    if (!parser_expect(p, '(') || !parser_ref(p, &annotation.tensor, &annotation.rest))
        return false;
    while (parser_accept(p, ',')) {
        Sym key;
        NameRef param = {0};
        Bytes rest = {0};
        if (!parser_string(p, &key) || !parser_expect(p, ':') || !parser_ref(p, &param, &rest))
            return false;
        VEC_PUSH(p->scratch, &keys, key);
        VEC_PUSH(p->scratch, &params, param);
        VEC_PUSH(p->scratch, &rests, rest);
    }
    annotation.param_count = (uint32_t)keys.count;
    annotation.param_keys = arena_copy(p->arena, keys.items, keys.count * sizeof(Sym));
    annotation.params = arena_copy(p->arena, params.items, params.count * sizeof(NameRef));
    annotation.param_rests = arena_copy(p->arena, rests.items, rests.count * sizeof(Bytes));
    VEC_PUSH(p->arena, &graph->annotations, annotation);
    return parser_expect(p, ')');
}

/* The annotations no longer move: their names can be noted. */
static void note_annotations(Parser *p, Graph *graph) {
    for (size_t i = 0; i < graph->annotations.count; i++) {
        QuantAnnotation *annotation = &graph->annotations.items[i];
        Reader reader = {.scope = p->scope, .ref = &annotation->tensor};
        reader.name = annotation->tensor.name;
        if (reader.name) readers_add(&p->readers, reader);
        for (uint32_t j = 0; j < annotation->param_count; j++) {
            reader.ref = &annotation->params[j];
            reader.name = annotation->params[j].name;
            if (reader.name) readers_add(&p->readers, reader);
        }
    }
}

bool parser_body(Parser *p, Graph *graph) {
    if (parser_accept(p, '<') && !parser_accept(p, '>')) {
        do {
            if (!parse_value_item(p)) return false;
        } while (parser_accept(p, ','));
        if (!parser_expect(p, '>')) return false;
    }
    if (!parser_expect(p, '{')) return false;
    while (!parser_accept(p, '}'))
        if (!parse_node(p)) return false;
    while (parser_at_mark(p, MARK_QUANT))
        if (!parse_annotation(p, graph)) return false;
    note_annotations(p, graph);
    Extras extras = {0};
    if (!parser_extras(p, &extras)) return false;
    graph->doc = extras.doc;
    graph->metadata = extras.metadata;
    graph->rest = extras.rest;
    return true;
}

bool parser_graph(Parser *p, Node *owner, Graph **result) {
    Scope *outer = p->scope;
    Graph *graph = graph_new(p->model, outer->graph);
    graph->owner = owner;
    if (!graph_check_nesting(graph, p->err)) return false;
    p->scope = scope_new(p->scratch, graph, outer);
    bool ok = parser_enter(p) && parser_name(p, &graph->name) && parser_signature(p) &&
              parser_body(p, graph);
    p->inner = p->scope;
    p->scope = outer;
    if (!ok) return false;
    parser_leave(p);
    *result = graph;
    return true;
}
