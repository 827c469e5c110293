// SPDX-License-Identifier: Apache-2.0
/* The words of `demi convert` as the library's options. */
#ifndef DEMI_CONVERT_OPTIONS_H
#define DEMI_CONVERT_OPTIONS_H

#include "arena.h"
#include "demi.h"
#include "options.h"

/* Fills *options; its lists are parsed's or in `arena`. Reads the policy file. ERR_USAGE where it
 * is not there. */
bool convert_options_fill(Arena *arena, const Parsed *parsed, DemiConvertOptions *options,
                          Err *err);

/* Of these --policy alone. */
bool convert_options_policy(Arena *arena, const Parsed *parsed, DemiConvertOptions *options,
                            Err *err);

#endif
