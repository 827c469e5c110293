// SPDX-License-Identifier: Apache-2.0
/* What may be shown as it is, and what stands for the rest; see escaped.h. */
#include "escaped.h"

#include <stdio.h>
#include <string.h>

size_t utf8_length(const char *text, size_t left) {
    const unsigned char *p = (const unsigned char *)text;
    unsigned char c = p[0];
    if (c < 0x80) return 1;
    size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || left < length) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    /* Overlong, surrogates, above U+10FFFF. */
    if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) || (c == 0xf0 && p[1] < 0x90) ||
        (c == 0xf4 && p[1] > 0x8f))
        return 0;
    return length;
}

unsigned utf8_code(const char *text, size_t length) {
    unsigned c = (unsigned char)text[0];
    unsigned code = length == 1 ? c : c & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) code = code << 6 | ((unsigned char)text[i] & 0x3fu);
    return code;
}

/* Ranges of code points that steer, hide or reorder. */
static const struct Range {
    unsigned first, last;
} hidden[] = {
    {0x00, 0x1f},       {0x7f, 0x9f},     /* controls */
    {0xad, 0xad},                         /* soft hyphen */
    {0x61c, 0x61c},                       /* Arabic letter mark */
    {0x200b, 0x200f},                     /* zero width, left-to-right and right-to-left marks */
    {0x2028, 0x202e},                     /* separators, embeddings, overrides */
    {0x2060, 0x206f},                     /* word joiner, isolates, deprecated controls */
    {0xfeff, 0xfeff},   {0xfff9, 0xfffb}, /* byte order mark, annotations */
    {0xe0000, 0xe007f},                   /* tags */
};

bool escaped_plain(const char *text, size_t left, size_t *length) {
    *length = utf8_length(text, left);
    if (*length == 0) {
        *length = 1;
        return false;
    }
    unsigned code = utf8_code(text, *length);
    if (code >= 0x20 && code < 0x7f) return true; /* nearly always */
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (code >= hidden[i].first && code <= hidden[i].last) return false;
    return true;
}

size_t escaped_take(const char *text, size_t left, char out[SHOWN_MOST], size_t *size) {
    size_t length;
    if (escaped_plain(text, left, &length)) {
        memcpy(out, text, length);
        out[ *size = length] = '\0';
        return length;
    }
    unsigned code = length == 1 ? (unsigned char)text[0] : utf8_code(text, length);
    const char *format = length == 1 ? "\\x%02x" : code <= 0xffff ? "\\u%04x" : "\\U%05x";
    *size = (size_t)snprintf(out, SHOWN_MOST, format, code & 0xfffff);
    return length;
}

size_t escaped_escape(unsigned code, char out[SHOWN_ESCAPE_MOST]) {
    int size = code <= 0xffff ? snprintf(out, SHOWN_ESCAPE_MOST, "\\u%04x", code & 0xffff)
                              : snprintf(out, SHOWN_ESCAPE_MOST, "\\u%04x\\u%04x",
                                         0xd7c0 + (code >> 10 & 0x7ff), 0xdc00 + (code & 0x3ff));
    return (size_t)size;
}

size_t escaped_cut(const char *text, size_t length, size_t most) {
    if (length <= most) return length;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80) most--;
    return most;
}
