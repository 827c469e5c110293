// SPDX-License-Identifier: Apache-2.0
/* demi_train: a training's step as a plan, run batch after batch; see demi_train.h.
 *
 * What a binding updates is carried from a run's output to the next one's input. It comes back into
 * the model when that is saved, and when the call ends; the memory that it comes back to is the
 * same each time. */
#include "demi_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batches.h"
#include "byte_buffer.h"
#include "clock.h"
#include "demi_call.h"
#include "demi_front.h"
#include "error_fill.h"
#include "model_source.h"
#include "session.h"
#include "training_marks.h"
#include "value_io.h"

enum { BATCH = 32 };
static const char STEP_PASSES[] =
    "infer-dtypes,infer-shapes,expand-gradient,join-training,infer-dtypes,infer-shapes";

/* What a binding updates. */
typedef struct Updated {
    Value *value;    /* of the caller's model: an initializer */
    size_t output;   /* of the step's plan */
    Tensor *tensor;  /* of `value` from the first save on; NULL before */
    const void *now; /* the output's bytes; while a save lasts */
    uint64_t size;
} Updated;

typedef struct Train {
    DemiModel *handle;
    Model *model;
    DemiTrainOptions options;
    SessionOptions how;
    DemiTrained trained;
    Arena *arena;
    Session *session;
    Batches batches;
    Updated *updated; /* [updated_count] */
    size_t updated_count;
    uint64_t first, steps; /* of this call: steps [first, steps) */
    double scale;          /* as DemiTrainStep has it */
} Train;

/* ---- marks ----------------------------------------------------------------------------------- */

/* NULL: none. */
static const char *mark_of(const Model *model, const char *key) {
    for (const KeyValue *entry = model->metadata; entry; entry = entry->next)
        if (sym_equals(entry->key, key)) return sym_text(entry->value);
    return NULL;
}

static KeyValue *new_mark(Model *model, const char *key, const char *value) {
    KeyValue *mark = ARENA_NEW(&model->arena, KeyValue);
    mark->key = sym_intern_cstr(&model->syms, key);
    mark->value = sym_intern_cstr(&model->syms, value);
    return mark;
}

/* In the place of one with its key, if there is one. */
static void put_mark(Model *model, KeyValue *mark) {
    KeyValue **at = &model->metadata;
    while (*at && !sym_equals((*at)->key, sym_text(mark->key))) at = &(*at)->next;
    mark->next = *at ? (*at)->next : NULL;
    *at = mark;
}

/* What decides which samples a step has. */
static const char *run_text(const Train *t) {
    return arena_printf(
        t->arena, "%llu samples, batch %llu, %s %llu", (unsigned long long)t->batches.samples,
        (unsigned long long)t->batches.batch, t->batches.in_order ? "in order, seed" : "seed",
        (unsigned long long)t->batches.seed);
}

static bool find_place(Train *t, Err *err) {
    const DemiTrainOptions *o = &t->options;
    const char *steps = mark_of(t->model, TRAINING_STEPS_KEY);
    const char *before = mark_of(t->model, TRAINING_RUN_KEY), *now = run_text(t);
    const uint64_t epochs = o->epochs ? o->epochs : 1;
    t->steps = o->steps ? o->steps : epochs * batches_steps(&t->batches);
    t->first = steps ? strtoull(steps, NULL, 10) : 0;
    t->trained.steps = t->first;
    t->trained.loss = NAN;
    if (!steps || !before || strcmp(before, now) == 0) return true;
    err_set(err, ERR_USAGE, "its %llu steps were of other data, or of another order",
            (unsigned long long)t->first);
    err_expected(err, "%s", before);
    err_actual(err, "%s", now);
    return false;
}

/* ---- the step -------------------------------------------------------------------------------- */

/* In the copy: a constant of the step, which its plan has folded. */
static bool set_rate(const Train *t, DemiModel *copy, MemTrap *trap, Err *err) {
    Model *model = demi_front_lend(copy, trap);
    const Graph *algorithm = model->training.items[0]->algorithm;
    if (!t->options.rate) return true;
    const double wide = *t->options.rate;
    const float narrow = (float)wide;
    for (size_t i = 0; i < algorithm->initializers.count; i++) {
        Value *value = algorithm->initializers.items[i];
        const Dtype dtype = (Dtype)value->init->dtype;
        if (!sym_equals(value->name, "learning_rate") || value->init->rank) continue;
        if (dtype != DTYPE_FLOAT && dtype != DTYPE_DOUBLE) break;
        const void *number = dtype == DTYPE_FLOAT ? (const void *)&narrow : &wide;
        const uint64_t size = dtype == DTYPE_FLOAT ? sizeof narrow : sizeof wide;
        Tensor *made = tensor_new_raw(&model->arena, dtype, NULL, 0, number, size);
        made->name = value->init->name;
        value_set_init(value, made);
        return true;
    }
    return err_set(err, ERR_USAGE, "its training has no initializer 'learning_rate' of one float");
}

/* A copy of the model becomes the step's plan: passes would change the caller's. */
static bool open_step(Train *t, Err *err) {
    Arena *within = arena_child(t->arena);
    ByteBuffer room = {.arena = within};
    DemiModel **copy = model_hold(within);
    DemiError error = DEMI_ERROR_INIT;
    DemiStatus status = demi_save_callback(t->handle, byte_buffer_write, &room, NULL, &error);
    byte_buffer_end(&room);
    bool ok = error_take(err, status, &error);
    if (ok) {
        status = demi_load_memory(room.bytes.items, room.bytes.count, NULL, copy, &error);
        ok = error_take(err, status, &error) && set_rate(t, *copy, within->trap, err);
    }
    if (ok) {
        status = demi_run_pipeline(*copy, STEP_PASSES, NULL, NULL, &error);
        ok = error_take(err, status, &error);
    }
    t->session = session_new(t->arena, &t->how);
    t->session->path = "the step";
    ok = ok && session_open_model(t->session, t->arena, *copy, err);
    model_drop(copy);
    arena_free(within);
    return ok;
}

/* Outputs are the algorithm's and then the updates, in the order of the bindings (join-training). */
static bool carry_updates(Train *t, Err *err) {
    const TrainingInfo *info = t->model->training.items[0];
    const size_t count = info->update_bindings.count, results = info->algorithm->outputs.count;
    if (!count) return err_set(err, ERR_MODEL, "its training updates nothing (update_binding)");
    if (!results)
        return err_set(err, ERR_MODEL, "its training has no output, which would be the loss");
    t->updated = ARENA_ARRAY(t->arena, Updated, count);
    t->updated_count = count;
    for (size_t i = 0; i < count; i++) {
        DemiError error = DEMI_ERROR_INIT;
        Value *value = info->update_bindings.items[i].key.value;
        t->updated[i] = (Updated){.value = value, .output = results + i};
        const DemiStatus status =
            demi_context_carry(t->session->context, t->session->outputs[results + i].name,
                               sym_text(value->name), &error);
        if (!error_take(err, status, &error)) return false;
    }
    return true;
}

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
        return err_set(err, ERR_USAGE, "the model's batch is %llu, and can't be %llu",
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
            return err_set(err, ERR_USAGE, "there are no data for input '%s' (%s)",
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
    err_set(err, ERR_USAGE, "data '%s' are no input's", name);
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
    if (!choose_batch(t, err) || !check_inputs(t, err) || !batches_begin(&t->batches, err))
        return false;
    for (size_t i = 0; i < t->batches.count; i++) {
        DemiError error = DEMI_ERROR_INIT;
        const BatchData *item = &t->batches.items[i];
        const DemiStatus status =
            demi_context_borrow_input(t->session->context, item->name, &item->batch, &error);
        if (!error_take(err, status, &error)) return false;
    }
    return true;
}

/* ---- what was trained ------------------------------------------------------------------------ */

/* Memory for an update that was made. */
static bool ready_update(Train *t, Updated *updated, Err *err) {
    const DemiData *now = demi_context_output(t->session->context, updated->output);
    const Tensor *init = updated->value->init;
    const uint64_t size = tensor_raw_size(init);
    uint64_t given = 0;
    if (!now || now->kind != DEMI_DATA_TENSOR_KIND || now->dtype != (int32_t)init->dtype ||
        !dtype_bytes((Dtype)now->dtype, value_count(now), &given) || given != size)
        return err_set(err, now ? ERR_MODEL : ERR_ENV,
                       now ? "the update of '%s' is of another type or size"
                           : "no memory for the update of '%s'",
                       sym_text(updated->value->name));
    updated->now = now->data;
    updated->size = size;
    if (updated->tensor) return true;
    updated->tensor = tensor_new_raw(&t->model->arena, (Dtype)init->dtype, init->dims, init->rank,
                                     now->data, size);
    updated->tensor->name = init->name;
    return true;
}

/* The model becomes what `steps` steps made of it, all of it or nothing: what can fail comes first. */
static bool take_updates(Train *t, uint64_t steps, Err *err) {
    for (size_t i = 0; i < t->updated_count; i++)
        if (!ready_update(t, &t->updated[i], err)) return false;
    KeyValue *made = new_mark(t->model, TRAINING_STEPS_KEY,
                              arena_printf(t->arena, "%llu", (unsigned long long)steps));
    KeyValue *run = new_mark(t->model, TRAINING_RUN_KEY, run_text(t));
    for (size_t i = 0; i < t->updated_count; i++) {
        const Updated *updated = &t->updated[i];
        memcpy((void *)(uintptr_t)updated->tensor->bytes, updated->now, (size_t)updated->size);
        value_set_init(updated->value, updated->tensor);
    }
    put_mark(t->model, made);
    put_mark(t->model, run);
    model_touch(t->model);
    return true;
}

static bool save(Train *t, uint64_t steps, Err *err) {
    if (!take_updates(t, steps, err)) return false;
    const bool saved = !t->options.save || t->options.save(t->options.save_user, t->handle, steps);
    demi_front_lend(t->handle, t->arena->trap); /* who saves it had it meanwhile */
    return saved || err_set(err, ERR_ENV, "what %llu steps trained can't be written",
                            (unsigned long long)steps);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool read_loss(Train *t, uint64_t step, Err *err) {
    const DemiData *loss = demi_context_output(t->session->context, 0);
    if (!loss || loss->kind != DEMI_DATA_TENSOR_KIND || value_count(loss) != 1 ||
        !dtype_is_float((Dtype)loss->dtype))
        return err_set(err, ERR_MODEL,
                       "its training's first output is no number, which the loss is");
    t->trained.loss = value_item(loss, 0);
    if (isfinite(t->trained.loss)) return true;
    err_set(err, ERR_MODEL, "the loss of step %llu is %s", (unsigned long long)step + 1,
            isnan(t->trained.loss) ? "NaN" : "infinite");
    err_hint(err, "a smaller learning rate may keep it finite");
    return false;
}

/* What the step leaves as the next one's. */
static void read_scale(Train *t) {
    for (size_t i = 0; i < t->updated_count; i++) {
        const Updated *updated = &t->updated[i];
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
                                .samples_per_second = now->samples_per_second};
    return t->options.progress(t->options.progress_user, &told);
}

static bool run_steps(Train *t, Err *err) {
    const double started = clock_seconds();
    const uint64_t every = t->options.every;
    bool goes_on = true;
    uint64_t step = t->first;
    for (; step < t->steps && goes_on; step++) {
        batches_fill(&t->batches, step);
        if (!session_run(t->session, err)) {
            err_hint(err, "it is step %llu that fails", (unsigned long long)step + 1);
            return false;
        }
        if (!read_loss(t, step, err)) return false;
        read_scale(t);
        goes_on = tell(t, step, started);
        if (every && (step + 1) % every == 0 && step + 1 < t->steps && goes_on &&
            !save(t, step + 1, err))
            return false;
    }
    t->trained.ended_early = !goes_on && step < t->steps;
    return step == t->first || save(t, step, err);
}

static bool check_model(const Train *t, Err *err) {
    if (!t->model->training.count) {
        err_set(err, ERR_MODEL, "it has no training_info");
        err_hint(err, "the pass make-training gives it one");
        return false;
    }
    if (t->model->training.count > 1)
        return err_set(err, ERR_MODEL, "it has %zu trainings, and one is wanted",
                       t->model->training.count);
    return t->model->training.items[0]->algorithm ||
           err_set(err, ERR_MODEL, "its training has no algorithm");
}

static void train_body(Call *call, void *data) {
    Train *t = data;
    Err *err = &call->err;
    t->arena = &call->scratch; /* which ends with the call, however that does */
    t->model = demi_front_lend(t->handle, &call->trap);
    bool ok = check_model(t, err) && open_step(t, err) && carry_updates(t, err) &&
              take_data(t, err) && find_place(t, err);
    demi_front_lend(t->handle, &call->trap); /* other calls had it meanwhile */
    if (ok) run_steps(t, err);
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
    const DemiStatus status = call_run(&call, train_body, &t, error);
    if (trained) {
        const uint32_t size = trained->size < sizeof t.trained ? trained->size : sizeof t.trained;
        t.trained.size = trained->size;
        memcpy(trained, &t.trained, size);
    }
    return status;
}
