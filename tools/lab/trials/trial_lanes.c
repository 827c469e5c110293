// SPDX-License-Identifier: Apache-2.0
/* See trial_lanes.h. */
#include "trial_lanes.h"

#include "error_fill.h"

enum { MOST_LANES = 8 };

/* Runs end by themselves: nothing of the caller's arena is used. */
static void run_lane(void *data, unsigned task, unsigned lane) {
    const Lanes *lanes = data;
    (void)lane;
    lanes->statuses[task] = demi_context_run(lanes->sessions[task]->context, &lanes->errors[task]);
}

bool lanes_open(Lanes *lanes, Trials *trials, Session *session, const SessionOptions *how,
                Arena *arena, Err *err) {
    const size_t most = session->threads < MOST_LANES ? session->threads : MOST_LANES;
    const unsigned count = (unsigned)(trials->count < most ? trials->count : most);
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
    return true;
}

bool lanes_run(Lanes *lanes, size_t first, LaneGive give, Err *err) {
    const size_t left = lanes->trials->count - first;
    const unsigned count = left < lanes->count ? (unsigned)left : lanes->count;
    for (unsigned i = 0; i < count; i++)
        if (!give(lanes->trials, first + i, lanes->arena, lanes->sessions[i], err)) return false;
    if (lanes->count == 1) {
        lanes->sessions[0]->data = lanes->trials->sets[first].from.path;
        return session_run(lanes->sessions[0], err);
    }
    workers_run(lanes->workers, count, run_lane, lanes);
    for (unsigned i = 0; i < count; i++) {
        if (error_take(err, lanes->statuses[i], &lanes->errors[i])) continue;
        err_file(err, lanes->sessions[i]->path);
        session_blame_data(lanes->trials->sets[first + i].from.path, err);
        return false;
    }
    return true;
}
