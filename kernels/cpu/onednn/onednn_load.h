// SPDX-License-Identifier: Apache-2.0
/* The functions of oneDNN that kernels use, by pointers: nothing links against it. See onednn.h. */
#ifndef DEMI_ONEDNN_LOAD_H
#define DEMI_ONEDNN_LOAD_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "kernel.h"
#include "onednn.h"

/* Those needed, without their prefix. */
#define ONEDNN_FUNCTIONS(X)                                                                        \
    X(version)                                                                                     \
    X(set_primitive_cache_capacity)                                                                \
    X(get_effective_cpu_isa)                                                                       \
    X(engine_create)                                                                               \
    X(engine_destroy)                                                                              \
    X(stream_create)                                                                               \
    X(stream_destroy)                                                                              \
    X(stream_wait)                                                                                 \
    X(memory_create)                                                                               \
    X(memory_destroy)                                                                              \
    X(memory_set_data_handle)                                                                      \
    X(memory_desc_create_with_strides)                                                             \
    X(memory_desc_create_with_tag)                                                                 \
    X(memory_desc_create_submemory)                                                                \
    X(memory_desc_destroy)                                                                         \
    X(memory_desc_equal)                                                                           \
    X(memory_desc_get_size)                                                                        \
    X(memory_desc_query)                                                                           \
    X(primitive_attr_create)                                                                       \
    X(primitive_attr_destroy)                                                                      \
    X(primitive_attr_set_scratchpad_mode)                                                          \
    X(primitive_desc_destroy)                                                                      \
    X(primitive_desc_query)                                                                        \
    X(primitive_desc_query_md)                                                                     \
    X(primitive_create)                                                                            \
    X(primitive_destroy)                                                                           \
    X(primitive_execute)                                                                           \
    X(reorder_primitive_desc_create)                                                               \
    X(convolution_forward_primitive_desc_create)                                                   \
    X(deconvolution_forward_primitive_desc_create)                                                 \
    X(matmul_primitive_desc_create)

typedef struct Onednn {
#define ONEDNN_MEMBER(name) __typeof__(&dnnl_##name) name;
    ONEDNN_FUNCTIONS(ONEDNN_MEMBER)
#undef ONEDNN_MEMBER
    dnnl_engine_t engine; /* the CPU; shared by all threads, which oneDNN allows */
    /* Of the OpenMP that the library was linked with; NULL: it has no threads. */
    void (*set_threads)(int threads);
    int (*most_threads)(void);
    bool bytes;    /* exact products of 8-bit integers: with VNNI. Without, sums of two saturate */
    bool bfloat16; /* native ones; emulated they are slower than float */
    char text[32]; /* the version */
} Onednn;

/* The library, opened now if it was not; NULL where it is not usable: onednn_problem says why. */
const Onednn *onednn_get(void);

/* Has oneDNN compute in the calling thread alone; gives what to set afterwards. */
int onednn_enter(const Onednn *lib);
void onednn_leave(const Onednn *lib, int before);

#endif
