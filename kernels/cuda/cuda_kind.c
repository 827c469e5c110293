// SPDX-License-Identifier: Apache-2.0
/* CUDA as a kind of device: memory, copies, queues (streams) and recorded work (graphs). */
#include <stdlib.h>

#include "cuda_device.h"

struct DeviceWork {
    CuGraphExec ready;
};

static CudaDevice *device_of(DeviceQueue *queue) {
    return cuda_of(queue->device);
}

/* ---- memory ---------------------------------------------------------------------------------- */

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

/* Where an address lies; a CuResult. */
typedef struct Place {
    unsigned type, managed;
    int device;
} Place;

static CuResult place_of(const CudaDriver *driver, CuAddress memory, Place *place) {
    CuResult result = driver->pointer_attribute(&place->device, CU_POINTER_DEVICE, memory);
    if (result == 0)
        result = driver->pointer_attribute(&place->managed, CU_POINTER_MANAGED, memory);
    return result ? result : driver->pointer_attribute(&place->type, CU_POINTER_TYPE, memory);
}

/* The host's memory is the device's, too, where it is pinned: the driver knows no other. */
static bool cuda_reaches(DeviceQueue *queue, const void *memory, Err *err) {
    CudaDevice *device = device_of(queue);
    Place place = {0};
    if (!cuda_enter(device, err)) return false;
    const CuResult result = place_of(device->driver, (CuAddress)(uintptr_t)memory, &place);
    cuda_leave(device);
    if (result == 0 &&
        ((unsigned)place.device == device->number || place.managed || place.type == CU_MEMORY_HOST))
        return true;
    if (result != 0 && result != CU_INVALID_VALUE)
        return cuda_ok(device->driver, result, err, "an address");
    err_set(err, ERR_USAGE, "its memory is not on the session's device");
    err_expected(err, "memory of cuda:%u", device->number);
    if (result == 0)
        err_actual(err, "memory of cuda:%d", place.device);
    else
        err_actual(err, "an address that the driver does not know");
    return false;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static DeviceQueue *cuda_queue_new(Device *owner, const QueueConfig *config, Err *err) {
    CudaDevice *device = cuda_of(owner);
    CudaQueue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        err_out_of_memory(err);
        return NULL;
    }
    queue->base.device = owner;
    queue->base.tf32 = config->tf32;
    if (config->stream) {
        queue->stream = config->stream;
        queue->foreign = true;
        return &queue->base;
    }
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

/* Whether somebody else captures the queue's stream, which must not be waited for then; 0: no, or it
 * can't be told. Our own recordings have ended whenever this is asked. */
static int is_captured(const CudaDevice *device, const CudaQueue *queue) {
    int state = 0;
    return queue->foreign && device->driver->stream_records(queue->stream, &state) == 0 ? state : 0;
}

static void cuda_queue_free(DeviceQueue *freed) {
    if (!freed) return;
    CudaDevice *device = device_of(freed);
    if (cuda_enter(device, NULL)) {
        if (!is_captured(device, cuda_queue_of(freed)))
            device->driver->stream_wait(cuda_queue_of(freed)->stream);
        if (!cuda_queue_of(freed)->foreign)
            device->driver->stream_free(cuda_queue_of(freed)->stream);
        cuda_leave(device);
    }
    cuda_release(&device->base, cuda_queue_of(freed)->counters);
    free(freed);
}

static bool refuse(Err *err) {
    err_set(err, ERR_USAGE, "demi cannot run in a stream that is being captured");
    err_hint(err, "demi records its runs itself; run it outside of the capture");
    return false;
}

static bool cuda_ready(DeviceQueue *queue, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!cuda_queue_of(queue)->foreign) return true;
    if (!cuda_enter(device, err)) return false;
    const int captured = is_captured(device, cuda_queue_of(queue));
    cuda_leave(device);
    return !captured || refuse(err);
}

static bool cuda_send(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!size) return true;
    if (!cuda_enter(device, err)) return false;
    const CuResult result =
        device->driver->upload((CuAddress)(uintptr_t)to, from, size, cuda_queue_of(queue)->stream);
    cuda_leave(device);
    queue->counts.uploads++;
    queue->counts.upload_bytes += size;
    return cuda_ok(device->driver, result, err, "a copy to the device");
}

static bool cuda_fetch(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!size) return true;
    if (!cuda_enter(device, err)) return false;
    const CuResult result = device->driver->download(to, (CuAddress)(uintptr_t)from, size,
                                                     cuda_queue_of(queue)->stream);
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
        (CuAddress)(uintptr_t)to, (CuAddress)(uintptr_t)from, size, cuda_queue_of(queue)->stream);
    cuda_leave(device);
    return cuda_ok(device->driver, result, err, "a copy on the device");
}

static bool cuda_wait(DeviceQueue *queue, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!cuda_enter(device, err)) return false;
    const bool captured = is_captured(device, cuda_queue_of(queue));
    const CuResult result =
        captured ? 0 : device->driver->stream_wait(cuda_queue_of(queue)->stream);
    cuda_leave(device);
    if (captured) return refuse(err);
    return cuda_ok(device->driver, result, err, "work on the device");
}

/* ---- recorded work --------------------------------------------------------------------------- */

/* The context stays the thread's until the end, so that nothing can keep the end from coming. */
static bool cuda_record(DeviceQueue *queue, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!cuda_enter(device, err)) return false;
    const CuResult result =
        device->driver->stream_record(cuda_queue_of(queue)->stream, CU_CAPTURE_RELAXED);
    if (result) cuda_leave(device);
    return cuda_ok(device->driver, result, err, "recording");
}

static DeviceWork *cuda_recorded(DeviceQueue *queue, Err *err) {
    CudaDevice *device = device_of(queue);
    DeviceWork *work = calloc(1, sizeof *work);
    CuGraph graph = NULL;
    bool ok = cuda_ok(device->driver,
                      device->driver->stream_recorded(cuda_queue_of(queue)->stream, &graph), err,
                      "recorded work") &&
              graph;
    ok = ok && work &&
         cuda_ok(device->driver, device->driver->graph_ready(&work->ready, graph, 0), err,
                 "preparing recorded work");
    if (graph) device->driver->graph_free(graph);
    cuda_leave(device);
    if (ok) return work;
    free(work);
    return NULL;
}

static bool cuda_replay(DeviceQueue *queue, DeviceWork *work, Err *err) {
    CudaDevice *device = device_of(queue);
    if (!cuda_enter(device, err)) return false;
    const CuResult result = device->driver->graph_launch(work->ready, cuda_queue_of(queue)->stream);
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

static Device *open_device(unsigned number, Err *err) {
    return cuda_open(&cuda_kind, number, err);
}

const DeviceKind cuda_kind = {
    .name = "cuda",
    .described = &cuda_described,
    .open = open_device,
    .close = cuda_close,
    .find = cuda_find,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .reaches = cuda_reaches,
    .queue_new = cuda_queue_new,
    .queue_free = cuda_queue_free,
    .ready = cuda_ready,
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
