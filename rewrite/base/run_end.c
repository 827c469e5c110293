// SPDX-License-Identifier: Apache-2.0
/* See run_end.h. */
#define _DEFAULT_SOURCE /* clock_gettime */
#include "run_end.h"

#include <time.h>

double run_end_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void run_end_begin(RunEnd *end, double limit, MemTrap *trap) {
    const bool reads = end->go_on || limit > 0;
    const double now = reads ? run_end_now() : 0;
    end->asked = now;
    end->deadline = limit > 0 ? now + limit : 0;
    end->trap = trap;
    atomic_store(&end->cause, RUN_GOES_ON);
}

/* go_on is asked a few times a second. */
static bool is_refused(RunEnd *end, double now) {
    const double between = 0.05;
    if (now - end->asked < between) return false;
    const bool refused = !end->go_on(end->user);
    end->asked = run_end_now();
    return refused;
}

static RunEndCause look(RunEnd *end, bool own) {
    if (atomic_load_explicit(&end->cancel, memory_order_relaxed)) return RUN_CANCELLED;
    const bool asks = own && end->go_on;
    if (end->deadline == 0 && !asks) return RUN_GOES_ON;
    const double now = run_end_now();
    if (end->deadline != 0 && now > end->deadline) return RUN_LATE;
    return asks && is_refused(end, now) ? RUN_CANCELLED : RUN_GOES_ON;
}

bool run_end_came(RunEnd *end, bool own) {
    if (run_end_seen(end)) return true;
    const RunEndCause cause = look(end, own);
    if (cause == RUN_GOES_ON) return false;
    int none = RUN_GOES_ON;
    atomic_compare_exchange_strong(&end->cause, &none, cause);
    return true;
}

bool run_end_fail(RunEnd *end, Err *err) {
    if (atomic_load(&end->cause) == RUN_LATE)
        return err_set(err, ERR_ENV, "the run exceeds its time limit");
    atomic_store(&end->cancel, false);
    return err_set(err, ERR_CANCELLED, "the run was cancelled");
}

void run_end_leave(RunEnd *end) {
    longjmp(end->trap->env, 1);
}
