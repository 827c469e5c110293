// SPDX-License-Identifier: Apache-2.0
/* Holding one run against another; see compare_runs.h. */
#include "compare_runs.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "dtype.h"
#include "value_io.h"

static const Tolerance any_float = {.any_float = true};

void comparison_init(Comparison *c, Arena *arena) {
    *c = (Comparison){.arena = arena};
    sym_table_init(&c->names, arena);
}

static uint32_t name_of(Comparison *c, const char *name) {
    uint32_t number = sym_intern_cstr(&c->names, name)->number;
    while (c->first_of.count <= number) {
        VEC_PUSH(c->arena, &c->first_of, 0);
        VEC_PUSH(c->arena, &c->last_of, 0);
    }
    return number;
}

static void note_type(Comparison *c, const DemiData *value) {
    if (value->kind != DEMI_DATA_TENSOR_KIND) return;
    c->low =
        c->low || (dtype_is_float((Dtype)value->dtype) && dtype_bits((Dtype)value->dtype) < 32);
}

/* ---- the reference --------------------------------------------------------------------------- */

static void keep_value(Comparison *c, const char *text, const DemiData *value) {
    if (!text[0] || value->kind == DEMI_DATA_NONE) return;
    uint32_t name = name_of(c, text);
    ReferenceValue kept = {.value = value_copy(c->arena, value)};
    VEC_PUSH(c->arena, &c->reference, kept);
    size_t number = c->reference.count;
    if (c->last_of.items[name])
        c->reference.items[c->last_of.items[name] - 1].next = number;
    else
        c->first_of.items[name] = number;
    c->last_of.items[name] = number;
    note_type(c, value);
}

static void keep_step(void *user, const DemiStep *step) {
    for (size_t i = 0; i < step->output_count; i++)
        keep_value(user, step->output_names[i], &step->outputs[i]);
}

static bool watched_run(Comparison *c, Session *session, DemiStepFn step, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    return console_check(demi_context_watch(session->context, step, c, &error), &error, err) &&
           session_bind(session, err) && session_run(session, err) &&
           console_check(demi_context_watch(session->context, NULL, NULL, &error), &error, err);
}

bool comparison_reference(Comparison *c, Session *session, Err *err) {
    return watched_run(c, session, keep_step, err);
}

/* NAME.npy of the folder. */
static bool read_reference(Comparison *c, const char *name, const DemiData *like,
                           DemiData *value) {
    struct stat status;
    DemiPlanIo io = DEMI_PLAN_IO_INIT;
    const char *path =
        arena_printf(c->arena, "%s/%s.npy", c->folder, value_file_name(c->arena, name));
    io.name = name;
    io.kind = DEMI_DATA_TENSOR_KIND;
    io.dtype = like->dtype;
    return stat(path, &status) == 0 && value_read_file(c->arena, path, &io, value, &c->err);
}

/* The reference's next value of that name. */
static bool take_reference(Comparison *c, uint32_t name, const DemiData *like, DemiData *value,
                           ReferenceValue **kept) {
    *kept = NULL;
    if (c->folder)
        return like->kind == DEMI_DATA_TENSOR_KIND &&
               read_reference(c, c->names.names[name]->text, like, value);
    size_t number = c->first_of.items[name];
    if (!number) return false;
    *kept = &c->reference.items[number - 1];
    *value = (*kept)->value;
    c->first_of.items[name] = (*kept)->next;
    return true;
}

/* ---- the other run --------------------------------------------------------------------------- */

/* A value is held against once. */
static void give_back(Comparison *c, const ReferenceValue *kept) {
    if (!kept || kept->value.kind != DEMI_DATA_TENSOR_KIND || kept->value.dtype == DEMI_STRING)
        return;
    size_t size = value_count(&kept->value) * ((dtype_bits((Dtype)kept->value.dtype) + 7) / 8);
    if (size) arena_release(c->arena, (void *)(uintptr_t)kept->value.data, size + 1);
}

static void compare_value(Comparison *c, uint32_t name, const DemiData *value) {
    ComparedValue row = {.name = name, .step = c->steps.count};
    DemiData want;
    ReferenceValue *kept;
    if (!c->names.names[name]->text[0] || value->kind == DEMI_DATA_NONE ||
        !take_reference(c, name, value, &want, &kept))
        return;
    row.dtype = value->dtype;
    row.dtype_reference = want.dtype;
    row.type = value_type_text(c->arena, value);
    value_compare(c->arena, value, &want, &any_float, &row.diff);
    VEC_PUSH(c->arena, &c->values, row);
    give_back(c, kept);
}

static const uint32_t *names_of(Comparison *c, const char *const *names, size_t count) {
    uint32_t *numbers = ARENA_ARRAY(c->arena, uint32_t, count + 1);
    for (size_t i = 0; i < count; i++) numbers[i] = name_of(c, names[i]);
    return numbers;
}

static void compare_step(void *user, const DemiStep *step) {
    Comparison *c = user;
    ComparedStep row = {.name = arena_copy(c->arena, step->name, strlen(step->name)),
                        .op_type = arena_copy(c->arena, step->op_type, strlen(step->op_type)),
                        .depth = step->depth,
                        .inputs = names_of(c, step->input_names, step->input_count),
                        .outputs = names_of(c, step->output_names, step->output_count),
                        .input_count = step->input_count,
                        .output_count = step->output_count,
                        .first = c->values.count};
    for (size_t i = 0; i < step->output_count; i++) {
        note_type(c, &step->outputs[i]);
        compare_value(c, row.outputs[i], &step->outputs[i]);
    }
    row.count = c->values.count - row.first;
    VEC_PUSH(c->arena, &c->steps, row);
}

bool comparison_run(Comparison *c, Session *session, Err *err) {
    if (!watched_run(c, session, compare_step, err)) return false;
    if (c->err.code == ERR_NONE) return true;
    *err = c->err;
    return false;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* A conversion leaves `y` to a Cast of its own and calls what the node makes otherwise: the node is
 * to blame, not that Cast, which the unconverted model has not. */
static size_t blame(const Comparison *c, size_t i, const size_t *makers) {
    const ComparedStep *step = &c->steps.items[i];
    if (strcmp(step->op_type, "Cast") != 0 || step->input_count == 0) return i;
    size_t maker = makers[step->inputs[0]];
    return maker && c->steps.items[maker - 1].count == 0 ? c->steps.items[maker - 1].blamed : i;
}

void comparison_judge(Comparison *c, const Limit *limit) {
    bool *bad = ARENA_ARRAY(c->arena, bool, c->names.count + 1);
    size_t *makers = ARENA_ARRAY(c->arena, size_t, c->names.count + 1); /* 1 + step */
    for (size_t i = 0; i < c->steps.count; i++) {
        ComparedStep *step = &c->steps.items[i];
        bool before = false;
        step->blamed = blame(c, i, makers);
        step->bad = false;
        for (size_t k = 0; k < step->input_count; k++) before = before || bad[step->inputs[k]];
        for (size_t k = 0; k < step->count; k++)
            step->bad =
                step->bad || limit_beyond(limit, &c->values.items[step->first + k].diff);
        if (step->count == 0)
            step->bad = before; /* a cast between: what it reads says */
        else
            step->origin = step->bad && !before;
        for (size_t k = 0; k < step->output_count; k++) {
            bad[step->outputs[k]] = step->bad;
            makers[step->outputs[k]] = i + 1;
        }
    }
}
