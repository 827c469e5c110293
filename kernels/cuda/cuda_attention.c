// SPDX-License-Identifier: Apache-2.0
/* demi.fused's Attention and Rotary on a CUDA device. */
#include "cuda_attention.h"
#include "cuda_broadcast.h"
#include "cuda_epilogue.h"
#include "cuda_functions.h"
#include "head_axes.h"

enum { THREADS = 256, GRID_LIMIT = 65535 };

/* A tensor by what its axes are. */
typedef struct HeadView {
    int64_t dims[HEAD_AXES];
    HeadOperand at;
} HeadView;

static bool view(KernelCall *call, const KernelTensor *tensor, const AttrInts *given, int64_t part,
                 HeadView *made) {
    HeadAxes axes;
    if (!head_axes_find(given, tensor->rank, &axes)) return kernel_fail(call, "axes do not fit");
    if (axes.rest >= 0 && (part < 0 || part >= tensor->dims[axes.rest]))
        return kernel_fail(call, "part %lld of %lld", (long long)part,
                           (long long)tensor->dims[axes.rest]);
    int64_t *const steps[] = {&made->at.batch, &made->at.head, &made->at.row, &made->at.element};
    for (uint32_t i = 0; i < HEAD_AXES; i++) {
        const int32_t axis = axes.axis[i];
        made->dims[i] = axis < 0 ? 1 : tensor->dims[axis];
        *steps[i] = made->dims[i] == 1 ? 0 : (int64_t)kernel_stride(tensor, (uint32_t)axis);
    }
    if (made->dims[HEAD_SIZE] == 1) made->at.element = 1;
    made->at.type = (int32_t)tensor->dtype;
    made->at.data = tensor->data;
    if (axes.rest >= 0 && tensor->count) {
        const uint64_t step = kernel_stride(tensor, (uint32_t)axes.rest);
        made->at.data =
            (char *)tensor->data + (uint64_t)part * step * kernel_element_size(tensor->dtype);
    }
    return true;
}

static bool fits(int64_t dim, int64_t want) {
    return dim == 1 || dim == want;
}

static bool find_operands(KernelCall *call, AttentionArgs *args, Dtype *common) {
    const FusedAttentionAttrs *attrs = call->attrs;
    const AttrInts *const axes[] = {&attrs->q_axes, &attrs->k_axes, &attrs->v_axes};
    HeadView in[3], y;
    for (uint32_t i = 0; i < 3; i++)
        if (!view(call, &call->inputs[i], axes[i],
                  i < attrs->parts.count ? attrs->parts.items[i] : 0, &in[i]))
            return false;
    if (!view(call, &call->outputs[0], &attrs->y_axes, 0, &y)) return false;
    const int64_t *q = in[0].dims, *k = in[1].dims, *v = in[2].dims;
    const int64_t heads = k[HEAD_HEADS] > v[HEAD_HEADS] ? k[HEAD_HEADS] : v[HEAD_HEADS];
    args->rows = y.dims[HEAD_ROWS];
    args->keys = v[HEAD_ROWS];
    args->batches = (int32_t)y.dims[HEAD_BATCH];
    args->heads = (int32_t)y.dims[HEAD_HEADS];
    args->size = (int32_t)q[HEAD_SIZE];
    args->value = (int32_t)v[HEAD_SIZE];
    if (!fits(q[HEAD_BATCH], args->batches) || !fits(k[HEAD_BATCH], args->batches) ||
        !fits(v[HEAD_BATCH], args->batches) || !fits(q[HEAD_HEADS], args->heads) ||
        !fits(q[HEAD_ROWS], args->rows) || !fits(k[HEAD_ROWS], args->keys) ||
        k[HEAD_SIZE] != args->size || y.dims[HEAD_SIZE] != args->value)
        return kernel_fail(call, "Q, K, V and Y do not fit together");
    if (!k[HEAD_HEADS] || !v[HEAD_HEADS] || heads % k[HEAD_HEADS] || heads % v[HEAD_HEADS] ||
        args->heads % heads)
        return kernel_fail(call, "heads do not fit together");
    args->k_share = args->heads / (int32_t)k[HEAD_HEADS];
    args->v_share = args->heads / (int32_t)v[HEAD_HEADS];
    args->q = in[0].at;
    args->k = in[1].at;
    args->v = in[2].at;
    args->y = y.at;
    *common = call->inputs[1].dtype;
    if (call->inputs[2].dtype != *common)
        return kernel_decline(call,
                              "the device does not support keys and values of different types");
    return true;
}

static bool find_mask(KernelCall *call, uint32_t i, const AttentionArgs *args, HeadOperand *mask) {
    const KernelTensor *tensor = kernel_input(call, i);
    const int64_t want[] = {args->batches, args->heads, args->rows, args->keys};
    int64_t *const steps[] = {&mask->batch, &mask->head, &mask->row, &mask->element};
    if (!tensor || !tensor->count) return true;
    if (tensor->rank > HEAD_AXES) return kernel_fail(call, "a mask of rank %u", tensor->rank);
    const uint32_t missing = HEAD_AXES - tensor->rank;
    for (uint32_t k = missing; k < HEAD_AXES; k++) {
        const int64_t dim = tensor->dims[k - missing];
        if (!fits(dim, want[k])) return kernel_fail(call, "a mask does not fit the scores");
        *steps[k] = dim == 1 ? 0 : (int64_t)kernel_stride(tensor, k - missing);
    }
    mask->data = tensor->data;
    mask->type = (int32_t)tensor->dtype;
    return true;
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* Whether rows are `pack` bytes and whole, wherever they begin. */
static bool is_packed(const HeadOperand *at, uint64_t size, int32_t elements, uint64_t pack) {
    const uint64_t steps = (uint64_t)at->batch | (uint64_t)at->head | (uint64_t)at->row;
    return at->element == 1 && (uint64_t)elements * size % pack == 0 && steps * size % pack == 0 &&
           (uintptr_t)at->data % pack == 0;
}

static bool is_dense(const HeadOperand *mask) {
    return !mask->data || mask->element == 1;
}

/* Tiles for tensor cores. */
static bool find_tile(const AttentionArgs *a, Dtype common, CudaLaunch *launch, CudaName *name) {
    const int32_t longest = a->size > a->value ? a->size : a->value;
    if (!dtype_is_reduced(common) || a->q.type != (int32_t)common || a->y.type != (int32_t)common ||
        a->bias.type == DTYPE_DOUBLE || !is_dense(&a->keep) || !is_dense(&a->bias) ||
        a->softcap > 0 || a->keys > INT32_MAX / 2 || a->rows < 8 || !a->keys || longest > 128 ||
        !is_packed(&a->q, 2, a->size, 16) || !is_packed(&a->k, 2, a->size, 16) ||
        !is_packed(&a->v, 2, a->value, 16) || !is_packed(&a->y, 2, a->value, 16))
        return false;
    const char *const sizes[] = {"32", "64", "96", "128"};
    const bool ranged = a->lengths || a->left >= 0 || a->right >= 0;
    *name = cuda_name(ranged ? "attend_range" : "attend_tile", sizes[(longest + 31) / 32 - 1],
                      cuda_suffix(common));
    launch->blocks[0] = cuda_blocks((uint64_t)a->rows, TILE_THREADS / 2, 1);
    launch->threads[0] = TILE_THREADS;
    return true;
}

/* Keys dealt out to the warps of a block. */
static bool find_few(const AttentionArgs *a, Dtype common, CudaLaunch *launch, CudaName *name) {
    static const char *const ways[2][3] = {{"8x1", "16x1", "32x1"}, {"8x4", "16x4", "32x4"}};
    static const char *const narrow[] = {"4x1", "8x1", "16x1"};
    const uint64_t size = kernel_element_size(common);
    const bool wide = common == DTYPE_FLOAT;
    const int32_t lanes = (int32_t)((uint64_t)a->size * size / 16), least = wide ? 8 : 4;
    if (a->size != a->value || lanes < least || lanes > 4 * least || lanes & (lanes - 1) ||
        !is_packed(&a->k, size, a->size, 16) || !is_packed(&a->v, size, a->value, 16))
        return false;
    const uint32_t rows = a->rows == 1 || !wide ? 1 : 4;
    const uint32_t way = lanes == least ? 0 : lanes == 2 * least ? 1 : 2;
    *name = cuda_name("attend_few", wide ? ways[rows > 1][way] : narrow[way], cuda_suffix(common));
    launch->blocks[0] = cuda_blocks((uint64_t)a->rows, rows, 1);
    launch->threads[0] = 32 * FEW_WARPS;
    return true;
}

bool cuda_attend_rows(KernelCall *call, const AttentionArgs *args, CudaLaunch *launch) {
    const int64_t all = (int64_t)args->batches * args->heads;
    if (args->size > ATTENTION_SIZE || args->value > ATTENTION_SIZE)
        return kernel_decline(call, "the device does not support such large heads");
    if (all > GRID_LIMIT) return kernel_decline(call, "the device does not support so many heads");
    *launch = (CudaLaunch){
        .family = CUDA_attention,
        .blocks = {cuda_blocks((uint64_t)args->rows, ATTENTION_WARPS, 1), (uint32_t)all},
        .threads = {32 * ATTENTION_WARPS},
        .args = args};
    return true;
}

bool cuda_attend(KernelCall *call, const AttentionArgs *args, Dtype common) {
    CudaName name = cuda_name("attend", cuda_suffix(common), "");
    CudaLaunch launch;
    if (!cuda_attend_rows(call, args, &launch)) return false;
    if (!find_tile(args, common, &launch, &name)) find_few(args, common, &launch, &name);
    launch.kernel = name.text;
    return cuda_launch(call, &launch);
}

bool cuda_fused_attention(KernelCall *call) {
    const FusedAttentionAttrs *attrs = call->attrs;
    AttentionArgs args = {.scale = attrs->scale,
                          .fill = attrs->fill,
                          .left = -1,
                          .right = -1,
                          .excludes = attrs->blank != 0};
    Dtype common = DTYPE_UNDEFINED;
    if (!call->outputs[0].count) return true;
    if (kernel_input(call, 5))
        return kernel_decline(call, "the device does not support keys in two tensors");
    if (!find_operands(call, &args, &common) || !find_mask(call, 3, &args, &args.keep) ||
        !find_mask(call, 4, &args, &args.bias))
        return false;
    return cuda_attend(call, &args, common);
}

/* C and S broadcast to X. */
bool cuda_rotate(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *c = &call->inputs[1], *s = &call->inputs[2];
    const KernelTensor *y = &call->outputs[0];
    const KernelTensor *const inputs[] = {c, s};
    BroadcastArgs at;
    if (!y->count) return true;
    if (!x->rank || x->dims[x->rank - 1] % 2) return kernel_fail(call, "rows of an odd length");
    if (!cuda_broadcast(call, inputs, 2, y, &at)) return false;
    if (at.rank > 6) return kernel_decline(call, "the device does not support so many axes");
    RotateArgs args = {.x = x->data,
                       .c = c->data,
                       .s = s->data,
                       .y = y->data,
                       .count = (int64_t)y->count,
                       .half = x->dims[x->rank - 1] / 2,
                       .rank = at.rank,
                       .x_type = (int32_t)x->dtype,
                       .c_type = (int32_t)c->dtype,
                       .s_type = (int32_t)s->dtype,
                       .y_type = (int32_t)y->dtype};
    for (int32_t i = 0; i < at.rank; i++) {
        args.sizes[i] = at.sizes[i];
        args.c_strides[i] = at.strides[0][i];
        args.s_strides[i] = at.strides[1][i];
    }
    const CudaLaunch launch = {.family = CUDA_attention,
                               .kernel = "rotate",
                               .blocks = {cuda_blocks_full(call, y->count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = &args};
    return cuda_launch(call, &launch);
}
