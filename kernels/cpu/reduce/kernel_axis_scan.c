// SPDX-License-Identifier: Apache-2.0
/* Along one axis: ArgMax and ArgMin, CumSum and CumProd.
 *
 * NaN is larger and smaller than all else, as in numpy, so it is what is found. Running sums and
 * products of floats are kept in double; those of integers wrap.
 */
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "kernel_reduce.h"

/* ---- work ------------------------------------------------------------------------------------ */

/* One outer step of an axis, and some of its inner ones, which are columns. */
typedef struct AxisSpan {
    AxisLoops a;
    uint64_t o, column, columns;
    bool last; /* of equal ones the last is found */
} AxisSpan;

enum { COLUMNS = 512, STRETCH = 1024, LANES = 32 };

static uint64_t axis_blocks(AxisLoops a) {
    return a.inner / COLUMNS + (a.inner % COLUMNS != 0);
}

/* Block b of columns, of all outer steps' in a row. */
static AxisSpan span_at(AxisLoops a, uint64_t blocks, uint64_t b) {
    AxisSpan span = {.a = a, .o = b / blocks, .column = b % blocks * COLUMNS};
    span.columns = a.inner - span.column < COLUMNS ? a.inner - span.column : COLUMNS;
    return span;
}

/* ---- ArgMax, ArgMin -------------------------------------------------------------------------- */

#define ABOVE(a, b) ((a) > (b))
#define BELOW(a, b) ((a) < (b))

/* True where v is to be found rather than b. */
#define ARG_WINS(BETTER, v, b, last)                                                               \
    (BETTER(v, b) | (((v) != (v)) & ((b) == (b))) |                                                \
     ((last) & (((v) == (b)) | (((v) != (v)) & ((b) != (b))))))

#define ARG_IS(v, best) (((v) == (best)) | (((v) != (v)) & ((best) != (best))))

/* One row: the best of each stretch in lanes, then where it is in the best stretch. */
#define ARG_ROW(name, T, BETTER)                                                                   \
    KERNEL_INLINE T name##_best(const T *x, uint64_t n) {                                          \
        T lanes[LANES], best = x[0];                                                               \
        uint64_t i = 0;                                                                            \
        for (int k = 0; k < LANES; k++) lanes[k] = best;                                           \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int k = 0; k < LANES; k++) {                                                      \
                T v = x[i + (uint64_t)k], b = lanes[k];                                            \
                lanes[k] = (BETTER(v, b) | (v != v)) ? v : b;                                      \
            }                                                                                      \
        for (int k = 0; k < LANES; k++)                                                            \
            best = ARG_WINS(BETTER, lanes[k], best, 0) ? lanes[k] : best;                          \
        for (; i < n; i++) best = ARG_WINS(BETTER, x[i], best, 0) ? x[i] : best;                   \
        return best;                                                                               \
    }                                                                                              \
    KERNEL_INLINE int64_t name##_row(const T *x, uint64_t n, bool last) {                          \
        uint64_t start = 0, size = n < STRETCH ? n : STRETCH;                                      \
        T best = name##_best(x, size);                                                             \
        for (uint64_t s = size; s < n; s += STRETCH) {                                             \
            uint64_t count = n - s < STRETCH ? n - s : STRETCH;                                    \
            T found = name##_best(x + s, count);                                                   \
            if (!ARG_WINS(BETTER, found, best, last)) continue;                                    \
            best = found;                                                                          \
            start = s;                                                                             \
            size = count;                                                                          \
        }                                                                                          \
        uint64_t at = last ? size : 0;                                                             \
        while (size >= LANES) { /* passes by what does not have it */                              \
            const T *lane = x + start + (last ? at - LANES : at);                                  \
            unsigned hits = 0;                                                                     \
            for (int k = 0; k < LANES; k++) hits |= ARG_IS(lane[k], best);                         \
            if (hits || (last ? at < 2 * LANES : at + 2 * LANES > size)) break;                    \
            at = last ? at - LANES : at + LANES;                                                   \
        }                                                                                          \
        if (last)                                                                                  \
            while (at > 1 && !ARG_IS(x[start + at - 1], best)) at--;                               \
        else                                                                                       \
            while (at + 1 < size && !ARG_IS(x[start + at], best)) at++;                            \
        return (int64_t)(start + at - last);                                                       \
    }

#define ARG_LOOP(CLONES, name, T, BETTER)                                                          \
    ARG_ROW(name, T, BETTER)                                                                       \
    CLONES                                                                                         \
    static void name(const AxisSpan *s, const void *in, int64_t *index) {                          \
        const uint64_t n = s->columns, inner = s->a.inner;                                         \
        const T *x = (const T *)in + s->o * s->a.n * inner + s->column;                            \
        int64_t *at = index + s->o * inner + s->column;                                            \
        T best[COLUMNS];                                                                           \
        if (inner == 1) {                                                                          \
            at[0] = name##_row(x, s->a.n, s->last);                                                \
            return;                                                                                \
        }                                                                                          \
        for (uint64_t i = 0; i < n; i++) best[i] = x[i];                                           \
        for (uint64_t i = 0; i < n; i++) at[i] = 0;                                                \
        for (uint64_t k = 1; k < s->a.n; k++)                                                      \
            for (uint64_t i = 0; i < n; i++) {                                                     \
                T v = x[k * inner + i], b = best[i];                                               \
                bool wins = ARG_WINS(BETTER, v, b, s->last);                                       \
                at[i] = wins ? (int64_t)k : at[i];                                                 \
                best[i] = wins ? v : b;                                                            \
            }                                                                                      \
    }

#define NUMBER_TYPES(X)                                                                            \
    X(KERNEL_CLONES, FLOAT, float)                                                                 \
    X(KERNEL_CLONES, DOUBLE, double)                                                               \
    X(KERNEL_CLONES, INT8, int8_t)                                                                 \
    X(KERNEL_ONCE, INT16, int16_t)                                                                 \
    X(KERNEL_CLONES, INT32, int32_t)                                                               \
    X(KERNEL_CLONES, INT64, int64_t)                                                               \
    X(KERNEL_CLONES, UINT8, uint8_t)                                                               \
    X(KERNEL_ONCE, UINT16, uint16_t)                                                               \
    X(KERNEL_ONCE, UINT32, uint32_t)                                                               \
    X(KERNEL_ONCE, UINT64, uint64_t)
#define ARG_BOTH(CLONES, D, T)                                                                     \
    ARG_LOOP(CLONES, arg_max_##T, T, ABOVE) ARG_LOOP(CLONES, arg_min_##T, T, BELOW)
NUMBER_TYPES(ARG_BOTH)

typedef void (*ArgFunction)(const AxisSpan *span, const void *in, int64_t *index);

typedef struct ArgJob {
    ArgFunction function;
    const KernelTensor *x;
    int64_t *index;
    AxisLoops a;
    uint64_t blocks; /* of columns */
    bool last;
} ArgJob;

static void arg_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const ArgJob *job = data;
    (void)lane;
    for (uint64_t b = first; b < end; b++) {
        AxisSpan span = span_at(job->a, job->blocks, b);
        span.last = job->last;
        job->function(&span, job->x->data, job->index);
    }
}

static bool arg(KernelCall *call, const ArgFunction *functions) {
    const ArgAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    uint32_t axis;
    if (!functions[x->dtype])
        return kernel_fail(call, "it is not defined for %s", dtype_name(x->dtype));
    if (x->rank == 0) { /* one element, whatever the axis: -1 and 0 are accepted */
        if (y->count == 1) *(int64_t *)y->data = 0;
        return true;
    }
    if (!kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
    AxisLoops loops = axis_loops(x, axis);
    if (y->count != loops.outer * loops.inner)
        return kernel_fail(call, "the output has different dims");
    if (y->count == 0) return true;
    if (loops.n == 0) return kernel_fail(call, "an empty axis has no largest element");
    ArgJob job = {functions[x->dtype], x, y->data, loops, axis_blocks(loops), attrs->last != 0};
    const unsigned parts = kernel_parts(kernel_threads(call), x->count, 1);
    const KernelCut cut = kernel_element_cut(loops.outer * job.blocks, 1, parts, x->count);
    kernel_run_parts(call->workers, cut, arg_part, &job);
    return true;
}

#define MAX_ENTRY(CLONES, D, T) [DTYPE_##D] = arg_max_##T,
#define MIN_ENTRY(CLONES, D, T) [DTYPE_##D] = arg_min_##T,
bool kernel_arg_max(KernelCall *call) {
    static const ArgFunction functions[DTYPE_COUNT] = {NUMBER_TYPES(MAX_ENTRY)};
    return arg(call, functions);
}
bool kernel_arg_min(KernelCall *call) {
    static const ArgFunction functions[DTYPE_COUNT] = {NUMBER_TYPES(MIN_ENTRY)};
    return arg(call, functions);
}

/* ---- CumSum, CumProd ------------------------------------------------------------------------- */

/* Element k of an axis is visited k-th, or k-th from the end. */
#define CUM_LOOP(CLONES, name, T, A, NEUTRAL, OP)                                                  \
    CLONES                                                                                         \
    static void name(const AxisSpan *s, const CumAttrs *attrs, const void *in, void *out) {        \
        const AxisLoops a = s->a;                                                                  \
        A total[COLUMNS];                                                                          \
        for (uint64_t i = 0; i < s->columns; i++) total[i] = NEUTRAL;                              \
        for (uint64_t k = 0; k < a.n; k++) {                                                       \
            uint64_t row = s->o * a.n + (attrs->reverse ? a.n - 1 - k : k);                        \
            const T *x = (const T *)in + row * a.inner + s->column;                                \
            T *y = (T *)out + row * a.inner + s->column;                                           \
            for (uint64_t i = 0; i < s->columns; i++) {                                            \
                A before = total[i];                                                               \
                total[i] = before OP(A) x[i];                                                      \
                y[i] = (T)(attrs->exclusive ? before : total[i]);                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define CUM_TYPES(X)                                                                               \
    X(KERNEL_CLONES, FLOAT, float, double)                                                         \
    X(KERNEL_CLONES, DOUBLE, double, double)                                                       \
    X(KERNEL_CLONES, INT32, int32_t, uint64_t)                                                     \
    X(KERNEL_CLONES, INT64, int64_t, uint64_t)                                                     \
    X(KERNEL_ONCE, UINT32, uint32_t, uint64_t)                                                     \
    X(KERNEL_ONCE, UINT64, uint64_t, uint64_t)
#define CUM_BOTH(CLONES, D, T, A)                                                                  \
    CUM_LOOP(CLONES, cum_sum_##T, T, A, 0, +) CUM_LOOP(CLONES, cum_prod_##T, T, A, 1, *)
CUM_TYPES(CUM_BOTH)

typedef void (*CumFunction)(const AxisSpan *span, const CumAttrs *attrs, const void *in, void *out);

typedef struct CumJob {
    CumFunction function;
    const CumAttrs *attrs;
    const void *in;
    void *out;
    AxisLoops a;
    uint64_t blocks;
} CumJob;

static void cum_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const CumJob *job = data;
    (void)lane;
    for (uint64_t b = first; b < end; b++) {
        AxisSpan span = span_at(job->a, job->blocks, b);
        job->function(&span, job->attrs, job->in, job->out);
    }
}

static bool cumulate(KernelCall *call, const CumFunction *functions) {
    uint32_t axis;
    if (!kernel_want_same_count(call)) return false;
    const KernelTensor *x = &call->inputs[0], *where = &call->inputs[1];
    const int64_t *items = kernel_ints(call, where);
    if (!items || !kernel_want_count(call, where, 1, "axis")) return false;
    if (!kernel_axis(call, items[0], x->rank, &axis)) return false;
    if (!functions[x->dtype]) return kernel_fail(call, "cannot sum %s", dtype_name(x->dtype));
    if (x->count == 0) return true;
    AxisLoops loops = axis_loops(x, axis);
    CumJob job = {functions[x->dtype],   call->attrs, x->data,
                  call->outputs[0].data, loops,       axis_blocks(loops)};
    const unsigned parts = kernel_parts(kernel_threads(call), x->count, 1);
    const KernelCut cut = kernel_element_cut(loops.outer * job.blocks, 1, parts, x->count);
    kernel_run_parts(call->workers, cut, cum_part, &job);
    return true;
}

#define SUM_ENTRY(CLONES, D, T, A)  [DTYPE_##D] = cum_sum_##T,
#define PROD_ENTRY(CLONES, D, T, A) [DTYPE_##D] = cum_prod_##T,
bool kernel_cum_sum(KernelCall *call) {
    static const CumFunction functions[DTYPE_COUNT] = {CUM_TYPES(SUM_ENTRY)};
    return cumulate(call, functions);
}
bool kernel_cum_prod(KernelCall *call) {
    static const CumFunction functions[DTYPE_COUNT] = {CUM_TYPES(PROD_ENTRY)};
    return cumulate(call, functions);
}
