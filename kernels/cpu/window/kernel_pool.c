// SPDX-License-Identifier: Apache-2.0
/* MaxPool, AveragePool, LpPool: a window's largest element, mean or p-norm, over any number of
 * axes.
 *
 * Padding is never an element of MaxPool's; of AveragePool's it is a zero that counts only with
 * count_include_pad, and only as far as the pads reach (a window that ceil_mode lets run past them
 * has fewer elements). NaN is larger than any number, so it shows in the result; a window that
 * holds no element at all gives the type's lowest value (and its plane's first index), or a mean
 * and norm of 0.
 */
#include <math.h>
#include <string.h>

#include "kernel_functions.h"
#include "kernel_parts.h"
#include "tap_lines.h"
#include "window.h"

/* One output's window: tap ranges of all axes, and where it lies in the plane. */
typedef struct PoolWindow {
    int64_t *first, *last, *tap, *output; /* [rank] */
    double counted;                       /* elements, with padding where that counts */
    bool empty;
    unsigned lane;
    uint64_t seen; /* elements since it was asked whether the run has ended */
} PoolWindow;

/* The elements that one output sees along an axis: the first one's place, and how many. */
typedef struct PoolRange {
    int64_t at, count;
} PoolRange;

typedef struct Pool {
    const Window *window;
    const PoolRange *rows, *columns; /* of the outputs of one or two axes; NULL: of others */
    const void *x;
    void *y;
    int64_t *indices; /* MaxPool's second result, or NULL */
    bool column_major, count_pads;
    double p;
    uint64_t planes;
    const KernelCall *call;
} Pool;

/* Behind so many elements more, whether the run has ended: asked every million. */
static bool ended_behind(const Pool *pool, PoolWindow *at, int64_t seen) {
    enum { BETWEEN = 1 << 20 };
    at->seen += (uint64_t)seen;
    if (at->seen < BETWEEN) return false;
    at->seen = 0;
    return kernel_ended(pool->call, at->lane);
}

static void place(const Pool *pool, PoolWindow *at) {
    const Window *w = pool->window;
    at->empty = false;
    at->counted = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        int64_t first, last;
        window_taps(&w->axes[i], at->output[i], pool->count_pads, &first, &last);
        at->counted *= (double)(last - first);
        window_taps(&w->axes[i], at->output[i], false, &at->first[i], &at->last[i]);
        at->tap[i] = at->first[i];
        if (at->first[i] >= at->last[i]) at->empty = true;
    }
}

/* The position of the tap at hand along axis i. */
static int64_t position(const Window *w, const PoolWindow *at, uint32_t i) {
    const WindowAxis *axis = &w->axes[i];
    return at->output[i] * axis->stride + at->tap[i] * axis->dilation - axis->begin;
}

/* Where the row of taps at hand begins in the plane, how many there are and how far apart. */
static int64_t row_start(const Window *w, const PoolWindow *at, int64_t *count, int64_t *step) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < w->rank; i++) offset = offset * w->axes[i].in + position(w, at, i);
    *count = w->rank ? at->last[w->rank - 1] - at->first[w->rank - 1] : 1;
    *step = w->rank ? w->axes[w->rank - 1].dilation : 1;
    return offset;
}

static bool next_row(const Window *w, PoolWindow *at) {
    for (uint32_t i = w->rank ? w->rank - 1 : 0; i-- > 0; at->tap[i] = at->first[i])
        if (++at->tap[i] < at->last[i]) return true;
    return false;
}

/* A row-major place in a plane as a column-major one. */
static int64_t column_major_at(const Window *w, int64_t at) {
    int64_t result = 0, size = 1;
    for (uint32_t i = 0; i < w->rank; i++) size *= w->axes[i].in;
    for (uint32_t i = w->rank; i-- > 0; at /= w->axes[i].in) {
        size /= w->axes[i].in;
        result += at % w->axes[i].in * size;
    }
    return result;
}

/* ---- planes ------------------------------------------------------------------------------------
 *
 * Float pools over one or two axes with windows of few taps, without indices: each plane is copied
 * with its padding and gone over by the loops of tap_loops.h. One axis counts as two, the first of
 * size 1. */

enum { PLANE_TAPS_MOST = 128 };

typedef struct PoolPlanes {
    const Pool *pool;
    WindowAxis y, x;
    TapPlane plane;
    Taps taps;
    float *y_counts,
        *x_counts; /* elements that count, by row and by column of outputs, at least 1 */
    const TapLoops *loops;
    bool mean, copied; /* false: there is no padding */
} PoolPlanes;

static bool planes_suit(const Pool *pool) {
    const Window *w = pool->window;
    if (w->rank < 1 || w->rank > 2 || pool->indices) return false;
    int64_t taps = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        const WindowAxis *axis = &w->axes[i];
        if (axis->taps > PLANE_TAPS_MOST || axis->dilation > PLANE_TAPS_MOST ||
            axis->begin > PLANE_TAPS_MOST || axis->end > PLANE_TAPS_MOST)
            return false;
        taps *= axis->taps;
    }
    return taps <= PLANE_TAPS_MOST && w->in >= w->out / 4; /* the copy is not the larger part */
}

static uint64_t padded_size(const WindowAxis *axis) {
    return (uint64_t)((axis->out - 1) * axis->stride + (axis->taps - 1) * axis->dilation + 1);
}

static float *axis_counts(KernelCall *call, const WindowAxis *axis, bool padded) {
    float *counts = ARENA_ARRAY(call->scratch, float, (uint64_t)axis->out);
    for (int64_t o = 0; o < axis->out; o++) {
        int64_t first, last;
        window_taps(axis, o, padded, &first, &last);
        counts[o] = last > first ? (float)(last - first) : 1;
    }
    return counts;
}

static PoolPlanes planes_make(KernelCall *call, const Pool *pool, bool mean) {
    const Window *w = pool->window;
    PoolPlanes p = {.pool = pool, .loops = tap_loops(isa_here()), .mean = mean};
    p.y = (WindowAxis){.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};
    if (w->rank == 2) p.y = w->axes[0];
    p.x = w->axes[w->rank - 1];
    p.plane = (TapPlane){.in_height = (uint64_t)p.y.in,
                         .in_width = (uint64_t)p.x.in,
                         .top = (uint64_t)p.y.begin,
                         .left = (uint64_t)p.x.begin,
                         .height = padded_size(&p.y),
                         .width = padded_size(&p.x),
                         .value = mean ? 0 : -INFINITY};
    p.copied = p.y.begin || p.x.begin || p.plane.height > p.plane.in_height ||
               p.plane.width > p.plane.in_width;
    if (!p.copied) p.plane.width = p.plane.in_width;
    p.taps = (Taps){.lines = (uint64_t)p.y.out,
                    .line = (uint64_t)p.y.stride * p.plane.width,
                    .count = (uint64_t)p.x.out,
                    .row = (uint64_t)p.y.dilation * p.plane.width,
                    .rows = (uint32_t)p.y.taps,
                    .taps = (uint32_t)p.x.taps,
                    .stride = (uint64_t)p.x.stride,
                    .step = (uint64_t)p.x.dilation};
    float *ones = ARENA_ARRAY(call->scratch, float, (uint64_t)(p.y.taps * p.x.taps));
    for (int64_t i = 0; i < p.y.taps * p.x.taps; i++) ones[i] = 1;
    p.taps.weights = ones;
    if (mean) p.y_counts = axis_counts(call, &p.y, pool->count_pads);
    if (mean) p.x_counts = axis_counts(call, &p.x, pool->count_pads);
    return p;
}

static void run_plane(const PoolPlanes *p, uint64_t i, float *buffer, unsigned lane) {
    const Window *w = p->pool->window;
    float *y = (float *)p->pool->y + i * w->out;
    TapPlane plane = p->plane;
    Taps taps = p->taps;
    plane.from = (const float *)p->pool->x + i * w->in;
    taps.from = p->copied ? buffer : plane.from;
    if (p->copied) p->loops->pad(buffer, &plane);
    if (!p->mean) {
        tap_lines(p->pool->call, lane, p->loops->largest, y, &taps);
        return;
    }
    if (!tap_lines(p->pool->call, lane, p->loops->taps, y, &taps)) return;
    for (int64_t r = 0; r < p->y.out; r++)
        for (int64_t k = 0; k < p->x.out; k++, y++) *y /= p->y_counts[r] * p->x_counts[k];
}

typedef struct PlanesJob {
    const PoolPlanes *planes;
    float *buffers; /* `size` elements a lane */
    uint64_t size;
} PlanesJob;

static void planes_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const PlanesJob *job = data;
    for (uint64_t i = first; i < end; i++)
        run_plane(job->planes, i, job->buffers + job->size * lane, lane);
}

static void run_planes_of(KernelCall *call, const Pool *pool, bool mean) {
    const PoolPlanes p = planes_make(call, pool, mean);
    uint64_t size = p.plane.height * p.plane.width + 32;
    double work = (double)pool->planes * (double)size * p.taps.taps * p.taps.rows / 4;
    float *buffers = arena_array(call->scratch, kernel_threads(call), size * sizeof(float));
    const PlanesJob job = {&p, buffers, size};
    kernel_run_parts(call->workers, kernel_work_cut(call, work, pool->planes), planes_part, &job);
}

/* ---- window by window ------------------------------------------------------------------------ */

static const PoolRange *axis_ranges(KernelCall *call, const WindowAxis *axis) {
    PoolRange *ranges = ARENA_ARRAY(call->scratch, PoolRange, (uint64_t)axis->out + 1);
    for (int64_t o = 0; o < axis->out; o++) {
        int64_t first, last;
        window_taps(axis, o, false, &first, &last);
        ranges[o] = (PoolRange){o * axis->stride + first * axis->dilation - axis->begin,
                                last > first ? last - first : 0};
    }
    return ranges;
}

/* One axis is the columns of a single row. */
static void find_ranges(KernelCall *call, Pool *pool) {
    static const PoolRange single = {0, 1};
    const Window *w = pool->window;
    if (w->rank < 1 || w->rank > 2) return;
    pool->rows = w->rank == 2 ? axis_ranges(call, &w->axes[0]) : &single;
    pool->columns = axis_ranges(call, &w->axes[w->rank - 1]);
}

/* max_NAME_rows is of one or two axes, whose ranges are known; max_NAME of any. */
#define MAX_POOL(T, name, lowest, is_nan)                                                          \
    static void max_##name##_rows(const Pool *pool, uint64_t plane, PoolWindow *own) {             \
        const Window *w = pool->window;                                                            \
        const WindowAxis *across = &w->axes[w->rank - 1];                                          \
        const int64_t high = w->rank == 2 ? w->axes[0].out : 1, wide = across->out;                \
        const int64_t down = w->rank == 2 ? w->axes[0].dilation : 1, step = across->dilation;      \
        const T *x = (const T *)pool->x + plane * w->in;                                           \
        T *y = (T *)pool->y + plane * w->out;                                                      \
        int64_t *indices = pool->indices ? pool->indices + plane * w->out : NULL;                  \
        for (int64_t r = 0; r < high; r++)                                                         \
            for (int64_t c = 0; c < wide; c++, y++) {                                              \
                const PoolRange rows = pool->rows[r], columns = pool->columns[c];                  \
                if (ended_behind(pool, own, rows.count * columns.count)) return;                   \
                T best = lowest;                                                                   \
                int64_t where = -1;                                                                \
                for (int64_t i = 0; i < rows.count; i++) {                                         \
                    int64_t at = (rows.at + i * down) * across->in + columns.at;                   \
                    for (int64_t k = 0; k < columns.count; k++, at += step) {                      \
                        const T value = x[at];                                                     \
                        const bool more =                                                          \
                            (value > best) | (where < 0) | (is_nan(value) & !is_nan(best));        \
                        where = more ? at : where;                                                 \
                        best = more ? value : best;                                                \
                    }                                                                              \
                }                                                                                  \
                *y = best;                                                                         \
                if (where < 0) where = 0;                                                          \
                if (indices)                                                                       \
                    *indices++ = (int64_t)(plane * w->in) +                                        \
                                 (pool->column_major ? column_major_at(w, where) : where);         \
            }                                                                                      \
    }                                                                                              \
    static void max_##name(const Pool *pool, uint64_t plane, PoolWindow *at) {                     \
        const Window *w = pool->window;                                                            \
        const T *x = (const T *)pool->x + plane * w->in;                                           \
        T *y = (T *)pool->y + plane * w->out;                                                      \
        int64_t *indices = pool->indices ? pool->indices + plane * w->out : NULL;                  \
        if (pool->rows) {                                                                          \
            max_##name##_rows(pool, plane, at);                                                    \
            return;                                                                                \
        }                                                                                          \
        for (uint64_t o = 0; o < w->out; o++, window_next_output(w, at->output)) {                 \
            place(pool, at);                                                                       \
            T best = lowest;                                                                       \
            int64_t where = -1, count, step;                                                       \
            do {                                                                                   \
                if (at->empty) break;                                                              \
                int64_t start = row_start(w, at, &count, &step);                                   \
                if (ended_behind(pool, at, count)) return;                                         \
                for (int64_t k = 0; k < count; k++) {                                              \
                    T value = x[start + k * step];                                                 \
                    bool more = value > best || where < 0 || (is_nan(value) && !is_nan(best));     \
                    if (more) where = start + k * step;                                            \
                    if (more) best = value;                                                        \
                }                                                                                  \
            } while (next_row(w, at));                                                             \
            y[o] = best;                                                                           \
            if (where < 0) where = 0;                                                              \
            if (indices)                                                                           \
                indices[o] = (int64_t)(plane * w->in) +                                            \
                             (pool->column_major ? column_major_at(w, where) : where);             \
        }                                                                                          \
    }
#define NEVER(x)  ((void)(x), false) /* integers are no NaN */
#define IS_NAN(x) ((x) != (x))
MAX_POOL(float, float, -INFINITY, IS_NAN)
MAX_POOL(double, double, -(double)INFINITY, IS_NAN)
MAX_POOL(int8_t, int8, INT8_MIN, NEVER)
MAX_POOL(uint8_t, uint8, 0, NEVER)

static double power(double x, double p) {
    x = fabs(x);
    return p == 2 ? x * x : p == 1 ? x : pow(x, p);
}

/* TERM of an element v is summed over the window, and RESULT made of the sum. */
#define SUM_POOL(kind, T, name, TERM, RESULT)                                                      \
    static void kind##_##name(const Pool *pool, uint64_t plane, PoolWindow *at) {                  \
        const Window *w = pool->window;                                                            \
        const T *x = (const T *)pool->x + plane * w->in;                                           \
        T *y = (T *)pool->y + plane * w->out;                                                      \
        for (uint64_t o = 0; o < w->out; o++, window_next_output(w, at->output)) {                 \
            place(pool, at);                                                                       \
            double sum = 0;                                                                        \
            int64_t count, step;                                                                   \
            do {                                                                                   \
                if (at->empty) break;                                                              \
                int64_t start = row_start(w, at, &count, &step);                                   \
                if (ended_behind(pool, at, count)) return;                                         \
                for (int64_t k = 0; k < count; k++) {                                              \
                    const double v = (double)x[start + k * step];                                  \
                    sum += TERM;                                                                   \
                }                                                                                  \
            } while (next_row(w, at));                                                             \
            y[o] = (T)(RESULT);                                                                    \
        }                                                                                          \
    }
#define MEAN_OF_SUM (at->counted > 0 ? sum / at->counted : 0)
#define ROOT_OF_SUM (pool->p == 2 ? sqrt(sum) : pow(sum, 1 / pool->p))
SUM_POOL(average, float, float, v, MEAN_OF_SUM)
SUM_POOL(average, double, double, v, MEAN_OF_SUM)
SUM_POOL(lp, float, float, power(v, pool->p), ROOT_OF_SUM)
SUM_POOL(lp, double, double, power(v, pool->p), ROOT_OF_SUM)

typedef void PoolPlane(const Pool *pool, uint64_t plane, PoolWindow *at);

typedef struct WindowsJob {
    const Pool *pool;
    PoolPlane *run;
    int64_t *indices; /* `size` of them a lane, on cache lines of their own */
    uint64_t size;
} WindowsJob;

static void windows_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const WindowsJob *job = data;
    const uint32_t rank = job->pool->window->rank;
    int64_t *own = job->indices + job->size * lane;
    for (uint64_t plane = first; plane < end; plane++) {
        memset(own, 0, job->size * sizeof *own);
        PoolWindow at = {.first = own,
                         .last = own + rank,
                         .tap = own + 2 * (uint64_t)rank,
                         .output = own + 3 * (uint64_t)rank,
                         .lane = lane};
        job->run(job->pool, plane, &at);
    }
}

static void run_planes(KernelCall *call, const Pool *pool, PoolPlane *run) {
    const Window *w = pool->window;
    WindowsJob job = {.pool = pool, .run = run, .size = 4 * (uint64_t)w->rank + 8};
    double taps = 1;
    for (uint32_t i = 0; i < w->rank; i++) taps *= (double)w->axes[i].taps;
    job.indices = ARENA_ARRAY(call->scratch, int64_t, job.size * kernel_threads(call));
    kernel_run_parts(
        call->workers,
        kernel_work_cut(call, 4 * taps * (double)w->out * (double)pool->planes, pool->planes),
        windows_part, &job);
}

static bool pool_make(KernelCall *call, Window *window, Pool *pool) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    KernelTensor *y = &call->outputs[0], *indices = kernel_result(call, 1);
    if (!window_make(call, attrs, NULL, window)) return false;
    if (x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1] || x->dtype != y->dtype ||
        (indices && (indices->dtype != DTYPE_INT64 || indices->count != y->count)))
        return kernel_fail(call, "the result has a different type or size");
    *pool = (Pool){.call = call,
                   .window = window,
                   .x = x->data,
                   .y = y->data,
                   .indices = indices ? indices->data : NULL,
                   .column_major = attrs->storage_order != 0,
                   .count_pads = attrs->count_include_pad != 0,
                   .p = (double)attrs->p,
                   .planes = y->count ? (uint64_t)(x->dims[0] * x->dims[1]) : 0};
    if (y->count && !x->count) return kernel_fail(call, "the input is empty");
    return true;
}

static bool pool_run(KernelCall *call, const Pool *pool, PoolPlane *run) {
    if (!run)
        return kernel_fail(call, "this pooling is not supported for %s",
                           dtype_name(call->inputs[0].dtype));
    run_planes(call, pool, run);
    return true;
}

static bool run_max_or_mean(KernelCall *call, bool mean) {
    Window window;
    Pool pool;
    if (!pool_make(call, &window, &pool)) return false;
    Dtype dtype = call->inputs[0].dtype;
    PoolPlane *run = NULL;
    if (dtype == DTYPE_FLOAT)
        run = mean ? average_float : max_float;
    else if (dtype == DTYPE_DOUBLE)
        run = mean ? average_double : max_double;
    else if (dtype == DTYPE_INT8 && !mean)
        run = max_int8;
    else if (dtype == DTYPE_UINT8 && !mean)
        run = max_uint8;
    if (dtype != DTYPE_FLOAT || !pool.planes || !planes_suit(&pool)) {
        if (!mean && pool.planes) find_ranges(call, &pool);
        return pool_run(call, &pool, run);
    }
    run_planes_of(call, &pool, mean);
    return true;
}

bool kernel_max_pool(KernelCall *call) {
    return run_max_or_mean(call, false);
}
bool kernel_average_pool(KernelCall *call) {
    return run_max_or_mean(call, true);
}

static bool run_lp_pool(KernelCall *call, bool real_p) {
    Window window;
    Pool pool;
    if (!pool_make(call, &window, &pool)) return false;
    if (real_p) pool.p = (double)((const WindowAttrs *)call->attrs)->real_p;
    Dtype dtype = call->inputs[0].dtype;
    return pool_run(call, &pool,
                    dtype == DTYPE_FLOAT    ? lp_float
                    : dtype == DTYPE_DOUBLE ? lp_double
                                            : NULL);
}

bool kernel_lp_pool_1(KernelCall *call) {
    return run_lp_pool(call, true);
}
bool kernel_lp_pool(KernelCall *call) {
    return run_lp_pool(call, false);
}
