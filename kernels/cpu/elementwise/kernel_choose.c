// SPDX-License-Identifier: Apache-2.0
/* Where, Clip and PRelu: elements chosen or bounded by other operands. */
#include <float.h>
#include <math.h>

#include "kernel_functions.h"
#include "kernel_rows.h"
#include "kernel_saturate.h"
#include "kernel_types.h"

/* ---- Where: elements of so many bytes -------------------------------------------------------- */

typedef struct Bytes16 {
    uint64_t half[2];
} Bytes16;

/* The condition is mostly as large as the operands; one that repeats along the rows picks one of
 * them. */
#define CHOOSE_ROWS(name, T)                                                                       \
    static void name(const BroadcastTile *tile, const void *context) {                             \
        (void)context;                                                                             \
        const uint64_t n = tile->columns, x_step = tile->step[2], y_step = tile->step[3];          \
        for (uint64_t row = 0; row < tile->rows; row++) {                                          \
            T *out = (T *)tile->at[0] + row * tile->row_step[0];                                   \
            const uint8_t *which = (const uint8_t *)tile->at[1] + row * tile->row_step[1];         \
            const T *x = (const T *)tile->at[2] + row * tile->row_step[2];                         \
            const T *y = (const T *)tile->at[3] + row * tile->row_step[3];                         \
            if (!tile->step[1]) {                                                                  \
                const T *from = *which ? x : y;                                                    \
                const uint64_t step = *which ? x_step : y_step;                                    \
                ROW_EACH(n, out[i] = from[i * step])                                               \
            } else if (x_step && y_step)                                                           \
                ROW_EACH(n, const T p = x[i]; const T q = y[i]; out[i] = which[i] ? p : q)         \
            else if (x_step) {                                                                     \
                const T q = *y;                                                                    \
                ROW_EACH(n, const T p = x[i]; out[i] = which[i] ? p : q)                           \
            } else {                                                                               \
                const T p = *x;                                                                    \
                if (y_step)                                                                        \
                    ROW_EACH(n, const T q = y[i]; out[i] = which[i] ? p : q)                       \
                else                                                                               \
                    ROW_EACH(n, const T q = *y; out[i] = which[i] ? p : q)                         \
            }                                                                                      \
        }                                                                                          \
    }
CHOOSE_ROWS(choose_1, uint8_t)
CHOOSE_ROWS(choose_2, uint16_t)
CHOOSE_ROWS(choose_4, uint32_t)
CHOOSE_ROWS(choose_8, uint64_t)
CHOOSE_ROWS(choose_16, Bytes16)

bool kernel_where(KernelCall *call) {
    const KernelTensor *which = &call->inputs[0], *x = &call->inputs[1];
    const KernelTensor *y = &call->inputs[2], *out = &call->outputs[0];
    BroadcastOperand operands[] = {{out, 0}, {which, 0}, {x, 0}, {y, 0}};
    Broadcast plan;
    if (!kernel_broadcast_plan(call, operands, 4, &plan)) return false;
    size_t size = kernel_element_size(x->dtype);
    kernel_broadcast_run(&plan,
                         size == 1   ? choose_1
                         : size == 2 ? choose_2
                         : size == 4 ? choose_4
                         : size == 8 ? choose_8
                                     : choose_16,
                         NULL);
    return true;
}

/* ---- Clip ------------------------------------------------------------------------------------ */

/* NaN stays NaN; where the lower bound is above the upper one, that is the result. Bounds that are
 * NaN or not given bound nothing, as in ONNX's reference: Inf stays. */
#define CLIP(D, T, s)                                                                              \
    ROW_CLONES static void clip_##s(void *out_data, const void *in_data, uint64_t n,               \
                                    const void *low_data, const void *high_data) {                 \
        T *out = out_data;                                                                         \
        const T *in = in_data;                                                                     \
        const T low = *(const T *)low_data, high = *(const T *)high_data;                          \
        ROW_EACH(n, T x = in[i]; x = x < low ? low : x; out[i] = x > high ? high : x)              \
    }
KERNEL_INT_LIST(CLIP)

#define FLOAT_CLIP(D, T, s)                                                                        \
    static inline T bounded_##s(T x, T low, T high) {                                              \
        x = x < low ? low : x;                                                                     \
        return x > high ? high : x;                                                                \
    }                                                                                              \
    UNARY_ROWS_FOR(ROW_CLONES, clip_##s, T, T, T, bounded_##s(x, p, q))
KERNEL_FLOAT_LIST(FLOAT_CLIP)

typedef void (*ClipFunction)(void *, const void *, uint64_t, const void *, const void *);

/* The widest bounds of each integer type. */
typedef union Bound {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
} Bound;

static void widest(Dtype dtype, Bound *low, Bound *high) {
#define WIDEST(D, T, s, least, most, past)                                                         \
    if (dtype == DTYPE_##D) low->s = (least), high->s = (most);
    SATURATE_LIST(WIDEST)
}

/* The bound that input i gives, a single element of the first input's type, or NULL: none, with the
 * error set where it is not one. */
static const KernelTensor *given_bound(KernelCall *call, uint32_t i, bool *wrong) {
    const KernelTensor *given = kernel_input(call, i);
    const Dtype dtype = call->inputs[0].dtype;
    if (given && (given->dtype != dtype || given->count != 1))
        *wrong = !kernel_fail(call, "bound %u is not a single %s", i, dtype_name(dtype));
    return given;
}

/* In version 6 the attributes' defaults are float's largest numbers; version 1 has none. */
static double attribute_bound(const KernelCall *call, const AttrFloats *attr, double otherwise) {
    if (attr->present) return (double)attr->items[0];
    return call->row->since < 6 ? (double)NAN : otherwise;
}

/* Floats of any kind. */
static bool clip_floats(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(clip)};
    UnaryNumbers bounds = {(double)NAN, (double)NAN}; /* which bound nothing */
    bool wrong = false;
    if (call->row->layout == &op_attrs_clip) {
        const ClipAttrs *attrs = call->attrs;
        bounds.a = attribute_bound(call, &attrs->min, -(double)FLT_MAX);
        bounds.b = attribute_bound(call, &attrs->max, (double)FLT_MAX);
        return kernel_unary(call, functions, &bounds);
    }
    const KernelTensor *low = given_bound(call, 1, &wrong), *high = given_bound(call, 2, &wrong);
    if (wrong) return false;
    if (low) bounds.a = kernel_real(low, 0);
    if (high) bounds.b = kernel_real(high, 0);
    return kernel_unary(call, functions, &bounds);
}

bool kernel_clip(KernelCall *call) {
    static const ClipFunction functions[DTYPE_COUNT] = {KERNEL_BY_INT(clip)};
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    if (dtype_is_float(in->dtype)) return clip_floats(call);
    if (!functions[in->dtype])
        return kernel_fail(call, "it is not defined for %s", dtype_name(in->dtype));
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    Bound low = {0}, high = {0};
    bool wrong = false;
    const KernelTensor *given_low = given_bound(call, 1, &wrong);
    const KernelTensor *given_high = given_bound(call, 2, &wrong);
    if (wrong) return false;
    widest(in->dtype, &low, &high);
    if (out->count)
        functions[in->dtype](out->data, in->data, out->count, given_low ? given_low->data : &low,
                             given_high ? given_high->data : &high);
    return true;
}

/* ---- PRelu ----------------------------------------------------------------------------------- */

#define FLOAT_PRELU(D, T, s) BINARY_ROWS_FOR(ROW_CLONES, prelu_##s, T, T, x < 0 ? x * y : x)
#define INT_PRELU(D, T, s)                                                                         \
    BINARY_ROWS(prelu_##s, T, T, x < 0 ? (uint64_t)x * (uint64_t)y : (uint64_t)x)
#define SAME(D, T, s) BINARY_ROWS(prelu_##s, T, T, ((void)y, x))
KERNEL_FLOAT_LIST(FLOAT_PRELU)
KERNEL_SIGNED_LIST(INT_PRELU)
KERNEL_UNSIGNED_LIST(SAME)

/* Before version 7 a slope of one dim is one number for each channel, which are dim 1. */
static uint32_t slope_trailing(const KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *slope = &call->inputs[1];
    bool channels = call->row->since < 7 && slope->rank == 1 && x->rank > 2 && slope->count != 1;
    return channels ? x->rank - 2 : 0;
}

bool kernel_prelu(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(prelu),
                                                             KERNEL_BY_INT(prelu)};
    const KernelTensor *x = &call->inputs[0];
    BroadcastOperand operands[] = {
        {&call->outputs[0], 0}, {x, 0}, {&call->inputs[1], slope_trailing(call)}};
    Broadcast plan;
    return kernel_broadcast_plan(call, operands, 3, &plan) &&
           kernel_broadcast_by_dtype(call, &plan, functions, x->dtype);
}
