// SPDX-License-Identifier: Apache-2.0
/* A libcuda.so.1 for tests: the functions of kernels/cuda/cuda_driver.def, on a device that is the
 * emulator of ptx.h. It is stricter than a driver: see README.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

#define DRIVER(name, symbol, arguments) CuResult symbol arguments;
#include "cuda_driver.def"
#undef DRIVER

/* Numbers of cuda.h are written down here once more: taken from demi's headers, a wrong one would be wrong
 * on both sides. */
enum {
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_SHARED_OPTIN = 97,
    FUNCTION_SHARED = 8,
    STREAM_NON_BLOCKING = 1,
    CAPTURE_GLOBAL = 0,
    CAPTURE_RELAXED = 2,
    LAUNCH_CLUSTER = 4,
    LAUNCH_EARLY = 6
};
enum { DEPTH = 8, MULTIPROCESSORS = 4, SHARED_OPTIN = 232448, PLAIN_SHARED = 48 << 10 };

struct CuFunctionOpaque {
    struct CuFunctionOpaque *next;
    const PtxKernel *kernel;
    uint32_t dynamic_most;
};
struct CuModuleOpaque {
    struct CuModuleOpaque *next;
    int device;
    PtxModule *ptx; /* read once for all */
    CuFunction functions;
};
struct CuGraphOpaque {
    struct CuGraphOpaque *next;
    int device;
    FakeList work;
};
struct CuGraphExecOpaque {
    struct CuGraphExecOpaque *next;
    int device;
    FakeList work;
};
struct CuContextOpaque {
    int users;
};

static bool started;
static struct CuContextOpaque contexts[FAKE_DEVICES];
static CuModule modules;
static CuStream streams;
static CuGraph graphs;
static CuGraphExec execs;
static _Thread_local CuContext current[DEPTH];
static _Thread_local int depth;

int fake_device(void) {
    return depth && current[depth - 1]->users > 0 ? (int)(current[depth - 1] - contexts) : -1;
}

/* Members of a list, whose first member is `next`. */
static bool is_in(const void *list, const void *item) {
    for (const void *at = list; at; at = *(void *const *)at)
        if (at == item) return true;
    return false;
}
static void take_out(void *list, void *item) {
    void **at = list;
    while (*at != item) at = *at;
    *at = *(void **)item;
    free(item);
}

bool fake_is_stream(const void *stream) {
    return is_in(streams, stream) &&
           ((const struct CuStreamOpaque *)stream)->device == fake_device();
}
static bool is_graph(CuGraph graph) {
    return is_in(graphs, graph) && graph->device == fake_device();
}
static bool is_exec(CuGraphExec ready) {
    return is_in(execs, ready) && ready->device == fake_device();
}
static bool is_module(CuModule module) {
    return is_in(modules, module) && module->device == fake_device();
}

/* What all that needs a context begins with. */
#define BEGIN(function)                                                                            \
    FAKE_ENTER(function);                                                                          \
    if (fake_device() < 0)                                                                         \
    FAKE_RETURN(fake_complain(FAKE_INVALID_CONTEXT, "%s without a context", function))
#define NEED(condition, code, ...)                                                                 \
    if (!(condition)) FAKE_RETURN(fake_complain(code, __VA_ARGS__))

/* What a thread says of others' recordings (cuThreadExchangeStreamCaptureMode), and what may not be
 * called while a stream records for all threads (mode 0), but by threads that say it is not of it. */
static _Thread_local int capture_mode;
static bool breaks_capture(void) {
    bool breaks = false;
    for (CuStream s = streams; capture_mode != CAPTURE_RELAXED && s; s = s->next)
        if (s->captures && s->global) breaks = s->broken = true;
    return breaks;
}
#define BEGIN_UNSAFE(function)                                                                     \
    BEGIN(function);                                                                               \
    NEED(!breaks_capture(), FAKE_CAPTURE_UNSUPPORTED, "%s breaks somebody's capture", function)

/* Whether work is left in any stream of the device, or in those that the thread put some into last; after a
 * call that failed it is done first, as drivers do. What other threads' work still reads when it is gone is
 * seen when that work is done. */
static bool is_busy(bool of_any) {
    bool busy = false;
    for (CuStream s = streams; s; s = s->next) {
        if (s->device != fake_device()) continue;
        if (fake_has_failed()) fake_finish(s);
        busy = busy || (s->work.first && (of_any || pthread_equal(s->thread, pthread_self())));
    }
    return busy;
}

/* ---- the driver and its devices -------------------------------------------------------------- */

static const struct {
    CuResult code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {FAKE_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {FAKE_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {FAKE_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {FAKE_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {FAKE_NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for the device"},
    {FAKE_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "PTX is too new"},
    {FAKE_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {FAKE_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {FAKE_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {FAKE_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not while capturing"},
    {FAKE_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture failed"},
};

/* Both texts; NULL where there is none. */
static int explain(CuResult error, const char **text, bool name) {
    *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error) *text = name ? errors[i].name : errors[i].text;
    return *text ? 0 : FAKE_INVALID_VALUE;
}
CuResult cuGetErrorName(CuResult error, const char **text) {
    FAKE_ENTER("cuGetErrorName");
    FAKE_RETURN(explain(error, text, true));
}
CuResult cuGetErrorString(CuResult error, const char **text) {
    FAKE_ENTER("cuGetErrorString");
    FAKE_RETURN(explain(error, text, false));
}

CuResult cuInit(unsigned flags) {
    FAKE_ENTER("cuInit");
    NEED(flags == 0, FAKE_INVALID_VALUE, "cuInit(%u)", flags);
    if (fake_settings()->no_device) FAKE_RETURN(FAKE_NO_DEVICE);
    started = true;
    FAKE_RETURN(0);
}
CuResult cuDriverGetVersion(int *version) {
    FAKE_ENTER("cuDriverGetVersion");
    *version = fake_settings()->driver;
    FAKE_RETURN(0);
}
CuResult cuDeviceGetCount(int *count) {
    FAKE_ENTER("cuDeviceGetCount");
    NEED(started, FAKE_DEINITIALIZED, "cuDeviceGetCount before cuInit");
    *count = FAKE_DEVICES;
    FAKE_RETURN(0);
}
CuResult cuDeviceGet(CuDevice *device, int ordinal) {
    FAKE_ENTER("cuDeviceGet");
    NEED(started && ordinal >= 0 && ordinal < FAKE_DEVICES, FAKE_INVALID_VALUE, "no device %d",
         ordinal);
    *device = ordinal;
    FAKE_RETURN(0);
}

static bool is_device(CuDevice device) {
    return started && device >= 0 && device < FAKE_DEVICES;
}
CuResult cuDeviceGetName(char *name, int size, CuDevice device) {
    FAKE_ENTER("cuDeviceGetName");
    NEED(is_device(device) && size > 0, FAKE_INVALID_VALUE, "the name of no device");
    snprintf(name, (size_t)size, "Fake device");
    FAKE_RETURN(0);
}
/* 10 major + minor. */
static int capability_of(CuDevice device) {
    const FakeSettings *settings = fake_settings();
    return device && settings->second ? settings->second : settings->capability;
}
CuResult cuDeviceGetAttribute(int *value, int attribute, CuDevice device) {
    FAKE_ENTER("cuDeviceGetAttribute");
    NEED(is_device(device), FAKE_INVALID_VALUE, "an attribute of no device");
    switch (attribute) {
    case ATTRIBUTE_MULTIPROCESSORS: *value = MULTIPROCESSORS; break;
    case ATTRIBUTE_MAJOR: *value = capability_of(device) / 10; break;
    case ATTRIBUTE_MINOR: *value = capability_of(device) % 10; break;
    case ATTRIBUTE_SHARED_OPTIN: *value = SHARED_OPTIN; break;
    default: FAKE_RETURN(fake_complain(FAKE_INVALID_VALUE, "unknown attribute %d", attribute));
    }
    FAKE_RETURN(0);
}
CuResult cuDeviceTotalMem_v2(size_t *bytes, CuDevice device) {
    FAKE_ENTER("cuDeviceTotalMem_v2");
    NEED(is_device(device), FAKE_INVALID_VALUE, "the memory of no device");
    *bytes = fake_settings()->memory;
    FAKE_RETURN(0);
}

/* ---- contexts -------------------------------------------------------------------------------- */

CuResult cuDevicePrimaryCtxRetain(CuContext *context, CuDevice device) {
    FAKE_ENTER("cuDevicePrimaryCtxRetain");
    NEED(is_device(device), FAKE_INVALID_VALUE, "the context of no device");
    *context = &contexts[device];
    contexts[device].users++;
    fake_made("contexts", 1);
    FAKE_RETURN(0);
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
    FAKE_ENTER("cuDevicePrimaryCtxRelease_v2");
    NEED(is_device(device) && contexts[device].users > 0, FAKE_INVALID_CONTEXT,
         "a context is released once too often");
    contexts[device].users--;
    fake_made("contexts", -1);
    FAKE_RETURN(0);
}
CuResult cuCtxPushCurrent_v2(CuContext context) {
    FAKE_ENTER("cuCtxPushCurrent_v2");
    NEED(context >= contexts && context < contexts + FAKE_DEVICES && context->users > 0,
         FAKE_INVALID_CONTEXT, "a context that is none is made the thread's");
    NEED(depth < DEPTH, FAKE_INVALID_CONTEXT, "contexts are pushed, but not popped");
    current[depth++] = context;
    FAKE_RETURN(0);
}
/* Not among what is made to fail: there is nothing that a program could do then. */
CuResult cuCtxPopCurrent_v2(CuContext *context) {
    const int code = fake_enter("cuCtxPopCurrent_v2");
    NEED(depth > 0, FAKE_INVALID_CONTEXT, "a context is popped that was not pushed");
    *context = current[--depth];
    FAKE_RETURN(code);
}

/* None of what demi asks for: for tests, which look whether its calls leave the context as it was. */
CuResult cuCtxGetCurrent(CuContext *context);
CuResult cuCtxGetCurrent(CuContext *context) {
    FAKE_ENTER("cuCtxGetCurrent");
    *context = depth ? current[depth - 1] : NULL;
    FAKE_RETURN(0);
}

/* ---- modules --------------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *size) {
    FILE *from = fopen(path, "rb");
    if (!from) return NULL;
    fseek(from, 0, SEEK_END);
    *size = (size_t)ftell(from);
    rewind(from);
    char *text = calloc(1, *size + 1);
    if (!text) abort();
    if (fread(text, 1, *size, from) != *size) *size = 0;
    fclose(from);
    return text;
}

/* A family of kernels. Its PTX, which the build made of the image's source beside the image, is read once a
 * process, and each of its kernels decoded once: contexts come and go, and others' images are the same. */
typedef struct Family {
    const char *name;
    const void *image; /* that was found to be its last */
    char *bytes;       /* of its file */
    size_t size;
    PtxModule *ptx;
} Family;
static Family families[] = {
#define FAMILY(name) {#name, NULL, NULL, 0, NULL},
#include "cuda_families.def"
#undef FAMILY
};
enum { FAMILIES = sizeof families / sizeof *families };

typedef struct Path {
    char text[1024];
} Path;
static Path path_of(const Family *f, const char *suffix) {
    const char *folder = getenv("FAKE_CUDA_FOLDER");
    Path path;
    snprintf(path.text, sizeof path.text, "%s/%s.%s", folder ? folder : FAKE_CUDA_FOLDER, f->name,
             suffix);
    return path;
}

/* The image of a build for sanitizers is the PTX itself. */
static void read_image(Family *f) {
    if (!f->bytes) f->bytes = read_file(path_of(f, "fatbin").text, &f->size);
    if (!f->bytes) f->bytes = read_file(path_of(f, "ptx").text, &f->size);
}

/* Whether memory begins with the bytes of the family's image; no further than they are the same. */
static bool holds(const char *image, Family *f) {
    size_t same = 0;
    read_image(f);
    while (same < f->size && image[same] == f->bytes[same]) same++;
    return f->bytes && same == f->size;
}

static Family *family_of(const void *image) {
    for (size_t i = 0; i < FAMILIES; i++)
        if (families[i].image == image) return &families[i];
    for (size_t i = 0; i < FAMILIES; i++) {
        if (!holds(image, &families[i])) continue;
        families[i].image = image;
        return &families[i];
    }
    return NULL;
}

/* NULL with `why`. */
static PtxModule *ptx_of(Family *f, char *why) {
    size_t size;
    char *text = f->ptx ? NULL : read_file(path_of(f, "ptx").text, &size);
    if (text) f->ptx = ptx_open(text, why);
    return f->ptx;
}

/* For tests that fork: has the kernel in this process, before the driver is used, so that others of it need
 * not read it. False where there is none. */
bool fake_read_ahead(const char *kernel);
bool fake_read_ahead(const char *kernel) {
    char why[PTX_WHY];
    bool there = false;
    for (size_t i = 0; i < FAMILIES; i++) {
        read_image(&families[i]);
        PtxModule *ptx = ptx_of(&families[i], why);
        there = there || (ptx && ptx_find(ptx, kernel, why));
    }
    return there;
}

/* For tests that look for cases of all kinds: where kernels came to since this was last asked (ptx_reached), and
 * all counts of the log. */
void fake_reached(const char *path);
void fake_reached(const char *path) {
    FILE *to = fopen(path, "w");
    if (!to) return;
    for (size_t i = 0; i < FAMILIES; i++)
        if (families[i].ptx) ptx_reached(families[i].ptx, to);
    fake_write_counts(to);
    fclose(to);
}

CuResult cuModuleLoadData(CuModule *module, const void *image) {
    char why[PTX_WHY] = "";
    BEGIN_UNSAFE("cuModuleLoadData");
    Family *family = family_of(image);
    PtxModule *ptx = family ? ptx_of(family, why) : NULL;
    NEED(ptx, FAKE_NO_BINARY, "no PTX of a module beside its image %s", why);
    CuModule m = calloc(1, sizeof *m);
    if (!m) abort();
    m->ptx = ptx;
    m->device = fake_device();
    m->next = modules;
    *module = modules = m;
    fake_made("modules", 1);
    FAKE_RETURN(0);
}
CuResult cuModuleUnload(CuModule module) {
    BEGIN("cuModuleUnload");
    NEED(is_module(module), FAKE_INVALID_HANDLE, "a module is unloaded that is none");
    NEED(!is_busy(true), FAKE_INVALID_HANDLE, "a module is unloaded before work is done");
    for (CuFunction f = module->functions, next; f; f = next) {
        next = f->next;
        free(f);
    }
    take_out(&modules, module);
    fake_made("modules", -1);
    FAKE_RETURN(0);
}
CuResult cuModuleGetFunction(CuFunction *function, CuModule module, const char *name) {
    char why[PTX_WHY];
    BEGIN("cuModuleGetFunction");
    NEED(is_module(module), FAKE_INVALID_HANDLE, "a function of no module");
    const PtxKernel *kernel = ptx_find(module->ptx, name, why);
    NEED(kernel, FAKE_NOT_FOUND, "%s", why);
    CuFunction f = calloc(1, sizeof *f);
    if (!f) abort();
    f->kernel = kernel;
    f->next = module->functions;
    f->dynamic_most = PLAIN_SHARED;
    *function = module->functions = f;
    FAKE_RETURN(0);
}

static bool is_function(CuFunction function) {
    for (CuModule m = modules; m; m = m->next)
        if (m->device == fake_device() && is_in(m->functions, function)) return true;
    return false;
}
CuResult cuFuncSetAttribute(CuFunction function, int attribute, int value) {
    BEGIN("cuFuncSetAttribute");
    NEED(is_function(function), FAKE_INVALID_HANDLE, "an attribute of no function");
    const uint32_t fixed = ptx_info(function->kernel)->shared;
    NEED(attribute == FUNCTION_SHARED && value >= 0 && (uint32_t)value + fixed <= SHARED_OPTIN,
         FAKE_INVALID_VALUE, "attribute %d of a function may not be %d", attribute, value);
    function->dynamic_most = (uint32_t)value;
    FAKE_RETURN(0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

CuResult cuMemAlloc_v2(CuAddress *memory, size_t size) {
    BEGIN_UNSAFE("cuMemAlloc_v2");
    NEED(size > 0, FAKE_INVALID_VALUE, "an allocation of 0 bytes");
    *memory = fake_allocate(size);
    FAKE_RETURN(*memory ? 0 : FAKE_OUT_OF_MEMORY);
}

CuResult cuMemFree_v2(CuAddress memory) {
    BEGIN_UNSAFE("cuMemFree_v2");
    NEED(!is_busy(false), FAKE_INVALID_VALUE, "memory is freed before work is done");
    NEED(fake_free(memory), FAKE_INVALID_VALUE, "0x%llx is freed, which was not allocated",
         (unsigned long long)memory);
    FAKE_RETURN(0);
}
CuResult cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
    BEGIN_UNSAFE("cuMemHostAlloc");
    NEED(size > 0 && flags == 0, FAKE_INVALID_VALUE, "cuMemHostAlloc of %zu bytes, %u", size,
         flags);
    *memory = fake_pin(size);
    FAKE_RETURN(*memory ? 0 : FAKE_OUT_OF_MEMORY);
}
CuResult cuMemFreeHost(void *memory) {
    BEGIN_UNSAFE("cuMemFreeHost");
    NEED(!is_busy(false), FAKE_INVALID_VALUE, "pinned memory is freed before work is done");
    NEED(fake_unpin(memory), FAKE_INVALID_VALUE, "host memory is freed that was not pinned");
    FAKE_RETURN(0);
}

/* Of its attributes those that say where memory is. */
CuResult cuPointerGetAttribute(void *value, int attribute, CuAddress memory) {
    enum { TYPE = 2, MANAGED = 8, ORDINAL = 9, HOST = 1, DEVICE = 2 };
    BEGIN("cuPointerGetAttribute");
    const int device = fake_device_of(memory);
    const bool is_pinned = device < 0 && fake_is_pinned((const void *)(uintptr_t)memory, 1);
    if (device < 0 && !is_pinned) FAKE_RETURN(FAKE_INVALID_VALUE);
    switch (attribute) {
    case TYPE: *(unsigned *)value = is_pinned ? HOST : DEVICE; break;
    case MANAGED: *(unsigned *)value = 0; break;
    case ORDINAL: *(int *)value = is_pinned ? fake_device() : device; break;
    default: FAKE_RETURN(fake_complain(FAKE_INVALID_VALUE, "pointer attribute %d", attribute));
    }
    FAKE_RETURN(0);
}

/* ---- copies and launches --------------------------------------------------------------------- */

static int put_copy(CuStream stream, FakeKind kind, uint64_t to, uint64_t from, uint64_t size) {
    const void *host = (const void *)(uintptr_t)(kind == FAKE_UPLOAD ? from : to);
    const bool pinned = kind == FAKE_MOVE || fake_is_pinned(host, size);
    if (!fake_is_stream(stream)) return fake_complain(FAKE_INVALID_HANDLE, "a copy in no stream");
    if (!size) return fake_complain(FAKE_INVALID_VALUE, "a copy of nothing");
    if (stream->captures && !pinned)
        return fake_complain(FAKE_CAPTURE_UNSUPPORTED,
                             "a captured copy of memory that is not pinned");
    const uint64_t taken = kind == FAKE_UPLOAD && !pinned ? size : 0;
    FakeWork *w = fake_work(kind, taken);
    w->to = to;
    w->from = from;
    w->size = size;
    if (taken) memcpy(w->data, host, size);
    if (kind == FAKE_DOWNLOAD && !stream->captures)
        memset((void *)(uintptr_t)to, 0xcb, size); /* who does not wait reads this */
    return fake_put(stream, w);
}
CuResult cuMemcpyHtoDAsync_v2(CuAddress to, const void *from, size_t size, CuStream stream) {
    BEGIN("cuMemcpyHtoDAsync_v2");
    FAKE_RETURN(put_copy(stream, FAKE_UPLOAD, to, (uintptr_t)from, size));
}
CuResult cuMemcpyDtoHAsync_v2(void *to, CuAddress from, size_t size, CuStream stream) {
    BEGIN("cuMemcpyDtoHAsync_v2");
    FAKE_RETURN(put_copy(stream, FAKE_DOWNLOAD, (uintptr_t)to, from, size));
}
CuResult cuMemcpyDtoDAsync_v2(CuAddress to, CuAddress from, size_t size, CuStream stream) {
    BEGIN("cuMemcpyDtoDAsync_v2");
    FAKE_RETURN(put_copy(stream, FAKE_MOVE, to, from, size));
}

/* Takes over what a launch asks for besides its size; a CUresult. */
static int take_attributes(const CuLaunchConfig *config, PtxLaunch *launch) {
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const CuLaunchAttribute *a = &config->attributes[i];
        const unsigned *cluster = a->value.cluster;
        if (capability_of(fake_device()) < 90)
            return fake_complain(FAKE_INVALID_VALUE, "launch attribute %d of a device before 9.0",
                                 a->id);
        if (a->id == LAUNCH_EARLY && (a->value.early == 0 || a->value.early == 1)) {
            launch->early = a->value.early;
        } else if (a->id == LAUNCH_CLUSTER && cluster[0] == 1 && cluster[1] == 1 && cluster[2]) {
            launch->cluster = cluster[2];
        } else {
            return fake_complain(FAKE_INVALID_VALUE, "launch attribute %d: %u, %u, %u", a->id,
                                 cluster[0], cluster[1], cluster[2]);
        }
    }
    if (!launch->cluster) return 0;
    if (launch->cluster > PTX_CLUSTER_MOST || config->grid[2] % launch->cluster)
        return fake_complain(FAKE_INVALID_VALUE, "clusters of %u in a grid of %u blocks along z",
                             launch->cluster, config->grid[2]);
    return 0;
}

CuResult cuLaunchKernelEx(const CuLaunchConfig *config, CuFunction function, void **arguments,
                          void **extra) {
    BEGIN("cuLaunchKernelEx");
    const unsigned *grid = config->grid, *block = config->block;
    CuStream stream = config->stream;
    NEED(is_function(function), FAKE_INVALID_HANDLE, "a launch of no function");
    NEED(fake_is_stream(stream), FAKE_INVALID_HANDLE, "a launch in no stream");
    NEED(!extra && arguments, FAKE_INVALID_VALUE, "a launch without arguments");
    NEED(grid[0] <= INT32_MAX && grid[1] <= UINT16_MAX && grid[2] <= UINT16_MAX && block[2] <= 64,
         FAKE_INVALID_VALUE, "a grid of %u x %u x %u blocks", grid[0], grid[1], grid[2]);
    NEED(config->shared <= function->dynamic_most, FAKE_INVALID_VALUE,
         "%u bytes of dynamic shared memory, it may have %u", config->shared,
         function->dynamic_most);
    PtxLaunch launch = {.grid = {grid[0], grid[1], grid[2]},
                        .block = {block[0], block[1], block[2]},
                        .shared = config->shared};
    const int wrong = take_attributes(config, &launch);
    if (wrong) FAKE_RETURN(wrong);
    const uint32_t params = ptx_info(function->kernel)->params;
    FakeWork *w = fake_work(FAKE_KERNEL, params);
    w->kernel = function->kernel;
    w->launch = launch;
    if (params) memcpy(w->data, arguments[0], params);
    fake_count(stream->captures ? "captured" : "launched", ptx_kernel_name(function->kernel));
    FAKE_RETURN(fake_put(stream, w));
}

/* ---- streams and graphs ---------------------------------------------------------------------- */

CuResult cuStreamCreate(CuStream *stream, unsigned flags) {
    BEGIN("cuStreamCreate");
    NEED(flags == STREAM_NON_BLOCKING, FAKE_INVALID_VALUE, "a stream with flags %u", flags);
    CuStream s = calloc(1, sizeof *s);
    if (!s) abort();
    s->device = fake_device();
    s->next = streams;
    *stream = streams = s;
    fake_made("streams", 1);
    FAKE_RETURN(0);
}
CuResult cuStreamDestroy_v2(CuStream stream) {
    BEGIN("cuStreamDestroy_v2");
    NEED(fake_is_stream(stream), FAKE_INVALID_HANDLE, "a stream is destroyed that is none");
    NEED(!stream->captures, FAKE_CAPTURE_UNSUPPORTED, "a stream is destroyed that captures");
    const int code = fake_finish(stream);
    fake_list_free(&stream->captured);
    take_out(&streams, stream);
    fake_made("streams", -1);
    FAKE_RETURN(code);
}
CuResult cuStreamSynchronize(CuStream stream) {
    BEGIN("cuStreamSynchronize");
    NEED(fake_is_stream(stream), FAKE_INVALID_HANDLE, "no stream is waited for");
    if (stream->captures) {
        stream->broken = true;
        FAKE_RETURN(
            fake_complain(FAKE_CAPTURE_UNSUPPORTED, "a stream is waited for that captures"));
    }
    FAKE_RETURN(fake_finish(stream));
}
CuResult cuStreamBeginCapture_v2(CuStream stream, int mode) {
    BEGIN("cuStreamBeginCapture_v2");
    NEED(fake_is_stream(stream), FAKE_INVALID_HANDLE, "a capture of no stream");
    NEED(mode >= 0 && mode <= CAPTURE_RELAXED && !stream->captures, FAKE_INVALID_VALUE,
         "a capture within a capture, or of mode %d", mode);
    stream->captures = true;
    stream->global = mode == CAPTURE_GLOBAL;
    FAKE_RETURN(0);
}
CuResult cuStreamIsCapturing(CuStream stream, int *state) {
    BEGIN("cuStreamIsCapturing");
    NEED(fake_is_stream(stream), FAKE_INVALID_HANDLE, "no stream is asked whether it captures");
    *state = stream->broken ? 2 : stream->captures;
    FAKE_RETURN(0);
}
/* Not among what is made to fail, either. */
CuResult cuThreadExchangeStreamCaptureMode(int *mode) {
    const int code = fake_enter("cuThreadExchangeStreamCaptureMode"), before = capture_mode;
    NEED(*mode >= 0 && *mode <= CAPTURE_RELAXED, FAKE_INVALID_VALUE, "no capture mode %d", *mode);
    capture_mode = *mode;
    *mode = before;
    FAKE_RETURN(code);
}
/* Ends the capture even where it fails. */
CuResult cuStreamEndCapture(CuStream stream, CuGraph *graph) {
    const int to_fail = fake_enter("cuStreamEndCapture");
    *graph = NULL;
    NEED(fake_device() >= 0, FAKE_INVALID_CONTEXT, "a capture ends without a context");
    NEED(fake_is_stream(stream) && stream->captures, FAKE_INVALID_VALUE,
         "a capture ends that is none");
    const bool broken = stream->broken;
    stream->captures = stream->broken = false;
    if (broken || to_fail) {
        fake_list_free(&stream->captured);
        FAKE_RETURN(to_fail ? to_fail : FAKE_CAPTURE_INVALIDATED);
    }
    CuGraph g = calloc(1, sizeof *g);
    if (!g) abort();
    g->device = fake_device();
    g->work = stream->captured;
    stream->captured = (FakeList){0};
    g->next = graphs;
    *graph = graphs = g;
    fake_made("graphs", 1);
    FAKE_RETURN(0);
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec *ready, CuGraph graph, unsigned long long flags) {
    BEGIN("cuGraphInstantiateWithFlags");
    NEED(is_graph(graph) && flags == 0, FAKE_INVALID_VALUE, "no graph is made ready");
    CuGraphExec e = calloc(1, sizeof *e);
    if (!e) abort();
    e->device = fake_device();
    fake_list_repeat(&e->work, &graph->work);
    e->next = execs;
    *ready = execs = e;
    fake_made("graphs that are ready", 1);
    FAKE_RETURN(0);
}
CuResult cuGraphLaunch(CuGraphExec ready, CuStream stream) {
    BEGIN("cuGraphLaunch");
    NEED(is_exec(ready) && fake_is_stream(stream), FAKE_INVALID_HANDLE,
         "a launch of no graph, or in no stream");
    NEED(!stream->captures, FAKE_CAPTURE_UNSUPPORTED, "a graph in a stream that captures");
    for (const FakeWork *w = ready->work.first; w; w = w->next)
        if (w->kind == FAKE_DOWNLOAD) memset((void *)(uintptr_t)w->to, 0xcb, w->size);
    fake_list_repeat(&stream->work, &ready->work);
    stream->thread = pthread_self();
    FAKE_RETURN(0);
}
CuResult cuGraphExecDestroy(CuGraphExec ready) {
    BEGIN("cuGraphExecDestroy");
    NEED(is_exec(ready), FAKE_INVALID_HANDLE, "a graph is destroyed that is none");
    fake_list_free(&ready->work);
    take_out(&execs, ready);
    fake_made("graphs that are ready", -1);
    FAKE_RETURN(0);
}
CuResult cuGraphDestroy(CuGraph graph) {
    BEGIN("cuGraphDestroy");
    NEED(is_graph(graph), FAKE_INVALID_HANDLE, "a graph is destroyed that is none");
    fake_list_free(&graph->work);
    take_out(&graphs, graph);
    fake_made("graphs", -1);
    FAKE_RETURN(0);
}
