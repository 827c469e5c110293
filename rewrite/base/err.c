// SPDX-License-Identifier: Apache-2.0
/* Filling and formatting of errors; see err.h for the contract. */
#include "err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "escaped.h"

/* vsnprintf that marks a cut text with "...", put where it leaves no half of a UTF-8 character. */
static void field_vset(char *field, size_t size, const char *format, va_list args) {
    if (field[0]) return;
    int length = vsnprintf(field, size, format, args);
    if (length < (int)size) return;
    size_t cut = size - 4;
    while (cut > 0 && ((unsigned char)field[cut] & 0xc0) == 0x80) cut--;
    memcpy(field + cut, "...", 4);
}

bool err_set(Err *err, ErrCode code, const char *format, ...) {
    if (!err || err->code != ERR_NONE) return false;
    *err = (Err){.code = code};
    va_list args;
    va_start(args, format);
    field_vset(err->what, sizeof err->what, format, args);
    va_end(args);
    return false;
}

#define ERR_FIELD(name, field)                                                                     \
    void name(Err *err, const char *format, ...) {                                                 \
        if (!err) return;                                                                          \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        field_vset(err->field, sizeof err->field, format, args);                                   \
        va_end(args);                                                                              \
    }
static ERR_FIELD(set_file, file) ERR_FIELD(err_operand, operand) ERR_FIELD(err_expected, expected)
    ERR_FIELD(err_actual, actual) ERR_FIELD(err_hint, hint)

        void err_file(Err *err, const char *path) {
    set_file(err, "%s", path);
}

bool err_errno(Err *err, int error_number, const char *format, ...) {
    if (!err || err->code != ERR_NONE) return false;
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return err_set(err, ERR_ENV, "%s: %s", what, strerror(error_number));
}

bool err_out_of_memory(Err *err) {
    return err_set(err, ERR_ENV, "out of memory");
}

typedef struct Line {
    char *buffer;
    size_t size, length;
} Line;

static void line_put(Line *line, char c) {
    if (line->length + 1 < line->size) line->buffer[line->length++] = c;
}

static void line_puts(Line *line, const char *text) {
    for (size_t left = strlen(text); left;) {
        char shown[SHOWN_MOST];
        size_t size, taken = escaped_take(text, left, shown, &size);
        for (size_t i = 0; i < size; i++) line_put(line, shown[i]);
        text += taken;
        left -= taken;
    }
}

static void line_part(Line *line, const char *before, const char *text, const char *after) {
    if (!text[0]) return;
    line_puts(line, before);
    line_puts(line, text);
    line_puts(line, after);
}

size_t err_format(const Err *err, char *buffer, size_t size) {
    if (size == 0) return 0;
    Line line = {.buffer = buffer, .size = size};
    line_part(&line, "", err->file, ": ");
    line_part(&line, "graph '", err->graph, "': ");
    if (err->node[0] || err->op_type[0]) {
        line_part(&line, "node '", err->node, "'");
        line_part(&line, err->node[0] ? " (" : "node (", err->op_type, ")");
        line_part(&line, ", ", err->operand, "");
        line_puts(&line, ": ");
    } else {
        line_part(&line, "", err->operand, ": ");
    }
    line_puts(&line, err->what);
    line_part(&line, ": expected ", err->expected, "");
    line_part(&line, err->expected[0] ? ", got " : ": got ", err->actual, "");
    line_part(&line, "; hint: ", err->hint, "");
    buffer[line.length] = '\0';
    return line.length;
}
