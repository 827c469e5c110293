// SPDX-License-Identifier: Apache-2.0
/* QMatMul: products of bytes by packed weights (igemm.h). */
#include <string.h>

#include "byte_operands.h"
#include "byte_rows.h"
#include "kernel_functions.h"
#include "kernel_pace.h"
#include "matmul_batches.h"
#include "op_attrs.h"

enum { A_ZERO = 2, ROW_FACTOR = 8, ROW_SHIFT, COLUMN_SHIFT };

typedef struct QMatMul {
    IsaSet cpu;
    IgemmKind kind;
    IgemmWay way; /* the call's choice */
    uint64_t k, n;
    bool transposed;
    WeightLayout layout;
    const void *weights; /* packed, and behind them the sums of columns; NULL: in every run */
} QMatMul;

static IgemmWeights weights_of(const QMatMul *m) {
    return (IgemmWeights){.kind = m->kind,
                          .taps = 1,
                          .depth = m->k,
                          .columns = m->n,
                          .row = m->transposed ? 1 : m->n,
                          .column = m->transposed ? m->k : 1,
                          .way = m->way};
}

static WeightLayout layout_of(const QMatMul *m) {
    const IgemmWeights weights = weights_of(m);
    WeightLayout layout = igemm_layout(&weights, m->cpu);
    layout.has_sums = 1;
    return layout;
}

static KernelReady make_q_matmul(KernelCall *call) {
    const GemmAttrs *attrs = call->attrs;
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1];
    QMatMul *m = kernel_keep(call, sizeof *m);
    if (!m) return KERNEL_DECLINED;
    call->prepared = m;
    if ((a->dtype != DTYPE_INT8 && a->dtype != DTYPE_UINT8) || b->dtype != DTYPE_INT8) {
        kernel_fail(call, "matrices of %s and %s", dtype_name(a->dtype), dtype_name(b->dtype));
        return KERNEL_FAILED;
    }
    if (a->rank < 1 || b->rank < 2) {
        kernel_fail(call, "matrices of rank %u and %u", a->rank, b->rank);
        return KERNEL_FAILED;
    }
    m->transposed = attrs->trans_b != 0;
    m->k = (uint64_t)b->dims[b->rank - (m->transposed ? 1 : 2)];
    m->n = (uint64_t)b->dims[b->rank - (m->transposed ? 2 : 1)];
    m->cpu = kernel_cpu(call);
    m->kind = igemm_bytes_kind(m->cpu);
    m->way = (IgemmWay)call->choice;
    const IgemmWeights weights = weights_of(m);
    if (m->way && (!m->n || !igemm_has_way(call, &weights, call->outputs[0].count / m->n, m->cpu)))
        return KERNEL_DECLINED;
    m->layout = layout_of(m);
    if (kernel_is_constant(call, 1) && b->count && b->rank == 2)
        m->weights = kernel_weights(call, 1, &m->layout);
    if (m->weights) kernel_set_unread(call, 1);
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_q_matmul = {make_q_matmul, NULL, IGEMM_WAY_COUNT - 1};

/* ---- running --------------------------------------------------------------------------------- */

typedef struct Rows {
    const char *from;
    uint64_t step;
} Rows;

static void find(const void *source, uint64_t first, uint32_t count, const void **to) {
    const Rows *rows = source;
    for (uint32_t i = 0; i < count; i++) to[i] = rows->from + (first + i) * rows->step;
}

/* One batch: its rows, the first of them among all, weights and result. */
typedef struct Batch {
    const char *rows;
    uint64_t first;
    const void *weights;
    char *y;
} Batch;

/* A number for each row from operand i, from that row on; NULL where it is absent, or with the error set. */
static const float *by_row(KernelCall *call, uint32_t i, const ByteRows *bytes, uint64_t first) {
    const KernelTensor *tensor = kernel_input(call, i);
    if (!tensor) return NULL;
    if (tensor->dtype == DTYPE_FLOAT && tensor->count == bytes->rows)
        return (const float *)tensor->data + first;
    kernel_fail(call, "operand %u has %llu elements for %llu rows", i,
                (unsigned long long)tensor->count, (unsigned long long)bytes->rows);
    return NULL;
}

/* Where rows have scales of their own. False with the error set. */
static bool scale_rows(KernelCall *call, const QMatMul *m, const ByteRows *bytes, uint64_t first,
                       IgemmScale *scale) {
    const bool factor = kernel_input(call, ROW_FACTOR), shift = kernel_input(call, ROW_SHIFT);
    if (!factor && !shift) return true;
    if (!factor || scale->to != DTYPE_FLOAT || (shift && !kernel_input(call, COLUMN_SHIFT)))
        return kernel_fail(call, "its rows have scales, and not all that goes with them");
    scale->row_factor = by_row(call, ROW_FACTOR, bytes, first);
    if (!scale->row_factor) return false;
    if (!shift) return true;
    scale->row_shift = by_row(call, ROW_SHIFT, bytes, first);
    scale->column_shift = byte_by_column(call, COLUMN_SHIFT, m->n, 0);
    return scale->row_shift && scale->column_shift;
}

static bool run_batch(KernelCall *call, const QMatMul *m, uint64_t rows, const ByteRows *bytes,
                      const Batch *batch) {
    ByteScale scale;
    const char *weights = batch->weights;
    const int32_t *sums = (const int32_t *)(const void *)(weights + weight_layout_sums(&m->layout));
    if (!byte_scale_make(call, sums, byte_rows_zero(bytes), m->n, &scale) ||
        !scale_rows(call, m, bytes, batch->first, &scale.scale))
        return false;
    const Rows source = {batch->rows, bytes->padded * byte_rows_element(m->kind)};
    const Igemm product = {.kind = m->kind,
                           .way = m->way,
                           .rows = rows,
                           .taps = 1,
                           .depth = igemm_words(m->kind, m->k),
                           .columns = m->n,
                           .find = find,
                           .source = &source,
                           .weights = weights,
                           .y = batch->y,
                           .y_row = m->n,
                           .epilogue = &scale.bounds,
                           .scale = &scale.scale};
    return igemm_run(call, &product, m->cpu);
}

bool kernel_q_matmul(KernelCall *call) {
    const QMatMul *m = call->prepared;
    const KernelTensor *a = &call->inputs[0];
    KernelTensor *y = &call->outputs[0], b = call->inputs[1];
    MatmulBatches s;
    ByteRows bytes = {.kind = m->kind, .from = a->data, .dtype = a->dtype, .length = m->k};
    if (m->transposed) b = matmul_transposed(call, &b);
    if (!matmul_batches(call, a, &b, y, &s) || !byte_zero(call, A_ZERO, a->dtype, &bytes.zero))
        return false;
    if (y->count == 0) return true;
    if (m->k == 0) return kernel_fail(call, "there is nothing to multiply");
    const size_t element = byte_rows_element(m->kind);
    bytes.rows = a->count / m->k;
    bytes.padded = igemm_words(m->kind, m->k) * (sizeof(uint32_t) / element);
    const char *rows = byte_rows_make(call, &bytes);
    char *packed = NULL;
    if (!rows) return false;
    if (!m->weights) packed = kernel_workspace(call, weight_layout_size(&m->layout));
    if (!m->weights && !packed) return false;
    KernelPace pace = {call, 0};
    for (uint64_t i = 0; i < s.batches; i++) {
        kernel_pace(&pace, 16 + s.m * s.n * s.k);
        const uint64_t first = s.a[i] / m->k;
        const Batch batch = {rows + first * bytes.padded * element, first,
                             m->weights ? m->weights : packed,
                             (char *)y->data + i * s.m * s.n * kernel_element_size(y->dtype)};
        if (packed) weight_layout_pack(&m->layout, (const int8_t *)b.data + s.b[i], packed);
        if (!run_batch(call, m, s.m, &bytes, &batch)) return false;
    }
    return true;
}
