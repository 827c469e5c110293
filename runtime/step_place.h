// SPDX-License-Identifier: Apache-2.0
/* Which steps of a plan run on a device, and what is copied for that.
 *
 * A step goes to the device where that has a row for its operator and types, but for arithmetic of
 * shapes: what a row reads on the processor (KernelRow.host), or decides control flow, is computed
 * there, back to where it only depends on sizes. Values live where the step that makes them runs,
 * inputs and outputs of graphs in the processor's memory, but for what branches give and bodies of loops
 * hand from turn to turn where the device makes it; where the other side reads one, a step of
 * the domain demi.device is inserted behind what makes it, Upload or Download, whose result is a
 * value of its own. So execution stays one step after the other, and who reads a plan that was placed
 * sees every copy.
 */
#ifndef DEMI_STEP_PLACE_H
#define DEMI_STEP_PLACE_H

#include "device.h"
#include "plan.h"

#define PLACE_DOMAIN "demi.device"

/* What a step runs on, and why: for reports. */
typedef enum PlaceReason {
    PLACE_DEVICE,    /* it runs there */
    PLACE_COPY,      /* an Upload or Download */
    PLACE_NO_KERNEL, /* the device has no kernel of that operator */
    PLACE_NO_TYPE,   /* it has, but not for these types */
    PLACE_CONTROL,   /* control flow, sequences, optionals */
    PLACE_SHAPE,     /* shapes follow from it */
    PLACE_CONSTANT,  /* it reads constants alone, and shapes may follow from what it makes */
    PLACE_FOLLOWS,   /* its data is in the processor's memory and only gets another shape */
    PLACE_REASON_COUNT
} PlaceReason;
const char *place_reason(PlaceReason reason);

typedef struct StepPlacement {
    Plan plan;              /* with the copies; its choices are gone, as steps have other numbers */
    const uint8_t *reasons; /* [plan.step_count]: a PlaceReason */
    const uint32_t *origins; /* [plan.step_count]: the step that it was; PLAN_NONE of copies */
    const bool *remote;      /* [plan.value_count]: it lives on the device */
    bool repeats; /* what the processor does in a run depends on sizes alone: the device's
                               work can be recorded */
} StepPlacement;

/* Places a checked plan, whose memory it goes on referring to; tables lie in `arena`. */
void step_place(const Plan *plan, const DeviceKind *kind, StepPlacement *placement, Arena *arena);

/* plan_show of the plan as it is placed: where each step runs, and why. No device is opened. */
void plan_show_placed(const Plan *plan, const DeviceKind *kind, const PlanSink *sink, Arena *arena);

#endif
