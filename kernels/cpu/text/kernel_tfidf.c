// SPDX-License-Identifier: Apache-2.0
/* TfIdfVectorizer: counts n-grams with skips, for rows of integers or strings.
 *
 * The pool's distinct tokens get numbers, and the n-grams of each length are sorted as lists of
 * such numbers; so an n-gram is found by bisection, however large the pool. Of equal n-grams in the
 * pool the last one counts. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_order.h"
#include "kernel_pace.h"
#include "kernel_strided.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Sorted tokens: their place is their number. One of the lists is NULL. */
typedef struct Tokens {
    const int64_t *ints;
    const KernelString *strings;
    uint64_t count;
} Tokens;

static int compare_tokens(const void *context, uint64_t a, uint64_t b) {
    const Tokens *tokens = context;
    if (tokens->strings) return order_strings(&tokens->strings[a], &tokens->strings[b]);
    return (tokens->ints[a] > tokens->ints[b]) - (tokens->ints[a] < tokens->ints[b]);
}

/* The number of one token of `other`, -1 for a strange one. */
static int64_t find_token(const Tokens *tokens, const Tokens *other, uint64_t at) {
    uint64_t low = 0, high = tokens->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = tokens->strings ? order_strings(&other->strings[at], &tokens->strings[middle])
                                    : (other->ints[at] > tokens->ints[middle]) -
                                          (other->ints[at] < tokens->ints[middle]);
        if (order == 0) return (int64_t)middle;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static Tokens sort_tokens(KernelCall *call, const Tokens *pool) {
    const uint64_t *order = order_sort(call, pool->count, compare_tokens, pool);
    int64_t *ints = ARENA_ARRAY(call->scratch, int64_t, pool->count);
    KernelString *strings = ARENA_ARRAY(call->scratch, KernelString, pool->count);
    uint64_t count = 0;
    for (uint64_t i = 0; i < pool->count; i++) {
        if (i && compare_tokens(pool, order[i - 1], order[i]) == 0) continue;
        if (pool->ints) ints[count] = pool->ints[order[i]];
        if (pool->strings) strings[count] = pool->strings[order[i]];
        count++;
    }
    return (Tokens){pool->ints ? ints : NULL, pool->strings ? strings : NULL, count};
}

/* ---- n-grams --------------------------------------------------------------------------------- */

/* Of looking n-grams up, in elements read. */
enum { GRAM_WORK = 64 };

/* The n-grams of one length. */
typedef struct Grams {
    uint64_t length, count, first; /* first: the number of its first n-gram among all */
    const int64_t *tokens;         /* [count * length] */
    const uint64_t *order;         /* [count] */
} Grams;

static int compare_lists(const int64_t *a, const int64_t *b, uint64_t length) {
    for (uint64_t i = 0; i < length; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int compare_grams(const void *context, uint64_t a, uint64_t b) {
    const Grams *grams = context;
    return compare_lists(grams->tokens + a * grams->length, grams->tokens + b * grams->length,
                         grams->length);
}

/* The n-gram's number among all, the last of its like; -1 where there is none. */
static int64_t find_gram(const Grams *grams, const int64_t *wanted) {
    uint64_t low = 0, high = grams->count; /* after the last one not above it */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const int64_t *gram = grams->tokens + grams->order[middle] * grams->length;
        if (compare_lists(wanted, gram, grams->length) >= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return -1;
    uint64_t found = grams->order[low - 1];
    if (compare_lists(wanted, grams->tokens + found * grams->length, grams->length)) return -1;
    return (int64_t)(grams->first + found);
}

typedef struct Vectorizer {
    KernelCall *call;
    const TfIdfAttrs *attrs;
    Tokens tokens;
    Grams *grams; /* [lengths]: of length 1, 2, … */
    uint64_t lengths, columns;
    int64_t *window; /* [lengths] */
} Vectorizer;

static bool read_grams(Vectorizer *v, const Tokens *pool) {
    const TfIdfAttrs *attrs = v->attrs;
    KernelCall *call = v->call;
    uint64_t number = 0;
    int64_t *tokens = ARENA_ARRAY(call->scratch, int64_t, pool->count);
    for (uint64_t i = 0; i < pool->count; i++) tokens[i] = find_token(&v->tokens, pool, i);
    v->lengths = attrs->counts.count;
    v->grams = ARENA_ARRAY(call->scratch, Grams, v->lengths);
    v->window = ARENA_ARRAY(call->scratch, int64_t, v->lengths);
    for (uint64_t i = 0; i < v->lengths; i++) {
        int64_t start = attrs->counts.items[i];
        int64_t end = i + 1 < v->lengths ? attrs->counts.items[i + 1] : (int64_t)pool->count;
        if (start < 0 || end < start || end > (int64_t)pool->count ||
            (uint64_t)(end - start) % (i + 1))
            return kernel_fail(call, "%llu-grams from %lld to %lld of %llu",
                               (unsigned long long)i + 1, (long long)start, (long long)end,
                               (unsigned long long)pool->count);
        Grams *grams = &v->grams[i];
        *grams = (Grams){.length = i + 1,
                         .count = (uint64_t)(end - start) / (i + 1),
                         .first = number,
                         .tokens = tokens + start};
        grams->order = order_sort(call, grams->count, compare_grams, grams);
        number += grams->count;
    }
    if (number > attrs->indexes.count)
        return kernel_fail(call, "%llu n-grams, %u indexes", (unsigned long long)number,
                           attrs->indexes.count);
    return true;
}

/* Counts the n-grams that start at `start`, their tokens `step` apart. */
static void count_from(Vectorizer *v, const int64_t *row, const uint64_t range[3], double *counts) {
    uint64_t start = range[0], size = range[1], step = range[2];
    uint64_t shortest = v->attrs->shortest > 1 ? (uint64_t)v->attrs->shortest : 1;
    if (step > 1 && shortest == 1) shortest = 2; /* single tokens do not depend on the step */
    for (uint64_t n = 1; n <= v->lengths && n <= (uint64_t)v->attrs->longest; n++) {
        if ((size - 1 - start) / step < n - 1) return;
        int64_t token = row[start + (n - 1) * step];
        if (token < 0) return;
        v->window[n - 1] = token;
        if (n < shortest) continue;
        int64_t gram = find_gram(&v->grams[n - 1], v->window);
        if (gram >= 0) counts[v->attrs->indexes.items[gram]]++;
    }
}

/* The weight of each output column: that of the n-gram it counts. */
static const double *column_weights(const Vectorizer *v) {
    const TfIdfAttrs *attrs = v->attrs;
    double *weights = ARENA_ARRAY(v->call->scratch, double, v->columns);
    for (uint64_t i = 0; i < v->columns; i++) weights[i] = 1;
    for (uint32_t i = 0; i < attrs->weights.count && i < attrs->indexes.count; i++)
        weights[attrs->indexes.items[i]] = (double)attrs->weights.items[i];
    return weights;
}

static void weigh(const Vectorizer *v, double *counts, const double *weights) {
    for (uint64_t i = 0; v->attrs->mode != WEIGH_TF && i < v->columns; i++) {
        bool once = v->attrs->mode == WEIGH_IDF;
        counts[i] = counts[i] > 0 ? weights[i] * (once ? 1 : counts[i]) : 0;
    }
}

static bool check_attrs(KernelCall *call, const TfIdfAttrs *attrs) {
    if (attrs->mode < 0) return kernel_fail(call, "the mode is unknown");
    if (attrs->longest < 1 || attrs->shortest < 1 || attrs->shortest > attrs->longest ||
        attrs->skips < 0)
        return kernel_fail(call, "n-grams of %lld to %lld tokens, %lld skips",
                           (long long)attrs->shortest, (long long)attrs->longest,
                           (long long)attrs->skips);
    if (attrs->ints.present == attrs->strings.present)
        return kernel_fail(call, "it needs either pool_int64s or pool_strings");
    for (uint32_t i = 0; i < attrs->indexes.count; i++)
        if (attrs->indexes.items[i] < 0) return kernel_fail(call, "an index is negative");
    return true;
}

/* The pool or the input as tokens. False with the error set where their types do not agree. */
static bool read_tokens(KernelCall *call, Tokens *pool, Tokens *input) {
    const TfIdfAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    bool text = attrs->strings.present;
    if (text != (in->dtype == DTYPE_STRING))
        return kernel_fail(call, "the pool has %s, but the input has %s",
                           text ? "strings" : "integers", dtype_name(in->dtype));
    *input = (Tokens){.count = in->count};
    if (text)
        input->strings = in->data;
    else if (!(input->ints = kernel_ints(call, in)))
        return false;
    *pool = (Tokens){.count = text ? attrs->strings.count : attrs->ints.count};
    if (!text) pool->ints = attrs->ints.items;
    KernelString *strings = ARENA_ARRAY(call->scratch, KernelString, text ? pool->count : 0);
    for (uint64_t i = 0; text && i < pool->count; i++)
        strings[i] = (KernelString){attrs->strings.items[i].size, attrs->strings.items[i].text};
    if (text) pool->strings = strings;
    return true;
}

bool kernel_tfidf(KernelCall *call) {
    const TfIdfAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    Vectorizer v = {.call = call, .attrs = attrs};
    Tokens pool = {0}, input = {0};
    if (!check_attrs(call, attrs) || !read_tokens(call, &pool, &input)) return false;
    v.tokens = sort_tokens(call, &pool);
    if (!read_grams(&v, &pool)) return false;
    if (out->rank == 0 || out->dtype != DTYPE_FLOAT)
        return kernel_fail(call, "the output is not a float vector");
    v.columns = (uint64_t)out->dims[out->rank - 1]; /* above all indexes: the shape function's */
    for (uint32_t i = 0; i < attrs->indexes.count; i++)
        if ((uint64_t)attrs->indexes.items[i] >= v.columns)
            return kernel_fail(call, "index %lld of %llu columns",
                               (long long)attrs->indexes.items[i], (unsigned long long)v.columns);
    uint64_t size = (uint64_t)in->dims[in->rank - 1], rows = v.columns ? out->count / v.columns : 0;
    uint64_t steps = (uint64_t)attrs->skips + 1;
    if (steps > size) steps = size ? size : 1; /* larger ones reach nothing but single tokens */
    int64_t *tokens = ARENA_ARRAY(call->scratch, int64_t, in->count);
    for (uint64_t i = 0; i < in->count; i++) tokens[i] = find_token(&v.tokens, &input, i);
    double *counts = ARENA_ARRAY(call->scratch, double, v.columns);
    KernelPace pace = {call, 0};
    const double *weights = column_weights(&v);
    for (uint64_t row = 0; row < rows; row++) {
        memset(counts, 0, v.columns * sizeof *counts);
        for (uint64_t step = 1; step <= steps; step++)
            for (uint64_t start = 0; start < size; start++) {
                kernel_pace(&pace, GRAM_WORK);
                count_from(&v, tokens + row * size, (const uint64_t[]){start, size, step}, counts);
            }
        weigh(&v, counts, weights);
        for (uint64_t i = 0; i < v.columns; i++)
            ((float *)out->data)[row * v.columns + i] = (float)counts[i];
    }
    return true;
}
