// SPDX-License-Identifier: Apache-2.0
/* Parses models from text: headers, the main graph, functions, training. See text_print.c for the
 * grammar. Any bytes are allowed; what is wrong is said with line and column. Time is linear in the
 * text, but for names, which cost a hash look-up per enclosing graph. */
#include "text.h"

#include "text_parser.h"
#include "value_names.h"

/* ---- headers --------------------------------------------------------------------------------- */

typedef struct Header {
    uint32_t seen; /* bit per TextField */
    int64_t ir_version, model_version;
    Sym strings[FIELD_UNKNOWN];
    OpsetImports opsets;
    KeyValue *metadata;
    Bytes rest;
} Header;

#define BIT(field) (1u << (field))

static bool parse_opsets(Parser *p, OpsetImports *opsets) {
    if (!parser_expect(p, '[')) return false;
    if (parser_accept(p, ']')) return true;
    do {
        OpsetImport import = {0};
        if (opsets->count == OPSET_IMPORTS_MAX)
            return parser_fail(p, &p->token, "more than %d opset imports", OPSET_IMPORTS_MAX);
        if (!parser_string(p, &import.domain) || !parser_expect(p, ':')) return false;
        import.has_version = !parser_accept(p, '?');
        if (import.has_version && !parser_int(p, &import.version)) return false;
        if (parser_at_mark(p, MARK_UNKNOWN) && !parser_mark_hex(p, &import.rest)) return false;
        VEC_PUSH(p->arena, opsets, import);
    } while (parser_accept(p, ','));
    return parser_expect(p, ']');
}

static bool parse_field(Parser *p, TextField field, Header *header) {
    switch (field) {
    case FIELD_IR_VERSION: return parser_int(p, &header->ir_version);
    case FIELD_MODEL_VERSION: return parser_int(p, &header->model_version);
    case FIELD_OPSET_IMPORT: return parse_opsets(p, &header->opsets);
    case FIELD_METADATA: return parser_entries(p, &header->metadata);
    case FIELD_UNKNOWN: return parser_hex(p, &header->rest);
    case FIELD_PRODUCER_NAME:
    case FIELD_PRODUCER_VERSION:
    case FIELD_DOMAIN:
    case FIELD_DOC:
    case FIELD_OVERLOAD: return parser_string(p, &header->strings[field]);
    case FIELD_INITIALIZATION:
    case FIELD_ALGORITHM:
    case FIELD_INITIALIZATION_BINDING:
    case FIELD_UPDATE_BINDING: break;
    }
    return false;
}

/* The name of a field that is among `allowed` and not among `*seen`, with its colon. */
static bool parse_field_name(Parser *p, uint32_t allowed, uint32_t *seen, TextField *field) {
    Token at = p->token;
    int number = at.kind == TOKEN_NAME ? text_word_value(text_fields, at.text, at.length) : -1;
    if (number < 0 || !(allowed & BIT(number))) return parser_fail(p, &at, "not a field here");
    if (*seen & BIT(number)) return parser_fail(p, &at, "a field that was given before");
    *seen |= BIT(number);
    *field = (TextField)number;
    parser_advance(p);
    return parser_expect(p, ':');
}

/* < field: value, … > where there is one. */
static bool parse_header(Parser *p, uint32_t allowed, Header *header) {
    if (!parser_accept(p, '<') || parser_accept(p, '>')) return true;
    do {
        TextField field;
        if (!parse_field_name(p, allowed, &header->seen, &field) || !parse_field(p, field, header))
            return false;
    } while (parser_accept(p, ','));
    return parser_expect(p, '>');
}

static bool parse_model_header(Parser *p, Model *model) {
    Header header = {0};
    uint32_t allowed = BIT(FIELD_IR_VERSION) | BIT(FIELD_OPSET_IMPORT) | BIT(FIELD_PRODUCER_NAME) |
                       BIT(FIELD_PRODUCER_VERSION) | BIT(FIELD_DOMAIN) | BIT(FIELD_MODEL_VERSION) |
                       BIT(FIELD_DOC) | BIT(FIELD_METADATA) | BIT(FIELD_UNKNOWN);
    if (!parse_header(p, allowed, &header)) return false;
    model->ir_version = header.ir_version;
    model->has_ir_version = header.seen & BIT(FIELD_IR_VERSION);
    model->model_version = header.model_version;
    model->has_model_version = header.seen & BIT(FIELD_MODEL_VERSION);
    model->opsets = header.opsets;
    model->producer_name = header.strings[FIELD_PRODUCER_NAME];
    model->producer_version = header.strings[FIELD_PRODUCER_VERSION];
    model->domain = header.strings[FIELD_DOMAIN];
    model->doc = header.strings[FIELD_DOC];
    model->metadata = header.metadata;
    model->rest = header.rest;
    return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* <name, name: type = default, …> where there is one. */
static bool parse_parameters(Parser *p, Function *function) {
    Attr **tail = &function->attribute_protos;
    if (!parser_accept(p, '<') || parser_accept(p, '>')) return true;
    do {
        Sym name;
        if (!parser_name(p, &name)) return false;
        if (parser_at(p, ':') || parser_at(p, '=')) {
            if (!parser_attr(p, NULL, name, tail)) return false;
            tail = &(*tail)->next;
        } else {
            VEC_PUSH(p->arena, &function->attributes, name);
        }
    } while (parser_accept(p, ','));
    return parser_expect(p, '>');
}

static bool parse_function_header(Parser *p, Function *function) {
    Header header = {0};
    uint32_t allowed = BIT(FIELD_OPSET_IMPORT) | BIT(FIELD_DOMAIN) | BIT(FIELD_OVERLOAD) |
                       BIT(FIELD_DOC) | BIT(FIELD_METADATA) | BIT(FIELD_UNKNOWN);
    if (!parse_header(p, allowed, &header)) return false;
    function->opsets = header.opsets;
    function->domain = header.strings[FIELD_DOMAIN];
    function->overload = header.strings[FIELD_OVERLOAD];
    function->doc = header.strings[FIELD_DOC];
    function->metadata = header.metadata;
    function->rest = header.rest;
    return true;
}

static bool parse_function(Parser *p) {
    Function *function = ARENA_NEW(p->arena, Function);
    Graph *body = graph_new(p->model, NULL);
    function->body = body;
    body->function = function;
    body->opsets = &function->opsets;
    p->scope = scope_new(p->scratch, body, NULL);
    bool ok = parse_function_header(p, function) && parser_name(p, &function->name) &&
              parse_parameters(p, function) && parser_signature(p) && parser_body(p, body);
    if (!ok) return false;
    readers_resolve(&p->readers);
    model_add_function(p->model, function);
    return true;
}

/* ---- training -------------------------------------------------------------------------------- */

typedef VEC(TrainingBinding) Bindings;
#define MOVE_VEC(to, from)                                                                         \
    ((to).items = (from).items, (to).count = (from).count, (to).capacity = (from).capacity)

/* Where the two sides of a binding look for their names; NULL: nowhere. */
typedef struct BindingScopes {
    Scope *keys, *values;
} BindingScopes;

static void take_bindings(Parser *p, const KeyValue *entries, BindingScopes scopes,
                          Bindings *bindings) {
    for (const KeyValue *entry = entries; entry; entry = entry->next) {
        TrainingBinding binding = {
            .key = {.name = entry->key}, .value = {.name = entry->value}, .rest = entry->rest};
        VEC_PUSH(p->arena, bindings, binding);
    }
    for (size_t i = 0; i < bindings->count; i++) {
        TrainingBinding *binding = &bindings->items[i];
        scope_refer(scopes.keys, &binding->key);
        scope_refer(scopes.values, &binding->value);
    }
}

static bool parse_training(Parser *p) {
    TrainingInfo *info = ARENA_NEW(p->arena, TrainingInfo);
    uint32_t seen = 0, allowed = BIT(FIELD_INITIALIZATION) | BIT(FIELD_ALGORITHM) |
                                 BIT(FIELD_INITIALIZATION_BINDING) | BIT(FIELD_UPDATE_BINDING) |
                                 BIT(FIELD_UNKNOWN);
    Scope *initialization = NULL, *algorithm = NULL;
    KeyValue *initial = NULL, *update = NULL;
    parser_advance(p);
    if (!parser_expect(p, '<')) return false;
    bool empty = parser_accept(p, '>'), ok = true;
    while (!empty) {
        TextField field;
        if (!parse_field_name(p, allowed, &seen, &field)) return false;
        if (field == FIELD_INITIALIZATION) {
            ok = parser_graph(p, NULL, &info->initialization);
            initialization = p->inner;
        } else if (field == FIELD_ALGORITHM) {
            ok = parser_graph(p, NULL, &info->algorithm);
            algorithm = p->inner;
        } else if (field == FIELD_UNKNOWN) {
            ok = parser_hex(p, &info->rest);
        } else {
            ok = parser_entries(p, field == FIELD_UPDATE_BINDING ? &update : &initial);
        }
        if (!ok) return false;
        if (!parser_accept(p, ',')) break;
    }
    if (!empty && !parser_expect(p, '>')) return false;
    Bindings initial_bindings = {0}, update_bindings = {0};
    readers_resolve(&p->readers);
    Scope *keys = algorithm ? algorithm : p->scope;
    take_bindings(p, initial, (BindingScopes){keys, initialization}, &initial_bindings);
    take_bindings(p, update, (BindingScopes){keys, algorithm}, &update_bindings);
    MOVE_VEC(info->initialization_bindings, initial_bindings);
    MOVE_VEC(info->update_bindings, update_bindings);
    VEC_PUSH(p->arena, &p->model->training, info);
    return true;
}

/* ---- models ---------------------------------------------------------------------------------- */

static bool parse_model(Parser *p) {
    Model *model = p->model;
    Scope *main_scope = scope_new(p->scratch, model->graph, NULL);
    p->scope = main_scope;
    bool ok = parse_model_header(p, model) && parser_name(p, &model->graph->name) &&
              parser_signature(p) && parser_body(p, model->graph);
    if (!ok) return false;
    readers_resolve(&p->readers);
    while (ok && !parser_at(p, TOKEN_END) && !parser_at_mark(p, MARK_TRAINING))
        ok = parse_function(p);
    p->scope = main_scope;
    while (ok && parser_at_mark(p, MARK_TRAINING)) ok = parse_training(p);
    return ok && parser_expect(p, TOKEN_END);
}

Model *text_parse_model(const char *text, size_t size, MemTrap *trap, Err *err) {
    /* The trap is ours while we parse: a model that is not finished has no other owner. */
    MemTrap inner;
    Arena scratch;
    Model *volatile unfinished = NULL;
    arena_init(&scratch, &inner);
    if (setjmp(inner.env)) {
        arena_free(&scratch);
        model_free(unfinished);
        longjmp(trap->env, 1);
    }
    Model *model = unfinished = model_new(&inner);
    Parser p = {.model = model,
                .arena = &model->arena,
                .scratch = &scratch,
                .err = err,
                .readers = {.scratch = &scratch}};
    lexer_init(&p.lexer, text, size, &scratch);
    parser_advance(&p);
    bool ok = parse_model(&p);
    if (ok) model_refer_named(model, &scratch);
    arena_free(&scratch);
    if (!ok) {
        model_free(model);
        return NULL;
    }
    model->arena.trap = trap;
    model->edits = 0;
    return model;
}
