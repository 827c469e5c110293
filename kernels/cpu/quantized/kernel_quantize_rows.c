// SPDX-License-Identifier: Apache-2.0
/* QuantizeRows: each row of floats as bytes by a scale of its own, for products of bytes (QMatMul).
 *
 * Bytes are those of the definition: (x - low) / scale is divided, as it is where the operators run one by one. */
#include <math.h>
#include <string.h>

#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_parts.h"

enum { LANES = 64, BYTE_MOST = 255, INFINITE = 0x7f800000, SIGNLESS = 0x7fffffff };

/* The least scale: that of rows whose numbers are the same, or nearly so. */
#define LEAST 0x1p-126f

/* Adding it rounds a small float to a whole number, ties to even, which is in the sum's low bits then. */
#define MAGIC      12582912.0f /* 1.5 * 2^23 */
#define MAGIC_BITS 0x4b400000

typedef struct Range {
    float low, high;
    bool finite; /* else low and high are of no use */
} Range;

KERNEL_INLINE void widen(float *low, float *high, int32_t *most, float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= SIGNLESS;
    *low = x < *low ? x : *low;
    *high = x > *high ? x : *high;
    *most = bits > *most ? bits : *most;
}

KERNEL_CLONES static Range find_range(const float *v, uint64_t n) {
    float low[LANES], high[LANES];
    int32_t most[LANES] = {0};
    uint64_t i = 0;
    for (int k = 0; k < LANES; k++) low[k] = high[k] = v[0];
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) widen(&low[k], &high[k], &most[k], v[i + (uint64_t)k]);
    for (; i < n; i++) widen(&low[0], &high[0], &most[0], v[i]);
    for (int k = 1; k < LANES; k++) {
        low[0] = low[k] < low[0] ? low[k] : low[0];
        high[0] = high[k] > high[0] ? high[k] : high[0];
        most[0] = most[k] > most[0] ? most[k] : most[0];
    }
    return (Range){low[0], high[0], most[0] < INFINITE};
}

/* Quotients are from 0 to 255. */
KERNEL_CLONES static void divide(uint8_t *restrict to, const float *restrict x, uint64_t n,
                                 float low, float scale) {
    for (uint64_t i = 0; i < n; i++) {
        const float sum = (x[i] - low) / scale + MAGIC;
        int32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        to[i] = (uint8_t)(bits - MAGIC_BITS);
    }
}

typedef struct RowsJob {
    const float *x;
    uint8_t *y;
    float *scale, *low; /* or NULL */
    uint64_t length;
} RowsJob;

static void quantize_rows(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const RowsJob *job = data;
    (void)lane;
    for (uint64_t r = first; r < end; r++) {
        const float *x = job->x + r * job->length;
        uint8_t *y = job->y + r * job->length;
        const Range range = find_range(x, job->length);
        const float span = range.high - range.low; /* infinite past the largest float */
        float scale = span * (1.0f / (float)BYTE_MOST);
        if (scale < LEAST) scale = LEAST;
        if (range.finite && isfinite(scale))
            divide(y, x, job->length, range.low, scale);
        else
            memset(y, 0, job->length);
        if (!range.finite) scale = NAN;
        if (job->scale) job->scale[r] = scale;
        if (job->low) job->low[r] = range.low;
    }
}

bool kernel_quantize_rows(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const uint64_t length = x->rank ? (uint64_t)x->dims[x->rank - 1] : 0;
    const uint64_t rows = length ? x->count / length : 0;
    RowsJob job = {.x = x->data, .y = y->data, .length = length};
    if (x->rank < 1) return kernel_fail(call, "a scalar has no rows");
    if (x->dtype != DTYPE_FLOAT || y->dtype != DTYPE_UINT8 || y->count != x->count)
        return kernel_fail(call, "the result is %s", dtype_name(y->dtype));
    if (!x->count) return true;
    for (uint32_t i = 1; i < call->output_count; i++) {
        KernelTensor *out = kernel_result(call, i);
        if (!out) continue;
        if (out->dtype != DTYPE_FLOAT || out->count != rows)
            return kernel_fail(call, "result %u is not a float for each row", i);
        *(i == 1 ? &job.scale : &job.low) = out->data;
    }
    kernel_run_parts(call->workers, kernel_work_cut(call, (double)x->count, rows), quantize_rows,
                     &job);
    return true;
}
