// SPDX-License-Identifier: Apache-2.0
/* How far outputs and picks are off, in words and as JSON: what convert --verify, check and compare
 * print alike. */
#ifndef DEMI_JUDGE_TEXT_H
#define DEMI_JUDGE_TEXT_H

#include <stdio.h>

#include "arena.h"
#include "demi_trials.h"
#include "json_write.h"

/* What is wrong with a value that is beyond its limit, as a phrase. */
const char *output_error_text(Arena *arena, const DemiDistance *diff);

/* The fields of a difference, into an open object; `limit` for "beyond". */
void output_error_json(JsonWriter *json, const DemiDistance *diff, const DemiLimit *limit);

/* "TopK 'top': 98 of 100 picked the same, the others within 3e-4 of a tie". */
void pick_print(const DemiPick *row, FILE *out);
/* A pick as an object. */
void pick_json(JsonWriter *json, const DemiPick *row, const DemiLimit *limit);
/* Array "picks" of an open object; nothing where the verdict has none. */
void picks_json(JsonWriter *json, const DemiVerdict *verdict, const DemiLimit *limit);

#endif
