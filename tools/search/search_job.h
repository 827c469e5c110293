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
#include "solve_trace.h"
#include "vec.h"

struct DemiSearch {
    Arena arena; /* owns this */
    DemiSearchTotals totals;
    VEC(DemiSearchPoint) points;
    VEC(DemiSearchGroup) groups;
    VEC(DemiSearchEntry) entries;
    VEC(DemiSearchPlace) places;
    Words candidates;
    const char *policy;
};

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
    VEC(double) score_errors; /* of the trace's points */
    VEC(bool) score_noted;    /* of the same: the journal says so */
    Journal *journal;         /* NULL: none */
    const GroupEdge *edges;
    size_t edge_count;
    double started, target;
    bool decided; /* by its corners */
    DemiSearchOutcome outcome;
    size_t best;   /* of the trace's points */
    double *raced; /* seconds of points whose whole runs were timed, 0 of others; NULL: none was */
    Err *err;
} SearchJob;

static inline size_t search_place(const SearchJob *job, uint32_t group, size_t candidate) {
    return group * job->model.candidate_count + candidate;
}

static inline const Groups *search_groups(const SearchJob *job) {
    return &job->model.measured.groups;
}

/* Opens the journal, where there is to be one, for this model, data and options. */
bool search_open_journal(SearchJob *job, Err *err);

/* Finds what groups may have: `allowed`, and the model's `ranges`. Noise is 0 until it is measured. */
bool search_allow(SearchJob *job, Err *err);

/* Sets `problem`: what assignments cost. */
bool search_cost(SearchJob *job, Err *err);

/* Finds the float model's score and the target, and begins `trace`, which scores by conversions. */
bool search_ask(SearchJob *job, Err *err);

/* Scores the widest and the cheapest candidates everywhere, which may decide it (`decided`): the rest is
 * for nothing then. */
bool search_corners(SearchJob *job, Err *err);

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
