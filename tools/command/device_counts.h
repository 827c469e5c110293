// SPDX-License-Identifier: Apache-2.0
/* What a device did in a run, or in several, as `run` and `bench` show it. */
#ifndef DEMI_DEVICE_COUNTS_H
#define DEMI_DEVICE_COUNTS_H

#include "arena.h"
#include "demi_runtime.h"
#include "json_write.h"

/* What the context had its device do from `before` on, divided by `runs`; false: it has none. */
bool device_counts_since(const DemiContext *context, const DemiDeviceCounts *before, uint64_t runs,
                         DemiDeviceCounts *counts);

/* "device: 12 launches, which read and write 1.2 MB; 3 copies of 0.1 MB; 2 MB of its memory", in the
 * arena. */
const char *device_counts_text(Arena *arena, const DemiDeviceCounts *counts);

/* A member "device", an object. */
void device_counts_json(JsonWriter *json, const DemiDeviceCounts *counts);

#endif
