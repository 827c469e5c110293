// SPDX-License-Identifier: Apache-2.0
/* What groups may have, and what each candidate of each does alone; see search_job.h. */
#include <math.h>
#include <string.h>

#include "gradient_noise.h"
#include "search_job.h"
#include "sensitivity.h"
#include "solve_bound.h"
#include "supported.h"
#include "weight_storage.h"

enum { PROBES = 8, GRADIENT_PROBES = 2 };

/* ---- what groups may have -------------------------------------------------------------------- */

/* Weights of 4 bits are those of matrices, and blocks have to fit. */
static bool takes_weights(const SearchJob *job, uint32_t group, const Candidate *candidate) {
    const GroupValues *weights = &search_groups(job)->items[group].weights;
    WeightStorage layout;
    for (size_t i = 0; i < weights->count; i++)
        if (!weight_storage_find(&job->model.measured, weights->items[i], candidate, &layout))
            return false;
    return true;
}

/* A group may have a candidate of which something differs: weights alone need weights, and what is quantized values
 * that need not stay float, and a range that is known. The first one it may have in any case, which is then what it
 * is. What a node reads that is to stay in float32 has no other than that, and no quantized one. */
static bool may_have(const SearchJob *job, uint32_t group, size_t c) {
    const Group *of = &search_groups(job)->items[group];
    const Candidate *candidate = job->model.candidates[c];
    if (job->model.kept[group])
        return !candidate->value_format && !candidate->weight_format &&
               (c == 0 || candidate_is_plain(candidate));
    if (c == 0) return true;
    const bool as_first = candidate->activations == job->model.candidates[0]->activations;
    if (!of->weights.count && !candidate->value_format &&
        (as_first || candidate->activations == DTYPE_FLOAT))
        return false;
    if (!takes_weights(job, group, candidate)) return false;
    if (of->keeps_values && candidate->value_format) return false;
    for (size_t i = 0; candidate->value_format && i < of->values.count; i++) {
        const ValueRange ends =
            group_range(job->model.ranges, of->values.items[i]->id, candidate->activations).ends;
        if (ends.low > ends.high || !isfinite(ends.low) || !isfinite(ends.high)) return false;
    }
    return true;
}

static bool refuse_group(const SearchJob *job, const Supported *supported, uint32_t group,
                         Err *err) {
    const Node *node =
        supported_refusal(supported, search_groups(job), group, job->model.candidates[0]);
    if (!node) {
        err_set(err, ERR_USAGE, "a node that reads '%s' is to stay in float32, but no candidate is",
                search_model_name(&job->model, group));
        err_hint(err, "add the candidate 'float'");
        return false;
    }
    err_set(err, ERR_USAGE, "no candidate is supported by all operators around '%s'",
            search_model_name(&job->model, group));
    err_hint(err, "%s '%s' does not support %s", node->op_type->text, node_label(node),
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
    const Share *share = &job->model.trials.share;
    if (share_is_alone(share)) return true;
    uint64_t *words = ARENA_ARRAY(job->arena, uint64_t, count + 1);
    memcpy(words, numbers, count * sizeof *words);
    if (!share_words(share, words, count, err)) return false;
    memcpy(numbers, words, count * sizeof *words);
    return true;
}

/* ---- what a candidate does alone ------------------------------------------------------------- */

/* What AIMET does is done as it does it: on all sets, and for all candidates. */
static bool as_aimet(const SearchJob *job) {
    return job->options.algorithm != DEMI_SEARCH_SOLVE;
}

/* By a score of the caller's. */
static bool is_scored(const SearchJob *job) {
    return job->options.sensitivity == DEMI_SENSITIVITY_SCORE;
}

/* The 8-bit candidate that says what a 16-bit one of integers does: -1 where there is none. */
static ptrdiff_t narrower(const SearchJob *job, size_t candidate) {
    const Candidate *wide = job->model.candidates[candidate];
    if (as_aimet(job) || is_scored(job) || !dtype_is_integer(wide->activations) ||
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

/* ---- bundles --------------------------------------------------------------------------------- */

/* What a group may save of both costs, others as they are in the most precise. */
typedef struct Saving {
    double first, second;
} Saving;

static Saving saving_of(const SolveJoint *joint, uint32_t group, const uint8_t *widest) {
    const SolveProblem *p = joint->problem;
    const double now = solve_joint_of(joint, group, widest[group], widest);
    const double *second = p->second ? p->second + solve_at(p, group, 0) : NULL;
    Saving most = {0, 0};
    for (uint8_t c = 0; c < p->candidates; c++) {
        if (!solve_allowed(p, group, c)) continue;
        most.first = fmax(most.first, now - solve_joint_of(joint, group, c, widest));
        if (second) most.second = fmax(most.second, second[widest[group]] - second[c]);
    }
    return most;
}

/* Groups that save next to nothing are measured together with their neighbors of that kind. */
static void join_small(const SearchJob *job, double *bundle) {
    enum { TOGETHER = 8 };
    static const Saving small = {1 / 2000.0, 1 / 500.0}; /* of what all groups may save */
    Arena *within = arena_child(job->arena);
    const uint32_t groups = job->problem.groups;
    const SolveJoint joint = solve_joint(&job->problem, 0, within);
    uint8_t *widest = ARENA_ARRAY(within, uint8_t, groups + 1);
    Saving *saved = ARENA_ARRAY(within, Saving, groups + 1), all = {0, 0};
    solve_uniform(&job->problem, 0, widest);
    for (uint32_t g = 0; g < groups; g++) {
        saved[g] = saving_of(&joint, g, widest);
        all.first += saved[g].first;
        all.second += saved[g].second;
    }
    uint32_t first = 0, together = TOGETHER;
    for (uint32_t g = 0; g < groups; g++) {
        if (saved[g].first > small.first * all.first || saved[g].second > small.second * all.second)
            continue;
        if (together == TOGETHER) {
            first = g;
            together = 0;
        }
        bundle[g] = first;
        together++;
    }
    arena_free(within);
}

/* Each group's first one of its bundle; as numbers that processes put together. Costs are the first
 * process's. */
static bool find_bundles(SearchJob *job, double *bundle, Err *err) {
    const uint32_t groups = search_groups(job)->count;
    if (job->options.part == 0) {
        for (uint32_t g = 0; g < groups; g++) bundle[g] = g;
        if (!as_aimet(job)) join_small(job, bundle);
    }
    return combine(job, bundle, groups, err);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* How many sets each answer took, the share of a whole run that they took, and what was found; of all
 * processes. */
typedef struct Answers {
    double *replays, *steps, *noise, *alone; /* [groups][candidates]: of bundles' first groups */
} Answers;

static Answers answers_new(const SearchJob *job, size_t all) {
    return (Answers){
        ARENA_ARRAY(job->arena, double, all + 1), ARENA_ARRAY(job->arena, double, all + 1),
        ARENA_ARRAY(job->arena, double, all + 1), ARENA_ARRAY(job->arena, double, all + 1)};
}

/* A caller's metric is for whole models: groups have what their noise is in dB. */
static void take_sums(const SearchJob *job, const Sensitivities *found, size_t i,
                      Answers *answers) {
    const bool scored = job->options.metric == DEMI_METRIC_SCORE;
    answers->replays[i] = found->replays[i];
    answers->steps[i] = found->steps[i];
    answers->noise[i] = metric_noise(&found->sums[i]);
    answers->alone[i] =
        scored ? decibels(answers->noise[i]) : metric_score(&found->sums[i], job->options.metric);
}

/* A SearchScoreTake. */
static void take_score(void *user, size_t at, double score, double loss) {
    const Answers *answers = user;
    answers->replays[at] = answers->steps[at] = 1;
    answers->noise[at] = loss;
    answers->alone[at] = score;
}

/* By runs of parts of the model, or by scores. */
static bool find_answers(SearchJob *job, const Sensitivity *asked, Answers *answers, Err *err) {
    const size_t count = asked->candidate_count, all = search_groups(job)->count * count;
    Sensitivities found;
    if (is_scored(job)) return search_score_groups(job, asked, take_score, answers, err);
    const bool ok = sensitivities_measure(asked, &found, job->arena, err);
    job->model.trials.progress.cancelled |= asked->trials->progress.cancelled;
    for (size_t i = 0; ok && i < all; i++)
        if (sensitivity_asked(asked, (uint32_t)(i / count), i % count))
            take_sums(job, &found, i, answers);
    return ok;
}

/* Groups of a bundle share its noise; scores are what it has as a whole, but where these are noise.
 * Where it broke an output one of them did: they are asked on their own. */
static bool hand_out(SearchJob *job, const Sensitivity *asked, const Answers *answers,
                     bool *again) {
    const size_t count = asked->candidate_count;
    bool some = false;
    for (uint32_t g = 0; g < search_groups(job)->count; g++)
        for (size_t c = 0; c < count; c++) {
            const size_t i = g * count + c, from = asked->bundle[g] * count + c;
            double together = 0;
            again[i] = false;
            if (!asked->wanted[i]) continue;
            for (uint32_t k = asked->bundle[g]; k < search_groups(job)->count; k++)
                together += asked->bundle[k] == asked->bundle[g] && asked->wanted[k * count + c];
            again[i] = together > 1 && !isfinite(answers->noise[from]);
            some = some || again[i];
            job->noise[i] = answers->noise[from] / together;
            job->alone[i] = job->options.metric == DEMI_METRIC_SQNR && !is_scored(job)
                                ? decibels(job->noise[i])
                                : answers->alone[from];
        }
    return some;
}

static bool combine_answers(SearchJob *job, const Answers *answers, size_t all, Err *err) {
    return combine(job, answers->replays, all, err) && combine(job, answers->steps, all, err) &&
           combine(job, answers->noise, all, err) && combine(job, answers->alone, all, err);
}

static void count_replays(SearchJob *job, const Answers *answers, size_t all) {
    DemiSearchTotals *totals = &job->search->totals;
    double replays = 0, steps = totals->replayed * (double)totals->replays;
    for (size_t i = 0; i < all; i++) {
        replays += answers->replays[i];
        steps += answers->steps[i];
    }
    totals->replays += (size_t)replays;
    if (totals->replays) totals->replayed = steps / (double)totals->replays;
}

static Sensitivity asked_of(SearchJob *job, const bool *wanted, const uint32_t *bundle) {
    const DemiSearchOptions *o = &job->options;
    Trials *trials = search_model_probes(&job->model);
    const bool labeled = job->scoring.labels.items && trials == &job->model.trials;
    const bool gradient = o->sensitivity == DEMI_SENSITIVITY_GRADIENT;
    const size_t sets = trials->count, few = gradient ? GRADIENT_PROBES : PROBES;
    const size_t probes = o->probes ? o->probes : as_aimet(job) ? sets : few;
    return (Sensitivity){.trials = trials,
                         .model = &job->model.measured,
                         .candidates = job->model.candidates,
                         .candidate_count = job->model.candidate_count,
                         .wanted = wanted,
                         .bundle = bundle,
                         .ranges = job->model.ranges,
                         .labels = labeled ? &job->scoring.labels : NULL,
                         .sets = probes < sets ? probes : sets,
                         .fewer = !o->probes && !as_aimet(job),
                         .cache_bytes = o->cache_bytes ? o->cache_bytes : (uint64_t)256 << 20,
                         .part = o->part,
                         .parts = o->parts ? o->parts : 1};
}

/* Sets *again where answers of bundles are worth nothing, for groups on their own. */
static bool ask(SearchJob *job, const bool *wanted, const uint32_t *bundle, bool *again, bool *some,
                Err *err) {
    const size_t all = search_groups(job)->count * job->model.candidate_count;
    const Sensitivity asked = asked_of(job, wanted, bundle);
    Answers answers = answers_new(job, all);
    if (!find_answers(job, &asked, &answers, err)) return false;
    if (!combine_answers(job, &answers, all, err)) return false;
    count_replays(job, &answers, all);
    *some = hand_out(job, &asked, &answers, again);
    return true;
}

/* Scores are what the noise is in dB, whatever the metric is: nothing was run. The first process finds
 * them. */
static bool estimate_wanted(SearchJob *job, const bool *wanted, Err *err) {
    const size_t all = search_groups(job)->count * job->model.candidate_count;
    const Sensitivity asked = asked_of(job, wanted, NULL);
    DemiSearchTotals *totals = &job->search->totals;
    bool ok = true;
    if (job->options.part == 0) {
        ok = gradient_noise_find(&asked, job->noise, &totals->replays, job->arena, err);
        totals->replayed = 1;
    }
    job->model.trials.progress.cancelled |= asked.trials->progress.cancelled;
    if (!ok || !combine(job, job->noise, all, err)) return false;
    for (size_t i = 0; i < all; i++)
        if (wanted[i]) job->alone[i] = decibels(job->noise[i]);
    return true;
}

static bool measure_wanted(SearchJob *job, const bool *wanted, Err *err) {
    const uint32_t groups = search_groups(job)->count;
    double *found = ARENA_ARRAY(job->arena, double, groups + 1);
    uint32_t *bundle = ARENA_ARRAY(job->arena, uint32_t, groups + 1);
    bool *again = ARENA_ARRAY(job->arena, bool, groups * job->model.candidate_count + 1), some;
    if (!find_bundles(job, found, err)) return false;
    for (uint32_t g = 0; g < groups; g++) bundle[g] = (uint32_t)found[g];
    if (!ask(job, wanted, bundle, again, &some, err)) return false;
    if (!some) return true;
    for (uint32_t g = 0; g < groups; g++) bundle[g] = g;
    bool *alone =
        arena_copy(job->arena, again, groups * job->model.candidate_count * sizeof *again);
    return ask(job, alone, bundle, again, &some, err);
}

/* What groups do depends on how they are measured together, which costs decide. */
static const char *key_of_groups(const SearchJob *job) {
    if (as_aimet(job)) return "groups of aimet";
    switch (job->options.cost) {
    case DEMI_COST_BITOPS: return "groups by bitops";
    case DEMI_COST_BYTES:
        return isnan(job->options.bits) ? "groups by bytes" : "groups by bytes of weights";
    case DEMI_COST_LATENCY: break;
    }
    return "groups by latency";
}

/* What the journal has, or nobody needs: so it is for all processes. */
static bool find_noted(SearchJob *job, size_t all, bool *found, Err *err) {
    const double *numbers = job->journal && !job->decided
                                ? journal_find(job->journal, key_of_groups(job), 2 * all + 1)
                                : NULL;
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
    const bool gradient = job->options.sensitivity == DEMI_SENSITIVITY_GRADIENT;
    if (!find_noted(job, all, &noted, err) || noted) return noted;
    for (size_t i = 0; i < all; i++)
        wanted[i] = job->allowed[i] && !candidate_is_plain(job->model.candidates[i % count]) &&
                    (gradient || narrower(job, i % count) < 0);
    if (gradient ? !estimate_wanted(job, wanted, err)
                 : !measure_wanted(job, wanted, err) ||
                       (take_narrower(job, wanted, all) && !measure_wanted(job, wanted, err)))
        return false;
    if (!job->journal) return true;
    double *numbers = ARENA_ARRAY(job->arena, double, 2 * all + 1);
    memcpy(numbers, job->noise, all * sizeof *numbers);
    memcpy(numbers + all, job->alone, all * sizeof *numbers);
    numbers[2 * all] = (double)job->search->totals.replays;
    return journal_add(job->journal, key_of_groups(job), numbers, 2 * all + 1, err);
}

bool search_allow(SearchJob *job, MemTrap *trap, Err *err) {
    const Groups *groups = search_groups(job);
    const size_t all = groups->count * job->model.candidate_count;
    bool integers = false;
    for (size_t c = 0; c < job->model.candidate_count; c++)
        integers = integers || job->model.candidates[c]->value_format;
    GroupRanges *ranges = ARENA_NEW(job->arena, GroupRanges);
    Trials *calibration = search_model_calibration(&job->model);
    const bool ok = !integers || group_ranges_measure(&job->model.measured, calibration, ranges,
                                                      &job->model.convert, job->arena, err);
    job->model.trials.progress.cancelled |= calibration->progress.cancelled;
    if (!ok) return false;
    job->model.ranges = integers ? ranges : NULL;
    job->noise = ARENA_ARRAY(job->arena, double, all + 1);
    job->alone = ARENA_ARRAY(job->arena, double, all + 1);
    if (!find_allowed(job, err)) return false;
    const bool rounded = search_model_round(&job->model, job->allowed, trap, err);
    job->search->rounded = job->model.rounded;
    job->model.trials.progress.cancelled |= calibration->progress.cancelled;
    if (calibration != &job->model.trials) trials_forget(calibration);
    return rounded;
}
