// SPDX-License-Identifier: Apache-2.0
/* Running a plan that was placed on a device (step_place.h): its queue and memory, copies, when the
 * host waits, and work that is recorded once and repeated.
 *
 * Steps of the device only put work into the queue. Copies to the host are waited for before a step
 * of the host runs, and at the end of a run. Where the host's part of a run depends on sizes alone,
 * the second run with inputs of the same sizes is recorded, and later ones repeat that: inputs are
 * put where it reads them, and nothing else is done step by step. Recorded work refers to memory by
 * address: it is forgotten before any of that is given back.
 */
#ifndef DEMI_EXEC_DEVICE_H
#define DEMI_EXEC_DEVICE_H

#include "exec.h"

typedef struct DeviceRecord DeviceRecord;

/* A queue and a pool for exec->loaded->device, NULL with the error set; and their end. */
bool exec_device_init(Exec *exec);
void exec_device_free(Exec *exec);

/* The operators of the domain demi.device, or NULL. */
ExecFunction exec_device_find(const char *domain, const char *op);
/* Makes the step one of the device, where the plan says so. */
void exec_device_rows(const LoadedPlan *loaded, LoadedStep *step);

/* Before a step: what it reads of the host's memory is there. */
bool exec_device_before(Exec *exec, const LoadedStep *step);
/* Until all work is done. */
bool exec_device_wait(Exec *exec);

/* A value's elements in the host's memory, in `arena`, which they fill; for those who watch. */
void *exec_device_fetch(Exec *exec, const RtTensor *tensor, Arena *arena);

/* exec_graph(exec, 0) of a plan with a device. */
bool exec_device_run(Exec *exec);
/* Ends a recording that was jumped out of. */
void exec_device_abandon(Exec *exec);
/* Forgets the work that was recorded: for all sizes, and for some. */
void exec_device_forget(Exec *exec);
void exec_device_record_free(Exec *exec, DeviceRecord *record); /* NULL is fine */

#endif
