// SPDX-License-Identifier: Apache-2.0
/* A model that is searched: its groups, the trials that measure it, and conversions of it by
 * assignments of candidates to groups. */
#ifndef DEMI_SEARCH_MODEL_H
#define DEMI_SEARCH_MODEL_H

#include "candidate.h"
#include "measured_model.h"
#include "trial.h"
#include "group_ranges.h"

typedef struct SearchModel {
    Arena *arena;
    DemiSource source;          /* of the float model */
    DemiConvertOptions convert; /* what else conversions are told */
    SessionOptions how;         /* of all runs */
    DemiModel **held;           /* the model that groups point into */
    MeasuredModel measured;
    Trials trials;                        /* of the measured model */
    const DemiInputOptions *probe_inputs; /* NULL: the trials' own; else of: */
    Trials probes;                        /* that groups are measured on */
    const Candidate *const *candidates;   /* [candidate_count]; the first is the widest */
    size_t candidate_count;
    const GroupRanges *ranges; /* NULL where no candidate is of integers */
    Dtype half;                /* the 16-bit float among them; DTYPE_UNDEFINED: none */
} SearchModel;

/* Opens the source twice: to look at, and to run. `arena`, `source`, `convert`, `how`, `candidates`
 * and the trials' progress are set, and stay. ERR_USAGE where two 16-bit float types are among the
 * candidates: a conversion has one. */
bool search_model_open(SearchModel *model, MemTrap *trap, Err *err);

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

/* What to call a group: its first value. */
const char *search_model_name(const SearchModel *model, uint32_t group);

#endif
