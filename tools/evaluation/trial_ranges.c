// SPDX-License-Identifier: Apache-2.0
/* Calibration; see trial.h: what values reach (range_watch.h), which part of that makes a difference
 * (clipping_range.h), and which of it levels are worth (value_histogram.h). */
#include <math.h>
#include <string.h>

#include "demi_front.h"
#include "model_source.h"
#include "op_types.h"
#include "qdq_drift.h"
#include "qdq_plan.h"
#include "qdq_scale.h"
#include "range_share.h"
#include "trial_equalized.h"
#include "trial_fit.h"
#include "clipping_range.h"

/* What is smaller is far from the end of any 16-bit type's range, whatever the margin. */
static const double LEAST_RANGE = 64;

static const char TRYING[] = "trying ranges";

/* By how much whole ranges must be closer: about 1 dB. What two runtimes make of one conversion differs by
 * as much, and where it decides nothing, finer steps are the safer ones. */
static const double CLEARLY = 1.25;

enum { METHOD_TRIALS = 2 * DEMI_CALIBRATION_BEST, WHOLE_TRIALS = 2 };

static GraphList graphs_of(DemiModel *model, Arena *arena) {
    return model_graphs(demi_front_model(model), arena);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static bool ends_of(const void *user, const Value *value, ClippingRange *ends) {
    const WatchedRanges *ranges = user;
    const Sym sym = sym_find(&ranges->names, value->name->text, value->name->length);
    if (!sym || sym->number >= ranges->items.count) return false;
    const ValueRange found = ranges->items.items[sym->number].values.ends;
    *ends = (ClippingRange){found.low, found.high};
    return found.low < found.high && isfinite(found.low) && isfinite(found.high);
}

/* Of a graph's values. */
static void find_limits(WatchedRanges *ranges, const Graph *graph) {
    const UsefulQuestion question = {ends_of, ranges, (double)ranges->options->levels};
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++) {
            ClippingRange ends;
            const Value *value = node->outputs[i];
            if (!value || !ends_of(ranges, value, &ends)) continue;
            clipping_range(&question, value, &ends);
            watched_range(ranges, value->name->text)->limits = (ValueRange){ends.low, ends.high};
        }
}

static bool read_limits(Trials *t, WatchedRanges *ranges, Err *err) {
    Arena *within = arena_child(ranges->arena);
    DemiModel **model = model_hold(within);
    const bool ok = model_open(&t->measured, model, err);
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
    const DemiRange any = {.name = value->name->text, .most = 1, .low = -1, .high = 1};
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

/* What the value is made from by a node of that kind, else NULL. */
static Value *made_by(Value *value, const char *op) {
    const Node *node = value ? value->producer : NULL;
    return node && sym_equals(node->op_type, op) ? node->inputs[0].value : NULL;
}

/* The value itself, or the float one that it is the quantized form of. */
static Value *unquantized(Value *value) {
    Value *from = made_by(made_by(value, "DequantizeLinear"), "QuantizeLinear");
    return from ? from : value;
}

/* What products read that have biases to make up for rounded weights: along their channels. */
static void take_averaged(WatchedRanges *ranges, const Node *node) {
    const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
    const Value *weights =
        record && record->weights < node->input_count ? node->inputs[record->weights].value : NULL;
    const int64_t rank = weights ? qdq_rank(weights) : -1;
    int32_t axis;
    if (rank < 0 || !node->inputs[0].value || !qdq_operand_channels(node, (uint32_t)rank, &axis) ||
        !qdq_bias_use(node))
        return;
    WatchedRange *range = watched_range(ranges, unquantized(node->inputs[0].value)->name->text);
    if (range->averaged) return; /* along the first one's axis */
    range->averaged = true;
    range->means.axis = axis;
}

static void take_wanted(WatchedRanges *ranges, DemiModel *model, Arena *arena) {
    const GraphList graphs = graphs_of(model, arena);
    for (size_t g = 0; g < graphs.count; g++)
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node)) {
            if (sym_equals(node->op_type, "QuantizeLinear") && node->inputs[0].value)
                watched_range(ranges, node->inputs[0].value->name->text)->wanted = true;
            take_averaged(ranges, node);
        }
}

/* Which values a conversion quantizes does not hang on how far they reach: it is asked before, of the
 * model as the conversion makes it, or of the model itself where there is none. */
static bool find_wanted(Trials *t, WatchedRanges *ranges, const DemiConvertOptions *convert,
                        Err *err) {
    Arena *within = arena_child(ranges->arena);
    DemiModel **model = model_hold(within);
    bool ok = model_open(&t->source, model, err);
    if (ok && convert) {
        const RangeList any = any_ranges(*model, within);
        ok = trials_sketch(t, convert, &any, *model, err);
    }
    if (ok) take_wanted(ranges, *model, within);
    model_drop(model);
    arena_free(within);
    return ok;
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool is_listed(const WatchedRanges *ranges, const WatchedRange *range) {
    const ValueRange ends = range->values.ends;
    if (ends.low > ends.high) return false;
    /* constants are not quantized as values are */
    return ranges->options->ends ? range->made || range->input : ends.high >= LEAST_RANGE;
}

typedef struct Choosing {
    const WatchedRanges *ranges;
    ValueChoice choice;
    bool whole;         /* without limits */
    ValueRange *chosen; /* [items.count] */
} Choosing;

static void choose_task(void *data, unsigned task, unsigned lane) {
    static const ValueRange all = {-INFINITY, INFINITY};
    const Choosing *c = data;
    const WatchedRange *range = &c->ranges->items.items[task];
    (void)lane;
    if (is_listed(c->ranges, range))
        c->chosen[task] =
            value_histogram_choose(&range->values, &c->choice, c->whole ? all : range->limits);
}

/* How ranges are made. */
typedef struct RangeWay {
    DemiCalibration method;
    bool corrects; /* with means, of which biases make up for rounded weights */
    bool whole;    /* limits are not heeded: with what makes no difference, too */
} RangeWay;

/* Names are those of `ranges`. */
static void list_ranges(const WatchedRanges *ranges, RangeWay way, Arena *arena, RangeList *list) {
    const DemiCalibrateOptions *options = ranges->options;
    const size_t count = ranges->items.count;
    Arena *within = arena_child(ranges->arena);
    Choosing choosing = {ranges,
                         {way.method, options->percentile, options->levels, options->symmetric,
                          (Dtype)options->type},
                         way.whole,
                         ARENA_ARRAY(within, ValueRange, count + 1)};
    if (count) workers_run(ranges->counter.workers, (unsigned)count, choose_task, &choosing);
    list->items = ARENA_ARRAY(arena, DemiRange, count + 1);
    list->capacity = count + 1;
    for (size_t i = 0; i < count; i++) {
        const WatchedRange *range = &ranges->items.items[i];
        const char *name = ranges->names.names[i]->text;
        if (!is_listed(ranges, range)) continue;
        const ValueRange ends = range->values.ends;
        /* + 0: which of two zeros a minimum is depends on the order of sets */
        DemiRange item = {.name = name,
                          .most = fmax(-ends.low, ends.high),
                          .low = choosing.chosen[i].low + 0.0,
                          .high = choosing.chosen[i].high + 0.0};
        if (way.corrects && range->averaged) {
            item.means = channel_means_find(&range->means, arena);
            item.mean_count = item.means ? range->means.count : 0;
            item.axis = range->means.axis;
        }
        VEC_PUSH(arena, list, item);
    }
    arena_free(within);
}

/* Names that outlive what was watched. */
static void copy_names(Arena *arena, RangeList *list) {
    for (size_t i = 0; i < list->count; i++) {
        DemiRange *item = &list->items[i];
        item->name = arena_copy(arena, item->name, strlen(item->name));
    }
}

/* ---- what quantizing adds -------------------------------------------------------------------- */

/* Runs the sets once more, for what rounding adds to the channels of the list's ranges. */
static bool measure_errors(Trials *t, const WatchedRanges *of, bool keep, Arena *arena,
                           RangeList *list, Err *err) {
    const DemiCalibrateOptions *options = of->options;
    const Dtype type = options->levels > 1 << 8 ? DTYPE_UINT16 : DTYPE_UINT8;
    Arena *within = arena_child(of->arena);
    WatchedRanges ranges = watched_ranges_new(options, within, t->reference->threads);
    bool any = false;
    for (size_t i = 0; i < list->count; i++) {
        const DemiRange *item = &list->items[i];
        QdqScale scale;
        if (!item->mean_count ||
            !qdq_scale_of_range(type, options->symmetric, item->low, item->high, &scale))
            continue;
        WatchedRange *range = watched_range(&ranges, item->name);
        range->wanted = false;
        range->averaged = range->rounds = any = true;
        range->means.axis = item->axis;
        range->steps = (RoundSteps){scale.scale, (float)(qdq_least(type) - scale.zero),
                                    (float)(qdq_most(type) - scale.zero)};
    }
    const bool ok = !any || watched_ranges_measure(&ranges, t, true, keep, err);
    for (size_t i = 0; ok && i < list->count; i++) {
        DemiRange *item = &list->items[i];
        const WatchedRange *range = item->mean_count ? watched_range(&ranges, item->name) : NULL;
        if (range && range->rounds && range->means.count == item->mean_count)
            item->errors = channel_means_find(&range->means, arena);
    }
    arena_free(within);
    return ok;
}

/* Whether what is quantized is anywhere cut off where it makes no difference. */
static bool is_cut(const WatchedRanges *ranges) {
    for (size_t i = 0; i < ranges->items.count; i++) {
        const WatchedRange *range = &ranges->items.items[i];
        const ValueRange ends = range->values.ends, limits = range->limits;
        if (range->wanted && is_listed(ranges, range) &&
            (ends.low < limits.low || limits.high < ends.high))
            return true;
    }
    return false;
}

typedef struct BestWay {
    RangeWay way;
    double noise; /* the least so far, of whole ranges CLEARLY times as much */
    bool any;     /* false: nothing was tried */
    Arena *arena; /* what its ranges lie in */
} BestWay;

/* *found: the best one's ranges. Of the others nothing is held. */
static bool try_way(Trials *t, const WatchedRanges *ranges, RangeWay way, Arena *arena,
                    BestWay *best, RangeList *found, Err *err) {
    Arena *own = arena_child(arena);
    RangeList list = {0};
    double noise = INFINITY;
    list_ranges(ranges, way, own, &list);
    const bool ok = (!way.corrects || measure_errors(t, ranges, true, own, &list, err)) &&
                    trials_fit(t, ranges->options->convert, &list, &noise, err);
    if (way.whole) noise *= CLEARLY;
    if (!ok || (best->any && !(noise < best->noise))) {
        arena_free(own);
        return ok;
    }
    if (best->arena) arena_free(best->arena);
    *best = (BestWay){way, noise, true, own};
    *found = list;
    return true;
}

/* Whether biases can make up for rounding, which is the integers' to do. */
static bool can_correct(const DemiCalibrateOptions *options) {
    return !options->type;
}

/* Each method within limits, with means and without. */
static bool try_methods(Trials *t, const WatchedRanges *ranges, int count, Arena *arena,
                        BestWay *best, RangeList *found, Err *err) {
    for (int i = 0; i < METHOD_TRIALS; i++) {
        const RangeWay way = {(DemiCalibration)(i / 2), i % 2 == 0, false};
        if (way.corrects && !can_correct(ranges->options)) continue;
        if (!progress_tell(&t->progress, TRYING, (size_t)i, (size_t)count, err) ||
            !try_way(t, ranges, way, arena, best, found, err))
            return false;
    }
    return true;
}

/* Limits give the values between them finer steps, but a step more or less at a limit is then a difference
 * for all that lies beyond it; which of the two counts more depends on the model. Tried of the best way so far
 * and of plain ends. */
static bool try_whole(Trials *t, const WatchedRanges *ranges, int count, Arena *arena,
                      BestWay *best, RangeList *found, Err *err) {
    const RangeWay ways[WHOLE_TRIALS] = {
        {best->way.method, best->way.corrects, true},
        {DEMI_CALIBRATION_MINMAX, can_correct(ranges->options), true}};
    const bool same = best->way.method == DEMI_CALIBRATION_MINMAX &&
                      best->way.corrects == can_correct(ranges->options);
    for (int i = 0; i < WHOLE_TRIALS - same; i++)
        if (!progress_tell(&t->progress, TRYING, (size_t)(METHOD_TRIALS + i), (size_t)count, err) ||
            !try_way(t, ranges, ways[i], arena, best, found, err))
            return false;
    return true;
}

/* The way whose ranges make a conversion that is the closest on these sets. */
static bool list_best(Trials *t, const WatchedRanges *ranges, Arena *arena, Calibrated *found,
                      Err *err) {
    const bool cut = is_cut(ranges);
    const int count = METHOD_TRIALS + (cut ? WHOLE_TRIALS : 0);
    BestWay best = {.noise = INFINITY};
    const bool ok = try_methods(t, ranges, count, arena, &best, &found->list, err) &&
                    (!cut || try_whole(t, ranges, count, arena, &best, &found->list, err));
    found->method = best.way.method;
    found->noise = best.noise;
    return ok;
}

/* With the conversion's channel scales, if it equalizes. */
static bool find_ranges(Trials *t, const DemiCalibrateOptions *options, Arena *within, Arena *arena,
                        Calibrated *found, Err *err) {
    const bool best = options->method == DEMI_CALIBRATION_BEST;
    const RangeWay way = {.method = options->method, .corrects = can_correct(options)};
    WatchedRanges ranges = watched_ranges_new(options, within, t->reference->threads);
    const bool selects = options->ends && options->convert;
    bool ok = (!selects || find_wanted(t, &ranges, options->convert, err)) &&
              watched_ranges_measure(&ranges, t, selects, best, err) &&
              trials_saw_elements(t, err) && (!options->ends || read_limits(t, &ranges, err));
    found->method = options->method;
    if (ok && best) {
        ok = list_best(t, &ranges, arena, found, err);
    } else if (ok) {
        list_ranges(&ranges, way, arena, &found->list);
        ok = !selects || !way.corrects ||
             measure_errors(t, &ranges, false, arena, &found->list, err);
    }
    if (best) trials_forget(t);
    if (ok) copy_names(arena, &found->list);
    return ok;
}

/* What the conversion is without channel scales, if that is clearly closer: BEST tries both. */
static bool try_unequalized(Trials *t, const DemiCalibrateOptions *options, Arena *within,
                            Arena *arena, Calibrated *found, Err *err) {
    Calibrated plain = {0};
    DemiConvertOptions convert = *options->convert;
    DemiCalibrateOptions own = *options;
    convert.equalize = DEMI_EQUALIZE_NEVER;
    own.convert = &convert;
    if (!find_ranges(t, &own, within, arena, &plain, err)) return false;
    if (plain.noise * CLEARLY < found->noise) *found = plain;
    return true;
}

/* Ranges with the channel scales by which the conversion equalizes. */
static bool find_equalized(Trials *t, const DemiCalibrateOptions *options, Arena *within,
                           Arena *arena, Calibrated *found, Err *err) {
    Equalized equalized;
    DemiCalibrateOptions own = *options;
    if (!equalized_begin(&equalized, t, options->convert, within, err)) return false;
    own.convert = &equalized.convert;
    const bool ok = find_ranges(t, &own, within, arena, found, err);
    equalized_end(t);
    if (!ok || !equalized.scales.count) return ok;
    for (size_t i = 0; i < equalized.scales.count; i++) {
        const char *text = equalized.scales.items[i];
        VEC_PUSH(arena, &found->scales, arena_copy(arena, text, strlen(text)));
    }
    return options->method != DEMI_CALIBRATION_BEST ||
           try_unequalized(t, options, within, arena, found, err);
}

bool trials_ranges(Trials *t, const DemiCalibrateOptions *options, Arena *arena, Calibrated *found,
                   Err *err) {
    Arena *within = arena_child(arena);
    const bool equalizes = options->equalizes && options->ends && options->convert;
    const bool ok = equalizes ? find_equalized(t, options, within, arena, found, err)
                              : find_ranges(t, options, within, arena, found, err);
    equalized_end(t);
    arena_free(within);
    return ok;
}

bool trials_ranges_of(Trials *t, const DemiCalibrateOptions *options, const RangeWidths *widths,
                      Arena *arena, RangeList *lists, Err *err) {
    Arena *within = arena_child(arena);
    DemiCalibrateOptions width = *options;
    const RangeWay way = {.method = options->method, .corrects = true};
    WatchedRanges ranges = watched_ranges_new(&width, within, t->reference->threads);
    for (size_t i = 0; i < widths->wanted->count; i++)
        watched_range(&ranges, widths->wanted->items[i])->wanted = true;
    bool ok =
        find_wanted(t, &ranges, NULL, err) && watched_ranges_measure(&ranges, t, true, true, err);
    for (size_t i = 0; ok && i < widths->count; i++) {
        width.levels = widths->levels[i];
        ok = read_limits(t, &ranges, err);
        if (ok) list_ranges(&ranges, way, arena, &lists[i]);
        if (ok) copy_names(arena, &lists[i]);
    }
    arena_free(within);
    return ok;
}
