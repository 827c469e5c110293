// SPDX-License-Identifier: Apache-2.0
/* Products of tensor cores, of 16-bit fragments that a warp has in registers and sums in float; layouts
 * are those of the PTX ISA's mma.m16n8k16 and ldmatrix. */
#ifndef DEMI_MMA_CUH
#define DEMI_MMA_CUH

#include "cuda_types.cuh"

/* ---- copies to shared memory ----------------------------------------------------------------- */

static __device__ __forceinline__ uint32_t shared_address(const void *at) {
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* 16 bytes to shared memory, zeros where they are not `there`; they arrive with their group. */
static __device__ __forceinline__ void fetch(uint32_t at, const void *from, bool there) {
    const int size = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(at), "l"(from), "r"(size)
                 : "memory");
}
/* The same of 4 bytes. */
static __device__ __forceinline__ void fetch_few(uint32_t at, const void *from, bool there) {
    const int size = there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(at), "l"(from), "r"(size)
                 : "memory");
}
static __device__ __forceinline__ void fetch(void *to, const void *from, bool there) {
    fetch(shared_address(to), from, there);
}
/* The line of memory at `from` into the cache of all multiprocessors. */
static __device__ __forceinline__ void bring_near(const void *from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}
static __device__ __forceinline__ void end_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> static __device__ __forceinline__ void wait_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* ---- products -------------------------------------------------------------------------------- */

/* sums (16 x 8) += left (16 x 16) right (16 x 8). */
template <typename T>
static __device__ __forceinline__ void multiply(float (&sums)[4], const uint32_t (&left)[4],
                                                const uint32_t (&right)[2]);
template <>
__device__ __forceinline__ void multiply<f16>(float (&sums)[4], const uint32_t (&left)[4],
                                              const uint32_t (&right)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}
template <>
__device__ __forceinline__ void multiply<bf16>(float (&sums)[4], const uint32_t (&left)[4],
                                               const uint32_t (&right)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

/* Four matrices of 8 x 8, a row's address of one of them a lane. */
static __device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

/* The right operands of 8 columns and the next 8 from 16 rows in shared memory: `row` is where row lane % 16
 * begins, 8 columns on for the upper lanes, a multiple of 16 bytes. */
static __device__ __forceinline__ void load_turned(uint32_t (&right)[4], uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(right[0]), "=r"(right[1]), "=r"(right[2]), "=r"(right[3])
                 : "r"(row)
                 : "memory");
}

#endif
