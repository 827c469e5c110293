// SPDX-License-Identifier: Apache-2.0
/* MatMul and Gemm on a CUDA device, by cuBLASLt; of few rows, and where it has no such product, by kernels
 * of product.cu, and by tiles (tile.cu) where it leaves something to do. Sums of floats are float.
 *
 * cuBLASLt counts by columns: a matrix of rows is its transpose there, so y = a b is computed as
 * y' = b' a'. */
#include "cuda_blas.h"
#include "cuda_broadcast.h"
#include "cuda_epilogue.h"
#include "cuda_functions.h"
#include "cuda_product.h"
#include "cuda_tile.h"
#include "half.h"
#include "matmul_batches.h"
#include "product_args.h"

enum { WORKSPACE = 32 << 20, TILE = 32, ROWS = 8, GRID_LIMIT = 65535 };

/* A product as all rows have it. */
typedef struct Product {
    MatmulBatches sizes;
    int64_t a_batch, b_batch; /* elements between batches' matrices; -1: they lie anyhow */
    bool trans_a, trans_b;
    float alpha, beta; /* beta: of z */
    CudaEpilogue epilogue;
    Dtype compute, result; /* type of both factors, and of what the library gives */
} Product;

/* What is kept of a product by cuBLASLt, or by tiles. */
typedef struct Ready {
    const CudaBlas *blas;
    void *handle, *product, *a, *b, *y;
    BlasFound found;
    bool biased, added, whole; /* the library adds the bias and z; and nothing is left to do */
    bool tf32;
    const void *bias;   /* on the device, in y's type; NULL: as it is */
    bool tiles, few;    /* by tiles, or by the kernel for few rows, instead */
    const void *turned; /* then b's columns one after the other; NULL: b is so already */
} Ready;

/* ---- shapes ---------------------------------------------------------------------------------- */

static int64_t even(const uint64_t *at, uint64_t count) {
    const uint64_t step = count > 1 ? at[1] : 0;
    for (uint64_t i = 0; i < count; i++)
        if (at[i] != i * step) return -1;
    return (int64_t)step;
}

static bool read_sizes(KernelCall *call, const GemmAttrs *attrs, Product *p) {
    const KernelTensor *a = &call->inputs[0], *b = &call->inputs[1];
    KernelTensor a_view = *a, b_view = *b;
    p->trans_a = attrs && attrs->trans_a;
    p->trans_b = attrs && attrs->trans_b;
    if (p->trans_a) a_view = matmul_transposed(call, a);
    if (p->trans_b) b_view = matmul_transposed(call, b);
    if (!matmul_batches(call, &a_view, &b_view, &call->outputs[0], &p->sizes)) return false;
    if (p->trans_a && p->sizes.batches == 1 && a->rank > 2 && kernel_span(a, 0, a->rank - 2) > 1)
        return kernel_decline(call,
                              "the device does not support a transposed first factor in batches");
    p->a_batch = even(p->sizes.a, p->sizes.batches);
    p->b_batch = even(p->sizes.b, p->sizes.batches);
    return true;
}

static bool is_16(Dtype dtype) {
    return dtype_is_reduced(dtype);
}

/* Factors of one type are computed as they are; else as float. 16-bit ones give their own type or
 * float. */
static void choose_types(const KernelCall *call, Product *p) {
    const Dtype a = call->inputs[0].dtype, b = call->inputs[1].dtype, y = call->outputs[0].dtype;
    p->compute = a == b ? a : DTYPE_FLOAT;
    p->result = p->compute == y                                  ? y
                : is_16(p->compute) || p->compute == DTYPE_FLOAT ? DTYPE_FLOAT
                                                                 : y;
}

/* What Gemm adds, where it is as a bias or a residual. */
static void take_addend(const KernelCall *call, const GemmAttrs *attrs, Product *p) {
    const KernelTensor *c = kernel_input(call, 2), *y = &call->outputs[0];
    if (!c || attrs->beta != 1) return;
    if (c->count == y->count && c->rank == 2)
        p->epilogue.z = c;
    else if (c->count == 1 || (c->count == p->sizes.n && c->dims[c->rank - 1] == y->dims[1]))
        p->epilogue.bias = c;
}

/* MatMul has no attributes, Gemm's C is z where it has y's shape. */
static bool read_product(KernelCall *call, Product *p) {
    const bool gemm = call->row->layout == &op_attrs_gemm;
    const bool fused = call->row->layout == &op_attrs_fused_matmul;
    const GemmAttrs *attrs = gemm || fused ? call->attrs : NULL;
    *p = (Product){
        .alpha = attrs ? attrs->alpha : 1, .beta = 1, .epilogue = {.op = UNARY_COPY, .scale = 1}};
    if (!read_sizes(call, attrs, p)) return false;
    choose_types(call, p);
    p->epilogue.columns = p->sizes.n;
    if (fused) {
        p->epilogue.bias = kernel_input(call, 2);
        p->epilogue.z = kernel_input(call, 3);
        if (p->epilogue.bias && p->epilogue.bias->count != 1 &&
            p->epilogue.bias->count != p->sizes.n)
            return kernel_fail(call, "the bias does not have one element per column");
        if (p->epilogue.z && p->epilogue.z->count != call->outputs[0].count)
            return kernel_fail(call, "the shapes of Z and Y differ");
        return cuda_activation(call, &attrs->act, &p->epilogue);
    }
    if (gemm) take_addend(call, attrs, p);
    return true;
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

static int type_of(Dtype dtype) {
    switch (dtype) {
    case DTYPE_FLOAT16: return BLAS_FLOAT16;
    case DTYPE_BFLOAT16: return BLAS_BFLOAT16;
    case DTYPE_DOUBLE: return BLAS_DOUBLE;
    default: return BLAS_FLOAT;
    }
}

static bool is_float(Dtype dtype) {
    return dtype == DTYPE_FLOAT || dtype == DTYPE_DOUBLE || is_16(dtype);
}

static bool set_layout(Ready *r, void **layout, Dtype dtype, uint64_t rows, uint64_t columns,
                       uint64_t batches, int64_t stride, Err *err) {
    const int32_t count = (int32_t)batches;
    return cuda_blas_ok(r->blas->layout_new(layout, type_of(dtype), rows, columns, (int64_t)rows),
                        err, "a layout") &&
           (batches == 1 ||
            (cuda_blas_ok(r->blas->layout_set(*layout, BLAS_BATCHES, &count, sizeof count), err,
                          "batches") &&
             cuda_blas_ok(r->blas->layout_set(*layout, BLAS_BATCH_STRIDE, &stride, sizeof stride),
                          err, "batches")));
}

/* What of the epilogue the library does itself. */
static int32_t choose_epilogue(const KernelCall *call, const Product *p, Ready *r) {
    const CudaEpilogue *e = &p->epilogue;
    const Dtype y = call->outputs[0].dtype;
    r->biased = e->bias && (r->bias || e->bias->dtype == y) && e->bias->count == p->sizes.n &&
                p->result == y;
    r->added = e->z && e->z->dtype == y && p->result == y && (r->biased || !e->bias);
    const bool ends = (r->biased || !e->bias) && (r->added || !e->z) && p->result == y;
    const bool acts = ends && (e->op == UNARY_RELU || e->op == UNARY_GELU_TANH);
    int32_t epilogue = r->biased ? BLAS_EPILOGUE_BIAS : BLAS_EPILOGUE_NONE;
    if (acts) {
        const int32_t act = e->op == UNARY_RELU ? BLAS_EPILOGUE_RELU : BLAS_EPILOGUE_GELU;
        epilogue = r->biased ? act | BLAS_EPILOGUE_BIAS : act;
    }
    r->whole = ends && (acts || e->op == UNARY_COPY);
    return epilogue;
}

static bool describe(KernelCall *call, const Product *p, Ready *r) {
    const MatmulBatches *s = &p->sizes;
    const uint64_t batches = p->a_batch < 0 || p->b_batch < 0 ? 1 : s->batches;
    const int32_t transposed = 1, epilogue = choose_epilogue(call, p, r);
    const bool wide = p->compute == DTYPE_DOUBLE;
    Err *err = call->err;
    r->tf32 = p->compute == DTYPE_FLOAT && call->queue->tf32;
    return cuda_blas_ok(r->blas->product_new(&r->product,
                                             wide      ? BLAS_COMPUTE_64F
                                             : r->tf32 ? BLAS_COMPUTE_TF32
                                                       : BLAS_COMPUTE_32F,
                                             wide ? BLAS_DOUBLE : BLAS_FLOAT),
                        err, "a product") &&
           (!p->trans_b ||
            cuda_blas_ok(r->blas->product_set(r->product, BLAS_TRANSPOSED_A, &transposed, 4), err,
                         "a transposed factor")) &&
           (!p->trans_a ||
            cuda_blas_ok(r->blas->product_set(r->product, BLAS_TRANSPOSED_B, &transposed, 4), err,
                         "a transposed factor")) &&
           cuda_blas_ok(r->blas->product_set(r->product, BLAS_EPILOGUE, &epilogue, 4), err,
                        "an epilogue") &&
           set_layout(r, &r->b, p->compute, p->trans_b ? s->k : s->n, p->trans_b ? s->n : s->k,
                      batches, p->b_batch, err) &&
           set_layout(r, &r->a, p->compute, p->trans_a ? s->m : s->k, p->trans_a ? s->k : s->m,
                      batches, p->a_batch, err) &&
           set_layout(r, &r->y, p->result, s->n, s->m, batches, (int64_t)(s->m * s->n), err);
}

/* Uneven batches are products of their own: bytes that every `step`-th element is aligned to. */
static uint32_t alignment_of(const Product *p, uint64_t step, Dtype dtype) {
    const uint64_t bytes = step * kernel_element_size(dtype) | DEVICE_ALIGN;
    return p->a_batch < 0 || p->b_batch < 0 ? (uint32_t)(bytes & (0 - bytes)) : DEVICE_ALIGN;
}

static bool set_alignments(KernelCall *call, const Product *p, const Ready *r, void *preference) {
    const MatmulBatches *s = &p->sizes;
    const uint32_t y = alignment_of(p, s->m * s->n, p->result);
    const uint32_t least[] = {alignment_of(p, s->k * s->n, p->compute),
                              alignment_of(p, s->m * s->k, p->compute), y, y};
    for (int i = 0; i < 4; i++)
        if (!cuda_blas_ok(r->blas->preference_set(preference, BLAS_ALIGNMENT_A + i, &least[i],
                                                  sizeof least[i]),
                          call->err, "an alignment"))
            return false;
    return true;
}

/* The algorithm that the library takes for the best. */
static bool choose(KernelCall *call, const Product *p, Ready *r) {
    void *preference = NULL;
    const uint64_t most = WORKSPACE;
    int count = 0;
    bool ok = cuda_blas_ok(r->blas->preference_new(&preference), call->err, "a preference") &&
              cuda_blas_ok(r->blas->preference_set(preference, BLAS_WORKSPACE, &most, sizeof most),
                           call->err, "workspace") &&
              set_alignments(call, p, r, preference);
    ok = ok &&
         r->blas->find(r->handle, r->product, r->b, r->a, r->y, r->y, preference, 1, &r->found,
                       &count) == 0 &&
         count > 0 && r->found.status == 0;
    if (preference) r->blas->preference_free(preference);
    return ok;
}

static void release(void *prepared) {
    Ready *r = prepared;
    if (r->product) r->blas->product_free(r->product);
    if (r->a) r->blas->layout_free(r->a);
    if (r->b) r->blas->layout_free(r->b);
    if (r->y) r->blas->layout_free(r->y);
}

/* ---- constants ------------------------------------------------------------------------------- */

static float read_float(Dtype dtype, const void *data, uint64_t i) {
    if (dtype == DTYPE_FLOAT16) return half_to_float(((const uint16_t *)data)[i]);
    if (dtype == DTYPE_BFLOAT16) return bfloat_to_float(((const uint16_t *)data)[i]);
    return ((const float *)data)[i];
}

/* The variant is the type that it becomes. */
static bool pack_bias(KernelCall *call, const KernelPackJob *job) {
    const KernelTensor *from = job->from;
    (void)call;
    for (uint64_t i = 0; i < from->count; i++) {
        const float x = read_float(from->dtype, from->data, i);
        if (job->variant == DTYPE_FLOAT16)
            ((uint16_t *)job->to)[i] = half_from_float(x);
        else if (job->variant == DTYPE_BFLOAT16)
            ((uint16_t *)job->to)[i] = bfloat_from_float(x);
        else
            ((float *)job->to)[i] = x;
    }
    return true;
}

/* A constant bias in y's type, so that the library adds it. */
static void convert_bias(KernelCall *call, const Product *p, Ready *r) {
    const KernelTensor *bias = p->epilogue.bias;
    const Dtype y = call->outputs[0].dtype;
    if (!bias || bias->dtype == y || bias->count != p->sizes.n || p->result != y ||
        y == DTYPE_DOUBLE || bias->dtype == DTYPE_DOUBLE || !kernel_is_constant(call, 2))
        return;
    r->bias = kernel_share(call, 2, pack_bias, (uint64_t)y, bias->count * kernel_element_size(y));
}

/* The matrix (k, n) as (n, k), by squares, both sides of which stay in the cache. */
static bool pack_turned(KernelCall *call, const KernelPackJob *job) {
    enum { SQUARE = 64 };
    const KernelTensor *b = job->from;
    const size_t k = (size_t)b->dims[b->rank - 2], n = (size_t)b->dims[b->rank - 1];
    const bool wide = kernel_element_size(b->dtype) == 4;
    (void)call;
    for (size_t i0 = 0; i0 < k; i0 += SQUARE)
        for (size_t j0 = 0; j0 < n; j0 += SQUARE)
            for (size_t i = i0; i < k && i < i0 + SQUARE; i++)
                for (size_t j = j0; j < n && j < j0 + SQUARE; j++)
                    if (wide)
                        ((uint32_t *)job->to)[j * k + i] = ((const uint32_t *)b->data)[i * n + j];
                    else
                        ((uint16_t *)job->to)[j * k + i] = ((const uint16_t *)b->data)[i * n + j];
    return true;
}

enum { TURNED = DTYPE_COUNT }; /* KernelPackJob.variant beside those of biases */

/* Whether b is one constant matrix, for rows that lie one after the other, both of the type that is
 * computed in: kernels of our own convert neither. */
static bool is_plain(const KernelCall *call, const Product *p) {
    const MatmulBatches *s = &p->sizes;
    const KernelTensor *b = &call->inputs[1], *bias = p->epilogue.bias;
    return !p->trans_a && s->batches == 1 && call->inputs[0].dtype == p->compute &&
           b->dtype == p->compute && kernel_is_constant(call, 1) && b->count == s->k * s->n &&
           (!bias || bias->count == s->n || bias->count == 1);
}

/* Has b's columns one after the other. */
static bool turn(KernelCall *call, const Product *p, Ready *r) {
    const KernelTensor *b = &call->inputs[1];
    if (p->trans_b) return true;
    r->turned =
        kernel_share(call, 1, pack_turned, TURNED, b->count * kernel_element_size(b->dtype));
    if (r->turned) kernel_set_unread(call, 1);
    return r->turned;
}

/* Few rows are a matter of reading b once, at the memory's speed, with all that follows; the library's
 * kernels are for tiles, which they would hardly fill. */
static bool find_few(KernelCall *call, const Product *p, Ready *r) {
    const MatmulBatches *s = &p->sizes;
    const uint64_t size = kernel_element_size(p->compute);
    r->few = (is_16(p->compute) || p->compute == DTYPE_FLOAT) && is_plain(call, p) &&
             s->m <= FEW_ROWS && s->k * size % 16 == 0 && s->k <= INT32_MAX / 2 &&
             s->n <= INT32_MAX / 2 && call->outputs[0].dtype != DTYPE_DOUBLE &&
             is_float(call->outputs[0].dtype) && turn(call, p, r);
    return r->few;
}

/* Nanoseconds that the library's kernel takes where its blocks run at once, and one behind it for what it
 * leaves: medians within networks, as in cuda_tile.c. */
static uint64_t library_time(const Product *p, const Ready *r) {
    enum { START = 3200, STEP = 100, DEPTH = 64, Z = 400, BEHIND = 2000 };
    return START + (p->sizes.k + DEPTH - 1) / DEPTH * STEP + (p->epilogue.z ? Z : 0) +
           (r->whole ? 0 : BEHIND);
}

/* By tiles where the library's kernel would not begin early, or leave something to do, and the product is so
 * small that this takes as long as the product. */
static bool find_tile(KernelCall *call, const Product *p, Ready *r) {
    const MatmulBatches *s = &p->sizes;
    const CudaTile tile = cuda_tile_for(call, s->m, s->n, s->k);
    r->tiles = tile.at_once && tile.time < library_time(p, r) && is_plain(call, p) &&
               cuda_tile_takes(p->compute, s->k, s->m, s->n, s->k, s->m * s->k) &&
               call->outputs[0].dtype == p->compute && p->alpha == 1 &&
               (!p->epilogue.bias || p->epilogue.bias->count == s->n) && turn(call, p, r) &&
               cuda_tile_ready(call, &tile);
    return r->tiles;
}

/* What is kept goes to *kept before anything is opened. */
static KernelReady make_ready(KernelCall *call, void **kept) {
    Product p;
    if (!read_product(call, &p)) return KERNEL_FAILED;
    Err ignored = {0};
    CudaDevice *device = cuda_device_of(call);
    const bool there = is_float(p.compute) && cuda_is_there(device);
    const CudaBlas *blas = there ? cuda_blas(&ignored) : NULL;
    const MatmulBatches *s = &p.sizes;
    if (there && !blas) cuda_without(call);
    if (!blas || !s->m || !s->n || !s->k || !s->batches)
        return KERNEL_READY; /* by the own kernel */
    Ready *r = kernel_keep(call, sizeof *r);
    if (!r || !cuda_enter(device, call->err)) return KERNEL_FAILED;
    *kept = r;
    r->blas = blas;
    r->handle = cuda_blas_handle(device, blas, call->err);
    convert_bias(call, &p, r);
    const bool ok = r->handle && describe(call, &p, r);
    if (ok && (find_few(call, &p, r) || find_tile(call, &p, r))) {
        release(r);
        *r = (Ready){.blas = blas, .tiles = r->tiles, .few = r->few, .turned = r->turned};
        cuda_leave(device);
        return KERNEL_READY;
    }
    if (ok && !choose(call, &p, r)) { /* it has no such product */
        release(r);
        *r = (Ready){.blas = blas};
    }
    cuda_leave(device);
    return ok && call->err->code == ERR_NONE ? KERNEL_READY : KERNEL_FAILED;
}

static KernelReady make(KernelCall *call) {
    return make_ready(call, &call->prepared);
}

const KernelPrepare cuda_prepare_product = {make, release, 0};

/* ---- running --------------------------------------------------------------------------------- */

typedef struct Factors {
    const void *a, *b;
    void *y;
} Factors;

static const void *offset(const void *data, uint64_t elements, Dtype dtype) {
    return (const char *)data + elements * kernel_element_size(dtype);
}

static bool run_library(KernelCall *call, const Product *p, const Ready *r, const Factors *f) {
    CudaDevice *device = cuda_device_of(call);
    const CudaEpilogue *e = &p->epilogue;
    const double wide_alpha = (double)p->alpha, wide_zero = 0;
    const float alpha = p->alpha, beta = r->added ? p->beta : 0;
    const bool wide = p->compute == DTYPE_DOUBLE, even_batches = p->a_batch >= 0 && p->b_batch >= 0;
    const uint64_t launches = even_batches ? 1 : p->sizes.batches;
    void *workspace = r->found.workspace ? kernel_workspace(call, r->found.workspace) : NULL;
    if (r->found.workspace && !workspace) return false;
    if (!cuda_enter(device, call->err)) return false;
    const void *bias = r->bias ? r->bias : r->biased ? e->bias->data : NULL;
    bool ok =
        !r->biased || cuda_blas_ok(r->blas->product_set(r->product, BLAS_BIAS, &bias, sizeof bias),
                                   call->err, "the bias");
    for (uint64_t i = 0; ok && i < launches; i++) {
        const uint64_t y = i * p->sizes.m * p->sizes.n;
        void *to = (void *)(uintptr_t)offset(f->y, y, p->result);
        const void *z = r->added ? offset(e->z->data, y, p->result) : to;
        const int status =
            r->blas->run(r->handle, r->product, wide ? (const void *)&wide_alpha : &alpha,
                         offset(f->b, even_batches ? 0 : p->sizes.b[i], p->compute), r->b,
                         offset(f->a, even_batches ? 0 : p->sizes.a[i], p->compute), r->a,
                         wide ? (const void *)&wide_zero : &beta, z, r->y, to, r->y,
                         &r->found.algorithm, workspace, r->found.workspace, cuda_stream_of(call));
        ok = cuda_blas_ok(status, call->err, "the product");
        call->queue->counts.launches++;
        call->queue->counts.tf32 += r->tf32;
    }
    cuda_leave(device);
    return ok;
}

/* Batches one launch, where they lie evenly, within the grid's limit. */
static bool run_own(KernelCall *call, const Product *p, const Factors *f) {
    const MatmulBatches *s = &p->sizes;
    const bool even_batches = p->a_batch >= 0 && p->b_batch >= 0 && s->batches <= GRID_LIMIT;
    const CudaName name = cuda_name("gemm", cuda_suffix(p->compute), "");
    for (uint64_t i = 0; i < (even_batches ? 1 : s->batches); i++) {
        const GemmArgs args = {.a = offset(f->a, even_batches ? 0 : s->a[i], p->compute),
                               .b = offset(f->b, even_batches ? 0 : s->b[i], p->compute),
                               .y = (void *)(uintptr_t)offset(f->y, i * s->m * s->n, p->result),
                               .m = (int64_t)s->m,
                               .n = (int64_t)s->n,
                               .k = (int64_t)s->k,
                               .a_row = p->trans_a ? 1 : (int64_t)s->k,
                               .a_column = p->trans_a ? (int64_t)s->m : 1,
                               .b_row = p->trans_b ? 1 : (int64_t)s->n,
                               .b_column = p->trans_b ? (int64_t)s->k : 1,
                               .a_batch = p->a_batch,
                               .b_batch = p->b_batch,
                               .y_batch = (int64_t)(s->m * s->n),
                               .alpha = p->alpha};
        const CudaLaunch launch = {.family = CUDA_product,
                                   .kernel = name.text,
                                   .blocks = {cuda_blocks(s->m, TILE, 1),
                                              cuda_blocks(s->n, TILE, 1),
                                              even_batches ? (uint32_t)s->batches : 1},
                                   .threads = {TILE, ROWS},
                                   .args = &args};
        if (launch.blocks[1] > GRID_LIMIT)
            return kernel_decline(call, "the device does not support so many columns");
        if (!cuda_launch(call, &launch)) return false;
    }
    return true;
}

/* A factor in the type that is computed in; NULL past the memory. */
static const void *factor(KernelCall *call, const KernelTensor *tensor, Dtype dtype) {
    if (tensor->dtype == dtype) return tensor->data;
    void *converted = kernel_workspace(call, tensor->count * kernel_element_size(dtype));
    return converted &&
                   cuda_convert(call, tensor->data, tensor->dtype, converted, dtype, tensor->count)
               ? converted
               : NULL;
}

static bool run_tile(KernelCall *call, const Product *p, const Ready *r) {
    const CudaEpilogue *e = &p->epilogue;
    const int32_t m = (int32_t)p->sizes.m, n = (int32_t)p->sizes.n, k = (int32_t)p->sizes.k;
    const KernelTensor *bias = e->bias;
    const TileArgs args = {.x = call->inputs[0].data,
                           .w = r->turned ? r->turned : call->inputs[1].data,
                           .bias = bias ? bias->data : NULL,
                           .z = e->z ? e->z->data : NULL,
                           .y = call->outputs[0].data,
                           .x_image = k, /* an image of one pixel a row */
                           .pixels = m,
                           .filters = n,
                           .channels = k,
                           .depth = k,
                           .in = {1, 1},
                           .out = {1, 1},
                           .taps = {1, 1},
                           .stride = {1, 1},
                           .dilation = {1, 1},
                           .bias_type = bias ? (int32_t)bias->dtype : 0,
                           .z_type = e->z ? (int32_t)e->z->dtype : 0,
                           .op = (int32_t)e->op,
                           .constant = true,
                           .p = e->p,
                           .q = e->q};
    return cuda_tile(call, &args, p->compute);
}

static bool run_few(KernelCall *call, const Product *p, const Ready *r) {
    enum { WARPS = 8, WARP = 32 };
    const CudaEpilogue *e = &p->epilogue;
    const KernelTensor *bias = e->bias, *y = &call->outputs[0];
    const FewArgs args = {.x = call->inputs[0].data,
                          .w = r->turned ? r->turned : call->inputs[1].data,
                          .bias = bias ? bias->data : NULL,
                          .z = e->z ? e->z->data : NULL,
                          .y = y->data,
                          .rows = (int32_t)p->sizes.m,
                          .columns = (int32_t)p->sizes.n,
                          .depth = (int32_t)p->sizes.k,
                          .bias_type = bias ? (int32_t)bias->dtype : 0,
                          .bias_step = bias && bias->count > 1,
                          .z_type = e->z ? (int32_t)e->z->dtype : 0,
                          .y_type = (int32_t)y->dtype,
                          .op = (int32_t)e->op,
                          .p = e->p,
                          .q = e->q,
                          .alpha = p->alpha};
    const CudaName name = cuda_name("few", args.rows == 1 ? "1" : "4", cuda_suffix(p->compute));
    const CudaLaunch launch = {.family = CUDA_product,
                               .kernel = name.text,
                               .blocks = {cuda_blocks(p->sizes.n, WARPS, 1)},
                               .threads = {WARPS * WARP},
                               .args = &args};
    return cuda_launch(call, &launch);
}

static bool multiply(KernelCall *call, Product *p, const Ready *r) {
    const KernelTensor *y = &call->outputs[0];
    if (!y->count) return true;
    if (!cuda_is_there(cuda_device_of(call))) return true; /* a library's to say */
    if (r && r->tiles) return run_tile(call, p, r);
    if (r && r->few) return run_few(call, p, r);
    const bool library = r && r->handle;
    if (!library && (is_16(p->compute) || p->compute == DTYPE_FLOAT)) p->result = DTYPE_FLOAT;
    Factors f = {factor(call, &call->inputs[0], p->compute),
                 factor(call, &call->inputs[1], p->compute), y->data};
    if (p->result != y->dtype)
        f.y = kernel_workspace(call, y->count * kernel_element_size(p->result));
    if ((!f.a && call->inputs[0].count) || (!f.b && call->inputs[1].count) || !f.y) return false;
    if (!(library ? run_library(call, p, r, &f) : run_own(call, p, &f))) return false;
    CudaEpilogue left = p->epilogue;
    if (library && r->whole) return true;
    if (library && r->biased) left.bias = NULL;
    if (library && r->added) left.z = NULL;
    const bool empty = !left.bias && !left.z && left.op == UNARY_COPY && p->result == y->dtype;
    return empty || cuda_epilogue(call, &left, f.y, p->result, y->data, y->dtype, y->count);
}

bool cuda_matmul(KernelCall *call) {
    Product p;
    return read_product(call, &p) && multiply(call, &p, call->prepared);
}

/* C broadcasts to y: added behind, by a row, a column or whole. */
bool cuda_gemm(KernelCall *call) {
    Product p;
    const GemmAttrs *attrs = call->attrs;
    const KernelTensor *c = kernel_input(call, 2), *y = &call->outputs[0];
    if (!read_product(call, &p) || !multiply(call, &p, call->prepared)) return false;
    if (!c || attrs->beta == 0 || p.epilogue.bias || p.epilogue.z || !y->count) return true;
    return cuda_add_scaled(call, c, attrs->beta, y);
}

/* ---- within other rows ----------------------------------------------------------------------- */

static const GemmAttrs inner_attrs[] = {{.trans_b = 0, .alpha = 1, .beta = 1},
                                        {.trans_b = 1, .alpha = 1, .beta = 1}};
static const KernelRow inner_row = {.layout = &op_attrs_gemm}; /* as Gemm's */

void cuda_inner_init(CudaInner *inner, const CudaInnerShape *shape) {
    const uint64_t m = shape->m, n = shape->n, k = shape->k;
    const uint64_t sizes[3][2] = {{m, k}, {shape->turned ? n : k, shape->turned ? k : n}, {m, n}};
    KernelTensor *const tensors[] = {&inner->operands[0], &inner->operands[1], &inner->y};
    const uint32_t alone = shape->batches == 1;
    inner->turned = shape->turned;
    for (int i = 0; i < 3; i++) {
        inner->dims[i][0] = (int64_t)shape->batches;
        inner->dims[i][1] = (int64_t)sizes[i][0];
        inner->dims[i][2] = (int64_t)sizes[i][1];
        *tensors[i] = (KernelTensor){.present = true,
                                     .dtype = shape->types[i],
                                     .rank = 3 - alone,
                                     .dims = inner->dims[i] + alone,
                                     .count = shape->batches * sizes[i][0] * sizes[i][1]};
    }
}

/* What a Gemm would see of the call, whose operands are none of the plan's; the host finds its own by where
 * the call lies. */
static void enter(KernelCall *call, CudaInner *inner, KernelCall *kept) {
    *kept = *call;
    call->row = &inner_row;
    call->attrs = &inner_attrs[inner->turned];
    call->constant = NULL;
    call->inputs = inner->operands;
    call->outputs = &inner->y;
    call->input_count = 2;
    call->output_count = 1;
}

static void leave(KernelCall *call, const KernelCall *kept) {
    call->row = kept->row;
    call->attrs = kept->attrs;
    call->constant = kept->constant;
    call->inputs = kept->inputs;
    call->outputs = kept->outputs;
    call->input_count = kept->input_count;
    call->output_count = kept->output_count;
}

KernelReady cuda_inner_ready(KernelCall *call, CudaInner *inner) {
    KernelCall kept;
    enter(call, inner, &kept);
    const KernelReady ready = make_ready(call, &inner->prepared);
    leave(call, &kept);
    return ready;
}

void cuda_inner_release(CudaInner *inner) {
    if (inner->prepared) release(inner->prepared);
}

bool cuda_inner_run(KernelCall *call, CudaInner *inner, const void *a, const void *b, void *y) {
    KernelCall kept;
    Product p;
    inner->operands[0].data = (void *)(uintptr_t)a; /* which are only read */
    inner->operands[1].data = (void *)(uintptr_t)b;
    inner->y.data = y;
    enter(call, inner, &kept);
    const bool ok = read_product(call, &p) && multiply(call, &p, inner->prepared);
    leave(call, &kept);
    return ok;
}
