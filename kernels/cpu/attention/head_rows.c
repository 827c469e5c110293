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

/* The past's rows of head i of all, and the new ones behind them. */
static void join_head(const HeadRows *now, const KernelTensor *past, uint64_t i, float *to) {
    const uint64_t before = past ? (uint64_t)past->dims[2] * now->size : 0;
    const float *from = head_at(now, i);
    if (before) memcpy(to, (const float *)past->data + i * before, before * sizeof *to);
    for (uint64_t r = 0; r < now->rows; r++)
        memcpy(to + before + r * now->size, from + r * now->row, now->size * sizeof *to);
}

bool head_rows_join(KernelCall *call, HeadCache cache, HeadRows *view) {
    const KernelTensor *past = cache.past;
    if (!past && !cache.present) return true;
    if (past && (past->rank != 4 || (uint64_t)past->dims[0] != view->batches ||
                 (uint64_t)past->dims[1] != view->heads || (uint64_t)past->dims[3] != view->size))
        return kernel_fail(call, "the past has other dims");
    const uint64_t total = (past ? (uint64_t)past->dims[2] : 0) + view->rows;
    const uint64_t head = total * view->size, all = view->batches * view->heads;
    if (cache.present && !kernel_want_count(call, cache.present, all * head, "the cache"))
        return false;
    float *to =
        cache.present ? cache.present->data : ARENA_ARRAY(call->scratch, float, all *head + 1);
    for (uint64_t i = 0; head && i < all; i++) join_head(view, past, i, to + i * head);
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
            return kernel_fail(call, "attention_bias has other dims");
    const uint64_t row = want[3], head = want[2] * row, batch = (uint64_t)t->dims[1] * head;
    *mask = (AttendMask){.data = t->data,
                         .batch = t->dims[0] == 1 ? 0 : batch,
                         .head = t->dims[1] == 1 ? 0 : head,
                         .row = row,
                         .key = 1};
    return true;
}
