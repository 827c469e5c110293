// SPDX-License-Identifier: Apache-2.0
/* com.microsoft's GroupQueryAttention: heads of queries share heads of keys and values, which are
 * kept in caches with room for more, also in 8 or 4 bits, where new rows are read as they are kept.
 *
 * seqlens_k has one less than the keys that each sample has afterwards. Where there are as many new
 * rows as keys in all, it is the prompt: new rows are at the cache's begin, and seqlens_k only says
 * how many of them count. Else they are the last of the sample's keys. What lies behind a sample's
 * keys in the cache that comes out is 0. Where there are no new rows, the caches have all keys already. A query sees what is not later than it, and of that, with
 * local_window_size, the last ones alone. Caches that slide keep what that needs: rows of the latest
 * keys, of which so many leave at once that room for as many is made (find_room). What it gives to keys that it does not see is 0, in scores
 * that are asked for, too.
 */
#include <math.h>
#include <string.h>

#include "cache_bytes.h"
#include "head_rows.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_reals.h"

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    LENGTHS,
    TOTAL,
    COSINE,
    SINE,
    POSITIONS,
    SCORES_BIAS,
    SINK,
    KEY_SCALE,
    VALUE_SCALE,
    QUERY_NORM,
    KEY_NORM
};
enum { SCORES = 3, BEFORE_SOFTMAX = 1, AFTER_SOFTMAX = 2 }; /* output_qk, and what it holds */

typedef struct Group {
    uint64_t batches, kept; /* rows of the caches that come out */
    uint64_t read;          /* rows of those that are read: the same, or more where they slide */
    bool slides;
    bool lent;        /* no new rows: the caches are another layer's, which has put them there */
    HeadRows q, k, v; /* new rows */
    HeadRows keys, values;  /* with those before */
    float *cache;           /* where either are being put */
    uint64_t head_rows;     /* rows from one head there to the next */
    bool there;             /* it is where the past lies: rows before are there */
    const int64_t *lengths; /* less 1 */
    bool prompt;
    int64_t window; /* how many keys a query sees at most; -1: all before it */
    bool causal;
    AttendMask bias;
    const float *sink; /* [heads], or NULL */
    bool smooth;       /* a sink of 0 for each head */
    float scale, softcap;
    float *y;
    float *shown; /* output_qk, [batches][heads][rows][total], or NULL */
    uint64_t total;
    bool soft; /* after softmax */
    const GemmLoops *loops;
} Group;

/* ---- operands -------------------------------------------------------------------------------- */

static bool is_none(const AttrText *text) {
    return !text->present || (text->size == 4 && memcmp(text->text, "NONE", 4) == 0);
}

static bool refuse_unknown(KernelCall *call) {
    const HeadsAttrs *attrs = call->attrs;
    if (attrs->window < -1) return kernel_fail(call, "a window below -1");
    if (kernel_result(call, SCORES) &&
        (attrs->scores < BEFORE_SOFTMAX || attrs->scores > AFTER_SOFTMAX))
        return kernel_fail(call, "output_qk with qk_output=%lld", (long long)attrs->scores);
    if (!kernel_input(call, QUERY_NORM) != !kernel_input(call, KEY_NORM))
        return kernel_fail(call, "q_norm_weight and k_norm_weight require each other");
    return true;
}

/* Queries, keys and values side by side in one tensor. */
static bool split_packed(KernelCall *call, Group *job) {
    const HeadsAttrs *attrs = call->attrs;
    const uint64_t heads = (uint64_t)attrs->heads, groups = (uint64_t)attrs->kv_heads;
    const HeadSource source = {&call->inputs[QUERY], attrs->heads + 2 * attrs->kv_heads, 0};
    HeadRows all;
    if (kernel_input(call, VALUE)) return kernel_fail(call, "a value without a key");
    if (!head_rows_view(call, source, &all)) return false;
    job->q = job->k = job->v = all;
    job->q.heads = heads;
    job->k.heads = job->v.heads = groups;
    if (call->inputs[QUERY].count) {
        job->k.data = all.data + heads * all.size;
        job->v.data = job->k.data + groups * all.size;
    }
    return true;
}

static bool find_views(KernelCall *call, Group *job) {
    const HeadsAttrs *attrs = call->attrs;
    const KernelTensor *q = &call->inputs[QUERY], *k = kernel_input(call, KEY),
                       *v = kernel_input(call, VALUE);
    enum { MOST_HEADS = 1 << 30 };
    if (attrs->heads < 1 || attrs->kv_heads < 1 || attrs->heads > MOST_HEADS ||
        attrs->kv_heads > MOST_HEADS || attrs->heads % attrs->kv_heads)
        return kernel_fail(call, "the number of heads is not a multiple of the number of groups");
    if (q->rank != 3) return kernel_fail(call, "a query of rank %u", q->rank);
    job->batches = (uint64_t)q->dims[0];
    if (!k) return split_packed(call, job);
    if (!v || k->rank != 3 || v->rank != 3 ||
        !head_rows_view(call, (HeadSource){q, attrs->heads, 0}, &job->q) ||
        !head_rows_view(call, (HeadSource){k, attrs->kv_heads, 0}, &job->k) ||
        !head_rows_view(call, (HeadSource){v, attrs->kv_heads, 0}, &job->v))
        return kernel_fail(call, "query, key, and value are not split into heads");
    job->lent = job->k.rows == 0 && job->q.rows > 0;
    if (job->k.batches != job->batches || job->v.batches != job->batches ||
        (job->k.rows != job->q.rows && !job->lent) || job->v.rows != job->k.rows ||
        job->k.size != job->q.size || job->v.size != job->q.size)
        return kernel_fail(call, "query, key and value do not fit together");
    return true;
}

/* How many keys each sample has, and where its new ones are. */
static bool find_lengths(KernelCall *call, Group *job) {
    const KernelTensor *lengths = &call->inputs[LENGTHS], *total = &call->inputs[TOTAL];
    if (!kernel_want_count(call, lengths, job->batches, "seqlens_k") ||
        !kernel_want_count(call, total, 1, "total_sequence_length"))
        return false;
    job->lengths = kernel_ints(call, lengths);
    const int64_t *all = kernel_ints(call, total);
    if (!job->lengths || !all) return false;
    job->prompt = (uint64_t)all[0] == job->q.rows;
    for (uint64_t b = 0; b < job->batches; b++) {
        const int64_t length = job->lengths[b];
        if (length < 0 || length >= all[0] || (!job->prompt && (uint64_t)length + 1 < job->q.rows))
            return kernel_fail(call, "%lld keys of %lld", (long long)length + 1, (long long)all[0]);
    }
    return true;
}

/* The keys of a sample, and the place of its first new row among them. */
static uint64_t keys_of(const Group *job, uint64_t batch) {
    return (uint64_t)job->lengths[batch] + 1;
}
static uint64_t place_of(const Group *job, uint64_t batch) {
    return job->prompt ? 0 : keys_of(job, batch) - job->q.rows;
}

/* How many of so many keys a cache holds. From one that slides, of `kept` rows, as many leave at once
 * as it has rows beside the window, and one. */
static uint64_t held_of(const Group *job, uint64_t keys) {
    if (!job->slides || keys <= job->kept) return keys;
    const uint64_t leave = job->kept - (uint64_t)job->window + 1, over = keys - job->kept;
    return keys - (over / leave + (over % leave != 0)) * leave;
}

/* The first key of a sample that is in what is read. */
static uint64_t base_of(const Group *job, uint64_t batch) {
    const uint64_t place = place_of(job, batch);
    return place - held_of(job, place);
}

/* The same rows, in memory of the call's. */
static float *copy_rows(KernelCall *call, HeadRows *view) {
    head_rows_add(call, ARENA_ARRAY(call->scratch, float, view->heads * view->size + 1), view);
    return (float *)(uintptr_t)view->data;
}

/* Rows of the past that count. */
static uint64_t before_of(const Group *job, uint64_t batch) {
    return job->lent ? keys_of(job, batch) : place_of(job, batch) - base_of(job, batch);
}

/* Rows of the keys that a sample has in what is read; new ones of a prompt behind it do not count. */
static uint64_t end_of(const Group *job, uint64_t batch) {
    return keys_of(job, batch) - base_of(job, batch);
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* Each head of each row by the root of its squares' mean, times weights. */
static bool norm_rows(KernelCall *call, const KernelTensor *weights, HeadRows *view) {
    const HeadsAttrs *attrs = call->attrs;
    const uint64_t size = view->size, all = view->batches * view->rows * view->heads;
    if (!kernel_want_count(call, weights, size, "a norm's weights")) return false;
    const float *weight = weights->data;
    float *x = copy_rows(call, view);
    for (uint64_t n = 0; size && n < all; n++, x += size) {
        double sum = 0;
        for (uint64_t e = 0; e < size; e++) sum += (double)x[e] * (double)x[e];
        const double by = 1 / sqrt(sum / (double)size + (double)attrs->epsilon);
        for (uint64_t e = 0; e < size; e++) x[e] = (float)((double)x[e] * by) * weight[e];
    }
    return true;
}

static bool norm(KernelCall *call, Group *job) {
    const KernelTensor *query = kernel_input(call, QUERY_NORM), *key = kernel_input(call, KEY_NORM);
    return !query || (norm_rows(call, query, &job->q) && norm_rows(call, key, &job->k));
}

/* ---- rotation -------------------------------------------------------------------------------- */

typedef struct Turn {
    const float *cosine, *sine; /* [rows][half] */
    const int64_t *positions;   /* [batches][rows], or NULL */
    uint64_t rows, half;
    bool interleaved;
} Turn;

static bool find_turn(KernelCall *call, const Group *job, Turn *turn) {
    const HeadsAttrs *attrs = call->attrs;
    const KernelTensor *cosine = kernel_input(call, COSINE), *sine = kernel_input(call, SINE),
                       *positions = kernel_input(call, POSITIONS);
    if (!cosine || !sine || cosine->rank != 2 || sine->rank != 2 ||
        cosine->dims[0] != sine->dims[0] || cosine->dims[1] != sine->dims[1] ||
        (uint64_t)cosine->dims[1] > job->q.size / 2)
        return kernel_fail(call, "cos_cache and sin_cache are missing, or have different dims");
    *turn = (Turn){.cosine = cosine->data,
                   .sine = sine->data,
                   .rows = (uint64_t)cosine->dims[0],
                   .half = (uint64_t)cosine->dims[1],
                   .interleaved = attrs->interleaved > 0};
    if (!positions) return true;
    turn->positions = kernel_ints(call, positions);
    return turn->positions &&
           kernel_want_count(call, positions, job->batches * job->q.rows, "position_ids");
}

static void turn_row(const Turn *turn, uint64_t place, float *x) {
    const float *cosine = turn->cosine + place * turn->half,
                *sine = turn->sine + place * turn->half;
    const uint64_t step = turn->interleaved ? 2 : 1, apart = turn->interleaved ? 1 : turn->half;
    for (uint64_t i = 0; i < turn->half; i++) {
        const float a = x[i * step], b = x[i * step + apart];
        x[i * step] = cosine[i] * a - sine[i] * b;
        x[i * step + apart] = sine[i] * a + cosine[i] * b;
    }
}

/* Turns all heads of the rows, in a copy. */
static bool turn_rows(KernelCall *call, const Group *job, const Turn *turn, HeadRows *view) {
    const uint64_t width = view->heads * view->size;
    float *to = copy_rows(call, view);
    for (uint64_t n = 0; width && n < job->batches * view->rows; n++) {
        const uint64_t b = n / view->rows, r = n % view->rows;
        const int64_t place =
            turn->positions ? turn->positions[n] : (int64_t)(place_of(job, b) + r);
        if (place < 0 || (uint64_t)place >= turn->rows)
            return kernel_fail(call, "position %lld is not in the cache", (long long)place);
        for (uint64_t h = 0; h < view->heads; h++)
            turn_row(turn, (uint64_t)place, to + n * width + h * view->size);
    }
    return true;
}

static bool rotate(KernelCall *call, Group *job) {
    const HeadsAttrs *attrs = call->attrs;
    Turn turn;
    if (attrs->rotary <= 0) return true;
    return find_turn(call, job, &turn) && turn_rows(call, job, &turn, &job->q) &&
           turn_rows(call, job, &turn, &job->k);
}

/* ---- caches ---------------------------------------------------------------------------------- */

/* Rows behind a head's last key that become 0. A cache that lies where the past does has zeros behind that from the
 * prompt. */
static uint64_t blank_rows(const Group *job, const KernelTensor *past, uint64_t end) {
    const bool same = job->there && !job->prompt && (uint64_t)past->dims[2] == job->read;
    return same ? 0 : job->read - end;
}

/* Head i of all: the past's rows that count, the new ones, and zeros. */
static void keep_head(const Group *job, const HeadRows *now, const KernelTensor *past, uint64_t i) {
    const uint64_t batch = i / now->heads, size = now->size, before = before_of(job, batch);
    const float *from = now->data + batch * now->batch + i % now->heads * now->head;
    float *to = job->cache + i * job->head_rows * size;
    if (before && !job->there)
        memcpy(to, (const float *)past->data + i * kernel_stride(past, 1),
               before * size * sizeof *to);
    for (uint64_t r = 0; r < now->rows; r++)
        memcpy(to + (before + r) * size, from + r * now->row, size * sizeof *to);
    const uint64_t end = end_of(job, batch);
    memset(to + end * size, 0, blank_rows(job, past, end) * size * sizeof *to);
}

/* Of head i, which has `row` bytes for a key, what a cache that slides holds from now on. */
static void slide_head(const Group *job, const uint8_t *from, uint8_t *to, uint64_t row,
                       uint64_t i) {
    const uint64_t batch = i / job->k.heads, keys = keys_of(job, batch), held = held_of(job, keys),
                   first = keys - held - base_of(job, batch);
    to += i * job->kept * row;
    memcpy(to, from + (i * job->read + first) * row, held * row);
    memset(to + held * row, 0, (job->kept - held) * row);
}

/* The same of a cache of bytes, [read] rows of them; what is read of it goes to job->cache. */
static void keep_head_bytes(const Group *job, const CacheBytes *bytes, const HeadRows *now,
                            const KernelTensor *past, uint8_t *present, uint64_t i) {
    const uint64_t batch = i / now->heads, head = i % now->heads, row = cache_bytes_row(bytes),
                   before = before_of(job, batch), end = end_of(job, batch);
    const float *from = now->data + batch * now->batch + head * now->head;
    uint8_t *at = present + i * job->head_rows * row;
    float *to = job->cache + i * job->read * now->size;
    if (before && !job->there)
        memcpy(at, (const uint8_t *)past->data + i * kernel_stride(past, 1), before * row);
    for (uint64_t r = 0; r < now->rows; r++)
        cache_bytes_write(bytes, head, from + r * now->row, at + (before + r) * row);
    memset(at + end * row, 0, blank_rows(job, past, end) * row);
    for (uint64_t r = 0; r < end; r++)
        cache_bytes_read(bytes, head, at + r * row, to + r * now->size);
}

static bool keep_bytes(KernelCall *call, Group *job, uint32_t cache, const CacheBytes *bytes) {
    const HeadRows *now = cache ? &job->v : &job->k;
    KernelTensor *present = kernel_result(call, 1 + cache);
    const uint64_t row = cache_bytes_row(bytes), all = job->batches * now->heads;
    if (present && !kernel_want_count(call, present, all * job->kept * row, "the cache"))
        return false;
    const bool own = !present || job->slides;
    uint8_t *to = own ? arena_array(call->scratch, all * job->read + 1, row) : present->data;
    for (uint64_t i = 0; row && i < all; i++) {
        keep_head_bytes(job, bytes, now, kernel_input(call, PAST_KEY + cache), to, i);
        if (present && job->slides) slide_head(job, to, present->data, row, i);
    }
    return true;
}

static bool is_each(const AttrText *text) {
    return text->present && text->size == 11 && memcmp(text->text, "PER_CHANNEL", 11) == 0;
}

/* True where the cache is of bytes, and what of. */
static bool find_bytes(KernelCall *call, const Group *job, uint32_t cache, CacheBytes *bytes) {
    const HeadsAttrs *attrs = call->attrs;
    const AttrText *kind = cache ? &attrs->v_quantized : &attrs->k_quantized;
    const KernelTensor *past = kernel_input(call, PAST_KEY + cache);
    *bytes = (CacheBytes){.each = is_each(kind),
                          .half = attrs->bit_width == 4,
                          .heads = job->k.heads,
                          .size = job->k.size};
    if (is_none(kind))
        return !past || past->dtype == DTYPE_FLOAT ||
               kernel_fail(call, "an 8-bit cache that is not quantized");
    return cache_bytes_find(call, kernel_input(call, KEY_SCALE + cache),
                            past ? past->dtype : DTYPE_UNDEFINED, bytes);
}

/* What comes out of cache 0 or 1, of keys or values, which is read. */
static bool keep(KernelCall *call, Group *job, uint32_t cache) {
    const HeadRows *now = cache ? &job->v : &job->k;
    const KernelTensor *past = kernel_input(call, PAST_KEY + cache);
    KernelTensor *present = kernel_result(call, 1 + cache);
    const uint64_t head = job->read * now->size, all = job->batches * now->heads;
    CacheBytes bytes;
    if (!find_bytes(call, job, cache, &bytes)) return false;
    const bool own = bytes.scale || !present || job->slides;
    const bool kept = present && !job->slides;
    job->head_rows = kept && present->room ? (uint64_t)present->room : job->read;
    job->there = kept && past && past->data == present->data;
    if (!bytes.scale && present &&
        !kernel_want_count(call, present, all * job->kept * now->size, "the cache"))
        return false;
    job->cache = own ? ARENA_ARRAY(call->scratch, float, all *head + 1) : present->data;
    const uint64_t apart = own ? head : job->head_rows * now->size;
    if (bytes.scale && !keep_bytes(call, job, cache, &bytes)) return false;
    for (uint64_t i = 0; head && !bytes.scale && i < all; i++) {
        keep_head(job, now, past, i);
        if (present && job->slides)
            slide_head(job, (const uint8_t *)job->cache, present->data, now->size * sizeof(float),
                       i);
    }
    *(cache ? &job->values : &job->keys) =
        (HeadRows){job->cache, job->batches,       now->heads, job->read,
                   now->size,  now->heads * apart, apart,      now->size};
    return true;
}

/* A cache of so many rows that slides: what is read is all that it can hold, and what is new. */
static bool find_room(KernelCall *call, Group *job, uint64_t room) {
    const HeadsAttrs *attrs = call->attrs;
    if (job->lent) return kernel_fail(call, "a sliding cache of another layer");
    if (attrs->window < 1 || (uint64_t)attrs->window > room || !attrs->causal)
        return kernel_fail(call, "a sliding cache of %llu rows for a window of %lld",
                           (unsigned long long)room, (long long)attrs->window);
    job->slides = true;
    job->window = attrs->window;
    job->kept = room;
    job->read = room + job->q.rows;
    return true;
}

static bool find_kept(KernelCall *call, Group *job) {
    const KernelTensor *past = kernel_input(call, PAST_KEY),
                       *value = kernel_input(call, PAST_VALUE);
    const int64_t *total = kernel_ints(call, &call->inputs[TOTAL]);
    const HeadsAttrs *attrs = call->attrs;
    const uint64_t size = attrs->bit_width == 4 ? job->k.size / 2 : job->k.size;
    uint64_t room = 0;
    if (!total || total[0] < 0) return kernel_fail(call, "total_sequence_length is negative");
    if (!past != !value) return kernel_fail(call, "past_key and past_value require each other");
    for (uint32_t i = 0; past && i < 2; i++) {
        const KernelTensor *t = i ? value : past;
        if (t->rank != 4 || (uint64_t)t->dims[0] != job->batches ||
            (uint64_t)t->dims[1] != job->k.heads || (uint64_t)t->dims[3] != size ||
            t->dims[2] != past->dims[2])
            return kernel_fail(call, "a cache has different dims");
        room = (uint64_t)t->dims[2];
    }
    if (attrs->sliding) return find_room(call, job, room);
    for (uint64_t b = 0; b < job->batches; b++)
        if (before_of(job, b) > room)
            return kernel_fail(call, "%llu keys before, of %llu",
                               (unsigned long long)before_of(job, b), (unsigned long long)room);
    job->kept = job->read = (uint64_t)total[0] > room ? (uint64_t)total[0] : room;
    return true;
}

/* ---- attention ------------------------------------------------------------------------------- */

static void range_of(const void *context, uint64_t batch, uint64_t row, uint64_t range[2]) {
    const Group *job = context;
    const uint64_t base = base_of(job, batch), keys = keys_of(job, batch) - base,
                   place = place_of(job, batch) + row - base;
    range[0] = 0;
    range[1] = job->causal && place + 1 < keys ? place + 1 : keys;
    if (job->window >= 0 && job->causal && place + 1 > (uint64_t)job->window)
        range[0] = place + 1 - (uint64_t)job->window;
    if (range[0] > range[1]) range[0] = range[1];
}

/* One query of a head, and the keys that it sees. */
typedef struct Query {
    uint64_t batch, head, row, from, count;
} Query;

static Query query_of(const Group *job, uint64_t n) {
    const uint64_t rows = job->q.rows, heads = job->q.heads;
    Query query = {.batch = n / rows / heads, .head = n / rows % heads, .row = n % rows};
    uint64_t range[2];
    range_of(job, query.batch, query.row, range);
    query.from = range[0];
    query.count = range[1] - range[0];
    return query;
}

/* The first row that the query sees of keys or values. */
static const float *seen(const Group *job, const HeadRows *x, const Query *query) {
    const uint64_t head = query->head / (job->q.heads / x->heads);
    return x->data + query->batch * x->batch + head * x->head + query->from * x->row;
}

/* Its scores, capped and with what is added. */
static void score_query(const Group *job, const Query *query, float *score) {
    const HeadRows *q = &job->q, *k = &job->keys;
    const float *bias = job->bias.data;
    if (bias)
        bias += query->batch * job->bias.batch + query->head * job->bias.head +
                query->row * job->bias.row + base_of(job, query->batch) + query->from;
    memset(score, 0, query->count * sizeof *score);
    job->loops->dots(score, seen(job, k, query), k->row,
                     q->data + query->batch * q->batch + query->head * q->head +
                         query->row * q->row,
                     query->count, q->size);
    for (uint64_t t = 0; t < query->count; t++) {
        score[t] *= job->scale;
        if (job->softcap > 0) score[t] = job->softcap * tanhf(score[t] / job->softcap);
        if (bias) score[t] += bias[t];
    }
}

/* Softmax, of which the sink has its share, too. Zeros where all is excluded. */
static void soften(const Group *job, const Query *query, float *score) {
    const bool sinks = job->sink || job->smooth;
    const float sink = job->sink ? job->sink[query->head] : sinks ? 0 : -INFINITY;
    float top = sink;
    for (uint64_t t = 0; t < query->count; t++) top = score[t] > top ? score[t] : top;
    double sum = sinks ? exp((double)(sink - top)) : 0;
    for (uint64_t t = 0; t < query->count; t++)
        sum += (double)(score[t] = top == -INFINITY ? 0 : expf(score[t] - top));
    for (uint64_t t = 0; t < query->count; t++)
        score[t] = sum != 0 ? (float)((double)score[t] / sum) : 0;
}

/* What of the scores is shown of the query's row, the rest being 0. */
static void show_query(const Group *job, const Query *query, const float *score) {
    const uint64_t row = (query->batch * job->q.heads + query->head) * job->q.rows + query->row;
    float *to = job->shown + row * job->total;
    memset(to, 0, job->total * sizeof *to);
    memcpy(to + base_of(job, query->batch) + query->from, score, query->count * sizeof *to);
}

/* One query by itself: where scores are shown, or softmax has more to sum. */
static void run_query(const Group *job, const Query *query, float *score) {
    const HeadRows *v = &job->values, *q = &job->q;
    float *y = job->y + ((query->batch * q->rows + query->row) * q->heads + query->head) * v->size;
    score_query(job, query, score);
    if (job->shown && !job->soft) show_query(job, query, score);
    soften(job, query, score);
    if (job->shown && job->soft) show_query(job, query, score);
    memset(y, 0, v->size * sizeof *y);
    job->loops->gemv(y, seen(job, v, query), v->row, score, query->count, v->size);
}

typedef struct QueryParts {
    const Group *job;
    float *scores;
    uint64_t size; /* of a thread's scores */
} QueryParts;

static void query_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const QueryParts *parts = data;
    for (uint64_t n = first; n < end; n++) {
        const Query query = query_of(parts->job, n);
        run_query(parts->job, &query, parts->scores + lane * parts->size);
    }
}

static bool run_queries(KernelCall *call, const Group *job) {
    const uint64_t count = job->batches * job->q.heads * job->q.rows;
    QueryParts parts = {.job = job, .size = job->read / 16 * 16 + 16};
    parts.scores =
        arena_array(call->scratch, kernel_threads(call), parts.size * sizeof *parts.scores);
    const double work = (double)count * (double)job->read * 2 * (double)job->q.size;
    kernel_run_parts(call->workers, kernel_work_cut(call, work, count), query_part, &parts);
    return true;
}

static bool run_attention(KernelCall *call, const Group *job) {
    const uint64_t width = job->q.heads * job->q.size;
    const Attend attend = {
        .batches = job->batches,
        .heads = job->q.heads,
        .rows = job->q.rows,
        .keys = job->read,
        .size = job->q.size,
        .value = job->q.size,
        .group = job->q.heads / job->k.heads,
        .q = head_rows_operand(&job->q),
        .k = head_rows_operand(&job->keys),
        .v = head_rows_operand(&job->values),
        .y = {job->y, DTYPE_UNDEFINED, job->q.rows * width, job->q.size, width, 1},
        .scale = job->scale,
        .softcap = job->softcap,
        .bias = job->bias,
        .range = range_of,
        .context = job,
        .excludes = true};
    const bool apart = job->sink || job->smooth || job->shown || (job->slides && job->bias.data);
    return apart ? run_queries(call, job) : attend_run(call, &attend);
}

/* Biases of scores may end where the keys of all samples do, before the cache does. */
static bool find_extras(KernelCall *call, Group *job) {
    const HeadsAttrs *attrs = call->attrs;
    const KernelTensor *bias = kernel_input(call, SCORES_BIAS), *sink = kernel_input(call, SINK);
    const int64_t *total = kernel_ints(call, &call->inputs[TOTAL]);
    const HeadScores scores = {job->batches, job->q.heads, job->q.rows, (uint64_t)total[0]};
    const KernelTensor *shown = kernel_result(call, SCORES);
    const float own = attrs->scale.count ? attrs->scale.items[0] : 0;
    if (bias && !head_rows_bias(call, bias, &scores, &job->bias)) return false;
    if (sink && !kernel_want_count(call, sink, job->q.heads, "head_sink")) return false;
    job->sink = sink ? sink->data : NULL;
    job->smooth = attrs->smooth > 0;
    job->window = attrs->window;
    job->causal = attrs->causal != 0;
    job->softcap = attrs->softcap.count ? attrs->softcap.items[0] : 0;
    job->scale = own != 0 ? own : 1 / sqrtf((float)job->q.size);
    job->loops = gemm_loops(isa_here());
    job->soft = attrs->scores == AFTER_SOFTMAX;
    job->total = scores.keys;
    if (!shown) return true;
    job->shown = shown->data;
    return kernel_want_count(call, shown, scores.batches * scores.heads * scores.rows * scores.keys,
                             "output_qk");
}

bool kernel_group_attention(KernelCall *call) {
    Group job = {0};
    KernelTensor *y = &call->outputs[0];
    if (!refuse_unknown(call) || !find_views(call, &job) || !find_lengths(call, &job) ||
        !find_kept(call, &job) || !norm(call, &job) || !rotate(call, &job) ||
        !keep(call, &job, 0) || !keep(call, &job, 1) ||
        !kernel_want_count(call, y, job.batches * job.q.rows * job.q.heads * job.q.size,
                           "the output"))
        return false;
    if (y->count == 0) return true;
    job.y = y->data;
    return find_extras(call, &job) && run_attention(call, &job);
}
