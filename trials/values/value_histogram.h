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

enum { VALUE_BINS = 2048 };

typedef struct ValueHistogram {
    ValueEnds ends; /* finite, and not one number */
    uint64_t counts[VALUE_BINS];
} ValueHistogram;

/* Adds the elements of a float32 tensor; those outside of the ends count for the nearest bin. */
void value_histogram_add(ValueHistogram *histogram, const DemiData *tensor);

typedef struct ValueChoice {
    DemiCalibration method;
    double percentile; /* share of elements, in percent */
    uint32_t levels;   /* of the quantized type */
    bool symmetric;
} ValueChoice;

/* The range to quantize; the ends themselves for DEMI_CALIBRATION_MINMAX. */
ValueEnds value_histogram_choose(const ValueHistogram *histogram, const ValueChoice *choice);

#endif
