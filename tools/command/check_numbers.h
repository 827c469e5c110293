// SPDX-License-Identifier: Apache-2.0
/* check --against with data: how far each output of a model is off its reference's at worst, over
 * all sets of inputs. */
#ifndef DEMI_CHECK_NUMBERS_H
#define DEMI_CHECK_NUMBERS_H

#include <stdio.h>

#include "console.h"
#include "json_write.h"

/* Are numbers asked for, by --data, --random, --input, --max-error or --atol? */
bool check_numbers_asked(const Parsed *parsed);

/* Runs both as the words say; *verdict is the caller's to free. */
typedef struct CheckPair {
    ConsoleModel model, reference;
} CheckPair;
bool check_numbers_run(const CheckPair *pair, DemiVerdict **verdict, Err *err);

void check_numbers_print(const DemiVerdict *verdict, Arena *arena, FILE *out);
/* As member "numbers" of an open object. */
void check_numbers_json(const DemiVerdict *verdict, JsonWriter *json);

#endif
