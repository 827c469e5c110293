// SPDX-License-Identifier: Apache-2.0
/* Watching runs for the ends of values; see value_ends.h. */
#include "value_ends.h"

#include <math.h>
#include <string.h>

#include "error_fill.h"
#include "sym.h"
#include "value_io.h"

typedef struct Watching {
    SymTable names;
    VEC(ValueEnds *) ends; /* by name */
} Watching;

static void note(const Watching *w, const char *name, const DemiData *value) {
    const Sym sym = name[0] ? sym_find(&w->names, name, strlen(name)) : NULL;
    if (!sym || value->kind != DEMI_DATA_TENSOR_KIND || value->dtype != DEMI_FLOAT) return;
    ValueEnds *ends = w->ends.items[sym->number];
    const float *items = value->data;
    float low = INFINITY, high = -INFINITY;
    for (uint64_t i = 0, count = value_count(value); i < count; i++) {
        low = items[i] < low ? items[i] : low;
        high = items[i] > high ? items[i] : high;
    }
    ends->low = fmin(ends->low, (double)low);
    ends->high = fmax(ends->high, (double)high);
}

static void note_step(void *user, const DemiStep *step) {
    for (size_t i = 0; step->depth == 0 && i < step->output_count; i++)
        note(user, step->output_names[i], &step->outputs[i]);
}

static bool run_set(const Watching *w, Trials *trials, size_t set, Err *err) {
    const Session *s = trials->reference;
    if (!progress_tell(&trials->progress, "calibrating", set, trials->count, err) ||
        !trials_bind(trials, set, err) || !session_run(trials->reference, err))
        return false;
    for (size_t i = 0; i < s->input_count; i++)
        if (s->given[i]) note(w, s->inputs[i].name, &s->values[i]);
    trials_end_set(trials, set);
    return true;
}

bool value_ends_measure(const Groups *groups, uint32_t value_count, Trials *trials,
                        ValueEnds **found, Arena *arena, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    Arena *within = arena_child(arena);
    Watching w = {.ends = {0}};
    ValueEnds *ends = *found = ARENA_ARRAY(arena, ValueEnds, value_count);
    sym_table_init(&w.names, within);
    for (uint32_t i = 0; i < value_count; i++) ends[i] = (ValueEnds){INFINITY, -INFINITY};
    for (uint32_t g = 0; g < groups->count; g++)
        for (size_t i = 0; i < groups->items[g].values.count; i++) {
            const Value *value = groups->items[g].values.items[i];
            sym_intern_cstr(&w.names, value->name->text);
            VEC_PUSH(within, &w.ends, &ends[value->id]); /* names are different */
        }
    DemiContext *context = trials->reference->context;
    bool ok = error_take(err, demi_context_watch(context, note_step, &w, &error), &error);
    for (size_t set = 0; ok && set < trials->count; set++) ok = run_set(&w, trials, set, err);
    demi_context_watch(context, NULL, NULL, NULL);
    arena_free(within);
    return ok;
}
