// SPDX-License-Identifier: Apache-2.0
/* Keeping picks and giving them to another run; see picks.h. How far apart they are is
 * pick_margin.c's matter. */
#include "picks.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "error_fill.h"
#include "exec.h"
#include "op_record.h"
#include "pick_margin.h"
#include "step_replace.h"
#include "value_io.h"

void picks_init(Picks *picks, Arena *arena) {
    *picks = (Picks){.arena = arena};
    sym_table_init(&picks->names, arena);
}

/* ---- which steps pick ------------------------------------------------------------------------ */

/* The operator's record where it picks, else NULL. */
static const OpRecord *find_op(const char *domain, const char *op) {
    const OpRecord *record = op_record_find(domain, op);
    return record && record->pick ? record : NULL;
}

static bool is_whole(Dtype dtype) {
    return dtype_is_integer(dtype) || dtype == DTYPE_BOOL;
}

bool picks_are_made(const Session *s) {
    const LoadedPlan *loaded = demi_plan_loaded(s->plan);
    for (uint32_t i = 0; i < loaded->plan.step_count; i++) {
        const LoadedStep *step = &loaded->steps[i];
        const OpRecord *op = find_op(step->domain, step->op);
        if (!op || step->plan->outputs.count <= op->pick_out || step->plan->inputs.count == 0)
            continue;
        uint32_t from = step->inputs[0], to = step->outputs[op->pick_out];
        if (from != PLAN_NONE && to != PLAN_NONE &&
            dtype_is_float((Dtype)loaded->plan.values[from].dtype) &&
            is_whole((Dtype)loaded->plan.values[to].dtype))
            return true;
    }
    return false;
}

/* The pick of a step that chooses by floats; NULL for others. */
static const OpRecord *op_of(const DemiStep *step) {
    const OpRecord *op = find_op(step->domain, step->op_type);
    if (!op || op->pick_out >= step->output_count || step->input_count == 0) return NULL;
    const DemiData *from = &step->inputs[0], *to = &step->outputs[op->pick_out];
    bool picks = from->kind == DEMI_DATA_TENSOR_KIND && to->kind == DEMI_DATA_TENSOR_KIND &&
                 dtype_is_float((Dtype)from->dtype) && is_whole((Dtype)to->dtype);
    return picks && step->output_names[op->pick_out][0] ? op : NULL;
}

/* ---- keeping --------------------------------------------------------------------------------- */

static uint32_t name_of(Picks *picks, const char *name) {
    uint32_t number = sym_intern_cstr(&picks->names, name)->number;
    while (picks->first.count <= number) {
        VEC_PUSH(picks->arena, &picks->first, 0);
        VEC_PUSH(picks->arena, &picks->last, 0);
        VEC_PUSH(picks->arena, &picks->at, 0);
    }
    return number;
}

void picks_note(Picks *picks, const DemiStep *step) {
    const OpRecord *op = op_of(step);
    if (!op) return;
    uint32_t name = name_of(picks, step->output_names[op->pick_out]);
    Pick pick = {.value = value_copy(picks->arena, &step->outputs[op->pick_out])};
    for (size_t i = 0; op->pick == PICK_BOXES && i < PICK_FROM && i < step->input_count; i++)
        pick.from[i] = value_copy(picks->arena, &step->inputs[i]);
    VEC_PUSH(picks->arena, &picks->items, pick);
    size_t number = picks->items.count;
    if (picks->last.items[name])
        picks->items.items[picks->last.items[name] - 1].next = number;
    else
        picks->first.items[name] = number;
    picks->last.items[name] = number;
}

/* ---- giving ---------------------------------------------------------------------------------- */

void picks_begin(Picks *picks) {
    for (size_t i = 0; i < picks->at.count; i++) picks->at.items[i] = picks->first.items[i];
}

static const Pick *next_pick(Picks *picks, const char *name) {
    const uint32_t number = name_of(picks, name); /* which may move the items */
    size_t *at = &picks->at.items[number];
    const Pick *pick = *at ? &picks->items.items[*at - 1] : NULL;
    if (pick) *at = pick->next;
    return pick;
}

static bool same_bytes(const DemiData *a, const DemiData *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    uint64_t count = same ? value_count(a) : 0;
    return same &&
           (!count || memcmp(a->data, b->data, count * kernel_element_size((Dtype)a->dtype)) == 0);
}

/* Only how many there are may differ, and that only where the data decide it. */
static bool may_replace(const OpRecord *op, const DemiData *own, const DemiData *pick) {
    bool free = op->pick == PICK_BOXES || op->pick == PICK_NONZERO;
    bool same = own->dtype == pick->dtype && own->rank == pick->rank;
    for (uint32_t i = 0; same && !free && i < own->rank; i++) same = own->dims[i] == pick->dims[i];
    return same;
}

static void add_row(Picks *picks, PickRows *rows, const DemiStep *step, const DemiPick *found) {
    for (size_t i = 0; i < rows->count; i++) {
        DemiPick *row = &rows->items[i];
        if (strcmp(row->node, step->name) != 0) continue;
        row->count += found->count;
        row->same += found->same;
        if (!(found->margin <= row->margin)) row->margin = found->margin;
        return;
    }
    DemiPick row = *found;
    row.node = arena_copy(picks->arena, step->name, strlen(step->name));
    row.op_type = arena_copy(picks->arena, step->op_type, strlen(step->op_type));
    VEC_PUSH(picks->arena, rows, row);
}

bool picks_force(Picks *picks, Session *session, const DemiStep *step, PickRows *rows,
                 bool *replaced, Err *err) {
    const OpRecord *op = op_of(step);
    *replaced = false;
    if (!op) return true;
    const DemiData *own = &step->outputs[op->pick_out];
    const Pick *pick = next_pick(picks, step->output_names[op->pick_out]);
    if (!pick || !may_replace(op, own, &pick->value) || same_bytes(own, &pick->value)) return true;
    const LoadedStep *loaded = &demi_plan_loaded(session->plan)->steps[step->number];
    Arena scratch;
    arena_init(&scratch, picks->arena->trap);
    PickCase pc = {.kind = (OpPick)op->pick,
                   .step = step,
                   .pick = &pick->value,
                   .own = own,
                   .from = pick->from,
                   .scratch = &scratch,
                   .axis = exec_int_attr(loaded, "axis", op->pick == PICK_TOPK ? -1 : 0)};
    DemiPick row = {.margin = 0};
    pick_margin(&pc, &row);
    add_row(picks, rows, step, &row);
    *replaced = true;
    DemiData values = DEMI_DATA_INIT;
    bool ok = true;
    if (op->pick == PICK_TOPK && pick_values(&pc, &values))
        ok = step_replace(session->context, 0, &values, err);
    ok = ok && step_replace(session->context, op->pick_out, &pick->value, err);
    arena_free(&scratch);
    return ok;
}

double picks_margin(const PickRows *rows) {
    double margin = 0;
    for (size_t i = 0; i < rows->count; i++) margin = fmax(margin, rows->items[i].margin);
    return margin;
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct Watching {
    Picks *picks;
    Session *session;
    PickRows *rows; /* NULL: of the reference */
    Err err;
} Watching;

static void watch(void *user, const DemiStep *step) {
    Watching *w = user;
    bool replaced;
    if (w->err.code != ERR_NONE) return;
    if (w->rows)
        picks_force(w->picks, w->session, step, w->rows, &replaced, &w->err);
    else
        picks_note(w->picks, step);
}

static bool run(Watching *w, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    bool ok = error_take(err, demi_context_watch(w->session->context, watch, w, &error), &error);
    ok = ok && session_run(w->session, err);
    demi_context_watch(w->session->context, NULL, NULL, &error);
    if (ok && w->err.code != ERR_NONE) *err = w->err;
    return ok && w->err.code == ERR_NONE;
}

bool picks_run_reference(Picks *picks, Session *session, Err *err) {
    Watching w = {.picks = picks, .session = session};
    return run(&w, err);
}

bool picks_run(Picks *picks, Session *session, PickRows *rows, Err *err) {
    Watching w = {.picks = picks, .session = session, .rows = rows};
    picks_begin(picks);
    return run(&w, err);
}
