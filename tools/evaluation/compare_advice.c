// SPDX-License-Identifier: Apache-2.0
/* See compare_advice.h. */
#include "compare_advice.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "judge.h"
#include "keep_search.h"
#include "model_source.h"
#include "node_pattern.h"

/* Causes of an error add up: what brings a quarter of what is allowed is looked at, if that is more
 * than four times what came in. A distance is kept where it does not double. */
enum { PARTS = 4, JUMP = 4, DOUBLE = 2, ROUNDS = 5 };

/* ---- causes ---------------------------------------------------------------------------------- */

static double error_of(const DemiDistance *diff) {
    return diff->mismatch || diff->special ? INFINITY : diff->error;
}

/* What the unconverted model calls the node to blame for what `step` made. Without a name it is
 * called by its first output; where that was left to a Cast, by what this makes. */
static const char *keep_pattern(const Comparison *c, const ComparedStep *step) {
    const ComparedStep *maker = &c->steps.items[step->blamed];
    const char *made = maker->output_count ? c->names.names[maker->outputs[0]]->text : "";
    if (maker == step || strcmp(maker->name, made) != 0)
        return node_pattern_exact(maker->name, c->arena);
    const char *value = c->names.names[step->outputs[0]]->text;
    if (maker->outputs[0] == step->inputs[0]) return node_pattern_exact(value, c->arena);
    return arena_printf(c->arena, "out:%s", value);
}

static void want(bool *wanted, const uint32_t *names, size_t count) {
    for (size_t i = 0; i < count; i++) wanted[names[i]] = true;
}

/* Names that outputs beyond the limit follow from. What bodies make is named by no step outside:
 * all of theirs is wanted where something of the step that holds them is. */
static bool *find_wanted(const AdviceCase *ac) {
    Comparison *c = ac->comparison;
    bool *wanted = ARENA_ARRAY(c->arena, bool, c->names.count + 1);
    bool *output = ARENA_ARRAY(c->arena, bool, c->names.count + 1), inside = false;
    for (size_t i = 0; i < ac->other->output_count; i++) {
        const char *name = ac->other->outputs[i].name;
        Sym sym = sym_find(&c->names, name, strlen(name));
        if (sym) output[sym->number] = true;
    }
    for (size_t at = c->steps.count; at-- > 0;) {
        const ComparedStep *step = &c->steps.items[at];
        bool makes = step->depth > 0 && inside;
        for (size_t i = 0; i < step->output_count; i++)
            makes = makes || wanted[step->outputs[i]] || (output[step->outputs[i]] && step->bad);
        if (step->depth == 0) inside = makes;
        if (!makes) continue;
        want(wanted, step->inputs, step->input_count);
        want(wanted, step->outputs, step->output_count);
    }
    return wanted;
}

static bool is_wanted(const ComparedStep *step, const bool *wanted) {
    for (size_t i = 0; i < step->output_count; i++)
        if (wanted[step->outputs[i]]) return true;
    return false;
}

static bool is_low(const Comparison *c, const ComparedStep *step) {
    return c->steps.items[step->blamed].low;
}

/* A step that brings an error. The Cast behind a node carries what that node brought, and what it
 * read: the node's own inputs count. */
static bool is_cause(const AdviceCase *ac, const ComparedStep *step) {
    const Comparison *c = ac->comparison;
    const ComparedStep *maker = &c->steps.items[step->blamed];
    double before = fmin(step->error_before, maker->error_before), least;
    least = ac->limit->error / PARTS;
    return step->count && is_low(c, step) && step->error > least && step->error > JUMP * before;
}

/* What comes out of it differs by no more than what goes in. */
static bool keeps_distance(const ComparedStep *step) {
    return op_record_has(step->record, OP_STEADY) || op_record_gives(step->record, 0);
}

/* A difference of large numbers is off by what those are off by, which is next to nothing of their
 * size: the step where that distance arose is the one that brought it. */
static const ComparedStep *follow_back(const Comparison *c, const ComparedStep *step) {
    while (keeps_distance(step) && step->from) {
        const ComparedStep *maker = &c->steps.items[step->from - 1];
        if (!(DOUBLE * maker->distance >= step->distance)) break;
        step = maker;
    }
    return step;
}

/* Adds patterns that are not there yet; true where there was one. */
static bool add_pattern(ComparisonAdvice *advice, Arena *arena, const char *pattern) {
    for (size_t i = 0; i < advice->keep.count; i++)
        if (strcmp(advice->keep.items[i], pattern) == 0) return false;
    VEC_PUSH(arena, &advice->keep, pattern);
    return true;
}

static void note_first(const Comparison *c, const ComparedStep *step, ComparisonAdvice *advice) {
    const ComparedStep *maker = &c->steps.items[step->blamed];
    const ComparedValue *value = &c->values.items[step->first];
    for (size_t i = 1; i < step->count; i++)
        if (error_of(&c->values.items[step->first + i].diff) > error_of(&value->diff))
            value = &c->values.items[step->first + i];
    DemiAdvice *found = &advice->found;
    found->node = maker->name;
    found->op_type = maker->op_type;
    found->value = c->names.names[value->name]->text;
    found->type = value->type;
    found->diff = value->diff;
    found->before = fmin(step->error_before, maker->error_before);
}

static bool add_causes(const AdviceCase *ac, ComparisonAdvice *advice) {
    Comparison *c = ac->comparison;
    const bool *wanted = find_wanted(ac);
    bool added = false;
    for (int origins = 0; origins < 2 && !added; origins++)
        for (size_t i = 0; i < c->steps.count; i++) {
            const ComparedStep *step = &c->steps.items[i];
            bool brings = origins ? step->origin && is_low(c, step) : is_cause(ac, step);
            if (!brings || !is_wanted(step, wanted)) continue;
            step = follow_back(c, step);
            if (!is_low(c, step) || !step->count) continue;
            added |= add_pattern(advice, c->arena, keep_pattern(c, step));
            if (!advice->found.node) note_first(c, step, advice);
        }
    return added;
}

/* ---- trials ---------------------------------------------------------------------------------- */

static void set_options(const AdviceCase *ac, ComparisonAdvice *advice) {
    static DemiConvertOptions const plain = DEMI_CONVERT_OPTIONS_INIT;
    bool low_inputs = false;
    advice->options = plain;
    advice->options.to =
        ac->comparison->low_type == DEMI_BFLOAT16 ? DEMI_TO_BFLOAT16 : DEMI_TO_FLOAT16;
    for (size_t i = 0; i < ac->other->input_count && i < ac->reference->input_count; i++)
        low_inputs = low_inputs || (ac->reference->inputs[i].dtype == DEMI_FLOAT &&
                                    (ac->other->inputs[i].dtype == DEMI_FLOAT16 ||
                                     ac->other->inputs[i].dtype == DEMI_BFLOAT16));
    if (low_inputs) advice->options.io = DEMI_IO_LOW;
    advice->options.keep = advice->keep.items;
    advice->options.keep_count = advice->keep.count;
}

/* Converts the reference so; false, with nothing said, where that can't be done. */
static bool open_trial(const AdviceCase *ac, Arena *within, const ComparisonAdvice *advice,
                       Session *session) {
    DemiError ignored = DEMI_ERROR_INIT;
    DemiModel **model = model_hold(within);
    Err none = {.code = ERR_NONE};
    session->path = ac->reference->path;
    bool ok = model_open(ac->source, model, &none) &&
              demi_convert(*model, &advice->options, NULL, &ignored) == DEMI_OK &&
              session_open_model(session, within, model, &none) &&
              session_take_inputs(session, within, ac->reference, &none) &&
              session_bind(session, &none);
    model_drop(model);
    return ok;
}

static double outputs_error(const OutputErrors *rows, const DemiLimit *limit, bool *within) {
    double error = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const DemiDistance *diff = &rows->items[i].diff;
        *within = *within && !demi_limit_beyond(limit, diff);
        error = fmax(error, error_of(diff));
    }
    return error;
}

/* Runs it beside the reference's values. */
static bool run_trial(const AdviceCase *ac, Session *session, double *error, bool *within) {
    Comparison *c = ac->comparison;
    const OutputReference reference = {ac->reference->path, ac->reference, NULL};
    OutputErrors rows = {0};
    Err none = {.code = ERR_NONE};
    if (!comparison_run(c, session, &none) ||
        !output_errors(c->arena, &reference, session, &rows, &none))
        return false;
    comparison_judge(c, ac->limit);
    *within = true;
    *error = fmax(outputs_error(&rows, ac->limit, within), picks_margin(&c->picked));
    for (size_t i = 0; i < c->picked.count; i++)
        *within = *within && !demi_pick_beyond(ac->limit, &c->picked.items[i]);
    return true;
}

typedef enum TrialEnd { TRIAL_IMPOSSIBLE, TRIAL_BEYOND, TRIAL_WITHIN } TrialEnd;

static TrialEnd try_advice(const AdviceCase *ac, ComparisonAdvice *advice) {
    Arena *within = arena_child(ac->comparison->arena);
    Session *session = session_new(within, ac->reference->how);
    TrialEnd end = TRIAL_IMPOSSIBLE;
    bool is_within;
    if (open_trial(ac, within, advice, session) &&
        run_trial(ac, session, &advice->found.error, &is_within))
        end = is_within ? TRIAL_WITHIN : TRIAL_BEYOND;
    arena_free(within);
    return end;
}

/* Where causes are not to be seen: by trial alone, on the set that was compared. */
static void search(const AdviceCase *ac, ComparisonAdvice *advice) {
    Arena *arena = ac->comparison->arena;
    Trials trials = {.arena = arena_child(arena),
                     .how = *ac->reference->how,
                     .source = *ac->source,
                     .progress = *ac->progress};
    KeptNodes kept = {.result = {.arena = arena}};
    Err none = {.code = ERR_NONE};
    trials.how.inputs.sets = 1;
    advice->options.keep_count = 0;
    bool ok = trials_open(&trials, &none);
    if (ok && trials.count > 1) trials.count = 1;
    ok = ok && keep_search(&trials, &advice->options, ac->limit->error, &kept, &none);
    ac->progress->cancelled = trials.progress.cancelled;
    arena_free(trials.arena);
    advice->found.state = ok ? DEMI_ADVICE_REACHES : DEMI_ADVICE_FAILS;
    if (!ok) return;
    advice->found.error = kept.result.judgment.error;
    advice->keep = (Words){0};
    for (size_t i = 0; i < advice->options.keep_count; i++)
        VEC_PUSH(arena, &advice->keep, advice->options.keep[i]);
}

static void try_rounds(const AdviceCase *ac, ComparisonAdvice *advice, bool added) {
    Err none = {.code = ERR_NONE};
    for (size_t round = 0; added && round < ROUNDS; round++) {
        set_options(ac, advice);
        advice->found.state = DEMI_ADVICE_UNTRIED;
        if (!progress_tell(ac->progress, "trying which nodes to keep", round, ROUNDS, &none))
            return;
        TrialEnd end = try_advice(ac, advice);
        if (end != TRIAL_IMPOSSIBLE) advice->found.state = DEMI_ADVICE_REACHES;
        if (end != TRIAL_BEYOND) return;
        added = add_causes(ac, advice);
    }
    set_options(ac, advice);
    search(ac, advice);
}

void compare_advise(const AdviceCase *ac, ComparisonAdvice *advice) {
    Comparison *c = ac->comparison, found = *c;
    *advice = (ComparisonAdvice){.found = {.state = DEMI_ADVICE_NONE}};
    bool added = ac->beyond && add_causes(ac, advice);
    set_options(ac, advice);
    if (!c->low_type || !ac->beyond) return;
    if (!ac->may_try) {
        advice->found.state = added ? DEMI_ADVICE_UNTRIED : DEMI_ADVICE_NONE;
        return;
    }
    /* What was compared stays for the report: trials have lists of their own. */
    memset(&c->steps, 0, sizeof c->steps);
    memset(&c->values, 0, sizeof c->values);
    memset(&c->picked, 0, sizeof c->picked);
    try_rounds(ac, advice, added);
    c->steps.items = found.steps.items, c->steps.count = found.steps.count;
    c->values.items = found.values.items, c->values.count = found.values.count;
    c->picked.items = found.picked.items, c->picked.count = found.picked.count;
}
