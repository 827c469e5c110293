// SPDX-License-Identifier: Apache-2.0
/* What CUDA rows are made of: launching kernels in the call's queue.
 *
 * A family of operators has three files: FAMILY.cu with __global__ functions, FAMILY_args.h with
 * the structs that these take, which is C and C++, and cuda_FAMILY.c with the rows' functions,
 * which find out sizes and launch. Each __global__ function is extern "C", takes one struct by
 * value, and is found by its name. cuda_families.def lists the families: each is a module, loaded
 * when a kernel of it is first launched.
 */
#ifndef DEMI_CUDA_CALL_H
#define DEMI_CUDA_CALL_H

#include "device.h"

typedef enum CudaFamily {
#define FAMILY(name) CUDA_##name,
#include "cuda_families.def"
#undef FAMILY
    CUDA_FAMILY_COUNT
} CudaFamily;

typedef struct CudaLaunch {
    CudaFamily family;
    const char *kernel;  /* its name; read before the function returns */
    uint32_t blocks[3];  /* of the grid; 0 counts as 1 */
    uint32_t threads[3]; /* of a block; 0 counts as 1 */
    uint32_t shared;     /* dynamic shared memory, bytes; above 48 KB is seen to */
    const void *args;    /* the kernel's one parameter, copied */
    /* Blocks along z, of which blocks[2] is a multiple, that run together and reach each other's shared
     * memory: at most 8, 0 for none; only where cuda_has_clusters. */
    uint32_t cluster;
} CudaLaunch;

/* Puts a kernel into the call's queue. False with the error set. A grid without blocks is an error:
 * rows return early where there is nothing to do. Where the device can do that, the kernel begins while the
 * one before it in the queue still runs, and waits for its end itself (cuda_types.cuh, how kernels begin). */
bool cuda_launch(KernelCall *call, const CudaLaunch *launch);

/* Whether launches may have clusters: from compute capability 9.0 on. */
bool cuda_has_clusters(const KernelCall *call);

/* Blocks of `threads` for `count` elements, `each` a thread, at most 2^31 - 1; and so many that the
 * device is full, for kernels that stride. */
uint32_t cuda_blocks(uint64_t count, uint32_t threads, uint32_t each);
uint32_t cuda_blocks_full(const KernelCall *call, uint64_t count, uint32_t threads, uint32_t each);

/* How many blocks the device works on at once, one a multiprocessor. */
uint32_t cuda_width(const KernelCall *call);

/* Counts the call's step, which gets ready without a library that is missing. */
void cuda_without(KernelCall *call);

/* Counts what one launch of the call writes for the next to read: `bytes` of it. */
void cuda_between(KernelCall *call, uint64_t bytes);

/* Counts what launches of the call but the first read again. */
void cuda_reread(KernelCall *call, uint64_t bytes);

/* A copy in the call's queue, of device memory. */
bool cuda_copy(KernelCall *call, void *to, const void *from, uint64_t size);

/* The suffix that kernels for a dtype have in their names: "f32", "f16", "bf16", "f64", "i8", "i16",
 * "i32", "i64", "u8", "u16", "u32", "u64", "b" (bool). "" for others. */
const char *cuda_suffix(Dtype dtype);
/* The same by size alone, for kernels that move elements: "x1", "x2", "x4", "x8", "x16". */
const char *cuda_size_suffix(Dtype dtype);

/* The number of a name: snprintf'd "NAME_SUFFIX". Truncation is a programming error. */
typedef struct CudaName {
    char text[64];
} CudaName;
CudaName cuda_name(const char *base, const char *first, const char *second);

#define CUDA_FLOATS  (KERNEL_TYPE(FLOAT) | KERNEL_TYPE(FLOAT16) | KERNEL_TYPE(BFLOAT16))
#define CUDA_NUMBERS (CUDA_FLOATS | KERNEL_TYPE(DOUBLE) | KERNEL_INTS)

#endif
