// SPDX-License-Identifier: Apache-2.0
/* See channel_paths.h. */
#include "channel_paths.h"

#include "constants.h"

/* ---- constants ------------------------------------------------------------------------------- */

/* Whether its tensor may be another one, of which nothing else takes note. */
static bool is_free(const ChannelPath *path, const Value *value) {
    return value && value->init && !value->input && value->use_count == 1 && !value->referenced &&
           type_dtype(value_type(value)) == DTYPE_FLOAT && fuse_constant(path->fuse, value);
}

/* A number for each channel, of a value with that many axes, along that one. */
static bool is_vector(const ChannelPath *path, const Value *value, int64_t rank, int64_t axis) {
    const int64_t own = value ? fuse_rank(value) : -1;
    if (own < 1 || own > rank || axis < rank - own) return false;
    for (int64_t i = 0; i < own; i++) {
        const int64_t size = i == axis - (rank - own) ? (int64_t)path->channels : 1;
        if (fuse_dim(value, i) != size) return false;
    }
    return true;
}

static bool take_vector(ChannelPath *path, Value *value, int64_t rank, int64_t axis) {
    const Scaled at = {.value = value, .each = 1, .count = path->channels};
    if (!is_free(path, value) || !is_vector(path, value, rank, axis)) return false;
    VEC_PUSH(path->fuse->ctx->scratch, &path->divided, at);
    return true;
}

/* ---- the layer ------------------------------------------------------------------------------- */

bool weight_order_find(const Node *node, WeightOrder *order) {
    const OpRecord *record = fuse_record(node);
    const Value *w = fuse_input(node, 1);
    const int64_t rank = w ? fuse_rank(w) : -1;
    if (!record || rank < 2 || record->weights != 1 || !fuse_input(node, 0)) return false;
    *order = (WeightOrder){.taps = 1, .groups = 1};
    const uint64_t first = (uint64_t)fuse_dim(w, 0), second = (uint64_t)fuse_dim(w, 1);
    switch ((OpChannels)record->channels) {
    case CHANNELS_FIRST:
        order->outputs_first = true;
        for (int64_t i = 2; i < rank; i++) order->taps *= (uint64_t)fuse_dim(w, i);
        order->groups = (uint64_t)node_attr_int(node, "group", 1);
        break;
    case CHANNELS_TRANS_B:
        if (node_attr_int(node, "transA", 0)) return false;
        order->outputs_first = node_attr_int(node, "transB", 0);
        break;
    case CHANNELS_LAST: break;
    case CHANNELS_NONE:
    case CHANNELS_SECOND:
    case CHANNELS_EQUATION: return false;
    }
    order->outputs = order->outputs_first ? first : second;
    order->inputs = order->outputs_first ? second : first;
    return (rank == 2 || record->channels == CHANNELS_FIRST) && order->groups > 0 &&
           order->outputs > 0 && order->inputs > 0 && order->taps > 0 &&
           order->outputs % order->groups == 0;
}

uint64_t weight_order_output(const WeightOrder *order, uint64_t k) {
    return order->outputs_first ? k / (order->inputs * order->taps) : k % order->outputs;
}

uint64_t weight_order_input(const WeightOrder *order, uint64_t k) {
    return order->outputs_first ? k / order->taps % order->inputs : k / order->outputs;
}

static bool begin_product(ChannelPath *path, const Node *node) {
    WeightOrder order;
    if (!weight_order_find(node, &order)) return false;
    path->product = true;
    path->channels = order.outputs;
    const Scaled weights = {.value = fuse_input(node, 1),
                            .each = order.outputs_first ? order.inputs * order.taps : 1,
                            .count = order.outputs};
    if (!is_free(path, weights.value)) return false;
    VEC_PUSH(path->fuse->ctx->scratch, &path->divided, weights);
    const uint32_t bias = fuse_record(node)->bias;
    Value *added = bias ? fuse_input(node, bias) : NULL;
    const int64_t rank = fuse_rank(node->outputs[0]);
    const bool filters = fuse_record(node)->channels == CHANNELS_FIRST;
    if (rank < 1) return false;
    return !added || take_vector(path, added, filters ? 1 : rank, filters ? 0 : rank - 1);
}

static bool begin_norm(ChannelPath *path, const Node *node) {
    enum { SCALE = 1, SHIFT };
    const bool batch = fuse_is(node, "BatchNormalization") && fuse_is_inference(node);
    const bool rows = (fuse_is(node, "LayerNormalization") || fuse_is(node, "RMSNormalization")) &&
                      node_attr_int(node, "axis", -1) == -1 && node->output_count == 1;
    Value *scale = fuse_input(node, SCALE), *shift = fuse_input(node, SHIFT);
    if ((!batch && !rows) || !scale || fuse_rank(scale) != 1 || fuse_dim(scale, 0) < 1)
        return false;
    path->channels = (uint64_t)fuse_dim(scale, 0);
    return take_vector(path, scale, 1, 0) && (!shift || take_vector(path, shift, 1, 0));
}

/* Which axis of what a layer reads or gives has the channels. */
static int64_t axis_of(const Node *layer, const Value *value) {
    const OpRecord *record = fuse_record(layer);
    const bool second = record->channels == CHANNELS_FIRST || fuse_is(layer, "BatchNormalization");
    return second ? 1 : fuse_rank(value) - 1;
}

/* The one axis along which a constant of channels has more than one element, from the front of a value of that rank; -1
 * where there is none, or more. */
static int64_t vector_axis(const Value *by, int64_t rank) {
    const int64_t own = fuse_rank(by);
    int64_t axis = -1;
    for (int64_t i = 0; i < own; i++) {
        if (fuse_dim(by, i) == 1) continue;
        if (axis >= 0) return -1;
        axis = rank - own + i;
    }
    return axis;
}

static bool begin_mul(ChannelPath *path, const Node *node) {
    if (!fuse_is(node, "Mul") || !fuse_input(node, 1)) return false;
    const uint32_t index = value_is_constant(fuse_input(node, 1));
    Value *by = fuse_input(node, index);
    const int64_t rank = fuse_rank(node->outputs[0]);
    if (!value_is_constant(by) || fuse_rank(fuse_input(node, !index)) != rank) return false;
    path->axis = vector_axis(by, rank);
    path->channels = path->axis < 0 ? 0 : (uint64_t)fuse_dim(node->outputs[0], path->axis);
    return path->axis >= 0 && take_vector(path, by, rank, path->axis);
}

/* ---- the way --------------------------------------------------------------------------------- */

static bool follow(ChannelPath *path, Value *value, int64_t axis);

static bool take_reader(ChannelPath *path, const Use *use, int64_t axis) {
    WeightOrder order;
    if (use->index != 0 || !weight_order_find(use->node, &order) ||
        order.inputs * order.groups != path->channels || axis_of(use->node, use->value) != axis)
        return false;
    const bool grouped = order.groups > 1;
    const PathReader reader = {use->node,
                               {.value = fuse_input(use->node, 1),
                                .each = order.outputs_first ? order.taps : order.outputs,
                                .count = grouped ? order.outputs * order.inputs : path->channels,
                                .grouped = grouped},
                               axis};
    if (!is_free(path, reader.weights.value)) return false;
    VEC_PUSH(path->fuse->ctx->scratch, &path->readers, reader);
    return true;
}

/* A constant that is added to channels is divided, too; one that multiplies them is not. */
static bool pass_constant(ChannelPath *path, const Node *node, const Value *value, int64_t axis) {
    const bool adds = fuse_is(node, "Add"), multiplies = fuse_is(node, "Mul");
    Value *other = adds || multiplies ? fuse_other(node, value) : NULL;
    const int64_t rank = fuse_rank(value);
    if (!other || !value_is_constant(other) || !fuse_takes(other)) return false;
    if (adds) return take_vector(path, other, rank, axis);
    return is_vector(path, other, rank, axis) || fuse_rank(other) == 0;
}

static bool pass_node(ChannelPath *path, const Use *use, const Value *value, int64_t axis) {
    const OpRecord *record = fuse_record(use->node);
    const int64_t rank = fuse_rank(value);
    const bool homogeneous =
        op_record_has(record, OP_HOMOGENEOUS) && use->index == 0 &&
        (record->layout == LAYOUT_EACH || (axis == 1 && rank > 2) || fuse_is(use->node, "Dropout"));
    if (!homogeneous && !pass_constant(path, use->node, value, axis)) return false;
    return fuse_rank(use->node->outputs[0]) == rank && follow(path, use->node->outputs[0], axis);
}

/* Finds all that reads the value, with channels along that axis. */
static bool follow(ChannelPath *path, Value *value, int64_t axis) {
    if (axis < 0 || fuse_dim(value, axis) != (int64_t)path->channels || !value->use_count ||
        !fuse_is_inner(value))
        return false;
    VEC_PUSH(path->fuse->ctx->scratch, &path->values, value);
    for (const Use *use = value->uses; use; use = use->next)
        if (!take_reader(path, use, axis) && !pass_node(path, use, value, axis)) return false;
    return true;
}

bool channel_path_find(Fuse *fuse, Node *layer, ChannelPath *path) {
    if (!fuse_input(layer, 0) || !fuse_record(layer)) return false;
    *path = (ChannelPath){.fuse = fuse, .from = layer->outputs[0], .layer = layer};
    if (begin_product(path, layer) || begin_norm(path, layer))
        path->axis = axis_of(layer, layer->outputs[0]);
    else if (!begin_mul(path, layer))
        return false;
    return follow(path, layer->outputs[0], path->axis);
}

bool channel_path_into(Fuse *fuse, Value *value, const bool *taken, ChannelPath *path) {
    WeightOrder order;
    *path = (ChannelPath){.fuse = fuse, .from = value};
    if (type_dtype(value_type(value)) != DTYPE_FLOAT || value_is_constant(value)) return false;
    for (const Use *use = value->uses; use; use = use->next) {
        if (!use->node || taken[use->node->id] || !weight_order_find(use->node, &order)) continue;
        if (!path->readers.count) {
            path->channels = order.inputs * order.groups;
            path->axis = axis_of(use->node, value);
        }
        take_reader(path, use, path->axis);
    }
    return path->readers.count && path->axis >= 0 &&
           fuse_dim(value, path->axis) == (int64_t)path->channels;
}

uint64_t channel_path_at(const ChannelPath *path, const Scaled *at, uint64_t element) {
    const uint64_t i = element / at->each;
    if (!at->grouped) return i % path->channels;
    const Tensor *tensor = at->value->init;
    const uint64_t own = (uint64_t)tensor->dims[1], rows = (uint64_t)tensor->dims[0];
    return i / own / (rows / (path->channels / own)) * own + i % own;
}
