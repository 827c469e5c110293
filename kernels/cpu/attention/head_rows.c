// SPDX-License-Identifier: Apache-2.0
/* Heads in rows; see head_rows.h. */
#include "head_rows.h"

#include <string.h>

#include "kernel_reals.h"

bool head_rows_view(KernelCall *call, const KernelTensor *t, int64_t heads, uint64_t part,
                    HeadRows *view) {
    if (t->rank < 3 || t->rank > 5) return kernel_fail(call, "heads in a rank of %u", t->rank);
    if (heads < 1) return kernel_fail(call, "%lld heads", (long long)heads);
    uint64_t d[5] = {0};
    const uint64_t n = (uint64_t)heads;
    for (uint32_t i = 0; i < t->rank; i++) d[i] = (uint64_t)t->dims[i];
    if (t->rank == 3) {
        const uint64_t size = d[2] / n;
        if (d[2] % n)
            return kernel_fail(call, "%llu elements in %llu heads", (unsigned long long)d[2],
                               (unsigned long long)n);
        *view = (HeadRows){t->data, n, d[1], size, d[1] * d[2], size, d[2]};
    } else if (t->rank == 4) {
        *view = (HeadRows){t->data, d[1], d[2], d[3], d[1] * d[2] * d[3], d[2] * d[3], d[3]};
    } else {
        const uint64_t head = d[3] * d[4], row = d[2] * head;
        if (part >= d[3]) return kernel_fail(call, "%llu parts", (unsigned long long)d[3]);
        *view = (HeadRows){t->data, d[2], d[1], d[4], d[1] * row, head, row};
        if (t->count) view->data += part * d[4];
    }
    if (view->heads == n) return true;
    return kernel_fail(call, "%llu heads for %llu", (unsigned long long)view->heads,
                       (unsigned long long)n);
}

bool head_rows_add(KernelCall *call, uint64_t batches, const float *bias, HeadRows *view) {
    const uint64_t width = view->heads * view->size, count = batches * view->rows * width;
    float *to = ARENA_ARRAY(call->scratch, float, count + 1);
    for (uint64_t b = 0; count && b < batches; b++) {
        for (uint64_t i = 0; i < view->rows * view->heads; i++) {
            const uint64_t row = i / view->heads, head = i % view->heads;
            const float *from = view->data + b * view->batch + head * view->head + row * view->row;
            float *at = to + (b * view->rows + row) * width + head * view->size;
            for (uint64_t e = 0; e < view->size; e++) at[e] = from[e] + bias[head * view->size + e];
        }
    }
    *view =
        (HeadRows){to, view->heads, view->rows, view->size, view->rows * width, view->size, width};
    return true;
}

/* The rows of one head, `total` of them. */
static void join_head(const HeadRows *now, const float *from, const float *past, uint64_t before,
                      float *to) {
    if (before) memcpy(to, past, before * now->size * sizeof *to);
    for (uint64_t r = 0; r < now->rows; r++)
        memcpy(to + (before + r) * now->size, from + r * now->row, now->size * sizeof *to);
}

bool head_rows_join(KernelCall *call, uint64_t batches, const KernelTensor *past,
                    KernelTensor *present, HeadRows *view) {
    if (!past && !present) return true;
    if (past && (past->rank != 4 || (uint64_t)past->dims[0] != batches ||
                 (uint64_t)past->dims[1] != view->heads || (uint64_t)past->dims[3] != view->size))
        return kernel_fail(call, "the past has other dims");
    const uint64_t before = past ? (uint64_t)past->dims[2] : 0, total = before + view->rows;
    const uint64_t head = total * view->size, all = batches * view->heads;
    if (present && !kernel_want_count(call, present, all * head, "the cache")) return false;
    float *to = present ? present->data : ARENA_ARRAY(call->scratch, float, all *head + 1);
    for (uint64_t i = 0; head && i < all; i++)
        join_head(view, view->data + i / view->heads * view->batch + i % view->heads * view->head,
                  past ? (const float *)past->data + i * before * view->size : NULL, before,
                  to + i * head);
    *view = (HeadRows){to, view->heads, total, view->size, view->heads * head, head, view->size};
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
