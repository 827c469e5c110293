// SPDX-License-Identifier: Apache-2.0
/* What constants of a plan were turned into, for all contexts of the plan: packed and widened
 * weights. Each is made once, by the first that asks, and stays until the plan ends; the one part
 * of a plan that changes, behind a lock. */
#ifndef DEMI_PLAN_SHARE_H
#define DEMI_PLAN_SHARE_H

#include "device.h"
#include "kernel.h"

typedef struct PlanShare PlanShare;

/* What tells entries apart: see kernel_share and kernel_weights. */
typedef struct ShareKey {
    uint32_t value; /* the constant */
    Dtype dtype;
    KernelPack pack;
    uint64_t variant, size;
    WeightLayout layout; /* kernel_weights'; all zero for others */
} ShareKey;

/* `function` writes to `to`, 64-byte aligned. It must return, not jump. */
typedef struct ShareFill {
    bool (*function)(void *data, void *to);
    void *data;
    Err *err; /* set where a device fails; may be NULL */
} ShareFill;

/* Of the host's memory, or of a device's, where `fill` writes to the host's and what it wrote is
 * copied; for a plan of so many values. NULL out of memory. */
PlanShare *plan_share_new(Device *device, uint32_t values);
void plan_share_free(PlanShare *share); /* NULL is fine */

/* The entry's key.size bytes, made by `fill` if they are not there: other threads wait meanwhile.
 * NULL where fill failed or memory ran out, or, without a fill, where they are not there. *number
 * tells entries apart: they are counted from 0. */
const void *plan_share_get(PlanShare *share, const ShareKey *key, const ShareFill *fill,
                           uint32_t *number);

#endif
