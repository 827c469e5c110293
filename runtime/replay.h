// SPDX-License-Identifier: Apache-2.0
/* Runs again from where something changes: what a search for precisions does thousands of times.
 *
 * A recording is a run of a context's main graph whose values are kept. A replay gives some of them
 * other elements and computes what follows from these, and nothing else; the bits are those of a
 * whole run with the same changes. Where memory was not enough for all values, what a replay reads
 * and has not is computed again, from what was kept on.
 *
 * Steps run as the plan has them, so who wants to change a value needs a plan that has it
 * (DemiCompileOptions.keep_values), and a constant is changed behind a step that hands it on. */
#ifndef DEMI_REPLAY_H
#define DEMI_REPLAY_H

#include "context.h"

typedef struct Replay Replay;

/* Writes what `count` elements become, of the dtype that they have. */
typedef void (*ReplayChangeFn)(void *user, void *to, const void *from, uint64_t count);

typedef struct ReplayChange {
    uint32_t value;     /* of the main graph: an input, or what a step makes. A tensor */
    const void *become; /* its elements from then on, borrowed for the replay; or NULL, and: */
    ReplayChangeFn change;
    void *user;
} ReplayChange;

/* [*count] names by number of values that are inputs of the main graph or made by its steps; NULL of
 * all others. In `arena`. */
const char *const *replay_names(const DemiPlan *plan, Arena *arena, uint32_t *count);

/* Runs the context, whose inputs are set, and keeps up to `most_bytes` of values beside its inputs
 * and outputs, the smallest first. They count in the context's memory budget. *replay lies in
 * `arena` and ends with it, or with replay_free; the context must outlive it and keep its inputs and
 * carry nothing on. False with the error set: that of the run. */
bool replay_record(DemiContext *context, uint64_t most_bytes, Arena *arena, Replay **replay,
                   Err *err);
void replay_free(Replay *replay);

/* Gives back what the context has of ended recordings, which it would use again. */
void replay_trim(DemiContext *context);

/* Computes what follows from the changes; the context's outputs are then what they would be. Each
 * value at most once. */
bool replay_run(Replay *replay, const ReplayChange *changes, size_t count, Err *err);

/* Steps of the main graph that the last replay ran, and how many there are. */
size_t replay_steps_run(const Replay *replay);
size_t replay_steps(const Replay *replay);

/* Bytes of values that are kept. */
uint64_t replay_bytes(const Replay *replay);

#endif
