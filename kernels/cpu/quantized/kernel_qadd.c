// SPDX-License-Identifier: Apache-2.0
/* QAdd, QMul, QDiv and QTable: elementwise work on bytes. */
#include <math.h>

#include "byte_operands.h"
#include "kernel_broadcast.h"
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_rows.h"

enum { FACTOR_A = 2, FACTOR_B, SHIFT, Y_ZERO, LOW, HIGH, TABLE_SIZE = 256 };
/* of QMul and QDiv; Y_ZERO, LOW and HIGH are QAdd's, the last two not of QDiv */
enum { FACTOR = 2, A_ZERO, B_ZERO };

/* ---- QAdd, QMul and QDiv --------------------------------------------------------------------- */

/* Of a sum, a A + b B + shift; of a product, shift (A + a) (B + b), in which all but the last step
 * is exact; of a quotient, shift (A + a) / (B + b). */
typedef struct PairNumbers {
    float a, b, shift, low, high;
    int32_t zero;
} PairNumbers;

/* v + 1.5 * 2^23 rounds to nearest; bounds are those of a byte less the zero point, NaN is the lower
 * one. */
static inline int32_t round_near(float v, const PairNumbers *n) {
    v = v > n->low ? v : n->low;
    v = v < n->high ? v : n->high;
    return (int32_t)((v + 12582912.0f) - 12582912.0f) + n->zero;
}
static inline float bounded(float v, const PairNumbers *n) {
    v = n->low > v ? n->low : v;
    return n->high < v ? n->high : v;
}

#define SUM(n, x, y)     ((n)->a * (float)(x) + (n)->b * (float)(y) + (n)->shift)
#define PRODUCT(n, x, y) ((n)->shift * (((float)(x) + (n)->a) * ((float)(y) + (n)->b)))

#define QUOTIENT(n, x, y) ((n)->shift * (((float)(x) + (n)->a) / ((float)(y) + (n)->b)))

#define PAIR_ROWS(CLONES, name, A, B, R, VALUE, finish)                                            \
    CLONES static void name(const BroadcastTile *tile, const void *context) {                      \
        const PairNumbers numbers = *(const PairNumbers *)context, *n = &numbers;                  \
        const uint64_t count = tile->columns;                                                      \
        for (uint64_t row = 0; row < tile->rows; row++) {                                          \
            R *y = (R *)tile->at[0] + row * tile->row_step[0];                                     \
            const A *a = (const A *)tile->at[1] + row * tile->row_step[1];                         \
            const B *b = (const B *)tile->at[2] + row * tile->row_step[2];                         \
            const uint64_t a_step = tile->step[1], b_step = tile->step[2];                         \
            if (a_step && b_step)                                                                  \
                ROW_EACH(count, y[i] = (R)finish(VALUE(n, a[i], b[i]), n))                         \
            else                                                                                   \
                ROW_EACH(count, y[i] = (R)finish(VALUE(n, a[i * a_step], b[i * b_step]), n))       \
        }                                                                                          \
    }
/* A result of int8 has the bits of one of uint8: bounds and zero point are its own. */
#define PAIR_RESULTS(CLONES, name, A, B, VALUE)                                                    \
    PAIR_ROWS(CLONES, name##_byte, A, B, uint8_t, VALUE, round_near)                               \
    PAIR_ROWS(CLONES, name##_f32, A, B, float, VALUE, bounded)
/* `name`_functions [type of A][of B][whether the result is a float]. Models have A and B of one
 * type. */
#define PAIR_FUNCTIONS(name, VALUE)                                                                \
    PAIR_RESULTS(ROW_CLONES, name##_i8_i8, int8_t, int8_t, VALUE)                                  \
    PAIR_RESULTS(KERNEL_ONCE, name##_i8_u8, int8_t, uint8_t, VALUE)                                \
    PAIR_RESULTS(KERNEL_ONCE, name##_u8_i8, uint8_t, int8_t, VALUE)                                \
    PAIR_RESULTS(ROW_CLONES, name##_u8_u8, uint8_t, uint8_t, VALUE)                                \
    static const PairFunctions name##_functions = {                                                \
        {{{name##_i8_i8_byte, name##_i8_i8_f32}, {name##_i8_u8_byte, name##_i8_u8_f32}},           \
         {{name##_u8_i8_byte, name##_u8_i8_f32}, {name##_u8_u8_byte, name##_u8_u8_f32}}}};

typedef struct PairFunctions {
    BroadcastFunction of[2][2][2];
} PairFunctions;
PAIR_FUNCTIONS(add, SUM)
PAIR_FUNCTIONS(multiply, PRODUCT)
PAIR_FUNCTIONS(divide, QUOTIENT)

/* 0: int8, 1: uint8; of results 2: float. */
static int kind_of(Dtype dtype) {
    return dtype == DTYPE_INT8 ? 0 : dtype == DTYPE_UINT8 ? 1 : 2;
}

/* Result and bounds; the rest is the operator's own. */
static bool read_result(KernelCall *call, PairNumbers *n) {
    const KernelTensor *zero = kernel_input(call, Y_ZERO), *y = &call->outputs[0];
    const Dtype to = zero ? zero->dtype : DTYPE_FLOAT;
    *n = (PairNumbers){.low = -HUGE_VALF, .high = HUGE_VALF};
    if (!byte_number(call, LOW, &n->low) || !byte_number(call, HIGH, &n->high)) return false;
    if (y->dtype != to || (zero && (kind_of(to) == 2 || zero->count != 1)))
        return kernel_fail(call, "the result is %s", dtype_name(y->dtype));
    if (!(n->low <= n->high)) return kernel_fail(call, "Low is above High");
    if (!zero) return true;
    const bool is_signed = to == DTYPE_INT8;
    n->zero = is_signed ? *(const int8_t *)zero->data : *(const uint8_t *)zero->data;
    const float least = (float)((is_signed ? INT8_MIN : 0) - n->zero);
    const float most = (float)((is_signed ? INT8_MAX : UINT8_MAX) - n->zero);
    n->low = fminf(fmaxf(n->low, least), most);
    n->high = fmaxf(fminf(n->high, most), least);
    return true;
}

static bool run_pair(KernelCall *call, const PairFunctions *functions, const PairNumbers *numbers) {
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1];
    KernelTensor *y = &call->outputs[0];
    Broadcast plan;
    const BroadcastOperand operands[] = {{y, 0}, {a, 0}, {b, 0}};
    if (!kernel_broadcast_plan(call, operands, 3, &plan)) return false;
    kernel_broadcast_run(
        &plan, functions->of[kind_of(a->dtype)][kind_of(b->dtype)][kind_of(y->dtype) == 2],
        numbers);
    return true;
}

static bool takes_pair(KernelCall *call) {
    const Dtype a = call->inputs[0].dtype, b = call->inputs[1].dtype;
    if (kind_of(a) != 2 && kind_of(b) != 2) return true;
    return kernel_fail(call, "operands of %s and %s", dtype_name(a), dtype_name(b));
}

bool kernel_q_add(KernelCall *call) {
    PairNumbers numbers;
    return takes_pair(call) && read_result(call, &numbers) &&
           byte_number(call, FACTOR_A, &numbers.a) && byte_number(call, FACTOR_B, &numbers.b) &&
           byte_number(call, SHIFT, &numbers.shift) && run_pair(call, &add_functions, &numbers);
}

/* What has a factor and zero points. */
static bool run_factor(KernelCall *call, const PairFunctions *functions) {
    PairNumbers numbers;
    int32_t a_zero, b_zero;
    if (!takes_pair(call) || !read_result(call, &numbers) ||
        !byte_number(call, FACTOR, &numbers.shift) ||
        !byte_zero(call, A_ZERO, call->inputs[0].dtype, &a_zero) ||
        !byte_zero(call, B_ZERO, call->inputs[1].dtype, &b_zero))
        return false;
    numbers.a = (float)-a_zero;
    numbers.b = (float)-b_zero;
    return run_pair(call, functions, &numbers);
}

bool kernel_q_mul(KernelCall *call) {
    return run_factor(call, &multiply_functions);
}
bool kernel_q_div(KernelCall *call) {
    return run_factor(call, &divide_functions);
}

/* ---- QTable ---------------------------------------------------------------------------------- */

typedef struct TableJob {
    const uint8_t *x;
    const void *table;
    void *y;
    bool is_float;
} TableJob;

static void look_up(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const TableJob *job = data;
    (void)lane;
    if (job->is_float)
        for (uint64_t i = first; i < end; i++)
            ((float *)job->y)[i] = ((const float *)job->table)[job->x[i]];
    else
        for (uint64_t i = first; i < end; i++)
            ((uint8_t *)job->y)[i] = ((const uint8_t *)job->table)[job->x[i]];
}

bool kernel_q_table(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *table = &call->inputs[1];
    KernelTensor *y = &call->outputs[0];
    if (kind_of(x->dtype) == 2 || table->dtype != y->dtype || table->count != TABLE_SIZE ||
        x->count != y->count)
        return kernel_fail(call, "a table of %llu elements of %s", (unsigned long long)table->count,
                           dtype_name(table->dtype));
    const TableJob job = {x->data, table->data, y->data, y->dtype == DTYPE_FLOAT};
    const unsigned parts = kernel_parts(kernel_threads(call), x->count, 1);
    kernel_run_parts(call->workers,
                     kernel_element_cut(x->count, KERNEL_PART_GRAIN, parts, x->count), look_up,
                     &job);
    return true;
}
