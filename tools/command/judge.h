// SPDX-License-Identifier: Apache-2.0
/* A run beside its reference: what its outputs are off by, with its own picks where these hardly
 * differ, else with the reference's (picks.h). */
#ifndef DEMI_JUDGE_H
#define DEMI_JUDGE_H

#include <stdio.h>

#include "output_error.h"
#include "picks.h"

typedef struct Judgement {
    OutputErrors outputs;
    PickRows picks; /* those that differ, where outputs were computed with the reference's */
    double error; /* the largest of outputs and picks, by scale; Inf where one can't be compared */
    bool broken;  /* an output has NaN or Inf where the reference has numbers */
} Judgement;

/* Runs `session`, whose inputs are bound. `picks` are those of the reference's run; NULL: nothing
 * is replaced. They are tried where an output is off by more than `enough`. */
typedef struct Judge {
    Arena *arena;
    OutputReference reference;
    Picks *picks;
    double enough;
} Judge;
bool judge_run(const Judge *judge, Session *session, Judgement *judgement, Err *err);

/* The larger of each output's errors, and of each pick's; what is added is copied into `arena`. */
void judgement_add(Arena *arena, Judgement *worst, const Judgement *other);

/* Adds a pick to those of other runs. */
void picks_add(Arena *arena, PickRows *rows, const PickRow *other);

/* "TopK 'top': 98 of 100 picked the same, the others within 3e-4 of a tie". */
void pick_print(const PickRow *row, FILE *out);
/* Array "picks" of an open object; nothing where there is none. */
void picks_json(JsonWriter *json, const PickRows *rows, const Limit *limit);
/* A pick that is further from a tie than outputs may be off. */
bool pick_beyond(const Limit *limit, const PickRow *row);

#endif
