// SPDX-License-Identifier: Apache-2.0
/* check --against with data: runs a model and its reference on the same inputs and says of every
 * output how far it is off at worst, over all sets of inputs. */
#ifndef DEMI_CHECK_NUMBERS_H
#define DEMI_CHECK_NUMBERS_H

#include <stdio.h>

#include "judge.h"

typedef struct WorstOutput {
    const char *set; /* folder of the inputs it is the worst of; "" for random ones */
    OutputError row;
} WorstOutput;

typedef struct CheckNumbers {
    Limit limit;
    size_t sets;              /* of inputs */
    VEC(WorstOutput) outputs; /* one an output, in order */
    PickRows picks;           /* that differ, of all sets */
    size_t beyond;            /* of outputs and picks */
} CheckNumbers;

/* Are numbers asked for, by --data, --random, --input, --max-error or --atol? */
bool check_numbers_asked(const Parsed *parsed);

/* `model` and `reference` are paths. */
typedef struct CheckPair {
    const char *model, *reference;
} CheckPair;
bool check_numbers_run(CheckNumbers *numbers, Program *program, const Parsed *parsed,
                       const CheckPair *pair, Err *err);

void check_numbers_print(const CheckNumbers *numbers, Arena *arena, FILE *out);
/* As member "numbers" of an open object. */
void check_numbers_json(const CheckNumbers *numbers, JsonWriter *json);

#endif
