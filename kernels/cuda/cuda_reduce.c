// SPDX-License-Identifier: Apache-2.0
/* Reductions on a CUDA device. */
#include "cuda_reduce.h"

#include "cuda_epilogue.h"
#include "cuda_functions.h"

enum { THREADS = 256, FEW = 32, GRID = 1 << 20 };

/* The axes to reduce, by attribute or input; where there are none, all, unless `noop`. */
static bool find_axes(KernelCall *call, bool *reduced, bool *none) {
    const AxesAttrs *attrs = call->attrs;
    const KernelTensor *given = kernel_input(call, 1), *x = &call->inputs[0];
    const int64_t *axes = given ? kernel_ints(call, given) : attrs->axes.items;
    const uint64_t count = given ? given->count : attrs->axes.count;
    if (given && !axes && count) return false;
    *none = !count && attrs->noop;
    for (uint32_t i = 0; !count && !*none && i < x->rank; i++) reduced[i] = true;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t axis;
        if (!kernel_axis(call, axes[i], x->rank, &axis)) return false;
        reduced[axis] = true;
    }
    return true;
}

bool cuda_reduce_push(int64_t *sizes, int64_t *strides, int32_t *rank, int64_t size,
                      int64_t stride) {
    if (size == 1) return true;
    if (*rank && strides[*rank - 1] == stride * size) {
        sizes[*rank - 1] *= size;
        strides[*rank - 1] = stride;
        return true;
    }
    if (*rank == REDUCE_RANK) return false;
    sizes[*rank] = size;
    strides[(*rank)++] = stride;
    return true;
}

/* Whether results that follow each other are of elements that do, whole packs of 16 bytes, and there is a
 * kernel for that. */
static bool lies_side_by_side(const ReduceArgs *a) {
    const Dtype dtype = (Dtype)a->x_type;
    if (!a->kept_rank || a->kept_strides[a->kept_rank - 1] != 1 ||
        (a->op != REDUCTION_SUM && a->op != REDUCTION_MEAN) || !dtype_is_working(dtype))
        return false;
    const int64_t pack = (int64_t)(16 / kernel_element_size(dtype));
    bool whole = a->kept_sizes[a->kept_rank - 1] % pack == 0 && (uintptr_t)a->x % 16 == 0;
    for (int32_t i = 0; i + 1 < a->kept_rank; i++) whole &= a->kept_strides[i] % pack == 0;
    for (int32_t i = 0; i < a->rank; i++) whole &= a->strides[i] % pack == 0;
    return whole && a->results / pack / 32 < GRID;
}

static bool launch_side(KernelCall *call, const ReduceArgs *args) {
    const Dtype dtype = (Dtype)args->x_type;
    const uint32_t pack = (uint32_t)(16 / kernel_element_size(dtype));
    const CudaName name = cuda_name("reduce_side", cuda_suffix(dtype), "");
    const CudaLaunch launch = {.family = CUDA_reduce,
                               .kernel = name.text,
                               .blocks = {cuda_blocks((uint64_t)args->results, 32, pack)},
                               .threads = {REDUCE_SIDE_THREADS},
                               .args = args};
    return cuda_launch(call, &launch);
}

bool cuda_reduce_launch(KernelCall *call, const ReduceArgs *args) {
    if (args->reduced > 1 && lies_side_by_side(args)) return launch_side(call, args);
    const bool blocks = args->reduced >= FEW;
    const uint64_t results = (uint64_t)args->results;
    const CudaLaunch launch = {
        .family = CUDA_reduce,
        .kernel = blocks ? "reduce_block" : "reduce_thread",
        .blocks = {blocks ? (results < GRID ? (uint32_t)results : GRID)
                          : cuda_blocks_full(call, results, THREADS, 1)},
        .threads = {blocks ? (args->reduced < 1024 ? 64 : THREADS) : THREADS},
        .args = args};
    return cuda_launch(call, &launch);
}

static bool reduce(KernelCall *call, enum ReduceOp op) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    bool *reduced = ARENA_ARRAY(call->scratch, bool, x->rank + 1), none = false, fits = true;
    if (!find_axes(call, reduced, &none)) return false;
    if (!y->count) return true;
    if (none && x->dtype != y->dtype)
        return cuda_convert(call, x->data, x->dtype, y->data, y->dtype, y->count);
    if (none) return cuda_copy(call, y->data, x->data, y->count * kernel_element_size(y->dtype));
    ReduceArgs args = {.x = x->data,
                       .y = y->data,
                       .results = (int64_t)y->count,
                       .reduced = 1,
                       .op = (int32_t)op,
                       .x_type = (int32_t)x->dtype,
                       .y_type = (int32_t)y->dtype};
    for (uint32_t i = 0; i < x->rank; i++) {
        const int64_t stride = (int64_t)kernel_stride(x, i);
        if (reduced[i]) {
            args.reduced *= x->dims[i];
            fits &= cuda_reduce_push(args.sizes, args.strides, &args.rank, x->dims[i], stride);
        } else {
            fits &= cuda_reduce_push(args.kept_sizes, args.kept_strides, &args.kept_rank,
                                     x->dims[i], stride);
        }
    }
    if (!fits) return kernel_decline(call, "the device does not support this arrangement of axes");
    return cuda_reduce_launch(call, &args);
}

#define REDUCE(name, op)                                                                           \
    bool cuda_reduce_##name(KernelCall *call) {                                                    \
        return reduce(call, op);                                                                   \
    }
REDUCE(sum, REDUCTION_SUM)
REDUCE(mean, REDUCTION_MEAN)
REDUCE(max, REDUCTION_MAX)
REDUCE(min, REDUCTION_MIN)
REDUCE(prod, REDUCTION_PROD)
REDUCE(l1, REDUCTION_L1)
REDUCE(l2, REDUCTION_L2)
REDUCE(log_sum, REDUCTION_LOG_SUM)
REDUCE(log_sum_exp, REDUCTION_LOG_SUM_EXP)
REDUCE(sum_square, REDUCTION_SUM_SQUARE)

/* (N, C, spatial …): the mean, or the largest, of each channel. */
static bool global_pool(KernelCall *call, enum ReduceOp op) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const uint64_t size = kernel_span(x, 2, x->rank);
    const ReduceArgs args = {.x = x->data,
                             .y = y->data,
                             .results = (int64_t)y->count,
                             .reduced = (int64_t)size,
                             .kept_sizes = {(int64_t)y->count},
                             .kept_strides = {(int64_t)size},
                             .sizes = {(int64_t)size},
                             .strides = {1},
                             .kept_rank = 1,
                             .rank = 1,
                             .op = (int32_t)op,
                             .x_type = (int32_t)x->dtype,
                             .y_type = (int32_t)y->dtype};
    const CudaLaunch launch = {.family = CUDA_reduce,
                               .kernel = "reduce_block",
                               .blocks = {y->count < GRID ? (uint32_t)y->count : GRID},
                               .threads = {64},
                               .args = &args};
    return !y->count || cuda_launch(call, &launch);
}
bool cuda_global_average_pool(KernelCall *call) {
    return global_pool(call, REDUCTION_MEAN);
}
bool cuda_global_max_pool(KernelCall *call) {
    return global_pool(call, REDUCTION_MAX);
}
