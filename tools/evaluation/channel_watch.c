// SPDX-License-Identifier: Apache-2.0
/* See channel_watch.h. */
#include "channel_watch.h"

#include <math.h>
#include <string.h>

#include "dtype.h"

static size_t *first_of(ChannelWatch *w, const char *name, Arena *arena) {
    const Sym sym = sym_intern_cstr(&w->names, name);
    if (sym->number >= w->first.count) VEC_PUSH(arena, &w->first, 0);
    return &w->first.items[sym->number];
}

ChannelWatch channel_watch_new(const ChannelRequest *requests, size_t count, Arena *arena) {
    ChannelWatch w = {.items = ARENA_ARRAY(arena, WatchedChannels, count + 1), .count = count};
    sym_table_init(&w.names, arena);
    for (size_t i = 0; i < count; i++) {
        size_t *first = first_of(&w, requests[i].value, arena);
        w.items[i] = (WatchedChannels){
            .request = &requests[i],
            .sums = ARENA_ARRAY(arena, double, requests[i].channels + 1),
            .low = ARENA_ARRAY(arena, double, requests[i].channels + 1),
            .high = ARENA_ARRAY(arena, double, requests[i].channels + 1),
            .next = *first,
        };
        *first = i + 1;
    }
    return w;
}

/* Elements of one channel, one after the other. False where one is not finite. */
static bool add_run(WatchedChannels *at, uint64_t channel, const float *items, uint64_t count) {
    double sum = 0;
    float low = 0, high = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += (double)items[i] * (double)items[i];
        low = items[i] < low ? items[i] : low;
        high = items[i] > high ? items[i] : high;
    }
    at->sums[channel] += sum;
    at->low[channel] = fmin(at->low[channel], (double)low);
    at->high[channel] = fmax(at->high[channel], (double)high);
    return isfinite(sum);
}

static void add(WatchedChannels *at, const DemiData *value) {
    const ChannelRequest *request = at->request;
    uint64_t outer = 1, inner = 1;
    at->odd |= value->kind != DEMI_DATA_TENSOR_KIND || value->dtype != DEMI_FLOAT ||
               request->axis >= (int32_t)value->rank ||
               value->dims[request->axis] != (int64_t)request->channels;
    if (at->odd) return;
    for (int32_t i = 0; i < (int32_t)value->rank; i++) {
        if (i < request->axis) outer *= (uint64_t)value->dims[i];
        if (i > request->axis) inner *= (uint64_t)value->dims[i];
    }
    const float *items = value->data;
    for (uint64_t k = 0; k < outer; k++)
        for (uint64_t c = 0; c < request->channels; c++, items += inner)
            at->odd |= !add_run(at, c, items, inner);
    at->places += outer * inner;
}

void channel_watch_step(void *watch, const DemiStep *step) {
    ChannelWatch *w = watch;
    for (size_t i = 0; i < step->output_count; i++) {
        const char *name = step->output_names[i];
        const Sym sym = sym_find(&w->names, name, strlen(name));
        for (size_t at = sym ? w->first.items[sym->number] : 0; at; at = w->items[at - 1].next)
            add(&w->items[at - 1], &step->outputs[i]);
    }
}

ChannelReach channel_watch_end(ChannelWatch *w, size_t i) {
    WatchedChannels *at = &w->items[i];
    if (at->odd || !at->places) return (ChannelReach){NULL, NULL, NULL};
    for (uint64_t c = 0; c < at->request->channels; c++)
        at->sums[c] = sqrt(at->sums[c] / (double)at->places);
    return (ChannelReach){at->sums, at->low, at->high};
}
