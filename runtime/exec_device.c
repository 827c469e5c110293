// SPDX-License-Identifier: Apache-2.0
/* A context's queue, when the host waits, and the end of recorded work; see exec_device.h. */
#include "exec_device.h"

#include <stdlib.h>

#include "step_call.h"
#include "step_place.h"

static const DeviceKind *kind_of(const Exec *exec) {
    return exec->loaded->device->kind;
}

/* ---- contexts -------------------------------------------------------------------------------- */

bool exec_device_init(Exec *exec, const ExecDeviceOptions *options) {
    Device *device = exec->loaded->device;
    pool_init(&exec->device.pool, device, &(PoolFrom){options->memory, exec->pool.allocator});
    exec->device.queue = device->kind->queue_new(device, &options->config, exec->err);
    exec->device.pool.queue = exec->device.queue;
    exec->device.steps = options->steps;
    exec->device.declined = options->declined;
    return exec->device.queue;
}

void exec_device_free(Exec *exec) {
    if (exec->device.declined) exec->device.declined->free(exec);
    if (!exec->device.queue) return;
    kind_of(exec)->queue_free(exec->device.queue);
    exec->device.queue = exec->device.pool.queue = NULL;
    pool_free(&exec->device.pool);
}

void exec_device_rows(const LoadedPlan *loaded, LoadedStep *step) {
    const size_t number = (size_t)(step - loaded->steps);
    step->reason = loaded->reasons[number];
    if (step->reason != PLACE_DEVICE) return;
    step->rows = loaded->device->kind->find(step->domain, step->op, step->opset, &step->row_count);
    step->device = true;
}

/* ---- counting -------------------------------------------------------------------------------- */

static uint64_t bytes_of(const KernelTensor *tensor) {
    return tensor->present ? tensor->count * kernel_element_size(tensor->dtype) : 0;
}

/* Whether the device reads input i, and has not done so as an input before. */
static bool is_read(const StepSpecialization *form, const LoadedStep *step, uint32_t i) {
    if (step->inputs[i] == PLAN_NONE || (i < 32 && form->row->host >> i & 1)) return false;
    for (uint32_t k = 0; k < i; k++)
        if (step->inputs[k] == step->inputs[i]) return false;
    return true;
}

void exec_device_count(Exec *exec, const StepSpecialization *form, const LoadedStep *step) {
    uint64_t read = 0, given = 0;
    for (uint32_t i = 0; i < step->plan->outputs.count; i++) given += bytes_of(&form->outputs[i]);
    for (uint32_t i = 0; given && i < step->plan->inputs.count; i++) {
        const uint64_t bytes = is_read(form, step, i) ? bytes_of(&form->inputs[i]) : 0;
        const bool picks = i == 0 && form->row->flags & KERNEL_PICKS;
        read += picks && bytes > given ? given : bytes;
    }
    exec->device.queue->counts.bytes += read + given;
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool exec_device_wait(Exec *exec) {
    exec->device.pending = exec->device.flies = false;
    if (exec->device.record) return true;
    exec->device.lags = !kind_of(exec)->wait(exec->device.queue, exec->err);
    return !exec->device.lags;
}

/* Whether the processor reads an input that may be on its way. */
static bool reads_input(const Exec *exec, const LoadedStep *step) {
    for (uint32_t i = 0; i < step->plan->inputs.count && i < 32; i++)
        if (step->rows->host >> i & 1 && step->inputs[i] != PLAN_NONE &&
            !exec->loaded->constants[step->inputs[i]].present)
            return true;
    return false;
}

bool exec_device_before(Exec *exec, const LoadedStep *step) {
    if (!exec->device.pending || step->reason == PLACE_COPY) return true;
    return (step->device && !reads_input(exec, step)) || exec_device_wait(exec);
}

/* ---- recorded work --------------------------------------------------------------------------- */

static void staging_free(Exec *exec, Staging *first) {
    for (Staging *staging = first, *next; staging; staging = next) {
        next = staging->next;
        rt_value_clear(&staging->given);
        kind_of(exec)->unpin(exec->loaded->device, staging->pinned);
        free(staging);
    }
}

void exec_device_record_clear(Exec *exec, DeviceRecord *record) {
    kind_of(exec)->work_free(exec->loaded->device, record->work);
    staging_free(exec, record->uploads);
    staging_free(exec, record->downloads);
    *record = (DeviceRecord){0};
}

void exec_device_record_free(Exec *exec, DeviceRecord *record) {
    if (!record) return;
    exec_device_record_clear(exec, record);
    free(record);
}
