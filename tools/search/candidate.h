// SPDX-License-Identifier: Apache-2.0
/* Precisions that a group may have.
 *
 *     float               as the model is
 *     float16, bfloat16   values and weights
 *     aXwY                values of X bits and weights of Y bits, both integers
 *     wY                  weights alone
 *     VALUES:WEIGHTS      words of formats.def's QUANTIZED rows, or floating-point types; "float" stays as it is
 *
 * also int8 for a8w8, int16 for a16w16, fp16, half, bf16, fp32. Every pair that has a short name is called by it. */
#ifndef DEMI_CANDIDATE_H
#define DEMI_CANDIDATE_H

#include "arena.h"
#include "dtype.h"
#include "err.h"
#include "quantized_format.h"

typedef struct Candidate {
    const char *name;
    Dtype activations, weights;                          /* DTYPE_FLOAT: as they are */
    const QuantizedFormat *value_format, *weight_format; /* NULL: floating point */
    /* Of weights that cannot have the blocks that weight_format needs; NULL: their groups cannot have the candidate. */
    const QuantizedFormat *other_weights;
} Candidate;

/* What bits alone leave open. */
typedef struct CandidateRules {
    const char *runtime; /* its name, for errors */
    const Dtype
        *values; /* [count]: types of quantized values; of those of as many bits the first */
    size_t count;
    const QuantizedFormat *other_weights; /* as a candidate has it */
} CandidateRules;

/* The candidate of that name, in `arena`. ERR_USAGE where there is none, or no type of as many bits in `rules`. */
const Candidate *candidate_read(const char *name, const CandidateRules *rules, Arena *arena,
                                Err *err);

/* The model as it is. */
const Candidate *candidate_plain(void);

static inline bool candidate_is_plain(const Candidate *candidate) {
    return candidate->activations == DTYPE_FLOAT && candidate->weights == DTYPE_FLOAT;
}

/* Bits that a multiplication by this type counts as: a float's 1.5 times the square of as wide an
 * integer's, as AIMET has it. */
double candidate_bits(Dtype dtype);

/* Bits in memory. */
uint32_t candidate_stored_bits(Dtype dtype);

#endif
