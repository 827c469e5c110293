// SPDX-License-Identifier: Apache-2.0
/* Devices: where values may live and steps run beside the processor's memory and threads.
 *
 * A DeviceKind says how a kind of device does what a host (runtime/) asks: memory, copies, order,
 * and which rows of kernels it has. A Device is one of them, opened once and shared by all that use
 * it, from any thread. A DeviceQueue is an order of work and belongs to one thread at a time: what
 * is put into it (copies, kernels, fills) runs one after the other, later than the call that put it
 * there. So memory may be given to the next step of the same queue while the last one still reads it.
 *
 * Rows of a device are kernel.h's, with these differences:
 *  - `data` of operands is the device's memory, but that of inputs in KernelRow.host, and that of
 *    empty tensors is never read;
 *  - call->queue is set, and returning means that the work is in the queue, not that it is done;
 *  - no operand is converted before: a row says all dtypes that it takes, 16 bit among them, and
 *    computes with floats between loads and stores;
 *  - kernel_workspace gives the device's memory, kernel_keep, kernel_ints and scratch the host's;
 *  - kernel_constant gives elements in the host's memory; kernel_share packs in the host's memory
 *    what the queue then has in the device's;
 *  - KERNEL_SIZES and strings are the processor's alone;
 *  - operands that kernels do not take are declined (kernel_decline) before anything of them is
 *    changed, and computed by the processor: only what is wrong for the operator is an error.
 */
#ifndef DEMI_DEVICE_H
#define DEMI_DEVICE_H

#include "kernel.h"

typedef struct Device Device;
typedef struct DeviceQueue DeviceQueue;
typedef struct DeviceWork DeviceWork; /* work that was recorded, to be put into a queue at once */
typedef struct DeviceKind DeviceKind;

/* What a queue did since it was made; of work that is recorded, whenever it is replayed. */
typedef struct DeviceCounts {
    uint64_t launches; /* of kernels and of libraries' calls */
    uint64_t bytes;    /* that these read and write: operands by their sizes, each once a step, and
                          what one launch of a step leaves to the next */
    uint64_t uploads, downloads, upload_bytes, download_bytes;
    uint64_t replays;
    uint64_t tf32; /* of the launches, those that may round floats to TF32 */
    uint64_t
        declined; /* steps that the processor ran instead, the host's to count (kernel_decline) */
    uint64_t
        without; /* steps that got ready without a library that is missing: by slower kernels */
} DeviceCounts;

/* How a queue is to work. */
typedef struct QueueConfig {
    void *stream; /* the caller's, of the kind's own type; NULL: one of the queue's own */
    bool tf32;    /* libraries may round factors of float products to 10 bits of mantissa */
} QueueConfig;

/* What all begin with, so that a handle finds its functions. */
struct Device {
    const DeviceKind *kind;
};
struct DeviceQueue {
    Device *device;
    DeviceCounts counts;
    bool tf32; /* the config's */
};

enum { DEVICE_ALIGN = 256 }; /* bytes that memory and values are aligned to: libraries expect it */

struct DeviceKind {
    const char *name; /* "cuda" */
    /* A kind whose device is only described, so that it is always there: memory holds nothing, work is
     * dropped, but rows decline what they would decline on a device, as far as that is theirs to say and
     * no library's. `data` of the device's is never read. */
    const DeviceKind *described;
    /* The device with that number, opened if it is not yet; NULL with ERR_ENV that says exactly what
     * is missing. Each open is to be ended by a close. */
    Device *(*open)(unsigned number, Err *err);
    void (*close)(Device *device);
    /* The operator's rows, as kernel_find. */
    const KernelRow *(*find)(const char *domain, const char *op, int64_t opset, size_t *count);
    /* Memory of the device, aligned to DEVICE_ALIGN. NULL with ERR_ENV where there is not as much. */
    void *(*allocate)(Device *device, uint64_t size, Err *err);
    void (*release)(Device *device, void *memory);
    /* Whether the caller's memory is the queue's device's to read and write: its own, or what all devices
     * share. False with ERR_USAGE where it is another device's or the host's alone. */
    bool (*reaches)(DeviceQueue *queue, const void *memory, Err *err);
    DeviceQueue *(*queue_new)(Device *device, const QueueConfig *config, Err *err);
    void (*queue_free)(DeviceQueue *queue); /* waits */
    /* Whether the queue's stream takes work: false with ERR_USAGE where somebody else records what it
     * does, whose recording goes on unharmed. */
    bool (*ready)(DeviceQueue *queue, Err *err);
    /* Copies. What `from` of an upload holds is taken before the function returns, of pinned memory
     * when the copy runs; `to` of a download may be read after the next wait. False with ERR_ENV
     * set. */
    bool (*upload)(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err);
    bool (*download)(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err);
    bool (*copy)(DeviceQueue *queue, void *to, const void *from, uint64_t size, Err *err);
    /* Until all is done that is in the queue; an error of that work is told here. */
    bool (*wait)(DeviceQueue *queue, Err *err);
    /* Host memory that copies go to and from without a copy between, and that recorded copies read
     * whenever they run. */
    void *(*pin)(Device *device, uint64_t size, Err *err);
    void (*unpin)(Device *device, void *memory);
    /* From record on, what is put into the queue is not run but noted; recorded ends that, and has to
     * be called by the same thread. Copies must be from and to pinned memory then. NULL with the error
     * set where the work can't be repeated. */
    bool (*record)(DeviceQueue *queue, Err *err);
    DeviceWork *(*recorded)(DeviceQueue *queue, Err *err);
    bool (*replay)(DeviceQueue *queue, DeviceWork *work, Err *err);
    void (*work_free)(Device *device, DeviceWork *work);
};

extern const DeviceKind cuda_kind;

/* The kind and number that "cuda" or "cuda:1" name; NULL with ERR_USAGE for other texts. */
const DeviceKind *device_kind(const char *text, unsigned *number, Err *err);

#endif
