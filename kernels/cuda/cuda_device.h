// SPDX-License-Identifier: Apache-2.0
/* A CUDA device and its queues, for the files of this folder: the driver's context, modules that
 * were loaded into it, and what libraries keep for it. */
#ifndef DEMI_CUDA_DEVICE_H
#define DEMI_CUDA_DEVICE_H

#include <pthread.h>

#include "cuda_call.h"
#include "cuda_driver.h"

/* What a library keeps for a device. */
typedef enum CudaLibrary { CUDA_BLAS, CUDA_DNN, CUDA_LIBRARY_COUNT } CudaLibrary;

typedef struct CudaFound {
    CudaFamily family;
    char *name; /* NULL: the slot is empty */
    CuFunction function;
    uint32_t shared; /* dynamic shared memory that it was told it may have */
} CudaFound;

/* What the driver says of a device. */
typedef struct DeviceInfo {
    char name[96];
    int version[2]; /* of its instructions: compute capability */
    int driver;     /* the newest CUDA that the driver serves: 1000 major + 10 minor */
    uint64_t memory;
} DeviceInfo;

typedef struct CudaDevice {
    Device base;
    struct CudaDevice *next; /* of those that are open */
    unsigned number, users;
    const CudaDriver *driver;
    CuDevice handle;
    CuContext context;
    int multiprocessors, shared_most; /* bytes of shared memory that a block may have */
    DeviceInfo info;
    pthread_mutex_t lock; /* of what follows */
    CuModule modules[CUDA_FAMILY_COUNT];
    CudaFound *functions; /* [function_room], open addressing */
    uint32_t function_count, function_room;
    void *libraries[CUDA_LIBRARY_COUNT];
    void (*library_free[CUDA_LIBRARY_COUNT])(void *library);
} CudaDevice;

typedef struct CudaQueue {
    DeviceQueue base;
    CuStream stream;
    bool foreign;       /* the caller's */
    uint32_t *counters; /* on the device, CUDA_COUNTERS; cuda_counters */
} CudaQueue;

enum { CUDA_COUNTERS = 1024 };

static inline CudaDevice *cuda_of(Device *device) {
    return (CudaDevice *)device;
}
static inline CudaQueue *cuda_queue_of(DeviceQueue *queue) {
    return (CudaQueue *)queue;
}
CudaDevice *cuda_device_of(const KernelCall *call);
/* Whether there is a driver and a device behind it; false: it is cuda_described's. */
static inline bool cuda_is_there(const CudaDevice *device) {
    return device->driver;
}
CuStream cuda_stream_of(const KernelCall *call);
/* Counters of the call's queue on the device, CUDA_COUNTERS of 0, which a kernel leaves so; made when a row
 * that needs them gets ready, false with the error set. */
bool cuda_make_counters(KernelCall *call);
uint32_t *cuda_counters(const KernelCall *call);

/* DeviceKind's. */
void *cuda_allocate(Device *device, uint64_t size, Err *err);
void cuda_release(Device *device, void *memory);

/* Makes the device's context the thread's, until cuda_leave: around calls of the driver and of
 * libraries. Meanwhile calls that others' recordings would not survive (memory that is taken, a stream
 * that is waited for) concern this thread's alone. False with the error set. */
bool cuda_enter(const CudaDevice *device, Err *err);
void cuda_leave(const CudaDevice *device);

/* DeviceKind's; a device that is opened first becomes one of `kind`. */
Device *cuda_open(const DeviceKind *kind, unsigned number, Err *err);
void cuda_close(Device *device);

/* The operator's CUDA rows; DeviceKind's. */
const KernelRow *cuda_find(const char *domain, const char *op, int64_t opset, size_t *count);

/* DeviceKind.described. */
extern const DeviceKind cuda_described;

/* The modules' images, by family; NULL where the build has none (no nvcc). */
extern const unsigned char *const cuda_images[CUDA_FAMILY_COUNT];

#endif
