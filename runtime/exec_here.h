// SPDX-License-Identifier: Apache-2.0
/* Steps of a device whose operands none of its kernels takes: the processor computes them.
 *
 * That shows when a step has its operands (kernel_decline), long after the plan was placed. So such a
 * step runs as the plan has it without a device, in a context of its own: what it reads is copied from
 * the device, which is waited for, and what it gives is copied back. The form that was found to be so
 * says it in the next run; runs with such a step go step by step. Each is counted
 * (DeviceCounts.declined). */
#ifndef DEMI_EXEC_HERE_H
#define DEMI_EXEC_HERE_H

#include "exec.h"

/* For a context's device (exec_device.h): who runs steps knows it by this alone. */
extern const DeclinedSteps exec_here;

#endif
