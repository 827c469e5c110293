// SPDX-License-Identifier: Apache-2.0
/* GlobalAveragePool, GlobalMaxPool, GlobalLpPool: the mean, largest element or p-norm of each
 * (image, channel), summed in double. NaN is larger than any number, as in MaxPool. An empty plane
 * gives a mean and norm of 0 and a maximum of -Inf.
 */
#include <math.h>

#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_parts.h"

enum { LANES = 32 }; /* so that the compiler may use vectors */

typedef enum GlobalKind { GLOBAL_MEAN, GLOBAL_MAX, GLOBAL_NORM } GlobalKind;

/* The maximum's lanes may have met zeros of either sign, or several NaNs: the first counts. */
#define GLOBAL_POOL(T)                                                                             \
    KERNEL_CLONES                                                                                  \
    static double sum_##T(const T *x, uint64_t count) {                                            \
        double sum[8] = {0};                                                                       \
        uint64_t i = 0;                                                                            \
        for (; count - i >= 8; i += 8)                                                             \
            for (int k = 0; k < 8; k++) sum[k] += (double)x[i + (uint64_t)k];                      \
        for (; i < count; i++) sum[0] += (double)x[i];                                             \
        return sum[0] + sum[1] + (sum[2] + sum[3]) + (sum[4] + sum[5] + (sum[6] + sum[7]));        \
    }                                                                                              \
    KERNEL_INLINE T larger_##T(T best, T x) {                                                      \
        return best >= x || best != best ? best : x;                                               \
    }                                                                                              \
    KERNEL_CLONES                                                                                  \
    static T largest_##T(const T *x, uint64_t count) {                                             \
        T best[LANES];                                                                             \
        uint64_t i = 0;                                                                            \
        for (int k = 0; k < LANES; k++) best[k] = -(T)INFINITY;                                    \
        for (; count - i >= LANES; i += LANES)                                                     \
            for (int k = 0; k < LANES; k++) best[k] = larger_##T(best[k], x[i + (uint64_t)k]);     \
        for (; i < count; i++) best[0] = larger_##T(best[0], x[i]);                                \
        for (int half = LANES / 2; half > 0; half /= 2)                                            \
            for (int k = 0; k < half; k++) best[k] = larger_##T(best[k], best[k + half]);          \
        const bool is_nan = best[0] != best[0];                                                    \
        if (!is_nan && best[0] != 0) return best[0];                                               \
        for (i = 0; is_nan ? x[i] == x[i] : x[i] != 0;) i++;                                       \
        return x[i];                                                                               \
    }                                                                                              \
    static double norm_##T(const T *x, uint64_t count, double p) {                                 \
        double sum = 0;                                                                            \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            double size = fabs((double)x[i]);                                                      \
            sum += p == 2 ? size * size : pow(size, p);                                            \
        }                                                                                          \
        return p == 2 ? sqrt(sum) : pow(sum, 1 / p);                                               \
    }                                                                                              \
    static void pool_##T(GlobalKind kind, const T *x, uint64_t count, double p, T *y) {            \
        if (kind == GLOBAL_MEAN)                                                                   \
            *y = (T)(count ? sum_##T(x, count) / (double)count : 0);                               \
        else                                                                                       \
            *y = kind == GLOBAL_MAX ? largest_##T(x, count)                                        \
                                    : (T)(count ? norm_##T(x, count, p) : 0);                      \
    }
GLOBAL_POOL(float)
GLOBAL_POOL(double)

typedef struct GlobalJob {
    const KernelTensor *x, *y;
    uint64_t size; /* elements of a plane */
    GlobalKind kind;
    double p;
} GlobalJob;

static void global_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const GlobalJob *job = data;
    const void *x = job->x->data;
    void *y = job->y->data;
    const uint64_t size = job->size;
    (void)lane;
    for (uint64_t i = first; i < end; i++) {
        if (job->x->dtype == DTYPE_DOUBLE)
            pool_double(job->kind, (const double *)x + i * size, size, job->p, (double *)y + i);
        else
            pool_float(job->kind, (const float *)x + i * size, size, job->p, (float *)y + i);
    }
}

static bool global_pool(KernelCall *call, GlobalKind kind, double p) {
    const KernelTensor *x = &call->inputs[0];
    KernelTensor *y = &call->outputs[0];
    if (x->rank < 2 || y->dtype != x->dtype ||
        y->count != (uint64_t)x->dims[0] * (uint64_t)x->dims[1])
        return kernel_fail(call, "the result has a different type or size");
    uint64_t size = kernel_span(x, 2, x->rank), planes = y->count;
    const GlobalJob job = {x, y, size, kind, p};
    kernel_run_parts(call->workers, kernel_work_cut(call, (double)x->count, planes), global_part,
                     &job);
    return true;
}

bool kernel_global_average_pool(KernelCall *call) {
    return global_pool(call, GLOBAL_MEAN, 0);
}
bool kernel_global_max_pool(KernelCall *call) {
    return global_pool(call, GLOBAL_MAX, 0);
}
bool kernel_global_lp_pool(KernelCall *call) {
    return global_pool(call, GLOBAL_NORM, (double)((const WindowAttrs *)call->attrs)->p);
}
bool kernel_global_lp_pool_1(KernelCall *call) {
    return global_pool(call, GLOBAL_NORM, (double)((const WindowAttrs *)call->attrs)->real_p);
}
