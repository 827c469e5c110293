// SPDX-License-Identifier: Apache-2.0
/* The front of comparisons, value by value, and of the advice that follows from one. What is
 * compared with what is in compare_runs.c, the advice in compare_advice.c. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "compare_advice.h"
#include "demi_call.h"
#include "judge.h"
#include "model_source.h"

struct DemiComparison {
    Arena arena; /* owns this */
    SessionOptions how;
    DemiSource reference, model;
    bool folder;    /* the reference is one */
    Session *a, *b; /* a is not open where it is a folder */
    DemiComparisonTotals totals;
    Comparison runs;
    OutputErrors outputs;
    PickRows picks;
    VEC(DemiComparedValue) values;
    const DemiComparedValue *first;
    ComparisonAdvice advice;
    Progress progress;
};

static bool is_folder(const char *path) {
    struct stat status;
    return path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* What gives the inputs that both run on. */
static Session *first_session(const DemiComparison *c) {
    return c->folder ? c->b : c->a;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool find_inputs(DemiComparison *c, Err *err) {
    SessionSetList sets;
    Session *first = first_session(c);
    if (!session_input_sets(first, &c->arena, &c->how.inputs, 0, &sets, err)) return false;
    const SessionSet *set = &sets.items[c->totals.set];
    c->totals.sets = sets.count;
    c->totals.set_name = set->path ? session_set_name(&c->arena, set->path) : "";
    if (c->folder && sets.count > 1)
        return err_set(err, ERR_USAGE, "%zu sets of inputs, and saved values of one run",
                       sets.count);
    if (!set->path && !set->values) first->set = (unsigned)c->totals.set;
    return session_find_inputs(first, &c->arena, set, err) &&
           (c->folder ||
            (session_take_inputs(c->b, &c->arena, c->a, err) && session_bind(c->a, err))) &&
           session_bind(c->b, err);
}

static bool is_beyond(const DemiLimit *limit, const OutputErrors *rows, const PickRows *picks) {
    bool beyond = false;
    for (size_t i = 0; i < rows->count; i++)
        beyond = beyond || demi_limit_beyond(limit, &rows->items[i].diff);
    for (size_t i = 0; picks && i < picks->count; i++)
        beyond = beyond || demi_pick_beyond(limit, &picks->items[i]);
    return beyond;
}

/* What the model gives by its own picks is good enough where it is: what it picks does not matter
 * then. */
static bool compare_plainly(DemiComparison *c, const OutputReference *reference, Err *err) {
    OutputErrors rows = {0};
    if (!session_run(c->b, err) || !output_errors(&c->arena, reference, c->b, &rows, err))
        return false;
    if (is_beyond(&c->totals.limit, &rows, NULL)) return true;
    c->outputs = rows;
    c->picks.count = 0;
    c->totals.beyond = false;
    return true;
}

/* Units in the last place are those of the type that an output had before a conversion's last
 * Cast. */
static bool measure_outputs(DemiComparison *c, const OutputReference *reference, Err *err) {
    if (!output_errors(&c->arena, reference, c->b, &c->outputs, err)) return false;
    for (size_t i = 0; i < c->outputs.count; i++) {
        DemiOutputError *row = &c->outputs.items[i];
        const DemiDistance *inner = comparison_output(&c->runs, row->name);
        if (inner && inner->ulp_of != row->diff.ulp_of && inner->count == row->diff.count) {
            row->diff.ulp = inner->ulp;
            row->diff.ulp_of = inner->ulp_of;
        }
    }
    return true;
}

static bool run_both(DemiComparison *c, Err *err) {
    OutputReference reference = {c->reference.path, c->folder ? NULL : c->a, NULL};
    comparison_init(&c->runs, &c->arena, c->b->threads);
    if (c->folder) c->runs.folder = c->reference.path;
    if (!find_inputs(c, err)) return false;
    if (!c->folder && !comparison_reference(&c->runs, c->a, err)) return false;
    if (!c->folder) session_reserve(c->b, c->runs.kept + demi_context_held(c->a->context));
    if (!comparison_run(&c->runs, c->b, err) || !measure_outputs(c, &reference, err)) return false;
    c->totals.quantized = c->runs.quantized && !c->runs.quantized_reference;
    limit_settle(&c->totals.limit, (ValueKinds){c->runs.low, c->totals.quantized});
    c->picks = c->runs.picked;
    c->totals.beyond = is_beyond(&c->totals.limit, &c->outputs, &c->picks);
    comparison_judge(&c->runs, &c->totals.limit);
    return !c->totals.beyond || c->picks.count == 0 || compare_plainly(c, &reference, err);
}

/* What was compared, as the caller sees it; advice has comparisons of its own. */
static void list_values(DemiComparison *c) {
    const Comparison *runs = &c->runs;
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < runs->values.count; i++) {
        const ComparedValue *value = &runs->values.items[i];
        const ComparedStep *maker = &runs->steps.items[runs->steps.items[value->step].blamed];
        DemiComparedValue row = {.name = runs->names.names[value->name]->text,
                                 .type = value->type,
                                 .node = maker->name,
                                 .op_type = maker->op_type,
                                 .dtype = value->dtype,
                                 .dtype_reference = value->dtype_reference,
                                 .diff = value->diff};
        bool beyond = demi_limit_beyond(&c->totals.limit, &value->diff);
        c->totals.values_beyond += beyond;
        if (beyond && first == SIZE_MAX) first = i;
        VEC_PUSH(&c->arena, &c->values, row);
    }
    if (first != SIZE_MAX) c->first = &c->values.items[first];
}

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct CompareArgs {
    DemiSource reference, model;
    DemiCompareOptions options;
    SessionOptions how;
    DemiLimit limit;
    DemiComparison *comparison; /* the furthest off of those that were made */
    DemiComparison *other;      /* the one that is being made; NULL: none */
} CompareArgs;

static bool compare(DemiComparison *c, Err *err) {
    c->folder = !c->reference.open && is_folder(c->reference.path);
    if (!c->model.open && is_folder(c->model.path))
        return err_set(err, ERR_USAGE, "a folder can only be the reference");
    c->a = session_new(&c->arena, &c->how);
    c->b = session_new(&c->arena, &c->how);
    if ((!c->folder && !session_open(c->a, &c->arena, &c->reference, err)) ||
        !session_open(c->b, &c->arena, &c->model, err) || !run_both(c, err))
        return false;
    const Session *first = first_session(c);
    c->totals.assumed = input_sizes_text(&first->sizes, first->declared);
    list_values(c);
    return true;
}

/* Makes args->other, of one set of inputs. */
static bool compare_set(Call *call, CompareArgs *args, size_t set) {
    Arena arena;
    arena_init(&arena, &call->trap);
    DemiComparison *c = ARENA_NEW(&arena, DemiComparison);
    c->arena = arena;
    args->other = c;
    c->how = args->how;
    inputs_copy(&c->arena, &c->how.inputs);
    c->reference = args->reference;
    c->model = args->model;
    source_copy(&c->arena, &c->reference);
    source_copy(&c->arena, &c->model);
    c->progress = (Progress){.tell = args->options.progress, .user = args->options.progress_user};
    c->totals.limit = args->limit;
    c->totals.set = set;
    return compare(c, &call->err);
}

static double largest_error(const DemiComparison *c) {
    double largest = 0;
    for (size_t i = 0; i < c->outputs.count; i++) {
        const DemiDistance *diff = &c->outputs.items[i].diff;
        const double error = diff->mismatch || isnan(diff->error) ? INFINITY : diff->error;
        if (error > largest) largest = error;
    }
    return largest;
}

static bool is_further(const DemiComparison *one, const DemiComparison *other) {
    if (one->totals.beyond != other->totals.beyond) return one->totals.beyond;
    return largest_error(one) > largest_error(other);
}

/* Keeps the one that is further off. */
static void settle(CompareArgs *args) {
    DemiComparison *one = args->comparison, *other = args->other;
    const bool further = !one || is_further(other, one);
    args->comparison = further ? other : one;
    args->other = NULL;
    demi_comparison_free(further ? one : other);
}

static void compare_body(Call *call, void *data) {
    CompareArgs *args = data;
    Progress progress = {.tell = args->options.progress, .user = args->options.progress_user};
    size_t count = 1;
    for (size_t set = 0; set < count; set++) {
        if (set > 0 && !progress_tell(&progress, "comparing", set, count, &call->err)) return;
        if (!compare_set(call, args, set)) return;
        count = args->other->totals.sets;
        settle(args);
    }
}

DemiStatus demi_compare(const DemiSource *reference, const DemiSource *model,
                        const DemiCompareOptions *options, DemiComparison **comparison,
                        DemiError *error) {
    Call call = {0};
    CompareArgs args = {.reference = DEMI_SOURCE_INIT,
                        .model = DEMI_SOURCE_INIT,
                        .options = DEMI_COMPARE_OPTIONS_INIT,
                        .how = SESSION_OPTIONS_JUDGED,
                        .limit = DEMI_LIMIT_INIT};
    *comparison = NULL;
    options_copy(&call, &args.reference, sizeof args.reference, reference);
    options_copy(&call, &args.model, sizeof args.model, model);
    options_copy(&call, &args.options, sizeof args.options, options);
    options_copy(&call, &args.how.compile, sizeof args.how.compile, args.options.compile);
    options_copy(&call, &args.how.context, sizeof args.how.context, args.options.context);
    options_copy(&call, &args.how.inputs, sizeof args.how.inputs, args.options.inputs);
    options_copy(&call, &args.limit, sizeof args.limit, args.options.limit);
    args.how.inputs.random = true;
    DemiStatus status = call_run(&call, compare_body, &args, error);
    if (status == DEMI_OK)
        *comparison = args.comparison;
    else
        demi_comparison_free(args.comparison);
    demi_comparison_free(args.other);
    return status;
}

void demi_comparison_free(DemiComparison *comparison) {
    if (!comparison) return;
    Arena arena = comparison->arena; /* the handle itself lies in it */
    arena_free(&arena);
}

/* ---- what was found -------------------------------------------------------------------------- */

const DemiComparisonTotals *demi_comparison_totals(const DemiComparison *comparison) {
    return &comparison->totals;
}

size_t demi_comparison_output_count(const DemiComparison *comparison) {
    return comparison->outputs.count;
}

const DemiOutputError *demi_comparison_output(const DemiComparison *comparison, size_t i) {
    return i < comparison->outputs.count ? &comparison->outputs.items[i] : NULL;
}

size_t demi_comparison_pick_count(const DemiComparison *comparison) {
    return comparison->picks.count;
}

const DemiPick *demi_comparison_pick(const DemiComparison *comparison, size_t i) {
    return i < comparison->picks.count ? &comparison->picks.items[i] : NULL;
}

size_t demi_comparison_value_count(const DemiComparison *comparison) {
    return comparison->values.count;
}

const DemiComparedValue *demi_comparison_value(const DemiComparison *comparison, size_t i) {
    return i < comparison->values.count ? &comparison->values.items[i] : NULL;
}

const DemiComparedValue *demi_comparison_first(const DemiComparison *comparison) {
    return comparison->first;
}

size_t demi_comparison_input_count(const DemiComparison *comparison) {
    return first_session(comparison)->input_count;
}

const DemiPlanIo *demi_comparison_input(const DemiComparison *comparison, size_t i) {
    const Session *s = first_session(comparison);
    return i < s->input_count ? &s->inputs[i] : NULL;
}

const DemiData *demi_comparison_input_value(const DemiComparison *comparison, size_t i) {
    const Session *s = first_session(comparison);
    return i < s->input_count && s->given[i] ? &s->values[i] : NULL;
}

/* ---- advice ---------------------------------------------------------------------------------- */

typedef struct AdviseArgs {
    DemiComparison *comparison;
    bool try_it;
} AdviseArgs;

static void advise_body(Call *call, void *data) {
    const AdviseArgs *args = data;
    DemiComparison *c = args->comparison;
    c->arena.trap = &call->trap;
    c->progress.cancelled = false;
    const AdviceCase ac = {.comparison = &c->runs,
                           .reference = c->a,
                           .other = c->b,
                           .source = &c->reference,
                           .may_try =
                               args->try_it && !c->folder && !c->a->is_plan && !c->b->is_plan,
                           .beyond = c->totals.beyond,
                           .limit = &c->totals.limit,
                           .progress = &c->progress};
    compare_advise(&ac, &c->advice);
    call->cancelled = c->progress.cancelled;
    if (call->cancelled) err_set(&call->err, ERR_CANCELLED, "cancelled");
}

DemiStatus demi_comparison_advise(DemiComparison *comparison, bool try_it, DemiError *error) {
    Call call = {0};
    AdviseArgs args = {comparison, try_it};
    return call_run(&call, advise_body, &args, error);
}

const DemiAdvice *demi_comparison_advice(const DemiComparison *comparison) {
    return &comparison->advice.found;
}

const char *const *demi_comparison_keep(const DemiComparison *comparison, size_t *count) {
    *count = comparison->advice.keep.count;
    return comparison->advice.keep.items;
}

size_t demi_comparison_policy(const DemiComparison *comparison, char *buffer, size_t size,
                              DemiError *error) {
    const DemiConvertOptions *advised = &comparison->advice.options;
    return demi_convert_policy(advised->size ? advised : NULL, buffer, size, error);
}
