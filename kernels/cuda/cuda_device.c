// SPDX-License-Identifier: Apache-2.0
/* CUDA devices: opened once, with what others made of them (modules, libraries) ended at last. */
#include "cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static CudaDevice *open_devices;

CudaDevice *cuda_device_of(const KernelCall *call) {
    return cuda_of(call->queue->device);
}
CuStream cuda_stream_of(const KernelCall *call) {
    return cuda_queue_of(call->queue)->stream;
}

/* What the thread's mode was before the outermost cuda_enter; -1: it was not changed. */
static _Thread_local int mode_before;
static _Thread_local unsigned entered;

bool cuda_enter(const CudaDevice *device, Err *err) {
    const CudaDriver *driver = device->driver;
    if (!cuda_ok(driver, driver->context_push(device->context), err, "the device's context"))
        return false;
    int mode = CU_CAPTURE_RELAXED;
    if (entered++ == 0) mode_before = driver->record_mode(&mode) == 0 ? mode : -1;
    return true;
}
void cuda_leave(const CudaDevice *device) {
    CuContext ended;
    if (--entered == 0 && mode_before >= 0) device->driver->record_mode(&mode_before);
    device->driver->context_pop(&ended);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool has_images(void) {
    for (int i = 0; i < CUDA_FAMILY_COUNT; i++)
        if (cuda_images[i]) return true;
    return false;
}

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

Device *cuda_open(const DeviceKind *kind, unsigned number, Err *err) {
    if (!has_images()) {
        err_set(err, ERR_ENV, "this demi was built without CUDA");
        err_hint(err, "build it where nvcc 13.0 is (cmake -DDEMI_CUDA=ON says what is missing)");
        return NULL;
    }
    pthread_mutex_lock(&open_lock);
    CudaDevice *device = open_devices;
    while (device && device->number != number) device = device->next;
    if (!device && (device = calloc(1, sizeof *device))) {
        device->base.kind = kind;
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

void cuda_close(Device *closed) {
    pthread_mutex_lock(&open_lock);
    CudaDevice *device = cuda_of(closed), **at = &open_devices;
    const bool last = --device->users == 0;
    while (last && *at != device) at = &(*at)->next;
    if (last) *at = device->next;
    pthread_mutex_unlock(&open_lock);
    if (last) end(device);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *cuda_allocate(Device *owner, uint64_t size, Err *err) {
    CudaDevice *device = cuda_of(owner);
    CuAddress memory = 0;
    if (!cuda_enter(device, err)) return NULL;
    const CuResult result = device->driver->allocate(&memory, size ? size : 1);
    cuda_leave(device);
    if (result == CU_OUT_OF_MEMORY)
        err_set(err, ERR_ENV, "the CUDA device does not have %llu bytes left",
                (unsigned long long)size);
    else
        cuda_ok(device->driver, result, err, "memory");
    return result ? NULL : (void *)(uintptr_t)memory;
}

void cuda_release(Device *owner, void *memory) {
    CudaDevice *device = cuda_of(owner);
    if (!memory || !cuda_enter(device, NULL)) return;
    device->driver->release((CuAddress)(uintptr_t)memory);
    cuda_leave(device);
}

/* By a stream of its own: the queue's may be the caller's, who may be recording it. */
bool cuda_make_counters(KernelCall *call) {
    static const uint32_t zeros[CUDA_COUNTERS];
    CudaDevice *device = cuda_device_of(call);
    CudaQueue *queue = cuda_queue_of(call->queue);
    const CudaDriver *driver = device->driver;
    if (queue->counters || !cuda_is_there(device)) return true;
    void *memory = cuda_allocate(&device->base, sizeof zeros, call->err);
    CuStream stream = NULL;
    if (!memory || !cuda_enter(device, call->err)) return false;
    bool ok =
        cuda_ok(driver, driver->stream_new(&stream, CU_STREAM_NON_BLOCKING), call->err,
                "a stream") &&
        cuda_ok(driver, driver->upload((CuAddress)(uintptr_t)memory, zeros, sizeof zeros, stream),
                call->err, "a copy to the device") &&
        cuda_ok(driver, driver->stream_wait(stream), call->err, "work on the device");
    if (stream) driver->stream_free(stream);
    cuda_leave(device);
    if (ok)
        queue->counters = memory;
    else
        cuda_release(&device->base, memory);
    return ok;
}

uint32_t *cuda_counters(const KernelCall *call) {
    return cuda_queue_of(call->queue)->counters;
}
