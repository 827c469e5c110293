// SPDX-License-Identifier: Apache-2.0
/* What assignments cost, as solvers take it; see search_job.h. */
#include <math.h>
#include <string.h>

#include "search_job.h"

/* Of works that one group alone decides its own cost; of others a pair's. */
static void add_bitops(const SearchJob *job, double *table, SolvePair *pairs, size_t *pair_count) {
    const size_t count = job->model.candidate_count;
    const Candidate *const *candidates = job->model.candidates;
    const Candidate *plain = candidate_plain();
    for (size_t w = 0; w < job->costs.groups->works.count; w++) {
        const GroupWork *work = &job->costs.groups->works.items[w];
        if (work->right != GROUP_NONE && work->right != work->left) {
            double *both = ARENA_ARRAY(job->arena, double, count *count);
            for (size_t i = 0; i < count * count; i++)
                both[i] =
                    costs_of_work(&job->costs, w, candidates[i / count], candidates[i % count]);
            pairs[(*pair_count)++] = (SolvePair){work->left, work->right, both};
            continue;
        }
        for (size_t c = 0; c < count; c++)
            table[search_place(job, work->left, c)] += costs_of_work(
                &job->costs, w, candidates[c], work->right == GROUP_NONE ? plain : candidates[c]);
    }
}

static void add_bytes(const SearchJob *job, double *table, bool activations, bool weights) {
    for (uint32_t g = 0; g < job->costs.groups->count; g++)
        for (size_t c = 0; c < job->model.candidate_count; c++) {
            const Candidate *candidate = job->model.candidates[c];
            double *at = &table[search_place(job, g, c)];
            const Dtype values = costs_activations(&job->costs, g, candidate);
            if (activations) *at += job->costs.elements[g] * candidate_stored_bits(values) / 8;
            if (weights) *at += costs_weight_bytes(&job->costs, g, candidate);
        }
}

/* Times are another machine's, or another moment's: a search that goes on has those it began with. */
static bool find_latency(SearchJob *job, Err *err) {
    const size_t count = job->model.candidate_count, all = job->costs.groups->count * count;
    const size_t numbers = all + 1 + 2 * count;
    double *table = ARENA_ARRAY(job->arena, double, numbers);
    const double *noted = job->journal ? journal_find(job->journal, "latency", numbers) : NULL;
    /* half the time at most, as there is to be a result */
    const double seconds = job->options.seconds;
    job->latency = (Latency){table, table + all, table + all + 1, table + all + 1 + count,
                             seconds > 0 ? job->started + seconds / 2 : INFINITY};
    if (noted) {
        memcpy(table, noted, numbers * sizeof *noted);
        return true;
    }
    return latency_measure(&job->model, &job->latency, err) &&
           (!job->journal || journal_add(job->journal, "latency", table, numbers, err));
}

bool search_cost(SearchJob *job, Err *err) {
    const Groups *groups = search_groups(job);
    if (!costs_measure(&job->costs, &job->model.measured, &job->model.trials, job->arena, err))
        return false;
    const size_t all = groups->count * job->model.candidate_count;
    double *first = ARENA_ARRAY(job->arena, double, all + 1);
    double *second = ARENA_ARRAY(job->arena, double, all + 1);
    SolvePair *pairs = ARENA_ARRAY(job->arena, SolvePair, groups->works.count + 1);
    size_t pair_count = 0;
    switch (job->options.cost) {
    case DEMI_COST_BITOPS: add_bitops(job, first, pairs, &pair_count); break;
    case DEMI_COST_BYTES: add_bytes(job, first, isnan(job->options.bits), true); break;
    case DEMI_COST_LATENCY:
        if (!find_latency(job, err)) return false;
        first = job->latency.seconds;
        pairs = latency_pairs(&job->model, &job->costs, &job->latency, &pair_count, job->arena);
        break;
    }
    add_bytes(job, second, true, job->options.cost == DEMI_COST_LATENCY);
    job->problem = (SolveProblem){.groups = groups->count,
                                  .candidates = (uint32_t)job->model.candidate_count,
                                  .allowed = job->allowed,
                                  .noise = job->noise,
                                  .cost = first,
                                  .second = job->options.cost == DEMI_COST_BYTES ? NULL : second,
                                  .pairs = pairs,
                                  .pair_count = pair_count};
    return solve_problem_check(&job->problem, err);
}
