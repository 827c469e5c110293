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
#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_math.h"
#include "kernel_parts.h"
#include "kernel_reals.h"

typedef enum QkMode { QK_RAW, QK_CAPPED, QK_BIASED, QK_PROBABILITY } QkMode;

/* Q, K, V or Y as (batch, heads, rows, size), by steps in elements; size is contiguous. */
typedef struct HeadView {
    const void *data;
    uint64_t batches, heads, rows, size;
    uint64_t batch, head, row; /* steps */
} HeadView;

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

/* Rank 4 is (batch, heads, rows, size), rank 3 (batch, rows, heads * size). */
static bool view_heads(KernelCall *call, const KernelTensor *t, int64_t heads, HeadView *view) {
    if (t->rank != 3 && t->rank != 4) return kernel_fail(call, "heads in a rank of %u", t->rank);
    const uint64_t d[] = {(uint64_t)t->dims[0], (uint64_t)t->dims[1], (uint64_t)t->dims[2],
                          t->rank == 4 ? (uint64_t)t->dims[3] : 0};
    if (t->rank == 4) {
        *view = (HeadView){t->data, d[0], d[1], d[2], d[3], d[1] * d[2] * d[3], d[2] * d[3], d[3]};
        return true;
    }
    if (heads == ATTR_ABSENT) heads = 0;
    if (heads < 1 || t->dims[2] % heads)
        return kernel_fail(call, "%lld elements in %lld heads", (long long)t->dims[2],
                           (long long)heads);
    uint64_t n = (uint64_t)heads, size = d[2] / n;
    *view = (HeadView){t->data, d[0], n, d[1], size, d[1] * d[2], size, d[2]};
    return true;
}

static bool view_input(KernelCall *call, uint32_t i, int64_t heads, HeadView *view) {
    const KernelTensor *t = &call->inputs[i];
    if (!view_heads(call, t, heads, view)) return false;
    view->data = kernel_reals(call, t, kernel_reals_dtype(call));
    return view->data != NULL;
}

static bool find_views(KernelCall *call, Attention *job) {
    const AttentionAttrs *attrs = call->attrs;
    if (!view_input(call, 0, attrs->q_heads, &job->q) ||
        !view_input(call, 1, attrs->kv_heads, &job->k) ||
        !view_input(call, 2, attrs->kv_heads, &job->v))
        return false;
    const HeadView *q = &job->q, *k = &job->k, *v = &job->v;
    if (q->batches != k->batches || q->batches != v->batches || k->rows != v->rows ||
        k->heads != v->heads || q->size != k->size)
        return kernel_fail(call, "Q, K and V do not fit together");
    if (k->heads == 0 || q->heads % k->heads)
        return kernel_fail(call, "%llu query heads on %llu key heads", (unsigned long long)q->heads,
                           (unsigned long long)k->heads);
    job->group = q->heads / k->heads;
    job->head = q->size;
    job->value = v->size;
    return true;
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

static bool find_past(KernelCall *call, Attention *job) {
    const KernelTensor *key = kernel_input(call, 4), *value = kernel_input(call, 5);
    if (!key != !value) return kernel_fail(call, "past_key and past_value belong together");
    job->past = 0;
    for (uint32_t i = 0; key && i < 2; i++) {
        const KernelTensor *t = i ? value : key;
        const HeadView *now = i ? &job->v : &job->k;
        if (t->rank != 4 || (uint64_t)t->dims[0] != now->batches ||
            (uint64_t)t->dims[1] != now->heads || (uint64_t)t->dims[3] != now->size ||
            t->dims[2] != key->dims[2])
            return kernel_fail(call, "the past has other dims than K and V");
        job->past = (uint64_t)t->dims[2];
    }
    job->total = job->past + job->k.rows;
    return join_past(call, job, 1, &job->k) && join_past(call, job, 2, &job->v);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static bool find_mask(KernelCall *call, Attention *job) {
    const KernelTensor *mask = kernel_input(call, 3);
    if (!mask) return true;
    const uint64_t want[] = {job->q.batches, job->q.heads, job->q.rows, job->total};
    if (mask->rank < 1 || mask->rank > 4) return kernel_fail(call, "a mask of rank %u", mask->rank);
    uint32_t missing = 4 - mask->rank;
    uint64_t step = 1;
    for (uint32_t i = 4; i-- > missing;) {
        uint64_t dim = (uint64_t)mask->dims[i - missing];
        bool good = i == 3 ? dim <= want[3] : dim == want[i] || dim == 1;
        if (!good)
            return kernel_fail(call, "a mask's dim of %llu for %llu", (unsigned long long)dim,
                               (unsigned long long)want[i]);
        job->mask_step[i] = dim == 1 && i < 3 ? 0 : step;
        step *= dim;
    }
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
        !view_heads(call, y, (int64_t)job->q.heads, &job->out))
        return false;
    if (job->out.heads != job->q.heads || job->out.size != job->value ||
        job->out.rows != job->q.rows)
        return kernel_fail(call, "Y has other dims");
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
                     .loops = gemm_loops(isa_best())};
    if (attrs->left < -1 || attrs->right < -1) return kernel_fail(call, "a window below -1");
    if (attrs->precision != ATTR_ABSENT && attrs->precision != DTYPE_FLOAT &&
        attrs->precision != DTYPE_DOUBLE && attrs->precision != DTYPE_FLOAT16 &&
        attrs->precision != DTYPE_BFLOAT16)
        return kernel_fail(call, "softmax_precision is not a float type");
    if (!find_views(call, &job) || !find_past(call, &job) || !find_mask(call, &job) ||
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

/* How many elements of a head are rotated: all where the size, an attribute, is 0. */
static bool find_pairs(KernelCall *call, int64_t size, const HeadView *x, Rotary *job) {
    const RotaryAttrs *attrs = call->attrs;
    const uint64_t turned = size > 0 ? (uint64_t)size : x->size;
    *job = (Rotary){.head = x->size, .half = turned / 2, .interleaved = attrs->interleaved > 0};
    return (size >= 0 && turned <= x->size && turned % 2 == 0) ||
           kernel_fail(call, "rotation of %lld elements of %llu", (long long)size,
                       (unsigned long long)x->size);
}

/* The caches, by row. */
static bool find_caches(KernelCall *call, const KernelTensor *const caches[2], Rotary *job) {
    for (uint32_t i = 0; i < 2; i++) {
        const KernelTensor *t = caches[i];
        if (!t || !t->rank || (uint64_t)t->dims[t->rank - 1] != job->half)
            return kernel_fail(call, "a cache has other dims");
        const void **to = i ? &job->sine : &job->cosine;
        if (!(*to = kernel_reals(call, t, kernel_reals_dtype(call)))) return false;
    }
    return true;
}

/* Places are rows of both caches. */
static bool are_places(KernelCall *call, const KernelTensor *const caches[2], const int64_t *ids,
                       uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= caches[0]->dims[0] || ids[i] >= caches[1]->dims[0])
            return kernel_fail(call, "position %lld is not in the cache", (long long)ids[i]);
    return true;
}

/* Rows of the caches: one a position id, or one a token. */
static bool find_rotary(KernelCall *call, const HeadView *x, Rotary *job, const int64_t **ids) {
    const RotaryAttrs *attrs = call->attrs;
    const KernelTensor *const caches[] = {kernel_input(call, 1), kernel_input(call, 2)};
    const KernelTensor *positions = kernel_input(call, 3);
    const uint64_t tokens = x->batches * x->rows;
    if (positions && !kernel_want_count(call, positions, tokens, "position_ids")) return false;
    if (positions && !(*ids = kernel_ints(call, positions))) return false;
    if (!find_pairs(call, attrs->size, x, job) || !find_caches(call, caches, job)) return false;
    for (uint32_t i = 0; i < 2; i++) {
        const KernelTensor *t = caches[i];
        if (t->rank != (positions ? 2 : 3)) return kernel_fail(call, "a cache has other dims");
        if (!positions && ((uint64_t)t->dims[0] != x->batches || (uint64_t)t->dims[1] != x->rows))
            return kernel_fail(call, "a cache has other dims than the tokens");
    }
    return !*ids || are_places(call, caches, *ids, tokens);
}

/* Turns x by what is found; token i by row ids[i], or i. */
static bool turn_tokens(KernelCall *call, const HeadView *x, const Rotary *job,
                        const int64_t *ids) {
    Dtype dtype = kernel_reals_dtype(call);
    KernelTensor *out = &call->outputs[0];
    void *y = kernel_reals_for(call, out, dtype);
    if (!y) return false;
    for (uint64_t n = 0; out->count && n < x->batches * x->heads * x->rows; n++) {
        uint64_t b = n / x->rows / x->heads, h = n / x->rows % x->heads, i = n % x->rows;
        uint64_t token = b * x->rows + i, row = ids ? (uint64_t)ids[token] : token;
        uint64_t at = b * x->batch + h * x->head + i * x->row;
        if (dtype == DTYPE_FLOAT)
            rotate_float(job, (const float *)x->data + at, (float *)y + at, row);
        else
            rotate_double(job, (const double *)x->data + at, (double *)y + at, row);
    }
    kernel_reals_done(out, y, dtype);
    return true;
}

bool kernel_rotary(KernelCall *call) {
    const RotaryAttrs *attrs = call->attrs;
    const int64_t *ids = NULL;
    HeadView x;
    Rotary job;
    return kernel_want_same_count(call) && view_input(call, 0, attrs->heads, &x) &&
           find_rotary(call, &x, &job, &ids) && turn_tokens(call, &x, &job, ids);
}

/* com.microsoft's: (x, positions, cosines, sines). One position is that of all sequences' first
 * token; heads of rank 3, where their number is absent, are as large as the caches tell. */
bool kernel_rotary_by_position(KernelCall *call) {
    const RotaryAttrs *attrs = call->attrs;
    const KernelTensor *const caches[] = {&call->inputs[2], &call->inputs[3]};
    const KernelTensor *input = &call->inputs[0], *positions = &call->inputs[1];
    const int64_t size = attrs->size > 0 ? attrs->size : 0;
    int64_t heads = attrs->heads > 0 ? attrs->heads : 0;
    HeadView x;
    Rotary job;
    if (attrs->packed > 0) return kernel_fail(call, "is_packed_batching is not known");
    if (attrs->scale.count && attrs->scale.items[0] != 1.0F)
        return kernel_fail(call, "a scale is not known");
    if (caches[0]->rank != 2 || caches[1]->rank != 2)
        return kernel_fail(call, "a cache is no matrix");
    if (!heads && input->rank == 3 && caches[0]->dims[1] > 0)
        heads = input->dims[2] / 2 / caches[0]->dims[1];
    if (!kernel_want_same_count(call) || !view_input(call, 0, heads, &x) ||
        !find_pairs(call, size, &x, &job) || !find_caches(call, caches, &job))
        return false;
    const int64_t *given = kernel_ints(call, positions);
    const uint64_t tokens = input->count ? x.batches * x.rows : 0;
    if (!given) return false;
    if (positions->count != 1 && !kernel_want_count(call, positions, tokens, "position_ids"))
        return false;
    int64_t *ids = ARENA_ARRAY(call->scratch, int64_t, tokens + 1);
    for (uint64_t i = 0; i < tokens; i++) {
        const int64_t first = positions->count == 1 ? given[0] : given[i];
        const int64_t more = positions->count == 1 ? (int64_t)(i % x.rows) : 0;
        ids[i] = first > INT64_MAX - more ? -1 : first + more;
    }
    return are_places(call, caches, ids, tokens) && turn_tokens(call, &x, &job, ids);
}
