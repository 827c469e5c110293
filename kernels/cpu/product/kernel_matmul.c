// SPDX-License-Identifier: Apache-2.0
/* MatMul (numpy.matmul: batches broadcast, vectors are a row on the left and a column on the right)
 * and Gemm (alpha * A' * B' + beta * C, C broadcast to the result; before version 7 it is so only
 * with the attribute `broadcast`, which shapes make no difference to).
 *
 * float goes through gemm.h; double and integers through a plain loop, integers modulo their size.
 */
#include <string.h>

#include "gemm.h"
#include "kernel_functions.h"
#include "kernel_pace.h"
#include "matmul_batches.h"
#include "packed_product.h"
#include "plain_product.h"

static bool one_type(KernelCall *call) {
    Dtype dtype = call->inputs[0].dtype;
    const KernelTensor *c = kernel_input(call, 2);
    bool stored = dtype == DTYPE_FLOAT && gemm_narrow(&call->inputs[1]);
    if ((call->inputs[1].dtype == dtype || stored) && call->outputs[0].dtype == dtype &&
        (!c || c->dtype == dtype))
        return true;
    return kernel_fail(call, "operands of different types");
}

/* A second matrix that is constant stays as the plan has it in 16 bit where each element is read but
 * once, so that reading it is what takes the time, or where memory comes first; else it is widened once
 * for all, and packed. */
static bool reads_once(const KernelCall *call) {
    const KernelTensor *b = &call->inputs[1], *y = &call->outputs[0];
    uint64_t columns = b->rank > 1 && y->rank ? (uint64_t)y->dims[y->rank - 1] : 1;
    return y->count <= columns;
}

static KernelReady make_product(KernelCall *call) {
    if (call->small || reads_once(call)) kernel_take_stored(call, 1);
    return KERNEL_READY;
}

/* Packed, where `packs` and the matrix does not stay in 16 bit. */
static KernelReady make_packed(KernelCall *call, bool packs, bool transposed) {
    if (reads_once(call) && kernel_take_stored(call, 1)) packs = false;
    if (!(packs ? packed_product_make(call, transposed) : !call->choice)) return KERNEL_DECLINED;
    if (call->small && !call->prepared) kernel_take_stored(call, 1);
    return KERNEL_READY;
}

static KernelReady make_matmul(KernelCall *call) {
    return make_packed(call, true, false);
}

static KernelReady make_fused_matmul(KernelCall *call) {
    const GemmAttrs *attrs = call->attrs;
    return make_packed(call, !attrs->trans_a, attrs->trans_b != 0);
}

const KernelPrepare kernel_prepare_product = {make_product, NULL, 0};
const KernelPrepare kernel_prepare_matmul = {make_matmul, NULL, PACKED_PRODUCT_CHOICES};
const KernelPrepare kernel_prepare_fused_matmul = {make_fused_matmul, NULL, PACKED_PRODUCT_CHOICES};

bool kernel_matmul(KernelCall *call) {
    KernelTensor *y = &call->outputs[0];
    MatmulBatches s;
    if (!one_type(call) || !matmul_batches(call, &call->inputs[0], &call->inputs[1], y, &s))
        return false;
    if (y->count == 0) return true;
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1];
    const PackedProduct *packed = call->prepared;
    if (packed && packed->weights)
        return packed_product_run(call, packed, a->data, s.batches * s.m, NULL);
    if (a->dtype == DTYPE_FLOAT) {
        const GemmMatrices g = {.batches = s.batches,
                                .m = s.m,
                                .n = s.n,
                                .k = s.k,
                                .a = {a->data, s.a, s.k, 1, DTYPE_UNDEFINED},
                                .b = {b->data, s.b, s.n, 1, gemm_narrow(b)},
                                .c = y->data};
        return gemm_matrices(call, &g);
    }
    size_t size = kernel_element_size(y->dtype);
    memset(y->data, 0, y->count * size);
    KernelPace pace = {call, 0};
    for (uint64_t i = 0; s.k && i < s.batches; i++) {
        kernel_pace(&pace, 16 + s.m * s.n * s.k);
        const PlainProduct p = {.a = (const char *)a->data + s.a[i] * size,
                                .b = (const char *)b->data + s.b[i] * size,
                                .y = (char *)y->data + i * s.m * s.n * size,
                                .m = s.m,
                                .n = s.n,
                                .k = s.k,
                                .a_row = s.k,
                                .a_column = 1,
                                .b_row = s.n,
                                .b_column = 1};
        plain_product(call, y->dtype, &p);
    }
    return true;
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

/* C's strides in the result: 0 along axes that it is broadcast over. */
typedef struct Addend {
    const void *data; /* NULL: none */
    uint64_t row, column;
    float factor;
} Addend;

static bool addend_make(KernelCall *call, float beta, Addend *addend) {
    const KernelTensor *c = kernel_input(call, 2), *y = &call->outputs[0];
    *addend = (Addend){.factor = beta};
    if (!c || beta == 0) return true;
    if (c->rank > 2) return kernel_fail(call, "C has rank %u", c->rank);
    int64_t columns = c->rank ? c->dims[c->rank - 1] : 1, rows = c->rank > 1 ? c->dims[0] : 1;
    if ((rows != 1 && rows != y->dims[0]) || (columns != 1 && columns != y->dims[1]))
        return kernel_fail(call, "C is %lld x %lld, but the product is %lld x %lld",
                           (long long)rows, (long long)columns, (long long)y->dims[0],
                           (long long)y->dims[1]);
    addend->data = c->data;
    addend->column = columns == 1 ? 0 : 1;
    addend->row = rows == 1 ? 0 : (uint64_t)columns;
    return true;
}

static float factor_float(float f) {
    return f;
}
static double factor_double(float f) {
    return f;
}
/* An integer tensor's factors: the integers they are, cut off. */
static int64_t factor_whole(float f) {
    if (!(f > -9.2e18f)) return f < 0 ? INT64_MIN : 0;
    return f < 9.2e18f ? (int64_t)f : INT64_MAX;
}
static uint32_t factor_uint32(float f) {
    return (uint32_t)(uint64_t)factor_whole(f);
}
static uint64_t factor_uint64(float f) {
    return (uint64_t)factor_whole(f);
}

/* y = factor * C; and y = alpha * y + beta * C, where alpha is not 1. */
#define ADDENDS(T, name)                                                                           \
    static void begin_##name(T *y, uint64_t m, uint64_t n, const Addend *c) {                      \
        T factor = factor_##name(c->factor);                                                       \
        for (uint64_t i = 0; i < m; i++)                                                           \
            for (uint64_t j = 0; j < n; j++)                                                       \
                y[i * n + j] = ((const T *)c->data)[i * c->row + j * c->column] * factor;          \
    }                                                                                              \
    static void scale_##name(T *y, float alpha, uint64_t m, uint64_t n, const Addend *c) {         \
        T scale = factor_##name(alpha), factor = factor_##name(c->factor);                         \
        for (uint64_t i = 0; i < m; i++)                                                           \
            for (uint64_t j = 0; j < n; j++) {                                                     \
                y[i * n + j] *= scale;                                                             \
                if (c->data)                                                                       \
                    y[i * n + j] += ((const T *)c->data)[i * c->row + j * c->column] * factor;     \
            }                                                                                      \
    }
ADDENDS(float, float)
ADDENDS(double, double)
ADDENDS(uint32_t, uint32)
ADDENDS(uint64_t, uint64)

static void begin(Dtype dtype, void *y, const PlainProduct *p, const Addend *c) {
    if (dtype == DTYPE_FLOAT)
        begin_float(y, p->m, p->n, c);
    else if (dtype == DTYPE_DOUBLE)
        begin_double(y, p->m, p->n, c);
    else if (kernel_element_size(dtype) == 4)
        begin_uint32(y, p->m, p->n, c);
    else
        begin_uint64(y, p->m, p->n, c);
}

static void scale(Dtype dtype, float alpha, const PlainProduct *p, const Addend *c) {
    if (dtype == DTYPE_FLOAT)
        scale_float(p->y, alpha, p->m, p->n, c);
    else if (dtype == DTYPE_DOUBLE)
        scale_double(p->y, alpha, p->m, p->n, c);
    else if (kernel_element_size(dtype) == 4)
        scale_uint32(p->y, alpha, p->m, p->n, c);
    else
        scale_uint64(p->y, alpha, p->m, p->n, c);
}

static bool gemm_operands(KernelCall *call, const GemmAttrs *attrs, PlainProduct *p) {
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
    bool ta = attrs->trans_a != 0, tb = attrs->trans_b != 0;
    if (a->rank != 2 || b->rank != 2 || y->rank != 2 || a->dims[ta] != y->dims[0] ||
        b->dims[!tb] != y->dims[1] || a->dims[!ta] != b->dims[tb])
        return kernel_fail(call, "the matrices' dimensions do not fit");
    uint64_t a_width = (uint64_t)a->dims[1], b_width = (uint64_t)b->dims[1];
    *p = (PlainProduct){.a = a->data,
                        .b = b->data,
                        .y = y->data,
                        .m = (uint64_t)y->dims[0],
                        .n = (uint64_t)y->dims[1],
                        .k = (uint64_t)a->dims[!ta],
                        .a_row = ta ? 1 : a_width,
                        .a_column = ta ? a_width : 1,
                        .b_row = tb ? 1 : b_width,
                        .b_column = tb ? b_width : 1};
    return true;
}

bool kernel_gemm(KernelCall *call) {
    const GemmAttrs *attrs = call->attrs;
    KernelTensor *y = &call->outputs[0];
    PlainProduct p;
    Addend c;
    if (!one_type(call) || !gemm_operands(call, attrs, &p) || !addend_make(call, attrs->beta, &c))
        return false;
    if (y->count == 0) return true;
    bool as_it_is = attrs->alpha == 1, first = as_it_is && c.data;
    if (first)
        begin(y->dtype, y->data, &p, &c);
    else
        memset(y->data, 0, y->count * kernel_element_size(y->dtype));
    if (y->dtype == DTYPE_FLOAT) {
        const GemmMatrices g = {
            .batches = 1,
            .m = p.m,
            .n = p.n,
            .k = p.k,
            .a = {p.a, NULL, p.a_row, p.a_column, DTYPE_UNDEFINED},
            .b = {p.b, NULL, p.b_row, p.b_column, gemm_narrow(&call->inputs[1])},
            .c = y->data,
            .add = first};
        if (!gemm_matrices(call, &g)) return false;
    } else {
        plain_product(call, y->dtype, &p);
    }
    if (!as_it_is) scale(y->dtype, attrs->alpha, &p, &c);
    return true;
}
