// SPDX-License-Identifier: Apache-2.0
/* See head_view.h. */
#include "head_view.h"

#include "op_attrs.h"

bool head_view(KernelCall *call, const KernelTensor *t, int64_t heads, HeadView *view) {
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

/* ---- Attention ------------------------------------------------------------------------------- */

static bool find_past(KernelCall *call, HeadShapes *shapes) {
    const KernelTensor *key = kernel_input(call, 4), *value = kernel_input(call, 5);
    if (!key != !value) return kernel_fail(call, "past_key and past_value require each other");
    shapes->past = 0;
    for (uint32_t i = 0; key && i < 2; i++) {
        const KernelTensor *t = i ? value : key;
        const HeadView *now = i ? &shapes->v : &shapes->k;
        if (t->rank != 4 || (uint64_t)t->dims[0] != now->batches ||
            (uint64_t)t->dims[1] != now->heads || (uint64_t)t->dims[3] != now->size ||
            t->dims[2] != key->dims[2])
            return kernel_fail(call, "the dims of the past and of K and V differ");
        shapes->past = (uint64_t)t->dims[2];
    }
    shapes->total = shapes->past + shapes->k.rows;
    return true;
}

bool head_shapes(KernelCall *call, HeadShapes *shapes) {
    const AttentionAttrs *attrs = call->attrs;
    HeadView *q = &shapes->q, *k = &shapes->k, *v = &shapes->v;
    if (!head_view(call, &call->inputs[0], attrs->q_heads, q) ||
        !head_view(call, &call->inputs[1], attrs->kv_heads, k) ||
        !head_view(call, &call->inputs[2], attrs->kv_heads, v))
        return false;
    if (q->batches != k->batches || q->batches != v->batches || k->rows != v->rows ||
        k->heads != v->heads || q->size != k->size)
        return kernel_fail(call, "Q, K and V do not fit together");
    if (k->heads == 0 || q->heads % k->heads)
        return kernel_fail(call, "%llu query heads on %llu key heads", (unsigned long long)q->heads,
                           (unsigned long long)k->heads);
    shapes->group = q->heads / k->heads;
    return find_past(call, shapes);
}

bool head_mask_steps(KernelCall *call, const KernelTensor *mask, const uint64_t want[4],
                     uint64_t steps[4]) {
    if (mask->rank < 1 || mask->rank > 4) return kernel_fail(call, "a mask of rank %u", mask->rank);
    uint32_t missing = 4 - mask->rank;
    uint64_t step = 1;
    for (uint32_t i = 4; i-- > missing;) {
        uint64_t dim = (uint64_t)mask->dims[i - missing];
        bool good = i == 3 ? dim <= want[3] : dim == want[i] || dim == 1;
        if (!good)
            return kernel_fail(call, "a mask's dim of %llu for %llu", (unsigned long long)dim,
                               (unsigned long long)want[i]);
        steps[i] = dim == 1 && i < 3 ? 0 : step;
        step *= dim;
    }
    return true;
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

/* How many elements of a head are rotated: all where the size, an attribute, is 0. */
static bool find_pairs(KernelCall *call, int64_t size, HeadRotary *rotary) {
    const RotaryAttrs *attrs = call->attrs;
    const uint64_t turned = size > 0 ? (uint64_t)size : rotary->x.size;
    rotary->half = turned / 2;
    rotary->interleaved = attrs->interleaved > 0;
    if (size < 0 || turned > rotary->x.size || turned % 2)
        return kernel_fail(call, "rotation of %lld elements of %llu", (long long)size,
                           (unsigned long long)rotary->x.size);
    for (uint32_t i = 0; i < 2; i++) {
        const KernelTensor *t = rotary->caches[i];
        if (!t || !t->rank || (uint64_t)t->dims[t->rank - 1] != rotary->half)
            return kernel_fail(call, "a cache has different dims");
    }
    return true;
}

static bool have_one_each(KernelCall *call, uint64_t tokens, const KernelTensor *positions) {
    return positions->count == tokens ||
           kernel_fail(call, "%llu position_ids for %llu tokens",
                       (unsigned long long)positions->count, (unsigned long long)tokens);
}

static bool has_same_count(KernelCall *call) {
    return call->outputs[0].count == call->inputs[0].count ||
           kernel_fail(call, "the numbers of elements of Y and X differ");
}

/* Rows of the caches: one a position id, or one a token. */
bool head_rotary(KernelCall *call, HeadRotary *rotary) {
    const RotaryAttrs *attrs = call->attrs;
    HeadView *x = &rotary->x;
    *rotary = (HeadRotary){.caches = {kernel_input(call, 1), kernel_input(call, 2)},
                           .positions = kernel_input(call, 3)};
    if (!has_same_count(call) || !head_view(call, &call->inputs[0], attrs->heads, x)) return false;
    if (rotary->positions && !have_one_each(call, x->batches * x->rows, rotary->positions))
        return false;
    if (!find_pairs(call, attrs->size, rotary)) return false;
    for (uint32_t i = 0; i < 2; i++) {
        const KernelTensor *t = rotary->caches[i];
        if (t->rank != (rotary->positions ? 2 : 3))
            return kernel_fail(call, "a cache has different dims");
        if (!rotary->positions &&
            ((uint64_t)t->dims[0] != x->batches || (uint64_t)t->dims[1] != x->rows))
            return kernel_fail(call, "the dims of a cache and of the tokens differ");
    }
    return true;
}

/* (x, positions, cosines, sines). One position is that of all sequences' first token; heads of rank 3,
 * where their number is absent, are as large as the caches tell. */
bool head_rotary_by_position(KernelCall *call, HeadRotary *rotary) {
    const RotaryAttrs *attrs = call->attrs;
    const KernelTensor *input = &call->inputs[0];
    int64_t heads = attrs->heads > 0 ? attrs->heads : 0;
    *rotary =
        (HeadRotary){.caches = {&call->inputs[2], &call->inputs[3]}, .positions = &call->inputs[1]};
    if (attrs->packed > 0) return kernel_fail(call, "is_packed_batching is not supported");
    if (attrs->scale.count && attrs->scale.items[0] != 1.0F)
        return kernel_fail(call, "this scale is not supported");
    if (rotary->caches[0]->rank != 2 || rotary->caches[1]->rank != 2)
        return kernel_fail(call, "a cache is not a matrix");
    if (!heads && input->rank == 3 && rotary->caches[0]->dims[1] > 0)
        heads = input->dims[2] / 2 / rotary->caches[0]->dims[1];
    if (!has_same_count(call) || !head_view(call, input, heads, &rotary->x) ||
        !find_pairs(call, attrs->size > 0 ? attrs->size : 0, rotary))
        return false;
    rotary->first = rotary->positions->count == 1;
    const uint64_t tokens = input->count ? rotary->x.batches * rotary->x.rows : 0;
    return rotary->first || have_one_each(call, tokens, rotary->positions);
}
