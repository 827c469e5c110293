// SPDX-License-Identifier: Apache-2.0
/* demi_train: a training's step as a plan, run batch after batch; see demi_train.h.
 *
 * What a binding updates is carried from a run's output to the next one's input. It comes back into
 * the model when that is saved, and when the call ends; the memory that it comes back to is the
 * same each time. */
#include "demi_train.h"

#include <math.h>
#include <string.h>

#include "clock.h"
#include "demi_call.h"
#include "demi_front.h"
#include "error_fill.h"
#include "source.h"
#include "train.h"
#include "value_io.h"

enum { BATCH = 32 };

/* ---- data ------------------------------------------------------------------------------------ */

/* The size of axis 0 where an input that gets data has one; 0: it is open in all. */
static bool fixed_batch(const Train *t, uint64_t *batch, Err *err) {
    *batch = 0;
    for (size_t i = 0; i < t->options.data_count; i++) {
        const size_t input = session_input(t->session, t->options.names[i]);
        const DemiPlanIo *io = &t->session->inputs[input];
        if (input == t->session->input_count || !io->rank || io->dims[0] < 0) continue;
        if (*batch && *batch != (uint64_t)io->dims[0])
            return err_set(err, ERR_MODEL, "its inputs have batches of different sizes");
        *batch = (uint64_t)io->dims[0];
    }
    return true;
}

static bool choose_batch(Train *t, Err *err) {
    const uint64_t wanted = t->options.batch;
    uint64_t fixed;
    if (!fixed_batch(t, &fixed, err)) return false;
    if (fixed && wanted && fixed != wanted)
        return err_set(err, ERR_USAGE, "the model's batch size is %llu, and cannot be %llu",
                       (unsigned long long)fixed, (unsigned long long)wanted);
    t->batches.batch = fixed ? fixed : wanted ? wanted : BATCH;
    return true;
}

/* Every input that has no default. */
static bool check_inputs(const Train *t, Err *err) {
    const Session *s = t->session;
    for (size_t i = 0; i < s->input_count; i++) {
        bool given = s->inputs[i].has_default;
        for (size_t k = 0; k < t->batches.count; k++)
            given = given || strcmp(t->batches.items[k].name, s->inputs[i].name) == 0;
        if (!given)
            return err_set(err, ERR_USAGE, "there is no data for input '%s' (%s)",
                           s->inputs[i].name, value_io_text(t->arena, &s->inputs[i]));
    }
    return true;
}

static bool no_input(const Train *t, const char *name, Err *err) {
    const char *wanted = "";
    for (size_t i = 0; i < t->session->input_count; i++) {
        const DemiPlanIo *io = &t->session->inputs[i];
        if (!io->has_default)
            wanted = arena_printf(t->arena, "%s%s%s %s", wanted, *wanted ? ", " : "", io->name,
                                  value_io_text(t->arena, io));
    }
    err_set(err, ERR_USAGE, "array '%s' matches no input", name);
    err_expected(err, "%s", wanted);
    return false;
}

static bool take_data(Train *t, Err *err) {
    const DemiTrainOptions *o = &t->options;
    t->batches.arena = t->arena;
    t->batches.seed = o->seed;
    t->batches.in_order = o->in_order;
    for (size_t i = 0; i < o->data_count; i++) {
        const size_t input = session_input(t->session, o->names[i]);
        if (input == t->session->input_count) return no_input(t, o->names[i], err);
        if (!batches_add(&t->batches, o->names[i], &o->data[i], &t->session->inputs[input], err))
            return false;
    }
    return choose_batch(t, err) && check_inputs(t, err) && batches_begin(&t->batches, err) &&
           train_borrow_batches(t, t->session, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* "the loss", or which one. */
static const char *loss_name(const Train *t, size_t i) {
    return t->loss_count == 1 ? "the loss" : arena_printf(t->arena, "loss %zu", i + 1);
}

static bool read_loss(Train *t, size_t i, uint64_t step, Err *err) {
    const DemiData *loss = demi_context_output(t->session->context, t->losses_at[i]);
    if (!loss || loss->kind != DEMI_DATA_TENSOR_KIND || value_count(loss) != 1 ||
        !dtype_is_float((Dtype)loss->dtype))
        return err_set(err, ERR_MODEL,
                       "the first output of its training is not a number, which %s must be",
                       loss_name(t, i));
    t->losses[i] = value_item(loss, 0);
    if (i == 0) t->trained.loss = t->losses[0];
    if (isfinite(t->losses[i])) return true;
    return err_set(err, ERR_MODEL, "%s of step %llu is %s", loss_name(t, i),
                   (unsigned long long)step + 1, isnan(t->losses[i]) ? "NaN" : "infinite");
}

static bool read_losses(Train *t, uint64_t step, Err *err) {
    bool ok = true;
    for (size_t i = 0; ok && i < t->loss_count; i++) ok = read_loss(t, i, step, err);
    return ok;
}

/* What the step leaves as the next one's. */
static void read_scale(Train *t) {
    for (size_t i = 0; i < t->updated.count; i++) {
        const Updated *updated = &t->updated.items[i];
        if (!sym_equals(updated->value->name, "loss_scale")) continue;
        const DemiData *now = demi_context_output(t->session->context, updated->output);
        if (now && now->kind == DEMI_DATA_TENSOR_KIND && value_count(now) == 1)
            t->scale = value_item(now, 0);
    }
}

static bool tell(Train *t, uint64_t step, double started) {
    DemiTrained *now = &t->trained;
    now->steps = step + 1;
    now->seconds = clock_seconds() - started;
    now->samples_per_second =
        now->seconds > 0 ? (double)((step + 1 - t->first) * t->batches.batch) / now->seconds : 0;
    if (!t->options.progress) return true;
    const DemiTrainStep told = {.size = sizeof told,
                                .step = step + 1,
                                .steps = t->steps,
                                .epoch = step / batches_steps(&t->batches) + 1,
                                .loss = now->loss,
                                .scale = t->scale,
                                .seconds = now->seconds,
                                .samples_per_second = now->samples_per_second,
                                .losses = t->losses,
                                .loss_count = t->loss_count};
    return t->options.progress(t->options.progress_user, &told);
}

/* False where the run fails. */
static bool run_step(Train *t, uint64_t step, Err *err) {
    batches_fill(&t->batches, step);
    demi_context_seed(t->session->context, train_step_seed(t, step));
    if (session_run(t->session, err)) return true;
    err_hint(err, "step %llu fails", (unsigned long long)step + 1);
    return false;
}

static bool save(Train *t, uint64_t steps, Err *err) {
    return train_check(t, steps, err) ? train_save(t, steps, err)
                                      : train_find_gradient(t, steps, err);
}

static bool run_steps(Train *t, Err *err) {
    const double started = clock_seconds();
    const uint64_t every = t->options.every;
    bool goes_on = true;
    uint64_t step = t->first;
    for (; step < t->steps && goes_on; step++) {
        const bool last = step + 1 == t->steps;
        if (!run_step(t, step, err)) return false;
        if (!read_losses(t, step, err)) return train_find_gradient(t, step, err);
        read_scale(t);
        goes_on = tell(t, step, started);
        if (last || !goes_on) continue;
        const bool saves = every && (step + 1) % every == 0;
        if (saves ? !save(t, step + 1, err) : !train_keep(t, step + 1, err)) return false;
    }
    t->trained.ended_early = !goes_on && step < t->steps;
    return step == t->first || save(t, step, err);
}

static bool check_model(const Train *t, Err *err) {
    if (!t->model->training.count) {
        err_set(err, ERR_MODEL, "it has no training_info");
        err_hint(err, "the pass make-training adds one");
        return false;
    }
    for (size_t i = 0; i < t->model->training.count; i++)
        if (t->model->training.items[i]->algorithm) return true;
    return err_set(err, ERR_MODEL, "its training has no algorithm");
}

static void train_body(Call *call, void *data) {
    Train *t = data;
    Err *err = &call->err;
    t->arena = &call->scratch; /* which ends with the call, however that does */
    t->model = demi_front_lend(t->handle, &call->trap);
    const Source *source = t->model->source;
    if (!check_model(t, err))
        err_file(err, source ? source->name : "model");
    else if (train_initialize(t, err) && train_open_step(t, err) && take_data(t, err) &&
             train_find_place(t, err) && train_check_first(t, err))
        run_steps(t, err);
}

DemiStatus demi_train(DemiModel *model, const DemiTrainOptions *options, DemiTrained *trained,
                      DemiError *error) {
    Call call = {0};
    Train t = {.handle = model,
               .options = DEMI_TRAIN_OPTIONS_INIT,
               .how = {.compile = DEMI_COMPILE_OPTIONS_INIT,
                       .context = DEMI_CONTEXT_OPTIONS_INIT,
                       .inputs = DEMI_INPUT_OPTIONS_INIT},
               .trained = DEMI_TRAINED_INIT};
    options_copy(&call, &t.options, sizeof t.options, options);
    options_copy(&call, &t.how.compile, sizeof t.how.compile, t.options.compile);
    options_copy(&call, &t.how.context, sizeof t.how.context, t.options.context);
    demi_front_is_whole(model, &call.err);
    const DemiStatus status = call_run(&call, train_body, &t, error);
    if (status != DEMI_OK && !t.saved) train_take_back(&t);
    if (trained) {
        const uint32_t size = trained->size < sizeof t.trained ? trained->size : sizeof t.trained;
        t.trained.size = trained->size;
        memcpy(trained, &t.trained, size);
    }
    return status;
}
