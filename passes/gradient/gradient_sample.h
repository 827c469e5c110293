// SPDX-License-Identifier: Apache-2.0
/* Samples between a map's elements, made of operators that have gradients: what GridSample,
 * DeformConv and regions of interest are made again of.
 *
 * Along an axis a sample has taps: places of elements, and what each weighs. Both are
 * (taps, samples…), where `samples…` broadcast with those of the other axes and of the batch. */
#ifndef DEMI_GRADIENT_SAMPLE_H
#define DEMI_GRADIENT_SAMPLE_H

#include "gradient_rule.h"

/* The maps, (N, channels, sizes…); channels of a group are sampled together. */
typedef struct SampledMaps {
    Value *x;
    int64_t groups;
    uint32_t axes; /* spatial ones */
} SampledMaps;

typedef struct SampleTaps {
    Value *places;  /* int64, within the axis */
    Value *weights; /* NULL: 1 */
} SampleTaps;

/* The number of an axis' elements, of rank 0, as a float like `like`. */
Value *sample_length(Grad *g, Value *x, uint32_t axis, const Value *like);

/* 0, 1, … below `end`, an int64. */
Value *sample_range(Grad *g, Value *end);

/* The places as int64, those outside of [0, length) moved to the border. */
Value *sample_places(Grad *g, Value *at, Value *length);

/* The two taps around each coordinate (samples…), its middle moved into the axis first. */
SampleTaps sample_border(Grad *g, Value *at, Value *length);

/* What taps read, weighted: (taps of the first axis, …, samples…, channels of a group), of the maps
 * that `batch`, int64, numbers from 0 to N * groups - 1. */
Value *sample_read(Grad *g, const SampledMaps *maps, const SampleTaps *taps, Value *batch);
/* Its sums over the taps: (samples…, channels of a group). */
Value *sample_sums(Grad *g, const SampledMaps *maps, const SampleTaps *taps, Value *batch);

#endif
