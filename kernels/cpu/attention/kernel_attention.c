// SPDX-License-Identifier: Apache-2.0
/* Attention (23 to 25) and RotaryEmbedding, that of com.microsoft too.
 *
 * softmax(cap(q k^T * scale) + bias) v: in blocks of queries and keys (attend.h), or one query at a
 * time, where memory is one row of scores. Which keys a query may see at all (causal frontier,
 * windows, padding) is a range [from, to); attn_mask works within it. A query that sees no key gives
 * zeros. Heads are grouped: query head h reads key head h / (query heads / key heads). Arithmetic is
 * in float (double for double), sums of exponentials in double, whatever softmax_precision asks for:
 * it is a lower bound.
 */
#include <math.h>
#include <string.h>

#include "attend.h"
#include "gemm.h"
#include "head_view.h"
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_math.h"
#include "kernel_parts.h"
#include "kernel_reals.h"

typedef enum QkMode { QK_RAW, QK_CAPPED, QK_BIASED, QK_PROBABILITY } QkMode;

typedef struct Attention {
    HeadView q, k, v, out;
    size_t element;                    /* bytes of a real */
    uint64_t head, value, total, past; /* sizes of a key, of a value; keys in all, of the past */
    uint64_t group;                    /* query heads of a key head */
    double scale, softcap;
    const int64_t *nonpad;    /* [batch], or NULL */
    const void *mask;         /* reals, or */
    const uint8_t *mask_bits; /* bools, or neither */
    uint64_t mask_step[4], mask_length;
    QkMode qk_mode;
    void *qk, *y; /* qk may be NULL */
    const GemmLoops *loops;
} Attention;

/* One query: where its data begins, and the keys it may see. */
typedef struct Query {
    uint64_t sample, place; /* its batch number, and its number among the queries */
    uint64_t q_start, k_start, v_start, y_start, qk_start, mask_start, from, to;
} Query;

typedef struct Rotary {
    uint64_t head, half; /* elements of a head, pairs that are rotated */
    bool interleaved;
    const void *cosine, *sine; /* [rows][half] */
} Rotary;

/* score[j] = key j . query, j < count */
static void multiply_keys_float(const Attention *job, float *score, const float *keys,
                                const float *query, uint64_t count) {
    memset(score, 0, count * sizeof *score);
    job->loops->dots(score, keys, job->k.row, query, count, job->head);
}

/* y += the sum of p[j] * value j, j < count */
static void add_values_float(const Attention *job, float *y, const float *values, const float *p,
                             uint64_t count) {
    job->loops->gemv(y, values, job->v.row, p, count, job->value);
}

#include "real_float.inc"
#include "real_row.inc"
#include "kernel_attention_body.inc"
#include "real_end.inc"
#include "real_double.inc"
#include "real_dot.inc"
#include "real_row.inc"

KERNEL_CLONES
static void multiply_keys_double(const Attention *job, double *score, const double *keys,
                                 const double *query, uint64_t count) {
    for (uint64_t j = 0; j < count; j++)
        score[j] = dot_double(query, keys + j * job->k.row, job->head);
}

KERNEL_CLONES
static void add_values_double(const Attention *job, double *y, const double *values,
                              const double *p, uint64_t count) {
    for (uint64_t j = 0; j < count; j++)
        for (uint64_t e = 0; e < job->value; e++) y[e] += p[j] * values[j * job->v.row + e];
}

#include "kernel_attention_body.inc"
#include "real_end.inc"

/* ---- operands -------------------------------------------------------------------------------- */

static bool take_reals(KernelCall *call, uint32_t i, HeadView *view) {
    view->data = kernel_reals(call, &call->inputs[i], kernel_reals_dtype(call));
    return view->data != NULL;
}

static bool find_views(KernelCall *call, Attention *job) {
    HeadShapes shapes;
    if (!head_shapes(call, &shapes)) return false;
    job->q = shapes.q;
    job->k = shapes.k;
    job->v = shapes.v;
    job->group = shapes.group;
    job->head = shapes.q.size;
    job->value = shapes.v.size;
    job->past = shapes.past;
    job->total = shapes.total;
    return take_reals(call, 0, &job->q) && take_reals(call, 1, &job->k) &&
           take_reals(call, 2, &job->v);
}

/* Copies a cache's new rows behind the past ones: (batch, heads, total, size). */
static void join_cache(const Attention *job, const HeadView *now, const void *past, char *to) {
    size_t element = job->element;
    uint64_t row = now->size * element;
    if (row == 0) return;
    for (uint64_t i = 0; i < now->batches * now->heads; i++) {
        const char *from = (const char *)now->data +
                           (i / now->heads * now->batch + i % now->heads * now->head) * element;
        char *base = to + i * job->total * row;
        if (job->past) memcpy(base, (const char *)past + i * job->past * row, job->past * row);
        for (uint64_t r = 0; r < now->rows; r++)
            memcpy(base + (job->past + r) * row, from + r * now->row * element, row);
    }
}

/* Keys or values with the past before them, in present output `o` where that is wanted. */
static bool join_past(KernelCall *call, const Attention *job, uint32_t o, HeadView *view) {
    const KernelTensor *past = kernel_input(call, o + 3), *out = kernel_result(call, o);
    Dtype dtype = kernel_reals_dtype(call);
    if (!past && !out) return true;
    uint64_t count = view->batches * view->heads * job->total * view->size;
    if (out && !kernel_want_count(call, out, count, "the cache")) return false;
    void *to = out ? kernel_reals_for(call, out, dtype)
                   : arena_array(call->scratch, count + 1, job->element);
    const void *before = past ? kernel_reals(call, past, dtype) : NULL;
    if (!to || (past && !before)) return false;
    join_cache(job, view, before, to);
    if (out) kernel_reals_done(out, to, dtype);
    uint64_t size = view->size;
    *view = (HeadView){to,
                       view->batches,
                       view->heads,
                       job->total,
                       size,
                       view->heads * job->total * size,
                       job->total * size,
                       size};
    return true;
}

static bool join_pasts(KernelCall *call, Attention *job) {
    return join_past(call, job, 1, &job->k) && join_past(call, job, 2, &job->v);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static bool find_mask(KernelCall *call, Attention *job) {
    const KernelTensor *mask = kernel_input(call, 3);
    if (!mask) return true;
    const uint64_t want[] = {job->q.batches, job->q.heads, job->q.rows, job->total};
    if (!head_mask_steps(call, mask, want, job->mask_step)) return false;
    job->mask_length = (uint64_t)mask->dims[mask->rank - 1];
    if (mask->dtype == DTYPE_BOOL) {
        static const uint8_t none[1];
        job->mask_bits = mask->count ? mask->data : none;
        return true;
    }
    if (mask->dtype == DTYPE_FLOAT || mask->dtype == DTYPE_DOUBLE) {
        job->mask = kernel_reals(call, mask, kernel_reals_dtype(call));
        return job->mask != NULL;
    }
    double *values = ARENA_ARRAY(call->scratch, double, mask->count + 1);
    for (uint64_t i = 0; i < mask->count; i++) values[i] = kernel_real(mask, i);
    KernelTensor real = {
        .present = true, .dtype = DTYPE_DOUBLE, .count = mask->count, .data = values};
    job->mask = kernel_reals(call, &real, kernel_reals_dtype(call));
    return job->mask != NULL;
}

static bool find_padding(KernelCall *call, Attention *job) {
    const KernelTensor *nonpad = kernel_input(call, 6);
    if (!nonpad) return true;
    if (kernel_input(call, 4)) return kernel_fail(call, "nonpad_kv_seqlen with a past");
    if (!kernel_want_count(call, nonpad, job->q.batches, "nonpad_kv_seqlen")) return false;
    job->nonpad = kernel_ints(call, nonpad);
    for (uint64_t b = 0; job->nonpad && b < job->q.batches; b++)
        if (job->nonpad[b] < 0 || (uint64_t)job->nonpad[b] > job->total)
            return kernel_fail(call, "%lld of %llu keys are not padding", (long long)job->nonpad[b],
                               (unsigned long long)job->total);
    return job->nonpad != NULL;
}

/* Keys [range[0], range[1]) that a query may see: frontier, windows and padding. */
static void find_range(const AttentionAttrs *attrs, const Attention *job, const Query *q,
                       uint64_t range[2]) {
    int64_t place = (int64_t)(job->past + q->place), from = 0, to = (int64_t)job->total;
    if (job->nonpad) {
        place += job->nonpad[q->sample] - (int64_t)job->q.rows;
        to = job->nonpad[q->sample];
    }
    if (attrs->causal && to > place + 1) to = place + 1;
    if (attrs->right >= 0 && attrs->right < INT64_MAX / 4 && to > place + attrs->right + 1)
        to = place + attrs->right + 1;
    if (attrs->left >= 0 && attrs->left < INT64_MAX / 4 && from < place - attrs->left)
        from = place - attrs->left;
    if (to < 0) to = 0;
    range[1] = (uint64_t)to;
    range[0] = from > to ? range[1] : (uint64_t)from;
}

/* ---- Attention ------------------------------------------------------------------------------- */

static bool find_outputs(KernelCall *call, Attention *job) {
    const AttentionAttrs *attrs = call->attrs;
    KernelTensor *y = &call->outputs[0], *qk = kernel_result(call, 3);
    Dtype dtype = kernel_reals_dtype(call);
    uint64_t queries = job->q.batches * job->q.heads * job->q.rows;
    if (attrs->qk_mode < 0 || attrs->qk_mode > 3)
        return kernel_fail(call, "qk_matmul_output_mode = %lld", (long long)attrs->qk_mode);
    job->qk_mode = (QkMode)attrs->qk_mode;
    if (!kernel_want_count(call, y, queries * job->value, "Y") ||
        !head_view(call, y, (int64_t)job->q.heads, &job->out))
        return false;
    if (job->out.heads != job->q.heads || job->out.size != job->value ||
        job->out.rows != job->q.rows)
        return kernel_fail(call, "Y has different dims");
    if (qk && !kernel_want_count(call, qk, queries * job->total, "qk_matmul_output")) return false;
    job->y = kernel_reals_for(call, y, dtype);
    job->qk = qk ? kernel_reals_for(call, qk, dtype) : NULL;
    return job->y && (!qk || job->qk);
}

/* Query n of all; `score` has space for all keys. */
static void run_query(const KernelCall *call, const Attention *job, uint64_t n, void *score) {
    uint64_t heads = job->q.heads, rows = job->q.rows;
    uint64_t b = n / rows / heads, h = n / rows % heads, i = n % rows, kv = h / job->group;
    Query q = {.sample = b,
               .place = i,
               .q_start = b * job->q.batch + h * job->q.head + i * job->q.row,
               .k_start = b * job->k.batch + kv * job->k.head,
               .v_start = b * job->v.batch + kv * job->v.head,
               .y_start = b * job->out.batch + h * job->out.head + i * job->out.row,
               .qk_start = n * job->total,
               .mask_start = b * job->mask_step[0] + h * job->mask_step[1] + i * job->mask_step[2]};
    uint64_t range[2];
    find_range(call->attrs, job, &q, range);
    q.from = range[0];
    q.to = range[1];
    if (job->element == sizeof(double))
        attend_double(job, &q, score);
    else
        attend_float(job, &q, score);
}

typedef struct QueriesJob {
    const KernelCall *call;
    const Attention *job;
    char *scores; /* `size` bytes a lane */
    uint64_t size;
} QueriesJob;

static void queries_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const QueriesJob *queries = data;
    for (uint64_t n = first; n < end; n++)
        run_query(queries->call, queries->job, n, queries->scores + lane * queries->size);
}

static void run_queries(KernelCall *call, const Attention *job) {
    const uint64_t count = job->q.batches * job->q.heads * job->q.rows;
    const double work = (double)count * (double)job->total * (double)(job->head + job->value);
    QueriesJob queries = {.call = call, .job = job};
    queries.size = (job->total * sizeof(double) / 64 + 1) * 64;
    queries.scores = arena_array(call->scratch, kernel_threads(call), queries.size);
    kernel_run_parts(call->workers, kernel_work_cut(call, work, count), queries_part, &queries);
}

/* ---- in blocks ------------------------------------------------------------------------------- */

typedef struct RangeContext {
    const AttentionAttrs *attrs;
    const Attention *job;
} RangeContext;

/* A mask that is shorter than the keys excludes those behind it. */
static void range_of(const void *context, uint64_t batch, uint64_t row, uint64_t range[2]) {
    const RangeContext *c = context;
    const Attention *job = c->job;
    find_range(c->attrs, job, &(Query){.sample = batch, .place = row}, range);
    if ((job->mask || job->mask_bits) && range[1] > job->mask_length) range[1] = job->mask_length;
    if (range[0] > range[1]) range[0] = range[1];
}

static AttendOperand operand_of(const HeadView *view) {
    return (AttendOperand){.data = (void *)(uintptr_t)view->data,
                           .batch = view->batch,
                           .head = view->head,
                           .row = view->row,
                           .element = 1};
}

static bool run_blocks(KernelCall *call, const Attention *job) {
    const RangeContext context = {call->attrs, job};
    const uint64_t *step = job->mask_step;
    const AttendMask mask = {NULL, step[0], step[1], step[2], step[3]};
    Attend attend = {.batches = job->q.batches,
                     .heads = job->q.heads,
                     .rows = job->q.rows,
                     .keys = job->total,
                     .size = job->head,
                     .value = job->value,
                     .group = job->group,
                     .q = operand_of(&job->q),
                     .k = operand_of(&job->k),
                     .v = operand_of(&job->v),
                     .y = operand_of(&job->out),
                     .scale = (float)job->scale,
                     .softcap = (float)job->softcap,
                     .keep = mask,
                     .fill = -INFINITY,
                     .bias = mask,
                     .range = range_of,
                     .context = &context,
                     .excludes = true};
    attend.y.data = job->y;
    attend.keep.data = job->mask_bits;
    attend.bias.data = job->mask;
    return attend_run(call, &attend);
}

/* Scores are made as a whole where they are an output, and in double; a faithful plan keeps to one
 * order of sums. */
static bool run_attention(KernelCall *call, const Attention *job) {
    bool blocks = job->element == sizeof(float) && !job->qk && !call->faithful;
    if (blocks) return run_blocks(call, job);
    run_queries(call, job);
    return true;
}

bool kernel_attention(KernelCall *call) {
    const AttentionAttrs *attrs = call->attrs;
    Attention job = {.softcap = (double)attrs->softcap,
                     .element = kernel_element_size(kernel_reals_dtype(call)),
                     .loops = gemm_loops(isa_here())};
    if (attrs->left < -1 || attrs->right < -1) return kernel_fail(call, "a window below -1");
    if (attrs->precision != ATTR_ABSENT && attrs->precision != DTYPE_FLOAT &&
        attrs->precision != DTYPE_DOUBLE && !dtype_is_reduced(attrs->precision))
        return kernel_fail(call, "softmax_precision is not a float type");
    if (!find_views(call, &job) || !join_pasts(call, &job) || !find_mask(call, &job) ||
        !find_padding(call, &job) || !find_outputs(call, &job))
        return false;
    job.scale = attrs->scale.count ? (double)attrs->scale.items[0] : 1 / sqrt((double)job.head);
    bool any = call->outputs[0].count || (job.qk && call->outputs[3].count);
    if (any && !run_attention(call, &job)) return false;
    Dtype dtype = kernel_reals_dtype(call);
    kernel_reals_done(&call->outputs[0], job.y, dtype);
    if (job.qk) kernel_reals_done(&call->outputs[3], job.qk, dtype);
    return true;
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

/* Of each token its row of the caches: places are rows of both. NULL with the error set. */
static const int64_t *find_places(KernelCall *call, const HeadRotary *shape) {
    const uint64_t tokens = call->inputs[0].count ? shape->x.batches * shape->x.rows : 0;
    const int64_t *given = shape->positions ? kernel_ints(call, shape->positions) : NULL;
    int64_t *ids = ARENA_ARRAY(call->scratch, int64_t, tokens + 1);
    if (shape->positions && !given) return NULL;
    for (uint64_t i = 0; i < tokens; i++) {
        const int64_t first = !given ? (int64_t)i : given[shape->first ? 0 : i];
        const int64_t more = shape->first ? (int64_t)(i % shape->x.rows) : 0;
        ids[i] = first > INT64_MAX - more ? -1 : first + more;
        for (uint32_t c = 0; given && c < 2; c++)
            if (ids[i] < 0 || ids[i] >= shape->caches[c]->dims[0]) {
                kernel_fail(call, "position %lld is not in the cache", (long long)ids[i]);
                return NULL;
            }
    }
    return ids;
}

static bool turn_tokens(KernelCall *call, HeadRotary *shape) {
    HeadView *x = &shape->x;
    const Dtype dtype = kernel_reals_dtype(call);
    const int64_t *ids = find_places(call, shape);
    KernelTensor *out = &call->outputs[0];
    Rotary job = {.head = x->size, .half = shape->half, .interleaved = shape->interleaved};
    if (!ids || !take_reals(call, 0, x) ||
        !(job.cosine = kernel_reals(call, shape->caches[0], dtype)) ||
        !(job.sine = kernel_reals(call, shape->caches[1], dtype)))
        return false;
    void *y = kernel_reals_for(call, out, dtype);
    if (!y) return false;
    for (uint64_t n = 0; out->count && n < x->batches * x->heads * x->rows; n++) {
        uint64_t b = n / x->rows / x->heads, h = n / x->rows % x->heads, i = n % x->rows;
        uint64_t row = (uint64_t)ids[b * x->rows + i];
        uint64_t at = b * x->batch + h * x->head + i * x->row;
        if (dtype == DTYPE_FLOAT)
            rotate_float(&job, (const float *)x->data + at, (float *)y + at, row);
        else
            rotate_double(&job, (const double *)x->data + at, (double *)y + at, row);
    }
    kernel_reals_done(out, y, dtype);
    return true;
}

bool kernel_rotary(KernelCall *call) {
    HeadRotary shape;
    return head_rotary(call, &shape) && turn_tokens(call, &shape);
}

bool kernel_rotary_by_position(KernelCall *call) {
    HeadRotary shape;
    return head_rotary_by_position(call, &shape) && turn_tokens(call, &shape);
}
