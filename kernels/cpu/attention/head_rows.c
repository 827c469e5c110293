// SPDX-License-Identifier: Apache-2.0
/* Heads in rows; see head_rows.h. */
#include "head_rows.h"

#include <string.h>

#include "kernel_reals.h"

bool head_rows_view(KernelCall *call, HeadSource source, HeadRows *view) {
    const KernelTensor *t = source.tensor;
    if (t->rank < 3 || t->rank > 5) return kernel_fail(call, "heads in a rank of %u", t->rank);
    if (source.heads < 1) return kernel_fail(call, "%lld heads", (long long)source.heads);
    uint64_t d[5] = {0};
    const uint64_t n = (uint64_t)source.heads;
    for (uint32_t i = 0; i < t->rank; i++) d[i] = (uint64_t)t->dims[i];
    if (t->rank == 3) {
        const uint64_t size = d[2] / n;
        if (d[2] % n)
            return kernel_fail(call, "%llu elements in %llu heads", (unsigned long long)d[2],
                               (unsigned long long)n);
        *view = (HeadRows){t->data, d[0], n, d[1], size, d[1] * d[2], size, d[2]};
    } else if (t->rank == 4) {
        *view = (HeadRows){t->data, d[0], d[1], d[2], d[3], d[1] * d[2] * d[3], d[2] * d[3], d[3]};
    } else {
        const uint64_t head = d[3] * d[4], row = d[2] * head;
        if (source.part >= d[3]) return kernel_fail(call, "%llu parts", (unsigned long long)d[3]);
        *view = (HeadRows){t->data, d[0], d[2], d[1], d[4], d[1] * row, head, row};
        if (t->count) view->data += source.part * d[4];
    }
    if (view->heads == n) return true;
    return kernel_fail(call, "%llu heads for %llu", (unsigned long long)view->heads,
                       (unsigned long long)n);
}

/* Head i of all samples', in order. */
static const float *head_at(const HeadRows *view, uint64_t i) {
    return view->data + i / view->heads * view->batch + i % view->heads * view->head;
}

void head_rows_add(KernelCall *call, const float *bias, HeadRows *view) {
    const uint64_t width = view->heads * view->size, all = view->batches * view->heads;
    float *to = ARENA_ARRAY(call->scratch, float, view->batches * view->rows * width + 1);
    for (uint64_t n = 0; width && n < view->rows * all; n++) {
        const uint64_t row = n / all, i = n % all, head = i % view->heads;
        const float *from = head_at(view, i) + row * view->row, *more = bias + head * view->size;
        float *at = to + (i / view->heads * view->rows + row) * width + head * view->size;
        for (uint64_t e = 0; e < view->size; e++) at[e] = from[e] + more[e];
    }
    view->data = to;
    view->batch = view->rows * width;
    view->head = view->size;
    view->row = width;
}

/* The past's rows of head i of all that count, the new ones behind them, and what else the past has. */
static void join_head(const HeadRows *now, const HeadCache *cache, uint64_t i, float *to) {
    const uint64_t size = now->size, end = cache->before + now->rows,
                   had = cache->past ? (uint64_t)cache->past->dims[2] : 0;
    const float *from = head_at(now, i),
                *past = had ? (const float *)cache->past->data + i * had * size : NULL;
    if (cache->before) memcpy(to, past, cache->before * size * sizeof *to);
    for (uint64_t r = 0; r < now->rows; r++)
        memcpy(to + (cache->before + r) * size, from + r * now->row, size * sizeof *to);
    if (had > end) memcpy(to + end * size, past + end * size, (had - end) * size * sizeof *to);
}

bool head_rows_join(KernelCall *call, HeadCache cache, HeadRows *view) {
    const KernelTensor *past = cache.past;
    if (!past && !cache.present) return true;
    if (past && (past->rank != 4 || (uint64_t)past->dims[0] != view->batches ||
                 (uint64_t)past->dims[1] != view->heads || (uint64_t)past->dims[3] != view->size))
        return kernel_fail(call, "the past has different dims");
    const uint64_t had = past ? (uint64_t)past->dims[2] : 0;
    if (!cache.shared) cache.before = had;
    const uint64_t total = cache.before + view->rows, room = cache.shared ? had : total;
    if (total > room)
        return kernel_fail(call, "%llu keys in a cache for %llu", (unsigned long long)total,
                           (unsigned long long)room);
    const uint64_t head = room * view->size, all = view->batches * view->heads;
    if (cache.present && !kernel_want_count(call, cache.present, all * head, "the cache"))
        return false;
    float *to =
        cache.present ? cache.present->data : ARENA_ARRAY(call->scratch, float, all *head + 1);
    for (uint64_t i = 0; head && i < all; i++) join_head(view, &cache, i, to + i * head);
    *view = (HeadRows){to,         view->batches,      view->heads, total,
                       view->size, view->heads * head, head,        view->size};
    return true;
}

AttendOperand head_rows_operand(const HeadRows *view) {
    return (AttendOperand){.data = (void *)(uintptr_t)view->data,
                           .batch = view->batch,
                           .head = view->head,
                           .row = view->row,
                           .element = 1};
}

bool head_rows_bias(KernelCall *call, const KernelTensor *t, const HeadScores *scores,
                    AttendMask *mask) {
    const uint64_t want[] = {scores->batches, scores->heads, scores->rows, scores->keys};
    if (t->rank != 4) return kernel_fail(call, "attention_bias of rank %u", t->rank);
    for (uint32_t i = 0; i < 4; i++)
        if ((uint64_t)t->dims[i] != want[i] && (i > 1 || t->dims[i] != 1))
            return kernel_fail(call, "attention_bias has different dims");
    const uint64_t row = want[3], head = want[2] * row, batch = (uint64_t)t->dims[1] * head;
    *mask = (AttendMask){.data = t->data,
                         .batch = t->dims[0] == 1 ? 0 : batch,
                         .head = t->dims[1] == 1 ? 0 : head,
                         .row = row,
                         .key = 1};
    return true;
}

void head_rows_score(const HeadRows *q, const HeadRows *k, float scale, const AttendMask *bias,
                     float *to) {
    const GemmLoops *loops = gemm_loops(isa_here());
    const uint64_t all = q->batches * q->heads;
    for (uint64_t n = 0; n < all * q->rows; n++, to += k->rows) {
        const uint64_t i = n / q->rows, r = n % q->rows, b = i / q->heads, h = i % q->heads;
        const float *more = bias->data;
        if (more) more += b * bias->batch + h * bias->head + r * bias->row;
        memset(to, 0, k->rows * sizeof *to);
        loops->dots(to, head_at(k, i), k->row, head_at(q, i) + r * q->row, k->rows, q->size);
        for (uint64_t t = 0; t < k->rows; t++) to[t] = to[t] * scale + (more ? more[t] : 0);
    }
}
