// SPDX-License-Identifier: Apache-2.0
/* MatMulBits of demi.fused, and MatMulNBits of com.microsoft: rows by weights of 2, 4 or 8 bits
 * (weight_panels.h), which are packed once for all contexts where they are constant, else in every
 * run. The second has its operands in another order, scales and zero points as lists too, zero
 * points of integers as packed as weights are, and may say to which block each depth belongs. */
#include "fused_operands.h"
#include "kernel_functions.h"
#include "op_attrs.h"
#include "weight_product.h"

enum { A, B, NONE = UINT32_MAX };
enum { ACCURACY_INT8 = 4 }; /* of com.microsoft's accuracy levels, the one that allows int8 rows */

/* Which inputs are what. */
typedef struct Places {
    uint32_t bias, z, scale, zero, order;
} Places;

typedef struct MatMulBits {
    WeightProduct product; /* packed operands where they are shared; no rows */
    const Places *places;
    uint64_t size, factors, order; /* order: a hash of that of the depths */
} MatMulBits;

/* Those of a byte. */
static uint64_t per_byte(const WeightShape *shape) {
    return 8 / shape->stored;
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
    return (shape->blocks + per_byte(shape) - 1) / per_byte(shape);
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
    if (attrs->bits != 2 && attrs->bits != 4 && attrs->bits != 8)
        return kernel_fail(call, "weights of %lld bits", (long long)attrs->bits);
    if (attrs->block < 1 || attrs->block > INT32_MAX)
        return kernel_fail(call, "blocks of %lld weights", (long long)attrs->block);
    if (a->rank < 1 || attrs->k < 0 || a->dims[a->rank - 1] != attrs->k || b->rank != 3)
        return kernel_fail(call,
                           "rows of A do not have K elements, or B is not a matrix of blocks");
    const uint64_t block = (uint64_t)attrs->block, k = (uint64_t)attrs->k;
    const WeightShape shape = {.bits = attrs->bits == 8 ? 8 : 4,
                               .stored = (uint32_t)attrs->bits,
                               .k = k,
                               .n = (uint64_t)b->dims[0],
                               .block = block,
                               .blocks = k / block + (k % block != 0)};
    const uint64_t bytes = (block + per_byte(&shape) - 1) / per_byte(&shape);
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
        if (i == places->order && input->dtype == DTYPE_INT32) continue;
        const bool is_float = i != B && i != places->order && input->dtype == DTYPE_FLOAT;
        if (!is_float && !(bytes && input->dtype == DTYPE_UINT8))
            return kernel_fail(call, "operand %u has type %s", i, dtype_name(input->dtype));
    }
    return call->outputs[0].dtype == DTYPE_FLOAT ||
           kernel_fail(call, "a result of type %s", dtype_name(call->outputs[0].dtype));
}

/* ---- order ----------------------------------------------------------------------------------- */

/* The next place of each depth's block; false where a block that is no block, or full, is asked for. */
static bool find_places(KernelCall *call, const WeightShape *shape, const int32_t *blocks,
                        uint32_t *places) {
    uint64_t *used = ARENA_ARRAY(call->scratch, uint64_t, shape->blocks + 1);
    for (uint64_t k = 0; k < shape->k; k++) {
        const uint64_t block = blocks[k] < 0 ? UINT64_MAX : (uint64_t)blocks[k];
        if (block >= shape->blocks || used[block] == shape->block) return false;
        places[k] = (uint32_t)(block * shape->block + used[block]++);
    }
    return true;
}

/* g_idx: the block of each depth. That of weights which lie in order says nothing. */
static bool read_order(KernelCall *call, MatMulBits *m) {
    WeightShape *shape = &m->product.shape;
    const uint32_t at = m->places->order;
    if (at == NONE || !kernel_input(call, at)) return true;
    const KernelTensor *order = kernel_constant(call, at);
    bool plain = true;
    if (!order) return kernel_fail(call, "g_idx is not constant");
    if (order->count < shape->k || shape->blocks * shape->block > UINT32_MAX)
        return kernel_fail(call, "g_idx does not have K elements");
    uint32_t *places = kernel_keep(call, (shape->k + 1) * sizeof *places);
    if (!places) return kernel_fail(call, "the order of weights exceeds the memory budget");
    if (!find_places(call, shape, order->data, places))
        return kernel_fail(call, "g_idx gives a block more depths than it has, or does not exist");
    for (uint64_t k = 0; k < shape->k; k++) {
        plain = plain && places[k] == k;
        m->order = (m->order ^ places[k]) * 0x100000001b3;
    }
    if (!plain) shape->places = places;
    return true;
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

/* Zero points as floats of packed weights, [n][blocks]. */
static const float *widen_zeros(KernelCall *call, const WeightShape *shape,
                                const KernelTensor *zero) {
    const float raised = (float)(weight_middle(shape->bits) - weight_middle(shape->stored));
    const bool floats = zero->dtype == DTYPE_FLOAT;
    const uint8_t *from = zero->data;
    const uint64_t row = zero_bytes(shape), each = per_byte(shape),
                   count = shape->n * shape->blocks;
    const uint32_t mask = (1u << shape->stored) - 1;
    if (floats && raised == 0) return zero->data;
    float *to = ARENA_ARRAY(call->scratch, float, count + 1);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t n = i / shape->blocks, b = i % shape->blocks;
        to[i] = raised;
        to[i] += floats ? ((const float *)zero->data)[i]
                        : (float)(from[n * row + b / each] >> b % each * shape->stored & mask);
    }
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
    weight_pack_factors(shape, widen_zeros(call, shape, job->from),
                        (float)weight_middle(shape->bits), job->to);
    return true;
}

/* What is constant, packed, in memory that contexts share; NULL for others. Weights depend on their
 * blocks' size, factors, of which a list may serve other shapes, too, on their number. */
static const void *share(KernelCall *call, uint32_t i, KernelPack pack, uint64_t size) {
    const MatMulBits *m = call->prepared;
    const WeightShape *shape = &m->product.shape;
    if (!kernel_input(call, i) || !kernel_is_constant(call, i)) return NULL;
    uint64_t variant =
        (i == B ? shape->block : shape->blocks) << 8 | shape->stored << 4 | shape->bits;
    if (i == B) variant ^= m->order;
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
    if (attrs->prepacked) {
        kernel_fail(call, "weight_prepacked: another order of the weights is not supported");
        return KERNEL_FAILED;
    }
    if (!read_dtypes(call, places) || !read_shape(call, m) || !read_order(call, m))
        return KERNEL_FAILED;
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
        weight_pack_factors(&p->shape, widen_zeros(call, &p->shape, zero),
                            (float)weight_middle(p->shape.bits), zeros);
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
