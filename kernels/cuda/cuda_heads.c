// SPDX-License-Identifier: Apache-2.0
/* ONNX's Attention and RotaryEmbedding, and com.microsoft's, on a CUDA device. Keys of the past and new
 * ones are put side by side, in the cache that is an output where it is wanted. */
#include <math.h>

#include "cuda_attention.h"
#include "cuda_epilogue.h"
#include "cuda_functions.h"
#include "head_view.h"

enum { THREADS = 256 };

static bool launch(KernelCall *call, const char *kernel, uint64_t count, const void *args) {
    const CudaLaunch launch = {.family = CUDA_attention,
                               .kernel = kernel,
                               .blocks = {cuda_blocks_full(call, count, THREADS, 1)},
                               .threads = {THREADS},
                               .args = args};
    return !count || cuda_launch(call, &launch);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* What is found of a call. */
typedef struct Found {
    HeadShapes shapes;
    AttentionArgs args;
} Found;

static HeadOperand operand_of(const HeadView *view, Dtype dtype) {
    return (HeadOperand){.data = view->data,
                         .batch = (int64_t)view->batch,
                         .head = (int64_t)view->head,
                         .row = (int64_t)view->row,
                         .element = 1,
                         .type = (int32_t)dtype};
}

/* Keys (1) or values (2) with the past before them, which are output `o` where that is wanted. */
static bool join_past(KernelCall *call, const HeadShapes *s, uint32_t o, HeadView *view) {
    const KernelTensor *past = kernel_input(call, o + 3), *out = kernel_result(call, o);
    const Dtype dtype = call->inputs[o].dtype;
    const uint64_t count = view->batches * view->heads * s->total * view->size;
    const uint64_t bytes = count * kernel_element_size(dtype);
    if (!past && !out) return true;
    if ((past && past->dtype != dtype) || (out && (out->dtype != dtype || out->count != count)))
        return kernel_fail(call, "the cache has a different type or different dims");
    if (!out) cuda_between(call, bytes);
    const JoinArgs args = {.past = past ? past->data : NULL,
                           .now = view->data,
                           .y = out ? out->data : kernel_workspace(call, bytes),
                           .count = (int64_t)count,
                           .past_rows = (int64_t)s->past,
                           .rows = (int64_t)view->rows,
                           .size = (int64_t)view->size,
                           .batch = (int64_t)view->batch,
                           .head = (int64_t)view->head,
                           .row = (int64_t)view->row,
                           .heads = (int32_t)view->heads};
    const CudaName name = cuda_name("join_rows", cuda_size_suffix(dtype), "");
    if (count && !args.y) return false;
    view->data = args.y;
    view->batch = view->heads * s->total * view->size;
    view->head = s->total * view->size;
    view->row = view->size;
    return launch(call, name.text, count, &args);
}

/* Values in the keys' type. */
static bool convert_values(KernelCall *call, const HeadShapes *s, HeadView *v) {
    const Dtype from = call->inputs[2].dtype, to = call->inputs[1].dtype;
    const uint64_t rows = v->batches * v->heads * s->total, count = rows * v->size;
    if (from == to || !count) return true;
    void *converted = kernel_workspace(call, count * kernel_element_size(to));
    if (!converted || !cuda_convert(call, v->data, from, converted, to, count)) return false;
    v->data = converted;
    return true;
}

/* A mask that is shorter than the keys excludes those behind it. */
static bool find_mask(KernelCall *call, Found *f) {
    const KernelTensor *mask = kernel_input(call, 3);
    const HeadShapes *s = &f->shapes;
    const uint64_t want[] = {s->q.batches, s->q.heads, s->q.rows, s->total};
    uint64_t steps[4] = {0, 0, 0, 0};
    if (!mask) return true;
    if (mask->dtype == DTYPE_INT64)
        return kernel_decline(call, "the device does not support integer masks");
    if (!head_mask_steps(call, mask, want, steps)) return false;
    HeadOperand *to = mask->dtype == DTYPE_BOOL ? &f->args.keep : &f->args.bias;
    f->args.keys = mask->dims[mask->rank - 1];
    if (!mask->count) return true;
    *to = (HeadOperand){.data = mask->data,
                        .batch = (int64_t)steps[0],
                        .head = (int64_t)steps[1],
                        .row = (int64_t)steps[2],
                        .element = 1,
                        .type = (int32_t)mask->dtype};
    return true;
}

static int64_t window(int64_t size) {
    return size < INT64_MAX / 4 ? size : -1;
}

/* What a row sees, but for masks. */
static bool find_ranges(KernelCall *call, Found *f) {
    const AttentionAttrs *attrs = call->attrs;
    const KernelTensor *nonpad = kernel_input(call, 6);
    if (attrs->left < -1 || attrs->right < -1) return kernel_fail(call, "a window below -1");
    f->args.left = window(attrs->left);
    f->args.right = attrs->causal ? 0 : window(attrs->right);
    f->args.past = (int64_t)f->shapes.past;
    if (!nonpad) return true;
    if (kernel_input(call, 4)) return kernel_fail(call, "nonpad_kv_seqlen with a past");
    if (nonpad->count != f->shapes.q.batches)
        return kernel_fail(call, "nonpad_kv_seqlen does not have one element per batch");
    f->args.lengths = nonpad->data;
    return true;
}

static bool find_output(KernelCall *call, Found *f) {
    const HeadShapes *s = &f->shapes;
    const KernelTensor *y = &call->outputs[0];
    HeadView out;
    if (!head_view(call, y, (int64_t)s->q.heads, &out)) return false;
    if (out.batches != s->q.batches || out.heads != s->q.heads || out.rows != s->q.rows ||
        out.size != s->v.size)
        return kernel_fail(call, "Y has different dims");
    f->args.y = operand_of(&out, y->dtype);
    return true;
}

static bool find(KernelCall *call, Found *f) {
    const AttentionAttrs *attrs = call->attrs;
    HeadShapes *s = &f->shapes;
    if (!head_shapes(call, s) || !join_past(call, s, 1, &s->k) || !join_past(call, s, 2, &s->v) ||
        !convert_values(call, s, &s->v))
        return false;
    if (s->q.batches > INT32_MAX || s->q.heads > INT32_MAX || s->q.size > INT32_MAX ||
        s->v.size > INT32_MAX)
        return kernel_decline(call, "the device does not support such large heads");
    const Dtype common = call->inputs[1].dtype;
    f->args = (AttentionArgs){.q = operand_of(&s->q, call->inputs[0].dtype),
                              .k = operand_of(&s->k, common),
                              .v = operand_of(&s->v, common),
                              .rows = (int64_t)s->q.rows,
                              .keys = (int64_t)s->total,
                              .batches = (int32_t)s->q.batches,
                              .heads = (int32_t)s->q.heads,
                              .size = (int32_t)s->q.size,
                              .value = (int32_t)s->v.size,
                              .k_share = (int32_t)s->group,
                              .v_share = (int32_t)s->group,
                              .scale = attrs->scale.count ? attrs->scale.items[0]
                                                          : (float)(1 / sqrt((double)s->q.size)),
                              .fill = -INFINITY,
                              .softcap = attrs->softcap,
                              .excludes = true};
    return find_mask(call, f) && find_ranges(call, f) && find_output(call, f);
}

/* Scores, which are an output. */
static bool show_scores(KernelCall *call, const Found *f) {
    const AttentionAttrs *attrs = call->attrs;
    const KernelTensor *qk = kernel_result(call, 3);
    const CudaName name = cuda_name("show_scores", cuda_suffix(call->inputs[1].dtype), "");
    CudaLaunch launch;
    if (attrs->qk_mode < SCORES_RAW || attrs->qk_mode > SCORES_PROBABILITY)
        return kernel_fail(call, "qk_matmul_output_mode = %lld", (long long)attrs->qk_mode);
    if (!qk || !qk->count) return true;
    const HeadShapes *s = &f->shapes;
    if (qk->count != s->q.batches * s->q.heads * s->q.rows * s->total)
        return kernel_fail(call, "qk_matmul_output has different dims");
    const ScoresArgs args = {.of = f->args,
                             .y = qk->data,
                             .all = (int64_t)s->total,
                             .type = (int32_t)qk->dtype,
                             .mode = (int32_t)attrs->qk_mode};
    if (!cuda_attend_rows(call, &f->args, &launch)) return false;
    launch.kernel = name.text;
    launch.args = &args;
    return cuda_launch(call, &launch);
}

bool cuda_attention(KernelCall *call) {
    Found found;
    if (!find(call, &found) || !show_scores(call, &found)) return false;
    return !call->outputs[0].count || cuda_attend(call, &found.args, call->inputs[1].dtype);
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

static bool turn(KernelCall *call, const HeadRotary *rotary) {
    const HeadView *x = &rotary->x;
    const KernelTensor *c = rotary->caches[0], *s = rotary->caches[1], *y = &call->outputs[0];
    const RotaryArgs args = {.x = x->data,
                             .cosines = c->data,
                             .sines = s->data,
                             .positions = rotary->positions ? rotary->positions->data : NULL,
                             .y = y->data,
                             .count = (int64_t)y->count,
                             .rows = (int64_t)x->rows,
                             .size = (int64_t)x->size,
                             .half = (int64_t)rotary->half,
                             .places = !rotary->positions        ? (int64_t)(x->batches * x->rows)
                                       : c->dims[0] < s->dims[0] ? c->dims[0]
                                                                 : s->dims[0],
                             .batch = (int64_t)x->batch,
                             .head = (int64_t)x->head,
                             .row = (int64_t)x->row,
                             .heads = (int32_t)x->heads,
                             .first = rotary->first,
                             .interleaved = rotary->interleaved,
                             .x_type = (int32_t)call->inputs[0].dtype,
                             .cosine_type = (int32_t)c->dtype,
                             .sine_type = (int32_t)s->dtype,
                             .y_type = (int32_t)y->dtype};
    return launch(call, "turn_heads", y->count, &args);
}

bool cuda_rotary(KernelCall *call) {
    HeadRotary rotary;
    return head_rotary(call, &rotary) && turn(call, &rotary);
}

bool cuda_rotary_by_position(KernelCall *call) {
    HeadRotary rotary;
    return head_rotary_by_position(call, &rotary) && turn(call, &rotary);
}
