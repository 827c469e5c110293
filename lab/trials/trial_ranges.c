// SPDX-License-Identifier: Apache-2.0
/* Calibration; see trial.h: what values reach (range_watch.h), which part of that makes a difference
 * (useful_ends.h), and which of it levels are worth (value_histogram.h). */
#include <math.h>
#include <string.h>

#include "demi_front.h"
#include "model_source.h"
#include "range_watch.h"
#include "trial_fit.h"
#include "useful_ends.h"

/* What is smaller is far from the end of any 16-bit type's range, whatever the margin. */
static const double LEAST_RANGE = 64;

static GraphList graphs_of(DemiModel *model, Arena *arena) {
    return model_graphs(demi_front_model(model), arena);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static bool ends_of(const void *user, const Value *value, UsefulEnds *ends) {
    const WatchedRanges *ranges = user;
    const Sym sym = sym_find(&ranges->names, value->name->text, value->name->length);
    if (!sym || sym->number >= ranges->items.count) return false;
    const ValueEnds found = ranges->items.items[sym->number].values.ends;
    *ends = (UsefulEnds){found.low, found.high};
    return found.low < found.high && isfinite(found.low) && isfinite(found.high);
}

/* Of a graph's values. */
static void find_limits(WatchedRanges *ranges, const Graph *graph) {
    const UsefulQuestion question = {ends_of, ranges, (double)ranges->options->levels};
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++) {
            UsefulEnds ends;
            const Value *value = node->outputs[i];
            if (!value || !ends_of(ranges, value, &ends)) continue;
            useful_ends(&question, value, &ends);
            watched_range(ranges, value->name->text)->limits = (ValueEnds){ends.low, ends.high};
        }
}

static bool read_limits(Trials *t, WatchedRanges *ranges, Err *err) {
    Arena *within = arena_child(ranges->counter.arena);
    DemiModel **model = model_hold(within);
    const bool ok = model_open(&t->source, model, err);
    if (ok) {
        const GraphList graphs = graphs_of(*model, within);
        for (size_t i = 0; i < graphs.count; i++) find_limits(ranges, graphs.items[i]);
    }
    model_drop(model);
    arena_free(within);
    return ok;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static void list_any(const Value *value, Arena *arena, RangeList *list) {
    if (!value || !value->name->length) return;
    const DemiRange any = {value->name->text, 1, -1, 1, NAN};
    VEC_PUSH(arena, list, any);
}

/* A range for everything that is computed or given. Names are the model's. */
static RangeList any_ranges(DemiModel *model, Arena *arena) {
    const GraphList graphs = graphs_of(model, arena);
    RangeList list = {0};
    for (size_t g = 0; g < graphs.count; g++) {
        const Graph *graph = graphs.items[g];
        for (size_t i = 0; i < graph->inputs.count; i++)
            list_any(graph->inputs.items[i], arena, &list);
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                list_any(node->outputs[i], arena, &list);
    }
    return list;
}

static void take_wanted(WatchedRanges *ranges, DemiModel *model, Arena *arena) {
    const GraphList graphs = graphs_of(model, arena);
    for (size_t g = 0; g < graphs.count; g++)
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node))
            if (sym_equals(node->op_type, "QuantizeLinear") && node->inputs[0].value)
                watched_range(ranges, node->inputs[0].value->name->text)->wanted = true;
}

/* Which values a conversion quantizes does not hang on how far they reach: it is asked before. */
static bool find_wanted(Trials *t, WatchedRanges *ranges, Err *err) {
    Arena *within = arena_child(ranges->counter.arena);
    DemiModel **model = model_hold(within);
    bool ok = model_open(&t->source, model, err);
    if (ok) {
        const RangeList any = any_ranges(*model, within);
        ok = trials_sketch(t, ranges->options->convert, &any, *model, err);
        if (ok) take_wanted(ranges, *model, within);
    }
    model_drop(model);
    arena_free(within);
    return ok;
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool is_listed(const WatchedRanges *ranges, const WatchedRange *range) {
    const ValueEnds ends = range->values.ends;
    if (ends.low > ends.high) return false;
    /* constants are not quantized as values are */
    return ranges->options->ends ? range->made || range->input : ends.high >= LEAST_RANGE;
}

typedef struct Choosing {
    const WatchedRanges *ranges;
    ValueChoice choice;
    ValueEnds *chosen; /* [items.count] */
} Choosing;

static void choose_task(void *data, unsigned task, unsigned lane) {
    const Choosing *c = data;
    const WatchedRange *range = &c->ranges->items.items[task];
    (void)lane;
    if (is_listed(c->ranges, range))
        c->chosen[task] = value_histogram_choose(&range->values, &c->choice, range->limits);
}

static void list_ranges(const WatchedRanges *ranges, DemiCalibration method, Arena *arena,
                        RangeList *list) {
    const DemiCalibrateOptions *options = ranges->options;
    const size_t count = ranges->items.count;
    Choosing choosing = {ranges,
                         {method, options->percentile, options->levels, options->symmetric},
                         ARENA_ARRAY(ranges->counter.arena, ValueEnds, count + 1)};
    if (count) workers_run(ranges->counter.workers, (unsigned)count, choose_task, &choosing);
    for (size_t i = 0; i < count; i++) {
        const WatchedRange *range = &ranges->items.items[i];
        const char *name = ranges->names.names[i]->text;
        if (!is_listed(ranges, range)) continue;
        const ValueEnds ends = range->values.ends;
        const DemiRange item = {.name = arena_copy(arena, name, strlen(name)),
                                .most = fmax(-ends.low, ends.high),
                                .low = choosing.chosen[i].low,
                                .high = choosing.chosen[i].high,
                                .mean = value_histogram_mean(&range->values)};
        VEC_PUSH(arena, list, item);
    }
}

/* The method whose ranges make a conversion that is the closest on these sets. */
static bool list_best(Trials *t, const WatchedRanges *ranges, Arena *arena, Calibrated *found,
                      Err *err) {
    static const DemiCalibration methods[] = {DEMI_CALIBRATION_MINMAX, DEMI_CALIBRATION_MSE};
    enum { METHODS = sizeof methods / sizeof *methods };
    double least = INFINITY;
    bool ok = true;
    for (int i = 0; ok && i < METHODS; i++) {
        RangeList list = {0};
        double noise;
        list_ranges(ranges, methods[i], arena, &list);
        ok = progress_tell(&t->progress, "trying ranges", (size_t)i, METHODS, err) &&
             trials_fit(t, ranges->options->convert, &list, &noise, err);
        if (!ok || (i && !(noise < least))) continue;
        least = noise;
        found->list = list;
        found->method = methods[i];
    }
    return ok;
}

bool trials_ranges(Trials *t, const DemiCalibrateOptions *options, Arena *arena, Calibrated *found,
                   Err *err) {
    Arena *within = arena_child(arena);
    const bool best = options->method == DEMI_CALIBRATION_BEST;
    WatchedRanges ranges = watched_ranges_new(options, within, t->reference->threads);
    const bool selects =
        options->ends && options->convert && options->method != DEMI_CALIBRATION_MINMAX;
    bool ok = (!selects || find_wanted(t, &ranges, err)) &&
              watched_ranges_measure(&ranges, t, selects, best, err) &&
              (!options->ends || read_limits(t, &ranges, err));
    found->method = options->method;
    if (ok && best)
        ok = list_best(t, &ranges, arena, found, err);
    else if (ok)
        list_ranges(&ranges, options->method, arena, &found->list);
    if (best) trials_forget(t);
    arena_free(within);
    return ok;
}

bool trials_ranges_of(Trials *t, const DemiCalibrateOptions *options, const RangeWidths *widths,
                      Arena *arena, RangeList *lists, Err *err) {
    Arena *within = arena_child(arena);
    DemiCalibrateOptions width = *options;
    WatchedRanges ranges = watched_ranges_new(&width, within, t->reference->threads);
    for (size_t i = 0; i < widths->wanted->count; i++)
        watched_range(&ranges, widths->wanted->items[i])->wanted = true;
    bool ok = watched_ranges_measure(&ranges, t, true, true, err);
    for (size_t i = 0; ok && i < widths->count; i++) {
        width.levels = widths->levels[i];
        ok = read_limits(t, &ranges, err);
        if (ok) list_ranges(&ranges, options->method, arena, &lists[i]);
    }
    arena_free(within);
    return ok;
}
