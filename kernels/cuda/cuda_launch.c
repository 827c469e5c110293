// SPDX-License-Identifier: Apache-2.0
/* Launching kernels: modules and functions are looked up once a device; see cuda_call.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_device.h"

enum { FIRST_ROOM = 256, PLAIN_SHARED = 48 << 10 };

static const char *const family_names[] = {
#define FAMILY(name) #name,
#include "cuda_families.def"
#undef FAMILY
};

/* ---- functions ------------------------------------------------------------------------------- */

static uint32_t slot_of(const CudaDevice *device, CudaFamily family, const char *name) {
    uint32_t hash = 2166136261u ^ (uint32_t)family; /* FNV-1a */
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    uint32_t slot = hash & (device->function_room - 1);
    while (device->functions[slot].name && (device->functions[slot].family != family ||
                                            strcmp(device->functions[slot].name, name) != 0))
        slot = (slot + 1) & (device->function_room - 1);
    return slot;
}

static bool grow(CudaDevice *device, Err *err) {
    CudaFound *old = device->functions;
    const uint32_t room = device->function_room;
    CudaFound *larger = calloc(room ? 2 * room : FIRST_ROOM, sizeof *larger);
    if (!larger) return err_out_of_memory(err);
    device->functions = larger;
    device->function_room = room ? 2 * room : FIRST_ROOM;
    for (uint32_t i = 0; i < room; i++)
        if (old[i].name) larger[slot_of(device, old[i].family, old[i].name)] = old[i];
    free(old);
    return true;
}

static bool load_module(CudaDevice *device, CudaFamily family, Err *err) {
    if (device->modules[family]) return true;
    if (!cuda_images[family])
        return err_set(err, ERR_ENV, "this demi was built without the CUDA kernels of '%s'",
                       family_names[family]);
    const CuResult result =
        device->driver->module_load(&device->modules[family], cuda_images[family]);
    if (result == CU_NO_BINARY_FOR_GPU || result == CU_UNSUPPORTED_PTX_VERSION) {
        err_set(err, ERR_ENV, "demi's CUDA kernels were not built for %s", device->info.name);
        err_hint(err, "build demi with -DDEMI_CUDA_ARCHITECTURES=%d%d", device->info.version[0],
                 device->info.version[1]);
        return false;
    }
    return cuda_ok(device->driver, result, err, "loading kernels");
}

static CudaFound *find(CudaDevice *device, CudaFamily family, const char *name, Err *err) {
    if (2 * device->function_count >= device->function_room && !grow(device, err)) return NULL;
    CudaFound *found = &device->functions[slot_of(device, family, name)];
    if (found->name) return found;
    if (!load_module(device, family, err)) return NULL;
    CuFunction function = NULL;
    if (!cuda_ok(device->driver,
                 device->driver->module_function(&function, device->modules[family], name), err,
                 name))
        return NULL;
    const size_t size = strlen(name) + 1;
    char *copy = malloc(size);
    if (!copy) {
        err_out_of_memory(err);
        return NULL;
    }
    *found = (CudaFound){family, memcpy(copy, name, size), function, PLAIN_SHARED};
    device->function_count++;
    return found;
}

/* The function, which may have so much dynamic shared memory. */
static CuFunction get_function(CudaDevice *device, const CudaLaunch *launch, Err *err) {
    CuFunction function = NULL;
    pthread_mutex_lock(&device->lock);
    CudaFound *found = find(device, launch->family, launch->kernel, err);
    if (found && launch->shared > found->shared) {
        if (cuda_ok(device->driver,
                    device->driver->function_set(found->function, CU_FUNCTION_SHARED,
                                                 (int)launch->shared),
                    err, "shared memory of a kernel"))
            found->shared = launch->shared;
        else
            found = NULL;
    }
    if (found) function = found->function;
    pthread_mutex_unlock(&device->lock);
    return function;
}

/* ---- for rows -------------------------------------------------------------------------------- */

bool cuda_has_clusters(const KernelCall *call) {
    return cuda_device_of(call)->info.version[0] >= 9;
}

static uint32_t at_least_1(uint32_t count) {
    return count ? count : 1;
}

/* What the launch asks for besides its size; returns how many attributes that are, at most 2. */
static unsigned set_attributes(const KernelCall *call, const CudaLaunch *launch,
                               CuLaunchAttribute *to) {
    unsigned count = 0;
    if (launch->cluster)
        to[count++] = (CuLaunchAttribute){.id = CU_LAUNCH_CLUSTER,
                                          .value = {.cluster = {1, 1, launch->cluster}}};
    if (cuda_has_clusters(call)) /* the same devices begin early */
        to[count++] = (CuLaunchAttribute){.id = CU_LAUNCH_EARLY, .value = {.early = 1}};
    return count;
}

bool cuda_launch(KernelCall *call, const CudaLaunch *launch) {
    CudaDevice *device = cuda_device_of(call);
    if (!cuda_is_there(device)) return true;
    if (!cuda_enter(device, call->err)) return false;
    CuFunction function = get_function(device, launch, call->err);
    void *args[] = {(void *)(uintptr_t)launch->args};
    CuLaunchAttribute attributes[2];
    CuLaunchConfig config = {.shared = launch->shared,
                             .stream = cuda_stream_of(call),
                             .attributes = attributes,
                             .attribute_count = set_attributes(call, launch, attributes)};
    for (int i = 0; i < 3; i++) {
        config.grid[i] = at_least_1(launch->blocks[i]);
        config.block[i] = at_least_1(launch->threads[i]);
    }
    bool ok =
        function && cuda_ok(device->driver, device->driver->launch(&config, function, args, NULL),
                            call->err, launch->kernel);
    cuda_leave(device);
    call->queue->counts.launches++;
    return ok;
}

void cuda_without(KernelCall *call) {
    call->queue->counts.without++;
}

void cuda_between(KernelCall *call, uint64_t bytes) {
    call->queue->counts.bytes += 2 * bytes;
}

void cuda_reread(KernelCall *call, uint64_t bytes) {
    call->queue->counts.bytes += bytes;
}

uint32_t cuda_blocks(uint64_t count, uint32_t threads, uint32_t each) {
    const uint64_t per_block = (uint64_t)threads * each;
    const uint64_t blocks = count / per_block + (count % per_block != 0);
    return blocks > INT32_MAX ? INT32_MAX : (uint32_t)blocks;
}

uint32_t cuda_blocks_full(const KernelCall *call, uint64_t count, uint32_t threads, uint32_t each) {
    const uint32_t blocks = cuda_blocks(count, threads, each);
    const uint32_t full = cuda_width(call) * (2048 / threads);
    return blocks < full ? blocks : full;
}

uint32_t cuda_width(const KernelCall *call) {
    return (uint32_t)cuda_device_of(call)->multiprocessors;
}

bool cuda_copy(KernelCall *call, void *to, const void *from, uint64_t size) {
    return call->queue->device->kind->copy(call->queue, to, from, size, call->err);
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *cuda_suffix(Dtype dtype) {
    switch (dtype) {
    case DTYPE_FLOAT: return "f32";
    case DTYPE_FLOAT16: return "f16";
    case DTYPE_BFLOAT16: return "bf16";
    case DTYPE_DOUBLE: return "f64";
    case DTYPE_INT8: return "i8";
    case DTYPE_INT16: return "i16";
    case DTYPE_INT32: return "i32";
    case DTYPE_INT64: return "i64";
    case DTYPE_UINT8: return "u8";
    case DTYPE_UINT16: return "u16";
    case DTYPE_UINT32: return "u32";
    case DTYPE_UINT64: return "u64";
    case DTYPE_BOOL: return "b";
    default: return "";
    }
}

const char *cuda_size_suffix(Dtype dtype) {
    switch (kernel_element_size(dtype)) {
    case 1: return "x1";
    case 2: return "x2";
    case 4: return "x4";
    case 8: return "x8";
    case 16: return "x16";
    default: return "";
    }
}

CudaName cuda_name(const char *base, const char *first, const char *second) {
    CudaName name;
    snprintf(name.text, sizeof name.text, "%s%s%s%s%s", base, *first ? "_" : "", first,
             *second ? "_" : "", second);
    return name;
}
