// SPDX-License-Identifier: Apache-2.0
/* What channels of a model's values reach, while it runs: for equalize (channel_data.h). */
#ifndef DEMI_CHANNEL_WATCH_H
#define DEMI_CHANNEL_WATCH_H

#include "channel_data.h"
#include "demi_runtime.h"
#include "sym.h"

/* A value's channels; sums are of squares. */
typedef struct WatchedChannels {
    const ChannelRequest *request;
    double *sums, *low, *high; /* [channels] */
    uint64_t places;           /* elements that each channel has had */
    bool odd;    /* a value had other channels, was no tensor of floats, or not finite */
    size_t next; /* 1 + the next one of the same value, 0: none */
} WatchedChannels;

typedef struct ChannelWatch {
    SymTable names;
    VEC(size_t) first; /* by name's number: 1 + its first one */
    WatchedChannels *items;
    size_t count;
} ChannelWatch;

/* For these requests; all that is used while the model runs is made now, in `arena`. */
ChannelWatch channel_watch_new(const ChannelRequest *requests, size_t count, Arena *arena);

/* A DemiStepFn; `watch` is a ChannelWatch. */
void channel_watch_step(void *watch, const DemiStep *step);

/* What there is of request i, in the watch's memory; sums are roots of means then. */
ChannelReach channel_watch_end(ChannelWatch *watch, size_t i);

#endif
