// SPDX-License-Identifier: Apache-2.0
/* Sets that run beside each other.
 *
 * A small model gains little from threads inside of a run, and sets are independent: where there are
 * several of both, each thread has a context of its own and runs every so-manieth set. Values are given
 * by the caller's thread. */
#ifndef DEMI_TRIAL_LANES_H
#define DEMI_TRIAL_LANES_H

#include "trial.h"
#include "workers.h"

typedef struct Lanes {
    Trials *trials;
    Arena *arena;
    Workers *workers;
    Session **sessions; /* [count] */
    DemiStatus *statuses;
    DemiError *errors;
    Arena *scratch; /* of the sets that are run now: what their inputs are made into */
    unsigned count;
} Lanes;

enum { LANES_MOST = 8 };

/* Sessions of the plan that `session` has, with contexts as `how` says, though of one thread each; at most
 * so many, each of which has its share of the memory; or that session itself, where there is nothing to
 * share out, or the plan has so many steps that what each lane holds of them is worth more than its sets. Closed
 * with the arena. */
bool lanes_open(Lanes *lanes, Trials *trials, Session *session, const SessionOptions *how,
                unsigned most, Arena *arena, Err *err);
/* Before the arena ends, also where opening failed. */
void lanes_end(Lanes *lanes);

/* Whether it was the share of the memory, perhaps, that did not suffice: one lane has more. */
bool lanes_lack_memory(const Lanes *lanes, const Err *err);

/* Gives a session what set i has. */
typedef bool (*LaneGive)(Trials *trials, size_t i, Arena *within, Session *session, Err *err);

/* Runs sets of this process from its `first` on, as many as there are lanes and sets: its set first + i with
 * sessions[i]. */
bool lanes_run(Lanes *lanes, size_t first, LaneGive give, Err *err);

#endif
