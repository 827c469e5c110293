// SPDX-License-Identifier: Apache-2.0
/* What demi_compile runs, as text. */
#ifndef DEMI_COMPILE_TEXT_H
#define DEMI_COMPILE_TEXT_H

#include "demi.h"

enum { COMPILE_TEXT = 2048 };

/* Writes the pipeline of these options, whose `numerics` is one of its enumeration. */
void compile_text(const DemiCompileOptions *options, char text[COMPILE_TEXT]);

#endif
