// SPDX-License-Identifier: Apache-2.0
/* An emulator of PTX, for tests: runs the kernels that nvcc made of kernels/cuda, grid by grid, in the
 * calling thread. What it knows are the instructions of these kernels (ptx_ops.def, ptx_read_ops.c);
 * any other is an error when a kernel that has it is looked up.
 *
 * Programs that a device would run with luck, or wrongly, are errors here: addresses outside of an
 * allocation or not aligned, memory that is read before it was written, accesses of shared memory that
 * no barrier orders, barriers and shuffles that not all of their threads reach, memory that others may
 * still be at work on. A message names the kernel, the thread, the instruction and the address. */
#ifndef FAKE_PTX_H
#define FAKE_PTX_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct PtxModule PtxModule;
typedef struct PtxKernel PtxKernel;

enum {
    PTX_WHY = 600,        /* bytes of a message */
    PTX_CLUSTER_MOST = 8, /* blocks of a cluster that every device can run */
    PTX_SENT = 1,         /* PtxRegion.known: the host wrote last */
    PTX_MADE = 3          /* the device did */
};

/* A piece of the device's memory. */
typedef struct PtxRegion {
    uint64_t address, size;
    uint8_t *bytes;
    uint8_t *known; /* [size]: 0 where nothing was written, PTX_SENT or PTX_MADE */
} PtxRegion;

/* The region that an address lies in, NULL for none. */
typedef const PtxRegion *PtxFind(void *owner, uint64_t address);

typedef struct PtxLaunch {
    uint32_t grid[3], block[3];
    uint32_t shared;    /* dynamic shared memory, bytes */
    uint32_t cluster;   /* blocks along z that run together; 0: 1 */
    bool early;         /* what is before it may still run: its threads wait for that themselves */
    const void *params; /* [PtxKernelInfo.params], one struct after the other */
    PtxFind *find;
    void *owner; /* of find */
} PtxLaunch;

typedef struct PtxKernelInfo {
    uint32_t params;       /* bytes */
    uint32_t shared;       /* static shared memory, bytes */
    uint32_t most_threads; /* of a block; 0: not said */
} PtxKernelInfo;

/* A module of PTX text, which is to live as long as it. NULL with `why` where it is not understood. */
PtxModule *ptx_open(const char *text, char *why);
void ptx_close(PtxModule *module);

/* A kernel of it, decoded when first asked for; NULL with `why`. */
const PtxKernel *ptx_find(PtxModule *module, const char *name, char *why);
const PtxKernelInfo *ptx_info(const PtxKernel *kernel);
const char *ptx_kernel_name(const PtxKernel *kernel);
/* The names of all, one after the other: NULL at the end. */
const char *ptx_name(const PtxModule *module, uint32_t number);

/* Runs a grid. False with `why`; what was written until then stays. */
bool ptx_run(const PtxKernel *kernel, const PtxLaunch *launch, char *why);

/* Where grids came to since this was last asked, a line each: a kernel's name, the number of an instruction that
 * has a predicate, and for how many of a warp's lanes it was true; the instruction that a kernel begins with
 * stands for the kernel. */
enum { PTX_WENT_NONE = 1, PTX_WENT_SOME = 2, PTX_WENT_ALL = 4, PTX_BEGAN = 8 };
void ptx_reached(PtxModule *module, FILE *to);

#endif
