// SPDX-License-Identifier: Apache-2.0
/* Precisions that a group may have.
 *
 *     float           as the model is
 *     float16, bfloat16
 *     a16w16, a16w8, a16w4, a8w16, a8w8, a8w4
 *                     activations of so many bits, weights of so many, both integers
 *     w8, w4                  weights alone
 *
 * also int8 for a8w8, int16 for a16w16, fp16, bf16, fp32. */
#ifndef DEMI_CANDIDATE_H
#define DEMI_CANDIDATE_H

#include "dtype.h"
#include "err.h"

typedef struct Candidate {
    const char *name;
    Dtype activations, weights; /* DTYPE_FLOAT: as they are */
    uint8_t rank; /* from the widest: what AIMET calls bits decides, activations first */
} Candidate;

/* NULL with ERR_USAGE where there is none of that name. */
const Candidate *candidate_find(const char *name, Err *err);

/* Bits that a multiplication by this type counts as: a float's 1.5 times the square of as wide an
 * integer's, as AIMET has it. */
double candidate_bits(Dtype dtype);

/* Bits in memory. */
uint32_t candidate_stored_bits(Dtype dtype);

#endif
