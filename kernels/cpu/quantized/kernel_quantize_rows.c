// SPDX-License-Identifier: Apache-2.0
/* QuantizeRows: each row of floats as bytes by a scale of its own, for products of bytes (QMatMul).
 * Bytes are those that the operators give where they run one by one. */
#include <math.h>
#include <string.h>

#include "dynamic_bytes.h"
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "row_clones.h"

enum { BYTE_MOST = 255 };

/* The least scale: that of rows whose numbers are the same, or nearly so. */
#define LEAST 0x1p-126f

typedef struct Range {
    float low, high;
    bool finite; /* else low and high are of no use */
} Range;

typedef int32_t RowBits __attribute__((vector_size(sizeof(RowFloats))));

/* Those of `a` where the mask is set, else those of `b`. */
#define CHOOSE(mask, a, b) ((RowFloats)(((mask) & (RowBits)(a)) | (~(mask) & (RowBits)(b))))

/* n is 1 at least. */
KERNEL_CLONES static Range find_range(const float *v, uint64_t n) {
    RowFloats low, high, none = {0}; /* none: 0, or NaN once something is not finite */
    Range range = {v[0], v[0], false};
    float rest = 0;
    uint64_t i = 0;
    for (int k = 0; k < ROW_FLOATS; k++) low[k] = high[k] = v[0];
    for (; i + ROW_FLOATS <= n; i += ROW_FLOATS) {
        RowFloats x;
        memcpy(&x, v + i, sizeof x);
        low = CHOOSE(x < low, x, low);
        high = CHOOSE(x > high, x, high);
        none += x * 0.0f;
    }
    for (; i < n; i++) {
        range.low = v[i] < range.low ? v[i] : range.low;
        range.high = v[i] > range.high ? v[i] : range.high;
        rest += v[i] * 0.0f;
    }
    for (int k = 0; k < ROW_FLOATS; k++) {
        range.low = low[k] < range.low ? low[k] : range.low;
        range.high = high[k] > range.high ? high[k] : range.high;
        rest += none[k];
    }
    range.finite = rest == 0;
    return range;
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
            dynamic_bytes(y, x, job->length, (DynamicScale){scale, 0, range.low});
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
    const unsigned parts = kernel_parts(kernel_threads(call), x->count, 2);
    kernel_run_parts(call->workers, kernel_element_cut(rows, 1, parts, x->count), quantize_rows,
                     &job);
    return true;
}
