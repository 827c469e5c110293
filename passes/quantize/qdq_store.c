// SPDX-License-Identifier: Apache-2.0
/* See qdq_store.h. Uses of one constant that want the same of it are one group, and read one
 * DequantizeLinear. Where they are all that reads the constant, it is gone, and the result has its
 * name; else a second one is put beside it. */
#include "qdq_store.h"

#include "constants.h"
#include "op_types.h"
#include "qdq_node.h"

/* A bias is a sum of products, of which the scale is that of both factors. Weights of a channel get
 * a scale with which its bias fits into 32 bits. */
static const double BIAS_MOST = 2147483000;

typedef struct Group {
    const QdqStore *store;
    QdqWeight *weight; /* the first; all others are like it */
    const Tensor *tensor;
    QdqWeights numbers; /* its elements are read while it is stored */
    float *scales;
    uint8_t *zeros;
    uint64_t scale_count;
    Value *stored, *scale, *zero;
} Group;

/* ---- constants beside their float ones ------------------------------------------------------- */

/* Makes `result` what the uses read: `value` itself where they are all, else a new one. */
static Value *take_over(PassCtx *ctx, Value *value, size_t uses) {
    if (!value->referenced && value->use_count == uses) return value;
    return qdq_value(ctx, value, "dequantized", DTYPE_FLOAT);
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

/* A constant that all readers have left. */
static void drop_unread(Value *value) {
    if (value->uses || value->referenced || !value_is_constant(value)) return;
    if (value->producer)
        node_remove(value->producer);
    else
        graph_remove_initializer(value);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The weight of the group that comes after `weight`, whose use is the first where it is NULL; NULL
 * at the end. */
static const QdqWeight *next_alike(const Group *group, const QdqWeight *weight) {
    const QdqWeight *first = group->weight;
    const QdqPlan *plan = group->store->plan;
    if (!weight) return first;
    for (uint32_t i = weight->next; i; i = plan->weights.items[i - 1].next) {
        const QdqWeight *other = &plan->weights.items[i - 1];
        if (other->dtype == first->dtype && other->axis == first->axis &&
            other->block == first->block)
            return other;
    }
    return NULL;
}

static void set_layout(Group *group) {
    const Tensor *tensor = group->tensor;
    const QdqWeight *weight = group->weight;
    QdqWeights *w = &group->numbers;
    *w = (QdqWeights){
        .outer = 1, .axis = 1, .inner = 1, .block = weight->block, .dtype = weight->dtype};
    if (weight->axis < 0) w->inner = tensor_count(tensor);
    for (uint32_t i = 0; weight->axis >= 0 && i < tensor->rank; i++) {
        const uint64_t dim = (uint64_t)tensor->dims[i];
        if (i < (uint32_t)weight->axis) w->outer *= dim;
        if (i == (uint32_t)weight->axis) w->axis = dim;
        if (i > (uint32_t)weight->axis) w->inner *= dim;
    }
    group->scale_count = qdq_scale_count(w);
}

/* What reads the bias of the weight's product: the product itself, or a sum that is all that reads
 * it and is part of it. NULL where there is none. */
static Use *bias_use(const QdqPlan *plan, const QdqWeight *weight) {
    const OpRecord *record = weight->product ? node_record(weight->product) : NULL;
    if (!record) return NULL;
    if (record->bias) {
        const bool there = qdq_input(weight->product, record->bias);
        return there ? &weight->product->inputs[record->bias] : NULL;
    }
    const Value *y = weight->product->outputs[0];
    Node *sum = y->use_count == 1 ? y->uses->node : NULL;
    const OpRecord *added = sum ? node_record(sum) : NULL;
    if (!added || plan->nodes[sum->id].role != QDQ_FOLDED || added->quantized != QUANTIZED_PAIR)
        return NULL;
    return &sum->inputs[1 - y->uses->index];
}

/* The bias of the weight's product as floats, one for each channel or several times as many; NULL
 * where it is none that can be stored as integers. */
static const float *read_bias(const Group *group, const QdqWeight *weight, Arena *scratch,
                              uint64_t *count) {
    const QdqStore *store = group->store;
    const Use *use = bias_use(store->plan, weight);
    const Value *bias = use ? use->value : NULL, *x = bias ? qdq_input(weight->product, 0) : NULL;
    float alpha = 1, beta = 1;
    if (!bias || !value_is_constant(bias) || weight->block || !(store->scales[x->id].scale > 0) ||
        dtype_is_float(weight->dtype))
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
static float *least_scales(const Group *group, Arena *scratch) {
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

static void find_scales(Group *group, Arena *scratch) {
    QdqWeights *w = &group->numbers;
    if (w->block)
        qdq_find_block_scales(w, group->scales, group->zeros);
    else
        qdq_find_channel_scales(w, least_scales(group, scratch), group->scales);
}

/* Scales as a tensor: none for all, one for each channel, or as the weights with fewer along the
 * axis. */
static Tensor *scale_tensor(const Group *group, Dtype dtype, const void *bytes, uint64_t size) {
    Arena *arena = &group->store->ctx->model->arena;
    const Tensor *of = group->tensor;
    const QdqWeight *weight = group->weight;
    const int64_t count = (int64_t)group->scale_count;
    if (weight->axis < 0) return tensor_new_raw(arena, dtype, NULL, 0, bytes, size);
    if (!weight->block) return tensor_new_raw(arena, dtype, &count, 1, bytes, size);
    int64_t *dims = ARENA_ARRAY(arena, int64_t, of->rank);
    for (uint32_t i = 0; i < of->rank; i++) dims[i] = of->dims[i];
    const uint64_t dim = (uint64_t)dims[weight->axis];
    dims[weight->axis] = (int64_t)((dim + weight->block - 1) / weight->block);
    return tensor_new_raw(arena, dtype, dims, of->rank, bytes, size);
}

/* Zero points say the type, and some readers want them. */
static Tensor *zero_tensor(const Group *group, Arena *scratch) {
    const Dtype dtype = group->weight->dtype;
    uint64_t size;
    dtype_bytes(dtype, group->scale_count, &size);
    uint8_t *bytes = ARENA_ARRAY(scratch, uint8_t, size + 1);
    for (uint64_t i = 0; dtype == DTYPE_UINT4 && i < group->scale_count; i++)
        bytes[i / 2] |= (uint8_t)(group->zeros[i] << i % 2 * 4);
    return scale_tensor(group, dtype, bytes, size);
}

/* A tensor of the constant's dims whose bytes are still to be filled. */
static Tensor *stored_tensor(const Group *group, unsigned char **bytes) {
    Arena *arena = &group->store->ctx->model->arena;
    Tensor *tensor = tensor_new_raw(arena, group->weight->dtype, group->tensor->dims,
                                    group->tensor->rank, NULL, 0);
    dtype_bytes(group->weight->dtype, tensor_count(group->tensor), &tensor->size);
    *bytes = arena_alloc(arena, tensor->size);
    tensor->bytes = *bytes;
    return tensor;
}

static size_t count_uses(const Group *group) {
    size_t uses = 0;
    for (const QdqWeight *weight = NULL; (weight = next_alike(group, weight));) uses++;
    return uses;
}

/* The DequantizeLinear, and all uses of the group on its result. */
static void put_weights(Group *group, const Tensor *stored, Arena *scratch) {
    PassCtx *ctx = group->store->ctx;
    Value *value = group->weight->value;
    Value *result = take_over(ctx, value, count_uses(group));
    group->stored = put_stored(ctx, value, result, stored);
    group->scale = qdq_constant(
        ctx, value, "scale",
        scale_tensor(group, DTYPE_FLOAT, group->scales, group->scale_count * sizeof(float)));
    group->zero = qdq_constant(ctx, value, "zero_point", zero_tensor(group, scratch));
    const QdqOperands operands = {group->scale, group->zero, group->weight->axis,
                                  group->weight->block};
    Node *node = qdq_insert(ctx, "DequantizeLinear", group->stored, &operands, result);
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    const QdqWeight *weight = NULL;
    while (result != value && (weight = next_alike(group, weight))) use_set(weight->use, result);
    drop_unread(value);
}

/* ---- biases ---------------------------------------------------------------------------------- */

static void put_bias(const Group *group, const QdqWeight *weight, Arena *scratch) {
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
        scales[i] = x * group->scales[i % group->scale_count];
    for (uint64_t i = 0; i < scale_count; i++)
        if (!(scales[i] > 0)) return;
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
        one ? -1 : 0, 0};
    Node *node = qdq_insert(ctx, "DequantizeLinear", stored, &operands, result);
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    if (result != value) use_set(use, result);
    drop_unread(value);
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool store_group(Group *group, Err *err) {
    Arena *scratch = arena_child(group->store->ctx->scratch);
    unsigned char *bytes;
    group->tensor = constant_tensor(group->weight->value, &group->store->ctx->model->arena);
    const uint64_t count = tensor_count(group->tensor);
    float *items = ARENA_ARRAY(scratch, float, count);
    if (!tensor_read_floats(group->tensor, 0, count, items, err)) return false;
    set_layout(group);
    group->numbers.items = items;
    group->scales = ARENA_ARRAY(scratch, float, group->scale_count);
    group->zeros = ARENA_ARRAY(scratch, uint8_t, group->scale_count);
    find_scales(group, scratch);
    Tensor *stored = stored_tensor(group, &bytes);
    qdq_store_weights(&group->numbers, group->scales, group->zeros, bytes);
    put_weights(group, stored, scratch);
    for (const QdqWeight *weight = NULL; (weight = next_alike(group, weight));)
        put_bias(group, weight, scratch);
    arena_free(scratch);
    return true;
}

/* True where no weight before this one is of its group. */
static bool is_first(const QdqPlan *plan, const uint32_t *heads, size_t i) {
    const QdqWeight *weight = &plan->weights.items[i];
    for (uint32_t k = heads[weight->value->id]; k != i + 1; k = plan->weights.items[k - 1].next) {
        const QdqWeight *other = &plan->weights.items[k - 1];
        if (other->dtype == weight->dtype && other->axis == weight->axis &&
            other->block == weight->block)
            return false;
    }
    return true;
}

/* From behind, since each goes first into its graph: they end up in their order. */
bool qdq_store_all(const QdqStore *store, Err *err) {
    const QdqPlan *plan = store->plan;
    uint32_t *heads = ARENA_ARRAY(plan->scratch, uint32_t, plan->value_count);
    for (size_t i = plan->weights.count; i-- > 0;) {
        QdqWeight *weight = &plan->weights.items[i];
        weight->next = heads[weight->value->id];
        heads[weight->value->id] = (uint32_t)i + 1;
    }
    for (size_t i = plan->weights.count; i-- > 0;) {
        Group group = {.store = store, .weight = &plan->weights.items[i]};
        if (is_first(plan, heads, i) && !store_group(&group, err)) return false;
    }
    return true;
}
