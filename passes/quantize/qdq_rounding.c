// SPDX-License-Identifier: Apache-2.0
/* See qdq_rounding.h. Products that multiply their weights by the same values, as those of queries, keys and values do,
 * share one request, whose moments are factored once. */
#include "qdq_rounding.h"

#include <string.h>

#include "gptq.h"
#include "hash64.h"
#include "op_record.h"
#include "op_types.h"
#include "processors.h"
#include "qdq_drift.h"
#include "qdq_plan.h"
#include "work_progress.h"

/* ---- what weights are multiplied by ---------------------------------------------------------- */

static int64_t item_of(const Node *node, const char *name, uint32_t i, int64_t otherwise) {
    uint32_t count = 0;
    const int64_t *items = attr_ints(node_attr(node, name), &count);
    return items && i < count ? items[i] : otherwise;
}

static bool pads_as(const Node *conv, const char *kind) {
    Bytes text;
    return attr_string(node_attr(conv, "auto_pad"), &text) && text.size == strlen(kind) &&
           memcmp(text.data, kind, text.size) == 0;
}

static bool describe_window(const Node *conv, const Tensor *tensor, MomentWindow *w) {
    *w = (MomentWindow){.axes = tensor->rank - 2};
    if (tensor->rank < 3 || w->axes > MOMENT_AXES) return false;
    w->same = pads_as(conv, "SAME_UPPER") ? 1 : pads_as(conv, "SAME_LOWER") ? -1 : 0;
    for (uint32_t i = 0; i < w->axes; i++) {
        w->kernel[i] = tensor->dims[i + 2];
        w->strides[i] = item_of(conv, "strides", i, 1);
        w->dilations[i] = item_of(conv, "dilations", i, 1);
        w->pads[i] = item_of(conv, "pads", i, 0);
        w->pads[w->axes + i] = item_of(conv, "pads", w->axes + i, 0);
        if (w->strides[i] < 1 || w->dilations[i] < 1 || w->pads[i] < 0 || w->pads[w->axes + i] < 0)
            return false;
    }
    return true;
}

static bool is_convolution(const Node *product) {
    return node_record(product)->channels == CHANNELS_FIRST;
}

/* Along which axis a matrix is summed; -1 where that is not known. */
static int32_t summed_axis(const QdqRounded *item) {
    if (item->axis < 0) return -1;
    return item->numbers->layout.block ? item->axis : 1 - item->axis;
}

static bool describe_product(const QdqRounded *item, const Node *product, MomentRows *rows) {
    const Tensor *tensor = item->numbers->tensor;
    int32_t channels;
    const Value *x = product ? qdq_input(product, 0) : NULL;
    if (!x || !qdq_operand_channels(product, tensor->rank, &channels)) return false;
    *rows = (MomentRows){.value = x->name->text, .columns = channels == 0};
    if (is_convolution(product))
        return item->axis == 0 && qdq_input(product, 1) == item->value &&
               describe_window(product, tensor, &rows->window);
    return tensor->rank == 2 && summed_axis(item) >= 0;
}

/* Sizes of the request, which all products must agree on. */
static bool describe_sizes(const QdqRounded *item, const Node *product, MomentRequest *request) {
    const Tensor *tensor = item->numbers->tensor;
    uint64_t groups = 1, size = 0;
    if (is_convolution(product)) {
        const int64_t given = node_attr_int(product, "group", 1);
        if (given < 1 || tensor->dims[0] % given) return false;
        groups = (uint64_t)given;
        size = tensor_count(tensor) / (uint64_t)tensor->dims[0];
    } else {
        size = (uint64_t)tensor->dims[summed_axis(item)];
    }
    const bool same = !request->size || (request->size == size && request->groups == groups);
    request->size = size;
    request->groups = groups;
    return same && size <= UINT32_MAX && dtype_bits(item->numbers->layout.dtype) <= 8;
}

void qdq_rounding_describe(QdqRounded *item, Arena *arena) {
    MomentRows *rows = ARENA_ARRAY(arena, MomentRows, item->products.count + 1);
    item->request = (MomentRequest){.rows = rows, .count = item->products.count};
    item->can = item->products.count > 0;
    for (size_t i = 0; item->can && i < item->products.count; i++)
        item->can = describe_product(item, item->products.items[i], &rows[i]) &&
                    describe_sizes(item, item->products.items[i], &item->request);
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool rows_equal(const MomentRows *a, const MomentRows *b) {
    const MomentWindow *v = &a->window, *w = &b->window;
    return strcmp(a->value, b->value) == 0 && a->columns == b->columns && v->axes == w->axes &&
           v->same == w->same && memcmp(v->kernel, w->kernel, sizeof v->kernel) == 0 &&
           memcmp(v->strides, w->strides, sizeof v->strides) == 0 &&
           memcmp(v->dilations, w->dilations, sizeof v->dilations) == 0 &&
           memcmp(v->pads, w->pads, sizeof v->pads) == 0;
}

static bool requests_equal(const MomentRequest *a, const MomentRequest *b) {
    if (a->count != b->count || a->size != b->size || a->groups != b->groups) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!rows_equal(&a->rows[i], &b->rows[i])) return false;
    return true;
}

typedef VEC(MomentRequest) Requests;

static size_t number_of(Requests *requests, const MomentRequest *request, Arena *arena) {
    for (size_t i = 0; i < requests->count; i++)
        if (requests_equal(&requests->items[i], request)) return i;
    VEC_PUSH(arena, requests, *request);
    return requests->count - 1;
}

/* ---- rounding -------------------------------------------------------------------------------- */

static uint64_t zero_count(const QdqRounded *item) {
    return quantized_has_zeros(item->numbers->layout.dtype) ? item->scale_count : 0;
}

static uint64_t byte_count(const QdqRounded *item) {
    uint64_t size;
    dtype_bytes(item->numbers->layout.dtype, tensor_count(item->numbers->tensor), &size);
    return size;
}

/* Of the numbers to nearest: what becomes of other weights under that name, or of these in another form, is not taken
 * for what was kept. */
static uint64_t key_of(const QdqRounded *item) {
    const QdqNumbers *n = item->numbers;
    const uint64_t form[] = {(uint64_t)n->layout.dtype, (uint64_t)n->layout.stored, n->layout.block,
                             (uint64_t)(uint32_t)item->axis};
    Hash64 hash;
    hash64_init(&hash, 0);
    hash64_update(&hash, form, sizeof form);
    hash64_update(&hash, n->bytes, byte_count(item));
    hash64_update(&hash, n->scales, item->scale_count * sizeof(float));
    hash64_update(&hash, n->zeros, zero_count(item));
    return hash64_final(&hash);
}

static void recall(const QdqRounded *item, const RoundedWeights *kept) {
    const QdqNumbers *n = item->numbers;
    memcpy(n->bytes, kept->bytes, kept->size);
    memcpy(n->scales, kept->scales, kept->scale_count * sizeof(float));
    memcpy(n->zeros, kept->zeros, kept->zero_count);
}

typedef struct Rounding {
    PassCtx *ctx;
    QdqRounded **items; /* [count]: that are to be rounded */
    size_t count, done, rounded;
    Workers *workers;
} Rounding;

static void keep(const Rounding *r, const QdqRounded *item, const GptqCost *cost) {
    const QdqNumbers *n = item->numbers;
    const RoundedWeights weights = {.name = item->value->name->text,
                                    .key = item->key,
                                    .bytes = n->bytes,
                                    .scales = n->scales,
                                    .zeros = n->zeros,
                                    .size = byte_count(item),
                                    .scale_count = item->scale_count,
                                    .zero_count = zero_count(item),
                                    .nearest = cost->nearest,
                                    .chosen = cost->chosen};
    data_rounding_keep(r->ctx->rounding, &weights);
}

static GptqWeights weights_of(const QdqRounded *item, uint64_t group) {
    const QdqNumbers *n = item->numbers;
    const bool convolution = is_convolution(item->products.items[0]);
    const uint64_t size = item->request.size, all = tensor_count(n->tensor) / size,
                   channels = all / item->request.groups;
    return (GptqWeights){.tensor = n->tensor,
                         .size = size,
                         .all = all,
                         .first = group * channels,
                         .channels = channels,
                         .turned = convolution || summed_axis(item) == 1,
                         .block = n->layout.block,
                         .dtype = n->layout.dtype,
                         .floats = n->layout.floats,
                         .stored = n->layout.stored,
                         .whole = n->layout.whole,
                         .scales = n->scales,
                         .zeros = n->zeros,
                         .bytes = n->bytes};
}

/* Moments that have come, and what is made of them for the item at hand. */
typedef struct Turn {
    Rounding *r;
    const Moments *moments;
    MomentFactor
        factor; /* of matrices: for one after the other that has the same blocks. size 0: not made yet */
    Arena *within;
    GptqCost cost;
} Turn;

static MomentSizes sizes_of(const Turn *t, const GptqWeights *weights) {
    return (MomentSizes){weights->size, weights->block, t->moments->vectors};
}

/* Where nothing can be made of the moments, weights stay what they are. */
static bool round_group(Turn *t, const GptqWeights *weights, const float *moments, Err *err) {
    Arena *within = arena_child(t->within);
    MomentFactor factor;
    const bool ok =
        !moment_factor_find(&factor, moments, sizes_of(t, weights), t->r->workers, within) ||
        gptq_round(weights, &factor, t->r->workers, &t->cost, within, err);
    arena_free(within);
    return ok;
}

static bool round_groups(Turn *t, const QdqRounded *item, Err *err) {
    const uint64_t size = item->request.size;
    for (uint64_t g = 0; g < item->request.groups; g++) {
        const GptqWeights weights = weights_of(item, g);
        if (!round_group(t, &weights, t->moments->sums + g * size * size, err)) return false;
    }
    return true;
}

static bool round_matrix(Turn *t, const QdqRounded *item, Err *err) {
    const GptqWeights weights = weights_of(item, 0);
    MomentFactor *factor = &t->factor;
    if (!factor->size || factor->block != weights.block)
        moment_factor_find(factor, t->moments->sums, sizes_of(t, &weights), t->r->workers,
                           t->within);
    return !factor->run_count ||
           gptq_round(&weights, factor, t->r->workers, &t->cost, t->within, err);
}

static bool take(void *data, size_t number, const Moments *moments, Err *err) {
    Rounding *r = data;
    Turn t = {.r = r, .moments = moments, .within = arena_child(r->ctx->scratch)};
    bool ok = true;
    const unsigned piece = progress_begin("rounding weights", r->count, PROGRESS_STEPS);
    for (size_t i = 0; ok && i < r->count; i++) {
        const QdqRounded *item = r->items[i];
        if (item->number != number) continue;
        progress_at(piece, r->done++);
        if (!moments->sums) continue;
        t.cost = (GptqCost){0};
        ok = item->request.groups > 1 ? round_groups(&t, item, err) : round_matrix(&t, item, err);
        if (ok) keep(r, item, &t.cost);
        r->rounded++;
    }
    progress_end(piece);
    arena_free(t.within);
    return ok;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Of those that nothing was kept of. */
static bool measure(Rounding *r, Err *err) {
    const MomentSource *source = r->ctx->rounding->source;
    Requests requests = {0};
    if (!source || !r->count) return true;
    for (size_t i = 0; i < r->count; i++)
        r->items[i]->number = number_of(&requests, &r->items[i]->request, r->ctx->scratch);
    r->workers = workers_new(r->ctx->scratch, processors_usable());
    return source->measure(source->user, requests.items, requests.count, take, r, err);
}

/* Where a value's name is not that which it has in the model that was run. */
static void remark_rest(const Rounding *r, size_t rest, size_t all) {
    if (!rest) return;
    Arena *arena = &r->ctx->model->arena;
    pass_remark(r->ctx->counts, arena,
                arena_printf(arena,
                             "%zu of %zu quantized weights were rounded to nearest: what they are "
                             "multiplied by was not measured",
                             rest, all));
}

bool qdq_rounding_run(PassCtx *ctx, QdqRounded *items, size_t count, Err *err) {
    DataRounding *rounding = ctx->rounding;
    Rounding r = {.ctx = ctx, .items = ARENA_ARRAY(ctx->scratch, QdqRounded *, count + 1)};
    size_t rest = 0;
    if (rounding->source) rounding->arena->trap = ctx->scratch->trap; /* what is kept is made now */
    for (size_t i = 0; i < count; i++) {
        if (!items[i].can) continue;
        items[i].key = key_of(&items[i]);
        const RoundedWeights *kept =
            data_rounding_find(rounding, items[i].value->name->text, items[i].key);
        if (kept) recall(&items[i], kept);
        if (!kept) rest++;
        if (!kept) r.items[r.count++] = &items[i];
    }
    if (!measure(&r, err)) return false;
    remark_rest(&r, rest - r.rounded, count);
    return true;
}
