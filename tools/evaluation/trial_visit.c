// SPDX-License-Identifier: Apache-2.0
/* Running another model on every set; see trial.h. Its outputs are looked at in the order of sets, so that
 * results do not depend on threads. */
#include "memory_return.h"
#include "trial_lanes.h"

typedef struct Visit {
    Trials *trials;
    TrialVisit visit;
    void *user;
    ByteBuffer *records; /* NULL: of nobody else */
    size_t next;         /* the first set of this process that was not looked at */
} Visit;

static bool visit_set(const Visit *v, size_t i, const Session *session, Err *err) {
    const TrialSet *set = &v->trials->sets[i];
    if (!v->records) return v->visit(v->user, set, session, NULL, err);
    const size_t begun = share_record_begin(v->records, i);
    const bool ok = v->visit(v->user, set, session, v->records, err);
    if (ok)
        share_record_end(v->records, begun);
    else
        share_record_drop(v->records, begun);
    return ok;
}

static bool visit_all(Visit *v, Lanes *lanes, Err *err) {
    Trials *t = v->trials;
    const size_t mine = trials_mine(t);
    while (v->next < mine) {
        const size_t first = v->next;
        if (!lanes_run(lanes, first, trials_give, err)) return false;
        for (; v->next < first + lanes->count && v->next < mine; v->next++) {
            const size_t i = trials_place(t, v->next);
            if (!visit_set(v, i, lanes->sessions[v->next - first], err)) return false;
            trials_end_set(t, i);
        }
    }
    return true;
}

/* By so many lanes. *again: they had too little memory each. */
static bool visit_by(Visit *v, Session *session, unsigned most, bool *again, Err *err) {
    Lanes lanes = {.count = 1};
    Arena *within = arena_child(v->trials->arena);
    const bool ok = lanes_open(&lanes, v->trials, session, session->how, most, within, err) &&
                    visit_all(v, &lanes, err);
    *again = !ok && lanes_lack_memory(&lanes, err);
    lanes_end(&lanes);
    arena_free(within);
    return ok;
}

bool trials_visit(Trials *t, const DemiSource *model, const SessionOptions *how, TrialVisit visit,
                  ShareRecordFn take, void *user, Err *err) {
    Arena *within = arena_child(t->arena);
    Session *session = session_new(within, how);
    ByteBuffer records = {.arena = within};
    Visit v = {t, visit, user, share_is_alone(&t->share) ? NULL : &records, 0};
    bool again = false;
    memory_return_much();
    bool ok =
        session_open(session, within, model, err) && visit_by(&v, session, LANES_MOST, &again, err);
    if (again) {
        *err = (Err){.code = ERR_NONE};
        ok = visit_by(&v, session, 1, &again, err);
    }
    ok = ok && (!v.records || share_records(&t->share, &records, take, user, err));
    t->done++;
    arena_free(within);
    return ok;
}
