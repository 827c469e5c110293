// SPDX-License-Identifier: Apache-2.0
/* What the text parser's files share: its state, and the small pieces of the grammar.
 *
 * A function that parses something starts at the current token and leaves the token after it
 * current. False means that the error is set, with the line and column of the token at fault.
 */
#ifndef DEMI_TEXT_PARSER_H
#define DEMI_TEXT_PARSER_H

#include "text_lex.h"
#include "text_scope.h"
#include "text_words.h"

typedef struct Parser {
    Lexer lexer;
    Token token; /* the current one */
    Model *model;
    Arena *arena;   /* the model's */
    Arena *scratch; /* freed when parsing ends */
    Err *err;
    unsigned depth; /* of graphs and types around the current token */
    Scope *scope;   /* of the graph being parsed */
    Scope *inner;   /* of the nested graph parsed last */
    Readers readers;
} Parser;

enum { PARSER_DEPTH = 100 };

/* ERR_MODEL at that token; what the lexer found wrong with it comes first. Returns false. */
bool parser_fail(Parser *p, const Token *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void parser_advance(Parser *p);
/* Takes the current token where it is of that kind. */
bool parser_accept(Parser *p, int kind);
bool parser_expect(Parser *p, int kind);
bool parser_enter(Parser *p); /* one level deeper; parser_leave ends it */
void parser_leave(Parser *p);

bool parser_at(const Parser *p, int kind);
bool parser_at_mark(const Parser *p, TextMark mark);
/* True at a name or a string. */
bool parser_at_name(const Parser *p);

/* A name, a string, or ? for NULL. */
bool parser_name(Parser *p, Sym *name);
/* A string, or ? for NULL. */
bool parser_string(Parser *p, Sym *text);
bool parser_int(Parser *p, int64_t *value);
/* A string of hexadecimal digits. */
bool parser_hex(Parser *p, Bytes *bytes);
/* Takes the current mark and its ( hex ) or ( string ). */
bool parser_mark_hex(Parser *p, Bytes *bytes);
bool parser_mark_string(Parser *p, Sym *text);
/* [ "key": "value", … ] */
bool parser_entries(Parser *p, KeyValue **entries);

typedef struct Extras {
    Sym doc;
    KeyValue *metadata;
    Bytes rest;
} Extras;

/* @doc, @meta and @unknown in any order; stops at any other mark. */
bool parser_extras(Parser *p, Extras *extras);

/* The integer of an INT token as sign and size. */
bool token_integer(const Token *token, bool *negative, uint64_t *size);

/* ---- text_parse_data.c ----------------------------------------------------------------------- */

/* True where the current token begins a type. */
bool parser_at_type(const Parser *p);
bool parser_type(Parser *p, const Type **type);
/* True where the current token, which follows a type, begins or precedes a tensor's data. */
bool parser_at_data(const Parser *p);
/* The data and extras of a tensor whose type stands before; an optional = first. */
bool parser_tensor(Parser *p, const Type *type, Sym name, Tensor **tensor);
/* A sparse tensor; sets *name where name is not NULL, and must find one then. */
bool parser_sparse(Parser *p, Sym *name, SparseTensor **sparse);
/* At "sparse_tensor" that begins no type. Takes the word where it says true. */
bool parser_accept_sparse(Parser *p);

/* A single number: -1, 2.5, inf, nan(0x…), 1.5v; bits get a nan's bits where they were given. */
typedef struct Number {
    Token token;
    bool has_bits;
    uint64_t bits;
} Number;
bool parser_number(Parser *p, Number *number);
bool parser_float(Parser *p, const Number *number, float *value);

/* ---- text_parse_attr.c ----------------------------------------------------------------------- */

/* < attr, … > where there is one. */
bool parser_attrs(Parser *p, Node *owner, Attr **attrs);
/* What follows an attribute's name. */
bool parser_attr(Parser *p, Node *owner, Sym name, Attr **attr);

/* ---- text_parse_graph.c ---------------------------------------------------------------------- */

/* A whole graph; owner is the node that holds it. */
bool parser_graph(Parser *p, Node *owner, Graph **graph);
/* The same in two steps, into the current scope's graph: inputs and outputs, then the remainder. */
bool parser_signature(Parser *p);
bool parser_body(Parser *p, Graph *graph);

#endif
