// SPDX-License-Identifier: Apache-2.0
/* MatMulBits of demi.fused, and MatMulNBits of com.microsoft: rows by weights of 4 or 8 bits
 * (weight_product.h), which are packed once for all contexts where they are constant, else in every
 * run. The second has its operands in another order, scales and zero points as lists too, and zero
 * points of integers as packed as weights are. */
#include "fused_operands.h"
#include "kernel_functions.h"
#include "op_attrs.h"
#include "weight_product.h"

enum { A, B, BITS_LEAST = 4, BITS_MOST = 8, NONE = UINT32_MAX };
enum { ACCURACY_INT8 = 4 }; /* of com.microsoft's accuracy levels, the one that allows int8 rows */

/* Which inputs are what. */
typedef struct Places {
    uint32_t bias, z, scale, zero, order;
} Places;

typedef struct MatMulBits {
    WeightProduct product; /* packed operands where they are shared; no rows */
    const Places *places;
    uint64_t size, factors;
} MatMulBits;

/* A weight that is 0 where there are no zero points. */
static float middle_of(const WeightShape *shape) {
    return (float)(1u << (shape->bits - 1));
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* [rows][columns], or so many in a list where that is allowed. */
static bool has_dims(const KernelTensor *tensor, uint64_t rows, uint64_t columns, bool list) {
    if (list && tensor->rank == 1) return tensor->count == rows * columns;
    return tensor->rank == 2 && (uint64_t)tensor->dims[0] == rows &&
           (uint64_t)tensor->dims[1] == columns;
}

/* Bytes of the packed zero points of a column. */
static uint64_t zero_bytes(const WeightShape *shape) {
    return shape->bits == BITS_LEAST ? shape->blocks / 2 + shape->blocks % 2 : shape->blocks;
}

static bool read_factors(KernelCall *call, const MatMulBits *m) {
    const WeightShape *shape = &m->product.shape;
    const bool list = m->places->z == NONE;
    const KernelTensor *scale = &call->inputs[m->places->scale],
                       *zero = kernel_input(call, m->places->zero);
    const uint64_t zeros = zero && zero->dtype == DTYPE_UINT8 ? zero_bytes(shape) : shape->blocks;
    return (has_dims(scale, shape->n, shape->blocks, list) &&
            (!zero || has_dims(zero, shape->n, zeros, list))) ||
           kernel_fail(call, "scales or zero points do not have %llu blocks",
                       (unsigned long long)shape->blocks);
}

static bool read_shape(KernelCall *call, MatMulBits *m) {
    const BitsAttrs *attrs = call->attrs;
    const KernelTensor *a = &call->inputs[A], *b = &call->inputs[B];
    if (attrs->bits != BITS_LEAST && attrs->bits != BITS_MOST)
        return kernel_fail(call, "weights of %lld bits", (long long)attrs->bits);
    if (attrs->block < 1 || attrs->block > INT32_MAX)
        return kernel_fail(call, "blocks of %lld weights", (long long)attrs->block);
    if (a->rank < 1 || attrs->k < 0 || a->dims[a->rank - 1] != attrs->k || b->rank != 3)
        return kernel_fail(call,
                           "rows of A do not have K elements, or B is not a matrix of blocks");
    const uint64_t block = (uint64_t)attrs->block, k = (uint64_t)attrs->k;
    const WeightShape shape = {.bits = (uint32_t)attrs->bits,
                               .k = k,
                               .n = (uint64_t)b->dims[0],
                               .block = block,
                               .blocks = k / block + (k % block != 0)};
    const uint64_t bytes = shape.bits == BITS_LEAST ? (block + 1) / 2 : block;
    m->product.shape = shape;
    if (attrs->n != ATTR_ABSENT && attrs->n != b->dims[0])
        return kernel_fail(call, "B does not have N columns");
    if ((uint64_t)b->dims[1] != shape.blocks || (uint64_t)b->dims[2] != bytes)
        return kernel_fail(call, "weights do not have %llu blocks of %llu bytes",
                           (unsigned long long)shape.blocks, (unsigned long long)bytes);
    return read_factors(call, m);
}

static bool read_dtypes(KernelCall *call, const Places *places) {
    for (uint32_t i = 0; i < call->input_count; i++) {
        const KernelTensor *input = kernel_input(call, i);
        if (!input) continue;
        const bool bytes = i == B || (i == places->zero && places->z == NONE);
        const bool is_float = i != B && input->dtype == DTYPE_FLOAT;
        if (!is_float && !(bytes && input->dtype == DTYPE_UINT8))
            return kernel_fail(call, "operand %u has type %s", i, dtype_name(input->dtype));
    }
    return call->outputs[0].dtype == DTYPE_FLOAT ||
           kernel_fail(call, "a result of type %s", dtype_name(call->outputs[0].dtype));
}

/* ---- packing --------------------------------------------------------------------------------- */

static bool pack_weights(KernelCall *call, const KernelPackJob *job) {
    const MatMulBits *m = call->prepared;
    weight_pack(&m->product.shape, job->from->data, job->to);
    return true;
}

static bool pack_scales(KernelCall *call, const KernelPackJob *job) {
    const MatMulBits *m = call->prepared;
    weight_pack_factors(&m->product.shape, job->from->data, 0, job->to);
    return true;
}

/* Zero points as floats, [n][blocks]. */
static const float *widen_zeros(KernelCall *call, const WeightShape *shape,
                                const KernelTensor *zero) {
    if (zero->dtype == DTYPE_FLOAT) return zero->data;
    const uint8_t *from = zero->data;
    const uint64_t row = zero_bytes(shape);
    float *to = ARENA_ARRAY(call->scratch, float, shape->n * shape->blocks + 1);
    for (uint64_t n = 0; n < shape->n; n++)
        for (uint64_t b = 0; b < shape->blocks; b++)
            to[n * shape->blocks + b] = shape->bits == BITS_LEAST
                                            ? (float)(from[n * row + b / 2] >> b % 2 * 4 & 15)
                                            : (float)from[n * row + b];
    return to;
}

static bool pack_zero_bytes(KernelCall *call, const KernelPackJob *job) {
    const MatMulBits *m = call->prepared;
    const WeightShape *shape = &m->product.shape;
    return weight_pack_zeros(shape, widen_zeros(call, shape, job->from), job->to);
}

static bool pack_zeros(KernelCall *call, const KernelPackJob *job) {
    const MatMulBits *m = call->prepared;
    const WeightShape *shape = &m->product.shape;
    weight_pack_factors(shape, widen_zeros(call, shape, job->from), middle_of(shape), job->to);
    return true;
}

/* What is constant, packed, in memory that contexts share; NULL for others. Weights depend on their
 * blocks' size, factors, of which a list may serve other shapes, too, on their number. */
static const void *share(KernelCall *call, uint32_t i, KernelPack pack, uint64_t size) {
    const MatMulBits *m = call->prepared;
    const WeightShape *shape = &m->product.shape;
    if (!kernel_input(call, i) || !kernel_is_constant(call, i)) return NULL;
    const uint64_t variant = (i == B ? shape->block : shape->blocks) << 4 | shape->bits;
    const void *shared = kernel_share(call, i, pack, variant, size);
    if (shared) kernel_set_unread(call, i);
    return shared;
}

static KernelReady make(KernelCall *call, const Places *places) {
    const BitsAttrs *attrs = call->attrs;
    MatMulBits *m = kernel_keep(call, sizeof *m);
    uint64_t panel;
    if (!m) return KERNEL_DECLINED;
    call->prepared = m;
    m->places = places;
    if (places->order != NONE && kernel_input(call, places->order)) {
        kernel_fail(call, "g_idx, another order of the depth, is not supported");
        return KERNEL_FAILED;
    }
    if (attrs->prepacked) {
        kernel_fail(call, "weight_prepacked: another order of the weights is not supported");
        return KERNEL_FAILED;
    }
    if (!read_dtypes(call, places) || !read_shape(call, m)) return KERNEL_FAILED;
    WeightProduct *p = &m->product;
    if (!weight_packed_size(&p->shape, &panel, &m->size) ||
        !weight_factors_count(&p->shape, &m->factors) || m->factors > UINT64_MAX / sizeof(float)) {
        kernel_fail(call, "empty weights");
        return KERNEL_FAILED;
    }
    p->cpu = isa_here();
    p->bytes = attrs->accuracy == ACCURACY_INT8 && !call->faithful;
    if (!m->size) return KERNEL_READY;
    p->data = share(call, B, pack_weights, m->size);
    WeightFactors *f = &p->factors;
    f->scales = share(call, places->scale, pack_scales, m->factors * sizeof(float));
    f->zero_bytes = share(call, places->zero, pack_zero_bytes, m->factors);
    if (!f->zero_bytes)
        f->zeros = share(call, places->zero, pack_zeros, m->factors * sizeof(float));
    return KERNEL_READY;
}

static KernelReady make_fused(KernelCall *call) {
    static const Places places = {.bias = 2, .z = 3, .scale = 4, .zero = 5, .order = NONE};
    return make(call, &places);
}

static KernelReady make_microsoft(KernelCall *call) {
    static const Places places = {.bias = 5, .z = NONE, .scale = 2, .zero = 3, .order = 4};
    return make(call, &places);
}

const KernelPrepare kernel_prepare_matmul_bits = {make_fused, NULL, 0};
const KernelPrepare kernel_prepare_matmul_nbits = {make_microsoft, NULL, 0};

/* ---- running --------------------------------------------------------------------------------- */

/* What is not shared. */
static bool pack_rest(KernelCall *call, const MatMulBits *m, WeightProduct *p) {
    static const float nothing;
    const KernelTensor *zero = kernel_input(call, m->places->zero);
    if (!m->size) { /* no depth: each sum is 0 */
        p->data = p->factors.scales = &nothing;
        return true;
    }
    if (!p->data) {
        void *data = kernel_workspace(call, m->size);
        if (!data) return false;
        weight_pack(&p->shape, call->inputs[B].data, data);
        p->data = data;
    }
    if (!p->factors.scales) {
        float *scales = kernel_workspace(call, m->factors * sizeof *scales);
        if (!scales) return false;
        weight_pack_factors(&p->shape, call->inputs[m->places->scale].data, 0, scales);
        p->factors.scales = scales;
    }
    if (zero && !p->factors.zeros && !p->factors.zero_bytes) {
        float *zeros = kernel_workspace(call, m->factors * sizeof *zeros);
        if (!zeros) return false;
        weight_pack_factors(&p->shape, widen_zeros(call, &p->shape, zero), middle_of(&p->shape),
                            zeros);
        p->factors.zeros = zeros;
    }
    return true;
}

/* Bias, Z and activation. */
static bool read_epilogue(KernelCall *call, const MatMulBits *m, Epilogue *epilogue) {
    const BitsAttrs *attrs = call->attrs;
    const uint64_t n = m->product.shape.n;
    const KernelTensor *bias = kernel_input(call, m->places->bias);
    if (bias && bias->count != n)
        return kernel_fail(call, "Bias has %llu elements for %llu columns",
                           (unsigned long long)bias->count, (unsigned long long)n);
    if (bias) epilogue->bias = bias->data;
    if (m->places->z == NONE) return true;
    const KernelTensor *z = kernel_input(call, m->places->z);
    if (z) epilogue->residual = z->data;
    epilogue->residual_row = n;
    return fused_read_activation(call, &attrs->act, epilogue) && fused_check_residual(call);
}

bool kernel_matmul_bits(KernelCall *call) {
    const MatMulBits *m = call->prepared;
    const KernelTensor *a = &call->inputs[A], *y = &call->outputs[0];
    Epilogue epilogue = {0};
    WeightProduct p = m->product;
    p.rows = kernel_span(a, 0, a->rank - 1);
    if (!read_epilogue(call, m, &epilogue)) return false;
    if (y->count != p.rows * p.shape.n) return kernel_fail(call, "Y has a different shape");
    if (y->count == 0) return true;
    if (!pack_rest(call, m, &p)) return false;
    p.x = a->data;
    p.y = y->data;
    p.epilogue = &epilogue;
    return weight_product_run(call, &p);
}
