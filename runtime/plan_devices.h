// SPDX-License-Identifier: Apache-2.0
/* A plan as it is placed on devices: made when a context first asks for one, shared by all that do,
 * with its constants in the device's memory; the one part of a plan's handle that changes, behind a
 * lock. */
#ifndef DEMI_PLAN_DEVICES_H
#define DEMI_PLAN_DEVICES_H

#include "exec.h"

typedef struct PlanDevices PlanDevices;

/* NULL out of memory. */
PlanDevices *plan_devices_new(void);
/* After all contexts. NULL is fine. */
void plan_devices_free(PlanDevices *devices);

/* The plan on the device that has this name (device_kind's), NULL with the error set: ERR_USAGE where
 * there is none, ERR_ENV where it is not to be had. */
const LoadedPlan *plan_devices_get(PlanDevices *devices, const LoadedPlan *plan, const char *name,
                                   Err *err);

#endif
