// SPDX-License-Identifier: Apache-2.0
/* The pipeline that a conversion's options stand for, as text. `convert` is nothing more than this
 * text being run, so that a user can print it, change a step and run it with `opt`.
 */
#ifndef DEMI_CONVERT_TEXT_H
#define DEMI_CONVERT_TEXT_H

#include "demi.h"

/* Writes the text, NUL-terminated and cut to `size` bytes; returns its whole length. */
size_t convert_text(const DemiConvertOptions *options, char *buffer, size_t size);

#endif
