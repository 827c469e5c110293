// SPDX-License-Identifier: Apache-2.0
/* What a search is told of conversions, and which candidates that leaves. */
#ifndef DEMI_SEARCH_CANDIDATES_H
#define DEMI_SEARCH_CANDIDATES_H

#include "candidate.h"
#include "demi.h"
#include "qdq_plan.h"

/* Options of conversions that only quantization heeds: each conversion has those that it does heed. */
typedef struct SearchQuantization {
    DemiRuntimeRules runtime;
    bool symmetric;
    int64_t block;
    DemiRounding rounding; /* of weights */
    bool of_halves;        /* the runtime has rules of conversions to 16 bits, too */
} SearchQuantization;

typedef struct SearchCandidates {
    const Candidate *const *items; /* [count]; the first is the widest */
    size_t count;
    SearchQuantization quantization;
    QdqRequest request; /* how they store what they quantize */
} SearchCandidates;

/* Reads `names`, or the usual ones where these are NULL, and takes from *convert what concerns quantization; what is
 * left is that of all conversions, without a policy's text. In `arena`. ERR_USAGE, by name, for a candidate that there
 * is not, or that the runtime does not take, and for options that no candidate heeds. */
bool search_candidates_find(const char *const *names, size_t count, DemiConvertOptions *convert,
                            SearchCandidates *found, Arena *arena, Err *err);

/* Gives a conversion what it heeds of these. `values`, `weights`: it quantizes some. */
void search_quantization_apply(const SearchQuantization *quantization, bool values, bool weights,
                               DemiConvertOptions *options);

#endif
