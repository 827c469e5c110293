// SPDX-License-Identifier: Apache-2.0
/* demi.fused's Attention (rewrite/base/operators/fused.def): its operands as attend.h wants them. Q, K, V
 * and Y are read and written as they are stored, in any order of axes. */
#include "attend.h"
#include "head_axes.h"
#include "kernel_functions.h"

/* A tensor by what its axes are. */
typedef struct HeadTensor {
    uint64_t dims[HEAD_AXES];
    AttendOperand at;
} HeadTensor;

static Dtype narrow_of(const KernelTensor *tensor) {
    return tensor->dtype == DTYPE_FLOAT ? DTYPE_UNDEFINED : tensor->dtype;
}

/* Moves `data` to the part that is read of the axis that is none of a head's. */
static bool take_part(KernelCall *call, const KernelTensor *tensor, int32_t axis, int64_t part) {
    const int64_t dim = tensor->dims[axis];
    return (part >= 0 && part < dim) ||
           kernel_fail(call, "part %lld of %lld", (long long)part, (long long)dim);
}

static bool view(KernelCall *call, const KernelTensor *tensor, const AttrInts *given, int64_t part,
                 HeadTensor *made) {
    HeadAxes axes;
    if (!head_axes_find(given, tensor->rank, &axes)) return kernel_fail(call, "axes do not fit");
    if (axes.rest >= 0 && !take_part(call, tensor, axes.rest, part)) return false;
    uint64_t *const steps[] = {&made->at.batch, &made->at.head, &made->at.row, &made->at.element};
    for (uint32_t i = 0; i < HEAD_AXES; i++) {
        const int32_t axis = axes.axis[i];
        made->dims[i] = axis < 0 ? 1 : (uint64_t)tensor->dims[axis];
        *steps[i] = made->dims[i] == 1 ? 0 : kernel_stride(tensor, (uint32_t)axis);
    }
    if (made->dims[HEAD_SIZE] == 1) made->at.element = 1;
    made->at.narrow = narrow_of(tensor);
    made->at.data = tensor->data;
    if (axes.rest >= 0 && tensor->count) {
        const uint64_t step = kernel_stride(tensor, (uint32_t)axes.rest);
        made->at.data =
            (char *)tensor->data + (uint64_t)part * step * kernel_element_size(tensor->dtype);
    }
    return true;
}

static int64_t part_of(const FusedAttentionAttrs *attrs, uint32_t i) {
    return i < attrs->parts.count ? attrs->parts.items[i] : 0;
}

static bool fits(uint64_t dim, uint64_t want) {
    return dim == 1 || dim == want;
}

/* Heads of K and V, of which the fewer ones divide the others. */
static bool find_groups(KernelCall *call, const HeadTensor *k, const HeadTensor *v, Attend *job) {
    const uint64_t a = k->dims[HEAD_HEADS], b = v->dims[HEAD_HEADS], heads = a > b ? a : b;
    if (!a || !b || heads % a || heads % b || job->heads % heads)
        return kernel_fail(call, "%llu heads on %llu and %llu", (unsigned long long)job->heads,
                           (unsigned long long)a, (unsigned long long)b);
    job->group = job->heads / heads;
    job->k_share = heads / a;
    job->v_share = heads / b;
    return true;
}

/* Keys and values of the past, of the same batches and heads as those behind them. */
static bool find_past(KernelCall *call, const HeadTensor *k, const HeadTensor *v, Attend *job) {
    const FusedAttentionAttrs *attrs = call->attrs;
    const KernelTensor *keys = kernel_input(call, 5), *values = kernel_input(call, 6);
    HeadTensor past_k, past_v;
    if (!keys && !values) return true;
    if (!keys || !values) return kernel_fail(call, "only the keys or only the values have a past");
    if (!view(call, keys, &attrs->k_axes, part_of(attrs, 1), &past_k) ||
        !view(call, values, &attrs->v_axes, part_of(attrs, 2), &past_v))
        return false;
    job->past = past_v.dims[HEAD_ROWS];
    const bool alike = past_k.dims[HEAD_ROWS] == job->past &&
                       k->dims[HEAD_ROWS] == v->dims[HEAD_ROWS] &&
                       past_k.dims[HEAD_BATCH] == k->dims[HEAD_BATCH] &&
                       past_k.dims[HEAD_HEADS] == k->dims[HEAD_HEADS] &&
                       past_k.dims[HEAD_SIZE] == k->dims[HEAD_SIZE] &&
                       past_v.dims[HEAD_BATCH] == v->dims[HEAD_BATCH] &&
                       past_v.dims[HEAD_HEADS] == v->dims[HEAD_HEADS] &&
                       past_v.dims[HEAD_SIZE] == v->dims[HEAD_SIZE];
    if (!alike) return kernel_fail(call, "the past does not fit the new keys and values");
    job->keys += job->past;
    job->k_past = past_k.at;
    job->v_past = past_v.at;
    return true;
}

static bool find_operands(KernelCall *call, Attend *job) {
    const FusedAttentionAttrs *attrs = call->attrs;
    HeadTensor q, k, v, y;
    if (!view(call, &call->inputs[0], &attrs->q_axes, part_of(attrs, 0), &q) ||
        !view(call, &call->inputs[1], &attrs->k_axes, part_of(attrs, 1), &k) ||
        !view(call, &call->inputs[2], &attrs->v_axes, part_of(attrs, 2), &v) ||
        !view(call, &call->outputs[0], &attrs->y_axes, 0, &y))
        return false;
    job->batches = y.dims[HEAD_BATCH];
    job->heads = y.dims[HEAD_HEADS];
    job->rows = y.dims[HEAD_ROWS];
    job->keys = v.dims[HEAD_ROWS];
    job->size = q.dims[HEAD_SIZE];
    job->value = v.dims[HEAD_SIZE];
    if (!fits(q.dims[HEAD_BATCH], job->batches) || !fits(k.dims[HEAD_BATCH], job->batches) ||
        !fits(v.dims[HEAD_BATCH], job->batches) || !fits(q.dims[HEAD_HEADS], job->heads) ||
        !fits(q.dims[HEAD_ROWS], job->rows) || !fits(k.dims[HEAD_ROWS], job->keys) ||
        k.dims[HEAD_SIZE] != job->size || y.dims[HEAD_SIZE] != job->value)
        return kernel_fail(call, "Q, K, V and Y do not fit together");
    job->q = q.at;
    job->k = k.at;
    job->v = v.at;
    job->y = y.at;
    return find_groups(call, &k, &v, job) && find_past(call, &k, &v, job);
}

/* The mask's elements as they are for bools, as floats otherwise. */
static const void *mask_data(KernelCall *call, const KernelTensor *tensor) {
    static const float none[1];
    if (tensor->count == 0) return none;
    if (tensor->dtype == DTYPE_BOOL || tensor->dtype == DTYPE_FLOAT) return tensor->data;
    const bool grows = tensor->room && !tensor->grown;
    const uint64_t rows = (uint64_t)(!tensor->rank ? 1 : grows ? tensor->room : tensor->dims[0]);
    const uint64_t count = tensor->rank ? rows * kernel_stride(tensor, 0) : rows;
    float *wide = ARENA_ARRAY(call->scratch, float, count);
    reduced_convert_to_float(tensor->dtype, wide, tensor->data, count);
    return wide;
}

static bool find_mask(KernelCall *call, uint32_t i, const Attend *job, AttendMask *mask) {
    const KernelTensor *tensor = kernel_input(call, i);
    const uint64_t want[] = {job->batches, job->heads, job->rows, job->keys};
    uint64_t *const steps[] = {&mask->batch, &mask->head, &mask->row, &mask->key};
    if (!tensor) return true;
    if (tensor->rank > HEAD_AXES) return kernel_fail(call, "a mask of rank %u", tensor->rank);
    const uint32_t missing = HEAD_AXES - tensor->rank;
    for (uint32_t k = missing; k < HEAD_AXES; k++) {
        const uint64_t dim = (uint64_t)tensor->dims[k - missing];
        if (!fits(dim, want[k]))
            return kernel_fail(call, "a mask's dim of %llu for %llu", (unsigned long long)dim,
                               (unsigned long long)want[k]);
        *steps[k] = dim == 1 ? 0 : kernel_stride(tensor, k - missing);
    }
    mask->data = mask_data(call, tensor);
    return true;
}

bool kernel_fused_attention(KernelCall *call) {
    const FusedAttentionAttrs *attrs = call->attrs;
    Attend job = {.scale = attrs->scale, .fill = attrs->fill, .blank = attrs->blank != 0};
    if (call->outputs[0].count == 0) return true;
    return find_operands(call, &job) && find_mask(call, 3, &job, &job.keep) &&
           find_mask(call, 4, &job, &job.bias) && attend_run(call, &job);
}
