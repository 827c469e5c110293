// SPDX-License-Identifier: Apache-2.0
/* One search while it runs, which the files search_*.c take further in turn: what is measured of the
 * groups, what assignments cost, what they score, which is found, and what is said of it. */
#ifndef DEMI_SEARCH_JOB_H
#define DEMI_SEARCH_JOB_H

#include <math.h>

#include "costs.h"
#include "evaluation.h"
#include "journal.h"
#include "latency.h"
#include "search_model.h"
#include "sensitivity.h"
#include "solve_trace.h"
#include "vec.h"

struct DemiSearch {
    Arena arena; /* owns this */
    DemiSearchTotals totals;
    VEC(DemiSearchPoint) points;
    VEC(DemiSearchGroup) groups;
    VEC(DemiSearchEntry) entries;
    VEC(DemiSearchPlace) places;
    VEC(const Candidate *) candidates;
    const char *policy;
    DemiRoundedWeights *rounded; /* NULL: none; freed with the arena */
};

/* Acceptance by sets that are held out (search_accept.c). */
typedef struct Acceptance {
    Scoring scoring;    /* on these sets */
    bool applies;       /* there are some, or a caller's score */
    size_t tests, most; /* that were made, and that may be */
    double target;      /* on these sets */
    size_t point;       /* that was tested last; SOLVE_NONE: none */
    Score score;        /* of that */
    bool noted;         /* the journal says so */
    bool accepted;      /* that one is the result */
} Acceptance;

/* Tables are [groups][candidates]. */
typedef struct SearchJob {
    Arena *arena; /* the handle's */
    DemiSearch *search;
    DemiSearchOptions options;
    SearchModel model;
    Scoring scoring;
    Costs costs;
    Latency latency; /* of DEMI_COST_LATENCY */
    double *noise;
    double *alone; /* scores of a group alone */
    bool *allowed;
    SolveProblem problem;
    SolveTrace trace;
    VEC(Score) scores;     /* of the trace's points */
    VEC(bool) score_noted; /* of the same: the journal says so */
    Journal *journal;      /* NULL: none */
    const GroupEdge *edges;
    size_t edge_count;
    double started, target;
    double aim;   /* the score on the selection sets that a result has: the target and a margin */
    bool decided; /* by its corners */
    DemiSearchOutcome outcome;
    size_t cheapest; /* the point of the cheapest candidates everywhere; SOLVE_NONE: not scored */
    size_t best;     /* of the trace's points */
    Acceptance acceptance;
    VEC(size_t) tested; /* points that were tested on the sets that are held out */
    double *raced; /* seconds of points whose whole runs were timed, 0 of others; NULL: none was */
    Err *err;
} SearchJob;

static inline size_t search_place(const SearchJob *job, uint32_t group, size_t candidate) {
    return group * job->model.candidate_count + candidate;
}

static inline const Groups *search_groups(const SearchJob *job) {
    return &job->model.measured.groups;
}

/* Opens the journal, where there is to be one, for this model, data and options. Its entries say by themselves what
 * they are of: searches with other targets, costs and algorithms have other ones, or the same. */
bool search_open_journal(SearchJob *job, Err *err);

/* Finds what groups may have: `allowed`, and the model's `ranges`; and rounds weights on data, where that is asked
 * for. Noise is 0 until it is measured. */
bool search_allow(SearchJob *job, MemTrap *trap, Err *err);

/* Sets `problem`: what assignments cost. */
bool search_cost(SearchJob *job, Err *err);

/* Finds the float model's score and the target, and begins `trace`, which scores by conversions. */
bool search_ask(SearchJob *job, Err *err);

/* After search_ask, whose scores it is for: what is held out, and how an interval is made of it. ERR_MODEL where
 * too little is held out for any model to be accepted. */
bool search_acceptance(SearchJob *job, Err *err);

/* What the journal calls how results are accepted: intervals in it depend on that. */
const char *search_acceptance_name(const SearchJob *job);

/* Sets `aim`, once some of the trace's points were scored: what a score has to be for its interval on held-out
 * sets to reach the target, as samples differ on the selection sets. */
void search_aim(SearchJob *job);

/* Tests the point on the sets that are held out, unless nothing is: sets acceptance.accepted, or raises the aim
 * for the next test. */
bool search_accept(SearchJob *job, size_t point, Err *err);

/* Sets a lower aim where the point that was accepted has more than the target takes, and another may be tested:
 * not so low that it would be an even chance. */
bool search_lower_aim(SearchJob *job);

/* Whether another point may be tested. */
bool search_may_accept(const SearchJob *job);

/* The lower end of a point's interval on the sets of the search, or its score where it has none. */
double search_low(const SearchJob *job, size_t point);

/* After a test that failed: whether the point is so much surer that it is expected to pass. */
bool search_expects(const SearchJob *job, size_t point);

/* Whether the best score within a cost is looked for. */
bool search_is_bounded(const DemiSearchOptions *options);

/* Runs an assignment, or the unconverted model where that is NULL, and scores it as `scoring` says, which is the
 * search's own or the acceptance's. Other processes run their share of the sets (search_share.c). */
bool search_run(SearchJob *job, const Scoring *scoring, const uint8_t *assignment, Score *found,
                Err *err);

/* The same in one of the ways in which models are run. */
bool search_run_once(SearchJob *job, const Scoring *scoring, const uint8_t *assignment,
                     DemiNumerics numerics, Score *found, Err *err);

/* What processes but the first do: what it runs, until it calls search_release. */
bool search_serve(SearchJob *job, Err *err);
bool search_release(SearchJob *job, Err *err);

/* What the journal calls an assignment. */
const char *search_key(const SearchJob *job, const uint8_t *assignment);

/* Scores in the journal, where there is one. */
bool search_note(SearchJob *job, const char *key, const Score *score, Err *err);
bool search_noted(const SearchJob *job, const char *key, Score *score);

/* Scores the widest and the cheapest candidates everywhere, which may decide it (`decided`): the rest is
 * for nothing then. */
bool search_corners(SearchJob *job, Err *err);

/* What a caller's score is lower by where bundles alone are converted, of what this process is asked for:
 * calls take(user, place in the tables, score, loss). */
typedef void SearchScoreTake(void *user, size_t at, double score, double loss);
bool search_score_groups(SearchJob *job, const Sensitivity *asked, SearchScoreTake *take,
                         void *user, Err *err);

/* Finds what each candidate of each group does alone: `noise`, `alone`. Processes that share that out
 * all get here. */
bool search_measure(SearchJob *job, Err *err);

/* When no more is begun that is not needed for a result, of clock_seconds: all phases have one. */
static inline double search_deadline(const SearchJob *job) {
    return job->options.seconds > 0 ? job->started + job->options.seconds : INFINITY;
}

/* Runs a point of the trace again that only the journal vouches for. ERR_USAGE where its score is
 * another one. */
bool search_confirm(SearchJob *job, size_t point, Err *err);

/* Searches: `outcome`, `best`, and AIMET's lists. */
bool search_find(SearchJob *job, Err *err);

/* Fills the handle. */
bool search_tell(SearchJob *job, Err *err);

#endif
