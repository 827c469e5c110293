// SPDX-License-Identifier: Apache-2.0
/* CUDA as a kind of device: memory, copies, queues (streams) and recorded work (graphs). */
#include "cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct DeviceWork {
    CuGraphExec ready;
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static CudaDevice *open_devices;

static bool has_images(void);

static CudaDevice *cuda_of(Device *device) {
    return (CudaDevice *)device;
}
static CudaQueue *queue_of(DeviceQueue *queue) {
    return (CudaQueue *)queue;
}
static CudaDevice *device_of(DeviceQueue *queue) {
    return cuda_of(queue->device);
}

CudaDevice *cuda_device_of(const KernelCall *call) {
    return device_of(call->queue);
}
CuStream cuda_stream_of(const KernelCall *call) {
    return queue_of(call->queue)->stream;
}

bool cuda_enter(const CudaDevice *device, Err *err) {
    return cuda_ok(device->driver, device->driver->context_push(device->context), err,
                   "the device's context");
}
void cuda_leave(const CudaDevice *device) {
    CuContext ended;
    device->driver->context_pop(&ended);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool ask(CudaDevice *device, int attribute, int *value, Err *err) {
    return cuda_ok(device->driver,
                   device->driver->device_attribute(value, attribute, device->handle), err,
                   "an attribute of the device");
}

static bool describe_device(CudaDevice *device, Err *err) {
    const CudaDriver *driver = device->driver;
    size_t memory = 0;
    DeviceInfo *info = &device->info;
    if (!cuda_ok(driver, driver->device_name(info->name, sizeof info->name, device->handle), err,
                 "the device's name") ||
        !ask(device, CU_ATTRIBUTE_MAJOR, &info->version[0], err) ||
        !ask(device, CU_ATTRIBUTE_MINOR, &info->version[1], err) ||
        !ask(device, CU_ATTRIBUTE_MULTIPROCESSORS, &device->multiprocessors, err) ||
        !ask(device, CU_ATTRIBUTE_SHARED_OPTIN, &device->shared_most, err) ||
        !cuda_ok(driver, driver->device_memory(&memory, device->handle), err, "its memory") ||
        !cuda_ok(driver, driver->driver_version(&info->driver), err, "the driver's version"))
        return false;
    info->memory = memory;
    if (info->version[0] >= 8) return true;
    err_set(err, ERR_ENV, "%s is too old for demi's kernels", info->name);
    err_expected(err, "compute capability 8.0 or later");
    err_actual(err, "%d.%d", info->version[0], info->version[1]);
    return false;
}

static bool begin(CudaDevice *device, Err *err) {
    int count = 0;
    const CudaDriver *driver = device->driver = cuda_driver(err);
    if (!driver || !cuda_ok(driver, driver->device_count(&count), err, "the devices")) return false;
    if (device->number >= (unsigned)count) {
        err_set(err, ERR_ENV, "there is no CUDA device %u", device->number);
        err_actual(err, "%d of them, counted from 0", count);
        return false;
    }
    return cuda_ok(driver, driver->device_get(&device->handle, (int)device->number), err,
                   "the device") &&
           describe_device(device, err) &&
           cuda_ok(driver, driver->context_retain(&device->context, device->handle), err,
                   "the device's context");
}

static Device *cuda_open(unsigned number, Err *err) {
    if (!has_images()) {
        err_set(err, ERR_ENV, "this demi was built without CUDA");
        err_hint(err, "build it where nvcc 13.0 is (cmake -DDEMI_CUDA=ON says what is missing)");
        return NULL;
    }
    pthread_mutex_lock(&open_lock);
    CudaDevice *device = open_devices;
    while (device && device->number != number) device = device->next;
    if (!device && (device = calloc(1, sizeof *device))) {
        device->base.kind = &cuda_kind;
        device->number = number;
        pthread_mutex_init(&device->lock, NULL);
        if (begin(device, err)) {
            device->next = open_devices;
            open_devices = device;
        } else {
            pthread_mutex_destroy(&device->lock);
            free(device);
            device = NULL;
        }
    } else if (!device) {
        err_out_of_memory(err);
    }
    if (device) device->users++;
    pthread_mutex_unlock(&open_lock);
    return device ? &device->base : NULL;
}

static void end(CudaDevice *device) {
    const CudaDriver *driver = device->driver;
    if (cuda_enter(device, NULL)) {
        for (int i = 0; i < CUDA_LIBRARY_COUNT; i++)
            if (device->libraries[i]) device->library_free[i](device->libraries[i]);
        for (int i = 0; i < CUDA_FAMILY_COUNT; i++)
            if (device->modules[i]) driver->module_unload(device->modules[i]);
        cuda_leave(device);
    }
    driver->context_release(device->handle);
    for (uint32_t i = 0; i < device->function_room; i++) free(device->functions[i].name);
    free(device->functions);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static void cuda_close(Device *closed) {
    pthread_mutex_lock(&open_lock);
    CudaDevice *device = cuda_of(closed), **at = &open_devices;
    const bool last = --device->users == 0;
    while (last && *at != device) at = &(*at)->next;
    if (last) *at = device->next;
    pthread_mutex_unlock(&open_lock);
    if (last) end(device);
}

static void cuda_describe(const Device *device, DeviceInfo *info) {
    *info = ((const CudaDevice *)device)->info;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *cuda_allocate(Device *owner, uint64_t size, Err *err) {
    CudaDevice *device = cuda_of(owner);
    CuAddress memory = 0;
    if (!cuda_enter(device, err)) return NULL;
    const CuResult result = device->driver->allocate(&memory, size ? size : 1);
    cuda_leave(device);
    if (result == CU_OUT_OF_MEMORY)
        err_set(err, ERR_ENV, "the CUDA device has no %llu bytes left", (unsigned long long)size);
    else
        cuda_ok(device->driver, result, err, "memory");
    return result ? NULL : (void *)(uintptr_t)memory;
}

static void cuda_release(Device *owner, void *memory) {
    CudaDevice *device = cuda_of(owner);
    if (!memory || !cuda_enter(device, NULL)) return;
    device->driver->release((CuAddress)(uintptr_t)memory);
    cuda_leave(device);
}

static void *cuda_pin(Device *owner, uint64_t size, Err *err) {
    CudaDevice *device = cuda_of(owner);
    void *memory = NULL;
    if (!cuda_enter(device, err)) return NULL;
    const CuResult result = device->driver->host_allocate(&memory, size ? size : 1, 0);
    cuda_leave(device);
    return cuda_ok(device->driver, result, err, "pinned memory") ? memory : NULL;
}

static void cuda_unpin(Device *owner, void *memory) {
    CudaDevice *device = cuda_of(owner);
    if (!memory || !cuda_enter(device, NULL)) return;
    device->driver->host_release(memory);
    cuda_leave(device);
}

/* ---- queues ---------------------------------------------------------------------------------- */

static DeviceQueue *cuda_queue_new(Device *owner, Err *err) {
    CudaDevice *device = cuda_of(owner);
    CudaQueue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        err_out_of_memory(err);
        return NULL;
    }
    queue->base.device = owner;
    bool ok = cuda_enter(device, err);
    if (ok) {
        ok = cuda_ok(device->driver,
                     device->driver->stream_new(&queue->stream, CU_STREAM_NON_BLOCKING), err,
                     "a stream");
        cuda_leave(device);
    }
    if (ok) return &queue->base;
    free(queue);
    return NULL;
}

static void cuda_queue_free(DeviceQueue *freed) {
    if (!freed) return;
    CudaDevice *device = device_of(freed);
    if (cuda_enter(device, NULL)) {
        device->driver->stream_wait(queue_of(freed)->stream);
        device->driver->stream_free(queue_of(freed)->stream);
        cuda_leave(device);
    }
    free(freed);
}

static bool cuda_send(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!size) return true;
    if (!cuda_enter(device, err)) return false;
    const CuResult result =
        device->driver->upload((CuAddress)(uintptr_t)to, from, size, queue_of(queue)->stream);
    cuda_leave(device);
    queue->counts.uploads++;
    queue->counts.upload_bytes += size;
    return cuda_ok(device->driver, result, err, "a copy to the device");
}

static bool cuda_fetch(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!size) return true;
    if (!cuda_enter(device, err)) return false;
    const CuResult result =
        device->driver->download(to, (CuAddress)(uintptr_t)from, size, queue_of(queue)->stream);
    cuda_leave(device);
    queue->counts.downloads++;
    queue->counts.download_bytes += size;
    return cuda_ok(device->driver, result, err, "a copy from the device");
}

static bool cuda_move(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!size) return true;
    if (!cuda_enter(device, err)) return false;
    const CuResult result = device->driver->copy(
        (CuAddress)(uintptr_t)to, (CuAddress)(uintptr_t)from, size, queue_of(queue)->stream);
    cuda_leave(device);
    return cuda_ok(device->driver, result, err, "a copy on the device");
}

static bool cuda_wait(DeviceQueue *queue, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!cuda_enter(device, err)) return false;
    const CuResult result = device->driver->stream_wait(queue_of(queue)->stream);
    cuda_leave(device);
    return cuda_ok(device->driver, result, err, "work on the device");
}

/* ---- recorded work --------------------------------------------------------------------------- */

static bool cuda_record(DeviceQueue *queue, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!cuda_enter(device, err)) return false;
    const CuResult result =
        device->driver->stream_record(queue_of(queue)->stream, CU_CAPTURE_RELAXED);
    cuda_leave(device);
    return cuda_ok(device->driver, result, err, "recording");
}

static DeviceWork *cuda_recorded(DeviceQueue *queue, Err *err) {
    CudaDevice *device = device_of(queue);
    DeviceWork *work = calloc(1, sizeof *work);
    CuGraph graph = NULL;
    if (!cuda_enter(device, err)) {
        free(work);
        return NULL;
    }
    bool ok =
        cuda_ok(device->driver, device->driver->stream_recorded(queue_of(queue)->stream, &graph),
                err, "recorded work") &&
        graph;
    ok = ok && work &&
         cuda_ok(device->driver, device->driver->graph_ready(&work->ready, graph, 0), err,
                 "getting recorded work ready");
    if (graph) device->driver->graph_free(graph);
    cuda_leave(device);
    if (ok) return work;
    free(work);
    return NULL;
}

static bool cuda_replay(DeviceQueue *queue, DeviceWork *work, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!cuda_enter(device, err)) return false;
    const CuResult result = device->driver->graph_launch(work->ready, queue_of(queue)->stream);
    cuda_leave(device);
    queue->counts.replays++;
    return cuda_ok(device->driver, result, err, "recorded work");
}

static void cuda_work_free(Device *owner, DeviceWork *work) {
    CudaDevice *device = cuda_of(owner);
    if (!work) return;
    if (cuda_enter(device, NULL)) {
        device->driver->graph_ready_free(work->ready);
        cuda_leave(device);
    }
    free(work);
}

/* ---- the kind -------------------------------------------------------------------------------- */

const DeviceKind cuda_kind = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .find = cuda_find,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .queue_new = cuda_queue_new,
    .queue_free = cuda_queue_free,
    .upload = cuda_send,
    .download = cuda_fetch,
    .copy = cuda_move,
    .wait = cuda_wait,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .record = cuda_record,
    .recorded = cuda_recorded,
    .replay = cuda_replay,
    .work_free = cuda_work_free,
};

static bool has_images(void) {
    for (int i = 0; i < CUDA_FAMILY_COUNT; i++)
        if (cuda_images[i]) return true;
    return false;
}
