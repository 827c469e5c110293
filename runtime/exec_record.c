// SPDX-License-Identifier: Apache-2.0
/* Copies of a device's plan, and runs that are recorded and repeated; see exec_record.h. */
#include "exec_record.h"

#include <stdlib.h>
#include <string.h>

#include "exec_device.h"
#include "exec_memory.h"
#include "step_place.h"

enum { MOST_LAUNCHES = 1 << 14 }; /* loops may have any number of turns */

static const DeviceKind *kind_of(const Exec *exec) {
    return exec->loaded->device->kind;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static uint64_t bytes_of(const KernelTensor *tensor) {
    return tensor->count * kernel_element_size(tensor->dtype);
}

/* Pinned memory for a copy that is recorded (of no size: none), NULL with the error set. */
static Staging *stage(Exec *exec, Staging **list, uint32_t value, uint64_t size) {
    Staging *staging = calloc(1, sizeof *staging);
    if (!staging) {
        err_out_of_memory(exec->err);
        return NULL;
    }
    if (size) staging->pinned = kind_of(exec)->pin(exec->loaded->device, size, exec->err);
    if (size && !staging->pinned) {
        free(staging);
        return NULL;
    }
    staging->value = value;
    staging->size = size;
    staging->next = *list;
    return *list = staging;
}

/* An input that the caller has on the device: as it lies, or a copy where kernels expect more. */
static bool take_there(Exec *exec, const LoadedStep *step, const KernelTensor *like,
                       const void *there) {
    KernelTensor tensor = *like;
    const bool aligned = (uintptr_t)there % DEVICE_ALIGN == 0;
    tensor.data = (void *)(uintptr_t)there;
    RtTensor *to = aligned ? rt_tensor_borrow(&exec->pool, &tensor, exec->err)
                           : exec_new_tensor(exec, step->outputs[0], like);
    if (!to) return exec_name_step(exec, step);
    const bool ok = aligned || kind_of(exec)->copy(exec->device.queue, to->tensor.data, there,
                                                   bytes_of(like), exec->err);
    exec_output(exec, step, 0, (RtValue){.state = RT_TENSOR, .tensor = to});
    return ok || exec_name_step(exec, step);
}

static bool upload(Exec *exec, const LoadedStep *step) {
    const RtTensor *from = exec_tensor(exec, step, 0);
    if (!from) return false;
    const void *there = exec->device.given ? exec->device.given[step->inputs[0]] : NULL;
    if (there) return take_there(exec, step, &from->tensor, there);
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
        stage(exec, &exec->device.record->downloads, step->outputs[0], bytes_of(like) | 1);
    if (!staging) return NULL;
    KernelTensor tensor = *like;
    tensor.data = staging->pinned;
    RtTensor *to = rt_tensor_borrow(&exec->pool, &tensor, exec->err);
    if (to) staging->given = rt_value_ref((RtValue){.state = RT_TENSOR, .tensor = to});
    return to;
}

/* An output that the caller wants on the device: its value is what lies there. */
static bool leave_there(Exec *exec, const LoadedStep *step, const KernelTensor *from,
                        const struct OwnMemory *there) {
    KernelTensor tensor = *from;
    const uint64_t size = bytes_of(from);
    if (size > there->size) {
        err_set(exec->err, ERR_USAGE, "it is larger than the memory that it is bound to");
        err_expected(exec->err, "at most %llu bytes", (unsigned long long)there->size);
        err_actual(exec->err, "%llu", (unsigned long long)size);
        return exec_name_step(exec, step);
    }
    if (from->data != there->data &&
        !kind_of(exec)->copy(exec->device.queue, there->data, from->data, size, exec->err))
        return exec_name_step(exec, step);
    tensor.data = there->data;
    RtTensor *to = rt_tensor_borrow(&exec->pool, &tensor, exec->err);
    if (!to) return exec_name_step(exec, step);
    exec_output(exec, step, 0, (RtValue){.state = RT_TENSOR, .tensor = to});
    if (!exec->device.record) return true;
    Staging *staging = stage(exec, &exec->device.record->downloads, step->outputs[0], 0);
    if (!staging) return exec_name_step(exec, step);
    staging->given = rt_value_ref((RtValue){.state = RT_TENSOR, .tensor = to});
    return true;
}

static bool download(Exec *exec, const LoadedStep *step) {
    const RtTensor *from = exec_tensor(exec, step, 0);
    if (!from) return false;
    const struct OwnMemory *own = exec->owned.there;
    if (own && own[step->outputs[0]].data)
        return leave_there(exec, step, &from->tensor, &own[step->outputs[0]]);
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
                           .tf32 = now->tf32 - before->tf32,
                           .upload_bytes = now->upload_bytes - before->upload_bytes,
                           .download_bytes = now->download_bytes - before->download_bytes};
    queue->counts = *before;
}

static void add_counts(DeviceQueue *queue, const DeviceCounts *made) {
    DeviceCounts *counts = &queue->counts;
    counts->launches += made->launches;
    counts->bytes += made->bytes;
    counts->tf32 += made->tf32;
    counts->uploads += made->uploads;
    counts->downloads += made->downloads;
    counts->upload_bytes += made->upload_bytes;
    counts->download_bytes += made->download_bytes;
}

/* What recorded work relies on beside sizes: memory of the pool that is free now, and the caller's. */
static uint64_t stamp_of(const Exec *exec) {
    return exec->device.pool.trims + exec->device.moves;
}

/* Runs with everything noted, and nothing computed. */
static bool record_graph(Exec *exec, DeviceRecord *record) {
    Err *err = exec->err, ignored = {0};
    exec->err = &ignored;
    const DeviceCounts before = exec->device.queue->counts;
    record->stamp = stamp_of(exec);
    exec->device.pool.queue = NULL; /* nothing of this context runs meanwhile */
    bool ok = kind_of(exec)->record(exec->device.queue, &ignored);
    if (ok) {
        exec->device.record = record;
        ok = exec_graph(exec, 0);
        exec->device.record = NULL;
        record->work = kind_of(exec)->recorded(exec->device.queue, &ignored);
    }
    exec->err = err;
    exec->device.pool.queue = exec->device.queue;
    take_counts(exec->device.queue, &before, &record->counts);
    const bool fits = record->counts.launches <= MOST_LAUNCHES;
    if (ok && fits && record->work && record->stamp == stamp_of(exec)) return true;
    exec_device_record_clear(exec, record);
    return false;
}

void exec_record_abandon(Exec *exec) {
    Err ignored = {0};
    DeviceRecord *record = exec->device.record;
    if (!record) return;
    exec->device.record = NULL;
    exec->device.pool.queue = exec->device.queue;
    record->work = kind_of(exec)->recorded(exec->device.queue, &ignored);
    exec_device_record_clear(exec, record);
}

static bool repeat(Exec *exec, DeviceRecord *record) {
    if (!kind_of(exec)->replay(exec->device.queue, record->work, exec->err)) return false;
    add_counts(exec->device.queue, &record->counts);
    exec->device.pending = true;
    return true;
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
    const bool settled = exec->device.last == exec->device.moves;
    exec->device.last = exec->device.moves;
    if (!slot || !exec->loaded->repeats || exec->options.after || exec->again || exec->device.steps)
        return exec_graph(exec, 0);
    if (*slot && (*slot)->work && (*slot)->stamp == stamp_of(exec)) return repeat_anew(exec, *slot);
    if (*slot && (*slot)->work) { /* what it knows is gone */
        exec_device_record_free(exec, *slot);
        *slot = NULL;
    }
    if (!settled) return exec_graph(exec, 0); /* the caller's memory may change in every run */
    if (*slot || !(*slot = calloc(1, sizeof **slot))) return exec_graph(exec, 0);
    KeptInput *kept = keep_inputs(exec, inputs);
    if (!kept) return exec_graph(exec, 0);
    const bool recorded = record_graph(exec, *slot);
    give_inputs(exec, inputs, kept, !recorded);
    return recorded ? repeat(exec, *slot) : exec_graph(exec, 0); /* as it can't be recorded */
}
