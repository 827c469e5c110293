// SPDX-License-Identifier: Apache-2.0
/* MaxPoolLast, AveragePoolLast: pools of channels-last data. A window is a list of pixels, all of
 * whose channels are gone over side by side; the largest of 16-bit floats is found as they are. What padding is, and NaN, is as in kernel_pool.c. */
#include <math.h>
#include <string.h>

#include "kernel_convert.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_rows.h"
#include "window.h"

typedef void PixelsFunction(void *to, const void *const *from, uint32_t count, uint64_t n);

typedef struct PoolLast {
    PixelsFunction *take;
    const Window *window;
    const char *x;
    char *y;
    Dtype dtype;
    uint64_t channels, pixel; /* of a pixel, and its bytes */
    bool mean, count_pads;
    int64_t *indices; /* [lanes][size] */
    uint64_t size;
} PoolLast;

/* ---- pixels ---------------------------------------------------------------------------------- */

enum { TOGETHER = 3 }; /* pixels that are taken in one go, in their order */

/* To y what the expression makes of x and y, for TOGETHER pixels one after the other, or one. */
#define PIXELS(name, T, expression)                                                                \
    static inline T name##_of(T x, T y) {                                                          \
        return (T)(expression);                                                                    \
    }                                                                                              \
    ROW_CLONES static void name(void *to, const void *const *from, uint32_t count, uint64_t n) {   \
        T *y = to;                                                                                 \
        const T *a = from[0], *b = from[count > 1], *c = from[count > 1 ? 2 : 0];                  \
        if (count == TOGETHER)                                                                     \
            ROW_EACH(n, y[i] = name##_of(c[i], name##_of(b[i], name##_of(a[i], y[i]))))            \
        else                                                                                       \
            ROW_EACH(n, y[i] = name##_of(a[i], y[i]))                                              \
    }
PIXELS(take_largest, float, x > y || x != x ? x : y)
PIXELS(take_largest_i8, int8_t, x > y ? x : y)
PIXELS(take_largest_u8, uint8_t, x > y ? x : y)
PIXELS(take_sum, float, y + x)

/* 16-bit floats compare as the integers that their magnitudes are, with their signs: those beyond
 * infinity's are NaN. */
static inline int16_t halves_order(uint16_t half) {
    const int16_t magnitude = (int16_t)(half & 0x7fff), sign = (int16_t)((int16_t)half >> 15);
    return (int16_t)((int16_t)(magnitude ^ sign) - sign);
}
static inline uint16_t halves_larger(uint16_t x, uint16_t y, int16_t infinity) {
    const int16_t order = halves_order(x), other = halves_order(y);
    const int16_t size = (int16_t)(x & 0x7fff), other_size = (int16_t)(y & 0x7fff);
    const uint16_t larger = order > other ? 0xffff : 0, number = other_size > infinity ? 0 : 0xffff;
    const uint16_t nan = size > infinity ? 0xffff : 0;
    const uint16_t mask = (uint16_t)((larger & number) | nan); /* no branches: it vectorises */
    return (uint16_t)((x & mask) | (y & (uint16_t)~mask));
}
PIXELS(take_largest_f16, uint16_t, halves_larger(x, y, 0x7c00))
PIXELS(take_largest_bf16, uint16_t, halves_larger(x, y, 0x7f80))

ROW_CLONES static void divide(float *y, float count, uint64_t n) {
    ROW_LOOP
    for (uint64_t i = 0; i < n; i++) y[i] /= count;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* One output's window; all arrays are [rank]. */
typedef struct PoolPlace {
    int64_t *output, *first, *last, *tap;
    double counted; /* elements, with padding where that counts */
    bool empty;
} PoolPlace;

static void place(const PoolLast *pool, PoolPlace *at) {
    const Window *w = pool->window;
    at->counted = 1;
    at->empty = false;
    for (uint32_t i = 0; i < w->rank; i++) {
        int64_t first, last;
        window_taps(&w->axes[i], at->output[i], pool->count_pads, &first, &last);
        at->counted *= (double)(last - first);
        window_taps(&w->axes[i], at->output[i], false, &at->first[i], &at->last[i]);
        at->tap[i] = at->first[i];
        at->empty |= at->first[i] >= at->last[i];
    }
}

/* The pixel of the tap at hand, of an image. */
static uint64_t pixel_of(const Window *w, const PoolPlace *at) {
    int64_t pixel = 0;
    for (uint32_t i = 0; i < w->rank; i++) {
        const WindowAxis *axis = &w->axes[i];
        pixel = pixel * axis->in + at->output[i] * axis->stride + at->tap[i] * axis->dilation -
                axis->begin;
    }
    return (uint64_t)pixel;
}

static bool next_tap(const Window *w, PoolPlace *at) {
    for (uint32_t i = w->rank; i-- > 0; at->tap[i] = at->first[i])
        if (++at->tap[i] < at->last[i]) return true;
    return false;
}

static PixelsFunction *pixels_function(const PoolLast *pool) {
    if (pool->mean) return take_sum;
    if (pool->dtype == DTYPE_FLOAT16) return take_largest_f16;
    if (pool->dtype == DTYPE_BFLOAT16) return take_largest_bf16;
    if (pool->dtype == DTYPE_INT8) return take_largest_i8;
    return pool->dtype == DTYPE_UINT8 ? take_largest_u8 : take_largest;
}

/* A window that holds no element. */
static void fill_nothing(const PoolLast *pool, void *y) {
    uint64_t lowest = 0;
    dtype_from_double(pool->dtype, -HUGE_VAL, &lowest);
    if (pool->dtype == DTYPE_FLOAT)
        for (uint64_t c = 0; c < pool->channels; c++) ((float *)y)[c] = pool->mean ? 0 : -HUGE_VALF;
    else if (dtype_is_reduced(pool->dtype))
        for (uint64_t c = 0; c < pool->channels; c++) ((uint16_t *)y)[c] = (uint16_t)lowest;
    else
        memset(y, pool->dtype == DTYPE_INT8 ? INT8_MIN : 0, pool->pixel);
}

static void run_window(const PoolLast *pool, PoolPlace *at, const char *image, char *y) {
    place(pool, at);
    if (at->empty) {
        fill_nothing(pool, y);
        return;
    }
    const void *taps[TOGETHER];
    uint32_t count = 0;
    memcpy(y, image + pixel_of(pool->window, at) * pool->pixel, pool->pixel);
    while (next_tap(pool->window, at)) {
        taps[count++] = image + pixel_of(pool->window, at) * pool->pixel;
        if (count < TOGETHER) continue;
        pool->take(y, taps, count, pool->channels);
        count = 0;
    }
    for (uint32_t k = 0; k < count; k++) pool->take(y, &taps[k], 1, pool->channels);
    if (pool->mean) divide((float *)(void *)y, (float)at->counted, pool->channels);
}

static void run_outputs(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const PoolLast *pool = data;
    const Window *w = pool->window;
    const uint32_t rank = w->rank;
    int64_t *own = pool->indices + lane * pool->size;
    PoolPlace at = {own, own + rank, own + 2 * (uint64_t)rank, own + 3 * (uint64_t)rank, 0, false};
    uint64_t rest = first % w->out;
    for (uint32_t i = rank; i-- > 0; rest /= (uint64_t)w->axes[i].out)
        at.output[i] = (int64_t)(rest % (uint64_t)w->axes[i].out);
    for (uint64_t o = first; o < end; o++) {
        const char *image = pool->x + o / w->out * w->in * pool->pixel;
        run_window(pool, &at, image, pool->y + o * pool->pixel);
        window_next_output(w, at.output);
    }
}

static bool run_pool(KernelCall *call, bool mean) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    KernelTensor *y = &call->outputs[0];
    Window window;
    if (!window_make(call, attrs, NULL, &window)) return false;
    const bool converts = x->dtype != y->dtype; /* which the largest of floats may be */
    if (x->dims[0] != y->dims[0] || x->dims[x->rank - 1] != y->dims[x->rank - 1] ||
        (converts && !(dtype_is_float(x->dtype) && dtype_is_float(y->dtype))) ||
        (mean && (converts || x->dtype != DTYPE_FLOAT)))
        return kernel_fail(call, "the result has a different type or size");
    if (y->count == 0) return true;
    if (x->count == 0) return kernel_fail(call, "the input is empty");
    PoolLast pool = {.window = &window,
                     .x = x->data,
                     .y = y->data,
                     .dtype = x->dtype,
                     .channels = (uint64_t)x->dims[x->rank - 1],
                     .mean = mean,
                     .count_pads = attrs->count_include_pad != 0,
                     .size = 4 * (uint64_t)window.rank + 8};
    pool.pixel = pool.channels * kernel_element_size(x->dtype);
    if (converts) pool.y = kernel_workspace(call, y->count * kernel_element_size(x->dtype));
    if (!pool.y) return false;
    pool.take = pixels_function(&pool);
    double taps = 1;
    for (uint32_t i = 0; i < window.rank; i++) taps *= (double)window.axes[i].taps;
    pool.indices = ARENA_ARRAY(call->scratch, int64_t, pool.size * kernel_threads(call));
    const uint64_t outputs = y->count / pool.channels;
    kernel_run_parts(call->workers, kernel_work_cut(call, taps * (double)y->count, outputs),
                     run_outputs, &pool);
    return !converts || kernel_convert(y->dtype, y->data, x->dtype, pool.y, y->count, NULL);
}

bool kernel_max_pool_last(KernelCall *call) {
    return run_pool(call, false);
}
bool kernel_average_pool_last(KernelCall *call) {
    return run_pool(call, true);
}
