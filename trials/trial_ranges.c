// SPDX-License-Identifier: Apache-2.0
/* What values a model's own runs reach, for calibration; see trial.h. */
#include <math.h>
#include <string.h>

#include "dtype.h"
#include "error_fill.h"
#include "sym.h"
#include "trial.h"
#include "value_io.h"

/* What is smaller is far from the end of any range, whatever the margin. */
static const double LEAST_RANGE = 64;

typedef struct Range {
    double most;
    bool made; /* by a step, which notes it each time */
} Range;

typedef struct Ranges {
    Arena *arena;
    Workers *workers;
    SymTable names;
    VEC(Range) items; /* by name's number */
} Ranges;

static Range *range_of(Ranges *ranges, const char *name) {
    Sym sym = sym_intern_cstr(&ranges->names, name);
    while (sym->number >= ranges->items.count)
        VEC_PUSH(ranges->arena, &ranges->items, (Range){.most = -1});
    return &ranges->items.items[sym->number];
}

static void note(Ranges *ranges, Range *range, const DemiData *value) {
    if (value->kind != DEMI_DATA_TENSOR_KIND || !dtype_is_float((Dtype)value->dtype)) return;
    range->most = fmax(range->most, value_largest(value, ranges->workers));
}

/* What a step reads was made by another, is an input, or a constant: of the last two each is looked
 * at once a model, inputs once a set. */
static void note_step(void *user, const DemiStep *step) {
    Ranges *ranges = user;
    for (size_t i = 0; i < step->input_count; i++) {
        Range *range = step->input_names[i][0] ? range_of(ranges, step->input_names[i]) : NULL;
        if (range && !range->made && range->most < 0) note(ranges, range, &step->inputs[i]);
    }
    for (size_t i = 0; i < step->output_count; i++) {
        if (!step->output_names[i][0]) continue;
        Range *range = range_of(ranges, step->output_names[i]);
        range->made = true;
        note(ranges, range, &step->outputs[i]);
    }
}

/* An input differs from set to set. */
static void forget_inputs(Ranges *ranges, const Session *s, double *most) {
    for (size_t i = 0; i < s->input_count; i++) {
        Range *range = range_of(ranges, s->inputs[i].name);
        most[i] = fmax(most[i], range->most);
        range->most = -1;
    }
}

static bool run_sets(Trials *t, Ranges *ranges, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    Session *s = t->reference;
    double *most = ARENA_ARRAY(ranges->arena, double, s->input_count + 1);
    bool ok = error_take(err, demi_context_watch(s->context, note_step, ranges, &error), &error);
    for (size_t i = 0; ok && i < t->count; i++) {
        ok = progress_tell(&t->progress, "calibrating", i, t->count, err) &&
             trials_watch_set(t, i, err);
        forget_inputs(ranges, s, most);
    }
    for (size_t i = 0; i < s->input_count; i++) range_of(ranges, s->inputs[i].name)->most = most[i];
    demi_context_watch(s->context, NULL, NULL, &error);
    return ok;
}

bool trials_ranges(Trials *t, Arena *arena, RangeList *list, Err *err) {
    Ranges ranges = {.arena = arena_child(arena)};
    ranges.workers = workers_new(ranges.arena, t->reference->threads);
    sym_table_init(&ranges.names, ranges.arena);
    bool ok = run_sets(t, &ranges, err);
    for (size_t i = 0; ok && i < ranges.items.count; i++) {
        const char *name = ranges.names.names[i]->text;
        DemiRange range = {.most = ranges.items.items[i].most};
        if (!(range.most >= LEAST_RANGE)) continue;
        range.name = arena_copy(arena, name, strlen(name));
        VEC_PUSH(arena, list, range);
    }
    arena_free(ranges.arena);
    return ok;
}
