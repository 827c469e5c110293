// SPDX-License-Identifier: Apache-2.0
/* Asks cuDNN itself for plans of convolutions, without a GPU: it documents planning for a device that is
 * only described (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, since 9.8).
 *
 *     dnn_plans LIBCUDNN < CONVOLUTIONS
 *
 * Convolutions are lines as the fake cuDNN notes them (FAKE_CUDA=plans=FILE, see dnn_line.h). The graphs
 * are cuda_dnn.c's own, which does not know that the handle is no handle: what it says of that, is said
 * of the description instead. Ends with 1 where one that the fake has a ready-made engine for has none,
 * with 77 where the library can't do it. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda_dnn.h"
#include "dnn_line.h"

enum {
    SKIPPED = 77,
    DEVICE = 38,
    T_HANDLE = 0,
    T_DESCRIPTOR = 15,
    T_CHAR = 24,
    HEURISTIC_GRAPH = 201,
    HEURISTIC_DEVICE = 204,
    PLAN_HANDLE = 400,
    PLAN_DEVICE = 407,
    DEVICE_JSON = 2702,
    WORKSPACE = 256 << 20
};

/* What cuDNN's own messages ask for, with numbers of an H100. */
static const char h100[] =
    "{\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"deviceVer\":900,\"driverVer\":13000,"
    "\"multiProcessorCount\":132,\"warpSize\":32,\"maxGridSize\":[2147483647,65535,65535],"
    "\"maxBlockSize\":[1024,1024,64],\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
    "\"maxCtasPerSM\":32,\"regsPerBlock\":65536,\"maxRegistersPerSM\":65536,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"totalGlobalMem\":85000000000,\"l2CacheSize\":52428800,"
    "\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"supportCoopLaunch\":1,"
    "\"isTccDriver\":0,\"pciDeviceId\":0,\"cudaDeviceId\":0}";

static CudaDnn library;
static void (*problem)(char *text, size_t size);
static void *device;

/* Says of the description what is said of a handle; and of heuristics, which have none. */
static int set(void *descriptor, int name, int type, int64_t count, const void *items) {
    if (type == T_HANDLE)
        return name == PLAN_HANDLE ? library.set(descriptor, PLAN_DEVICE, T_DESCRIPTOR, 1, &device)
                                   : 0;
    if (name == HEURISTIC_GRAPH) {
        const int status = library.set(descriptor, HEURISTIC_DEVICE, T_DESCRIPTOR, 1, &device);
        if (status) return status;
    }
    return library.set(descriptor, name, type, count, items);
}

static bool fail(const char *what) {
    char text[512] = "";
    if (problem) problem(text, sizeof text);
    fprintf(stderr, "dnn_plans: %s %s\n", what, text);
    return false;
}

static bool open_library(const char *file) {
    void *opened = dlopen(file, RTLD_NOW);
    if (!opened) return fail(dlerror());
#define DNN(name, symbol, arguments)                                                               \
    *(void **)&library.name = dlsym(opened, #symbol);                                              \
    if (!library.name) return fail(#symbol);
#include "cuda_dnn.def"
#undef DNN
    *(void **)&problem = dlsym(opened, "cudnnGetLastErrorString");
    return (library.make(DEVICE, &device) == 0 &&
            library.set(device, DEVICE_JSON, T_CHAR, sizeof h100 - 1, h100) == 0 &&
            library.finish(device) == 0) ||
           fail("a device that is only described:");
}

int main(int argc, char **argv) {
    char line[1024];
    unsigned planned = 0, lacking = 0, compiled = 0;
    if (argc != 2 || !open_library(argv[1])) return SKIPPED;
    CudaDnn table = library;
    table.set = set;
    while (fgets(line, sizeof line, stdin)) {
        DnnConv conv;
        bool ready_made;
        if (!dnn_line_read(line, &conv, &ready_made)) return fail(line), 2;
        conv.workspace = WORKSPACE;
        DnnPlan *plan = dnn_plan_new(&table, NULL, &conv, false, NULL);
        planned += plan != NULL;
        if (!plan && ready_made) printf("cuDNN has no ready-made engine: %s", line);
        lacking += !plan && ready_made;
        compiled += !plan && !ready_made;
        dnn_plan_free(&table, plan);
    }
    printf("%u convolutions are planned, %u lack a ready-made engine, %u others too\n", planned,
           lacking, compiled);
    return lacking ? 1 : 0;
}
