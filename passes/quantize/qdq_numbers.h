// SPDX-License-Identifier: Apache-2.0
/* Reading of weights and turning them into the numbers that are stored, a piece at a time by several
 * threads: no more of the float weights is held than each is at work on. */
#ifndef DEMI_QDQ_NUMBERS_H
#define DEMI_QDQ_NUMBERS_H

#include "qdq_scale.h"
#include "tensor.h"
#include "vec.h"

/* A sum whose terms are the weights of a channel, and what storing adds to them, times factors. */
typedef struct QdqDrift {
    const void *product; /* whose sum it is: for who looks it up */
    /* Factors of [-1, 1], [groups][outer * inner]: each group of channels has its own. */
    const float *weights, *growths;
    uint64_t groups;
    double unit;  /* what factors are parts of */
    double *sums; /* [axis], found: for each channel */
} QdqDrift;

/* A constant and what it becomes. */
typedef struct QdqNumbers {
    const Tensor *tensor; /* float32, which has passed tensor_check */
    QdqWeights layout;    /* but for the items, and for `whole`, which is found */
    const float *least;   /* [scales] or NULL, as qdq_scales_of_peaks has it; not of blocks */
    float *scales;        /* [qdq_scale_count], to be filled; NULL: of blocks whose bytes are */
    uint8_t *zeros;       /* the same, of uint4 and uint2 */
    const struct DequantizedMaker *
        grid; /* of blocks: what has scales and zero points (dequantized.h); NULL: they are found */
    VEC(QdqDrift) drifts; /* to be filled, of weights by channel: the sums that somebody asks for */
    unsigned char
        *bytes;  /* of all numbers, to be filled; NULL: they are made later (qdq_stream.h) */
    bool finite; /* found: what is filled means nothing where not all weights are */
} QdqNumbers;

/* Finds the numbers of all items, the same whatever the number of threads. False with the error set
 * where weights can't be read. */
bool qdq_numbers_find(QdqNumbers *items, size_t count, Arena *scratch, Err *err);

#endif
