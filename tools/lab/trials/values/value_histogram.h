// SPDX-License-Identifier: Apache-2.0
/* What numbers tensors hold: their ends, how many lie where between them, and which range of them
 * is worth a quantized value's levels. Counts are whole numbers, so that nothing depends on the
 * order in which tensors come, or on threads. */
#ifndef DEMI_VALUE_HISTOGRAM_H
#define DEMI_VALUE_HISTOGRAM_H

#include "demi_runtime.h"
#include "demi_trials.h"
#include "workers.h"

typedef struct ValueEnds {
    double low, high; /* low > high: there is no element. Infinite where one is not finite */
} ValueEnds;

#define VALUE_NO_ENDS                                                                              \
    { 1, 0 }

/* Of a float32 tensor. */
ValueEnds value_ends(const DemiData *tensor, Workers *workers);
ValueEnds value_ends_join(ValueEnds a, ValueEnds b);

enum { VALUE_BINS = 4096 };

/* Counts by bins of 2^exponent, bin 0 of which begins at first * 2^exponent: bins that are doubled
 * are two that lay side by side, so counts depend on all that was added, and not on its order. */
typedef struct ValueHistogram {
    ValueEnds ends; /* as value_ends joins them */
    int exponent;
    int64_t first;
    uint64_t *counts; /* [VALUE_BINS]; NULL before the first element, and where one is not finite */
} ValueHistogram;

#define VALUE_NO_HISTOGRAM                                                                         \
    { VALUE_NO_ENDS, 0, 0, NULL }

/* What counting takes: threads and their tables. */
typedef struct ValueCounter {
    Arena *arena; /* of counts, too */
    Workers *workers;
    uint64_t most; /* elements of a tensor that are counted, about; 0: all. Of more, pieces that lie
                      evenly in it count for those between them; ends are always those of all */
    void *tables;  /* NULL: not needed so far */
    uint64_t *moved; /* [VALUE_BINS] */
} ValueCounter;

ValueCounter value_counter_new(Arena *arena, Workers *workers, uint64_t most);

/* Adds the elements of a float32 tensor. */
void value_histogram_add(ValueCounter *counter, ValueHistogram *histogram, const DemiData *tensor);

/* Adds another one's elements. */
void value_histogram_join(const ValueCounter *counter, ValueHistogram *histogram,
                          const ValueHistogram *other);

typedef struct ValueChoice {
    DemiCalibration method;
    double percentile; /* share of elements, in percent */
    uint32_t levels;   /* of the quantized type */
    bool symmetric;
} ValueChoice;

/* The range to quantize, within `limits`, which are as useful as the numbers beyond them; the ends
 * themselves, within limits, for DEMI_CALIBRATION_MINMAX. */
ValueEnds value_histogram_choose(const ValueHistogram *histogram, const ValueChoice *choice,
                                 ValueEnds limits);

#endif
