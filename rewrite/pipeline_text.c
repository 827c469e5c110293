// SPDX-License-Identifier: Apache-2.0
/* Pipelines as text; the grammar is in pass.h.
 *
 * Parsing writes option values straight into the pass's options struct through its option table, so
 * that a pass declares each option once and never parses anything itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pass.h"
#include "escaped.h"
#include "text_distance.h"

typedef struct Parser {
    const PassTable *table;
    Arena *arena;
    const char *text, *at;
    Err *err;
} Parser;

typedef VEC(char) CharVec;

static bool fail(Parser *p, const char *what) {
    err_set(p->err, ERR_USAGE, "pipeline: %s", what);
    err_operand(p->err, "character %zu", (size_t)(p->at - p->text) + 1);
    return false;
}

static void skip_spaces(Parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
}

static bool accept(Parser *p, char c) {
    skip_spaces(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static bool is_word_char(char c) {
    return c && !strchr(",{}[]=\" \t\r\n", c);
}

static const char *parse_word(Parser *p) {
    skip_spaces(p);
    const char *start = p->at;
    while (is_word_char(*p->at)) p->at++;
    return arena_copy(p->arena, start, (size_t)(p->at - start));
}

static void push_utf8(Parser *p, CharVec *out, unsigned code) {
    if (code >= 0x10000) {
        VEC_PUSH(p->arena, out, (char)(0xf0 | code >> 18));
        VEC_PUSH(p->arena, out, (char)(0x80 | (code >> 12 & 0x3f)));
        VEC_PUSH(p->arena, out, (char)(0x80 | (code >> 6 & 0x3f)));
    } else if (code >= 0x800) {
        VEC_PUSH(p->arena, out, (char)(0xe0 | code >> 12));
        VEC_PUSH(p->arena, out, (char)(0x80 | (code >> 6 & 0x3f)));
    } else if (code >= 0x80) {
        VEC_PUSH(p->arena, out, (char)(0xc0 | code >> 6));
    }
    VEC_PUSH(p->arena, out, (char)(code >= 0x80 ? 0x80 | (code & 0x3f) : code));
}

static bool parse_unit(Parser *p, unsigned *code) {
    *code = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        const char *digit = *p->at ? strchr("0123456789abcdefABCDEF", *p->at) : NULL;
        if (!digit) return fail(p, "\\u needs four hexadecimal digits");
        unsigned value = (unsigned)(digit - "0123456789abcdefABCDEF");
        *code = *code * 16 + (value > 15 ? value - 6 : value);
    }
    return true;
}

/* Beyond U+FFFF a character has two, as in JSON. */
static bool parse_unicode(Parser *p, CharVec *out) {
    unsigned code, low = 0;
    if (!parse_unit(p, &code)) return false;
    if (code >= 0xd800 && code < 0xe000) {
        bool two = code < 0xdc00 && p->at[0] == '\\' && p->at[1] == 'u';
        if (two) {
            p->at += 2;
            if (!parse_unit(p, &low)) return false;
        }
        if (low < 0xdc00 || low > 0xdfff) return fail(p, "a string has an incomplete character");
        code = ((code - 0xd7c0) << 10) + (low - 0xdc00);
    }
    if (code == 0) return fail(p, "a string cannot contain NUL");
    push_utf8(p, out, code);
    return true;
}

static bool parse_escape(Parser *p, CharVec *out) {
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    char c = *p->at ? *p->at++ : '\0';
    if (c == 'u') return parse_unicode(p, out);
    const char *name = c ? strchr(names, c) : NULL;
    if (!name) return fail(p, "unknown escape in a string");
    VEC_PUSH(p->arena, out, bytes[name - names]);
    return true;
}

/* The opening quote has been read. */
static bool parse_string(Parser *p, const char **text) {
    CharVec out = {0};
    while (*p->at != '"') {
        if (!*p->at) return fail(p, "a string is not closed");
        if (*p->at != '\\') {
            VEC_PUSH(p->arena, &out, *p->at++);
            continue;
        }
        p->at++;
        if (!parse_escape(p, &out)) return false;
    }
    p->at++;
    *text = arena_copy(p->arena, out.items, out.count);
    return true;
}

/* A word or a string. */
static bool parse_scalar(Parser *p, const char **text) {
    if (accept(p, '"')) return parse_string(p, text);
    *text = parse_word(p);
    return (*text)[0] != '\0' || fail(p, "a value is missing");
}

static bool parse_list(Parser *p, PassStrings *list) {
    VEC(const char *) items = {0};
    if (!accept(p, '[')) { /* one value is a list of one */
        const char *item;
        if (!parse_scalar(p, &item)) return false;
        VEC_PUSH(p->arena, &items, item);
    } else if (!accept(p, ']')) {
        do {
            const char *item;
            if (!parse_scalar(p, &item)) return false;
            VEC_PUSH(p->arena, &items, item);
        } while (accept(p, ','));
        if (!accept(p, ']')) return fail(p, "expected ',' or ']' in a list");
    }
    *list = (PassStrings){.items = items.items, .count = items.count};
    return true;
}

static bool option_fail(Parser *p, const PassOption *option, const char *expected,
                        const char *text) {
    err_set(p->err, ERR_USAGE, "pipeline: option '%s' has a wrong value", option->name);
    err_expected(p->err, "%s", expected);
    err_actual(p->err, "'%s'", text);
    return false;
}

static bool set_choice(Parser *p, const PassOption *option, const char *text, void *field) {
    char names[320] = "";
    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)field = i;
            return true;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? " or " : "", option->choices[i]);
    }
    return option_fail(p, option, names, text);
}

static bool set_scalar(Parser *p, const PassOption *option, const char *text, void *field) {
    if (option->kind == OPTION_BOOL) {
        bool on = strcmp(text, "true") == 0;
        if (!on && strcmp(text, "false") != 0) return option_fail(p, option, "true or false", text);
        *(bool *)field = on;
    } else if (option->kind == OPTION_INT) {
        char *end;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (errno || end == text || *end) return option_fail(p, option, "an integer", text);
        *(int64_t *)field = value;
    } else if (option->kind == OPTION_CHOICE) {
        return set_choice(p, option, text, field);
    } else {
        *(const char **)field = text;
    }
    return true;
}

static bool same_key(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_'))) return false;
    return !*a && !*b;
}

static const PassOption *find_option(const PassInfo *pass, const char *key) {
    for (const PassOption *option = pass->options; option && option->name; option++)
        if (same_key(option->name, key)) return option;
    return NULL;
}

static bool unknown_option(Parser *p, const PassInfo *pass, const char *key) {
    err_set(p->err, ERR_USAGE, "pipeline: pass '%s' has no option '%s'", pass->name, key);
    NearestName nearest = nearest_name_of(key);
    for (const PassOption *option = pass->options; option && option->name; option++)
        nearest_name_try(&nearest, option->name);
    if (nearest.best) err_hint(p->err, "did you mean '%s'?", nearest.best);
    return false;
}

/* `given`: by row of the pass's options, which ones this step has had. */
static bool parse_option(Parser *p, PassStep *step, bool *given) {
    const char *key = parse_word(p);
    const PassOption *option = find_option(step->info, key);
    if (!option) return unknown_option(p, step->info, key);
    if (!accept(p, '=')) return fail(p, "expected '=' after an option's name");
    if (given[option - step->info->options]) {
        err_set(p->err, ERR_USAGE, "pipeline: option '%s' is given twice", option->name);
        return false;
    }
    given[option - step->info->options] = true;
    void *field = (char *)step->options + option->offset;
    if (option->kind == OPTION_STRINGS) return parse_list(p, field);
    const char *text;
    return parse_scalar(p, &text) && set_scalar(p, option, text, field);
}

static bool set_defaults(Parser *p, PassStep *step) {
    step->options = arena_alloc(p->arena, step->info->options_size);
    for (const PassOption *option = step->info->options; option && option->name; option++) {
        void *field = (char *)step->options + option->offset;
        if (option->otherwise && !set_scalar(p, option, option->otherwise, field)) return false;
    }
    return true;
}

static bool unknown_pass(Parser *p, const char *name) {
    err_set(p->err, ERR_USAGE, "pipeline: unknown pass '%s'", name);
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < p->table->count; i++)
        nearest_name_try(&nearest, p->table->passes[i]->name);
    if (nearest.best) err_hint(p->err, "did you mean '%s'?", nearest.best);
    return false;
}

static bool parse_pass(Parser *p, Pipeline *pipeline) {
    const char *name = parse_word(p);
    if (!name[0]) return fail(p, "expected the name of a pass");
    PassStep step = {.info = pass_find(p->table, name, strlen(name))};
    if (!step.info) return unknown_pass(p, name);
    if (!set_defaults(p, &step)) return false;
    size_t options = 0;
    while (step.info->options && step.info->options[options].name) options++;
    bool *given = ARENA_ARRAY(p->arena, bool, options);
    if (accept(p, '{') && !accept(p, '}')) {
        do {
            if (!parse_option(p, &step, given)) return false;
        } while (accept(p, ','));
        if (!accept(p, '}')) return fail(p, "expected ',' or '}' after an option");
    }
    VEC_PUSH(p->arena, &pipeline->steps, step);
    return true;
}

bool pipeline_parse(const PassTable *table, Arena *arena, const char *text, Pipeline *pipeline,
                    Err *err) {
    Parser p = {.table = table, .arena = arena, .text = text, .at = text, .err = err};
    *pipeline = (Pipeline){0};
    skip_spaces(&p);
    if (!*p.at) return true;
    do {
        if (!parse_pass(&p, pipeline)) return false;
    } while (accept(&p, ','));
    skip_spaces(&p);
    return !*p.at || fail(&p, "expected ',' between passes");
}

/* ---- printing -------------------------------------------------------------------------------- */

typedef struct Printer {
    Arena *arena;
    CharVec out;
} Printer;

static void put(Printer *p, const char *text) {
    for (; *text; text++) VEC_PUSH(p->arena, &p->out, *text);
}

static void put_scalar(Printer *p, const char *text) {
    bool word = text[0] != '\0';
    for (const char *c = text; *c; c++) word = word && is_word_char(*c);
    if (word) {
        put(p, text);
        return;
    }
    put(p, "\"");
    for (size_t left = strlen(text), size; left; text += size, left -= size) {
        bool plain = escaped_plain(text, left, &size);
        unsigned code = utf8_code(text, size);
        if (!plain && (size > 1 || code < 0x80)) {
            char escape[SHOWN_ESCAPE_MOST];
            escaped_escape(code, escape);
            put(p, escape);
            continue;
        }
        if (*text == '"' || *text == '\\') put(p, "\\");
        for (size_t i = 0; i < size; i++) VEC_PUSH(p->arena, &p->out, text[i]);
    }
    put(p, "\"");
}

static const char *scalar_text(const Printer *p, const PassOption *option, const void *field) {
    switch (option->kind) {
    case OPTION_BOOL: return *(const bool *)field ? "true" : "false";
    case OPTION_INT: return arena_printf(p->arena, "%lld", (long long)*(const int64_t *)field);
    case OPTION_CHOICE: return option->choices[*(const int *)field];
    case OPTION_STRING: return *(const char *const *)field;
    case OPTION_STRINGS: return NULL;
    }
    return NULL;
}

static bool is_default(const Printer *p, const PassOption *option, const void *field) {
    if (option->kind == OPTION_STRINGS) return ((const PassStrings *)field)->count == 0;
    const char *text = scalar_text(p, option, field);
    if (!text) return true;
    if (option->otherwise) return strcmp(text, option->otherwise) == 0;
    if (option->kind == OPTION_BOOL) return strcmp(text, "false") == 0;
    if (option->kind == OPTION_CHOICE) return *(const int *)field == 0;
    return option->kind == OPTION_INT && strcmp(text, "0") == 0;
}

static void put_option(Printer *p, const PassOption *option, const void *field) {
    put(p, option->name);
    put(p, "=");
    if (option->kind != OPTION_STRINGS) {
        put_scalar(p, scalar_text(p, option, field));
        return;
    }
    const PassStrings *list = field;
    put(p, "[");
    for (size_t i = 0; i < list->count; i++) {
        if (i) put(p, ",");
        put_scalar(p, list->items[i]);
    }
    put(p, "]");
}

static void put_step(Printer *p, const PassStep *step) {
    put(p, step->info->name);
    bool any = false;
    for (const PassOption *option = step->info->options; option && option->name; option++) {
        const void *field = (const char *)step->options + option->offset;
        if (is_default(p, option, field)) continue;
        put(p, any ? "," : "{");
        any = true;
        put_option(p, option, field);
    }
    if (any) put(p, "}");
}

const char *pipeline_print(const Pipeline *pipeline, Arena *arena) {
    Printer p = {.arena = arena};
    for (size_t i = 0; i < pipeline->steps.count; i++) {
        if (i) put(&p, ",");
        put_step(&p, &pipeline->steps.items[i]);
    }
    VEC_PUSH(arena, &p.out, '\0');
    return p.out.items;
}
