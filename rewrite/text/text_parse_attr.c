// SPDX-License-Identifier: Apache-2.0
/* Parses attributes. The type of a value is told by how it is written; a declared type (`x:
 * floats`) must agree, makes integers floats, and is needed for empty lists and absent values. */
#include <string.h>

#include "text_parser.h"

/* Each list type with its items' type. */
static const struct {
    AttrType list, item;
} list_types[] = {
    {ATTR_FLOATS, ATTR_FLOAT},   {ATTR_INTS, ATTR_INT},
    {ATTR_STRINGS, ATTR_STRING}, {ATTR_TENSORS, ATTR_TENSOR},
    {ATTR_GRAPHS, ATTR_GRAPH},   {ATTR_SPARSE_TENSORS, ATTR_SPARSE_TENSOR},
    {ATTR_TYPES, ATTR_TYPE},
};
enum { LIST_TYPES = sizeof list_types / sizeof *list_types };

static AttrType item_of(AttrType list) {
    for (int i = 0; i < LIST_TYPES; i++)
        if (list_types[i].list == list) return list_types[i].item;
    return ATTR_UNDEFINED;
}

static AttrType list_of(AttrType item) {
    for (int i = 0; i < LIST_TYPES; i++)
        if (list_types[i].item == item) return list_types[i].list;
    return ATTR_UNDEFINED;
}

/* A value that is being parsed: `expected` is its declared type, UNDEFINED where none. */
typedef struct Expected {
    Node *owner;
    bool declared;
    AttrType type;
} Expected;

static bool next_is(const Parser *p, int kind) {
    Lexer ahead = p->lexer;
    return lexer_next(&ahead).kind == kind;
}

static bool parse_number_item(Parser *p, AttrType expected, Attr *item) {
    Number number;
    if (parser_at(p, TOKEN_INT) && expected != ATTR_FLOAT) {
        item->type = ATTR_INT;
        return parser_int(p, &item->v.i);
    }
    item->type = ATTR_FLOAT;
    return parser_number(p, &number) && parser_float(p, &number, &item->v.f);
}

static bool parse_type_item(Parser *p, Attr *item) {
    const Type *type;
    Sym name = NULL;
    Tensor *tensor;
    if (!parser_type(p, &type)) return false;
    if (!parser_at_data(p)) {
        item->type = ATTR_TYPE;
        item->v.tp = type;
        return true;
    }
    if (parser_at_name(p) && !parser_name(p, &name)) return false;
    item->type = ATTR_TENSOR;
    if (!parser_tensor(p, type, name, &tensor)) return false;
    item->v.t = tensor;
    return true;
}

/* One value that is not a list. */
static bool parse_item(Parser *p, Node *owner, AttrType expected, Attr *item) {
    Token token = p->token;
    bool named = parser_at_name(p) || token.kind == '?';
    item->has_value = true;
    if (parser_accept_sparse(p)) {
        SparseTensor *sparse;
        item->type = ATTR_SPARSE_TENSOR;
        if (!parser_sparse(p, NULL, &sparse)) return false;
        item->v.sparse = sparse;
        return true;
    }
    if (token.kind == TOKEN_INT || token.kind == TOKEN_FLOAT ||
        (token.kind == TOKEN_NAME && text_is_float_word(token.text, token.length)))
        return parse_number_item(p, expected, item);
    bool type = parser_at_type(p) && !(token.kind == '?' && next_is(p, '('));
    if (type) return parse_type_item(p, item);
    if (token.kind == TOKEN_STRING && !next_is(p, '(')) {
        item->type = ATTR_STRING;
        item->v.s = (Bytes){arena_copy(p->arena, token.text, token.length), token.length};
        parser_advance(p);
        return true;
    }
    if (!named) return parser_fail(p, &token, "expected an attribute's value");
    item->type = ATTR_GRAPH;
    return parser_graph(p, owner, &item->v.g);
}

typedef VEC(Attr) Items;

/* An array of one member of the items' values. */
#define TAKE_ITEMS(Type, target, member)                                                           \
    do {                                                                                           \
        Type *array_ = ARENA_ARRAY(p->arena, Type, items->count);                                  \
        for (size_t i_ = 0; i_ < items->count; i_++) array_[i_] = items->items[i_].v.member;       \
        attr->v.target = array_;                                                                   \
    } while (0)

static void take_items(Parser *p, const Items *items, Attr *attr) {
    attr->count = (uint32_t)items->count;
    switch (attr->type) {
    case ATTR_FLOATS: TAKE_ITEMS(float, floats, f); break;
    case ATTR_INTS: TAKE_ITEMS(int64_t, ints, i); break;
    case ATTR_STRINGS: TAKE_ITEMS(Bytes, strings, s); break;
    case ATTR_TENSORS: TAKE_ITEMS(const Tensor *, tensors, t); break;
    case ATTR_GRAPHS: TAKE_ITEMS(Graph *, graphs, g); break;
    case ATTR_SPARSE_TENSORS: TAKE_ITEMS(const SparseTensor *, sparses, sparse); break;
    case ATTR_TYPES: TAKE_ITEMS(const Type *, types, tp); break;
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

static bool parse_list(Parser *p, const Expected *expected, Attr *attr) {
    Items items = {0};
    AttrType item_type = item_of(expected->type);
    Token open = p->token;
    parser_advance(p); /* [ */
    if (expected->declared && item_type == ATTR_UNDEFINED)
        return parser_fail(p, &open, "a list for an attribute whose type is not a list");
    if (!parser_accept(p, ']')) {
        do {
            Attr item = {0};
            Token at = p->token;
            if (!parse_item(p, expected->owner, item_type, &item)) return false;
            if (item_type == ATTR_UNDEFINED) item_type = item.type;
            if (item.type != item_type)
                return parser_fail(p, &at, "an item of a different type than the list");
            VEC_PUSH(p->scratch, &items, item);
        } while (parser_accept(p, ','));
        if (!parser_expect(p, ']')) return false;
    }
    if (item_type == ATTR_UNDEFINED)
        return parser_fail(p, &open, "an empty list needs its attribute's type");
    if (items.count > UINT32_MAX) return parser_fail(p, &open, "too many items");
    attr->type = list_of(item_type);
    take_items(p, &items, attr);
    return true;
}

/* A value into `attr`: its type, count and v. */
static bool parse_value(Parser *p, const Expected *expected, Attr *attr) {
    Token token = p->token;
    attr->type = expected->type;
    if (parser_at(p, '[')) return parse_list(p, expected, attr);
    if (parser_accept(p, '!'))
        return expected->declared || parser_fail(p, &token, "an absent value needs a type");
    if (!parse_item(p, expected->owner, expected->type, attr)) return false;
    if (expected->declared && attr->type != expected->type)
        return parser_fail(p, &token, "a value of a different type than the attribute");
    return true;
}

/* A word of text_attr_types, or ?N. */
static bool parse_attr_type(Parser *p, AttrType *type) {
    Token token = p->token;
    int64_t number = -1;
    if (parser_accept(p, '?')) {
        if (!parser_int(p, &number)) return false;
        if (number < INT32_MIN || number > INT32_MAX)
            return parser_fail(p, &token, "not the number of an attribute type");
    } else {
        if (token.kind == TOKEN_NAME)
            number = text_word_value(text_attr_types, token.text, token.length);
        if (number < 0) return parser_fail(p, &token, "not an attribute type");
        parser_advance(p);
    }
    *type = (AttrType)number;
    return true;
}

/* @name, with the value that may follow. */
static bool parse_reference(Parser *p, const Expected *expected, Attr *attr) {
    attr->type = expected->type;
    if (p->token.length > 0) {
        attr->ref = sym_intern(&p->model->syms, p->token.text, p->token.length);
        parser_advance(p);
    } else {
        Token at = p->token;
        parser_advance(p);
        if (!parser_name(p, &attr->ref)) return false;
        if (!attr->ref) return parser_fail(p, &at, "a reference without name");
    }
    return !parser_accept(p, '=') || parse_value(p, expected, attr);
}

static bool parse_further_values(Parser *p, Node *owner, Attr *attr) {
    for (Attr **tail = &attr->also; parser_accept(p, '|'); tail = &(*tail)->also) {
        Expected expected = {.owner = owner, .declared = true};
        Attr *part = ARENA_NEW(p->arena, Attr);
        if (!parse_attr_type(p, &expected.type) || !parser_expect(p, '=') ||
            !parse_value(p, &expected, part))
            return false;
        *tail = part;
    }
    return true;
}

bool parser_attr(Parser *p, Node *owner, Sym name, Attr **result) {
    Attr *attr = ARENA_NEW(p->arena, Attr);
    Expected expected = {.owner = owner, .declared = parser_accept(p, ':')};
    if (expected.declared && !parse_attr_type(p, &expected.type)) return false;
    if (!parser_expect(p, '=')) return false;
    bool reference = parser_at(p, TOKEN_MARK);
    bool ok = reference ? parse_reference(p, &expected, attr) : parse_value(p, &expected, attr);
    if (!ok || !parse_further_values(p, owner, attr)) return false;
    attr->name = name;
    attr->has_type = expected.declared || !reference || attr->type != ATTR_UNDEFINED;
    if (parser_at_mark(p, MARK_UNTYPED)) {
        attr->has_type = false;
        parser_advance(p);
    }
    if (parser_at_mark(p, MARK_ATTR_DOC) && !parser_mark_string(p, &attr->doc)) return false;
    if (parser_at_mark(p, MARK_ATTR_UNKNOWN) && !parser_mark_hex(p, &attr->rest)) return false;
    *result = attr;
    return true;
}

bool parser_attrs(Parser *p, Node *owner, Attr **attrs) {
    Attr **tail = attrs;
    if (!parser_accept(p, '<')) return true;
    do {
        Sym name;
        if (!parser_name(p, &name) || !parser_attr(p, owner, name, tail)) return false;
        tail = &(*tail)->next;
    } while (parser_accept(p, ','));
    return parser_expect(p, '>');
}
