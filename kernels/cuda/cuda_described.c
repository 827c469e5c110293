// SPDX-License-Identifier: Apache-2.0
/* A CUDA device that is only described: nothing is loaded, opened or copied; see DeviceKind.described.
 * Its numbers are those of the least device that demi's kernels run on (compute capability 8.0), with
 * the fewest multiprocessors. */
#include <stdlib.h>

#include "cuda_device.h"

enum { MULTIPROCESSORS = 108, SHARED_MOST = 163 << 10 };

static Device *open_device(unsigned number, Err *err) {
    (void)number;
    CudaDevice *device = calloc(1, sizeof *device);
    if (!device) {
        err_out_of_memory(err);
        return NULL;
    }
    device->base.kind = &cuda_described;
    device->multiprocessors = MULTIPROCESSORS;
    device->shared_most = SHARED_MOST;
    return &device->base;
}

static void close_device(Device *device) {
    free(device);
}

/* An address as good as any. */
static void *allocate(Device *device, uint64_t size, Err *err) {
    (void)device, (void)size, (void)err;
    return (void *)(uintptr_t)DEVICE_ALIGN;
}

static void release(Device *device, void *memory) {
    (void)device, (void)memory;
}

static DeviceQueue *queue_new(Device *device, const QueueConfig *config, Err *err) {
    CudaQueue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        err_out_of_memory(err);
        return NULL;
    }
    queue->base.device = device;
    queue->base.tf32 = config->tf32;
    return &queue->base;
}

static void queue_free(DeviceQueue *queue) {
    free(queue);
}

static bool copy(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err) {
    (void)queue, (void)to, (void)from, (void)size, (void)err;
    return true;
}

static bool reaches(DeviceQueue *queue, const void *memory, Err *err) {
    (void)queue, (void)memory, (void)err;
    return true;
}

static bool wait(DeviceQueue *queue, Err *err) {
    (void)queue, (void)err;
    return true;
}

/* What else there is is for runs of whole plans. */
const DeviceKind cuda_described = {
    .name = "cuda",
    .described = &cuda_described,
    .open = open_device,
    .close = close_device,
    .find = cuda_find,
    .allocate = allocate,
    .release = release,
    .reaches = reaches,
    .queue_new = queue_new,
    .queue_free = queue_free,
    .ready = wait,
    .upload = copy,
    .download = copy,
    .copy = copy,
    .wait = wait,
};
