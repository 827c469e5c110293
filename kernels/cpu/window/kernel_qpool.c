// SPDX-License-Identifier: Apache-2.0
/* QAveragePool, QAveragePoolLast: means of windows of bytes. Sums are integers, and so exact; a mean
 * is computed in float and rounded once. What padding is, and which elements count, is as in
 * kernel_pool.c: padding is the zero point, and a window that holds no element is the result's.
 *
 * Lines of bytes are added up, each with all taps of the axes before: pixels of channels-last data
 * are such lines, of other data those along the last axis, whose own taps are added afterwards.
 */
#include <math.h>
#include <string.h>

#include "byte_operands.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_rows.h"
#include "window.h"

enum {
    X_ZERO = 1,
    Y_ZERO,
    FACTOR,
    TAPS_MOST = 1 << 16, /* so that float holds all sums */
    PLANE_MOST = 64,
    STEP = 32,   /* elements that loops go in best */
    CHUNK = 252, /* lines whose sums 16 bits hold: a multiple of TOGETHER */
    TOGETHER = 4,
};

/* From sums to the result's bytes. */
typedef struct MeanEnd {
    float factor, low, high; /* bounds: the type's, less the zero point */
    int32_t zero;
} MeanEnd;

/* Of each output along an axis: its taps inside the input, and how many elements count, at least
 * 1. */
typedef struct AxisTaps {
    int64_t *first, *last;
    float *counts;
} AxisTaps;

typedef struct QPool {
    const Window *window;
    uint32_t walked; /* axes whose taps are lines */
    const char *x;
    char *y;
    const struct LineLoops *loops;
    bool count_pads;
    int32_t x_zero;
    MeanEnd end;
    const AxisTaps *axes; /* [rank] */
    uint64_t taps;        /* of a window */
    uint64_t line;        /* elements of one */
    uint64_t outputs;     /* of a line of results: `line` of pixels */
    int64_t *from, *to;   /* [taps of the last axis]: outputs that see one; not of pixels */
    const float *counts;  /* [outputs]: elements that count along the last axis; of pixels, 1 */
} QPool;

/* What a thread has of its own. The window at hand is of the axes that are walked. */
typedef struct PoolLane {
    int64_t *output, *tap; /* [rank] */
    const uint8_t **lines; /* [taps + TOGETHER] */
    uint64_t count;        /* of lines */
    float counted;         /* elements, with padding where that counts */
    int16_t *narrow;       /* [line] */
    int32_t *sums;         /* [line] */
    int32_t *across;       /* [outputs] */
} PoolLane;

/* ---- lines ----------------------------------------------------------------------------------- */

/* Loops over lines of bytes, signed or not. Sums of up to CHUNK of them fit 16 bits of the same
 * kind, which is what `narrow` is. */
typedef struct LineLoops {
    /* narrow[i] = sum over k < count of lines[k][i] */
    void (*add)(void *narrow, const uint8_t *const *lines, uint64_t count, uint64_t n);
    /* to[i] = narrow[i * stride] - less, added to what is there where `more` */
    void (*widen)(int32_t *to, const void *narrow, uint64_t n, uint64_t stride, int32_t less,
                  bool more);
    /* y[i] = the mean of narrow[i] - less, of that many elements */
    void (*finish)(uint8_t *y, const void *narrow, const MeanEnd *end, int32_t less, float counted,
                   uint64_t n);
} LineLoops;

/* v + 1.5 * 2^23 rounds to nearest. The division is one, so that means that float holds are exact. */
static inline uint8_t mean_byte(int32_t sum, float counted, const MeanEnd *end) {
    float v = (float)sum * end->factor / counted;
    v = v > end->low ? v : end->low;
    v = v < end->high ? v : end->high;
    return (uint8_t)((int32_t)((v + 12582912.0f) - 12582912.0f) + end->zero);
}

#define FOUR(i) (a[i] + b[i] + (c[i] + d[i]))
#define LINE_LOOPS(name, T, S)                                                                     \
    ROW_CLONES static void name##_four(S *sums, const uint8_t *const *lines, uint64_t n,           \
                                       bool more) {                                                \
        const T *a = (const T *)lines[0], *b = (const T *)lines[1];                                \
        const T *c = (const T *)lines[2], *d = (const T *)lines[3];                                \
        if (more)                                                                                  \
            ROW_EACH(n, sums[i] = (S)(sums[i] + FOUR(i)))                                          \
        else                                                                                       \
            ROW_EACH(n, sums[i] = (S)FOUR(i))                                                      \
    }                                                                                              \
    ROW_CLONES static void name##_one(S *sums, const uint8_t *line, uint64_t n, bool more) {       \
        const T *a = (const T *)line;                                                              \
        if (more)                                                                                  \
            ROW_EACH(n, sums[i] = (S)(sums[i] + a[i]))                                             \
        else                                                                                       \
            ROW_EACH(n, sums[i] = a[i])                                                            \
    }                                                                                              \
    static void name##_add(void *narrow, const uint8_t *const *lines, uint64_t count,              \
                           uint64_t n) {                                                           \
        uint64_t k = 0;                                                                            \
        for (; k + TOGETHER <= count; k += TOGETHER) name##_four(narrow, lines + k, n, k);         \
        for (; k < count; k++) name##_one(narrow, lines[k], n, k);                                 \
    }                                                                                              \
    ROW_CLONES static void name##_widen(int32_t *to, const void *narrow, uint64_t n,               \
                                        uint64_t stride, int32_t less, bool more) {                \
        const S *sums = narrow;                                                                    \
        if (more)                                                                                  \
            ROW_EACH(n, to[i] += sums[i * stride] - less)                                          \
        else if (stride == 1)                                                                      \
            ROW_EACH(n, to[i] = sums[i] - less)                                                    \
        else if (stride == 2)                                                                      \
            ROW_EACH(n, to[i] = sums[2 * i] - less)                                                \
        else                                                                                       \
            for (uint64_t i = 0; i < n; i++) to[i] = sums[i * stride] - less;                      \
    }                                                                                              \
    ROW_CLONES static void name##_finish(uint8_t *y, const void *narrow, const MeanEnd *given,     \
                                         int32_t less, float counted, uint64_t n) {                \
        const MeanEnd end = *given;                                                                \
        const S *sums = narrow;                                                                    \
        ROW_EACH(n, y[i] = mean_byte(sums[i] - less, counted, &end))                               \
    }                                                                                              \
    static const LineLoops name = {name##_add, name##_widen, name##_finish};
LINE_LOOPS(signed_lines, int8_t, int16_t)
LINE_LOOPS(unsigned_lines, uint8_t, uint16_t)

ROW_CLONES static void finish_means(uint8_t *y, const int32_t *sums, const float *counts,
                                    const MeanEnd *given, float counted, uint64_t n) {
    const MeanEnd end = *given;
    ROW_EACH(n, y[i] = mean_byte(sums[i], counts[i] * counted, &end))
}

ROW_CLONES static void add_steps(int32_t *to, const int32_t *from, int64_t n, int64_t stride) {
    if (stride == 1) {
        ROW_LOOP
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
    } else if (stride == 2) {
        ROW_LOOP
        for (int64_t i = 0; i < n; i++) to[i] += from[2 * i];
    } else {
        for (int64_t i = 0; i < n; i++) to[i] += from[i * stride];
    }
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The next row of taps of the walked axes, all but the last of which it steps. */
static bool next_row(const QPool *pool, PoolLane *lane) {
    for (uint32_t i = pool->walked - 1; i-- > 0;) {
        if (++lane->tap[i] < pool->axes[i].last[lane->output[i]]) return true;
        lane->tap[i] = pool->axes[i].first[lane->output[i]];
    }
    return false;
}

/* The lines that the output at hand sees. */
static void find_lines(const QPool *pool, PoolLane *lane, const char *from) {
    const uint32_t walked = pool->walked;
    const WindowAxis *axes = pool->window->axes;
    bool empty = walked == 0;
    lane->counted = 1;
    lane->count = 0;
    if (walked == 0) lane->lines[lane->count++] = (const uint8_t *)from;
    for (uint32_t i = 0; i < walked; i++) {
        const int64_t o = lane->output[i];
        lane->counted *= pool->axes[i].counts[o];
        lane->tap[i] = pool->axes[i].first[o];
        empty |= lane->tap[i] >= pool->axes[i].last[o];
    }
    if (empty) return;
    const AxisTaps *inner = &pool->axes[walked - 1];
    const int64_t first = lane->tap[walked - 1], last = inner->last[lane->output[walked - 1]];
    const uint64_t step = (uint64_t)axes[walked - 1].dilation * pool->line;
    do {
        int64_t place = 0;
        for (uint32_t i = 0; i < walked; i++)
            place = place * axes[i].in + lane->output[i] * axes[i].stride +
                    lane->tap[i] * axes[i].dilation - axes[i].begin;
        uint64_t at = (uint64_t)place * pool->line;
        for (int64_t t = first; t < last; t++, at += step)
            lane->lines[lane->count++] = (const uint8_t *)from + at;
    } while (next_row(pool, lane));
}

/* The sums of the lines at hand, less their zero points. */
static void add_lines(const QPool *pool, PoolLane *lane) {
    if (lane->count == 0) memset(lane->sums, 0, pool->line * sizeof *lane->sums);
    for (uint64_t first = 0; first < lane->count; first += CHUNK) {
        const uint64_t left = lane->count - first, chunk = left < CHUNK ? left : CHUNK;
        pool->loops->add(lane->narrow, lane->lines + first, chunk, pool->line);
        pool->loops->widen(lane->sums, lane->narrow, pool->line, 1, pool->x_zero * (int32_t)chunk,
                           first);
    }
}

/* The sums of a line of results: of pixels as they are, else over the last axis' taps. */
static const int32_t *sum_across(const QPool *pool, PoolLane *lane) {
    if (!pool->from) return lane->sums;
    const WindowAxis *axis = &pool->window->axes[pool->walked];
    memset(lane->across, 0, pool->outputs * sizeof *lane->across);
    for (int64_t t = 0; t < axis->taps; t++) {
        const int64_t first = pool->from[t], count = pool->to[t] - first;
        if (count > 0)
            add_steps(lane->across + first,
                      lane->sums + first * axis->stride + t * axis->dilation - axis->begin, count,
                      axis->stride);
    }
    return lane->across;
}

static void make_line(const QPool *pool, PoolLane *lane, uint8_t *y) {
    if (!pool->from && lane->count > 0 && lane->count <= CHUNK) {
        pool->loops->add(lane->narrow, lane->lines, lane->count, pool->line);
        pool->loops->finish(y, lane->narrow, &pool->end, pool->x_zero * (int32_t)lane->count,
                            lane->counted, pool->line);
        return;
    }
    add_lines(pool, lane);
    finish_means(y, sum_across(pool, lane), pool->counts, &pool->end, lane->counted, pool->outputs);
}

typedef struct PoolJob {
    const QPool *pool;
    PoolLane *lanes;
    uint64_t lines; /* of results, of an image or plane */
    uint64_t in;    /* bytes of one's input */
} PoolJob;

static void run_lines(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const PoolJob *job = data;
    const QPool *pool = job->pool;
    PoolLane *own = &job->lanes[lane];
    uint64_t rest = first % job->lines;
    for (uint32_t i = pool->walked; i-- > 0; rest /= (uint64_t)pool->window->axes[i].out)
        own->output[i] = (int64_t)(rest % (uint64_t)pool->window->axes[i].out);
    for (uint64_t o = first; o < end; o++) {
        find_lines(pool, own, pool->x + o / job->lines * job->in);
        make_line(pool, own, (uint8_t *)pool->y + o * pool->outputs);
        for (uint32_t i = pool->walked; i-- > 0; own->output[i] = 0)
            if (++own->output[i] < pool->window->axes[i].out) break;
    }
}

/* ---- planes ------------------------------------------------------------------------------------
 *
 * Data of one or two axes whose channels come second: a plane is copied between its padding, so that
 * each tap is one line of the whole of it, from which rows and columns are picked. */

typedef struct Planes {
    const QPool *pool;
    WindowAxis y, x;
    uint64_t width, size;  /* of a padded plane: bytes of a row, and of all */
    uint64_t places;       /* from the first output's to the last one's, in it */
    uint64_t narrow, wide; /* elements */
    const float *counts;   /* [outputs of a plane] */
    PoolLane *lanes;
    uint8_t **padded; /* [lanes][size] */
} Planes;

static void copy_plane(const Planes *p, const char *from, uint8_t *to) {
    const int64_t room = (int64_t)p->width - p->x.begin, rows = (int64_t)(p->size / p->width);
    const int64_t count = p->x.in < room ? p->x.in : room;
    to += (uint64_t)p->y.begin * p->width + (uint64_t)p->x.begin;
    for (int64_t i = 0; i < p->y.in && i + p->y.begin < rows && count > 0; i++, to += p->width)
        memcpy(to, from + i * p->x.in, (size_t)count);
}

static void run_planes(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Planes *p = data;
    const QPool *pool = p->pool;
    const PoolLane *own = &p->lanes[lane];
    const uint64_t outputs = (uint64_t)(p->y.out * p->x.out), columns = (uint64_t)p->x.out;
    const int32_t less = pool->x_zero * (int32_t)pool->taps;
    const uint64_t step = (uint64_t)p->y.stride * p->width;
    for (uint64_t i = first; i < end; i++) {
        const char *narrow = (const char *)own->narrow;
        copy_plane(p, pool->x + i * pool->window->in, p->padded[lane]);
        pool->loops->add(own->narrow, own->lines, pool->taps, p->places);
        for (uint64_t o = 0; o < outputs; o += columns, narrow += step * sizeof(int16_t))
            pool->loops->widen(own->sums + o, narrow, p->wide, (uint64_t)p->x.stride, less, false);
        finish_means((uint8_t *)pool->y + i * outputs, own->sums, p->counts, &pool->end, 1,
                     outputs);
    }
}

static uint64_t in_steps(uint64_t size) {
    return (size + STEP - 1) / STEP * STEP;
}

static bool planes_suit(const QPool *pool) {
    const Window *w = pool->window;
    if (w->rank > 2 || pool->taps > CHUNK) return false;
    for (uint32_t i = 0; i < w->rank; i++) {
        const WindowAxis *axis = &w->axes[i];
        /* what is padded is not much larger than it was, and what is picked is much of it */
        if (axis->dilation > PLANE_MOST || axis->stride > 4 || axis->begin > PLANE_MOST ||
            axis->taps > PLANE_MOST || axis->out > axis->in + PLANE_MOST)
            return false;
    }
    return true;
}

/* False with the error set past the memory budget. */
static bool planes_make(KernelCall *call, const QPool *pool, Planes *p) {
    const Window *w = pool->window;
    const AxisTaps *x = &pool->axes[w->rank - 1];
    float *counts = ARENA_ARRAY(call->scratch, float, w->out);
    const unsigned threads = kernel_threads(call);
    *p = (Planes){.pool = pool, .x = w->axes[w->rank - 1], .counts = counts};
    p->y = w->rank == 2 ? w->axes[0]
                        : (WindowAxis){.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};
    const uint64_t across = (uint64_t)((p->x.out - 1) * p->x.stride);
    p->wide = in_steps((uint64_t)p->x.out);
    p->width = in_steps(across + (uint64_t)((p->x.taps - 1) * p->x.dilation + 1));
    const uint64_t down = (uint64_t)((p->y.out - 1) * p->y.stride);
    p->size = p->width * (down + (uint64_t)((p->y.taps - 1) * p->y.dilation + 1));
    p->places = in_steps(down * p->width + across + 1);
    p->narrow = down * p->width + p->wide * (uint64_t)p->x.stride + STEP;
    for (uint64_t o = 0; o < w->out; o++)
        counts[o] = x->counts[o % (uint64_t)p->x.out] *
                    (w->rank == 2 ? pool->axes[0].counts[o / (uint64_t)p->x.out] : 1);
    p->lanes = ARENA_ARRAY(call->scratch, PoolLane, threads);
    p->padded = ARENA_ARRAY(call->scratch, uint8_t *, threads);
    for (unsigned i = 0; i < threads; i++) {
        PoolLane *lane = &p->lanes[i];
        uint8_t *padded = p->padded[i] = kernel_workspace(call, p->size + STEP);
        lane->narrow = kernel_workspace(call, p->narrow * sizeof *lane->narrow);
        lane->sums = kernel_workspace(call, (w->out + p->wide) * sizeof *lane->sums);
        if (!padded || !lane->narrow || !lane->sums) return false;
        memset(padded, pool->x_zero, p->size + STEP);
        memset(lane->narrow, 0, p->narrow * sizeof *lane->narrow);
        lane->lines = ARENA_ARRAY(call->scratch, const uint8_t *, pool->taps);
        for (int64_t k = 0; k < (int64_t)pool->taps; k++)
            lane->lines[k] = padded + (uint64_t)(k / p->x.taps * p->y.dilation) * p->width +
                             (uint64_t)(k % p->x.taps * p->x.dilation);
    }
    return true;
}

/* ---- getting ready --------------------------------------------------------------------------- */

static bool read_end(KernelCall *call, QPool *pool) {
    const KernelTensor *x = &call->inputs[0], *zero = &call->inputs[Y_ZERO];
    const Dtype to = call->outputs[0].dtype;
    pool->loops = x->dtype == DTYPE_INT8 ? &signed_lines : &unsigned_lines;
    if (x->dtype != DTYPE_INT8 && x->dtype != DTYPE_UINT8)
        return kernel_fail(call, "an operand of %s", dtype_name(x->dtype));
    if ((to != DTYPE_INT8 && to != DTYPE_UINT8) || zero->dtype != to)
        return kernel_fail(call, "the result is %s", dtype_name(to));
    if (!byte_zero(call, X_ZERO, x->dtype, &pool->x_zero) ||
        !byte_zero(call, Y_ZERO, to, &pool->end.zero) ||
        !byte_number(call, FACTOR, &pool->end.factor))
        return false;
    pool->end.low = (float)((to == DTYPE_INT8 ? INT8_MIN : 0) - pool->end.zero);
    pool->end.high = pool->end.low + UINT8_MAX;
    return true;
}

static int64_t round_up(int64_t a, int64_t b) {
    return a <= 0 ? 0 : (a - 1) / b + 1;
}

static void find_axes(KernelCall *call, QPool *pool) {
    const Window *w = pool->window;
    AxisTaps *axes = ARENA_ARRAY(call->scratch, AxisTaps, w->rank);
    pool->axes = axes;
    for (uint32_t i = 0; i < w->rank; i++) {
        const uint64_t out = (uint64_t)w->axes[i].out;
        axes[i].first = ARENA_ARRAY(call->scratch, int64_t, out);
        axes[i].last = ARENA_ARRAY(call->scratch, int64_t, out);
        axes[i].counts = ARENA_ARRAY(call->scratch, float, out);
        for (uint64_t o = 0; o < out; o++) {
            int64_t first, last;
            window_taps(&w->axes[i], (int64_t)o, pool->count_pads, &first, &last);
            axes[i].counts[o] = last > first ? (float)(last - first) : 1;
            window_taps(&w->axes[i], (int64_t)o, false, &axes[i].first[o], &axes[i].last[o]);
        }
    }
}

/* Of data whose last axis is along lines: the outputs that each of its taps belongs to. */
static void find_outputs(KernelCall *call, QPool *pool) {
    const WindowAxis *axis = &pool->window->axes[pool->walked];
    pool->counts = pool->axes[pool->walked].counts;
    pool->from = ARENA_ARRAY(call->scratch, int64_t, (uint64_t)axis->taps);
    pool->to = ARENA_ARRAY(call->scratch, int64_t, (uint64_t)axis->taps);
    for (int64_t t = 0; t < axis->taps; t++) {
        const int64_t at = t * axis->dilation - axis->begin;
        const int64_t end = round_up(axis->in - at, axis->stride);
        pool->from[t] = round_up(-at, axis->stride);
        pool->to[t] = end < axis->out ? end : axis->out;
    }
}

/* NULL with the error set past the memory budget. */
static PoolLane *make_lanes(KernelCall *call, const QPool *pool) {
    const uint32_t rank = pool->window->rank;
    const unsigned threads = kernel_threads(call);
    PoolLane *lanes = ARENA_ARRAY(call->scratch, PoolLane, threads);
    for (unsigned i = 0; i < threads; i++) {
        int64_t *own = ARENA_ARRAY(call->scratch, int64_t, 2 * (uint64_t)rank + 8);
        lanes[i] = (PoolLane){.output = own, .tap = own + rank};
        lanes[i].lines = ARENA_ARRAY(call->scratch, const uint8_t *, pool->taps);
        lanes[i].narrow = kernel_workspace(call, pool->line * sizeof(int16_t) + 64);
        lanes[i].sums = kernel_workspace(call, pool->line * sizeof(int32_t) + 64);
        lanes[i].across = kernel_workspace(call, pool->outputs * sizeof(int32_t) + 64);
        if (!lanes[i].narrow || !lanes[i].sums || !lanes[i].across) return NULL;
    }
    return lanes;
}

/* Lines of pixels, or along the last axis. */
static bool run_by_lines(KernelCall *call, QPool *pool, bool last) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const Window *w = pool->window;
    const WindowAxis *along = &w->axes[w->rank - 1];
    const uint64_t channels = (uint64_t)x->dims[w->channel_axis];
    pool->walked = last ? w->rank : w->rank - 1;
    pool->line = last ? channels : (uint64_t)along->in;
    pool->outputs = last ? channels : (uint64_t)along->out;
    if (!last) find_outputs(call, pool);
    float *ones = last ? ARENA_ARRAY(call->scratch, float, channels) : NULL;
    for (uint64_t i = 0; last && i < channels; i++) ones[i] = 1;
    if (last) pool->counts = ones;
    const PoolJob job = {.pool = pool,
                         .lanes = make_lanes(call, pool),
                         .lines = last ? w->out : w->out / pool->outputs,
                         .in = last ? w->in * channels : w->in};
    if (!job.lanes) return false;
    const double work = (double)pool->taps * (double)y->count / 8;
    kernel_run_parts(call->workers, kernel_work_cut(call, work, y->count / pool->outputs),
                     run_lines, &job);
    return true;
}

static bool run_by_planes(KernelCall *call, const QPool *pool) {
    Planes planes;
    if (!planes_make(call, pool, &planes)) return false;
    const uint64_t count = call->outputs[0].count / pool->window->out;
    const double work = (double)pool->taps * (double)planes.size * (double)count / 8;
    kernel_run_parts(call->workers, kernel_work_cut(call, work, count), run_planes, &planes);
    return true;
}

bool kernel_q_average_pool(KernelCall *call) {
    const WindowAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    Window window;
    double taps = 1;
    if (!window_make(call, attrs, NULL, &window)) return false;
    QPool pool = {.window = &window, .x = x->data, .y = y->data};
    pool.count_pads = attrs->count_include_pad != 0;
    if (window.rank < 1) return kernel_fail(call, "data of rank %u", x->rank);
    if (x->dims[0] != y->dims[0] || x->dims[window.channel_axis] != y->dims[window.channel_axis])
        return kernel_fail(call, "the result has a different size");
    if (!read_end(call, &pool)) return false;
    if (y->count == 0) return true;
    if (x->count == 0) return kernel_fail(call, "the input is empty");
    for (uint32_t i = 0; i < window.rank; i++) taps *= (double)window.axes[i].taps;
    if (taps > TAPS_MOST) return kernel_fail(call, "a window of %.0f elements", taps);
    pool.taps = (uint64_t)taps;
    find_axes(call, &pool);
    if (!attrs->channels_last && planes_suit(&pool)) return run_by_planes(call, &pool);
    return run_by_lines(call, &pool, attrs->channels_last != 0);
}
