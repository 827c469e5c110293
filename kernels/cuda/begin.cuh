// SPDX-License-Identifier: Apache-2.0
/* How kernels begin.
 *
 * From capability 9.0 on a kernel begins as soon as all blocks of the one before it have let it, and what it
 * does before it waits for that one's end is done meanwhile: until then it may read what nothing on the device
 * writes, and write nothing. Each thread waits, for the next kernel takes it that this one's predecessors have
 * ended, too. */
#ifndef DEMI_BEGIN_CUH
#define DEMI_BEGIN_CUH

static __device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
static __device__ __forceinline__ void wait_for_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* For those that have nothing to do meanwhile: the launch itself takes as long as many of them run. */
static __device__ __forceinline__ void begin() {
    let_next_begin();
    wait_for_last();
}

#endif
