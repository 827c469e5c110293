// SPDX-License-Identifier: Apache-2.0
/* What groups may have, and what each candidate of each does alone; see search_job.h. */
#include <math.h>
#include <string.h>

#include "op_types.h"
#include "qdq_plan.h"
#include "search_job.h"
#include "sensitivity.h"
#include "supported.h"

enum { PROBES = 8 };

/* ---- what groups may have -------------------------------------------------------------------- */

/* Weights of 4 bits are those of matrices. */
static bool takes_weights(const SearchJob *job, uint32_t group, const Candidate *candidate) {
    const Groups *groups = search_groups(job);
    if (dtype_bits(candidate->weights) != 4) return true;
    for (size_t i = 0; i < groups->works.count; i++) {
        const GroupWork *work = &groups->works.items[i];
        const OpRecord *record =
            work->weights && work->left == group ? node_record(work->node) : NULL;
        if (record && !qdq_weight_has_blocks(record, work->weights)) return false;
    }
    return true;
}

/* A group may have a candidate of which something differs: weights alone need weights, and integers a
 * range that is known. The first one it may have in any case, which is then what it is. */
static bool may_have(const SearchJob *job, uint32_t group, size_t c) {
    const Group *of = &search_groups(job)->items[group];
    const Candidate *candidate = job->model.candidates[c];
    if (c == 0) return true;
    if (candidate->activations == DTYPE_FLOAT && !of->weights.count) return false;
    if (!takes_weights(job, group, candidate)) return false;
    for (size_t i = 0; !dtype_is_float(candidate->activations) && i < of->values.count; i++) {
        const ValueEnds *ends = &job->ends[of->values.items[i]->id];
        if (!isfinite(ends->low) || !isfinite(ends->high)) return false;
    }
    return true;
}

static bool refuse_group(const SearchJob *job, const Supported *supported, uint32_t group,
                         Err *err) {
    const Node *node =
        supported_refusal(supported, search_groups(job), group, job->model.candidates[0]);
    err_set(err, ERR_USAGE, "no candidate is supported by all operators around '%s'",
            search_model_name(&job->model, group));
    err_hint(err, "%s '%s' does not take %s", node->op_type->text, node_label(node),
             job->model.candidates[0]->name);
    return false;
}

static bool find_allowed(SearchJob *job, Err *err) {
    const Groups *groups = search_groups(job);
    const size_t count = job->model.candidate_count;
    const bool heeded = job->options.supported && !job->options.all_candidates;
    Supported *supported = heeded ? supported_read(job->options.supported, job->arena, err) : NULL;
    if (heeded && !supported) return false;
    job->allowed = ARENA_ARRAY(job->arena, bool, groups->count *count + 1);
    for (uint32_t g = 0; g < groups->count; g++) {
        bool any = false;
        for (size_t c = 0; c < count; c++) {
            const bool may = may_have(job, g, c) &&
                             !supported_refusal(supported, groups, g, job->model.candidates[c]);
            job->allowed[search_place(job, g, c)] = may;
            any = any || may;
        }
        if (!any) return refuse_group(job, supported, g, err);
    }
    return true;
}

/* ---- several processes ----------------------------------------------------------------------- */

/* Each process has its own groups' numbers, and zeros. */
static bool combine(SearchJob *job, double *numbers, size_t count, Err *err) {
    uint64_t *words = ARENA_ARRAY(job->arena, uint64_t, count + 1);
    if (job->options.parts <= 1) return true;
    memcpy(words, numbers, count * sizeof *words);
    if (!job->options.combine(job->options.combine_user, words, count))
        return err_set(err, ERR_ENV, "what other processes measured can't be had");
    memcpy(numbers, words, count * sizeof *words);
    return true;
}

/* ---- what a candidate does alone ------------------------------------------------------------- */

/* What AIMET does is done as it does it: on all sets, and for all candidates. */
static bool as_aimet(const SearchJob *job) {
    return job->options.algorithm != DEMI_SEARCH_SOLVE;
}

/* The 8-bit candidate that says what a 16-bit one of integers does: -1 where there is none. */
static ptrdiff_t narrower(const SearchJob *job, size_t candidate) {
    const Candidate *wide = job->model.candidates[candidate];
    if (as_aimet(job) || !dtype_is_integer(wide->activations) ||
        dtype_bits(wide->activations) != 16 || !dtype_is_integer(wide->weights) ||
        dtype_bits(wide->weights) != 16)
        return -1;
    for (size_t c = 0; c < job->model.candidate_count; c++) {
        const Candidate *other = job->model.candidates[c];
        if (dtype_is_integer(other->activations) && dtype_bits(other->activations) == 8 &&
            dtype_is_integer(other->weights) && dtype_bits(other->weights) == 8)
            return (ptrdiff_t)c;
    }
    return -1;
}

static double decibels(double noise) {
    return fmin(-10 * log10(noise), METRIC_MOST_DECIBELS);
}

/* Steps are 257 times smaller, and the noise by the square of that. Where 8 bits break an output that
 * says nothing of 16. */
static bool take_narrower(SearchJob *job, bool *wanted, size_t all) {
    const double ratio = 1 / (257.0 * 257.0);
    const size_t count = job->model.candidate_count;
    bool left = false;
    for (size_t i = 0; i < all; i++) {
        const ptrdiff_t other = job->allowed[i] ? narrower(job, i % count) : -1;
        const size_t at = other < 0 ? i : i - i % count + (size_t)other;
        wanted[i] = other >= 0 && !isfinite(job->noise[at]);
        left = left || wanted[i];
        if (other < 0 || wanted[i]) continue;
        job->noise[i] = job->noise[at] * ratio;
        job->alone[i] =
            job->options.metric == DEMI_METRIC_SQNR ? decibels(job->noise[i]) : job->alone[at];
    }
    return left;
}

/* A caller's metric is for whole models: groups have what their noise is in dB. */
static void take_sums(SearchJob *job, const Sensitivity *asked, const Sensitivities *found,
                      size_t i) {
    const bool own = i / asked->candidate_count % asked->parts == asked->part;
    job->noise[i] = own ? metric_noise(&found->sums[i]) : 0;
    job->alone[i] = !own ? 0
                    : job->options.metric == DEMI_METRIC_SCORE
                        ? decibels(job->noise[i])
                        : metric_score(&found->sums[i], job->options.metric);
}

static bool measure_wanted(SearchJob *job, const bool *wanted, Err *err) {
    const DemiSearchOptions *o = &job->options;
    const size_t count = job->model.candidate_count, sets = job->model.trials.count;
    const size_t all = search_groups(job)->count * count;
    const size_t probes = o->probes ? o->probes : as_aimet(job) ? sets : PROBES;
    DemiSearchTotals *totals = &job->search->totals;
    Sensitivities found;
    const Sensitivity asked = {.trials = &job->model.trials,
                               .model = &job->model.measured,
                               .candidates = job->model.candidates,
                               .candidate_count = count,
                               .wanted = wanted,
                               .ends = job->ends,
                               .labels = job->scoring.labels.items ? &job->scoring.labels : NULL,
                               .sets = probes < sets ? probes : sets,
                               .cache_bytes = o->cache_bytes ? o->cache_bytes : (uint64_t)256 << 20,
                               .part = o->part,
                               .parts = o->parts ? o->parts : 1};
    if (!sensitivities_measure(&asked, &found, job->arena, err)) return false;
    for (size_t i = 0; i < all; i++) {
        if (!wanted[i]) continue;
        totals->replays += asked.sets; /* of all processes */
        take_sums(job, &asked, &found, i);
    }
    if (found.all_steps) totals->replayed = (double)found.steps / (double)found.all_steps;
    return combine(job, job->noise, all, err) && combine(job, job->alone, all, err);
}

/* What the journal has, or nobody needs: so it is for all processes. */
static bool find_noted(SearchJob *job, size_t all, bool *found, Err *err) {
    const double *numbers = job->journal ? journal_find(job->journal, "groups", 2 * all + 1) : NULL;
    double noted = numbers || job->decided ? 1 : 0;
    if (numbers) {
        memcpy(job->noise, numbers, all * sizeof *numbers);
        memcpy(job->alone, numbers + all, all * sizeof *numbers);
        job->search->totals.replays = (size_t)numbers[2 * all];
    }
    if (!combine(job, &noted, 1, err)) return false;
    *found = noted != 0;
    return true;
}

bool search_measure(SearchJob *job, Err *err) {
    const size_t count = job->model.candidate_count, all = search_groups(job)->count * count;
    bool *wanted = ARENA_ARRAY(job->arena, bool, all + 1), noted = false;
    if (!find_noted(job, all, &noted, err) || noted) return noted;
    for (size_t i = 0; i < all; i++)
        wanted[i] = job->allowed[i] && job->model.candidates[i % count]->rank != 0 &&
                    narrower(job, i % count) < 0;
    if (!measure_wanted(job, wanted, err) ||
        (take_narrower(job, wanted, all) && !measure_wanted(job, wanted, err)))
        return false;
    if (!job->journal) return true;
    double *numbers = ARENA_ARRAY(job->arena, double, 2 * all + 1);
    memcpy(numbers, job->noise, all * sizeof *numbers);
    memcpy(numbers + all, job->alone, all * sizeof *numbers);
    numbers[2 * all] = (double)job->search->totals.replays;
    return journal_add(job->journal, "groups", numbers, 2 * all + 1, err);
}

bool search_allow(SearchJob *job, Err *err) {
    const Groups *groups = search_groups(job);
    const size_t all = groups->count * job->model.candidate_count;
    bool integers = false;
    for (size_t c = 0; c < job->model.candidate_count; c++)
        integers = integers || dtype_is_integer(job->model.candidates[c]->activations);
    if (integers && !value_ends_measure(groups, job->model.measured.value_count, &job->model.trials,
                                        &job->ends, job->arena, err))
        return false;
    job->model.ends = job->ends;
    job->noise = ARENA_ARRAY(job->arena, double, all + 1);
    job->alone = ARENA_ARRAY(job->arena, double, all + 1);
    return find_allowed(job, err);
}
