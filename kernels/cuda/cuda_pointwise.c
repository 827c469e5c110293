// SPDX-License-Identifier: Apache-2.0
/* Elementwise operators on a CUDA device: functions of one value, of two or more that broadcast,
 * casts, choices. */
#include <math.h>
#include <string.h>

#include "cuda_broadcast.h"
#include "cuda_functions.h"

enum { THREADS = 256 };

/* ---- of one value ---------------------------------------------------------------------------- */

static bool launch_unary(KernelCall *call, const char *kernel, const UnaryArgs *args,
                         uint32_t each) {
    const CudaLaunch launch = {
        .family = CUDA_pointwise,
        .kernel = kernel,
        .blocks = {cuda_blocks_full(call, (uint64_t)args->count, THREADS, each)},
        .threads = {THREADS},
        .args = args};
    return !args->count || cuda_launch(call, &launch);
}

static bool unary(KernelCall *call, enum UnaryOp op, float p, float q) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const UnaryArgs args = {
        .x = x->data, .y = y->data, .count = (int64_t)y->count, .op = (int32_t)op, .p = p, .q = q};
    const CudaName name = cuda_name("unary", cuda_suffix(x->dtype), cuda_suffix(y->dtype));
    return launch_unary(call, name.text, &args, 4);
}

#define WITHOUT_ATTRS(name, op)                                                                    \
    bool cuda_##name(KernelCall *call) {                                                           \
        return unary(call, op, 0, 0);                                                              \
    }
WITHOUT_ATTRS(abs, UNARY_ABS)
WITHOUT_ATTRS(neg, UNARY_NEG)
WITHOUT_ATTRS(sign, UNARY_SIGN)
WITHOUT_ATTRS(floor, UNARY_FLOOR)
WITHOUT_ATTRS(ceil, UNARY_CEIL)
WITHOUT_ATTRS(round, UNARY_ROUND)
WITHOUT_ATTRS(sqrt, UNARY_SQRT)
WITHOUT_ATTRS(reciprocal, UNARY_RECIPROCAL)
WITHOUT_ATTRS(exp, UNARY_EXP)
WITHOUT_ATTRS(log, UNARY_LOG)
WITHOUT_ATTRS(sin, UNARY_SIN)
WITHOUT_ATTRS(cos, UNARY_COS)
WITHOUT_ATTRS(tan, UNARY_TAN)
WITHOUT_ATTRS(asin, UNARY_ASIN)
WITHOUT_ATTRS(acos, UNARY_ACOS)
WITHOUT_ATTRS(atan, UNARY_ATAN)
WITHOUT_ATTRS(sinh, UNARY_SINH)
WITHOUT_ATTRS(cosh, UNARY_COSH)
WITHOUT_ATTRS(asinh, UNARY_ASINH)
WITHOUT_ATTRS(acosh, UNARY_ACOSH)
WITHOUT_ATTRS(atanh, UNARY_ATANH)
WITHOUT_ATTRS(erf, UNARY_ERF)
WITHOUT_ATTRS(sigmoid, UNARY_SIGMOID)
WITHOUT_ATTRS(tanh, UNARY_TANH)
WITHOUT_ATTRS(softplus, UNARY_SOFTPLUS)
WITHOUT_ATTRS(relu, UNARY_RELU)
WITHOUT_ATTRS(hard_swish, UNARY_HARD_SWISH)
WITHOUT_ATTRS(mish, UNARY_MISH)

#define WITH_ATTRS(name, op)                                                                       \
    bool cuda_##name(KernelCall *call) {                                                           \
        const ActivationAttrs *attrs = call->attrs;                                                \
        return unary(call, op, attrs->p, attrs->q);                                                \
    }
WITH_ATTRS(leaky_relu, UNARY_LEAKY)
WITH_ATTRS(elu, UNARY_ELU)
WITH_ATTRS(thresholded_relu, UNARY_THRESHOLDED)
WITH_ATTRS(hard_sigmoid, UNARY_HARD_SIGMOID)
WITH_ATTRS(swish, UNARY_SWISH)
WITH_ATTRS(shrink, UNARY_SHRINK)

#define UNARY_FUNCTION(name, number, attributes, formula) attributes(name, UNARY_##number)
#include "unary.def"

bool cuda_gelu(KernelCall *call) {
    const GeluAttrs *attrs = call->attrs;
    if (attrs->approximate < 0) return kernel_fail(call, "approximate is neither none nor tanh");
    return unary(call, attrs->approximate ? UNARY_GELU_TANH : UNARY_GELU, 0, 0);
}

/* The bounds are inputs that the processor reads; before version 11, attributes. */
bool cuda_clip(KernelCall *call) {
    float low = -INFINITY, high = INFINITY;
    if (call->opset < 11) {
        const ClipAttrs *attrs = call->attrs;
        if (attrs->min.count) low = attrs->min.items[0];
        if (attrs->max.count) high = attrs->max.items[0];
    } else {
        const KernelTensor *min = kernel_input(call, 1), *max = kernel_input(call, 2);
        if (min && min->count) low = (float)kernel_number(min, 0);
        if (max && max->count) high = (float)kernel_number(max, 0);
    }
    /* where low > high all becomes high */
    return unary(call, UNARY_CLIP, low > high ? high : low, high);
}

bool cuda_not(KernelCall *call) {
    const UnaryArgs args = {.x = call->inputs[0].data,
                            .y = call->outputs[0].data,
                            .count = (int64_t)call->outputs[0].count};
    return launch_unary(call, "not_b", &args, 1);
}

static bool find(KernelCall *call, enum FindOp op, float p, float q) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    const UnaryArgs args = {
        .x = x->data, .y = y->data, .count = (int64_t)y->count, .op = (int32_t)op, .p = p, .q = q};
    const CudaName name = cuda_name("find", cuda_suffix(x->dtype), "");
    return launch_unary(call, name.text, &args, 1);
}
bool cuda_is_nan(KernelCall *call) {
    return find(call, FIND_NAN, 0, 0);
}
/* NaN is equal to nothing. */
bool cuda_is_inf(KernelCall *call) {
    const InfAttrs *attrs = call->attrs;
    return find(call, FIND_INFINITY, attrs->negative ? -INFINITY : NAN,
                attrs->positive ? INFINITY : NAN);
}

static bool is_cuda_float(Dtype dtype) {
    return dtype_is_working(dtype);
}

/* Cast; and what only copies. */
bool cuda_cast(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    if (x->dtype == y->dtype)
        return cuda_copy(call, y->data, x->data, y->count * kernel_element_size(y->dtype));
    if (is_cuda_float(x->dtype) && is_cuda_float(y->dtype)) return unary(call, UNARY_COPY, 0, 0);
    const UnaryArgs args = {.x = x->data,
                            .y = y->data,
                            .count = (int64_t)y->count,
                            .from = (int32_t)x->dtype,
                            .to = (int32_t)y->dtype};
    return launch_unary(call, "cast_any", &args, 1);
}

bool cuda_same(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    return cuda_copy(call, y->data, x->data, y->count * kernel_element_size(y->dtype));
}

/* ---- of values that broadcast ---------------------------------------------------------------- */

static bool launch_broadcast(KernelCall *call, const char *kernel, const BroadcastArgs *args,
                             uint32_t pack) {
    const CudaLaunch launch = {
        .family = CUDA_pointwise,
        .kernel = kernel,
        .blocks = {cuda_blocks_full(call, (uint64_t)args->count, THREADS, pack)},
        .threads = {THREADS},
        .args = args};
    return !args->count || cuda_launch(call, &launch);
}

/* Before version 7 B is aligned to A at an axis: B's dims with ones behind, in scratch. */
static KernelTensor align_b(KernelCall *call, const KernelTensor *a, const KernelTensor *b) {
    const BroadcastAttrs *attrs = call->opset < 7 ? call->attrs : NULL;
    KernelTensor aligned = *b;
    if (!attrs || !attrs->broadcast || attrs->axis == ATTR_ABSENT || b->rank >= a->rank)
        return aligned;
    const int64_t axis = attrs->axis < 0 ? attrs->axis + a->rank : attrs->axis;
    if (axis < 0 || axis + b->rank > a->rank) return aligned;
    int64_t *dims = ARENA_ARRAY(call->scratch, int64_t, a->rank);
    aligned.rank = a->rank - (uint32_t)axis;
    for (uint32_t i = 0; i < aligned.rank; i++) dims[i] = i < b->rank ? b->dims[i] : 1;
    aligned.dims = dims;
    return aligned;
}

static bool combine(KernelCall *call, const KernelTensor *a, const KernelTensor *b,
                    enum BinaryOp op, float scale) {
    const KernelTensor *y = &call->outputs[0];
    const KernelTensor *const inputs[] = {a, b};
    BroadcastArgs args;
    if (!y->count) return true;
    if (!cuda_broadcast(call, inputs, 2, y, &args)) return false;
    args.op = (int32_t)op;
    memcpy(&args.scale, &scale, sizeof args.scale);
    const bool compares = op >= BINARY_EQUAL;
    uint32_t pack = 1;
    if (!compares && (a->dtype != b->dtype || a->dtype != y->dtype)) { /* a row that mixes */
        const KernelTensor *const all[] = {a, b, y};
        for (int i = 0; i < 3; i++) args.types[i] = (int32_t)all[i]->dtype;
        return launch_broadcast(call, "binary_any", &args, 1);
    }
    if (!compares && is_cuda_float(y->dtype))
        pack = cuda_broadcast_pack(&args, 2, kernel_element_size(y->dtype));
    const CudaName name = cuda_name(compares   ? "compare"
                                    : pack > 1 ? "binary_pack"
                                               : "binary",
                                    cuda_suffix(a->dtype), "");
    return launch_broadcast(call, name.text, &args, pack);
}

static bool binary(KernelCall *call, enum BinaryOp op) {
    const KernelTensor b = align_b(call, &call->inputs[0], &call->inputs[1]);
    return combine(call, &call->inputs[0], &b, op, 1);
}

#define BINARY(name, op)                                                                           \
    bool cuda_##name(KernelCall *call) {                                                           \
        return binary(call, op);                                                                   \
    }
BINARY(add, BINARY_ADD)
BINARY(sub, BINARY_SUB)
BINARY(mul, BINARY_MUL)
BINARY(div, BINARY_DIV)
BINARY(equal, BINARY_EQUAL)
BINARY(less, BINARY_LESS)
BINARY(less_equal, BINARY_LESS_EQUAL)
BINARY(greater, BINARY_GREATER)
BINARY(greater_equal, BINARY_GREATER_EQUAL)
BINARY(and, BINARY_AND)
BINARY(or, BINARY_OR)
BINARY(xor, BINARY_XOR)

/* The exponent may have another type than the base, of which the result is. */
bool cuda_pow(KernelCall *call) {
    KernelTensor b = align_b(call, &call->inputs[0], &call->inputs[1]);
    const Dtype dtype = call->inputs[0].dtype;
    if (b.dtype == dtype || (is_cuda_float(b.dtype) && is_cuda_float(dtype)))
        return combine(call, &call->inputs[0], &b, BINARY_POW, 1);
    void *converted = kernel_workspace(call, b.count * kernel_element_size(dtype));
    if (!converted) return false;
    const UnaryArgs args = {.x = b.data,
                            .y = converted,
                            .count = (int64_t)b.count,
                            .from = (int32_t)b.dtype,
                            .to = (int32_t)dtype};
    cuda_between(call, b.count * kernel_element_size(dtype));
    if (!launch_unary(call, "cast_any", &args, 1)) return false;
    b.data = converted;
    b.dtype = dtype;
    return combine(call, &call->inputs[0], &b, BINARY_POW, 1);
}

bool cuda_mod(KernelCall *call) {
    const ModAttrs *attrs = call->attrs;
    return binary(call, attrs->fmod ? BINARY_FMOD : BINARY_MOD);
}

/* The slope is aligned from the right; in version 1, of one axis, to the channels. */
bool cuda_prelu(KernelCall *call) {
    KernelTensor slope = call->inputs[1];
    const KernelTensor *x = &call->inputs[0];
    if (slope.rank == 1 && slope.dims[0] != 1 && x->rank > 1 && x->dims[1] == slope.dims[0] &&
        (call->opset < 7 || x->dims[x->rank - 1] != slope.dims[0])) {
        int64_t *dims = ARENA_ARRAY(call->scratch, int64_t, x->rank);
        for (uint32_t i = 0; i + 1 < x->rank; i++) dims[i] = i ? 1 : slope.dims[0];
        slope.rank = x->rank - 1;
        slope.dims = dims;
    }
    return combine(call, x, &slope, BINARY_PRELU, 1);
}

bool cuda_add_scaled(KernelCall *call, const KernelTensor *x, float scale, const KernelTensor *y) {
    cuda_between(call, y->count * kernel_element_size(y->dtype));
    return combine(call, &call->outputs[0], x, BINARY_ADD_SCALED, scale);
}

/* Two at a time; the result so far is the first operand of the next. */
static bool fold(KernelCall *call, enum BinaryOp op, float scale) {
    const KernelTensor *so_far = &call->inputs[0];
    const uint32_t count = call->input_count;
    if (count == 1) {
        const KernelTensor *y = &call->outputs[0];
        return cuda_copy(call, y->data, so_far->data, y->count * kernel_element_size(y->dtype));
    }
    for (uint32_t i = 1; i < count; i++) {
        if (!combine(call, so_far, &call->inputs[i], op, i + 1 == count ? scale : 1)) return false;
        so_far = &call->outputs[0];
        if (i + 1 < count) cuda_between(call, so_far->count * kernel_element_size(so_far->dtype));
    }
    return true;
}
bool cuda_sum(KernelCall *call) {
    return fold(call, BINARY_ADD, 1);
}
bool cuda_mean(KernelCall *call) {
    return fold(call, BINARY_ADD, 1.0f / (float)call->input_count);
}
bool cuda_max(KernelCall *call) {
    return fold(call, BINARY_MAX, 1);
}
bool cuda_min(KernelCall *call) {
    return fold(call, BINARY_MIN, 1);
}

bool cuda_where(KernelCall *call) {
    const KernelTensor *const inputs[] = {&call->inputs[0], &call->inputs[1], &call->inputs[2]};
    BroadcastArgs args;
    if (!call->outputs[0].count) return true;
    if (!cuda_broadcast(call, inputs, 3, &call->outputs[0], &args)) return false;
    const CudaName name = cuda_name("where", cuda_size_suffix(call->outputs[0].dtype), "");
    return launch_broadcast(call, name.text, &args, 1);
}

bool cuda_expand(KernelCall *call) {
    const KernelTensor *const inputs[] = {&call->inputs[0]};
    BroadcastArgs args;
    if (!call->outputs[0].count) return true;
    if (!cuda_broadcast(call, inputs, 1, &call->outputs[0], &args)) return false;
    const CudaName name = cuda_name("expand", cuda_size_suffix(call->outputs[0].dtype), "");
    return launch_broadcast(call, name.text, &args, 1);
}
