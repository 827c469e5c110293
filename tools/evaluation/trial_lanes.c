// SPDX-License-Identifier: Apache-2.0
/* See trial_lanes.h. */
#include "trial_lanes.h"

#include "error_fill.h"
#include "exec.h"
#include "memory_return.h"
#include "trial_memory.h"

/* Runs end by themselves: nothing of the caller's arena is used. */
static void run_lane(void *data, unsigned task, unsigned lane) {
    const Lanes *lanes = data;
    (void)lane;
    lanes->statuses[task] = demi_context_run(lanes->sessions[task]->context, &lanes->errors[task]);
}

/* Of a plan of many steps there is one lane: each finds out for itself what it has to know of each step, which is
 * most of what there is to do for a set or two of small ones, and most of the memory. */
static bool is_large(const Session *session) {
    enum { STEPS_MOST = 1 << 14 };
    return demi_plan_loaded(session->plan)->plan.step_count > STEPS_MOST;
}

static unsigned lanes_of(const Trials *trials, const Session *session, unsigned most) {
    const size_t mine = trials_mine(trials) ? trials_mine(trials) : 1;
    if (most > session->threads) most = session->threads;
    return mine < most ? (unsigned)mine : most;
}

bool lanes_open(Lanes *lanes, Trials *trials, Session *session, const SessionOptions *how,
                unsigned most, Arena *arena, Err *err) {
    const bool large = is_large(session);
    const unsigned count = large ? 1 : lanes_of(trials, session, most);
    /* what the reference's lanes found out is not held while others run */
    const bool twins = count > 1 || (large && session == trials->reference);
    SessionOptions *alone = arena_copy(arena, how, sizeof *how);
    if (count > 1) alone->context.threads = 1;
    *lanes = (Lanes){.trials = trials,
                     .arena = arena,
                     .workers = workers_new(arena, count),
                     .sessions = ARENA_ARRAY(arena, Session *, count),
                     .statuses = ARENA_ARRAY(arena, DemiStatus, count),
                     .errors = ARENA_ARRAY(arena, DemiError, count),
                     .count = count};
    for (unsigned i = 0; i < count; i++) {
        lanes->errors[i] = (DemiError)DEMI_ERROR_INIT;
        lanes->sessions[i] = !twins ? session : session_twin(session, arena, alone, err);
        if (!lanes->sessions[i]) return false;
    }
    if (twins) {
        demi_context_trim(session->context);
        memory_return(); /* lanes' threads can't use what was freed in this one */
    }
    trials->others = (SessionList){lanes->sessions, count};
    trials_turn_others(trials);
    return true;
}

void lanes_end(Lanes *lanes) {
    if (lanes->trials) lanes->trials->others = (SessionList){NULL, 0};
}

bool lanes_lack_memory(const Lanes *lanes, const Err *err) {
    return lanes->count > 1 && err->code == ERR_ENV;
}

bool lanes_run(Lanes *lanes, size_t first, LaneGive give, Err *err) {
    Trials *t = lanes->trials;
    const size_t left = trials_mine(t) - first;
    const unsigned count = left < lanes->count ? (unsigned)left : lanes->count;
    if (lanes->scratch) arena_free(lanes->scratch);
    lanes->scratch = arena_child(lanes->arena);
    for (unsigned i = 0; i < count; i++)
        if (!give(t, trials_place(t, first + i), lanes->scratch, lanes->sessions[i], err))
            return false;
    trials_turn_others(t);
    if (lanes->count == 1) {
        lanes->sessions[0]->data = t->sets[trials_place(t, first)].from.title;
        return session_run(lanes->sessions[0], err);
    }
    workers_run(lanes->workers, count, run_lane, lanes);
    for (unsigned i = 0; i < count; i++) {
        if (error_take(err, lanes->statuses[i], &lanes->errors[i])) continue;
        err_file(err, lanes->sessions[i]->path);
        session_blame_data(t->sets[trials_place(t, first + i)].from.title, err);
        return false;
    }
    return true;
}
