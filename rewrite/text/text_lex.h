// SPDX-License-Identifier: Apache-2.0
/* Tokens of the text form.
 *
 * The lexer looks at each byte of the text once and never beyond its end; any bytes are allowed and
 * what is not a token becomes TOKEN_BAD with a reason. Punctuation is its own token kind.
 */
#ifndef DEMI_TEXT_LEX_H
#define DEMI_TEXT_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

/* A token's kind is one of these or the character itself, for punctuation. */
typedef enum TokenKind {
    TOKEN_END = 256,
    TOKEN_NAME,   /* identifier */
    TOKEN_INT,    /* -?[0-9]+, or 0x and hexadecimal digits */
    TOKEN_FLOAT,  /* -?[0-9]+ with point or exponent, -inf, -nan; not the unsigned words */
    TOKEN_STRING, /* "…"; text is what it stands for */
    TOKEN_MARK,   /* @word; text is the word, empty where @ comes before a string */
    TOKEN_ARROW,  /* => */
    TOKEN_BAD     /* text is what is wrong, NUL-terminated */
} TokenKind;

typedef struct Token {
    int kind;
    const char *text;
    size_t length;
    bool value;            /* INT, FLOAT: followed by v, which is not in text */
    uint32_t line, column; /* from 1; columns count bytes */
} Token;

typedef struct Lexer {
    const char *at, *end, *line_start;
    uint32_t line;
    Arena *scratch; /* for strings with escapes */
} Lexer;

void lexer_init(Lexer *lexer, const char *text, size_t size, Arena *scratch);

/* The next token; TOKEN_END again and again at the end. */
Token lexer_next(Lexer *lexer);

#endif
