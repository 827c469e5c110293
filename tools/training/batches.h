// SPDX-License-Identifier: Apache-2.0
/* Samples in the order in which training takes them, a batch at a time. */
#ifndef DEMI_BATCHES_H
#define DEMI_BATCHES_H

#include "arena.h"
#include "demi_runtime.h"
#include "err.h"

/* One array of samples, and a batch of it. */
typedef struct BatchData {
    const char *name;
    DemiData all, batch; /* batch: dims of its own, data that batches_fill writes */
    uint64_t sample;     /* bytes of one */
} BatchData;

typedef struct Batches {
    Arena *arena;
    BatchData *items; /* [count] */
    size_t count;
    uint64_t samples, batch; /* of all, and of a step */
    uint64_t seed;
    bool in_order;
    uint64_t epoch;  /* whose order is in `order`; counted from 0 on */
    uint64_t *order; /* [samples] */
} Batches;

/* Takes an array for an input that is declared so: of its type, whatever integers or floats they are.
 * The first one says how many samples there are. ERR_USAGE where it has another shape than the input
 * but for axis 0, or other samples. */
bool batches_add(Batches *batches, const char *name, const DemiData *data, const DemiPlanIo *io,
                 Err *err);

/* When all are added, and `batch` is set: memory for a batch of each. ERR_USAGE where there is no
 * array, or less than a batch. */
bool batches_begin(Batches *batches, Err *err);

/* Steps of an epoch. */
uint64_t batches_steps(const Batches *batches);

/* The samples of a step, counted from 0 on through all epochs: in items[i].batch. */
void batches_fill(Batches *batches, uint64_t step);

#endif
