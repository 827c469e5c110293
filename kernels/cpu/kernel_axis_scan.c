// SPDX-License-Identifier: Apache-2.0
/* Along one axis: ArgMax and ArgMin, CumSum and CumProd.
 *
 * NaN is larger and smaller than all else, as in numpy, so it is what is found. Running sums and
 * products of floats are kept in double; those of integers wrap.
 */
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_reals.h"
#include "kernel_reduce.h"

/* ---- ArgMax, ArgMin -------------------------------------------------------------------------- */

typedef struct ArgAttrs {
    int64_t axis, last;
} ArgAttrs;
KERNEL_LAYOUT(arg, ArgAttrs, KERNEL_INT(ArgAttrs, axis, "axis", 0),
              KERNEL_INT(ArgAttrs, last, "select_last_index", 0));

#define ABOVE(a, b) ((a) > (b))
#define BELOW(a, b) ((a) < (b))

/* best: [inner] */
#define ARG_LOOP(name, T, BETTER)                                                                  \
    static void name##_row(const T *x, uint64_t n, int64_t *at, bool last) {                       \
        T best = x[0];                                                                             \
        for (uint64_t k = 1; k < n; k++) {                                                         \
            T v = x[k];                                                                            \
            if (!(BETTER(v, best) || v != v || (last && v == best))) continue;                     \
            if (best != best && (v == v || !last)) continue;                                       \
            best = v;                                                                              \
            *at = (int64_t)k;                                                                      \
        }                                                                                          \
    }                                                                                              \
    KERNEL_CLONES                                                                                  \
    static void name(AxisLoops a, const void *in, int64_t *index, void *space, bool last) {        \
        T *best = space;                                                                           \
        for (uint64_t o = 0; o < a.outer; o++) {                                                   \
            const T *x = (const T *)in + o * a.n * a.inner;                                        \
            int64_t *at = index + o * a.inner;                                                     \
            for (uint64_t i = 0; i < a.inner; i++) best[i] = x[i];                                 \
            for (uint64_t i = 0; i < a.inner; i++) at[i] = 0;                                      \
            if (a.inner == 1) {                                                                    \
                name##_row(x, a.n, at, last);                                                      \
                continue;                                                                          \
            }                                                                                      \
            for (uint64_t k = 1; k < a.n; k++)                                                     \
                for (uint64_t i = 0; i < a.inner; i++) {                                           \
                    T v = x[k * a.inner + i], b = best[i];                                         \
                    bool more = BETTER(v, b) | ((v != v) & (b == b));                              \
                    bool same = last & ((v == b) | ((v != v) & (b != b)));                         \
                    at[i] = (more | same) ? (int64_t)k : at[i];                                    \
                    best[i] = (more | same) ? v : b;                                               \
                }                                                                                  \
        }                                                                                          \
    }

#define NUMBER_TYPES(X)                                                                            \
    X(FLOAT, float)                                                                                \
    X(DOUBLE, double) X(INT8, int8_t) X(INT16, int16_t) X(INT32, int32_t) X(INT64, int64_t)        \
        X(UINT8, uint8_t) X(UINT16, uint16_t) X(UINT32, uint32_t) X(UINT64, uint64_t)
#define ARG_BOTH(D, T) ARG_LOOP(arg_max_##T, T, ABOVE) ARG_LOOP(arg_min_##T, T, BELOW)
NUMBER_TYPES(ARG_BOTH)

typedef void (*ArgFunction)(AxisLoops loops, const void *in, int64_t *index, void *space,
                            bool last);

static bool arg(KernelCall *call, const ArgFunction *functions) {
    const ArgAttrs *attrs = call->attrs;
    const KernelTensor *x = kernel_input(call, 0), *y = kernel_result(call, 0);
    uint32_t axis;
    if (!x || !y) return kernel_fail(call, "an operand is missing");
    if (y->dtype != DTYPE_INT64 || !functions[x->dtype])
        return kernel_fail(call, "indices of %s are %s", dtype_name(x->dtype),
                           dtype_name(y->dtype));
    if (x->rank == 0) { /* one element, whatever the axis: -1 and 0 are accepted */
        if (y->count == 1) *(int64_t *)y->data = 0;
        return true;
    }
    if (!kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
    AxisLoops loops = axis_loops(x, axis);
    if (y->count != loops.outer * loops.inner)
        return kernel_fail(call, "the output has other dims");
    if (y->count == 0) return true;
    if (loops.n == 0) return kernel_fail(call, "no element is largest in an axis of none");
    void *space = arena_array(call->scratch, loops.inner, sizeof(uint64_t));
    functions[x->dtype](loops, x->data, y->data, space, attrs->last != 0);
    return true;
}

#define MAX_ENTRY(D, T) [DTYPE_##D] = arg_max_##T,
#define MIN_ENTRY(D, T) [DTYPE_##D] = arg_min_##T,
bool kernel_arg_max(KernelCall *call) {
    static const ArgFunction functions[DTYPE_COUNT] = {NUMBER_TYPES(MAX_ENTRY)};
    return arg(call, functions);
}
bool kernel_arg_min(KernelCall *call) {
    static const ArgFunction functions[DTYPE_COUNT] = {NUMBER_TYPES(MIN_ENTRY)};
    return arg(call, functions);
}

/* ---- CumSum, CumProd ------------------------------------------------------------------------- */

typedef struct CumAttrs {
    int64_t exclusive, reverse;
} CumAttrs;
KERNEL_LAYOUT(cumulate, CumAttrs, KERNEL_INT(CumAttrs, exclusive, "exclusive", 0),
              KERNEL_INT(CumAttrs, reverse, "reverse", 0));

/* total: [inner], of A. Element k of an axis is visited k-th, or k-th from the end. */
#define CUM_LOOP(name, T, A, NEUTRAL, OP)                                                          \
    KERNEL_CLONES                                                                                  \
    static void name(AxisLoops a, const CumAttrs *attrs, const KernelTensor *in, void *out,        \
                     void *totals) {                                                               \
        A *total = totals;                                                                         \
        for (uint64_t o = 0; o < a.outer; o++) {                                                   \
            for (uint64_t i = 0; i < a.inner; i++) total[i] = NEUTRAL;                             \
            for (uint64_t k = 0; k < a.n; k++) {                                                   \
                uint64_t row = o * a.n + (attrs->reverse ? a.n - 1 - k : k);                       \
                const T *x = (const T *)in->data + row * a.inner;                                  \
                T *y = (T *)out + row * a.inner;                                                   \
                for (uint64_t i = 0; i < a.inner; i++) {                                           \
                    A before = total[i];                                                           \
                    total[i] = before OP(A) x[i];                                                  \
                    y[i] = (T)(attrs->exclusive ? before : total[i]);                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define CUM_TYPES(X)                                                                               \
    X(FLOAT, float, double)                                                                        \
    X(DOUBLE, double, double) X(INT32, int32_t, uint64_t) X(INT64, int64_t, uint64_t)              \
        X(UINT32, uint32_t, uint64_t) X(UINT64, uint64_t, uint64_t)
#define CUM_BOTH(D, T, A) CUM_LOOP(cum_sum_##T, T, A, 0, +) CUM_LOOP(cum_prod_##T, T, A, 1, *)
CUM_TYPES(CUM_BOTH)

typedef void (*CumFunction)(AxisLoops loops, const CumAttrs *attrs, const KernelTensor *in,
                            void *out, void *totals);

static bool cumulate(KernelCall *call, const CumFunction *functions) {
    uint32_t axis;
    if (!kernel_want_alike(call) || !kernel_want_input(call, 1)) return false;
    const KernelTensor *x = &call->inputs[0], *where = &call->inputs[1];
    const int64_t *items = kernel_ints(call, where);
    if (!items || !kernel_want_count(call, where, 1, "axis")) return false;
    if (!kernel_axis(call, items[0], x->rank, &axis)) return false;
    if (!functions[x->dtype]) return kernel_fail(call, "%s can't be summed", dtype_name(x->dtype));
    if (x->count == 0) return true;
    AxisLoops loops = axis_loops(x, axis);
    void *totals = arena_array(call->scratch, loops.inner, sizeof(double));
    functions[x->dtype](loops, call->attrs, x, call->outputs[0].data, totals);
    return true;
}

#define SUM_ENTRY(D, T, A)  [DTYPE_##D] = cum_sum_##T,
#define PROD_ENTRY(D, T, A) [DTYPE_##D] = cum_prod_##T,
bool kernel_cum_sum(KernelCall *call) {
    static const CumFunction functions[DTYPE_COUNT] = {CUM_TYPES(SUM_ENTRY)};
    return cumulate(call, functions);
}
bool kernel_cum_prod(KernelCall *call) {
    static const CumFunction functions[DTYPE_COUNT] = {CUM_TYPES(PROD_ENTRY)};
    return cumulate(call, functions);
}
