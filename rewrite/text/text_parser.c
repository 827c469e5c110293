// SPDX-License-Identifier: Apache-2.0
/* The small pieces of the text form's grammar; see text_parser.h. */
#include "text_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool parser_fail(Parser *p, const Token *at, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    err_set(p->err, ERR_MODEL, "%s", at->kind == TOKEN_BAD ? at->text : what);
    err_operand(p->err, "line %u, column %u", (unsigned)at->line, (unsigned)at->column);
    return false;
}

void parser_advance(Parser *p) {
    p->token = lexer_next(&p->lexer);
}

bool parser_at(const Parser *p, int kind) {
    return p->token.kind == kind;
}

bool parser_accept(Parser *p, int kind) {
    if (p->token.kind != kind) return false;
    parser_advance(p);
    return true;
}

static const char *kind_name(int kind) {
    switch (kind) {
    case TOKEN_END: return "the end of the text";
    case TOKEN_NAME: return "a name";
    case TOKEN_INT: return "an integer";
    case TOKEN_FLOAT: return "a number";
    case TOKEN_STRING: return "a string";
    case TOKEN_MARK: return "an @word";
    case TOKEN_ARROW: return "'=>'";
    case TOKEN_BAD: return "no token";
    }
    return NULL;
}

bool parser_expect(Parser *p, int kind) {
    if (parser_accept(p, kind)) return true;
    const char *wanted = kind_name(kind), *found = kind_name(p->token.kind);
    char wanted_char[] = {'\'', (char)kind, '\'', '\0'};
    char found_char[] = {'\'', (char)p->token.kind, '\'', '\0'};
    return parser_fail(p, &p->token, "expected %s, found %s", wanted ? wanted : wanted_char,
                       found ? found : found_char);
}

bool parser_enter(Parser *p) {
    if (p->depth >= PARSER_DEPTH)
        return parser_fail(p, &p->token, "nested more than %d deep", PARSER_DEPTH);
    p->depth++;
    return true;
}

void parser_leave(Parser *p) {
    p->depth--;
}

bool parser_at_mark(const Parser *p, TextMark mark) {
    return p->token.kind == TOKEN_MARK &&
           text_word_value(text_marks, p->token.text, p->token.length) == (int)mark;
}

bool parser_at_name(const Parser *p) {
    return p->token.kind == TOKEN_NAME || p->token.kind == TOKEN_STRING;
}

bool parser_name(Parser *p, Sym *name) {
    if (p->token.kind != TOKEN_NAME) return parser_string(p, name);
    *name = sym_intern(&p->model->syms, p->token.text, p->token.length);
    parser_advance(p);
    return true;
}

bool parser_string(Parser *p, Sym *text) {
    *text = NULL;
    if (parser_accept(p, '?')) return true;
    Token token = p->token;
    if (!parser_expect(p, TOKEN_STRING)) return false;
    *text = sym_intern(&p->model->syms, token.text, token.length);
    return true;
}

static bool decimal_integer(const char *text, size_t length, uint64_t *size) {
    *size = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (*size > (UINT64_MAX - digit) / 10) return false;
        *size = *size * 10 + digit;
    }
    return true;
}

static bool hex_integer(const char *text, size_t length, uint64_t *size) {
    *size = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned digit =
            text[i] <= '9' ? (unsigned)(text[i] - '0') : (unsigned)((text[i] | 0x20) - 'a' + 10);
        if (*size >> 60) return false;
        *size = *size << 4 | digit;
    }
    return true;
}

bool token_integer(const Token *token, bool *negative, uint64_t *size) {
    if (token->kind != TOKEN_INT) return false;
    *negative = token->text[0] == '-';
    size_t skip = *negative;
    if (token->length > 2 && token->text[1] == 'x')
        return hex_integer(token->text + 2, token->length - 2, size);
    return decimal_integer(token->text + skip, token->length - skip, size);
}

bool parser_int(Parser *p, int64_t *value) {
    Token token = p->token;
    if (!parser_expect(p, TOKEN_INT)) return false;
    bool negative;
    uint64_t size;
    bool ok = token_integer(&token, &negative, &size) && !token.value &&
              size <= (uint64_t)INT64_MAX + negative;
    if (!ok) return parser_fail(p, &token, "not an integer of 64 bits");
    *value = (int64_t)(negative ? 0 - size : size);
    return true;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool parser_hex(Parser *p, Bytes *bytes) {
    Token token = p->token;
    if (!parser_expect(p, TOKEN_STRING)) return false;
    unsigned char *data = arena_alloc(p->arena, token.length / 2);
    bool ok = token.length % 2 == 0;
    for (size_t i = 0; ok && i < token.length; i += 2) {
        int high = hex_digit(token.text[i]), low = hex_digit(token.text[i + 1]);
        ok = high >= 0 && low >= 0;
        if (ok) data[i / 2] = (unsigned char)(high * 16 + low);
    }
    if (!ok) return parser_fail(p, &token, "not pairs of hexadecimal digits");
    *bytes = (Bytes){data, token.length / 2};
    return true;
}

bool parser_mark_hex(Parser *p, Bytes *bytes) {
    parser_advance(p);
    return parser_expect(p, '(') && parser_hex(p, bytes) && parser_expect(p, ')');
}

bool parser_mark_string(Parser *p, Sym *text) {
    parser_advance(p);
    return parser_expect(p, '(') && parser_string(p, text) && parser_expect(p, ')');
}

bool parser_entries(Parser *p, KeyValue **entries) {
    KeyValue **tail = entries;
    while (*tail) tail = &(*tail)->next;
    if (!parser_expect(p, '[')) return false;
    if (parser_accept(p, ']')) return true;
    do {
        KeyValue *entry = ARENA_NEW(p->arena, KeyValue);
        if (!parser_string(p, &entry->key) || !parser_expect(p, ':') ||
            !parser_string(p, &entry->value))
            return false;
        if (parser_at_mark(p, MARK_UNKNOWN) && !parser_mark_hex(p, &entry->rest)) return false;
        *tail = entry;
        tail = &entry->next;
    } while (parser_accept(p, ','));
    return parser_expect(p, ']');
}

bool parser_extras(Parser *p, Extras *extras) {
    for (;;) {
        bool ok = true;
        if (parser_at_mark(p, MARK_DOC)) {
            ok = parser_mark_string(p, &extras->doc);
        } else if (parser_at_mark(p, MARK_META)) {
            parser_advance(p);
            ok = parser_entries(p, &extras->metadata);
        } else if (parser_at_mark(p, MARK_UNKNOWN)) {
            ok = parser_mark_hex(p, &extras->rest);
        } else {
            return true;
        }
        if (!ok) return false;
    }
}
