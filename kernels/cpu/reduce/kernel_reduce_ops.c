// SPDX-License-Identifier: Apache-2.0
/* Reduce*: what reduce_run.h asks for, once per operator and element type.
 *
 * Floats accumulate in double, in lanes where elements of a run become one, so that the result
 * is exact enough in any order, vectorises, and is the same on every run. Integer sums wrap as the
 * type does, and means truncate toward zero; what ends in a root or logarithm is computed in double
 * and saturates. An empty set gives the operation's neutral element: 0, 1, the type's lowest or
 * highest value, and NaN for a mean of floats.
 *
 * Loops have clones but for types that models have little of, and operators share those that do the
 * same: this file takes compilers long as it is.
 */
#include <math.h>
#include <string.h>

#include "half_pieces.h"
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_math.h"
#include "reduce_run.h"
#include "simd_baseline.h"

enum {
    LANES = 32,
    SHORT = 80,  /* rows of fewer elements are added side by side, GROUP at a time */
    GROUP = 32,  /* not unrolled, but made vectors */
    NARROW = 32, /* of fewer columns, several runs are added side by side, PERIOD at most */
    PERIOD = 64,
};

typedef struct ReduceSet {
    const ReduceKind *of[DTYPE_COUNT];
} ReduceSet;

/* across[i][k] = element i of row k, of GROUP rows that lie `stride` apart. */
KERNEL_INLINE void words_across(SimdWord *across, const SimdWord *x, uint64_t stride,
                                uint64_t length) {
    for (uint64_t k = 0; k < GROUP; k += 4) {
        const SimdWord *row = x + k * stride;
        uint64_t i = 0;
        for (; i + 4 <= length; i += 4)
            simd_turn_four(across + i * GROUP + k, GROUP, row + i, stride);
        for (; i < length; i++)
            for (uint64_t j = 0; j < 4; j++) across[i * GROUP + k + j] = row[j * stride + i];
    }
}

/* Accumulators of type A of rows: STEP(a, x) adds an element, MERGE(a, b) another accumulator,
 * which is NEUTRAL before it has any. */
#define REDUCE_ROWS(CLONES, name, T, A, NEUTRAL, STEP, MERGE)                                      \
    CLONES                                                                                         \
    static void name##_rows(void *sums, const ReduceTile *tile) {                                  \
        const uint64_t count = tile->count, stride = tile->stride, length = tile->length;          \
        const T *x = tile->x;                                                                      \
        A *sum = sums;                                                                             \
        uint64_t r = 0;                                                                            \
        for (; length < SHORT && r + GROUP <= count; r += GROUP) {                                 \
            A a[GROUP];                                                                            \
            T across[SHORT][GROUP];                                                                \
            for (int k = 0; k < GROUP; k++) a[k] = sum[r + (uint64_t)k];                           \
            if (sizeof(T) == sizeof(SimdWord))                                                     \
                words_across((SimdWord *)(void *)across,                                           \
                             (const SimdWord *)(const void *)(x + r * stride), stride, length);    \
            else                                                                                   \
                for (int k = 0; k < GROUP; k++)                                                    \
                    for (uint64_t i = 0; i < length; i++)                                          \
                        across[i][k] = x[(r + (uint64_t)k) * stride + i];                          \
            for (uint64_t i = 0; i < length; i++)                                                  \
                for (int k = 0; k < GROUP; k++) a[k] = STEP(a[k], across[i][k]);                   \
            for (int k = 0; k < GROUP; k++) sum[r + (uint64_t)k] = a[k];                           \
        }                                                                                          \
        for (; length < SHORT && r < count; r++)                                                   \
            for (uint64_t i = 0; i < length; i++) sum[r] = STEP(sum[r], x[r * stride + i]);        \
        for (; r < count; r++) {                                                                   \
            const T *row = x + r * stride;                                                         \
            A lanes[LANES];                                                                        \
            uint64_t i = 0;                                                                        \
            for (int k = 0; k < LANES; k++) lanes[k] = NEUTRAL;                                    \
            for (; i + LANES <= length; i += LANES)                                                \
                for (int k = 0; k < LANES; k++) lanes[k] = STEP(lanes[k], row[i + (uint64_t)k]);   \
            for (int half = LANES / 2; half > 0; half /= 2)                                        \
                for (int k = 0; k < half; k++) lanes[k] = MERGE(lanes[k], lanes[k + half]);        \
            A a = MERGE(sum[r], lanes[0]);                                                         \
            for (; i < length; i++) a = STEP(a, row[i]);                                           \
            sum[r] = a;                                                                            \
        }                                                                                          \
    }

/* The same of columns. Several runs of a few that lie next to each other are one. */
#define REDUCE_COLUMNS(CLONES, name, T, A, NEUTRAL, STEP, MERGE)                                   \
    CLONES                                                                                         \
    static void name##_columns(void *sums, const ReduceTile *tile) {                               \
        const uint64_t count = tile->count, stride = tile->stride, n = tile->length;               \
        const T *x = tile->x;                                                                      \
        A *sum = sums;                                                                             \
        uint64_t r = 0;                                                                            \
        if (n < NARROW && stride == n && count >= 2 * PERIOD) {                                    \
            const uint64_t runs = PERIOD / n, period = runs * n;                                   \
            A lanes[PERIOD];                                                                       \
            for (int k = 0; k < PERIOD; k++) lanes[k] = NEUTRAL;                                   \
            for (; r + runs <= count; r += runs)                                                   \
                for (uint64_t k = 0; k < period; k++) lanes[k] = STEP(lanes[k], x[r * n + k]);     \
            for (uint64_t k = 0; k < period; k++) sum[k % n] = MERGE(sum[k % n], lanes[k]);        \
        }                                                                                          \
        for (; r + 4 <= count; r += 4) { /* sums are read and written once for four */             \
            const T *at = x + r * stride;                                                          \
            for (uint64_t k = 0; k < n; k++) {                                                     \
                const A two = STEP(STEP(sum[k], at[k]), at[stride + k]);                           \
                sum[k] = STEP(STEP(two, at[2 * stride + k]), at[3 * stride + k]);                  \
            }                                                                                      \
        }                                                                                          \
        for (; r < count; r++)                                                                     \
            for (uint64_t k = 0; k < n; k++) sum[k] = STEP(sum[k], x[r * stride + k]);             \
    }

/* The functions of a ReduceKind but the last, which several kinds may share. */
#define REDUCE_SUMS(CLONES, name, T, A, NEUTRAL, STEP, MERGE)                                      \
    static void name##_clear(void *sums, uint64_t count) {                                         \
        for (uint64_t i = 0; i < count; i++) ((A *)sums)[i] = NEUTRAL;                             \
    }                                                                                              \
    static void name##_merge(void *sums, const void *others, uint64_t count) {                     \
        A *sum = sums;                                                                             \
        for (uint64_t i = 0; i < count; i++) sum[i] = MERGE(sum[i], ((const A *)others)[i]);       \
    }                                                                                              \
    REDUCE_ROWS(CLONES, name, T, A, NEUTRAL, STEP, MERGE)                                          \
    REDUCE_COLUMNS(CLONES, name, T, A, NEUTRAL, STEP, MERGE)

/* A ReduceKind of REDUCE_SUMS(…, from, …, A, …); END(a, n) is the result of n elements. WIDEN: NULL,
 * or what makes doubles of elements, for `from` of doubles. */
#define REDUCE_KIND(name, from, T, A, END, WIDEN)                                                  \
    static void name##_finish(void *results, const void *sums, uint64_t count, uint64_t n) {       \
        for (uint64_t i = 0; i < count; i++) ((T *)results)[i] = END(((const A *)sums)[i], n);     \
    }                                                                                              \
    static const ReduceKind name = {sizeof(A),    from##_clear,  from##_rows, from##_columns,      \
                                    from##_merge, name##_finish, sizeof(T),   WIDEN};

#define REDUCE_LOOP(CLONES, name, T, A, NEUTRAL, STEP, MERGE, END)                                 \
    REDUCE_SUMS(CLONES, name, T, A, NEUTRAL, STEP, MERGE)                                          \
    REDUCE_KIND(name, name, T, A, END, NULL)

#define FIRST(a, n)   ((void)(n), (a))
#define PLUS(a, b)    ((a) + (b))
#define TIMES(a, b)   ((a) * (b))
#define LARGER(a, x)  ((((x) > (a)) | ((x) != (x))) ? (x) : (a))
#define SMALLER(a, x) ((((x) < (a)) | ((x) != (x))) ? (x) : (a))
#define EITHER(a, x)  ((a) | (x))
#define BOTH(a, x)    ((a) & (x))

/* ---- float and double ------------------------------------------------------------------------ */

#define REAL_PLUS(a, x)   ((a) + (double)(x))
#define REAL_TIMES(a, x)  ((a) * (double)(x))
#define REAL_ABS(a, x)    ((a) + fabs((double)(x)))
#define REAL_SQUARE(a, x) ((a) + (double)(x) * (double)(x))
#define FLOAT_END(a, n)   ((void)(n), (float)(a))
#define FLOAT_MEAN(a, n)  ((float)((a) / (double)(n)))
#define FLOAT_ROOT(a, n)  ((void)(n), (float)sqrt(a))
#define FLOAT_LOG(a, n)   ((void)(n), (float)log(a))
#define DOUBLE_END(a, n)  ((void)(n), (a))
#define DOUBLE_MEAN(a, n) ((a) / (double)(n))
#define DOUBLE_ROOT(a, n) ((void)(n), sqrt(a))
#define DOUBLE_LOG(a, n)  ((void)(n), log(a))

#define REDUCE_REAL(T, NAME)                                                                       \
    REDUCE_SUMS(KERNEL_CLONES, T##_sums, T, double, 0, REAL_PLUS, PLUS)                            \
    REDUCE_KIND(T##_sum, T##_sums, T, double, NAME##_END, NULL)                                    \
    REDUCE_KIND(T##_mean, T##_sums, T, double, NAME##_MEAN, NULL)                                  \
    REDUCE_KIND(T##_log_sum, T##_sums, T, double, NAME##_LOG, NULL)                                \
    REDUCE_SUMS(KERNEL_CLONES, T##_squares, T, double, 0, REAL_SQUARE, PLUS)                       \
    REDUCE_KIND(T##_sum_square, T##_squares, T, double, NAME##_END, NULL)                          \
    REDUCE_KIND(T##_l2, T##_squares, T, double, NAME##_ROOT, NULL)                                 \
    REDUCE_LOOP(KERNEL_CLONES, T##_prod, T, double, 1, REAL_TIMES, TIMES, NAME##_END)              \
    REDUCE_LOOP(KERNEL_CLONES, T##_l1, T, double, 0, REAL_ABS, PLUS, NAME##_END)                   \
    REDUCE_LOOP(KERNEL_CLONES, T##_max, T, T, (T)-INFINITY, LARGER, LARGER, FIRST)                 \
    REDUCE_LOOP(KERNEL_CLONES, T##_min, T, T, (T)INFINITY, SMALLER, SMALLER, FIRST)
REDUCE_REAL(float, FLOAT)
REDUCE_REAL(double, DOUBLE)

/* ---- integers: S is the accumulator, wide enough for every T; sums are made in uint64_t ------ */

#define WRAP_PLUS(a, x)   ((a) + (uint64_t)(x))
#define WRAP_TIMES(a, x)  ((a) * (uint64_t)(x))
#define WRAP_ABS(a, x)    ((a) + ((x) < 0 ? 0 - (uint64_t)(x) : (uint64_t)(x)))
#define WRAP_SQUARE(a, x) ((a) + (uint64_t)(x) * (uint64_t)(x))

#define INT32_LOW  INT32_MIN
#define INT64_LOW  INT64_MIN
#define INT8_LOW   INT8_MIN
#define INT16_LOW  INT16_MIN
#define UINT8_LOW  0
#define UINT16_LOW 0
#define UINT32_LOW 0
#define UINT64_LOW 0

#define SATURATE(v, T, LOW, HIGH)                                                                  \
    ((v) != (v)              ? (T)0                                                                \
     : (v) <= (double)(LOW)  ? (T)(LOW)                                                            \
     : (v) >= (double)(HIGH) ? (T)(HIGH)                                                           \
                             : (T)(v))

#define REDUCE_EXTREMES(CLONES, T, NAME)                                                           \
    REDUCE_LOOP(CLONES, T##_max, T, T, NAME##_LOW, LARGER, LARGER, FIRST)                          \
    REDUCE_LOOP(CLONES, T##_min, T, T, NAME##_MAX, SMALLER, SMALLER, FIRST)

/* Results are modulo 2^32 or 2^64: they are the same for signed and unsigned elements. Not so means of
 * 32 bits. */
#define REDUCE_WRAPPED(T)                                                                          \
    REDUCE_SUMS(KERNEL_CLONES, T##_sums, T, uint64_t, 0, WRAP_PLUS, PLUS)                          \
    REDUCE_SUMS(KERNEL_CLONES, T##_products, T, uint64_t, 1, WRAP_TIMES, TIMES)                    \
    REDUCE_SUMS(KERNEL_CLONES, T##_squares, T, uint64_t, 0, WRAP_SQUARE, PLUS)                     \
    REDUCE_SUMS(KERNEL_CLONES, T##_absolutes, T, uint64_t, 0, WRAP_ABS, PLUS)
REDUCE_WRAPPED(int32_t)
REDUCE_WRAPPED(int64_t)
REDUCE_SUMS(KERNEL_ONCE, uint32_t_sums, uint32_t, uint64_t, 0, WRAP_PLUS, PLUS)

/* S: the 64-bit type of T's signedness; SIGNED: the signed type of T's size; TOTALS, ABSOLUTES: what
 * the mean and the sum of absolute values are of */
#define REDUCE_INTEGER(T, S, NAME, SIGNED, TOTALS, ABSOLUTES)                                      \
    static T T##_ratio(uint64_t sum, uint64_t n) {                                                 \
        return n ? (T)((S)sum / (S)n) : (T)0;                                                      \
    }                                                                                              \
    static T T##_saturate(double v) {                                                              \
        return SATURATE(v, T, NAME##_LOW, NAME##_MAX);                                             \
    }                                                                                              \
    static T T##_end(uint64_t sum, uint64_t n) {                                                   \
        (void)n;                                                                                   \
        return (T)sum;                                                                             \
    }                                                                                              \
    static T T##_root(double sum, uint64_t n) {                                                    \
        return n ? T##_saturate(sqrt(sum)) : (T)0;                                                 \
    }                                                                                              \
    static T T##_log(double sum, uint64_t n) {                                                     \
        return T##_saturate(n ? log(sum) : -INFINITY);                                             \
    }                                                                                              \
    REDUCE_KIND(T##_sum, SIGNED##_sums, T, uint64_t, T##_end, NULL)                                \
    REDUCE_KIND(T##_mean, TOTALS, T, uint64_t, T##_ratio, NULL)                                    \
    REDUCE_KIND(T##_l1, ABSOLUTES, T, uint64_t, T##_end, NULL)                                     \
    REDUCE_KIND(T##_prod, SIGNED##_products, T, uint64_t, T##_end, NULL)                           \
    REDUCE_KIND(T##_sum_square, SIGNED##_squares, T, uint64_t, T##_end, NULL)                      \
    KERNEL_CLONES                                                                                  \
    static void T##_widen(double *to, const void *from, uint64_t count) {                          \
        for (uint64_t i = 0; i < count; i++) to[i] = (double)((const T *)from)[i];                 \
    }                                                                                              \
    REDUCE_KIND(T##_l2, double_squares, T, double, T##_root, T##_widen)                            \
    REDUCE_KIND(T##_log_sum, double_sums, T, double, T##_log, T##_widen)
REDUCE_INTEGER(int32_t, int64_t, INT32, int32_t, int32_t_sums, int32_t_absolutes)
REDUCE_INTEGER(int64_t, int64_t, INT64, int64_t, int64_t_sums, int64_t_absolutes)
REDUCE_INTEGER(uint32_t, uint64_t, UINT32, int32_t, uint32_t_sums, int32_t_sums)
REDUCE_INTEGER(uint64_t, uint64_t, UINT64, int64_t, int64_t_sums, int64_t_sums)

REDUCE_EXTREMES(KERNEL_CLONES, int32_t, INT32)
REDUCE_EXTREMES(KERNEL_CLONES, int64_t, INT64)
REDUCE_EXTREMES(KERNEL_ONCE, uint32_t, UINT32)
REDUCE_EXTREMES(KERNEL_ONCE, uint64_t, UINT64)
REDUCE_EXTREMES(KERNEL_CLONES, int8_t, INT8)
REDUCE_EXTREMES(KERNEL_ONCE, int16_t, INT16)
REDUCE_EXTREMES(KERNEL_CLONES, uint8_t, UINT8)
REDUCE_EXTREMES(KERNEL_ONCE, uint16_t, UINT16)
REDUCE_LOOP(KERNEL_ONCE, bool_max, uint8_t, uint8_t, 0, EITHER, EITHER, FIRST)
REDUCE_LOOP(KERNEL_ONCE, bool_min, uint8_t, uint8_t, 1, BOTH, BOTH, FIRST)

/* Sums whose results are int64, whatever bytes they are of. */
static void total_end(void *results, const void *sums, uint64_t count, uint64_t reduced) {
    (void)reduced;
    memcpy(results, sums, count * sizeof(int64_t));
}
#define REDUCE_TOTAL(T)                                                                            \
    REDUCE_SUMS(KERNEL_CLONES, T##_total, T, int64_t, 0, PLUS, PLUS)                               \
    const ReduceKind reduce_total_##T = {                                                          \
        sizeof(int64_t), T##_total_clear, T##_total_rows,  T##_total_columns,                      \
        T##_total_merge, total_end,       sizeof(int64_t), NULL};
REDUCE_TOTAL(int8_t)
REDUCE_TOTAL(uint8_t)

/* ---- log-sum-exp: with the largest element, so that no exponential overflows ----------------- */

typedef struct ExpSum {
    double top, sum; /* of exp(x - top), of exp(x) where top is infinite */
} ExpSum;

static double exp_base(double top) {
    return isinf(top) ? 0 : top;
}

static ExpSum exp_merge(ExpSum a, ExpSum b) {
    double top = LARGER(a.top, b.top), base = exp_base(top), sum = 0;
    if (a.sum != 0) sum += a.sum * exp(exp_base(a.top) - base);
    if (b.sum != 0) sum += b.sum * exp(exp_base(b.top) - base);
    return (ExpSum){top, sum};
}

static void exp_clear(void *sums, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) ((ExpSum *)sums)[i] = (ExpSum){-INFINITY, 0};
}

static void exp_merge_all(void *sums, const void *others, uint64_t count) {
    ExpSum *sum = sums;
    for (uint64_t i = 0; i < count; i++) sum[i] = exp_merge(sum[i], ((const ExpSum *)others)[i]);
}

#define REDUCE_EXP_SUMS(T)                                                                         \
    KERNEL_CLONES                                                                                  \
    static void T##_exp_rows(void *sums, const ReduceTile *tile) {                                 \
        for (uint64_t r = 0; r < tile->count; r++) {                                               \
            const T *x = (const T *)tile->x + r * tile->stride;                                    \
            double tops[LANES], all[LANES];                                                        \
            uint64_t i = 0, n = tile->length;                                                      \
            for (int k = 0; k < LANES; k++) tops[k] = -INFINITY, all[k] = 0;                       \
            for (; i + LANES <= n; i += LANES)                                                     \
                for (int k = 0; k < LANES; k++)                                                    \
                    tops[k] = LARGER(tops[k], (double)x[i + (uint64_t)k]);                         \
            for (; i < n; i++) tops[0] = LARGER(tops[0], (double)x[i]);                            \
            for (int k = 1; k < LANES; k++) tops[0] = LARGER(tops[0], tops[k]);                    \
            const double base = exp_base(tops[0]);                                                 \
            for (i = 0; i + LANES <= n; i += LANES)                                                \
                for (int k = 0; k < LANES; k++)                                                    \
                    all[k] += math_exp_double((double)x[i + (uint64_t)k] - base);                  \
            for (; i < n; i++) all[0] += math_exp_double((double)x[i] - base);                     \
            for (int k = 1; k < LANES; k++) all[0] += all[k];                                      \
            ((ExpSum *)sums)[r] = exp_merge(((ExpSum *)sums)[r], (ExpSum){tops[0], all[0]});       \
        }                                                                                          \
    }                                                                                              \
    KERNEL_CLONES                                                                                  \
    static void T##_exp_columns(void *sums, const ReduceTile *tile) {                              \
        const uint64_t n = tile->length;                                                           \
        double tops[REDUCE_BLOCK], all[REDUCE_BLOCK];                                              \
        for (uint64_t k = 0; k < n; k++) tops[k] = -INFINITY, all[k] = 0;                          \
        for (uint64_t r = 0; r < tile->count; r++) {                                               \
            const T *x = (const T *)tile->x + r * tile->stride;                                    \
            for (uint64_t k = 0; k < n; k++) tops[k] = LARGER(tops[k], (double)x[k]);              \
        }                                                                                          \
        for (uint64_t r = 0; r < tile->count; r++) {                                               \
            const T *x = (const T *)tile->x + r * tile->stride;                                    \
            for (uint64_t k = 0; k < n; k++) {                                                     \
                double base = fabs(tops[k]) == (double)INFINITY ? 0 : tops[k];                     \
                all[k] += math_exp_double((double)x[k] - base);                                    \
            }                                                                                      \
        }                                                                                          \
        for (uint64_t k = 0; k < n; k++)                                                           \
            ((ExpSum *)sums)[k] = exp_merge(((ExpSum *)sums)[k], (ExpSum){tops[k], all[k]});       \
    }
REDUCE_EXP_SUMS(float)
REDUCE_EXP_SUMS(double)

#define REDUCE_LOG_SUM_EXP(T, from, END, WIDEN)                                                    \
    static void T##_exp_end(void *results, const void *sums, uint64_t count, uint64_t n) {         \
        (void)n;                                                                                   \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            ExpSum a = ((const ExpSum *)sums)[i];                                                  \
            ((T *)results)[i] = END(log(a.sum) + exp_base(a.top));                                 \
        }                                                                                          \
    }                                                                                              \
    static const ReduceKind T##_log_sum_exp = {sizeof(ExpSum),     exp_clear,     from##_exp_rows, \
                                               from##_exp_columns, exp_merge_all, T##_exp_end,     \
                                               sizeof(T),          WIDEN};
#define TO_FLOAT(v)  ((float)(v))
#define TO_DOUBLE(v) (v)
REDUCE_LOG_SUM_EXP(float, float, TO_FLOAT, NULL)
REDUCE_LOG_SUM_EXP(double, double, TO_DOUBLE, NULL)
REDUCE_LOG_SUM_EXP(int32_t, double, int32_t_saturate, int32_t_widen)
REDUCE_LOG_SUM_EXP(int64_t, double, int64_t_saturate, int64_t_widen)
REDUCE_LOG_SUM_EXP(uint32_t, double, uint32_t_saturate, uint32_t_widen)
REDUCE_LOG_SUM_EXP(uint64_t, double, uint64_t_saturate, uint64_t_widen)

/* ---- operators ------------------------------------------------------------------------------- */

bool reduce_find(KernelCall *call, bool *reduced) {
    const AxesAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *input = kernel_input(call, 1);
    const int64_t *axes = attrs->axes.items;
    uint64_t count = attrs->axes.count;
    if (input) {
        axes = kernel_ints(call, input);
        if (!axes) return false;
        count = input->count;
    }
    if (count > UINT32_MAX) return kernel_fail(call, "too many axes");
    for (uint32_t i = 0; i < x->rank; i++) reduced[i] = count == 0 && !attrs->noop;
    return reduce_mark(call, (uint32_t)count, axes, reduced);
}

static bool reduce(KernelCall *call, const ReduceSet *set) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    ReduceLoops loops;
    bool *reduced = ARENA_ARRAY(call->scratch, bool, x->rank + 1);
    if (!reduce_find(call, reduced)) return false;
    reduce_loops(call->scratch, x, reduced, &loops);
    const ReduceKind *kind = set->of[half_is(x->dtype) ? DTYPE_FLOAT : x->dtype];
    if (!kind) return kernel_fail(call, "it is not defined for %s", dtype_name(x->dtype));
    if (loops.results != y->count) return kernel_fail(call, "the output has different dims");
    if (y->count == 0) return true;
    return reduce_run(call, kind, &loops, x, y->data);
}

#define NUMBERS(op)                                                                                \
    [DTYPE_FLOAT] = &float_##op, [DTYPE_DOUBLE] = &double_##op, [DTYPE_INT32] = &int32_t_##op,     \
    [DTYPE_INT64] = &int64_t_##op, [DTYPE_UINT32] = &uint32_t_##op,                                \
    [DTYPE_UINT64] = &uint64_t_##op
#define SMALL(op)                                                                                  \
    [DTYPE_INT8] = &int8_t_##op, [DTYPE_INT16] = &int16_t_##op, [DTYPE_UINT8] = &uint8_t_##op,     \
    [DTYPE_UINT16] = &uint16_t_##op, [DTYPE_BOOL] = &bool_##op

#define OPERATOR(op, ...)                                                                          \
    bool kernel_reduce_##op(KernelCall *call) {                                                    \
        static const ReduceSet set = {{__VA_ARGS__}};                                              \
        return reduce(call, &set);                                                                 \
    }
OPERATOR(sum, NUMBERS(sum))
OPERATOR(mean, NUMBERS(mean))
OPERATOR(prod, NUMBERS(prod))
OPERATOR(l1, NUMBERS(l1))
OPERATOR(l2, NUMBERS(l2))
OPERATOR(sum_square, NUMBERS(sum_square))
OPERATOR(log_sum, NUMBERS(log_sum))
OPERATOR(log_sum_exp, NUMBERS(log_sum_exp))
OPERATOR(max, NUMBERS(max), SMALL(max))
OPERATOR(min, NUMBERS(min), SMALL(min))
