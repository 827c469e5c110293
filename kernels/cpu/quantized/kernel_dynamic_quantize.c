// SPDX-License-Identifier: Apache-2.0
/* DynamicQuantizeLinear: its range in one sweep by all threads, bytes in another. */
#include <math.h>

#include "dynamic_bytes.h"
#include "kernel_functions.h"
#include "kernel_parts.h"

enum { GRAIN = 128 };

typedef struct RangeJob {
    const float *x;
    DynamicRange *ranges; /* [threads] */
} RangeJob;

static void range_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const RangeJob *job = data;
    const DynamicRange part = dynamic_range(job->x + first, end - first);
    DynamicRange *range = &job->ranges[lane];
    range->low = fminf(range->low, part.low);
    range->high = fmaxf(range->high, part.high);
}

/* By all threads. */
static DynamicRange find_range(KernelCall *call, const KernelTensor *x) {
    const unsigned threads = kernel_threads(call);
    const RangeJob job = {x->data, ARENA_ARRAY(call->scratch, DynamicRange, threads)};
    const KernelCut cut = kernel_element_cut(x->count, KERNEL_PART_GRAIN,
                                             kernel_parts(threads, x->count, 1), x->count);
    DynamicRange all = {0, 0};
    kernel_run_parts(call->workers, cut, range_part, &job);
    for (unsigned i = 0; i < threads; i++) {
        all.low = fminf(all.low, job.ranges[i].low);
        all.high = fmaxf(all.high, job.ranges[i].high);
    }
    return all;
}

typedef struct BytesJob {
    const float *x;
    uint8_t *to;
    DynamicScale by;
} BytesJob;

static void bytes_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const BytesJob *job = data;
    (void)lane;
    dynamic_bytes(job->to + first, job->x + first, end - first, job->by);
}

bool kernel_dynamic_quantize(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *out = &call->outputs[0];
    const KernelTensor *scale_out = &call->outputs[1], *zero_out = &call->outputs[2];
    if (out->count != x->count || scale_out->count != 1 || zero_out->count != 1)
        return kernel_fail(call, "the dims of its results and its input differ");
    const BytesJob job = {x->data, out->data, dynamic_scale(find_range(call, x))};
    *(float *)scale_out->data = job.by.scale;
    *(uint8_t *)zero_out->data = job.by.zero;
    const unsigned parts = kernel_parts(kernel_threads(call), x->count, 2);
    const KernelCut cut = kernel_element_cut(x->count, GRAIN, parts, x->count);
    kernel_run_parts(call->workers, cut, bytes_part, &job);
    return true;
}
