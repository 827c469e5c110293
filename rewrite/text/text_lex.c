// SPDX-License-Identifier: Apache-2.0
/* Lexer of the text form; see text_lex.h. Strings take the escapes of JSON and \xNN; a backslash
 * before any other character stands for that character, as ONNX's own syntax has it. */
#include "text_lex.h"

#include <string.h>

void lexer_init(Lexer *lexer, const char *text, size_t size, Arena *scratch) {
    *lexer =
        (Lexer){.at = text, .end = text + size, .line_start = text, .line = 1, .scratch = scratch};
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool at_text(const Lexer *lexer, const char *text) {
    size_t length = strlen(text);
    return (size_t)(lexer->end - lexer->at) >= length && !memcmp(lexer->at, text, length);
}

static void newline(Lexer *lexer, const char *newline_at) {
    lexer->line++;
    lexer->line_start = newline_at + 1;
}

static void skip_space(Lexer *lexer) {
    for (; lexer->at < lexer->end; lexer->at++) {
        char c = *lexer->at;
        if (c == '\n') {
            newline(lexer, lexer->at);
        } else if (c == '#') {
            const char *end = memchr(lexer->at, '\n', (size_t)(lexer->end - lexer->at));
            if (!end) end = lexer->end;
            lexer->at = end - 1; /* the newline is met next */
        } else if (c != ' ' && c != '\t' && c != '\r' && c != '\v' && c != '\f') {
            return;
        }
    }
}

static void bad(Token *token, const char *what) {
    token->kind = TOKEN_BAD;
    token->text = what;
    token->length = strlen(what);
}

static void lex_name(Lexer *lexer, Token *token) {
    token->text = lexer->at;
    while (lexer->at < lexer->end && (is_letter(*lexer->at) || is_digit(*lexer->at))) lexer->at++;
    token->length = (size_t)(lexer->at - token->text);
}

static void skip_digits(Lexer *lexer) {
    while (lexer->at < lexer->end && is_digit(*lexer->at)) lexer->at++;
}

static void lex_number(Lexer *lexer, Token *token) {
    const char *start = lexer->at;
    token->kind = TOKEN_INT;
    if (at_text(lexer, "0x")) {
        lexer->at += 2;
        while (lexer->at < lexer->end && hex_digit(*lexer->at) >= 0) lexer->at++;
        if (lexer->at == start + 2) return bad(token, "0x without digits");
    } else {
        if (*lexer->at == '-') lexer->at++;
        skip_digits(lexer);
        if (lexer->at < lexer->end && *lexer->at == '.') {
            token->kind = TOKEN_FLOAT;
            lexer->at++;
            skip_digits(lexer);
        }
        if (lexer->at < lexer->end && (*lexer->at | 0x20) == 'e') {
            token->kind = TOKEN_FLOAT;
            lexer->at++;
            if (lexer->at < lexer->end && (*lexer->at == '+' || *lexer->at == '-')) lexer->at++;
            if (lexer->at >= lexer->end || !is_digit(*lexer->at))
                return bad(token, "exponent without digits");
            skip_digits(lexer);
        }
    }
    token->text = start;
    token->length = (size_t)(lexer->at - start);
    if (lexer->at < lexer->end && *lexer->at == 'v') {
        token->value = true;
        lexer->at++;
    }
    if (lexer->at < lexer->end && (is_letter(*lexer->at) || is_digit(*lexer->at)))
        bad(token, "number runs into a name");
}

/* '-' before a digit or a word. */
static void lex_minus(Lexer *lexer, Token *token) {
    const char *start = lexer->at;
    if (lexer->end - start > 1 && is_digit(start[1])) {
        lex_number(lexer, token);
    } else if (lexer->end - start > 1 && is_letter(start[1])) {
        lexer->at++;
        lex_name(lexer, token);
        token->kind = TOKEN_FLOAT;
        token->text = start;
        token->length++;
        if (token->text[token->length - 1] == 'v') {
            token->value = true;
            token->length--;
        }
    } else {
        bad(token, "'-' without a number");
    }
}

/* The character of \uXXXX as UTF-8; `at` is at the first digit. NULL where it is none. */
static char *put_unicode(Lexer *lexer, const char **at, char *to) {
    unsigned code = 0;
    for (int i = 0; i < 4; i++, (*at)++) {
        int digit = *at < lexer->end ? hex_digit(**at) : -1;
        if (digit < 0) return NULL;
        code = code * 16 + (unsigned)digit;
    }
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* What the escape at `at` (after its backslash) stands for; never longer than the escape. NULL
 * where it is malformed. */
static char *put_escape(Lexer *lexer, const char **at, char *to) {
    static const char names[] = "bfnrt", codes[] = "\b\f\n\r\t";
    char c = *(*at)++;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        *to++ = codes[name - names];
    } else if (c == 'x') {
        int high = *at < lexer->end ? hex_digit((*at)[0]) : -1;
        int low = lexer->end - *at > 1 ? hex_digit((*at)[1]) : -1;
        if (high < 0 || low < 0) return NULL;
        *at += 2;
        *to++ = (char)(high * 16 + low);
    } else if (c == 'u') {
        return put_unicode(lexer, at, to);
    } else {
        *to++ = c;
    }
    return to;
}

static void unescape(Lexer *lexer, Token *token) {
    char *text = arena_alloc(lexer->scratch, token->length + 1), *to = text;
    const char *at = token->text, *end = token->text + token->length;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at++;
        to = put_escape(lexer, &at, to);
        if (!to || at > end) return bad(token, "malformed escape in a string");
    }
    token->text = text;
    token->length = (size_t)(to - text);
}

static void lex_string(Lexer *lexer, Token *token) {
    bool escapes = false;
    const char *at = lexer->at + 1;
    for (; at < lexer->end && *at != '"'; at++) {
        if (*at == '\n') newline(lexer, at);
        if (*at != '\\') continue;
        escapes = true;
        if (++at < lexer->end && *at == '\n') newline(lexer, at);
    }
    if (at >= lexer->end) {
        lexer->at = lexer->end;
        return bad(token, "string without an end");
    }
    token->kind = TOKEN_STRING;
    token->text = lexer->at + 1;
    token->length = (size_t)(at - token->text);
    lexer->at = at + 1;
    if (escapes) unescape(lexer, token);
}

static void lex_mark(Lexer *lexer, Token *token) {
    lexer->at++;
    skip_space(lexer);
    token->kind = TOKEN_MARK;
    lex_name(lexer, token);
}

Token lexer_next(Lexer *lexer) {
    skip_space(lexer);
    Token token = {.kind = TOKEN_END,
                   .text = "",
                   .line = lexer->line,
                   .column = (uint32_t)(lexer->at - lexer->line_start) + 1};
    if (lexer->at >= lexer->end) return token;
    char c = *lexer->at;
    if (is_letter(c)) {
        token.kind = TOKEN_NAME;
        lex_name(lexer, &token);
    } else if (is_digit(c)) {
        lex_number(lexer, &token);
    } else if (c == '-') {
        lex_minus(lexer, &token);
    } else if (c == '"') {
        lex_string(lexer, &token);
    } else if (c == '@') {
        lex_mark(lexer, &token);
    } else if (at_text(lexer, "=>")) {
        token.kind = TOKEN_ARROW;
        lexer->at += 2;
    } else if (at_text(lexer, "...") || at_text(lexer, "\xe2\x80\xa6")) {
        bad(&token, "this text omits a tensor's data; print the full text");
    } else if (strchr("<>(){}[],.:=?!|", c) && c) {
        token.kind = c;
        token.text = lexer->at++;
        token.length = 1;
    } else {
        bad(&token, "unexpected character");
    }
    return token;
}
