// SPDX-License-Identifier: Apache-2.0
/* Running another model on every set; see trial.h. Its outputs are looked at in the order of sets, so that
 * results do not depend on threads. */
#include "trial_lanes.h"

bool trials_visit(Trials *t, const DemiSource *model, const SessionOptions *how, TrialVisit visit,
                  void *user, Err *err) {
    Arena *within = arena_child(t->arena);
    Session *session = session_new(within, how);
    Lanes lanes = {.count = 1};
    bool ok = session_open(session, within, model, err) &&
              lanes_open(&lanes, t, session, how, within, err);
    for (size_t i = 0; ok && i < t->count; i += lanes.count) {
        ok = lanes_run(&lanes, i, trials_give, err);
        for (size_t k = i; ok && k < i + lanes.count && k < t->count; k++) {
            ok = visit(user, &t->sets[k], lanes.sessions[k - i], err);
            if (ok) trials_end_set(t, k);
        }
    }
    t->done++;
    arena_free(within);
    return ok;
}
