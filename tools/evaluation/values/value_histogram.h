// SPDX-License-Identifier: Apache-2.0
/* What numbers tensors hold: their ends, how many lie where between them, and which range of them
 * is worth a quantized value's levels. Counts are whole numbers, so that nothing depends on the
 * order in which tensors come, or on threads. */
#ifndef DEMI_VALUE_HISTOGRAM_H
#define DEMI_VALUE_HISTOGRAM_H

#include "demi_runtime.h"
#include "demi_trials.h"
#include "dtype.h"
#include "workers.h"

typedef struct ValueRange {
    double low, high; /* low > high: there is no element. Infinite where one is not finite */
} ValueRange;

#define VALUE_NO_RANGE                                                                             \
    { 1, 0 }

/* Of a float32 tensor. */
ValueRange value_range_of(const DemiData *tensor, Workers *workers);
ValueRange value_range_join(ValueRange a, ValueRange b);

enum { VALUE_BINS = 4096, VALUE_FEW = 4096 };

/* Up to VALUE_FEW elements of small tensors are kept as they are. More are counted by bins of
 * 2^exponent, bin 0 of which begins at first * 2^exponent: bins that are doubled are two that lay side
 * by side, so counts depend on all that was added, and not on its order or on when counting began. */
typedef struct ValueHistogram {
    ValueRange ends; /* as value_range_of joins them; where one is infinite, nothing else is kept */
    float *few;      /* [few_count]; NULL: none, or counted by now */
    uint64_t *counts; /* [VALUE_BINS]; NULL: not counted */
    int64_t first;
    int exponent;
    uint32_t few_count;
} ValueHistogram;

#define VALUE_NO_HISTOGRAM                                                                         \
    { VALUE_NO_RANGE, NULL, NULL, 0, 0, 0 }

enum { VALUE_ROOMS = 12 }; /* sizes of what histograms keep: 16 << i bytes */

/* What counting takes: threads, their tables, and memory. */
typedef struct ValueCounter {
    Arena *arena; /* of all of it; what histograms outgrow is given to others */
    Workers *workers;
    uint64_t taken;           /* bytes that histograms were given of the arena, all in all */
    void *tables;             /* NULL: not needed so far */
    void *rooms[VALUE_ROOMS]; /* lists of what was outgrown, by size */
} ValueCounter;

ValueCounter value_counter_new(Arena *arena, Workers *workers);

/* Adds the elements of a float32 tensor. */
void value_histogram_add(ValueCounter *counter, ValueHistogram *histogram, const DemiData *tensor);

/* Adds another one's elements. */
void value_histogram_join(ValueCounter *counter, ValueHistogram *histogram,
                          const ValueHistogram *other);

/* How many elements lie in each bin, counts[VALUE_BINS], as if all had been counted from the first on;
 * *exponent and *first as a ValueHistogram has them. False where there are none, or one is not finite. */
bool value_histogram_bins(const ValueHistogram *histogram, uint64_t *counts, int *exponent,
                          int64_t *first);

typedef struct ValueChoice {
    DemiCalibration method;
    double percentile; /* share of elements, in percent */
    uint32_t levels;   /* of the quantized type */
    bool symmetric;
    Dtype type; /* of floats, with which neither of the two matters; UNDEFINED: an integer */
} ValueChoice;

/* The range to quantize, within `limits`, which are as useful as the numbers beyond them; the ends
 * themselves, within limits, for DEMI_CALIBRATION_MINMAX. */
ValueRange value_histogram_choose(const ValueHistogram *histogram, const ValueChoice *choice,
                                  ValueRange limits);

#endif
