// SPDX-License-Identifier: Apache-2.0
/* See trial_lanes.h. */
#include "trial_lanes.h"

#include "error_fill.h"
#include "memory_return.h"
#include "trial_memory.h"

/* Runs end by themselves: nothing of the caller's arena is used. */
static void run_lane(void *data, unsigned task, unsigned lane) {
    const Lanes *lanes = data;
    (void)lane;
    lanes->statuses[task] = demi_context_run(lanes->sessions[task]->context, &lanes->errors[task]);
}

bool lanes_open(Lanes *lanes, Trials *trials, Session *session, const SessionOptions *how,
                unsigned most, Arena *arena, Err *err) {
    if (most > session->threads) most = session->threads;
    const unsigned count = trials->count < most ? (unsigned)trials->count : most;
    SessionOptions *alone = arena_copy(arena, how, sizeof *how);
    alone->context.threads = 1;
    *lanes = (Lanes){.trials = trials,
                     .arena = arena,
                     .workers = workers_new(arena, count),
                     .sessions = ARENA_ARRAY(arena, Session *, count),
                     .statuses = ARENA_ARRAY(arena, DemiStatus, count),
                     .errors = ARENA_ARRAY(arena, DemiError, count),
                     .count = count};
    for (unsigned i = 0; i < count; i++) {
        lanes->errors[i] = (DemiError)DEMI_ERROR_INIT;
        lanes->sessions[i] = count > 1 ? session_twin(session, arena, alone, err) : session;
        if (!lanes->sessions[i]) return false;
    }
    if (count > 1) {
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
    const size_t left = lanes->trials->count - first;
    const unsigned count = left < lanes->count ? (unsigned)left : lanes->count;
    for (unsigned i = 0; i < count; i++)
        if (!give(lanes->trials, first + i, lanes->arena, lanes->sessions[i], err)) return false;
    trials_turn_others(lanes->trials);
    if (lanes->count == 1) {
        lanes->sessions[0]->data = lanes->trials->sets[first].from.title;
        return session_run(lanes->sessions[0], err);
    }
    workers_run(lanes->workers, count, run_lane, lanes);
    for (unsigned i = 0; i < count; i++) {
        if (error_take(err, lanes->statuses[i], &lanes->errors[i])) continue;
        err_file(err, lanes->sessions[i]->path);
        session_blame_data(lanes->trials->sets[first + i].from.title, err);
        return false;
    }
    return true;
}
