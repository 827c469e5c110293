// SPDX-License-Identifier: Apache-2.0
/* What steps made comes back into the model: parameters, the optimizer's state, and marks in its
 * metadata that say how many steps it has behind it, on which samples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demi_front.h"
#include "hash64.h"
#include "source.h"
#include "train.h"
#include "training_marks.h"
#include "value_io.h"

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

/* Whatever the order in which arrays were given. */
static uint64_t hash_of_data(const Batches *batches) {
    uint64_t sum = 0;
    for (size_t i = 0; i < batches->count; i++) {
        const BatchData *item = &batches->items[i];
        const uint64_t name = hash64_bytes(item->name, strlen(item->name), 0);
        sum += hash64_bytes(item->all.data, (size_t)(item->sample * batches->samples), name);
    }
    return sum;
}

/* What decides which samples a step has. */
static const char *run_text(Train *t) {
    if (!t->run)
        t->run = arena_printf(
            t->arena, "%llu samples, batch %llu, %s %llu, data %016llx",
            (unsigned long long)t->batches.samples, (unsigned long long)t->batches.batch,
            t->batches.in_order ? "in order, seed" : "seed", (unsigned long long)t->batches.seed,
            (unsigned long long)hash_of_data(&t->batches));
    return t->run;
}

uint64_t train_steps_behind(const Train *t) {
    const char *steps = mark_of(t->model, TRAINING_STEPS_KEY);
    return steps ? strtoull(steps, NULL, 10) : 0;
}

bool train_find_place(Train *t, Err *err) {
    const DemiTrainOptions *o = &t->options;
    const char *before = mark_of(t->model, TRAINING_RUN_KEY), *now = run_text(t);
    const uint64_t epochs = o->epochs ? o->epochs : 1;
    t->steps = o->steps ? o->steps : epochs * batches_steps(&t->batches);
    t->first = t->saved_at = train_steps_behind(t);
    t->trained.steps = t->first;
    t->trained.loss = NAN;
    if (!mark_of(t->model, TRAINING_STEPS_KEY) || !before || strcmp(before, now) == 0) return true;
    if (!strstr(before, ", data ") && strncmp(before, now, strlen(before)) == 0)
        return true; /* of a version that did not look at the data */
    err_set(err, ERR_USAGE, "its %llu steps used other data, or another order",
            (unsigned long long)t->first);
    err_expected(err, "%s", before);
    err_actual(err, "%s", now);
    return false;
}

/* ---- saving ---------------------------------------------------------------------------------- */

const void *train_output_bytes(const Session *session, const Updated *updated, Err *err) {
    const DemiData *now = demi_context_output(session->context, updated->output);
    const Tensor *init = updated->value->init;
    uint64_t given = 0;
    if (now && now->kind == DEMI_DATA_TENSOR_KIND && now->dtype == (int32_t)init->dtype &&
        dtype_bytes((Dtype)now->dtype, value_count(now), &given) && given == tensor_raw_size(init))
        return now->data;
    err_set(err, now ? ERR_MODEL : ERR_ENV,
            now ? "the update of '%s' has a different type or size"
                : "not enough memory for the update of '%s'",
            sym_text(updated->value->name));
    return NULL;
}

uint64_t train_count_not_finite(Dtype dtype, const void *data, uint64_t size) {
    uint64_t count = 0; /* of those whose exponent is all ones */
    const uint16_t *halves = data;
    const uint32_t *singles = data;
    const uint64_t *doubles = data, ones = UINT64_C(0x7ff0000000000000);
    uint64_t inf = 0;
    if (dtype_is_reduced(dtype) && dtype_from_double(dtype, HUGE_VAL, &inf))
        for (uint64_t i = 0; i < size / 2; i++) count += (halves[i] & inf) == inf;
    if (dtype == DTYPE_FLOAT)
        for (uint64_t i = 0; i < size / 4; i++) count += (singles[i] & 0x7f800000) == 0x7f800000;
    if (dtype == DTYPE_DOUBLE)
        for (uint64_t i = 0; i < size / 8; i++) count += (doubles[i] & ones) == ones;
    return count;
}

/* Where a gradient has overflowed, the loss says so a step later only. */
bool train_check(Train *t, uint64_t steps, Err *err) {
    for (size_t i = 0; i < t->updated.count; i++) {
        const Updated *updated = &t->updated.items[i];
        const Tensor *init = updated->value->init;
        const void *now = train_output_bytes(t->session, updated, err);
        if (!now) return false;
        const uint64_t bad = train_count_not_finite((Dtype)init->dtype, now, tensor_raw_size(init));
        if (!bad) continue;
        err_set(err, ERR_MODEL, "after %llu steps %llu of %llu values of '%s' are not finite",
                (unsigned long long)steps, (unsigned long long)bad,
                (unsigned long long)tensor_count(init), sym_text(updated->value->name));
        return false;
    }
    return true;
}

bool train_check_first(const Train *t, Err *err) {
    enum { ROOM = 1 << 16 };
    uint8_t *room = arena_alloc(t->arena, ROOM);
    for (size_t i = 0; i < t->updated.count; i++) {
        const Value *value = t->updated.items[i].value;
        const uint64_t size = tensor_raw_size(value->init);
        uint64_t bad = 0;
        for (uint64_t at = 0; at < size; at += ROOM) {
            const uint64_t part = size - at < ROOM ? size - at : ROOM;
            if (!tensor_read_raw(value->init, at, room, part, err)) return false;
            bad += train_count_not_finite((Dtype)value->init->dtype, room, part);
        }
        if (!bad) continue;
        err_set(err, ERR_MODEL, "%llu of %llu values of '%s' are not finite before the first step",
                (unsigned long long)bad, (unsigned long long)tensor_count(value->init),
                sym_text(value->name));
        return false;
    }
    return true;
}

/* Memory for an update that was made. */
static bool ready_update(Train *t, Updated *updated, Err *err) {
    const Tensor *init = updated->value->init;
    updated->now = train_output_bytes(t->session, updated, err);
    updated->size = tensor_raw_size(init);
    if (!updated->now) return false;
    if (updated->tensor) return true;
    updated->tensor = tensor_new_raw(&t->model->arena, (Dtype)init->dtype, init->dims, init->rank,
                                     updated->now, updated->size);
    updated->tensor->name = init->name;
    return true;
}

/* All of it or nothing: what can fail comes first. */
static bool take_updates(Train *t, uint64_t steps, Err *err) {
    for (size_t i = 0; i < t->updated.count; i++)
        if (!ready_update(t, &t->updated.items[i], err)) return false;
    KeyValue *from = NULL;
    uint64_t hash[2];
    if (!train_steps_behind(t) && t->model->source) {
        if (!source_hash(t->model->source, t->arena, hash, err)) return false;
        from = new_mark(t->model, TRAINING_FROM_KEY,
                        arena_printf(t->arena, TRAINING_FROM_FORMAT, (unsigned long long)hash[0],
                                     (unsigned long long)hash[1]));
    }
    KeyValue *made = new_mark(t->model, TRAINING_STEPS_KEY,
                              arena_printf(t->arena, "%llu", (unsigned long long)steps));
    KeyValue *run = new_mark(t->model, TRAINING_RUN_KEY, run_text(t));
    for (size_t i = 0; i < t->updated.count; i++) {
        const Updated *updated = &t->updated.items[i];
        memcpy((void *)(uintptr_t)updated->tensor->bytes, updated->now, (size_t)updated->size);
        value_set_init(updated->value, updated->tensor);
    }
    put_mark(t->model, made);
    put_mark(t->model, run);
    if (from) put_mark(t->model, from);
    model_touch(t->model);
    t->saved = true;
    t->saved_at = steps;
    return true;
}

bool train_save(Train *t, uint64_t steps, Err *err) {
    if (!take_updates(t, steps, err)) return false;
    const bool saved = !t->options.save || t->options.save(t->options.save_user, t->handle, steps);
    demi_front_lend(t->handle, t->arena->trap); /* who saves it had it meanwhile */
    return saved || err_set(err, ERR_ENV, "cannot write the result of %llu steps",
                            (unsigned long long)steps);
}
