// SPDX-License-Identifier: Apache-2.0
/* A model that is searched: its groups, the trials that measure it, and conversions of it by
 * assignments of candidates to groups. */
#ifndef DEMI_SEARCH_MODEL_H
#define DEMI_SEARCH_MODEL_H

#include "search_candidates.h"
#include "measured_model.h"
#include "metric.h"
#include "trial.h"
#include "group_ranges.h"

/* What sets are asked to be used for. */
typedef struct SetOptions {
    const DemiInputOptions *calibration; /* sets for ranges; NULL: some of the data's */
    const DemiInputOptions *holdout;     /* sets for acceptance; NULL: some of the data's */
    double share;  /* of the data's sets that is held out; NaN: as search_sets.h has it */
    bool accepts;  /* a result is to be accepted by such sets */
    bool shares;   /* by shares of rows, of which a set may have many */
    bool compares; /* scores compare outputs with the float model\'s */
    MetricLabels labels, holdout_labels; /* of the data's sets, and of those of `holdout` */
} SetOptions;

typedef struct SearchModel {
    Arena *arena;
    DemiSource source;          /* of the float model */
    DemiConvertOptions convert; /* what else conversions are told */
    SessionOptions how;         /* of all runs */
    DemiModel **held;           /* the model that groups point into */
    MeasuredModel measured;
    SetOptions sets;
    Trials trials; /* of the measured model, on the sets that candidates are selected by */
    Trials calibration,
        holdout; /* on those for ranges and for acceptance; no sets: none are apart */
    MetricLabels labels, holdout_labels; /* of the sets of both trials; none: no items */
    size_t samples;                      /* independent ones that are held out */
    bool by_rows;                        /* they are rows, not sets */
    uint64_t holdout_rows; /* rows of the first output over the sets that are held out */
    const DemiInputOptions *probe_inputs; /* NULL: the trials' own; else of: */
    Trials probes;                        /* that groups are measured on */
    SearchCandidates told;                /* what the candidates are, and how they are stored */
    const Candidate *const *candidates;   /* [candidate_count], told's; the first is the widest */
    size_t candidate_count;
    bool *kept; /* [groups]: a node that reads it is to stay in float32 */
    DemiRoundedWeights
        *rounded;       /* what weights are as candidates store them; NULL: rounded to nearest */
    DemiRunOptions run; /* of conversions that take these */
    const GroupRanges *ranges; /* NULL where no candidate quantizes values */
    Dtype half;                /* the 16-bit float among them; DTYPE_UNDEFINED: none */
    bool quantize_outputs;     /* the model's outputs may have integers, too */
} SearchModel;

/* Opens the source twice: to look at, and to run. `arena`, `source`, `convert`, `how`, `candidates`
 * and the trials' progress, parts and share are set, and stay. ERR_USAGE where two 16-bit float types are among the
 * candidates: a conversion has one. */
bool search_model_open(SearchModel *model, MemTrap *trap, Err *err);

/* In an assignment: the group stays as it is. */
enum { SEARCH_UNCONVERTED = UINT8_MAX };

/* The conversion that gives each group its candidate; in `arena`. */
DemiConvertOptions search_model_options(const SearchModel *model, const uint8_t *assignment,
                                        Arena *arena);

/* The conversion that changes nothing; in `arena`. */
DemiConvertOptions search_model_unconverted(const SearchModel *model, Arena *arena);

/* A source of that conversion; `user` of it lies in `arena`, too. */
DemiSource search_model_source(SearchModel *model, const DemiConvertOptions *options, Arena *arena);

/* The trials that groups are measured on. */
static inline Trials *search_model_probes(SearchModel *model) {
    return model->probe_inputs ? &model->probes : &model->trials;
}

/* The trials that ranges come from. */
static inline Trials *search_model_calibration(SearchModel *model) {
    return model->calibration.count ? &model->calibration : &model->trials;
}

/* Trials of the measured model on other sets, with a session of their own; cut as `parts` says
 * (session_input_sets). */
bool search_model_trials(SearchModel *model, const DemiInputOptions *inputs, size_t parts,
                         Trials *trials, Err *err);

/* Rounds weights on the calibration data, as all candidates store them, where that is asked for. `allowed` is
 * [groups][candidates]; `trap` of memory. */
bool search_model_round(SearchModel *model, const bool *allowed, MemTrap *trap, Err *err);

/* What to call a group: its first value. */
const char *search_model_name(const SearchModel *model, uint32_t group);

#endif
