// SPDX-License-Identifier: Apache-2.0
/* Holding one run against another; see compare_runs.h. */
#include "compare_runs.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "dtype.h"
#include "error_fill.h"
#include "value_io.h"

void comparison_init(Comparison *c, Arena *arena, unsigned threads) {
    *c = (Comparison){.arena = arena, .workers = workers_new(arena, threads ? threads : 1)};
    sym_table_init(&c->names, arena);
    picks_init(&c->picks, arena);
}

static uint32_t name_of(Comparison *c, const char *name) {
    uint32_t number = sym_intern_cstr(&c->names, name)->number;
    while (c->first_of.count <= number) {
        VEC_PUSH(c->arena, &c->first_of, 0);
        VEC_PUSH(c->arena, &c->last_of, 0);
        VEC_PUSH(c->arena, &c->next_of, 0);
        VEC_PUSH(c->arena, &c->dtypes, 0);
    }
    return number;
}

static int32_t low_dtype(const DemiData *value) {
    Dtype dtype = (Dtype)value->dtype;
    bool low =
        value->kind == DEMI_DATA_TENSOR_KIND && dtype_is_float(dtype) && dtype_bits(dtype) < 32;
    return low ? value->dtype : 0;
}

/* ---- the reference --------------------------------------------------------------------------- */

/* Room for a copy beside the run. */
static bool reserve(Comparison *c, uint64_t bytes) {
    c->kept += bytes;
    return session_reserve(c->session, bytes) ||
           err_set(&c->err, ERR_ENV,
                   "the values of the reference need more memory than the limit of %llu bytes",
                   (unsigned long long)session_budget(c->session));
}

static void keep_value(Comparison *c, const char *text, const DemiData *value) {
    if (!text[0] || value->kind == DEMI_DATA_NONE) return;
    if (c->err.code != ERR_NONE || !reserve(c, value_bytes(value))) return;
    uint32_t name = name_of(c, text);
    ReferenceValue kept = {.value = value_copy(c->arena, value)};
    VEC_PUSH(c->arena, &c->reference, kept);
    size_t number = c->reference.count;
    if (c->last_of.items[name])
        c->reference.items[c->last_of.items[name] - 1].next = number;
    else
        c->first_of.items[name] = number;
    c->last_of.items[name] = number;
    c->low = c->low || low_dtype(value);
}

static void keep_step(void *user, const DemiStep *step) {
    Comparison *c = user;
    picks_note(&c->picks, step);
    c->quantized_reference = c->quantized_reference || step_dequantizes(step);
    for (size_t i = 0; i < step->output_count; i++)
        keep_value(user, step->output_names[i], &step->outputs[i]);
}

static bool watched_run(Comparison *c, Session *session, DemiStepFn step, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    return error_take(err, demi_context_watch(session->context, step, c, &error), &error) &&
           session_run(session, err) &&
           error_take(err, demi_context_watch(session->context, NULL, NULL, &error), &error);
}

/* Of the watched run, or else of what was done with its values. */
static bool watched(const Comparison *c, bool ran, Err *err) {
    if (ran && c->err.code != ERR_NONE) *err = c->err;
    return ran && c->err.code == ERR_NONE;
}

bool comparison_reference(Comparison *c, Session *session, Err *err) {
    c->session = session;
    return watched(c, watched_run(c, session, keep_step, err), err);
}

/* NAME.npy of the folder. */
static bool read_reference(Comparison *c, const char *name, const DemiData *like, DemiData *value) {
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
static bool take_reference(Comparison *c, uint32_t name, const DemiData *like, DemiData *value) {
    if (c->folder)
        return like->kind == DEMI_DATA_TENSOR_KIND &&
               read_reference(c, c->names.names[name]->text, like, value);
    size_t number = c->next_of.items[name];
    if (!number) return false;
    *value = c->reference.items[number - 1].value;
    c->next_of.items[name] = c->reference.items[number - 1].next;
    return true;
}

/* ---- the other run --------------------------------------------------------------------------- */

static void compare_value(Comparison *c, uint32_t name, const DemiData *value) {
    ComparedValue row = {.name = name, .step = c->steps.count};
    DemiData want;
    if (!c->names.names[name]->text[0] || value->kind == DEMI_DATA_NONE ||
        !take_reference(c, name, value, &want))
        return;
    const Tolerance tolerance = {
        .any_float = true, .ulp_of = c->dtypes.items[name], .workers = c->workers};
    row.dtype = value->dtype;
    row.dtype_reference = want.dtype;
    row.type = value_type_text(c->arena, value);
    value_compare(c->arena, value, &want, &tolerance, &row.diff);
    VEC_PUSH(c->arena, &c->values, row);
}

static const uint32_t *names_of(Comparison *c, const char *const *names, size_t count) {
    uint32_t *numbers = ARENA_ARRAY(c->arena, uint32_t, count + 1);
    for (size_t i = 0; i < count; i++) numbers[i] = name_of(c, names[i]);
    return numbers;
}

/* Which of its values are low; a Cast from a low type makes none, but what it makes has no more
 * places than that, wherever it is moved. */
static void note_types(Comparison *c, const DemiStep *step, ComparedStep *row) {
    bool cast = strcmp(step->op_type, "Cast") == 0;
    int32_t from = cast && step->input_count ? low_dtype(&step->inputs[0]) : 0;
    bool moves = op_record_gives(row->record, 0) || (row->record && row->record->pick == PICK_TOPK);
    if (!cast && step->input_count && moves) from = c->dtypes.items[row->inputs[0]];
    for (size_t i = 0; i < step->input_count; i++)
        row->low = row->low || (!cast && low_dtype(&step->inputs[i]));
    for (size_t i = 0; i < step->output_count; i++) {
        int32_t dtype = low_dtype(&step->outputs[i]);
        row->low = row->low || (!cast && dtype);
        c->dtypes.items[row->outputs[i]] = dtype ? dtype : from;
        if (dtype) c->low_type = dtype;
    }
    c->low = c->low || c->low_type;
    c->quantized = c->quantized || step_dequantizes(step);
}

static void compare_step(void *user, const DemiStep *step) {
    Comparison *c = user;
    ComparedStep row = {.name = arena_copy(c->arena, step->name, strlen(step->name)),
                        .op_type = arena_copy(c->arena, step->op_type, strlen(step->op_type)),
                        .record = op_record_find(step->domain, step->op_type),
                        .depth = step->depth,
                        .inputs = names_of(c, step->input_names, step->input_count),
                        .outputs = names_of(c, step->output_names, step->output_count),
                        .input_count = step->input_count,
                        .output_count = step->output_count,
                        .first = c->values.count};
    note_types(c, step, &row);
    bool replaced = false;
    if (c->err.code == ERR_NONE)
        picks_force(&c->picks, c->session, step, &c->picked, &replaced, &c->err);
    for (size_t i = 0; !replaced && i < step->output_count; i++)
        compare_value(c, row.outputs[i], &step->outputs[i]);
    row.count = c->values.count - row.first;
    VEC_PUSH(c->arena, &c->steps, row);
}

bool comparison_run(Comparison *c, Session *session, Err *err) {
    c->steps.count = c->values.count = c->picked.count = 0;
    c->low_type = 0;
    c->session = session;
    for (size_t i = 0; i < c->next_of.count; i++) c->next_of.items[i] = c->first_of.items[i];
    picks_begin(&c->picks);
    return watched(c, watched_run(c, session, compare_step, err), err);
}

const DemiDistance *comparison_output(const Comparison *c, const char *name) {
    Sym sym = sym_find(&c->names, name, strlen(name));
    for (size_t i = c->values.count; sym && i-- > 0;)
        if (c->values.items[i].name == sym->number) return &c->values.items[i].diff;
    return NULL;
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

static double error_of(const DemiDistance *diff) {
    return diff->mismatch || diff->special ? INFINITY : diff->error;
}

typedef struct Judging {
    const DemiLimit *limit;
    bool *bad;                  /* by name */
    double *errors, *distances; /* by name */
    size_t *makers;             /* by name: 1 + step */
} Judging;

static void judge_step(const Comparison *c, const Judging *j, size_t i) {
    ComparedStep *step = &c->steps.items[i];
    bool before = false;
    step->blamed = blame(c, i, j->makers);
    step->bad = step->origin = false;
    step->error = step->error_before = step->distance = 0;
    step->from = 0;
    double distance = 0;
    for (size_t k = 0; k < step->input_count; k++) {
        uint32_t name = step->inputs[k];
        before = before || j->bad[name];
        step->error_before = fmax(step->error_before, j->errors[name]);
        if (j->makers[name] && (!step->from || j->distances[name] > distance)) {
            distance = j->distances[name];
            step->from = j->makers[name];
        }
    }
    for (size_t k = 0; k < step->count; k++) {
        const DemiDistance *diff = &c->values.items[step->first + k].diff;
        step->bad = step->bad || demi_limit_beyond(j->limit, diff);
        step->error = fmax(step->error, error_of(diff));
        step->distance = fmax(step->distance, diff->mismatch ? INFINITY : diff->max_abs);
    }
    if (step->count == 0) { /* a cast between: what it reads says */
        step->bad = before;
        step->error = step->error_before;
        step->distance = distance;
    } else {
        step->origin = step->bad && !before;
    }
    for (size_t k = 0; k < step->output_count; k++) {
        j->bad[step->outputs[k]] = step->bad;
        j->errors[step->outputs[k]] = step->error;
        j->distances[step->outputs[k]] = step->distance;
        j->makers[step->outputs[k]] = i + 1;
    }
}

void comparison_judge(Comparison *c, const DemiLimit *limit) {
    const Judging j = {.limit = limit,
                       .bad = ARENA_ARRAY(c->arena, bool, c->names.count + 1),
                       .errors = ARENA_ARRAY(c->arena, double, c->names.count + 1),
                       .distances = ARENA_ARRAY(c->arena, double, c->names.count + 1),
                       .makers = ARENA_ARRAY(c->arena, size_t, c->names.count + 1)};
    for (size_t i = 0; i < c->steps.count; i++) judge_step(c, &j, i);
}
