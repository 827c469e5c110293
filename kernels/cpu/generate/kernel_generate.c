// SPDX-License-Identifier: Apache-2.0
/* Operators that make tensors of nothing but sizes and bounds: Range, EyeLike, ConstantOfShape, the
 * window functions and MelWeightMatrix. Reals are computed as double and rounded once. */
#include <math.h>
#include <string.h>

#include "kernel_convert.h"
#include "kernel_functions.h"

#define PI 3.14159265358979323846

static bool check_single(KernelCall *call, uint32_t i) {
    const KernelTensor *in = &call->inputs[i];
    bool number = (KERNEL_NUMBERS >> in->dtype & 1) && in->count == 1;
    return number || kernel_fail(call, "input %u is not a single number", i);
}

/* ---- Range ----------------------------------------------------------------------------------- */

static bool integer_range(KernelCall *call) {
    int64_t bounds[3];
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t *item = kernel_ints(call, &call->inputs[i]);
        if (!item) return false;
        bounds[i] = *item;
    }
    int64_t from = bounds[0], to = bounds[1], step = bounds[2];
    if (step == 0) return kernel_fail(call, "delta is 0");
    bool any = step > 0 ? from < to : from > to;
    uint64_t span = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = any ? span / stride + (span % stride != 0) : 0;
    if (count > INT64_MAX) return kernel_fail(call, "the range is too long");
    if (!kernel_output(call, 0, 1, &(int64_t){(int64_t)count})) return false;
    const KernelTensor *out = &call->outputs[0];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = (uint64_t)from + i * (uint64_t)step;
        switch ((int)out->dtype) {
        case DTYPE_INT16: ((uint16_t *)out->data)[i] = (uint16_t)value; break;
        case DTYPE_INT32: ((uint32_t *)out->data)[i] = (uint32_t)value; break;
        case DTYPE_INT64: ((uint64_t *)out->data)[i] = value; break;
        default: return kernel_fail(call, "it is not defined for %s", dtype_name(out->dtype));
        }
    }
    return true;
}

static bool real_range(KernelCall *call) {
    double from = kernel_real(&call->inputs[0], 0), to = kernel_real(&call->inputs[1], 0);
    double step = kernel_real(&call->inputs[2], 0), count = ceil((to - from) / step);
    if (step == 0 || isnan(count) || count > 0x1p53)
        return kernel_fail(call, "there is no range from %g to %g by %g", from, to, step);
    if (!kernel_output(call, 0, 1, &(int64_t){count > 0 ? (int64_t)count : 0})) return false;
    const KernelTensor *out = &call->outputs[0];
    for (uint64_t i = 0; i < out->count; i++) {
        double value = from + (double)i * step;
        if (out->dtype == DTYPE_FLOAT)
            ((float *)out->data)[i] = (float)value;
        else
            ((double *)out->data)[i] = value;
    }
    return true;
}

bool kernel_range(KernelCall *call) {
    for (uint32_t i = 0; i < 3; i++)
        if (!check_single(call, i)) return false;
    return dtype_is_float(call->inputs[0].dtype) ? real_range(call) : integer_range(call);
}

/* ---- EyeLike, ConstantOfShape ---------------------------------------------------------------- */

bool kernel_eye_like(KernelCall *call) {
    const EyeAttrs *attrs = call->attrs;
    const KernelTensor *out = &call->outputs[0];
    if (out->rank != 2) return kernel_fail(call, "its result must have rank 2");
    uint64_t probe;
    double zero = 0;
    if (!kernel_convert(out->dtype, &probe, DTYPE_DOUBLE, &zero, 1, NULL))
        return kernel_fail(call, "it is not defined for %s", dtype_name(out->dtype));
    size_t size = kernel_element_size(out->dtype);
    if (out->count) memset(out->data, 0, out->count * size);
    int64_t rows = out->dims[0], columns = out->dims[1], k = attrs->k;
    if (k >= columns || k <= -rows) return true; /* outside of the matrix */
    for (int64_t row = k < 0 ? -k : 0; row < rows && row + k < columns; row++)
        kernel_store_real(out->dtype, out->data, (uint64_t)(row * columns + row + k), 1);
    return true;
}

/* Doubles what is filled until all is. */
static void fill(char *to, const void *element, size_t size, uint64_t count) {
    uint64_t whole = count * size, done = size;
    memcpy(to, element, size);
    for (; done < whole; done *= 2)
        memcpy(to + done, to, whole - done < done ? whole - done : done);
}

bool kernel_constant_of_shape(KernelCall *call) {
    const ConstantAttrs *attrs = call->attrs;
    const KernelTensor *value = attrs->value.data, *out = &call->outputs[0];
    if (value ? value->count != 1 || value->dtype != out->dtype : out->dtype != DTYPE_FLOAT)
        return kernel_fail(call, "value is not a single %s", dtype_name(out->dtype));
    if (!out->count) return true;
    size_t size = kernel_element_size(out->dtype);
    if (value)
        fill(out->data, value->data, size, out->count);
    else
        memset(out->data, 0, out->count * size);
    return true;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), n being the size, or one less where not periodic; a
 * window of one element is 1. */
static bool cosine_window(KernelCall *call, double a0, double a1, double a2) {
    const CosineWindowAttrs *attrs = call->attrs;
    const KernelTensor *out = &call->outputs[0];
    if (!(KERNEL_NUMBERS >> out->dtype & 1)) return kernel_fail(call, "its result must be numeric");
    double n = (double)out->count - (attrs->periodic ? 0 : 1);
    for (uint64_t i = 0; i < out->count; i++) {
        double angle = n > 0 ? 2 * PI * (double)i / n : PI;
        kernel_store_real(out->dtype, out->data, i, a0 - a1 * cos(angle) + a2 * cos(2 * angle));
    }
    return true;
}

bool kernel_hann_window(KernelCall *call) {
    return cosine_window(call, 0.5, 0.5, 0);
}
/* 25 / 46, as the operator's definition has it */
bool kernel_hamming_window(KernelCall *call) {
    return cosine_window(call, 25.0 / 46, 1 - 25.0 / 46, 0);
}
bool kernel_blackman_window(KernelCall *call) {
    return cosine_window(call, 0.42, 0.5, 0.08);
}

/* ---- MelWeightMatrix ------------------------------------------------------------------------- */

static double mel_of(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}
static double hertz_of(double mel) {
    return 700 * (pow(10, mel / 2595) - 1);
}

/* The spectrogram's bin for each edge of the triangles, bands + 2 of them; false where one has
 * none. */
static bool find_edges(KernelCall *call, uint64_t bands, uint64_t bins, int64_t *edges) {
    double length = kernel_real(&call->inputs[1], 0), rate = kernel_real(&call->inputs[2], 0);
    double low = mel_of(kernel_real(&call->inputs[3], 0));
    double step = (mel_of(kernel_real(&call->inputs[4], 0)) - low) / ((double)bands + 2);
    for (uint64_t i = 0; i < bands + 2; i++) {
        double bin = floor((length + 1) * hertz_of(low + (double)i * step) / rate);
        if (!(bin >= 0 && bin < (double)bins))
            return kernel_fail(call, "frequencies are outside of the spectrum");
        edges[i] = (int64_t)bin;
    }
    return true;
}

/* One column: rising from edges[0] to 1 at edges[1], falling to edges[2]. */
static void triangle(const KernelTensor *out, uint64_t band, const int64_t *edges) {
    uint64_t bands = (uint64_t)out->dims[1];
    int64_t rise = edges[1] - edges[0], fall = edges[2] - edges[1];
    for (int64_t j = edges[0]; j <= edges[1]; j++)
        kernel_store_real(out->dtype, out->data, (uint64_t)j * bands + band,
                          rise ? (double)(j - edges[0]) / (double)rise : 1);
    for (int64_t j = edges[1]; j < edges[2]; j++)
        kernel_store_real(out->dtype, out->data, (uint64_t)j * bands + band,
                          (double)(edges[2] - j) / (double)fall);
}

bool kernel_mel_weight_matrix(KernelCall *call) {
    const KernelTensor *out = &call->outputs[0];
    for (uint32_t i = 0; i < 5; i++)
        if (!check_single(call, i)) return false;
    if (!(KERNEL_NUMBERS >> out->dtype & 1) || out->rank != 2)
        return kernel_fail(call, "its result must be a numeric matrix");
    uint64_t bins = (uint64_t)out->dims[0], bands = (uint64_t)out->dims[1];
    if (!out->count) return true;
    memset(out->data, 0, out->count * kernel_element_size(out->dtype));
    int64_t *edges = ARENA_ARRAY(call->scratch, int64_t, bands + 2);
    if (!find_edges(call, bands, bins, edges)) return false;
    for (uint64_t band = 0; band < bands; band++) triangle(out, band, edges + band);
    return true;
}
