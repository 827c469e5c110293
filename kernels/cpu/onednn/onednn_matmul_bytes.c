// SPDX-License-Identifier: Apache-2.0
/* MatMulInteger and QLinearMatMul by oneDNN: the same bits as the own rows'.
 *
 * oneDNN multiplies unsigned by signed bytes, exactly. An int8 `a` becomes unsigned, an uint8 `b`
 * signed, by adding or taking off 128, and zero points likewise; with those new operands and zero
 * points, modulo 2^32,
 *
 *     sum (a - za)(b - zb) = sum a b - za[i] sum b[., j] - zb[j] (sum a[i, .] - k za[i])
 *
 * whose corrections are made here. A constant `b` is packed once with its columns' sums.
 */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_parts.h"
#include "matmul_quantized.h"
#include "onednn_chain.h"
#include "onednn_rules.h"

/* Of a part's rows of all batches; what all parts have in common is the first one's. */
typedef struct BytesMatmul {
    OnednnChain chain; /* first: onednn_chains_release */
    int a, b, y;
    OnednnShare rows;
    const unsigned char
        *packed; /* b, then int32 sums of its columns at packed_size; NULL: the call's */
    uint64_t packed_size;
} BytesMatmul;

/* The matrix b with its sums. */
typedef struct BytesMatrix {
    const void *bytes;
    const int32_t *sums; /* [batches, n] */
} BytesMatrix;

static bool is_byte(const KernelTensor *t) {
    return t->dtype == DTYPE_INT8 || t->dtype == DTYPE_UINT8;
}

static void column_sums(const int8_t *b, uint64_t k, uint64_t n, int32_t *sums) {
    memset(sums, 0, n * sizeof *sums);
    for (uint64_t i = 0; i < k; i++)
        for (uint64_t j = 0; j < n; j++) sums[j] += b[i * n + j];
}

static uint64_t align(uint64_t size) {
    return (size + 63) / 64 * 64;
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* KernelPack: job->variant is the hash of the layout. */
static bool pack(KernelCall *call, const KernelPackJob *job) {
    const OnednnChain *chain = call->prepared;
    const KernelTensor *b = job->from;
    uint64_t n = b->rank > 1 ? (uint64_t)b->dims[b->rank - 1] : 1;
    void *bytes = b->data;
    if (b->dtype == DTYPE_UINT8) {
        bytes = kernel_workspace(call, b->count);
        if (!bytes) return false;
        onednn_flip(bytes, b->data, b->count);
    }
    int32_t *sums = (int32_t *)(void *)((char *)job->to + job->size - align(n * sizeof *sums));
    column_sums(bytes, b->count / n, n, sums);
    int before = onednn_enter(chain->lib);
    bool ok = onednn_copy(chain, chain->pack_from, bytes, chain->pack_to, job->to);
    onednn_leave(chain->lib, before);
    return ok;
}

/* Of the first part, for all. */
static void pack_shared(KernelCall *call, BytesMatmul *mm, uint32_t operand,
                        const_dnnl_memory_desc_t b, uint64_t n) {
    OnednnChain *chain = &mm->chain;
    if (chain->failed) return;
    if (mm != call->prepared) {
        onednn_refuse_other_weights(call, chain);
        return;
    }
    chain->pack_from = b;
    chain->pack_to = onednn_wanted(chain, dnnl_query_weights_md);
    mm->packed_size = align(chain->lib->memory_desc_get_size(chain->pack_to));
    mm->packed = kernel_share(call, operand, pack, onednn_layout_hash(chain, chain->pack_to),
                              mm->packed_size + align(n * sizeof(int32_t)));
    if (mm->packed)
        kernel_set_unread(call, operand);
    else
        chain->failed = true;
}

static void chain_make(KernelCall *call, BytesMatmul *mm, uint32_t operand,
                       const MatmulBatches *s) {
    OnednnChain *chain = &mm->chain;
    const Onednn *lib = chain->lib;
    dnnl_dim_t batches = (dnnl_dim_t)s->batches, m = (dnnl_dim_t)s->m, n = (dnnl_dim_t)s->n;
    dnnl_dim_t k = (dnnl_dim_t)s->k, rows = (dnnl_dim_t)mm->rows.count;
    int skip = batches == 1;
    const dnnl_dims_t a_dims = {batches, rows, k}, b_dims = {batches, k, n};
    const dnnl_dims_t y_dims = {batches, rows, n}, a_steps = {m * k, k, 1}, y_steps = {m * n, n, 1};
    bool packed = skip && kernel_is_constant(call, operand);
    const_dnnl_memory_desc_t a =
        onednn_desc(chain, dnnl_u8, 3 - skip, a_dims + skip, a_steps + skip);
    const_dnnl_memory_desc_t b = onednn_desc(chain, dnnl_s8, 3 - skip, b_dims + skip, NULL);
    const_dnnl_memory_desc_t y =
        onednn_desc(chain, dnnl_s32, 3 - skip, y_dims + skip, y_steps + skip);
    const_dnnl_memory_desc_t wanted =
        packed ? onednn_desc_any(chain, dnnl_s8, 2, b_dims + skip) : b;
    dnnl_primitive_attr_t attr = onednn_attr(chain);
    dnnl_primitive_desc_t desc = NULL;
    if (chain->failed) return;
    dnnl_status_t status =
        lib->matmul_primitive_desc_create(&desc, lib->engine, a, wanted, NULL, y, attr);
    lib->primitive_attr_destroy(attr);
    if (!onednn_step(chain, status, desc)) return;
    onednn_refuse_reference(chain);
    if (!onednn_sums_exactly(chain, s->k)) chain->failed = true;
    if (packed) pack_shared(call, mm, operand, b, s->n);
    mm->a = onednn_given(chain, a);
    mm->b = onednn_given(chain, onednn_wanted(chain, dnnl_query_weights_md));
    mm->y = onednn_given(chain, y);
    const ChainArg args[] = {
        {DNNL_ARG_SRC, mm->a}, {DNNL_ARG_WEIGHTS, mm->b}, {DNNL_ARG_DST, mm->y}};
    onednn_args(chain, args, 3);
}

/* Each batch's matrices follow the last one's. */
static bool in_order(const MatmulBatches *s) {
    for (uint64_t i = 0; i < s->batches; i++)
        if (s->a[i] != i * s->m * s->k || s->b[i] != i * s->k * s->n) return false;
    return true;
}

static KernelReady make(KernelCall *call, uint32_t operand) {
    const KernelTensor *a = &call->inputs[0], *b = kernel_input(call, operand);
    const KernelTensor *y = &call->outputs[0];
    MatmulBatches s;
    if (!onednn_allowed(call, ONEDNN_MATMUL_BYTES, a->dtype) || !b || !is_byte(b))
        return KERNEL_DECLINED;
    if (!matmul_batches(call, a, b, y, &s)) return KERNEL_FAILED;
    if (y->count == 0 || s.k == 0 || a->count > INT32_MAX || b->count > INT32_MAX ||
        y->count > INT32_MAX || !in_order(&s))
        return KERNEL_DECLINED;
    const OnednnWork work = {.family = ONEDNN_MATMUL_BYTES,
                             .dtype = DTYPE_UINT8,
                             .batches = s.batches,
                             .groups = 1,
                             .rows = s.m,
                             .columns = s.n,
                             .depth = s.k,
                             .constant = s.batches == 1 && kernel_is_constant(call, operand)};
    const Onednn *lib = onednn_for(call, &work);
    BytesMatmul *first = lib ? onednn_chains_new(call, &work, s.m, sizeof *first) : NULL;
    if (!first) return KERNEL_DECLINED;
    int before = onednn_enter(lib);
    for (unsigned i = 0; i < first->chain.parts; i++) {
        BytesMatmul *mm = onednn_part(first, i);
        mm->rows = onednn_share(first, s.m, i);
        chain_make(call, mm, operand, &s);
    }
    onednn_leave(lib, before);
    return onednn_chains_failed(first) ? KERNEL_DECLINED : KERNEL_READY;
}

static KernelReady make_matmul_integer(KernelCall *call) {
    return make(call, 1);
}
static KernelReady make_qlinear_matmul(KernelCall *call) {
    return make(call, 3);
}

const KernelPrepare kernel_prepare_onednn_matmul_integer = {make_matmul_integer,
                                                            onednn_chains_release, ONEDNN_CHOICES};
const KernelPrepare kernel_prepare_onednn_qlinear_matmul = {make_qlinear_matmul,
                                                            onednn_chains_release, ONEDNN_CHOICES};

/* ---- running --------------------------------------------------------------------------------- */

/* b as signed bytes and the sums of its columns: packed, or made now. */
static bool second_matrix(KernelCall *call, const BytesMatmul *mm, const ByteFactors *f,
                          BytesMatrix *result) {
    const MatmulBatches *s = &f->s;
    if (mm->packed) {
        result->bytes = mm->packed;
        result->sums = (const int32_t *)(const void *)(mm->packed + mm->packed_size);
        return true;
    }
    result->bytes = f->b->data;
    int32_t *sums = kernel_workspace(call, s->batches * s->n * sizeof *sums);
    if (!sums) return false;
    if (f->b->dtype == DTYPE_UINT8) {
        void *flipped = kernel_workspace(call, f->b->count);
        if (!flipped) return false;
        onednn_flip(flipped, f->b->data, f->b->count);
        result->bytes = flipped;
    }
    for (uint64_t i = 0; i < s->batches; i++)
        column_sums((const int8_t *)result->bytes + i * s->k * s->n, s->k, s->n, sums + i * s->n);
    result->sums = sums;
    return true;
}

static uint32_t row_sum(const uint8_t *a, uint64_t k) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < k; i++) sum += a[i];
    return sum;
}

/* sums[i, j] -= za[i] * columns[j] + zb[j] * (row sum of a[i] - k * za[i]), all rows of all
 * batches. */
typedef struct Correction {
    const uint8_t *a;
    const Lines *a_zero;
    int32_t a_shift;                 /* of its zero points */
    const int32_t *columns, *b_zero; /* [batches, n] */
    bool any_b;                      /* not all of b_zero are 0 */
    uint64_t m, n, k;
    int32_t *sums;
} Correction;

static void correct_row(const Correction *c, uint64_t row) {
    uint64_t batch = row / c->m;
    const Lines *zeros = c->a_zero;
    uint32_t za = (uint32_t)((int32_t)zeros->items[zeros->one ? 0 : row] + c->a_shift);
    uint32_t rest = c->any_b ? row_sum(c->a + row * c->k, c->k) - (uint32_t)c->k * za : 0;
    if (!za && !rest) return;
    const int32_t *columns = c->columns + batch * c->n, *zb = c->b_zero + batch * c->n;
    uint32_t *sums = (uint32_t *)(void *)(c->sums + row * c->n);
    if (!c->any_b)
        for (uint64_t j = 0; j < c->n; j++) sums[j] -= za * (uint32_t)columns[j];
    else
        for (uint64_t j = 0; j < c->n; j++)
            sums[j] -= za * (uint32_t)columns[j] + rest * (uint32_t)zb[j];
}

static void correct_part(const void *correction, uint64_t first, uint64_t end, unsigned lane) {
    (void)lane;
    for (uint64_t i = first; i < end; i++) correct_row(correction, i);
}

static void correct(KernelCall *call, const Correction *c, uint64_t rows) {
    kernel_run_parts(call->workers,
                     kernel_work_cut(call, (double)rows * (double)(c->n + c->k), rows),
                     correct_part, c);
}

/* b's zero points for each column of each batch, as they are for signed bytes. */
static bool column_zeros(KernelCall *call, const ByteFactors *f, Correction *c) {
    uint64_t count = f->s.batches * f->s.n;
    int32_t shift = f->b->dtype == DTYPE_UINT8 ? -128 : 0;
    int32_t *zeros = kernel_workspace(call, count * sizeof *zeros);
    if (!zeros) return false;
    for (uint64_t i = 0; i < count; i++) {
        zeros[i] = (int32_t)f->b_zero.items[f->b_zero.one ? 0 : i] + shift;
        c->any_b = c->any_b || zeros[i];
    }
    c->b_zero = zeros;
    return true;
}

static bool sums_by_onednn(KernelCall *call, const ByteFactors *f, int32_t *sums) {
    const BytesMatmul *first = call->prepared;
    BytesMatrix b;
    bool is_signed = f->a->dtype == DTYPE_INT8;
    void *workspace = onednn_workspace(call);
    uint8_t *a = is_signed ? kernel_workspace(call, f->a->count) : f->a->data;
    if (!workspace || !a || !second_matrix(call, first, f, &b)) return false;
    if (is_signed) onednn_flip(a, f->a->data, f->a->count);
    for (unsigned i = 0; i < first->chain.parts; i++) {
        BytesMatmul *mm = onednn_part(first, i);
        onednn_set(&mm->chain, mm->a, a + mm->rows.first * f->s.k);
        onednn_set(&mm->chain, mm->b, b.bytes);
        onednn_set(&mm->chain, mm->y, sums + mm->rows.first * f->s.n);
    }
    if (!onednn_chains_run(call, workspace)) return false;
    Correction c = {.a = a,
                    .a_zero = &f->a_zero,
                    .a_shift = is_signed ? 128 : 0,
                    .columns = b.sums,
                    .m = f->s.m,
                    .n = f->s.n,
                    .k = f->s.k,
                    .sums = sums};
    if (!column_zeros(call, f, &c)) return false;
    correct(call, &c, f->s.batches * f->s.m);
    return true;
}

bool kernel_onednn_matmul_integer(KernelCall *call) {
    return matmul_integer_by(call, sums_by_onednn);
}

bool kernel_onednn_qlinear_matmul(KernelCall *call) {
    return qlinear_matmul_by(call, sums_by_onednn);
}
