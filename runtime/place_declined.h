// SPDX-License-Identifier: Apache-2.0
/* Which steps of a placed plan a device will decline (kernel_decline), as far as that is known without
 * one: each is asked of a device that is only described (DeviceKind.described), with operands of the
 * plan's types and dims and its constants. What depends on dims that are open is left out, and so is
 * what depends on what a library can do, or on the contents of operands. */
#ifndef DEMI_PLACE_DECLINED_H
#define DEMI_PLACE_DECLINED_H

#include "step_place.h"

/* [plan.step_count], in `arena`: why the device declines the step; NULL: it does not, or that is not
 * known. */
const char *const *place_declined(const StepPlacement *placement, const DeviceKind *kind,
                                  Arena *arena);

#endif
