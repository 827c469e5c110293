// SPDX-License-Identifier: Apache-2.0
/* A run beside its reference: what its outputs are off by, with its own picks where these hardly
 * differ, else with the reference's (picks.h). */
#ifndef DEMI_JUDGE_H
#define DEMI_JUDGE_H

#include "output_error.h"
#include "picks.h"
#include "share.h"

typedef struct Judgment {
    OutputErrors outputs;
    PickRows picks; /* those that differ, where outputs were computed with the reference's */
    double error; /* the largest of outputs and picks, by scale; Inf where one can't be compared */
    bool broken;  /* an output has NaN or Inf where the reference has numbers */
} Judgment;

/* Runs `session`, whose inputs are bound. `picks` are those of the reference's run; NULL: nothing
 * is replaced. They are tried where an output is off by more than `enough`. */
typedef struct Judge {
    Arena *arena;
    OutputReference reference;
    Picks *picks;
    double enough;
} Judge;
bool judge_run(const Judge *judge, Session *session, Judgment *judgment, Err *err);

/* The larger of each output's errors, and of each pick's; what is added is copied into `arena`.
 * `set` is the path of the inputs of `other`, or "". */
void judgment_add(Arena *arena, Judgment *worst, const Judgment *other, const char *set);

/* One set's, for other processes, and from there. */
void judgment_pack(ByteBuffer *bytes, const Judgment *judgment);
void judgment_unpack(ShareBytes *bytes, Judgment *judgment, Arena *arena);

#endif
