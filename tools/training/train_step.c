// SPDX-License-Identifier: Apache-2.0
/* Plans of a training: of its step and of its initialization, each of a copy of the model, which passes
 * change. */
#include <string.h>

#include "byte_buffer.h"
#include "demi_front.h"
#include "error_fill.h"
#include "model_source.h"
#include "train.h"
#include "value_names.h"

typedef struct Plan {
    const char *passes, *name;
} Plan;

static const Plan the_step = {
    "infer-dtypes,infer-shapes,expand-gradient,join-training,infer-dtypes,infer-shapes",
    "the step"};
static const Plan the_initialization = {
    "infer-dtypes,infer-shapes,join-training{part=initialization},infer-dtypes,infer-shapes",
    "the initialization"};

/* ---- plans ----------------------------------------------------------------------------------- */

/* False where there is none of one float. */
static bool set_rate_in(Model *model, const Graph *algorithm, double rate) {
    const float narrow = (float)rate;
    for (size_t i = 0; algorithm && i < algorithm->initializers.count; i++) {
        Value *value = algorithm->initializers.items[i];
        const Dtype dtype = (Dtype)value->init->dtype;
        if (!sym_equals(value->name, "learning_rate") || value->init->rank) continue;
        if (dtype != DTYPE_FLOAT && dtype != DTYPE_DOUBLE) return false;
        const void *number = dtype == DTYPE_FLOAT ? (const void *)&narrow : &rate;
        const uint64_t size = dtype == DTYPE_FLOAT ? sizeof narrow : sizeof rate;
        Tensor *made = tensor_new_raw(&model->arena, dtype, NULL, 0, number, size);
        made->name = value->init->name;
        value_set_init(value, made);
        return true;
    }
    return false;
}

/* In the copy: a constant of the step, which its plan has folded. */
static bool set_rate(const Train *t, DemiModel *copy, MemTrap *trap, Err *err) {
    Model *model = demi_front_lend(copy, trap);
    bool any = false;
    if (!t->options.rate) return true;
    for (size_t i = 0; i < model->training.count; i++)
        any |= set_rate_in(model, model->training.items[i]->algorithm, *t->options.rate);
    return any ||
           err_set(err, ERR_USAGE, "its training has no initializer 'learning_rate' of one float");
}

/* The Gradients' results become outputs of their algorithms, behind the others, the last parameter's
 * first: that is about the order in which they are computed. Element types are known. */
static void show_gradients(Model *model, GradientsShown *shown) {
    size_t output = 0;
    for (size_t i = 0; i < model->training.count; i++) {
        Graph *graph = model->training.items[i]->algorithm;
        for (const Node *node = graph ? graph->first : NULL; node; node = node_after(node)) {
            if (node->graph != graph || !node_names_values(node)) continue;
            for (uint32_t k = node->output_count; k-- > 0;) {
                const Value *x = k < node->input_count ? node->inputs[k].value : NULL;
                if (!x || !node->outputs[k] || !x->type) continue;
                ValueDecl *decl = ARENA_NEW(&model->arena, ValueDecl);
                decl->type = x->type;
                graph_add_output(graph, node->outputs[k], decl);
                const GradientShown gradient = {
                    arena_copy(shown->arena, sym_text(x->name), strlen(sym_text(x->name))),
                    output + graph->outputs.count - 1};
                VEC_PUSH(shown->arena, &shown->list, gradient);
            }
        }
        output += graph ? graph->outputs.count : 0;
    }
    model_touch(model);
}

static bool show(DemiModel *copy, GradientsShown *shown, MemTrap *trap, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    if (!shown) return true;
    const DemiStatus status = demi_run_pipeline(copy, "infer-dtypes", NULL, NULL, &error);
    if (!error_take(err, status, &error)) return false;
    show_gradients(demi_front_lend(copy, trap), shown);
    return true;
}

/* NULL with the error set. `shown`: NULL, or gradients are outputs, too. */
static Session *open_plan(Train *t, const Plan *what, GradientsShown *shown, Err *err) {
    Arena *within = arena_child(t->arena);
    ByteBuffer room = {.arena = within};
    DemiModel **copy = model_hold(within);
    DemiError error = DEMI_ERROR_INIT;
    DemiStatus status = demi_save_callback(t->handle, byte_buffer_write, &room, NULL, &error);
    byte_buffer_end(&room);
    bool ok = error_take(err, status, &error);
    if (ok) {
        status = demi_load_memory(room.bytes.items, room.bytes.count, NULL, copy, &error);
        ok = error_take(err, status, &error) && set_rate(t, *copy, within->trap, err) &&
             show(*copy, shown, within->trap, err);
    }
    if (ok) {
        status = demi_run_pipeline(*copy, what->passes, NULL, NULL, &error);
        ok = error_take(err, status, &error);
    }
    Session *session = session_new(t->arena, &t->how);
    session->path = what->name;
    ok = ok && session_open_model(session, t->arena, copy, err);
    model_drop(copy);
    arena_free(within);
    demi_front_lend(t->handle, t->arena->trap); /* saving had it meanwhile */
    return ok ? session : NULL;
}

/* ---- bindings -------------------------------------------------------------------------------- */

/* What bindings of all trainings give, each once, in their order: outputs from `output` on
 * (join-training). In `arena`. */
static UpdatedList bound(const Train *t, bool algorithm, size_t output, Arena *arena) {
    UpdatedList list = {0};
    bool *seen = ARENA_ARRAY(t->arena, bool, t->model->value_count + 1);
    for (size_t i = 0; i < t->model->training.count; i++) {
        const TrainingInfo *info = t->model->training.items[i];
        const TrainingBinding *items =
            algorithm ? info->update_bindings.items : info->initialization_bindings.items;
        const size_t count =
            algorithm ? info->update_bindings.count : info->initialization_bindings.count;
        const bool there = algorithm ? info->algorithm : info->initialization;
        for (size_t k = 0; there && k < count; k++) {
            Value *value = items[k].key.value;
            if (seen[value->id]) continue;
            seen[value->id] = true;
            const Updated updated = {.value = value, .output = output + list.count};
            VEC_PUSH(arena, &list, updated);
        }
    }
    return list;
}

/* ---- the initialization ---------------------------------------------------------------------- */

uint64_t train_step_seed(const Train *t, uint64_t step) {
    uint64_t x =
        t->options.seed * UINT64_C(0x9e3779b97f4a7c15) + step; /* splitmix64 (Steele 2014) */
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static bool take_initialized(Train *t, const Session *session, Updated *updated, Err *err) {
    const void *bytes = train_output_bytes(session, updated, err);
    const Tensor *init = updated->value->init;
    if (!bytes) return false;
    Tensor *made = tensor_new_raw(&t->model->arena, (Dtype)init->dtype, init->dims, init->rank,
                                  bytes, tensor_raw_size(init));
    made->name = init->name;
    updated->first = init;
    value_set_init(updated->value, made);
    return true;
}

bool train_initialize(Train *t, Err *err) {
    bool any = false;
    for (size_t i = 0; i < t->model->training.count; i++)
        any = any || t->model->training.items[i]->initialization;
    if (!any || t->options.keep_weights || train_steps_behind(t)) return true;
    Session *session = open_plan(t, &the_initialization, NULL, err);
    if (!session) return false;
    t->initialized = bound(t, false, 0, &t->model->arena); /* it outlives a call that fails */
    for (size_t i = 0; i < session->input_count; i++)
        if (!session->inputs[i].has_default)
            return err_set(err, ERR_MODEL, "its initialization reads '%s', which is undefined",
                           session->inputs[i].name);
    demi_context_seed(session->context, train_step_seed(t, UINT64_MAX));
    bool ok = session_run(session, err);
    for (size_t i = 0; ok && i < t->initialized.count; i++)
        ok = take_initialized(t, session, &t->initialized.items[i], err);
    session_close(session);
    model_touch(t->model);
    return ok;
}

void train_take_back(Train *t) {
    for (size_t i = 0; i < t->initialized.count; i++) {
        const Updated *updated = &t->initialized.items[i];
        if (updated->first) value_set_init(updated->value, updated->first);
    }
    if (t->initialized.count) model_touch(t->model);
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Of each training the first output; and how many outputs there are before the updates. */
static size_t find_losses(Train *t) {
    size_t outputs = 0;
    t->losses = ARENA_ARRAY(t->arena, double, t->model->training.count);
    t->losses_at = ARENA_ARRAY(t->arena, size_t, t->model->training.count);
    for (size_t i = 0; i < t->model->training.count; i++) {
        const Graph *algorithm = t->model->training.items[i]->algorithm;
        if (algorithm && algorithm->outputs.count) t->losses_at[t->loss_count++] = outputs;
        if (algorithm) outputs += algorithm->outputs.count;
    }
    return outputs;
}

/* What is updated are the last inputs, in the order of the updates, which are the last outputs
 * (join-training). */
static bool carry_updates(const Train *t, const Session *s, Err *err) {
    const size_t before = s->input_count - t->updated.count;
    const size_t first = s->output_count - t->updated.count;
    for (size_t i = 0; i < t->updated.count; i++) {
        DemiError error = DEMI_ERROR_INIT;
        const DemiStatus status = demi_context_carry(s->context, s->outputs[first + i].name,
                                                     s->inputs[before + i].name, &error);
        if (!error_take(err, status, &error)) return false;
    }
    return true;
}

bool train_open_step(Train *t, Err *err) {
    t->updated = bound(t, true, find_losses(t), t->arena);
    if (!t->updated.count)
        return err_set(err, ERR_MODEL, "its training updates nothing (update_binding)");
    if (!t->loss_count) return err_set(err, ERR_MODEL, "its training has no output for the loss");
    t->session = open_plan(t, &the_step, NULL, err);
    return t->session && carry_updates(t, t->session, err);
}

Session *train_open_shown(Train *t, GradientsShown *shown, Err *err) {
    Session *session = open_plan(t, &the_step, shown, err);
    return session && carry_updates(t, session, err) ? session : NULL;
}

bool train_borrow_batches(const Train *t, const Session *session, Err *err) {
    for (size_t i = 0; i < t->batches.count; i++) {
        DemiError error = DEMI_ERROR_INIT;
        const BatchData *item = &t->batches.items[i];
        const DemiStatus status =
            demi_context_borrow_input(session->context, item->name, &item->batch, &error);
        if (!error_take(err, status, &error)) return false;
    }
    return true;
}
