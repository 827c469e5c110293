// SPDX-License-Identifier: Apache-2.0
/* The CUDA driver, libcuda.so.1, loaded when a device is first asked for: a table of functions by
 * cuda_driver.def. Types and numbers are those of the driver API's binary interface, so that no
 * header of CUDA is needed to build demi, and one binary runs with and without it. */
#ifndef DEMI_CUDA_DRIVER_H
#define DEMI_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef int CuResult; /* 0: success */
typedef int CuDevice;
typedef uint64_t CuAddress; /* in the device's memory */
typedef struct CuContextOpaque *CuContext;
typedef struct CuModuleOpaque *CuModule;
typedef struct CuFunctionOpaque *CuFunction;
typedef struct CuStreamOpaque *CuStream;
typedef struct CuGraphOpaque *CuGraph;
typedef struct CuGraphExecOpaque *CuGraphExec;

enum {
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_NO_BINARY_FOR_GPU = 209,
    CU_UNSUPPORTED_PTX_VERSION = 222,
    CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    CU_ATTRIBUTE_MAJOR = 75,
    CU_ATTRIBUTE_MINOR = 76,
    CU_ATTRIBUTE_SHARED_OPTIN = 97, /* bytes that a block may have */
    CU_POINTER_TYPE = 2,            /* cuPointerGetAttribute: unsigned, */
    CU_POINTER_MANAGED = 8,         /* unsigned, */
    CU_POINTER_DEVICE = 9,          /* int */
    CU_MEMORY_HOST = 1,             /* a CU_POINTER_TYPE */
    CU_FUNCTION_SHARED = 8,         /* cuFuncSetAttribute: most dynamic shared bytes */
    CU_STREAM_NON_BLOCKING = 1,
    CU_CAPTURE_RELAXED = 2, /* what else the thread asks of the driver meanwhile is not refused */
    CU_LAUNCH_CLUSTER = 4,  /* CuLaunchAttribute.id: value.cluster */
    CU_LAUNCH_EARLY = 6,    /* programmatic stream serialization: value.early */
};

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct CuLaunchAttribute {
    int id;
    char padding[4];
    union {
        unsigned cluster[3]; /* blocks along x, y, z */
        int early;
        uint64_t room[8];
    } value;
} CuLaunchAttribute;
typedef struct CuLaunchConfig {
    unsigned grid[3], block[3];
    unsigned shared; /* dynamic shared memory of a block, bytes */
    CuStream stream;
    const CuLaunchAttribute *attributes;
    unsigned attribute_count;
} CuLaunchConfig;

typedef struct CudaDriver {
#define DRIVER(name, symbol, arguments) CuResult(*name) arguments;
#include "cuda_driver.def"
#undef DRIVER
} CudaDriver;

/* The table, loaded if it is not yet; NULL with ERR_ENV that says what is missing. It stays open as
 * long as the program runs. */
const CudaDriver *cuda_driver(Err *err);

/* True for 0. Otherwise false, with ERR_ENV "WHAT: NAME (what it means)". */
bool cuda_ok(const CudaDriver *driver, CuResult result, Err *err, const char *what);

#endif
