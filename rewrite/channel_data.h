// SPDX-License-Identifier: Apache-2.0
/* What the channels of values reach on data, between passes, which know whose channels matter, and those who can run
 * the model. */
#ifndef DEMI_CHANNEL_DATA_H
#define DEMI_CHANNEL_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "err.h"
#include "vec.h"

/* A value's channels along an axis. */
typedef struct ChannelRequest {
    const char *value; /* its name in the model */
    int32_t axis;      /* from the front */
    uint64_t channels;
} ChannelRequest;

/* Of each channel, [channels], the root mean square, and the ends of the range with 0. All NULL where the model has
 * no such value, or one with other channels, or not finite. */
typedef struct ChannelReach {
    const double *rms, *low, *high;
} ChannelReach;

typedef struct ChannelData {
    /* reach[count], for the requests: what it points to lives as long as the model. False with the error set. */
    bool (*measure)(void *user, const ChannelRequest *requests, size_t count, ChannelReach *reach,
                    Err *err);
    void *user;
    Arena *arena; /* of: */
    VEC(const char *)
    chosen; /* "NAME=EXPONENT,...": by which powers of two a layer's channels are divided */
} ChannelData;

#endif
