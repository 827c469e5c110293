// SPDX-License-Identifier: Apache-2.0
/* A context of a plan that was placed on a device (step_place.h): its queue and memory, and when the
 * host waits. Steps of the device only put work into the queue. Copies to the host are waited for
 * before a step of the host runs, and at the end of a run. Recording and repeating: exec_record.h.
 */
#ifndef DEMI_EXEC_DEVICE_H
#define DEMI_EXEC_DEVICE_H

#include "exec.h"

/* What recorded work reads from or writes to on the host. */
typedef struct Staging {
    struct Staging *next;
    uint32_t value;
    void *pinned;
    uint64_t size; /* 0 with pinned NULL: the value lies in the caller's memory */
    RtValue given; /* of a download: the value on that memory */
} Staging;

typedef struct DeviceRecord {
    DeviceWork *work;    /* NULL: it could not be recorded, or is being */
    DeviceCounts counts; /* what it does */
    uint64_t stamp;      /* exec_record.c's: it is void where that is another now */
    Staging *uploads, *downloads;
} DeviceRecord;

/* How a context is to use its device. */
typedef struct ExecDeviceOptions {
    QueueConfig config;
    uint64_t memory; /* most bytes of it; UINT64_MAX: any */
    bool steps;      /* ExecDevice's */
    const DeclinedSteps *declined;
} ExecDeviceOptions;

/* A queue and a pool for exec->loaded->device, false with the error set; and their end. */
bool exec_device_init(Exec *exec, const ExecDeviceOptions *options);
void exec_device_free(Exec *exec);

/* Makes the step one of the device, where the plan says so. */
void exec_device_rows(const LoadedPlan *loaded, LoadedStep *step);

/* After a step of the device: counts what its kernels read and wrote. */
void exec_device_count(Exec *exec, const StepSpecialization *form, const LoadedStep *step);

/* Before a step: what it reads of the host's memory is there. */
bool exec_device_before(Exec *exec, const LoadedStep *step);
/* Until all work is done. */
bool exec_device_wait(Exec *exec);
/* Whether some may be under way: before values are given back that it may write to. */
static inline bool exec_device_works(const Exec *exec) {
    return exec->device.queue && (exec->device.flies || exec->device.lags);
}

/* Forgets the work that was recorded: for all sizes, and for some. */
void exec_device_forget(Exec *exec);
void exec_device_record_clear(Exec *exec, DeviceRecord *record); /* what it has, not itself */
void exec_device_record_free(Exec *exec, DeviceRecord *record);  /* NULL is fine */

#endif
