// SPDX-License-Identifier: Apache-2.0
/* Which algorithm looks for which result; see search_job.h. */
#include <math.h>
#include <string.h>

#include "aimet.h"
#include "aimet_conversions.h"
#include "choose.h"
#include "clock.h"
#include "search_job.h"

enum { CURVE_POINTS = 24, WITHIN_POINTS = 12 };

/* ---- AIMET's --------------------------------------------------------------------------------- */

static double bits_of(Dtype dtype) {
    return dtype_bits(dtype);
}

/* Both types' bits, or activations' alone where the group has no weights. */
static double *bits_table(const SearchJob *job) {
    const size_t count = job->model.candidate_count;
    double *bits = ARENA_ARRAY(job->arena, double, job->problem.groups *count + 1);
    for (uint32_t g = 0; g < job->problem.groups; g++)
        for (size_t c = 0; c < count; c++) {
            const Candidate *candidate = job->model.candidates[c];
            const bool weights = search_groups(job)->items[g].weights.count;
            bits[search_place(job, g, c)] =
                bits_of(candidate->activations) + (weights ? bits_of(candidate->weights) : 0);
        }
    return bits;
}

static void tell_lists(SearchJob *job, const AimetResult *result) {
    for (size_t i = 0; i < result->walk.count; i++) {
        const AimetEntry *entry = &result->walk.entries[i];
        VEC_PUSH(
            job->arena, &job->search->entries,
            ((DemiSearchEntry){entry->group, entry->candidate, entry->score, entry->reduction}));
    }
    for (size_t i = 0; i < result->tried_count; i++) {
        const AimetPlace *place = &result->tried[i];
        VEC_PUSH(job->arena, &job->search->places,
                 ((DemiSearchPlace){place->relative, place->score, place->group, place->candidate,
                                    place->place}));
    }
}

/* Every group read by one of another candidate converts its elements: as many bits, and these are worth
 * as much as those that products multiply. */
static bool reduce_conversions(SearchJob *job, const AimetResult *result) {
    static const double alphas[] = {1, 0.8, 0.6, 0.4, 0.2, 0};
    enum { ALPHAS = sizeof alphas / sizeof *alphas, BITS = 8 };
    AimetReduced reduced[ALPHAS];
    size_t count;
    const GroupEdge *found = groups_edges(search_groups(job), &count, job->arena);
    AimetEdge *edges = ARENA_ARRAY(job->arena, AimetEdge, count + 1);
    for (size_t i = 0; i < count; i++)
        edges[i] =
            (AimetEdge){found[i].from, found[i].to, job->costs.elements[found[i].from] * BITS};
    const AimetConversions conversions = {.edges = edges,
                                          .edge_count = count,
                                          .alphas = alphas,
                                          .alpha_count = ALPHAS,
                                          .price = 1,
                                          .target = job->target,
                                          .point = result->point,
                                          .best = result->best};
    return aimet_reduce_conversions(&job->trace, &conversions, reduced, &job->best) ||
           !job->trace.failed;
}

static DemiSearchOutcome outcome_of(AimetExit exit) {
    switch (exit) {
    case AIMET_FOUND:
    case AIMET_NO_PLACE:
    case AIMET_NOTHING_TO_DO: break;
    case AIMET_BEST_MISSES: return DEMI_FOUND_NOTHING;
    case AIMET_LOWEST_MEETS: return DEMI_FOUND_TRIVIAL;
    case AIMET_CURVE: return DEMI_FOUND_CURVE;
    case AIMET_ENDED: return DEMI_FOUND_SO_FAR;
    }
    return DEMI_FOUND;
}

static bool find_as_aimet(SearchJob *job) {
    static const AimetSearch searches[] = {[DEMI_SEARCH_AIMET_BINARY] = AIMET_BINARY,
                                           [DEMI_SEARCH_AIMET_INTERPOLATION] = AIMET_INTERPOLATION,
                                           [DEMI_SEARCH_AIMET_BRUTE_FORCE] = AIMET_BRUTE_FORCE};
    const double float_score = job->search->totals.float_score;
    const AimetOptions options = {.alone = job->alone,
                                  .bits = bits_table(job),
                                  .float_score = float_score,
                                  .drop = float_score - job->aim,
                                  .search = searches[job->options.algorithm],
                                  .reverse = job->options.reverse};
    AimetResult result;
    if (!aimet_choose(&job->trace, &options, &result)) return false;
    job->search->entries.count = job->search->places.count = 0; /* of a lower aim */
    tell_lists(job, &result);
    job->outcome = outcome_of(result.exit);
    job->best = result.point;
    return result.exit != AIMET_FOUND || !job->options.fewer_conversions ||
           reduce_conversions(job, &result);
}

/* ---- the better ones ------------------------------------------------------------------------- */

bool search_is_bounded(const DemiSearchOptions *options) {
    return !isnan(options->most_cost) || !isnan(options->bits);
}

/* A share of the widest candidate's cost, or of bytes that are those bits of each weight. */
static double most_cost(const SearchJob *job) {
    double elements = 0;
    if (isnan(job->options.bits)) {
        uint8_t *widest = ARENA_ARRAY(job->arena, uint8_t, job->problem.groups + 1);
        solve_uniform(&job->problem, 0, widest);
        return job->options.most_cost * solve_cost(&job->problem, widest);
    }
    for (uint32_t g = 0; g < job->problem.groups; g++) elements += job->costs.weight_elements[g];
    return elements * job->options.bits / 8;
}

static bool find_within(SearchJob *job) {
    const double most = most_cost(job);
    const bool ok = choose_within(&job->trace, most, WITHIN_POINTS);
    job->outcome = DEMI_FOUND;
    job->best = solve_highest(&job->trace, most);
    return ok;
}

static bool find_best(SearchJob *job) {
    static const DemiSearchOutcome outcomes[] = {[CHOOSE_FOUND] = DEMI_FOUND,
                                                 [CHOOSE_TRIVIAL] = DEMI_FOUND_TRIVIAL,
                                                 [CHOOSE_NOTHING] = DEMI_FOUND_NOTHING};
    const ChooseOptions options = {CHOOSE_EFFORT, job->alone, bits_table(job)};
    ChooseOutcome found = CHOOSE_FOUND;
    const bool ok = choose_search(&job->trace, job->aim, &options, &found);
    job->outcome = outcomes[found];
    job->best = solve_cheapest(&job->trace, job->aim);
    return ok;
}

/* ---- whole runs ------------------------------------------------------------------------------ */

enum { RACERS = 4 };

static size_t widest_point(const SearchJob *job) {
    uint8_t *widest = ARENA_ARRAY(job->arena, uint8_t, job->problem.groups + 1);
    solve_uniform(&job->problem, 0, widest);
    return solve_trace_find(&job->trace, widest);
}

/* The widest, where it is good enough, and the cheapest. */
static size_t choose_racers(const SearchJob *job, size_t *racers) {
    size_t count = 0;
    size_t widest = widest_point(job);
    if (widest != SOLVE_NONE && solve_value(&job->trace, widest) >= job->aim)
        racers[count++] = widest;
    while (count < RACERS) {
        size_t best = SOLVE_NONE;
        for (size_t i = 0; i < job->trace.points.count; i++) {
            bool taken = !(solve_value(&job->trace, i) >= job->aim);
            for (size_t k = 0; k < count; k++) taken = taken || racers[k] == i;
            if (!taken && (best == SOLVE_NONE || solve_cheaper(&job->trace, i, best))) best = i;
        }
        if (best == SOLVE_NONE) break;
        racers[count++] = best;
    }
    return count;
}

/* Sums of steps predict; which of those that are good enough is the fastest, whole runs decide. */
static bool race(SearchJob *job, Err *err) {
    const uint8_t *assignments[RACERS + 1] = {NULL};
    size_t racers[RACERS];
    double seconds[RACERS + 1];
    const size_t count = choose_racers(job, racers);
    for (size_t i = 0; i < count; i++)
        assignments[i + 1] = solve_point(&job->trace, racers[i])->assignment;
    const char *key = "race";
    for (size_t i = 0; i < count; i++)
        key = arena_printf(job->arena, "%s %s", key, search_key(job, assignments[i + 1]));
    const double *noted = job->journal ? journal_find(job->journal, key, count + 1) : NULL;
    if (noted)
        memcpy(seconds, noted, (count + 1) * sizeof *seconds);
    else if (!latency_race(&job->model, assignments, count + 1, search_deadline(job), seconds,
                           err) ||
             (job->journal && !journal_add(job->journal, key, seconds, count + 1, err)))
        return false;
    job->raced = ARENA_ARRAY(job->arena, double, job->trace.points.count + 1);
    job->search->totals.float_seconds = seconds[0];
    double least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        job->raced[racers[i]] = seconds[i + 1];
        if (!(seconds[i + 1] < least)) continue;
        least = seconds[i + 1];
        job->best = racers[i];
    }
    return true;
}

/* What is fastest has to be accepted, too; else it is what was accepted before. */
static bool race_accepted(SearchJob *job, Err *err) {
    const Acceptance before = job->acceptance;
    const size_t best = job->best;
    if (!race(job, err)) return false;
    if (job->best == best) return true;
    if (before.applies && !search_may_accept(job)) {
        job->best = best;
        return true;
    }
    if (!search_accept(job, job->best, err)) return false;
    if (job->acceptance.accepted) return true;
    const size_t tests = job->acceptance.tests;
    job->acceptance = before;
    job->acceptance.tests = tests;
    job->best = best;
    return true;
}

/* ---- corners --------------------------------------------------------------------------------- */

/* Where no score is high enough for its interval to reach the target, the highest is tried. */
static void cap_aim(SearchJob *job) {
    const size_t best = solve_highest(&job->trace, INFINITY);
    if (best == SOLVE_NONE || solve_value(&job->trace, best) >= job->aim) return;
    if (solve_value(&job->trace, best) >= job->target) job->aim = solve_value(&job->trace, best);
}

/* The cheapest candidates everywhere may be good enough. */
static bool try_cheapest(SearchJob *job, size_t cheapest, Err *err) {
    if (cheapest == SOLVE_NONE || !(solve_value(&job->trace, cheapest) >= job->aim)) return true;
    const size_t best = solve_cheapest(&job->trace, job->aim);
    if (!search_accept(job, best, err)) return false;
    cap_aim(job);
    if (!job->acceptance.accepted) return true;
    job->decided = true;
    job->outcome = DEMI_FOUND_TRIVIAL;
    job->best = best;
    return true;
}

/* Not even the widest may be. */
static void try_widest(SearchJob *job, size_t widest) {
    if (job->decided || widest == SOLVE_NONE || isnan(solve_point(&job->trace, widest)->score) ||
        solve_cheapest(&job->trace, job->target) != SOLVE_NONE)
        return;
    job->decided = true;
    job->outcome = DEMI_FOUND_NOTHING;
    job->best = SOLVE_NONE;
}

/* Shares are of the widest candidates, so these are scored in any case. AIMET has corners of its own. */
bool search_corners(SearchJob *job, Err *err) {
    const bool as_aimet = job->options.algorithm != DEMI_SEARCH_SOLVE;
    uint8_t *first = ARENA_ARRAY(job->arena, uint8_t, job->problem.groups + 1);
    size_t widest, cheapest;
    job->cheapest = SOLVE_NONE;
    solve_uniform(&job->problem, 0, first);
    if (!solve_trace_score(&job->trace, first, &widest)) return !job->trace.failed;
    if (isnan(job->target) || search_is_bounded(&job->options) ||
        (as_aimet && !job->acceptance.applies))
        return true;
    if (!choose_uniform(&job->trace, &widest, &cheapest)) return !job->trace.failed;
    job->cheapest = cheapest;
    search_aim(job);
    cap_aim(job);
    if (as_aimet) return true;
    if (!try_cheapest(job, cheapest, err)) return false;
    try_widest(job, widest);
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool find_any(SearchJob *job) {
    if (job->decided) return true;
    if (job->options.algorithm != DEMI_SEARCH_SOLVE) return find_as_aimet(job);
    if (search_is_bounded(&job->options)) return find_within(job);
    if (!isnan(job->target)) return find_best(job);
    job->outcome = DEMI_FOUND_CURVE;
    job->best = SOLVE_NONE;
    return choose_curve(&job->trace, CURVE_POINTS);
}

static bool find_first(SearchJob *job, Err *err) {
    const bool ok = find_any(job);
    if (job->trace.failed || (!ok && !job->trace.spent)) return false;
    if (job->trace.spent && job->outcome == DEMI_FOUND) job->outcome = DEMI_FOUND_SO_FAR;
    if (job->best == SOLVE_NONE) job->best = widest_point(job);
    if (job->best != SOLVE_NONE) return true;
    job->model.trials.progress.cancelled = true;
    err_set(err, ERR_CANCELLED, "cancelled");
    err_hint(err, "nothing reached the target by then");
    return false;
}

/* With a higher aim: the cheapest that reaches it, or what comes nearest. Where the search was ended, or never
 * measured groups, it is one that was scored. */
static bool find_again(SearchJob *job) {
    const bool over = job->decided || job->trace.spent;
    cap_aim(job);
    if (!over && !find_any(job) && !job->trace.spent) return false;
    if (job->trace.failed) return false;
    job->outcome = job->trace.spent ? DEMI_FOUND_SO_FAR : DEMI_FOUND;
    job->best = solve_cheapest(&job->trace, job->aim);
    if (job->best == SOLVE_NONE) job->best = solve_highest(&job->trace, INFINITY);
    return true;
}

/* What was accepted. */
typedef struct Accepted {
    Acceptance acceptance;
    DemiSearchOutcome outcome;
    size_t best; /* SOLVE_NONE: nothing yet */
    double aim;
} Accepted;

static void go_back(SearchJob *job, const Accepted *to) {
    const size_t tests = job->acceptance.tests;
    job->acceptance = to->acceptance;
    job->acceptance.tests = tests;
    job->outcome = to->outcome;
    job->best = to->best;
    job->aim = to->aim;
}

static bool was_tested(const SearchJob *job, size_t point) {
    for (size_t i = 0; i < job->tested.count; i++)
        if (job->tested.items[i] == point) return true;
    return false;
}

/* The point whose interval on the sets of the search reaches least far down, and of equal ones the first, as the
 * widest candidates are scored first. Its score alone would say less: of shares, a mixture that gains as many rows
 * as it loses has the same. */
static size_t safest_point(const SearchJob *job) {
    double highest = -INFINITY;
    size_t safest = SOLVE_NONE;
    for (size_t i = 0; i < job->scores.count; i++) {
        if (!(search_low(job, i) > highest)) continue;
        highest = search_low(job, i);
        safest = i;
    }
    return safest;
}

/* After a test that failed: what a higher aim finds; the safest point where that is nothing new, or not expected to
 * pass the last test. */
static bool find_safer(SearchJob *job, bool *any) {
    const bool last = job->acceptance.tests + 1 == job->acceptance.most;
    if (!search_may_accept(job)) return true;
    if (!find_again(job)) return false;
    if (was_tested(job, job->best) || (last && !search_expects(job, job->best)))
        job->best = safest_point(job);
    *any = job->best != SOLVE_NONE && !was_tested(job, job->best);
    return true;
}

/* What to test next; none where there is nothing that was not tested, or that is cheaper than what was accepted. */
static bool find_next(SearchJob *job, const Accepted *accepted, bool *any) {
    *any = false;
    if (accepted->best == SOLVE_NONE) return find_safer(job, any);
    if (job->acceptance.accepted ? !search_lower_aim(job) : !search_may_accept(job)) return true;
    if (!find_again(job)) return false;
    *any = !was_tested(job, job->best) && solve_cheaper(&job->trace, job->best, accepted->best);
    return true;
}

/* What is found is tested on the sets that are held out; where it fails, what is found with a higher aim, and
 * where it passes with much to spare, what is found with a lower one. */
static bool accept_any(SearchJob *job, Err *err) {
    Accepted accepted = {.best = SOLVE_NONE};
    bool any = true;
    if (job->outcome == DEMI_FOUND_NOTHING || job->outcome == DEMI_FOUND_CURVE) return true;
    while (any) {
        const bool known = job->acceptance.accepted || was_tested(job, job->best); /* by corners */
        if (!known && !search_accept(job, job->best, err)) return false;
        if (job->acceptance.accepted)
            accepted = (Accepted){job->acceptance, job->outcome, job->best, job->aim};
        if (!find_next(job, &accepted, &any)) return false;
        if (any) job->acceptance.accepted = false;
    }
    if (accepted.best != SOLVE_NONE)
        go_back(job, &accepted);
    else
        job->outcome = DEMI_FOUND_UNCONFIRMED;
    if (job->outcome == DEMI_FOUND && job->best == job->cheapest)
        job->outcome = DEMI_FOUND_TRIVIAL; /* which an earlier test had too high an aim for */
    return true;
}

bool search_find(SearchJob *job, Err *err) {
    if (!find_first(job, err) || !accept_any(job, err)) return false;
    const bool raced = job->options.cost == DEMI_COST_LATENCY &&
                       (job->outcome == DEMI_FOUND || job->outcome == DEMI_FOUND_TRIVIAL) &&
                       clock_seconds() < search_deadline(job);
    return (!raced || race_accepted(job, err)) && search_confirm(job, job->best, err);
}
