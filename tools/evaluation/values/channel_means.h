// SPDX-License-Identifier: Apache-2.0
/* What a value's channels hold on average, over all tensors that it was. Sums are kept exactly, so that
 * they do not depend on the order in which tensors come. */
#ifndef DEMI_CHANNEL_MEANS_H
#define DEMI_CHANNEL_MEANS_H

#include <stdbool.h>

#include "arena.h"
#include "demi_runtime.h"
#include "round_steps.h"

/* A fixed-point number. */
typedef struct ChannelSum {
    int64_t whole;
    uint64_t part; /* of 1, in units of 2^-64 */
} ChannelSum;

/* Of places along `axis`, from behind where it is negative: -1 is the last. */
typedef struct ChannelMeans {
    int32_t axis;
    uint64_t count;   /* of channels; 0: no tensor was added */
    uint64_t places;  /* elements that each channel has had */
    ChannelSum *sums; /* [count] */
    bool broken;      /* tensors differed in their channels, or a number is too large, or none */
} ChannelMeans;

/* Adds a float32 tensor, or with `steps` what rounding it so adds to it. The arena is the same each time. */
void channel_means_add(ChannelMeans *means, const DemiData *tensor, const RoundSteps *steps,
                       Arena *arena);

/* Adds another one's tensors. */
void channel_means_join(ChannelMeans *means, const ChannelMeans *other, Arena *arena);

/* The mean of each channel, [count], in `arena`; NULL where there are none. */
double *channel_means_find(const ChannelMeans *means, Arena *arena);

#endif
