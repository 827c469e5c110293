// SPDX-License-Identifier: Apache-2.0
/* MatMul, Gemm and the fused MatMul by oneDNN, of float and of bfloat16 (float sums, rounded once).
 *
 * A second matrix that is constant and one for all batches is packed once for all contexts of a
 * plan; other operands are read as they lie. What is fused into one is applied to its float sums
 * (onednn_result.h). Batches that are broadcast in part, Gemm's factors, and
 * addends of rows are left to the own rows.
 */
#include "fused_operands.h"
#include "kernel_functions.h"
#include "matmul_batches.h"
#include "onednn_chain.h"
#include "onednn_result.h"
#include "onednn_rules.h"

/* Of a part's batches, or of its rows of all batches; what all parts have in common is the first
 * one's. */
typedef struct OnednnMatmul {
    OnednnChain chain; /* first: onednn_chains_release */
    int a, b, bias, y;
    uint64_t a_at, b_at, y_at; /* elements before it */
    const void *weights;       /* packed; NULL: the call's */
    bool within;               /* y is in the workspace, in float */
    uint64_t rows, columns;
    Epilogue epilogue;
} OnednnMatmul;

/* y[batches, m, n] = a[batches, m, k] * b[batches, k, n] + bias[n]; steps are of rows and columns.
 */
typedef struct Product {
    Dtype dtype;
    uint64_t batches, m, n, k;
    dnnl_dim_t a_row, a_column, b_row, b_column;
    bool has_bias, fused; /* fused: y is float, in the workspace unless it is the result's type */
    Dtype result;         /* of a fused one */
} Product;

static bool small(uint64_t a, uint64_t b, uint64_t c) {
    return a && b && c && a <= INT32_MAX && b <= INT32_MAX && c <= INT32_MAX &&
           a * b <= INT32_MAX && (a * b) * c <= INT32_MAX;
}

static bool sizes_suit(const Product *p) {
    return small(p->batches, p->m, p->k) && small(p->batches, p->k, p->n) &&
           small(p->batches, p->m, p->n);
}

static OnednnWork work_of(const KernelCall *call, const Product *p) {
    return (OnednnWork){.family = ONEDNN_MATMUL,
                        .dtype = p->dtype,
                        .batches = p->batches,
                        .groups = 1,
                        .rows = p->m,
                        .columns = p->n,
                        .depth = p->k,
                        .constant = kernel_is_constant(call, 1) && p->batches == 1};
}

static dnnl_data_type_t type_of(const Product *p) {
    return p->dtype == DTYPE_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
}

/* A part's batches and rows. */
typedef struct Cut {
    OnednnShare batches, rows;
} Cut;

/* As many of the `rows` rows of each matrix as the cut has. */
typedef struct Matrices {
    uint64_t rows, columns, cut;
    dnnl_dim_t row, column; /* steps */
    dnnl_data_type_t type;
} Matrices;

/* [batches, rows, columns]; without the first where there is one batch. */
static const_dnnl_memory_desc_t matrices(OnednnMatmul *mm, const Product *p, const Cut *cut,
                                         Matrices m) {
    dnnl_dims_t dims = {(dnnl_dim_t)cut->batches.count, (dnnl_dim_t)m.cut, (dnnl_dim_t)m.columns};
    dnnl_dims_t steps = {(dnnl_dim_t)(m.rows * m.columns), m.row, m.column};
    int skip = p->batches == 1;
    return onednn_desc(&mm->chain, m.type, 3 - skip, dims + skip, steps + skip);
}

static const_dnnl_memory_desc_t bias_desc(OnednnMatmul *mm, const Product *p) {
    const dnnl_dim_t dims[] = {1, 1, (dnnl_dim_t)p->n};
    int skip = p->batches == 1;
    return p->has_bias ? onednn_desc(&mm->chain, type_of(p), 3 - skip, dims + skip, NULL) : NULL;
}

/* b as the call has it, or packed once, for all parts. */
static void second_matrix(KernelCall *call, OnednnMatmul *mm, const_dnnl_memory_desc_t b,
                          bool packed) {
    OnednnChain *chain = &mm->chain;
    OnednnMatmul *first = call->prepared;
    if (packed && mm == first) {
        mm->weights = onednn_pack_shared(call, 1, b);
        if (mm->weights) kernel_set_unread(call, 1);
    }
    if (packed && !first->weights) chain->failed = true; /* past the budget */
    if (packed && mm != first) onednn_refuse_other_weights(call, chain);
    mm->b = onednn_given(chain, onednn_wanted(chain, dnnl_query_weights_md));
}

static void chain_make(KernelCall *call, OnednnMatmul *mm, const Product *p, const Cut *cut) {
    OnednnChain *chain = &mm->chain;
    const Onednn *lib = chain->lib;
    const dnnl_dims_t any = {(dnnl_dim_t)p->k, (dnnl_dim_t)p->n};
    const uint64_t rows = cut->rows.count;
    const dnnl_data_type_t type = type_of(p);
    bool packed = kernel_is_constant(call, 1) && p->batches == 1;
    const_dnnl_memory_desc_t a =
        matrices(mm, p, cut, (Matrices){p->m, p->k, rows, p->a_row, p->a_column, type});
    const_dnnl_memory_desc_t y = matrices(
        mm, p, cut, (Matrices){p->m, p->n, rows, (dnnl_dim_t)p->n, 1, p->fused ? dnnl_f32 : type});
    const_dnnl_memory_desc_t b =
        matrices(mm, p, cut, (Matrices){p->k, p->n, p->k, p->b_row, p->b_column, type});
    const_dnnl_memory_desc_t bias = bias_desc(mm, p);
    const_dnnl_memory_desc_t wanted = packed ? onednn_desc_any(chain, type, 2, any) : b;
    dnnl_primitive_attr_t attr = onednn_attr(chain);
    dnnl_primitive_desc_t desc = NULL;
    if (chain->failed) return;
    dnnl_status_t status =
        lib->matmul_primitive_desc_create(&desc, lib->engine, a, wanted, bias, y, attr);
    lib->primitive_attr_destroy(attr);
    if (!onednn_step(chain, status, desc)) return;
    onednn_refuse_reference(chain);
    mm->a = onednn_given(chain, a);
    second_matrix(call, mm, b, packed);
    mm->y = onednn_given(chain, y);
    mm->bias = p->has_bias ? onednn_given(chain, bias) : CHAIN_NONE;
    mm->a_at = cut->batches.first * p->m * p->k + cut->rows.first * (uint64_t)p->a_row;
    mm->b_at = cut->batches.first * p->k * p->n;
    mm->y_at = (cut->batches.first * p->m + cut->rows.first) * p->n;
    const ChainArg args[] = {{DNNL_ARG_SRC, mm->a},
                             {DNNL_ARG_WEIGHTS, mm->b},
                             {DNNL_ARG_BIAS, mm->bias},
                             {DNNL_ARG_DST, mm->y}};
    onednn_args(chain, args, 4);
}

static KernelReady make(KernelCall *call, const Product *p) {
    const OnednnWork work = work_of(call, p);
    const Onednn *lib = sizes_suit(p) ? onednn_for(call, &work) : NULL;
    const bool by_batch = p->batches >= kernel_threads(call);
    const uint64_t items = by_batch ? p->batches : p->m;
    OnednnMatmul *first = lib ? onednn_chains_new(call, &work, items, sizeof *first) : NULL;
    if (!first) return KERNEL_DECLINED;
    first->within = p->fused && p->result != DTYPE_FLOAT;
    first->rows = p->batches * p->m;
    first->columns = p->n;
    int before = onednn_enter(lib);
    for (unsigned i = 0; i < first->chain.parts; i++) {
        const OnednnShare share = onednn_share(first, items, i);
        const Cut cut = {by_batch ? share : (OnednnShare){0, p->batches},
                         by_batch ? (OnednnShare){0, p->m} : share};
        chain_make(call, onednn_part(first, i), p, &cut);
    }
    onednn_leave(lib, before);
    return onednn_chains_failed(first) ? KERNEL_DECLINED : KERNEL_READY;
}

static void *elements_at(const KernelTensor *tensor, uint64_t at) {
    return (char *)tensor->data + at * (tensor->dtype == DTYPE_FLOAT ? 4 : 2);
}

/* `sums`: of a fused one whose result is of another type; else NULL. */
static bool run(KernelCall *call, const void *bias, float *sums) {
    const OnednnMatmul *first = call->prepared;
    void *workspace = onednn_workspace(call);
    if (!workspace) return false;
    for (unsigned i = 0; i < first->chain.parts; i++) {
        OnednnMatmul *mm = onednn_part(first, i);
        OnednnChain *chain = &mm->chain;
        onednn_set(chain, mm->a, elements_at(&call->inputs[0], mm->a_at));
        onednn_set(chain, mm->b,
                   first->weights ? first->weights : elements_at(&call->inputs[1], mm->b_at));
        onednn_set(chain, mm->bias, bias);
        onednn_set(chain, mm->y,
                   sums ? (void *)(sums + mm->y_at) : elements_at(&call->outputs[0], mm->y_at));
    }
    return onednn_chains_run(call, workspace);
}

static bool one_type(const KernelCall *call) {
    Dtype dtype = call->inputs[0].dtype;
    const KernelTensor *c = kernel_input(call, 2);
    return (dtype == DTYPE_FLOAT || dtype == DTYPE_BFLOAT16) && call->inputs[1].dtype == dtype &&
           call->outputs[0].dtype == dtype && (!c || c->dtype == dtype);
}

/* ---- MatMul ---------------------------------------------------------------------------------- */

/* Each batch's matrices follow the last one's. */
static bool in_order(const MatmulBatches *s) {
    for (uint64_t i = 0; i < s->batches; i++)
        if (s->a[i] != i * s->m * s->k || s->b[i] != i * s->k * s->n) return false;
    return true;
}

static KernelReady make_matmul(KernelCall *call) {
    MatmulBatches s;
    if (!one_type(call) || !onednn_allowed(call, ONEDNN_MATMUL, call->inputs[0].dtype))
        return KERNEL_DECLINED;
    if (!matmul_batches(call, &call->inputs[0], &call->inputs[1], &call->outputs[0], &s))
        return KERNEL_FAILED;
    if (call->outputs[0].count == 0 || !in_order(&s)) return KERNEL_DECLINED;
    const Product p = {.dtype = call->inputs[0].dtype,
                       .batches = s.batches,
                       .m = s.m,
                       .n = s.n,
                       .k = s.k,
                       .a_row = (dnnl_dim_t)s.k,
                       .a_column = 1,
                       .b_row = (dnnl_dim_t)s.n,
                       .b_column = 1};
    return make(call, &p);
}

const KernelPrepare kernel_prepare_onednn_matmul = {make_matmul, onednn_chains_release,
                                                    ONEDNN_CHOICES};

bool kernel_onednn_matmul(KernelCall *call) {
    return run(call, NULL, NULL);
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

/* C is one row for all rows of the result, or there is none. */
static bool addend_suits(const KernelCall *call, const GemmAttrs *attrs, bool *has) {
    const KernelTensor *c = kernel_input(call, 2), *y = &call->outputs[0];
    *has = c && attrs->beta != 0;
    if (!*has) return true;
    return attrs->beta == 1 && c->rank >= 1 && c->rank <= 2 && (c->rank == 1 || c->dims[0] == 1) &&
           c->dims[c->rank - 1] == y->dims[1];
}

static KernelReady make_gemm(KernelCall *call) {
    const GemmAttrs *attrs = call->attrs;
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
    bool ta = attrs->trans_a != 0, tb = attrs->trans_b != 0, has_bias;
    if (!one_type(call) || a->rank != 2 || b->rank != 2 || y->rank != 2 || attrs->alpha != 1 ||
        a->dims[ta] != y->dims[0] || b->dims[!tb] != y->dims[1] || a->dims[!ta] != b->dims[tb] ||
        !addend_suits(call, attrs, &has_bias))
        return KERNEL_DECLINED; /* what is wrong the own row says */
    const Product p = {.dtype = a->dtype,
                       .batches = 1,
                       .m = (uint64_t)y->dims[0],
                       .n = (uint64_t)y->dims[1],
                       .k = (uint64_t)a->dims[!ta],
                       .a_row = ta ? 1 : a->dims[1],
                       .a_column = ta ? a->dims[1] : 1,
                       .b_row = tb ? 1 : b->dims[1],
                       .b_column = tb ? b->dims[1] : 1,
                       .has_bias = has_bias};
    return make(call, &p);
}

const KernelPrepare kernel_prepare_onednn_gemm = {make_gemm, onednn_chains_release, ONEDNN_CHOICES};

bool kernel_onednn_gemm(KernelCall *call) {
    OnednnMatmul *mm = call->prepared;
    const void *bias = mm->bias == CHAIN_NONE ? NULL : kernel_input(call, 2)->data;
    return run(call, bias, NULL);
}

/* ---- the fused MatMul ------------------------------------------------------------------------ */

static bool fused_operands_suit(KernelCall *call, const GemmAttrs *attrs) {
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1], *bias = kernel_input(call, 2);
    const KernelTensor *y = &call->outputs[0];
    bool reals = a->dtype == DTYPE_FLOAT || a->dtype == DTYPE_BFLOAT16;
    if (!reals || b->dtype != a->dtype || attrs->alpha != 1 || a->rank < 2 || b->rank < 2 ||
        y->rank < 2)
        return false;
    if ((attrs->trans_a && a->rank != 2) || (attrs->trans_b && b->rank != 2)) return false;
    return !bias || (bias->rank >= 1 && bias->count == (uint64_t)y->dims[y->rank - 1] &&
                     bias->dims[bias->rank - 1] == y->dims[y->rank - 1]);
}

/* The plain matrix with its axes exchanged; `dims` is for the view. */
static KernelTensor transposed(const KernelTensor *tensor, bool transpose, int64_t dims[2]) {
    KernelTensor view = *tensor;
    if (!transpose) return view;
    dims[0] = tensor->dims[1];
    dims[1] = tensor->dims[0];
    view.dims = dims;
    return view;
}

static KernelReady make_fused_matmul(KernelCall *call) {
    const GemmAttrs *attrs = call->attrs;
    bool ta = attrs->trans_a != 0, tb = attrs->trans_b != 0;
    int64_t a_dims[2], b_dims[2];
    Epilogue epilogue = {0};
    MatmulBatches s;
    if (!fused_operands_suit(call, attrs) ||
        !onednn_allowed(call, ONEDNN_MATMUL, call->inputs[0].dtype))
        return KERNEL_DECLINED;
    if (!fused_read_activation(call, &attrs->act, &epilogue) || !fused_check_residual(call))
        return KERNEL_FAILED;
    const KernelTensor a = transposed(&call->inputs[0], ta, a_dims);
    const KernelTensor b = transposed(&call->inputs[1], tb, b_dims);
    if (!matmul_batches(call, &a, &b, &call->outputs[0], &s)) return KERNEL_FAILED;
    if (call->outputs[0].count == 0 || !in_order(&s)) return KERNEL_DECLINED;
    const Product p = {.dtype = a.dtype,
                       .batches = s.batches,
                       .m = s.m,
                       .n = s.n,
                       .k = s.k,
                       .a_row = ta ? 1 : (dnnl_dim_t)s.k,
                       .a_column = ta ? (dnnl_dim_t)s.m : 1,
                       .b_row = tb ? 1 : (dnnl_dim_t)s.n,
                       .b_column = tb ? (dnnl_dim_t)s.k : 1,
                       .fused = true,
                       .result = call->outputs[0].dtype};
    KernelReady ready = make(call, &p);
    if (ready == KERNEL_READY) ((OnednnMatmul *)call->prepared)->epilogue = epilogue;
    return ready;
}

const KernelPrepare kernel_prepare_onednn_fused_matmul = {make_fused_matmul, onednn_chains_release,
                                                          ONEDNN_CHOICES};

bool kernel_onednn_fused_matmul(KernelCall *call) {
    const OnednnMatmul *mm = call->prepared;
    float *sums = mm->within ? kernel_workspace(call, mm->rows * mm->columns * sizeof *sums) : NULL;
    if ((mm->within && !sums) || !run(call, NULL, sums)) return false;
    OnednnResult result = {.images = 1,
                           .rows = mm->rows,
                           .columns = mm->columns,
                           .epilogue = mm->epilogue,
                           .residual = kernel_input(call, 3),
                           .y = &call->outputs[0]};
    result.sums = sums ? sums : result.y->data;
    result.epilogue.bias = fused_floats(call, kernel_input(call, 2));
    onednn_store(call, &result);
    return true;
}
