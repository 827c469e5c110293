// SPDX-License-Identifier: Apache-2.0
/* Einsum: any equation, with ellipses, repeated letters and any number of operands, as products of
 * matrices (einsum_terms.h). Floats sum as MatMul does; integers are computed modulo 2^64 and cut.
 */
#include <string.h>

#include "einsum_terms.h"
#include "gemm.h"
#include "kernel_functions.h"
#include "kernel_pace.h"
#include "plain_product.h"

/* What is computed in: float, double or uint64. */
typedef struct Work {
    Einsum e;
    Dtype dtype;
} Work;

/* ---- bringing operands into order ------------------------------------------------------------ */

/* to[i] += from[i * stride]; ROW(compute type, stored type) */
#define ROW(TO, FROM)                                                                              \
    static void row_##FROM(TO *to, const void *data, uint64_t start, uint64_t stride,              \
                           uint64_t count) {                                                       \
        const FROM *from = (const FROM *)data + start;                                             \
        if (stride == 1)                                                                           \
            for (uint64_t i = 0; i < count; i++) to[i] += (TO)from[i];                             \
        else                                                                                       \
            for (uint64_t i = 0; i < count; i++) to[i] += (TO)from[i * stride];                    \
    }
ROW(float, float)
ROW(double, double)
ROW(uint64_t, int8_t)
ROW(uint64_t, int16_t)
ROW(uint64_t, int32_t)
ROW(uint64_t, uint8_t)
ROW(uint64_t, uint16_t)
ROW(uint64_t, uint32_t)
ROW(uint64_t, uint64_t)

static void add_row(Dtype dtype, void *to, const void *from, const uint64_t place[3]) {
    uint64_t start = place[0], stride = place[1], count = place[2];
    switch ((int)dtype) {
    case DTYPE_FLOAT: row_float(to, from, start, stride, count); break;
    case DTYPE_DOUBLE: row_double(to, from, start, stride, count); break;
    case DTYPE_INT8: row_int8_t(to, from, start, stride, count); break;
    case DTYPE_INT16: row_int16_t(to, from, start, stride, count); break;
    case DTYPE_INT32: row_int32_t(to, from, start, stride, count); break;
    case DTYPE_UINT8: row_uint8_t(to, from, start, stride, count); break;
    case DTYPE_UINT16: row_uint16_t(to, from, start, stride, count); break;
    case DTYPE_UINT32: row_uint32_t(to, from, start, stride, count); break;
    case DTYPE_INT64:
    case DTYPE_UINT64: row_uint64_t(to, from, start, stride, count); break;
    }
}

/* Steps the odometer over labels and the place in an operand that goes with it. */
static bool step(const Einsum *e, const EinsumLabels *labels, uint32_t count, uint64_t *index,
                 const EinsumOperand *operand, uint64_t *place) {
    for (uint32_t i = count; i-- > 0;) {
        uint64_t label = labels->items[i], stride = operand->strides[label];
        *place += stride;
        if (++index[i] < e->dims[label]) return true;
        *place -= stride * e->dims[label];
        index[i] = 0;
    }
    return false;
}

static bool in_order(const Work *w, const EinsumOperand *operand, const EinsumLabels *order,
                     const EinsumLabels *sums) {
    bool same =
        operand->dtype == w->dtype || (w->dtype == DTYPE_UINT64 && operand->dtype == DTYPE_INT64);
    return same && einsum_in_order(&w->e, operand, order, sums);
}

/* The operand's elements by the labels `order`, summed over `sums`; in scratch or the operand's
 * own. */
static const void *arrange(const Work *w, const EinsumOperand *operand, const EinsumLabels *order,
                           const EinsumLabels *sums) {
    const Einsum *e = &w->e;
    if (in_order(w, operand, order, sums)) return operand->data;
    size_t size = kernel_element_size(w->dtype);
    char *to = arena_array(e->call->scratch, order->size + 1, size);
    if (order->size == 0 || sums->size == 0) return to;
    uint32_t outer = order->count ? order->count - 1 : 0;
    uint64_t *index = ARENA_ARRAY(e->call->scratch, uint64_t, order->count + 1);
    uint64_t *summed = ARENA_ARRAY(e->call->scratch, uint64_t, sums->count + 1);
    uint64_t place[3] = {0, 1, 1}, base = 0, row;
    KernelPace pace = {e->call, 0};
    if (order->count) place[1] = operand->strides[order->items[outer]];
    if (order->count) place[2] = e->dims[order->items[outer]];
    do {
        place[0] = base;
        row = 0;
        do {
            add_row(operand->dtype, to + row * place[2] * size, operand->data, place);
            row++;
            kernel_pace(&pace, place[2] + 16);
        } while (step(e, order, outer, index, operand, &place[0]));
    } while (step(e, sums, sums->count, summed, operand, &base));
    return to;
}

/* ---- contraction ----------------------------------------------------------------------------- */

static bool multiply(const Work *w, const EinsumStep *r, const void *a, const void *b, void *c) {
    const Einsum *e = &w->e;
    uint64_t m = r->rows.size, n = r->columns.size, k = r->inner.size, batches = r->batch.size;
    if (w->dtype == DTYPE_FLOAT) {
        uint64_t *starts = ARENA_ARRAY(e->call->scratch, uint64_t, 2 * batches + 1);
        for (uint64_t i = 0; i < batches; i++) starts[i] = i * m * k;
        for (uint64_t i = 0; i < batches; i++) starts[batches + i] = i * k * n;
        const GemmMatrices g = {.batches = batches,
                                .m = m,
                                .n = n,
                                .k = k,
                                .a = {a, starts, k, 1, DTYPE_UNDEFINED},
                                .b = {b, starts + batches, n, 1, DTYPE_UNDEFINED},
                                .c = c};
        return gemm_matrices(e->call, &g);
    }
    size_t size = kernel_element_size(w->dtype);
    KernelPace pace = {e->call, 0};
    for (uint64_t i = 0; k && i < batches; i++) {
        kernel_pace(&pace, 16 + m * n * k);
        const PlainProduct p = {.a = (const char *)a + i * m * k * size,
                                .b = (const char *)b + i * k * n * size,
                                .y = (char *)c + i * m * n * size,
                                .m = m,
                                .n = n,
                                .k = k,
                                .a_row = k,
                                .a_column = 1,
                                .b_row = n,
                                .b_column = 1};
        plain_product(e->call, w->dtype, &p);
    }
    return true;
}

/* a = a times the operand of that number, keeping the labels that are needed. */
static bool contract(const Work *w, EinsumOperand *a, uint32_t number) {
    const Einsum *e = &w->e;
    EinsumStep r;
    if (!einsum_step(e, a, number, &r)) return false;
    const void *first = arrange(w, a, &r.left, &r.only_a);
    const void *second = arrange(w, &e->operands[number], &r.right, &r.only_b);
    void *product = arena_array(e->call->scratch, r.result.size + 1, kernel_element_size(w->dtype));
    if (r.result.size && !multiply(w, &r, first, second, product)) return false;
    *a = einsum_operand(e, product, w->dtype, &r.result);
    return true;
}

static bool contract_all(const Work *w, EinsumOperand *result) {
    *result = w->e.operands[0];
    for (uint32_t i = 1; i < w->e.call->input_count; i++)
        if (!contract(w, result, i)) return false;
    return true;
}

/* Cuts 64-bit integers to the result's type, or copies what was computed. */
static void store(KernelTensor *y, const void *from) {
    size_t size = kernel_element_size(y->dtype);
    const uint64_t *wide = from;
    if (y->dtype == DTYPE_FLOAT || y->dtype == DTYPE_DOUBLE || size == 8) {
        memcpy(y->data, from, y->count * size);
        return;
    }
    for (uint64_t i = 0; i < y->count; i++) {
        if (size == 1)
            ((uint8_t *)y->data)[i] = (uint8_t)wide[i];
        else if (size == 2)
            ((uint16_t *)y->data)[i] = (uint16_t)wide[i];
        else
            ((uint32_t *)y->data)[i] = (uint32_t)wide[i];
    }
}

static bool finish(const Work *w, const EinsumOperand *operand) {
    KernelTensor *y = &w->e.call->outputs[0];
    EinsumLabels order, sums;
    if (!einsum_end(&w->e, operand, &order, &sums)) return false;
    if (y->count) store(y, arrange(w, operand, &order, &sums));
    return true;
}

bool kernel_einsum(KernelCall *call) {
    Dtype dtype = call->outputs[0].dtype;
    Work w = {.dtype = dtype == DTYPE_FLOAT || dtype == DTYPE_DOUBLE ? dtype : DTYPE_UINT64};
    EinsumOperand result;
    return einsum_read(call, &w.e) && contract_all(&w, &result) && finish(&w, &result);
}
