// SPDX-License-Identifier: Apache-2.0
/* MatMulBits of demi.fused: rows by weights of 4 or 8 bits (weight_product.h), which are packed once
 * for all contexts where they are constant, else in every run. */
#include "fused_operands.h"
#include "kernel_functions.h"
#include "op_attrs.h"
#include "weight_product.h"

enum { A, B, BIAS, Z, SCALE, ZERO, BITS_LEAST = 4, BITS_MOST = 8 };

/* A weight that is 0 where there are no zero points. */
static float middle_of(const WeightShape *shape) {
    return (float)(1u << (shape->bits - 1));
}

typedef struct MatMulBits {
    WeightProduct
        product; /* of its members that are not here: packed ones, where they are shared */
    uint64_t size, factors;
} MatMulBits;

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool has_dims(const KernelTensor *tensor, uint64_t rows, uint64_t blocks) {
    return tensor->rank == 2 && (uint64_t)tensor->dims[0] == rows &&
           (uint64_t)tensor->dims[1] == blocks;
}

static bool read_shape(KernelCall *call, WeightShape *shape) {
    const BitsAttrs *attrs = call->attrs;
    const KernelTensor *a = &call->inputs[A], *b = &call->inputs[B];
    if (attrs->bits != BITS_LEAST && attrs->bits != BITS_MOST)
        return kernel_fail(call, "weights of %lld bits", (long long)attrs->bits);
    if (attrs->block < 1 || attrs->block > INT32_MAX)
        return kernel_fail(call, "blocks of %lld weights", (long long)attrs->block);
    if (a->rank < 1 || attrs->k < 0 || a->dims[a->rank - 1] != attrs->k || b->rank != 3)
        return kernel_fail(call, "A's rows are not of K elements, or B is no matrix of blocks");
    const uint64_t block = (uint64_t)attrs->block, k = (uint64_t)attrs->k;
    *shape = (WeightShape){.bits = (uint32_t)attrs->bits,
                           .k = k,
                           .n = (uint64_t)b->dims[0],
                           .block = block,
                           .blocks = k / block + (k % block != 0)};
    const uint64_t bytes = shape->bits == BITS_LEAST ? (block + 1) / 2 : block;
    const KernelTensor *scale = &call->inputs[SCALE], *zero = kernel_input(call, ZERO);
    if ((uint64_t)b->dims[1] != shape->blocks || (uint64_t)b->dims[2] != bytes ||
        !has_dims(scale, shape->n, shape->blocks) ||
        (zero && !has_dims(zero, shape->n, shape->blocks)))
        return kernel_fail(call, "weights, scales or zero points are not of %llu blocks",
                           (unsigned long long)shape->blocks);
    return true;
}

static bool read_dtypes(KernelCall *call) {
    for (uint32_t i = 0; i < call->input_count; i++) {
        const KernelTensor *input = kernel_input(call, i);
        if (input && input->dtype != (i == B ? DTYPE_UINT8 : DTYPE_FLOAT))
            return kernel_fail(call, "operand %u is of %s", i, dtype_name(input->dtype));
    }
    return call->outputs[0].dtype == DTYPE_FLOAT ||
           kernel_fail(call, "a result of %s", dtype_name(call->outputs[0].dtype));
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

static bool pack_zeros(KernelCall *call, const KernelPackJob *job) {
    const MatMulBits *m = call->prepared;
    const float middle = middle_of(&m->product.shape);
    weight_pack_factors(&m->product.shape, job->from->data, middle, job->to);
    return true;
}

/* Whatever is constant, packed; `variant` is all that packed bytes depend on. */
static void share(KernelCall *call, MatMulBits *m) {
    WeightProduct *p = &m->product;
    const uint64_t variant = p->shape.block << 4 | p->shape.bits;
    const uint64_t factors = m->factors * sizeof(float);
    if (kernel_is_constant(call, B))
        p->data = kernel_share(call, B, pack_weights, variant, m->size);
    if (p->data) kernel_set_unread(call, B);
    if (kernel_is_constant(call, SCALE))
        p->scales = kernel_share(call, SCALE, pack_scales, variant, factors);
    if (p->scales) kernel_set_unread(call, SCALE);
    if (kernel_input(call, ZERO) && kernel_is_constant(call, ZERO))
        p->zeros = kernel_share(call, ZERO, pack_zeros, variant, factors);
    if (p->zeros) kernel_set_unread(call, ZERO);
}

static KernelReady make_matmul_bits(KernelCall *call) {
    MatMulBits *m = kernel_keep(call, sizeof *m);
    uint64_t panel;
    if (!m) return KERNEL_DECLINED;
    call->prepared = m;
    if (!read_dtypes(call) || !read_shape(call, &m->product.shape)) return KERNEL_FAILED;
    if (!weight_packed_size(&m->product.shape, &panel, &m->size) ||
        !weight_factors_count(&m->product.shape, &m->factors) ||
        m->factors > UINT64_MAX / sizeof(float)) {
        kernel_fail(call, "weights of no size");
        return KERNEL_FAILED;
    }
    m->product.level = isa_best();
    if (m->size) share(call, m);
    return KERNEL_READY;
}

const KernelPrepare kernel_prepare_matmul_bits = {make_matmul_bits, NULL};

/* ---- running --------------------------------------------------------------------------------- */

/* What is not shared. */
static bool pack_rest(KernelCall *call, const MatMulBits *m, WeightProduct *p) {
    const KernelTensor *zero = kernel_input(call, ZERO);
    if (!p->data) {
        void *data = kernel_workspace(call, m->size);
        if (!data) return false;
        weight_pack(&p->shape, call->inputs[B].data, data);
        p->data = data;
    }
    if (!p->scales) {
        float *scales = kernel_workspace(call, m->factors * sizeof *scales);
        if (!scales) return false;
        weight_pack_factors(&p->shape, call->inputs[SCALE].data, 0, scales);
        p->scales = scales;
    }
    if (zero && !p->zeros) {
        float *zeros = kernel_workspace(call, m->factors * sizeof *zeros);
        if (!zeros) return false;
        weight_pack_factors(&p->shape, zero->data, middle_of(&p->shape), zeros);
        p->zeros = zeros;
    }
    return true;
}

bool kernel_matmul_bits(KernelCall *call) {
    const MatMulBits *m = call->prepared;
    const BitsAttrs *attrs = call->attrs;
    const KernelTensor *bias = kernel_input(call, BIAS), *z = kernel_input(call, Z);
    const KernelTensor *y = &call->outputs[0];
    Epilogue epilogue = {0};
    WeightProduct p = m->product;
    p.rows = kernel_span(&call->inputs[A], 0, call->inputs[A].rank - 1);
    if (!fused_read_activation(call, &attrs->act, &epilogue) || !fused_check_residual(call))
        return false;
    if (bias && bias->count != p.shape.n)
        return kernel_fail(call, "Bias has %llu elements for %llu columns",
                           (unsigned long long)bias->count, (unsigned long long)p.shape.n);
    if (y->count != p.rows * p.shape.n) return kernel_fail(call, "Y is of another shape");
    if (y->count == 0) return true;
    if (bias) epilogue.bias = bias->data;
    if (z) epilogue.residual = z->data;
    epilogue.residual_row = p.shape.n;
    if (!pack_rest(call, m, &p)) return false;
    p.x = call->inputs[A].data;
    p.y = y->data;
    p.epilogue = &epilogue;
    return weight_product_run(call, &p);
}
