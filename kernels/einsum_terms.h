// SPDX-License-Identifier: Apache-2.0
/* Einsum's equation as products of matrices: what any backend's kernel makes of it.
 *
 * A term gives each letter ("label"; an axis under the ellipsis has one of its own, counted from
 * the right) a stride in its operand; a repeated letter's strides add up, which walks a diagonal,
 * and an axis of size 1 under a larger one has stride 0. Operands are contracted from left to
 * right: both are brought into the order batch, rows, columns and summed over what only they have
 * and nobody needs any more, and multiplied as batches of matrices. All lies in the call's scratch.
 */
#ifndef DEMI_EINSUM_TERMS_H
#define DEMI_EINSUM_TERMS_H

#include "kernel.h"

/* An operand or an intermediate result. */
typedef struct EinsumOperand {
    const void *data;
    Dtype dtype;
    bool *has;         /* [labels] */
    uint64_t *strides; /* [labels]; 0 where it does not have the label */
    uint32_t rank;
} EinsumOperand;

typedef struct Einsum {
    KernelCall *call;
    const char *at, *end; /* of the equation, what is not yet read */
    uint32_t labels;      /* letters and the axes of the longest ellipsis */
    uint64_t *dims;       /* [labels], 1 where unknown yet */
    uint32_t *uses;       /* [labels]: in operands' terms */
    EinsumOperand *operands;
    uint32_t *output; /* labels of the result in order */
    uint32_t output_rank;
} Einsum;

/* A list of labels. */
typedef struct EinsumLabels {
    uint32_t *items;
    uint32_t count;
    uint64_t size; /* product of their dims */
} EinsumLabels;

/* A product of two: labels by who has and who needs them, and those of both factors and of the result in
 * their order. */
typedef struct EinsumStep {
    EinsumLabels batch, rows, columns, inner, only_a, only_b;
    EinsumLabels left, right, result;
} EinsumStep;

/* False with the error set where the equation can't be read or does not fit the operands. */
bool einsum_read(KernelCall *call, Einsum *einsum);

/* What is so far, `a`, times the operand of that number. False with the error set where sizes overflow. */
bool einsum_step(const Einsum *einsum, const EinsumOperand *a, uint32_t number, EinsumStep *step);

/* The operand that has these labels in this order. */
EinsumOperand einsum_operand(const Einsum *einsum, const void *data, Dtype dtype,
                             const EinsumLabels *labels);

/* True where the operand's memory already is the labels in order, and nothing is to be summed. */
bool einsum_in_order(const Einsum *einsum, const EinsumOperand *operand, const EinsumLabels *order,
                     const EinsumLabels *sums);

/* What is left to do at the end: the result's order, and what is to be summed. False with the error set
 * where output 0 has not as many elements. */
bool einsum_end(const Einsum *einsum, const EinsumOperand *operand, EinsumLabels *order,
                EinsumLabels *sums);

#endif
