// SPDX-License-Identifier: Apache-2.0
/* How text that others wrote (names in models, paths, messages of other libraries) is shown to
 * people. What could steer a terminal, hide, or reorder what stands beside it never gets there as
 * it is: control characters (C0, DEL, C1), bidirectional controls and marks, line and paragraph
 * separators, invisible format characters, and bytes that are not UTF-8. All printing of such text
 * goes through here; a test tries every command. */
#ifndef DEMI_BASE_ESCAPED_H
#define DEMI_BASE_ESCAPED_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 sequence (RFC 3629) that text begins with, 0 where it is none; left > 0. */
size_t utf8_length(const char *text, size_t left);

/* The code point of such a sequence. */
unsigned utf8_code(const char *text, size_t length);

/* True where the text begins with a character that may be shown as it is; *length is how many bytes
 * it has, 1 where it is not UTF-8. left > 0. */
bool escaped_plain(const char *text, size_t left, size_t *length);

enum { SHOWN_MOST = 8 };

/* Takes one character off the front: what is shown for it goes to `out`, which gets *size bytes and
 * a NUL. That is the character, or \xNN of a byte, or \uNNNN. Returns how many bytes it had;
 * left > 0. */
size_t escaped_take(const char *text, size_t left, char out[SHOWN_MOST], size_t *size);

enum { SHOWN_ESCAPE_MOST = 13 };

/* A character as JSON's escape, \uNNNN or two of them, and a NUL. Returns how many bytes it has. */
size_t escaped_escape(unsigned code, char out[SHOWN_ESCAPE_MOST]);

/* The longest beginning of at most `most` bytes that ends with a character. */
size_t escaped_cut(const char *text, size_t length, size_t most);

#endif
