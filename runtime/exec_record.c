// SPDX-License-Identifier: Apache-2.0
/* Copies of a device's plan, and runs that are recorded and repeated; see exec_record.h. */
#include "exec_record.h"

#include <stdlib.h>
#include <string.h>

#include "exec_device.h"
#include "exec_memory.h"
#include "step_place.h"

static const DeviceKind *kind_of(const Exec *exec) {
    return exec->loaded->device->kind;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static uint64_t bytes_of(const KernelTensor *tensor) {
    return tensor->count * kernel_element_size(tensor->dtype);
}

/* Pinned memory for a copy that is recorded, NULL with the error set. */
static Staging *stage(Exec *exec, Staging **list, uint32_t value, uint64_t size) {
    Staging *staging = calloc(1, sizeof *staging);
    if (!staging) {
        err_out_of_memory(exec->err);
        return NULL;
    }
    staging->pinned = kind_of(exec)->pin(exec->loaded->device, size, exec->err);
    if (!staging->pinned) {
        free(staging);
        return NULL;
    }
    staging->value = value;
    staging->size = size;
    staging->next = *list;
    return *list = staging;
}

static bool upload(Exec *exec, const LoadedStep *step) {
    const RtTensor *from = exec_tensor(exec, step, 0);
    if (!from) return false;
    RtTensor *to = exec_new_tensor(exec, step->outputs[0], &from->tensor);
    if (!to) return exec_name_step(exec, step);
    const uint64_t size = bytes_of(&from->tensor);
    const void *data = from->tensor.data;
    bool ok = true;
    if (exec->device.record && size) {
        Staging *staging = stage(exec, &exec->device.record->uploads, step->inputs[0], size);
        ok = staging;
        if (ok) data = memcpy(staging->pinned, data, size);
    }
    ok = ok && kind_of(exec)->upload(exec->device.queue, to->tensor.data, data, size, exec->err);
    exec_output(exec, step, 0, (RtValue){.state = RT_TENSOR, .tensor = to});
    return ok || exec_name_step(exec, step);
}

/* Recorded, the value lies in pinned memory for as long as the work is there. */
static RtTensor *download_to(Exec *exec, const LoadedStep *step, const KernelTensor *like) {
    if (!exec->device.record) return exec_new_tensor(exec, step->outputs[0], like);
    Staging *staging =
        stage(exec, &exec->device.record->downloads, step->outputs[0], bytes_of(like));
    if (!staging) return NULL;
    KernelTensor tensor = *like;
    tensor.data = staging->pinned;
    RtTensor *to = rt_tensor_borrow(&exec->pool, &tensor, exec->err);
    if (to) staging->given = rt_value_ref((RtValue){.state = RT_TENSOR, .tensor = to});
    return to;
}

static bool download(Exec *exec, const LoadedStep *step) {
    const RtTensor *from = exec_tensor(exec, step, 0);
    if (!from) return false;
    RtTensor *to = download_to(exec, step, &from->tensor);
    if (!to) return exec_name_step(exec, step);
    const bool ok = kind_of(exec)->download(exec->device.queue, to->tensor.data, from->tensor.data,
                                            bytes_of(&from->tensor), exec->err);
    exec->device.pending = true;
    exec_output(exec, step, 0, (RtValue){.state = RT_TENSOR, .tensor = to});
    return ok || exec_name_step(exec, step);
}

void *exec_record_fetch(Exec *exec, const RtTensor *tensor, Arena *arena) {
    const uint64_t size = bytes_of(&tensor->tensor);
    void *data = arena_alloc(arena, size ? size : 1);
    Err ignored = {0};
    if (!kind_of(exec)->download(exec->device.queue, data, tensor->tensor.data, size, &ignored) ||
        !kind_of(exec)->wait(exec->device.queue, &ignored))
        memset(data, 0, size); /* the run itself will tell */
    return data;
}

ExecFunction exec_record_find(const char *domain, const char *op) {
    if (strcmp(domain, PLACE_DOMAIN) != 0) return NULL;
    if (strcmp(op, "Upload") == 0) return upload;
    return strcmp(op, "Download") == 0 ? download : NULL;
}

/* ---- recorded work --------------------------------------------------------------------------- */

/* What was counted since then is the record's: nothing was done yet. */
static void take_counts(DeviceQueue *queue, const DeviceCounts *before, DeviceCounts *made) {
    const DeviceCounts *now = &queue->counts;
    *made = (DeviceCounts){.launches = now->launches - before->launches,
                           .bytes = now->bytes - before->bytes,
                           .uploads = now->uploads - before->uploads,
                           .downloads = now->downloads - before->downloads,
                           .upload_bytes = now->upload_bytes - before->upload_bytes,
                           .download_bytes = now->download_bytes - before->download_bytes};
    queue->counts = *before;
}

static void add_counts(DeviceQueue *queue, const DeviceCounts *made) {
    DeviceCounts *counts = &queue->counts;
    counts->launches += made->launches;
    counts->bytes += made->bytes;
    counts->uploads += made->uploads;
    counts->downloads += made->downloads;
    counts->upload_bytes += made->upload_bytes;
    counts->download_bytes += made->download_bytes;
}

/* Runs with everything noted, and nothing computed. */
static bool record_graph(Exec *exec, DeviceRecord *record) {
    Err *err = exec->err, ignored = {0};
    exec->err = &ignored;
    const DeviceCounts before = exec->device.queue->counts;
    bool ok = kind_of(exec)->record(exec->device.queue, &ignored);
    if (ok) {
        exec->device.record = record;
        ok = exec_graph(exec, 0);
        exec->device.record = NULL;
        record->work = kind_of(exec)->recorded(exec->device.queue, &ignored);
    }
    exec->err = err;
    take_counts(exec->device.queue, &before, &record->counts);
    if (ok && record->work) return true;
    exec_device_record_clear(exec, record);
    return false;
}

void exec_record_abandon(Exec *exec) {
    Err ignored = {0};
    DeviceRecord *record = exec->device.record;
    if (!record) return;
    exec->device.record = NULL;
    record->work = kind_of(exec)->recorded(exec->device.queue, &ignored);
    exec_device_record_clear(exec, record);
}

static bool repeat(Exec *exec, DeviceRecord *record) {
    if (!kind_of(exec)->replay(exec->device.queue, record->work, exec->err)) return false;
    add_counts(exec->device.queue, &record->counts);
    exec->device.pending = true;
    return exec_device_wait(exec);
}

static bool repeat_anew(Exec *exec, DeviceRecord *record) {
    for (Staging *staging = record->uploads; staging; staging = staging->next) {
        const RtValue *value =
            &exec->values[staging->value]; /* unset: not an input, and as it was */
        if (value->state == RT_TENSOR)
            memcpy(staging->pinned, value->tensor->tensor.data, staging->size);
    }
    if (!repeat(exec, record)) return false;
    for (Staging *staging = record->downloads; staging; staging = staging->next)
        rt_value_set(&exec->values[staging->value], rt_value_ref(staging->given));
    return true;
}

/* Inputs end with the steps that read them last: they are kept for a run after one that failed. */
typedef struct KeptInput {
    uint32_t number;
    RtValue value;
} KeptInput;

static KeptInput *keep_inputs(Exec *exec, PlanSpan inputs) {
    KeptInput *kept = calloc((size_t)inputs.count + 1, sizeof *kept);
    for (uint32_t i = 0; kept && i < inputs.count; i++) {
        kept[i].number = exec->loaded->plan.operands[inputs.first + i];
        kept[i].value = rt_value_ref(exec->values[kept[i].number]);
    }
    return kept;
}

static void give_inputs(Exec *exec, PlanSpan inputs, KeptInput *kept, bool again) {
    for (uint32_t i = 0; i < inputs.count; i++)
        if (again)
            rt_value_set(&exec->values[kept[i].number], kept[i].value);
        else
            rt_value_clear(&kept[i].value);
    free(kept);
}

bool exec_record_run(Exec *exec) {
    const PlanSpan inputs = exec->loaded->plan.graphs[0].inputs;
    DeviceRecord **slot = exec_memory_record(exec);
    if (!slot || !exec->loaded->repeats || exec->options.after || exec->again)
        return exec_graph(exec, 0);
    if (*slot && (*slot)->work) return repeat_anew(exec, *slot);
    if (*slot || !(*slot = calloc(1, sizeof **slot))) return exec_graph(exec, 0);
    KeptInput *kept = keep_inputs(exec, inputs);
    if (!kept) return exec_graph(exec, 0);
    const bool recorded = record_graph(exec, *slot);
    give_inputs(exec, inputs, kept, !recorded);
    return recorded ? repeat(exec, *slot) : exec_graph(exec, 0); /* as it can't be recorded */
}
