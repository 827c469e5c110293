// SPDX-License-Identifier: Apache-2.0
/* What is said of a search; see search_job.h. */
#include <math.h>
#include <string.h>

#include "clock.h"
#include "error_fill.h"
#include "search_job.h"

static uint64_t count_boundaries(const SearchJob *job, const uint8_t *assignment) {
    uint64_t count = 0;
    for (size_t i = 0; i < job->edge_count; i++)
        count += assignment[job->edges[i].from] != assignment[job->edges[i].to];
    return count;
}

static double predicted(const SearchJob *job, const uint8_t *assignment) {
    if (job->options.cost != DEMI_COST_LATENCY) return NAN;
    return *job->latency.rest + solve_cost(&job->problem, assignment);
}

static void add_points(SearchJob *job) {
    size_t count;
    const size_t *front = solve_front(&job->trace, job->arena, &count);
    for (size_t i = 0; i < job->trace.points.count; i++) {
        const SolvePoint *scored = solve_point(&job->trace, i);
        const Cost cost = costs_of(&job->costs, job->model.candidates, scored->assignment);
        const double raced = job->raced ? job->raced[i] : 0;
        const DemiSearchPoint point = {.score = scored->score,
                                       .cost = scored->cost,
                                       .bitops = cost.bitops,
                                       .activation_bytes = cost.activation_bytes,
                                       .weight_bytes = cost.weight_bytes,
                                       .seconds = predicted(job, scored->assignment),
                                       .measured = raced > 0 ? raced : NAN,
                                       .boundaries = count_boundaries(job, scored->assignment),
                                       .candidates = scored->assignment,
                                       .feasible = scored->score >= job->aim,
                                       .score_error = job->scores.items[i].error};
        VEC_PUSH(job->arena, &job->search->points, point);
    }
    for (size_t i = 0; i < count; i++) job->search->points.items[front[i]].on_front = true;
}

static const char *reason_of(const SearchJob *job, uint32_t g, const uint8_t *best) {
    const size_t count = job->model.candidate_count, first = solve_first(&job->problem, g);
    const double *cost = &job->problem.cost[g * count], *noise = &job->noise[g * count];
    size_t allowed = 0;
    bool broken = false, other = false;
    for (size_t c = 0; c < count; c++) {
        if (!job->allowed[g * count + c]) continue;
        allowed++;
        broken = broken || (c != first && !isfinite(noise[c]));
        other = other || cost[c] != cost[first];
    }
    for (size_t i = 0; i < job->problem.pair_count; i++)
        other = other || job->problem.pairs[i].a == g || job->problem.pairs[i].b == g;
    if (allowed < 2 && search_groups(job)->items[g].keeps_values)
        return "the model's outputs are kept in float32";
    if (job->model.kept[g]) return "a node that reads it is kept in float32";
    if (allowed < 2) return "it supports no other";
    if (best[g] != first) return other ? "cheaper" : "takes less space";
    if (broken) return "a lower precision makes outputs infinite or NaN";
    return other ? "a lower precision adds more noise, for what it saves, than other groups do"
                 : "a lower precision would not cost less";
}

static const char *const *copy_names(const SearchJob *job, const Value *const *values,
                                     size_t count) {
    const char **names = ARENA_ARRAY(job->arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++)
        names[i] = arena_copy(job->arena, sym_text(values[i]->name),
                              strlen(sym_text(values[i]->name)) + 1);
    return names;
}

static void add_groups(SearchJob *job, const uint8_t *best) {
    const Groups *groups = search_groups(job);
    for (uint32_t g = 0; g < groups->count; g++) {
        const Node *node = groups->items[g].values.items[0]->producer;
        double multiplications = 0;
        for (size_t w = 0; w < groups->works.count; w++)
            if (groups->works.items[w].left == g || groups->works.items[w].right == g)
                multiplications += job->costs.multiplications[w];
        const char *name = search_model_name(&job->model, g);
        const DemiSearchGroup group = {
            .name = arena_copy(job->arena, name, strlen(name) + 1),
            .node = node ? node_label(node) : "",
            .op_type = node ? node->op_type->text : "",
            .values = groups->items[g].values.count,
            .weights = groups->items[g].weights.count,
            .value_names =
                copy_names(job, groups->items[g].values.items, groups->items[g].values.count),
            .weight_names =
                copy_names(job, groups->items[g].weights.items, groups->items[g].weights.count),
            .multiplications = multiplications,
            .elements = job->costs.elements[g],
            .weight_elements = job->costs.weight_elements[g],
            .noise = job->noise + g * job->model.candidate_count,
            .candidate = best[g],
            .reason = reason_of(job, g, best)};
        VEC_PUSH(job->arena, &job->search->groups, group);
    }
}

static bool write_policy(SearchJob *job, const uint8_t *best, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    const DemiConvertOptions options = search_model_options(&job->model, best, job->arena);
    const size_t size = demi_convert_policy(&options, NULL, 0, &error);
    if (!error_take(err, error.status, &error)) return false;
    char *text = arena_alloc(job->arena, size + 1);
    demi_convert_policy(&options, text, size + 1, NULL);
    job->search->policy = text;
    return true;
}

static void tell_sets(const SearchJob *job, DemiSearchTotals *totals) {
    const SearchModel *m = &job->model;
    totals->calibration_sets = m->calibration.count;
    totals->selection_sets = m->trials.count;
    totals->holdout_sets = m->holdout.count;
    totals->holdout_samples = m->samples;
    totals->holdout_rows = m->by_rows;
    totals->holdout = job->options.holdout_score ? DEMI_HOLDOUT_SCORE
                      : !m->holdout.count        ? DEMI_HOLDOUT_NONE
                      : m->sets.holdout          ? DEMI_HOLDOUT_GIVEN
                                                 : DEMI_HOLDOUT_SETS;
}

static void tell_acceptance(const SearchJob *job, DemiSearchTotals *totals) {
    const Acceptance *a = &job->acceptance;
    const Score none = SCORE_NONE, *score = a->tests ? &a->score : &none;
    totals->holdout_score = score->value;
    totals->holdout_low = score->interval.low;
    totals->holdout_high = score->interval.high;
    totals->holdout_target = a->tests ? a->target : NAN;
    totals->holdout_tests = a->tests;
    totals->holdout_tests_most = a->most;
    totals->aim = job->aim;
}

bool search_tell(SearchJob *job, Err *err) {
    DemiSearchTotals *totals = &job->search->totals;
    uint8_t *widest = ARENA_ARRAY(job->arena, uint8_t, job->problem.groups + 1);
    solve_uniform(&job->problem, 0, widest);
    const size_t first = solve_trace_find(&job->trace, widest);
    const uint8_t *best = solve_point(&job->trace, job->best)->assignment;
    job->edges = groups_edges(search_groups(job), &job->edge_count, job->arena);
    totals->outcome = job->outcome;
    totals->evaluations = job->trace.points.count;
    totals->best = job->best;
    totals->widest = first == SOLVE_NONE ? 0 : first;
    totals->assumed = trials_assumed(&job->model.trials, job->arena);
    totals->seconds = clock_seconds() - job->started;
    tell_sets(job, totals);
    tell_acceptance(job, totals);
    add_points(job);
    add_groups(job, best);
    return write_policy(job, best, err);
}
