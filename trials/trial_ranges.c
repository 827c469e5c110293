// SPDX-License-Identifier: Apache-2.0
/* What values a model's own runs reach, for calibration; see trial.h. Ends are found in one sweep
 * over the sets; where they are not all that counts, a second one counts what lies between them. */
#include <math.h>
#include <string.h>

#include "dtype.h"
#include "error_fill.h"
#include "sym.h"
#include "trial.h"
#include "value_histogram.h"
#include "value_io.h"

/* What is smaller is far from the end of any 16-bit type's range, whatever the margin. */
static const double LEAST_RANGE = 64;

typedef struct Range {
    ValueEnds ends;            /* as magnitudes: of [-most, most] */
    ValueHistogram *histogram; /* of the second sweep; NULL: its ends are all that counts */
    bool made;                 /* by a step, which notes it each time */
    bool input;
    bool noted; /* in the sweep at hand, or the set of an input */
} Range;

typedef struct Ranges {
    const DemiCalibrateOptions *options;
    Arena *arena;
    Workers *workers;
    SymTable names;
    VEC(Range) items; /* by name's number */
    bool counts;      /* it is the second sweep */
} Ranges;

static Range *range_of(Ranges *ranges, const char *name) {
    Sym sym = sym_intern_cstr(&ranges->names, name);
    while (sym->number >= ranges->items.count)
        VEC_PUSH(ranges->arena, &ranges->items, (Range){.ends = VALUE_NO_ENDS});
    return &ranges->items.items[sym->number];
}

static void note(Ranges *ranges, Range *range, const DemiData *value) {
    if (value->kind != DEMI_DATA_TENSOR_KIND || !dtype_is_float((Dtype)value->dtype)) return;
    if (ranges->options->ends && value->dtype != DTYPE_FLOAT) return;
    range->noted = true;
    if (ranges->counts) {
        if (range->histogram) value_histogram_add(range->histogram, value);
        return;
    }
    ValueEnds ends;
    if (ranges->options->ends) {
        ends = value_ends(value, ranges->workers);
    } else {
        const double most = value_largest(value, ranges->workers);
        ends = (ValueEnds){-most, most};
    }
    range->ends = value_ends_join(range->ends, ends);
}

/* What a step reads was made by another, is an input, or a constant: of the last two each is looked
 * at once a model, inputs once a set. */
static void note_step(void *user, const DemiStep *step) {
    Ranges *ranges = user;
    for (size_t i = 0; i < step->input_count; i++) {
        Range *range = step->input_names[i][0] ? range_of(ranges, step->input_names[i]) : NULL;
        if (range && !range->made && !range->noted) note(ranges, range, &step->inputs[i]);
    }
    for (size_t i = 0; i < step->output_count; i++) {
        if (!step->output_names[i][0]) continue;
        Range *range = range_of(ranges, step->output_names[i]);
        range->made = true;
        note(ranges, range, &step->outputs[i]);
    }
}

/* An input differs from set to set. */
static void forget_inputs(Ranges *ranges, const Session *s) {
    for (size_t i = 0; i < s->input_count; i++) {
        Range *range = range_of(ranges, s->inputs[i].name);
        range->input = true;
        range->noted = false;
    }
}

static bool run_sets(Trials *t, Ranges *ranges, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    Session *s = t->reference;
    const bool twice = ranges->options->method != DEMI_CALIBRATION_MINMAX && ranges->options->ends;
    const size_t before = ranges->counts ? t->count : 0, all = twice ? 2 * t->count : t->count;
    for (size_t i = 0; i < ranges->items.count; i++) ranges->items.items[i].noted = false;
    bool ok = error_take(err, demi_context_watch(s->context, note_step, ranges, &error), &error);
    for (size_t i = 0; ok && i < t->count; i++) {
        ok = progress_tell(&t->progress, "calibrating", before + i, all, err) &&
             trials_watch_set(t, i, err);
        forget_inputs(ranges, s);
    }
    demi_context_watch(s->context, NULL, NULL, &error);
    return ok;
}

/* Values that have something between their ends. */
static void begin_counting(Ranges *ranges) {
    ranges->counts = true;
    for (size_t i = 0; i < ranges->items.count; i++) {
        Range *range = &ranges->items.items[i];
        const double width = range->ends.high - range->ends.low;
        if (!isfinite(width) || !((float)width > 0) || !isfinite(1 / (float)(width / VALUE_BINS)))
            continue;
        range->histogram = ARENA_NEW(ranges->arena, ValueHistogram);
        range->histogram->ends = range->ends;
    }
}

static bool is_listed(const Ranges *ranges, const Range *range) {
    if (range->ends.low > range->ends.high) return false;
    /* constants are not quantized as values are */
    return ranges->options->ends ? range->made || range->input : range->ends.high >= LEAST_RANGE;
}

static DemiRange listed(const Ranges *ranges, const Range *range) {
    const ValueChoice choice = {ranges->options->method, ranges->options->percentile,
                                ranges->options->levels, ranges->options->symmetric};
    ValueEnds ends = range->ends;
    DemiRange item = {.most = fmax(-ends.low, ends.high)};
    if (range->histogram) ends = value_histogram_choose(range->histogram, &choice);
    item.low = ends.low;
    item.high = ends.high;
    return item;
}

bool trials_ranges(Trials *t, const DemiCalibrateOptions *options, Arena *arena, RangeList *list,
                   Err *err) {
    Ranges ranges = {.options = options, .arena = arena_child(arena)};
    ranges.workers = workers_new(ranges.arena, t->reference->threads);
    sym_table_init(&ranges.names, ranges.arena);
    bool ok = run_sets(t, &ranges, err);
    if (ok && options->ends && options->method != DEMI_CALIBRATION_MINMAX) {
        begin_counting(&ranges);
        ok = run_sets(t, &ranges, err);
    }
    for (size_t i = 0; ok && i < ranges.items.count; i++) {
        const char *name = ranges.names.names[i]->text;
        if (!is_listed(&ranges, &ranges.items.items[i])) continue;
        DemiRange range = listed(&ranges, &ranges.items.items[i]);
        range.name = arena_copy(arena, name, strlen(name));
        VEC_PUSH(arena, list, range);
    }
    arena_free(ranges.arena);
    return ok;
}
