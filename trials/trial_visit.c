// SPDX-License-Identifier: Apache-2.0
/* Running another model on every set; see trial.h.
 *
 * A small model gains little from threads inside of a run, and sets are independent: where there are
 * several of both, each thread has a context of its own and runs every so-manieth set. Values are given
 * and looked at by the caller's thread, in the order of sets, so that results do not depend on
 * threads. */
#include "error_fill.h"
#include "trial.h"
#include "workers.h"

enum { MOST_LANES = 8 };

typedef struct Lanes {
    Session **sessions; /* [count] */
    DemiStatus *statuses;
    DemiError *errors;
    unsigned count;
} Lanes;

/* Runs end by themselves: nothing of the caller's arena is used. */
static void run_lane(void *data, unsigned task, unsigned lane) {
    Lanes *lanes = data;
    (void)lane;
    lanes->statuses[task] = demi_context_run(lanes->sessions[task]->context, &lanes->errors[task]);
}

static unsigned lanes_for(const Trials *t, const Session *session) {
    unsigned count = session->threads < MOST_LANES ? session->threads : MOST_LANES;
    return t->count < count ? (unsigned)t->count : count;
}

/* A session a lane; one, as it is, where there is nothing to share out. */
static bool open_lanes(Session *session, const SessionOptions *alone, unsigned count, Arena *within,
                       Lanes *lanes, Err *err) {
    *lanes = (Lanes){.sessions = ARENA_ARRAY(within, Session *, count),
                     .statuses = ARENA_ARRAY(within, DemiStatus, count),
                     .errors = ARENA_ARRAY(within, DemiError, count),
                     .count = count};
    for (unsigned i = 0; i < count; i++) {
        lanes->errors[i] = (DemiError)DEMI_ERROR_INIT;
        lanes->sessions[i] = count > 1 ? session_twin(session, within, alone, err) : session;
        if (!lanes->sessions[i]) return false;
    }
    return true;
}

/* A set each, from `first` on. */
static bool run_some(Trials *t, Workers *workers, Lanes *lanes, size_t first, Arena *within,
                     Err *err) {
    const size_t left = t->count - first;
    const unsigned count = left < lanes->count ? (unsigned)left : lanes->count;
    for (unsigned i = 0; i < count; i++)
        if (!trials_give(t, first + i, within, lanes->sessions[i], err)) return false;
    if (count == 1) return session_run(lanes->sessions[0], err);
    workers_run(workers, count, run_lane, lanes);
    for (unsigned i = 0; i < count; i++) {
        if (error_take(err, lanes->statuses[i], &lanes->errors[i])) continue;
        err_file(err, lanes->sessions[i]->path);
        return false;
    }
    return true;
}

bool trials_visit(Trials *t, const DemiSource *model, const SessionOptions *how, TrialVisit visit,
                  void *user, Err *err) {
    Arena *within = arena_child(t->arena);
    Session *session = session_new(within, how);
    SessionOptions alone = *how;
    Lanes lanes;
    alone.context.threads = 1;
    bool ok = session_open(session, within, model, err);
    const unsigned count = ok ? lanes_for(t, session) : 0;
    ok = ok && open_lanes(session, &alone, count, within, &lanes, err);
    Workers *workers = ok ? workers_new(within, count) : NULL;
    for (size_t i = 0; ok && i < t->count; i += count) {
        ok = run_some(t, workers, &lanes, i, within, err);
        for (size_t k = i; ok && k < i + count && k < t->count; k++) {
            ok = visit(user, &t->sets[k], lanes.sessions[k - i], err);
            if (ok) trials_end_set(t, k);
        }
    }
    t->done++;
    arena_free(within);
    return ok;
}
