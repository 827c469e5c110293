// SPDX-License-Identifier: Apache-2.0
/* UTF-8 (RFC 3629) from and to code points. What is not valid becomes U+FFFD. */
#ifndef DEMI_UTF8_H
#define DEMI_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vec.h"

enum { UTF8_MOST = 4, UTF8_WRONG = 0xfffd };

/* Writes at most UTF8_MOST bytes; returns their number. */
static inline size_t utf8_put(char *to, uint32_t code) {
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = UTF8_WRONG;
    if (code < 0x80) return to[0] = (char)code, 1;
    size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(lead[more] | code >> 6 * more);
    for (size_t i = 1; i <= more; i++) to[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
    return more + 1;
}

/* Takes one code point off the front of text that is not empty. */
static inline uint32_t utf8_take(Bytes *text) {
    static const uint32_t lowest[] = {0, 0x80, 0x800, 0x10000};
    unsigned c = text->data[0];
    size_t more = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1, i = 1;
    uint32_t code = c < 0x80 ? c : c & (0x3fu >> more);
    while (i <= more && i < text->size && (text->data[i] & 0xc0) == 0x80)
        code = code << 6 | (text->data[i++] & 0x3f);
    bool whole = i == more + 1 && c < 0xf8 && !(c >= 0x80 && c < 0xc0);
    text->data += i;
    text->size -= i;
    if (!whole || code < lowest[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return UTF8_WRONG;
    return code;
}

#endif
