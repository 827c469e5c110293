// SPDX-License-Identifier: Apache-2.0
/* See qdq_store.h. Uses of one constant that want the same of it are one group, and read one
 * DequantizeLinear. Where they are all that reads the constant, it is gone, and the result has its
 * name; else a second one is put beside it. */
#include "qdq_store.h"

#include <math.h>

#include "constants.h"
#include "dequantized.h"
#include "op_types.h"
#include "qdq_drift.h"
#include "qdq_node.h"
#include "qdq_numbers.h"
#include "qdq_rounding.h"
#include "qdq_stream.h"
#include "qdq_table.h"

/* A bias is a sum of products, of which the scale is that of both factors. Weights of a channel get
 * a scale with which its bias fits into 32 bits. */
static const double BIAS_MOST = 2147483000;

/* Bytes of numbers and scales that are found at once and held. What comes after them is made when the model
 * is written, or read. */
static const uint64_t HELD_MOST = 16 << 20;

struct QdqGroup {
    const QdqStore *store;
    const QdqWeight *weight; /* the first; all others are like it */
    QdqNumbers *numbers;
    QdqStream *stream; /* of numbers that are not held */
    QdqRounded rounded;
    uint64_t scale_count;
};

/* ---- constants beside their float ones ------------------------------------------------------- */

/* Makes `result` what the uses read: `value` itself where they are all, else a new one. */
static Value *take_over(PassCtx *ctx, Value *value, size_t uses) {
    if (!value->referenced && value->use_count == uses) return value;
    return qdq_value(ctx, value, "dequantized", type_dtype(value->type));
}

/* `stored` becomes what the constant was, if `result` is to be computed under its name. */
static Value *put_stored(PassCtx *ctx, Value *value, Value *result, const Tensor *tensor) {
    Node *producer = value->producer;
    if (result != value || !producer) {
        if (result == value) value_set_init(value, NULL);
        return qdq_constant(ctx, value, "quantized", tensor);
    }
    Value *stored = qdq_value(ctx, value, "quantized", (Dtype)tensor->dtype);
    constant_replace(value, tensor);
    node_set_output(producer, 0, stored);
    return stored;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The weight of the group that comes after `weight`, whose use is the first where it is NULL; NULL
 * at the end. */
static const QdqWeight *next_alike(const QdqGroup *group, const QdqWeight *weight) {
    const QdqWeight *first = group->weight;
    const QdqPlan *plan = group->store->plan;
    if (!weight) return first;
    for (uint32_t i = weight->next; i; i = plan->weights.items[i - 1].next) {
        const QdqWeight *other = &plan->weights.items[i - 1];
        if (other->format == first->format && other->axis == first->axis &&
            other->block == first->block)
            return other;
    }
    return NULL;
}

static QdqWeights layout_of(const QdqWeight *weight, const Tensor *tensor) {
    QdqWeights w = {.outer = 1,
                    .axis = 1,
                    .inner = 1,
                    .block = weight->block,
                    .dtype = weight->format->dtype,
                    .floats = (Dtype)tensor->dtype,
                    .stored = weight->block ? weight->format->scales : DTYPE_UNDEFINED};
    if (weight->axis < 0) w.inner = tensor_count(tensor);
    for (uint32_t i = 0; weight->axis >= 0 && i < tensor->rank; i++) {
        const uint64_t dim = (uint64_t)tensor->dims[i];
        if (i < (uint32_t)weight->axis) w.outer *= dim;
        if (i == (uint32_t)weight->axis) w.axis = dim;
        if (i > (uint32_t)weight->axis) w.inner *= dim;
    }
    return w;
}

/* What reads the bias of the weight's product, where a sum that does is part of it. */
static Use *bias_use(const QdqPlan *plan, const QdqWeight *weight) {
    Use *use = weight->product && !weight->rows ? qdq_bias_use(weight->product) : NULL;
    const bool part =
        use && (use->node == weight->product || plan->nodes[use->node->id].role == QDQ_FOLDED);
    return part ? use : NULL;
}

/* The bias of the weight's product as floats, one for each channel or several times as many; NULL
 * where it is none that can be stored as integers. */
static const float *read_bias(const QdqGroup *group, const QdqWeight *weight, Arena *scratch,
                              uint64_t *count) {
    const QdqStore *store = group->store;
    const Use *use = bias_use(store->plan, weight);
    const Value *bias = use ? use->value : NULL, *x = bias ? qdq_input(weight->product, 0) : NULL;
    float alpha = 1, beta = 1;
    if (store->plan->request.float_biases || !bias || !value_is_constant(bias) || weight->block ||
        !(store->scales[x->id].scale > 0) || dtype_is_float(weight->format->dtype))
        return NULL;
    attr_float(node_attr(weight->product, "alpha"), &alpha);
    attr_float(node_attr(weight->product, "beta"), &beta);
    const Tensor *tensor = constant_tensor(bias, scratch);
    if (alpha != 1 || beta != 1 || !tensor || tensor->dtype != DTYPE_FLOAT ||
        !tensor_check(tensor, NULL) || tensor->rank != 1)
        return NULL;
    *count = tensor_count(tensor);
    float *items = ARENA_ARRAY(scratch, float, *count + 1);
    const bool fits = *count > 0 && *count % group->scale_count == 0;
    return fits && tensor_read_floats(tensor, 0, *count, items, NULL) &&
                   qdq_weights_finite(items, *count)
               ? items
               : NULL;
}

/* The least scales with which the biases of all products that read the group fit. */
static float *least_scales(const QdqGroup *group, Arena *scratch) {
    float *least = ARENA_ARRAY(scratch, float, group->scale_count);
    for (const QdqWeight *weight = NULL; (weight = next_alike(group, weight));) {
        uint64_t count;
        const float *bias = read_bias(group, weight, scratch, &count);
        for (uint64_t k = 0; bias && k < count; k++) {
            const double x = (double)group->store->scales[qdq_input(weight->product, 0)->id].scale;
            const double scale =
                (bias[k] < 0 ? -(double)bias[k] : (double)bias[k]) / (x * BIAS_MOST);
            float *at = &least[k % group->scale_count];
            if (scale > (double)*at) *at = (float)scale;
        }
    }
    return least;
}

/* A tensor of which the stream makes a part. */
static Tensor *streamed(const QdqGroup *group, QdqPart part, Dtype dtype, const int64_t *dims,
                        uint32_t rank) {
    Arena *arena = &group->store->ctx->model->arena;
    Tensor *tensor = tensor_new_raw(arena, dtype, dims, rank, NULL, 0);
    dtype_bytes(dtype, tensor_count(tensor), &tensor->size);
    tensor->bytes = NULL;
    tensor->source =
        qdq_stream_source(group->stream, part, tensor->size, sym_text(group->weight->value->name));
    return tensor;
}

/* The dims of a packed table's numbers, in pairs, or of its scales (qdq_table.h). */
static const int64_t *packed_dims(const QdqGroup *group, int64_t pairs) {
    const int64_t *of = group->numbers->tensor->dims;
    const int64_t dims[QDQ_PACKED_RANK] = {of[0], of[1] / (int64_t)group->weight->block, pairs, 1};
    return arena_copy(&group->store->ctx->model->arena, dims, sizeof dims);
}

/* Scales as a tensor: none for all, one for each channel, or as the weights with fewer along the
 * axis. */
static Tensor *scale_tensor(const QdqGroup *group, QdqPart part, Dtype dtype, const void *bytes,
                            uint64_t size) {
    Arena *arena = &group->store->ctx->model->arena;
    const Tensor *of = group->numbers->tensor;
    const QdqWeight *weight = group->weight;
    const int64_t count = (int64_t)group->scale_count;
    if (weight->axis < 0) return tensor_new_raw(arena, dtype, NULL, 0, bytes, size);
    if (!weight->block) return tensor_new_raw(arena, dtype, &count, 1, bytes, size);
    int64_t *blocks = arena_copy(arena, of->dims, of->rank * sizeof *of->dims);
    const uint64_t dim = (uint64_t)blocks[weight->axis];
    blocks[weight->axis] = (int64_t)((dim + weight->block - 1) / weight->block);
    const int64_t *dims = weight->packed ? packed_dims(group, 1) : blocks;
    const uint32_t rank = weight->packed ? QDQ_PACKED_RANK : of->rank;
    if (group->stream) return streamed(group, part, dtype, dims, rank);
    return tensor_new_raw(arena, dtype, dims, rank, bytes, size);
}

/* Zero points say the type, and some readers want them. */
static Tensor *zero_tensor(const QdqGroup *group, Arena *scratch) {
    const bool packed = group->weight->packed;
    const Dtype of = group->weight->format->dtype, dtype = packed ? DTYPE_UINT8 : of;
    uint64_t size;
    if (group->stream && group->weight->block)
        return scale_tensor(group, packed ? QDQ_ZERO_BYTES : QDQ_ZEROS, dtype, NULL, 0);
    dtype_bytes(dtype, group->scale_count, &size);
    uint8_t *bytes = ARENA_ARRAY(scratch, uint8_t, size + 1);
    for (uint64_t i = 0; quantized_has_zeros(of) && i < group->scale_count; i++)
        qdq_put_code(bytes, dtype_bits(dtype), i, group->numbers->zeros[i]);
    return scale_tensor(group, QDQ_ZEROS, dtype, bytes, size);
}

/* Of the constant's dims, with the numbers. */
static Tensor *stored_tensor(const QdqGroup *group) {
    const QdqNumbers *n = group->numbers;
    const QdqWeight *weight = group->weight;
    const bool packed = weight->packed;
    const Dtype dtype = packed ? DTYPE_UINT8 : n->layout.dtype;
    const int64_t *dims = packed ? packed_dims(group, (int64_t)weight->block / 2) : n->tensor->dims;
    const uint32_t rank = packed ? QDQ_PACKED_RANK : n->tensor->rank;
    if (group->stream) return streamed(group, QDQ_NUMBERS, dtype, dims, rank);
    Tensor *tensor = tensor_new_raw(&group->store->ctx->model->arena, dtype, dims, rank, NULL, 0);
    dtype_bytes(dtype, tensor_count(tensor), &tensor->size);
    tensor->bytes = n->bytes;
    return tensor;
}

static size_t count_uses(const QdqGroup *group) {
    size_t uses = 0;
    for (const QdqWeight *weight = NULL; (weight = next_alike(group, weight));)
        uses += !weight->again;
    return uses;
}

/* Of the format's own type, or floats as the type that the weights had: they are numbers of it. */
static const Tensor *weight_scales(const QdqGroup *group, Arena *scratch) {
    const QdqNumbers *n = group->numbers;
    const Dtype own = n->layout.stored;
    const uint64_t size = group->scale_count * qdq_scale_size(&n->layout);
    void *bytes = NULL;
    if (n->scales) {
        bytes = arena_alloc(scratch, size + 1);
        qdq_store_scales(&n->layout, n->scales, group->scale_count, bytes);
    }
    const Tensor *scales = scale_tensor(group, QDQ_SCALES, own ? own : DTYPE_FLOAT, bytes, size);
    if (own || n->layout.floats == DTYPE_FLOAT) return scales;
    return tensor_new_cast(&group->store->ctx->model->arena, scales, n->layout.floats);
}

/* Of a table: rows are picked of the numbers and of the scales. */
static void put_table(const QdqGroup *group, Arena *scratch) {
    PassCtx *ctx = group->store->ctx;
    Value *value = group->weight->value;
    const Dtype dtype = group->weight->format->dtype;
    const bool blocks = quantized_needs_blocks(dtype);
    const QdqTable table = {
        .numbers = qdq_constant(ctx, value, "quantized", stored_tensor(group)),
        .scales = qdq_constant(ctx, value, "scale", weight_scales(group, scratch)),
        .zeros = quantized_has_zeros(dtype)
                     ? qdq_constant(ctx, value, "zero_point", zero_tensor(group, scratch))
                     : NULL,
        .block = blocks ? group->weight->block : 0,
        .packed = group->weight->packed};
    for (const QdqWeight *weight = NULL; (weight = next_alike(group, weight));)
        qdq_table_put(ctx, weight->use->node, &table);
    qdq_drop_unread(value);
}

/* What makes scales that are quantized themselves float: before what reads them, which is there. */
static void put_scale_of_scales(const QdqGroup *group, Value *stored, Value *scale) {
    PassCtx *ctx = group->store->ctx;
    const Tensor *whole = tensor_new_float_scalar(&ctx->model->arena, group->numbers->layout.whole);
    const QdqOperands operands = {.scale = qdq_constant(ctx, stored, "scale", whole), .axis = -1};
    Node *node = qdq_insert(ctx, "DequantizeLinear", stored, &operands, scale);
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
}

/* The DequantizeLinear, and all uses of the group on its result. Where scales have a type of their own, the numbers'
 * alone says what they are. */
static void put_weights(const QdqGroup *group, Arena *scratch) {
    PassCtx *ctx = group->store->ctx;
    Value *value = group->weight->value;
    const QdqWeights *layout = &group->numbers->layout;
    const bool twice = layout->whole > 0;
    Value *result = take_over(ctx, value, count_uses(group));
    Value *stored = put_stored(ctx, value, result, stored_tensor(group));
    Value *scale = qdq_constant(ctx, value, "scale", weight_scales(group, scratch));
    const QdqOperands operands = {
        .scale = twice ? qdq_value(ctx, scale, "dequantized", DTYPE_FLOAT) : scale,
        .zero = layout->stored
                    ? NULL
                    : qdq_constant(ctx, value, "zero_point", zero_tensor(group, scratch)),
        .axis = group->weight->axis,
        .block = group->weight->block,
        .output = layout->stored && (!twice || layout->floats != DTYPE_FLOAT) ? layout->floats
                                                                              : DTYPE_UNDEFINED};
    Node *node = qdq_insert(ctx, "DequantizeLinear", stored, &operands, result);
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    if (twice) put_scale_of_scales(group, scale, operands.scale);
    const QdqWeight *weight = NULL;
    while (result != value && (weight = next_alike(group, weight))) use_set(weight->use, result);
    qdq_drop_unread(value);
}

/* ---- biases ---------------------------------------------------------------------------------- */

/* The bias less what rounding adds to the product on average. */
static const float *without_drift(const QdqGroup *group, const QdqWeight *weight,
                                  const float *items, Arena *scratch) {
    const QdqNumbers *n = group->numbers;
    const QdqDrift *drift = NULL;
    for (size_t i = 0; i < n->drifts.count; i++)
        if (n->drifts.items[i].product == weight->product) drift = &n->drifts.items[i];
    if (!drift) return items;
    float *less = ARENA_ARRAY(scratch, float, group->scale_count);
    for (uint64_t i = 0; i < group->scale_count; i++)
        less[i] = (float)((double)items[i] - drift->sums[i]);
    return less;
}

static void put_bias(const QdqGroup *group, const QdqWeight *weight, Arena *scratch) {
    PassCtx *ctx = group->store->ctx;
    Arena *arena = &ctx->model->arena;
    uint64_t count;
    const float *items = read_bias(group, weight, scratch, &count);
    if (!items) return;
    Use *use = bias_use(group->store->plan, weight);
    const float x = group->store->scales[qdq_input(weight->product, 0)->id].scale;
    const bool one = group->weight->axis < 0;
    const uint64_t scale_count = one ? 1 : count;
    float *scales = ARENA_ARRAY(scratch, float, scale_count);
    int32_t *numbers = ARENA_ARRAY(scratch, int32_t, count);
    int32_t *zeros = ARENA_ARRAY(scratch, int32_t, scale_count);
    for (uint64_t i = 0; i < scale_count; i++)
        scales[i] = x * group->numbers->scales[i % group->scale_count];
    for (uint64_t i = 0; i < scale_count; i++)
        if (!(scales[i] > 0)) return;
    if (!one && count == group->scale_count) items = without_drift(group, weight, items, scratch);
    if (!qdq_store_bias(items, count, scales, scale_count, numbers)) return;
    const int64_t dims[2] = {(int64_t)count, (int64_t)scale_count};
    Value *value = use->value, *result = take_over(ctx, value, 1);
    Value *stored = put_stored(ctx, value, result,
                               tensor_new_raw(arena, DTYPE_INT32, dims, 1, numbers, count * 4));
    const QdqOperands operands = {
        qdq_constant(ctx, value, "scale",
                     tensor_new_raw(arena, DTYPE_FLOAT, dims + 1, !one, scales, scale_count * 4)),
        qdq_constant(ctx, value, "zero_point",
                     tensor_new_raw(arena, DTYPE_INT32, dims + 1, !one, zeros, scale_count * 4)),
        one ? -1 : 0, 0, DTYPE_UNDEFINED};
    Node *node = qdq_insert(ctx, "DequantizeLinear", stored, &operands, result);
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    if (result != value) use_set(use, result);
    qdq_drop_unread(value);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Asks for what the weight's product gains, where its bias can make up for that. */
static void ask_drift(const QdqGroup *group, const QdqWeight *weight, Arena *scratch) {
    const QdqPlan *plan = group->store->plan;
    QdqDrift drift;
    if (plan->request.float_biases || !bias_use(plan, weight) || weight->block ||
        dtype_is_float(weight->format->dtype))
        return;
    const Value *x = qdq_input(weight->product, 0);
    const RangeRow *range = plan->values[x->id].range;
    const bool own = weight->use->node == weight->product || group->numbers->tensor->rank == 2;
    if (!own || !range || range->name != x->name ||
        !qdq_drift_begin(weight->product, group->numbers->tensor, weight->axis, range,
                         qdq_plan_scale_of(plan, x->id) == x->id, scratch, &drift))
        return;
    drift.sums = ARENA_ARRAY(scratch, double, group->scale_count);
    VEC_PUSH(scratch, &group->numbers->drifts, drift);
}

/* What rounding on data has to know of it. Drifts are those of rounding to nearest. */
static void describe_rounded(QdqGroup *group, Arena *scratch) {
    QdqRounded *item = &group->rounded;
    *item = (QdqRounded){.value = group->weight->value,
                         .numbers = group->numbers,
                         .axis = group->weight->axis,
                         .scale_count = group->scale_count};
    for (const QdqWeight *weight = NULL; (weight = next_alike(group, weight));)
        VEC_PUSH(scratch, &item->products, weight->product);
    qdq_rounding_describe(item, scratch);
}

/* Room for what is found of it, where it is held. Streams need scales by channels as long as they live. */
static void make_room(QdqGroup *group, uint64_t *held, Arena *scratch) {
    QdqNumbers *n = group->numbers;
    Arena *arena = &group->store->ctx->model->arena;
    uint64_t size;
    dtype_bytes(n->layout.dtype, tensor_count(n->tensor), &size);
    *held += size + group->scale_count * (n->layout.block ? sizeof(float) : 0);
    const bool holds = *held <= HELD_MOST || !qdq_can_stream(&n->layout) || group->rounded.can;
    if (holds) n->bytes = arena_alloc_raw(arena, size); /* threads fill it, to the last byte */
    if (!holds && n->layout.block) return;
    n->scales = ARENA_ARRAY(holds ? scratch : arena, float, group->scale_count);
    n->zeros = ARENA_ARRAY(scratch, uint8_t, group->scale_count);
}

static void begin_numbers(QdqGroup *group, uint64_t *held, Arena *scratch) {
    QdqNumbers *n = group->numbers;
    Arena *arena = &group->store->ctx->model->arena;
    *n = (QdqNumbers){.tensor = constant_tensor(group->weight->value, arena)};
    n->layout = layout_of(group->weight, n->tensor);
    group->scale_count = qdq_scale_count(&n->layout);
    n->grid = dequantized_grid(n->tensor, &n->layout);
    if (group->store->on_data) describe_rounded(group, scratch);
    if (n->grid) group->rounded.can = false; /* nothing is rounded */
    make_room(group, held, scratch);
    if (!n->layout.block) n->least = least_scales(group, scratch);
    for (const QdqWeight *weight = NULL; (weight = next_alike(group, weight));)
        ask_drift(group, weight, scratch);
}

static void put_group(const QdqGroup *group, Arena *scratch) {
    if (group->weight->rows) {
        put_table(group, scratch);
        return;
    }
    put_weights(group, scratch);
    for (const QdqWeight *weight = NULL; (weight = next_alike(group, weight));)
        put_bias(group, weight, scratch);
}

/* True where no weight before this one is of its group. */
static bool is_first(const QdqPlan *plan, const uint32_t *heads, size_t i) {
    const QdqWeight *weight = &plan->weights.items[i];
    for (uint32_t k = heads[weight->value->id]; k != i + 1; k = plan->weights.items[k - 1].next) {
        const QdqWeight *other = &plan->weights.items[k - 1];
        if (other->format == weight->format && other->axis == weight->axis &&
            other->block == weight->block)
            return false;
    }
    return true;
}

/* From behind, since each goes first into its graph: they end up in their order. */
static void find_groups(QdqStore *store) {
    const QdqPlan *plan = store->plan;
    Arena *scratch = plan->scratch;
    uint32_t *heads = ARENA_ARRAY(scratch, uint32_t, plan->value_count);
    for (size_t i = plan->weights.count; i-- > 0;) {
        QdqWeight *weight = &plan->weights.items[i];
        weight->next = heads[weight->value->id];
        heads[weight->value->id] = (uint32_t)i + 1;
    }
    store->groups = ARENA_ARRAY(scratch, QdqGroup, plan->weights.count + 1);
    for (size_t i = plan->weights.count; i-- > 0;)
        if (is_first(plan, heads, i))
            store->groups[store->count++] =
                (QdqGroup){.store = store, .weight = &plan->weights.items[i]};
}

/* Of all that are not held. */
static void make_streams(const QdqStore *store) {
    QdqStreams *streams = NULL;
    for (size_t i = 0; i < store->count; i++) {
        QdqGroup *group = &store->groups[i];
        if (group->numbers->bytes) continue;
        if (!streams) streams = qdq_streams_new(&store->ctx->model->arena);
        group->stream = qdq_streams_add(streams, group->numbers);
    }
    if (streams) qdq_streams_begin(streams);
}

/* Once all are rounded to nearest. */
static bool round_on_data(const QdqStore *store, Err *err) {
    Arena *scratch = store->plan->scratch;
    if (!store->on_data) return true;
    QdqRounded *items = ARENA_ARRAY(scratch, QdqRounded, store->count + 1);
    for (size_t i = 0; i < store->count; i++) items[i] = store->groups[i].rounded;
    return qdq_rounding_run(store->ctx, items, store->count, err);
}

bool qdq_store_read(QdqStore *store, bool *broken, Err *err) {
    Arena *scratch = store->plan->scratch;
    bool all = true;
    uint64_t held = 0;
    find_groups(store);
    QdqNumbers *numbers = ARENA_ARRAY(scratch, QdqNumbers, store->count + 1);
    for (size_t i = 0; i < store->count; i++) {
        store->groups[i].numbers = &numbers[i];
        begin_numbers(&store->groups[i], &held, scratch);
    }
    if (!qdq_numbers_find(numbers, store->count, scratch, err)) return false;
    for (size_t i = 0; i < store->count; i++) {
        if (numbers[i].finite) continue;
        broken[store->groups[i].weight->value->id] = true;
        all = false;
    }
    store->sound = all;
    if (!all) return true;
    if (!round_on_data(store, err)) return false;
    make_streams(store);
    return true;
}

void qdq_store_put(const QdqStore *store) {
    Arena *arena = &store->ctx->model->arena;
    size_t exact = 0;
    for (size_t i = 0; i < store->count; i++) exact += store->groups[i].numbers->grid != NULL;
    if (exact)
        pass_remark(store->ctx->counts, arena,
                    arena_printf(arena,
                                 "%zu weight%s the same type and blocks before, so the numbers are "
                                 "not rounded again",
                                 exact, exact == 1 ? " had" : "s had"));
    for (size_t i = 0; i < store->count; i++) put_group(&store->groups[i], store->plan->scratch);
}
