// SPDX-License-Identifier: Apache-2.0
/* com.microsoft's MultiHeadAttention. Its Attention is a product and this (decompose).
 *
 * Queries, keys and values come each alone, keys with values, or all in one tensor; biases are added
 * to them first; a past goes before keys and values. What key_padding_mask excludes has
 * mask_filter_value added to its score, and may therefore still count where all is excluded; what a
 * query must not see because it comes later is not seen at all.
 */
#include <float.h>
#include <math.h>

#include "head_rows.h"
#include "kernel_functions.h"
#include "kernel_reals.h"

enum { QUERY, KEY, VALUE, BIAS, PADDING, SCORES_BIAS, PAST_KEY, PAST_VALUE, PAST_LENGTH, BEAMS };
enum { SCORES = 3 }; /* what is left of them before softmax, an output */

typedef struct MultiHead {
    uint64_t batches, past;
    HeadRows q, k, v;
    float filter;
    AttendMask bias; /* of scores */
    HeadScores scores;
} MultiHead;

static bool refuse_unknown(KernelCall *call) {
    return !kernel_input(call, BEAMS) || kernel_fail(call, "beam caches are not supported");
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool find_views(KernelCall *call, MultiHead *job) {
    const HeadsAttrs *attrs = call->attrs;
    const KernelTensor *q = &call->inputs[QUERY], *k = kernel_input(call, KEY),
                       *v = kernel_input(call, VALUE);
    const uint32_t q_rank = k ? 3 : 5;
    if (q->rank != q_rank || (v && (v->rank == 5 || (k && k->rank != v->rank))) ||
        (k && !v && k->rank != 5) || (v && !k))
        return kernel_fail(call, "query, key and value do not fit together");
    if ((!k && q->dims[3] != 3) || (k && !v && k->dims[3] != 2))
        return kernel_fail(call, "other than three parts, or two of keys and values");
    const KernelTensor *keys = k ? k : q, *values = v ? v : keys;
    const uint64_t key_part = k ? 0 : 1, value_part = v ? 0 : k ? 1 : 2;
    if (!head_rows_view(call, (HeadSource){q, attrs->heads, 0}, &job->q) ||
        !head_rows_view(call, (HeadSource){keys, attrs->heads, key_part}, &job->k) ||
        !head_rows_view(call, (HeadSource){values, attrs->heads, value_part}, &job->v))
        return false;
    job->batches = job->q.batches;
    if (job->k.batches != job->batches || job->v.batches != job->batches ||
        job->k.rows != job->v.rows || job->q.size != job->k.size)
        return kernel_fail(call, "query, key and value do not fit together");
    return true;
}

static bool add_biases(KernelCall *call, MultiHead *job) {
    const KernelTensor *bias = kernel_input(call, BIAS), *k = kernel_input(call, KEY);
    const uint64_t width = job->q.heads * job->q.size, value = job->v.heads * job->v.size;
    if (!bias) return true;
    if (!kernel_want_count(call, bias, 2 * width + value, "bias")) return false;
    const float *numbers = bias->data;
    head_rows_add(call, numbers, &job->q);
    if (k && k->rank == 4) return true; /* keys and values that were computed before */
    head_rows_add(call, numbers + width, &job->k);
    head_rows_add(call, numbers + 2 * width, &job->v);
    return true;
}

/* How many rows of caches with room for more count; all of others. */
static bool find_past(KernelCall *call, HeadCache *cache) {
    const KernelTensor *length = kernel_input(call, PAST_LENGTH);
    const int64_t *before = length ? kernel_ints(call, length) : NULL;
    if (!length) return true;
    if (!before || !kernel_want_count(call, length, 1, "past_sequence_length")) return false;
    if (!cache->past || before[0] < 0)
        return kernel_fail(call, "past_sequence_length without a past");
    cache->shared = true;
    cache->before = (uint64_t)before[0];
    return true;
}

static bool join_past(KernelCall *call, MultiHead *job) {
    HeadCache key = {.past = kernel_input(call, PAST_KEY), .present = kernel_result(call, 1)},
              value = {.past = kernel_input(call, PAST_VALUE), .present = kernel_result(call, 2)};
    if (!key.past != !value.past)
        return kernel_fail(call, "past_key and past_value require each other");
    if (!find_past(call, &key) || !find_past(call, &value) || !head_rows_join(call, key, &job->k) ||
        !head_rows_join(call, value, &job->v))
        return false;
    if (job->k.rows != job->v.rows) return kernel_fail(call, "keys and values differ in number");
    job->past = !key.past ? 0 : key.shared ? key.before : (uint64_t)key.past->dims[2];
    return true;
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* The keys that are not padding, of a sample. */
static void fill_ends(const MultiHead *job, const int64_t *ends, bool starts, float *to) {
    const uint64_t keys = job->scores.keys;
    for (uint64_t b = 0; b < job->batches; b++) {
        const int64_t first = starts ? ends[job->batches + b] : 0;
        for (uint64_t t = 0; t < keys; t++) {
            const bool in = (int64_t)t >= first && (int64_t)t < ends[b];
            to[b * keys + t] = in ? 0 : job->filter;
        }
    }
}

/* What the mask adds to scores: [batches][its rows][keys]. NULL with the error set for masks of other
 * dims: (batches) has ends, (2 batches) firsts behind them, (3 batches + 2) what a GPU wants to know;
 * (batches, keys) and (batches, rows, keys) are 0 where a key is excluded, and so is (batches, 1, side,
 * side), whose rows are those of all queries there may be. */
static float *padding_of(KernelCall *call, const MultiHead *job, const KernelTensor *mask,
                         uint64_t *rows) {
    const HeadScores *s = &job->scores;
    const int64_t *numbers = kernel_ints(call, mask);
    uint64_t d[4] = {0};
    for (uint32_t i = 0; i < mask->rank && i < 4; i++) d[i] = (uint64_t)mask->dims[i];
    const bool ends = mask->rank == 1 &&
                      (d[0] == s->batches || d[0] == 2 * s->batches || d[0] == 3 * s->batches + 2);
    const bool flat = mask->rank == 2 && d[0] == s->batches && d[1] == s->keys;
    const bool whole = mask->rank == 3 && d[0] == s->batches && d[1] == s->rows && d[2] == s->keys;
    const bool square = mask->rank == 4 && d[0] == s->batches && d[1] == 1 && d[2] == d[3] &&
                        d[2] >= s->keys && job->past + s->rows <= d[2];
    if (!numbers) return NULL;
    if (!ends && !flat && !whole && !square) {
        kernel_fail(call, "a mask with unsupported dims");
        return NULL;
    }
    *rows = whole || square ? s->rows : 1;
    const uint64_t count = s->batches * *rows * s->keys;
    float *to = ARENA_ARRAY(call->scratch, float, count + 1);
    if (ends) {
        fill_ends(job, numbers, d[0] == 2 * s->batches, to);
        return to;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t row = i / s->keys, b = row / *rows, at = job->past + row % *rows;
        const int64_t number = numbers[square ? (b * d[2] + at) * d[2] + i % s->keys : i];
        to[i] = number > 0 ? 0 : job->filter;
    }
    return to;
}

/* The sum of what both masks add, as large as the two are together. */
static void add_masks(KernelCall *call, const HeadScores *s, const AttendMask *padding,
                      AttendMask *bias) {
    const uint64_t heads = bias->head ? s->heads : 1, count = s->batches * heads * s->rows;
    float *to = ARENA_ARRAY(call->scratch, float, count * s->keys + 1);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t b = i / s->rows / heads, h = i / s->rows % heads, r = i % s->rows;
        const float *x = (const float *)padding->data + b * padding->batch + r * padding->row;
        const float *y =
            (const float *)bias->data + b * bias->batch + h * bias->head + r * bias->row;
        for (uint64_t t = 0; t < s->keys; t++) to[i * s->keys + t] = x[t] + y[t];
    }
    *bias = (AttendMask){.data = to,
                         .batch = heads * s->rows * s->keys,
                         .head = bias->head,
                         .row = s->keys,
                         .key = 1};
}

/* True of one number for all keys, which excludes none: all would be excluded. */
static bool is_idle(const MultiHead *job, const KernelTensor *mask) {
    return mask->rank == 2 && mask->dims[1] == 1 &&
           (mask->dims[0] == 1 || (uint64_t)mask->dims[0] == job->batches);
}

static bool find_masks(KernelCall *call, MultiHead *job) {
    const KernelTensor *padding = kernel_input(call, PADDING),
                       *bias = kernel_input(call, SCORES_BIAS);
    const HeadScores *s = &job->scores;
    uint64_t rows = 0;
    if (bias && !head_rows_bias(call, bias, s, &job->bias)) return false;
    if (!padding || is_idle(job, padding)) return true;
    AttendMask mask = {.data = padding_of(call, job, padding, &rows), .key = 1};
    if (!mask.data) return false;
    mask.batch = rows * s->keys;
    mask.row = rows > 1 ? s->keys : 0;
    if (bias)
        add_masks(call, s, &mask, &job->bias);
    else
        job->bias = mask;
    return true;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void until_now(const void *context, uint64_t batch, uint64_t row, uint64_t range[2]) {
    const MultiHead *job = context;
    (void)batch;
    range[0] = 0;
    range[1] = job->past + row + 1;
    if (range[1] > job->scores.keys) range[1] = job->scores.keys;
}

/* Scores that are asked for; what is not seen has the lowest there. */
static bool show_scores(KernelCall *call, const MultiHead *job, float scale) {
    const HeadsAttrs *attrs = call->attrs;
    const HeadScores *s = &job->scores;
    KernelTensor *shown = kernel_result(call, SCORES);
    const uint64_t rows = s->batches * s->heads * s->rows;
    if (!shown) return true;
    if (!kernel_want_count(call, shown, rows * s->keys, "qk")) return false;
    float *to = shown->data;
    head_rows_score(&job->q, &job->k, scale, &job->bias, to);
    for (uint64_t n = 0; attrs->causal && n < rows; n++) {
        uint64_t range[2];
        until_now(job, 0, n % s->rows, range);
        for (uint64_t t = range[1]; t < s->keys; t++) to[n * s->keys + t] = -FLT_MAX;
    }
    return true;
}

bool kernel_multi_head_attention(KernelCall *call) {
    const HeadsAttrs *attrs = call->attrs;
    MultiHead job = {.filter = attrs->filter.count ? attrs->filter.items[0] : -10000.0F};
    KernelTensor *y = &call->outputs[0];
    if (!refuse_unknown(call) || !find_views(call, &job) || !add_biases(call, &job) ||
        !join_past(call, &job))
        return false;
    job.scores = (HeadScores){job.batches, job.q.heads, job.q.rows, job.k.rows};
    const uint64_t width = job.v.heads * job.v.size;
    if (!kernel_want_count(call, y, job.batches * job.q.rows * width, "the output")) return false;
    if (y->count == 0) return true; /* keys may be any number then, without memory */
    if (!find_masks(call, &job)) return false;
    const float own = attrs->scale.count ? attrs->scale.items[0] : 0,
                scale = own != 0 ? own : 1 / sqrtf((float)job.q.size);
    if (!show_scores(call, &job, scale)) return false;
    Attend attend = {.batches = job.batches,
                     .heads = job.q.heads,
                     .rows = job.q.rows,
                     .keys = job.k.rows,
                     .size = job.q.size,
                     .value = job.v.size,
                     .group = 1,
                     .q = head_rows_operand(&job.q),
                     .k = head_rows_operand(&job.k),
                     .v = head_rows_operand(&job.v),
                     .y = {y->data, DTYPE_UNDEFINED, job.q.rows * width, job.v.size, width, 1},
                     .scale = scale,
                     .bias = job.bias,
                     .range = attrs->causal ? until_now : NULL,
                     .context = &job,
                     .excludes = true};
    return attend_run(call, &attend);
}
