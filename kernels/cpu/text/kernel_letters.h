// SPDX-License-Identifier: Apache-2.0
/* Upper and lower case of UTF-8 text, independent of locales: the letters of the Latin, Greek,
 * Cyrillic, Armenian and Georgian scripts that have one counterpart each (Unicode's simple case
 * mappings). All else, invalid bytes included, stays as it is. */
#ifndef DEMI_KERNEL_LETTERS_H
#define DEMI_KERNEL_LETTERS_H

#include <stddef.h>
#include <stdint.h>

#include "op_attrs.h"

enum { LETTERS_GROWTH = 2 }; /* a text becomes at most so many times as long */

/* Writes the changed text to `to`, which has room for size * LETTERS_GROWTH bytes; its length. */
uint64_t letters_change(const char *text, uint64_t size, LettersChange change, char *to);

#endif
