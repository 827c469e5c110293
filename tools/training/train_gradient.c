// SPDX-License-Identifier: Apache-2.0
/* Which gradient was the first that was not finite. The plan of a step gives out no gradients, so that
 * none has to outlive its use. After a failure the steps since the last good state are run again by a
 * plan that does give them out, on the same samples and random numbers. They are few, as a copy of the
 * state is kept every so many steps. */
#include <string.h>

#include "error_fill.h"
#include "train.h"
#include "value_io.h"

enum { KEEP = 100 }; /* steps behind the last good state, after which there is to be another one */

/* From where steps can be made again. */
static uint64_t last_good(const Train *t) {
    return t->kept_at > t->saved_at ? t->kept_at : t->saved_at;
}

bool train_keep(Train *t, uint64_t steps, Err *err) {
    if (steps - last_good(t) < KEEP) return true;
    if (!train_check(t, steps, err)) return train_find_gradient(t, steps, err);
    for (size_t i = 0; i < t->updated.count; i++) {
        Updated *updated = &t->updated.items[i];
        const uint64_t size = tensor_raw_size(updated->value->init);
        const void *now = train_output_bytes(t->session, updated, err);
        if (!now) return false;
        if (!updated->kept) updated->kept = arena_alloc(t->arena, (size_t)size + 1);
        memcpy(updated->kept, now, (size_t)size);
    }
    t->kept_at = steps;
    return true;
}

/* ---- steps again ----------------------------------------------------------------------------- */

/* Where the model was saved since, it has what is to begin with. */
static bool set_kept(const Train *t, const Session *session, Err *err) {
    const size_t first = session->input_count - t->updated.count;
    for (size_t i = 0; t->kept_at > t->saved_at && i < t->updated.count; i++) {
        const Updated *updated = &t->updated.items[i];
        const Tensor *init = updated->value->init;
        DemiError error = DEMI_ERROR_INIT;
        const DemiData data = {.kind = DEMI_DATA_TENSOR_KIND,
                               .dtype = (int32_t)init->dtype,
                               .rank = init->rank,
                               .dims = init->dims,
                               .data = updated->kept};
        const DemiStatus status = demi_context_set_input(
            session->context, session->inputs[first + i].name, &data, &error);
        if (!error_take(err, status, &error)) return false;
    }
    return true;
}

/* How many numbers of an output are not finite, and of how many. */
static uint64_t count_bad(const Session *session, size_t output, uint64_t *all) {
    const DemiData *data = demi_context_output(session->context, output);
    uint64_t size = 0;
    *all = 0;
    if (!data || data->kind != DEMI_DATA_TENSOR_KIND ||
        !dtype_bytes((Dtype)data->dtype, value_count(data), &size))
        return 0;
    *all = value_count(data);
    return train_count_not_finite((Dtype)data->dtype, data->data, size);
}

/* True where what the last step left is finite, else what is not first is told, and whether that is an
 * update of a finite gradient. A step whose gradients overflow may be left out on purpose (scale-loss):
 * then what it leaves is finite. */
static bool leaves_finite(const Train *t, const Session *session, const GradientsShown *shown,
                          uint64_t step, Err *err) {
    const size_t first = session->output_count - t->updated.count;
    uint64_t bad = 0, bad_update = 0, all, all_update = 0;
    size_t i = 0, gradient = 0;
    while (i < t->updated.count && !bad_update)
        bad_update = count_bad(session, first + i++, &all_update);
    if (!bad_update) return true;
    while (gradient < shown->list.count && !bad)
        bad = count_bad(session, shown->list.items[gradient++].output, &all);
    if (bad)
        err_hint(err,
                 "the first gradient that is not finite is that of '%s', in step %llu (%llu of "
                 "%llu values); a smaller learning rate may keep it finite",
                 shown->list.items[gradient - 1].of, (unsigned long long)step + 1,
                 (unsigned long long)bad, (unsigned long long)all);
    else
        err_hint(
            err,
            "gradients are finite, but step %llu makes %llu of %llu values of '%s' infinite or "
            "NaN; a smaller learning rate may keep them finite",
            (unsigned long long)step + 1, (unsigned long long)bad_update,
            (unsigned long long)all_update, sym_text(t->updated.items[i - 1].value->name));
    return false;
}

/* Makes steps [from, steps) again. `other`: why that can't be done; the first error is what counts. */
static void find(Train *t, uint64_t from, uint64_t steps, Err *err) {
    Err other = {0};
    GradientsShown shown = {.arena = t->arena};
    session_close(t->session);
    t->session = NULL;
    Session *session = train_open_shown(t, &shown, &other);
    bool goes_on = session && shown.list.count && train_borrow_batches(t, session, &other) &&
                   set_kept(t, session, &other);
    for (uint64_t at = from; goes_on && at < steps; at++) {
        batches_fill(&t->batches, at);
        demi_context_seed(session->context, train_step_seed(t, at));
        goes_on = session_run(session, &other) && leaves_finite(t, session, &shown, at, err);
    }
}

bool train_find_gradient(Train *t, uint64_t steps, Err *err) {
    const uint64_t from = last_good(t);
    if (err->code == ERR_MODEL && from < steps) find(t, from, steps, err);
    err_hint(err, "a smaller learning rate may keep it finite"); /* where there is no other yet */
    return false;
}
