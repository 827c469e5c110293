// SPDX-License-Identifier: Apache-2.0
/* MatMulNBits of com.microsoft and MatMulBits of demi.fused on a CUDA device: weights of 4 or 8 bits.
 * Of few rows, one launch reads the weights as they are; of more, they become floats of x's type, each
 * rounded to it, in workspace, and the product is one of those. */
#include "bits_args.h"
#include "cuda_epilogue.h"
#include "cuda_functions.h"
#include "cuda_product.h"

enum { THREADS = 256, NONE = UINT32_MAX };

/* Which inputs are what. */
typedef struct Places {
    uint32_t bias, z, scale, zero, order;
} Places;
static const Places places_fused = {.bias = 2, .z = 3, .scale = 4, .zero = 5, .order = NONE};
static const Places places_microsoft = {.bias = 5, .z = NONE, .scale = 2, .zero = 3, .order = 4};

typedef struct Bits {
    BitsArgs args; /* without addresses */
    CudaEpilogue all;
    bool few;        /* rows */
    bool ends;       /* the product's result is y */
    CudaInner inner; /* of many rows */
} Bits;

static const Places *places_of(const KernelCall *call) {
    return call->row->layout == &op_attrs_fused_matmul_bits ? &places_fused : &places_microsoft;
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* [columns][blocks], or so many in a list. */
static bool has_factors(const KernelTensor *tensor, int64_t columns, int64_t blocks) {
    return tensor->count == (uint64_t)columns * (uint64_t)blocks &&
           (tensor->rank < 2 || (tensor->rank == 2 && tensor->dims[0] == columns));
}

static bool read_factors(KernelCall *call, BitsArgs *a) {
    const Places *places = places_of(call);
    const KernelTensor *scale = kernel_input(call, places->scale);
    const KernelTensor *zero = kernel_input(call, places->zero);
    const bool packed = zero && zero->dtype == DTYPE_UINT8 && a->bits == 4;
    if (!scale || scale->dtype == DTYPE_UINT8 || !has_factors(scale, a->columns, a->blocks) ||
        (zero && !has_factors(zero, a->columns, packed ? (a->blocks + 1) / 2 : a->blocks)))
        return kernel_fail(call, "scales or zero points do not have %d blocks", a->blocks);
    a->scale_type = (int32_t)scale->dtype;
    if (zero) a->zero_type = (int32_t)zero->dtype;
    return true;
}

static bool read_weights(KernelCall *call, BitsArgs *a) {
    const BitsAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
    const Places *places = places_of(call);
    if ((places->order != NONE && kernel_input(call, places->order)) || attrs->prepacked ||
        (attrs->bits != 4 && attrs->bits != 8) || w->dtype != DTYPE_UINT8)
        return kernel_decline(call, "the device does not support this order of weights");
    if (attrs->block < 1 || attrs->k < 0 || x->rank < 1 || x->dims[x->rank - 1] != attrs->k ||
        w->rank != 3)
        return kernel_fail(call,
                           "rows of A do not have K elements, or B is not a matrix of blocks");
    const uint64_t rows = kernel_span(x, 0, x->rank - 1);
    if (attrs->k > INT32_MAX / 2 || attrs->block > INT32_MAX / 2 || rows > INT32_MAX ||
        w->dims[0] > INT32_MAX)
        return kernel_decline(call, "the device does not support such a large product");
    *a = (BitsArgs){.columns = w->dims[0],
                    .depth = attrs->k,
                    .rows = (int32_t)rows,
                    .blocks = (int32_t)((attrs->k + attrs->block - 1) / attrs->block),
                    .block = (int32_t)attrs->block,
                    .bytes = (int32_t)(attrs->bits == 4 ? (attrs->block + 1) / 2 : attrs->block),
                    .bits = (int32_t)attrs->bits};
    if (w->dims[1] != a->blocks || w->dims[2] != a->bytes ||
        (attrs->n != ATTR_ABSENT && attrs->n != w->dims[0]) ||
        y->count != rows * (uint64_t)a->columns)
        return kernel_fail(call, "weights do not have %d blocks of %d bytes", a->blocks, a->bytes);
    return read_factors(call, a);
}

static bool read_rest(KernelCall *call, Bits *b) {
    const BitsAttrs *attrs = call->attrs;
    const Places *places = places_of(call);
    CudaEpilogue *e = &b->all;
    *e = (CudaEpilogue){.bias = kernel_input(call, places->bias),
                        .z = places->z == NONE ? NULL : kernel_input(call, places->z),
                        .op = UNARY_COPY,
                        .scale = 1,
                        .columns = (uint64_t)b->args.columns};
    if (e->bias && e->bias->count != e->columns)
        return kernel_fail(call, "the bias does not have one element per column");
    if (e->z && e->z->count != call->outputs[0].count)
        return kernel_fail(call, "the shapes of Z and Y differ");
    return places->z == NONE || cuda_activation(call, &attrs->act, e);
}

static KernelReady make(KernelCall *call) {
    Bits *b = kernel_keep(call, sizeof *b);
    BitsArgs *a = b ? &b->args : NULL;
    if (!b || !read_weights(call, a) || !read_rest(call, b)) return KERNEL_FAILED;
    const Dtype x = call->inputs[0].dtype, y = call->outputs[0].dtype;
    call->prepared = b;
    b->few = a->rows <= BITS_ROWS && a->block % (32 / a->bits) == 0 && a->depth % 4 == 0;
    const bool adds = !b->few && (b->all.bias || b->all.z);
    b->ends = !adds && b->all.op == UNARY_COPY;
    if (b->few || !call->outputs[0].count) return KERNEL_READY;
    const CudaInnerShape shape = {.types = {x, x, b->ends ? y : DTYPE_FLOAT},
                                  .batches = 1,
                                  .m = (uint64_t)a->rows,
                                  .n = (uint64_t)a->columns,
                                  .k = (uint64_t)a->depth,
                                  .turned = true};
    cuda_inner_init(&b->inner, &shape);
    return cuda_inner_ready(call, &b->inner);
}

static void release(void *prepared) {
    Bits *b = prepared;
    cuda_inner_release(&b->inner);
}

const KernelPrepare cuda_prepare_bits = {make, release, 0};

/* ---- running --------------------------------------------------------------------------------- */

static bool launch(KernelCall *call, const BitsArgs *args, const char *kernel, uint32_t blocks,
                   uint32_t threads) {
    const CudaName name = cuda_name(kernel, cuda_suffix(call->inputs[0].dtype), "");
    const CudaLaunch launch = {.family = CUDA_bits,
                               .kernel = name.text,
                               .blocks = {blocks},
                               .threads = {threads},
                               .args = args};
    return cuda_launch(call, &launch);
}

static bool run_few(KernelCall *call, const CudaEpilogue *e, BitsArgs *a, void *y, Dtype type) {
    a->y = y;
    a->y_type = (int32_t)type;
    if (e->bias) {
        a->bias = e->bias->data;
        a->bias_type = (int32_t)e->bias->dtype;
    }
    if (e->z) {
        a->z = e->z->data;
        a->z_type = (int32_t)e->z->dtype;
    }
    return launch(call, a, a->rows == 1 ? "multiply_bits_1" : "multiply_bits_8",
                  cuda_blocks((uint64_t)a->columns, BITS_WARPS, 1), 32 * BITS_WARPS);
}

static bool run_many(KernelCall *call, Bits *b, BitsArgs *a, void *y) {
    const uint64_t count = (uint64_t)a->columns * (uint64_t)a->depth;
    const uint64_t bytes = count * kernel_element_size(call->inputs[0].dtype);
    a->y = kernel_workspace(call, bytes);
    if (!a->y) return false;
    cuda_between(call, bytes);
    return (!count ||
            launch(call, a, "unpack_bits", cuda_blocks_full(call, count, THREADS, 1), THREADS)) &&
           cuda_inner_run(call, &b->inner, call->inputs[0].data, a->y, y);
}

bool cuda_matmul_bits(KernelCall *call) {
    Bits *b = call->prepared;
    const Places *places = places_of(call);
    const KernelTensor *zero = kernel_input(call, places->zero), *y = &call->outputs[0];
    BitsArgs a = b->args;
    CudaEpilogue left;
    if (!y->count) return true;
    if (!read_rest(call, b)) return false;
    a.x = call->inputs[0].data;
    a.weights = call->inputs[1].data;
    a.scale = call->inputs[places->scale].data;
    a.zero = zero ? zero->data : NULL;
    left = b->all;
    const Dtype type = b->ends ? y->dtype : DTYPE_FLOAT;
    void *to = b->ends ? y->data : kernel_workspace(call, y->count * sizeof(float));
    if (!to) return false;
    if (!(b->few ? run_few(call, &b->all, &a, to, type) : run_many(call, b, &a, to))) return false;
    if (b->few) left.bias = left.z = NULL;
    return b->ends || cuda_epilogue(call, &left, to, type, y->data, y->dtype, y->count);
}
