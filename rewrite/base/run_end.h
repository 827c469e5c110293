// SPDX-License-Identifier: Apache-2.0
/* The end of a run before it is done: the caller cancels it, or it has taken too long.
 *
 * Whoever works for a long time asks now and then, any thread of the run: run_end_came. Tasks of
 * workers then return early, what they have computed being worth nothing, and the run's own thread
 * leaves: it jumps, as running out of memory does (arena.h). What has to be undone on the way out is
 * undone where that jump would undo it.
 */
#ifndef DEMI_BASE_RUN_END_H
#define DEMI_BASE_RUN_END_H

#include <stdatomic.h>
#include <stdbool.h>

#include "arena.h"
#include "err.h"

typedef enum RunEndCause { RUN_GOES_ON, RUN_CANCELLED, RUN_LATE } RunEndCause;

typedef struct RunEnd {
    atomic_bool cancel;        /* another thread said so; stays until a run has ended for it */
    bool (*go_on)(void *user); /* asked in the run's own thread; false ends the run. NULL: none */
    void *user;
    double asked;     /* when go_on was last, of run_end_now's clock */
    double deadline;  /* of the same clock; 0: none */
    atomic_int cause; /* a RunEndCause, for the rest of the run once it is one */
    MemTrap *trap;    /* where the run's own thread leaves to */
} RunEnd;

/* Seconds of a clock that only runs forward. */
double run_end_now(void);

/* A run begins, which may take `limit` seconds; 0: any number. */
void run_end_begin(RunEnd *end, double limit, MemTrap *trap);

/* Whether the run is to end. `own`: asked in the run's own thread, where go_on may be called. Costs
 * a look at a clock where there is a deadline or go_on, and next to nothing otherwise. */
bool run_end_came(RunEnd *end, bool own);

/* Whether somebody has found so: no look at clocks, and go_on is not called. */
static inline bool run_end_seen(RunEnd *end) {
    return atomic_load_explicit(&end->cause, memory_order_relaxed) != RUN_GOES_ON;
}

/* Of a run for which it came: sets what it says. Returns false. */
bool run_end_fail(RunEnd *end, Err *err);

/* Jumps to the trap; of the run's own thread, while no task is under way. */
_Noreturn void run_end_leave(RunEnd *end);

#endif
