// SPDX-License-Identifier: Apache-2.0
/* See group_roundings.h. */
#include "group_roundings.h"

#include "constants.h"
#include "qdq_drift.h"
#include "qdq_plan.h"
#include "qdq_scale.h"

/* Whether insert-qdq has a bias make up for what rounding adds to the weights' sums (qdq_store.c): it
 * knows what the product's other factor is on average where that is quantized, too. */
static bool is_made_up_for(const Node *product, const Value *weights, Dtype activations) {
    int32_t axis;
    const Use *bias = dtype_is_integer(activations) ? qdq_bias_use(product) : NULL;
    return bias && value_is_constant(bias->value) &&
           qdq_operand_channels(product, (uint32_t)qdq_rank(weights), &axis);
}

/* As insert-qdq stores weights by name: a scale a channel, and of 4 bits a scale for as many of what is
 * summed, where that is one axis of two. */
static Rounding of_weights(const MeasuredModel *model, const Value *weights,
                           const Candidate *candidate, Arena *arena) {
    const Dtype type = candidate->weights;
    const Type *shape = value_shaped_type(weights);
    const GroupWork *work = model->works[weights->id];
    Rounding rounding = {.type = type, .outer = 1, .inner = 1};
    if (dtype_is_float(type) || !shape) return rounding;
    const OpRecord *record = op_record_find("", work->node->op_type->text);
    int32_t axis = qdq_weight_axis(work->node, record, weights);
    const bool blocks = quantized_needs_blocks(type) && shape->rank == 2;
    if (blocks) axis = 1 - axis;
    rounding.block = blocks ? quantized_format(type)->block : 0;
    for (int32_t i = 0; i < (int32_t)shape->rank; i++) {
        uint64_t *size = axis < 0 || i < axis ? &rounding.outer
                         : i == axis          ? &rounding.axis
                                              : &rounding.inner;
        *size = i == axis ? (uint64_t)shape->dims[i].size : *size * (uint64_t)shape->dims[i].size;
    }
    rounding.even =
        axis >= 0 && !blocks && is_made_up_for(work->node, weights, candidate->activations);
    if (!rounding.axis) { /* one scale for all */
        rounding.axis = 1;
        rounding.inner = rounding.outer;
        rounding.outer = 1;
    }
    const QdqWeights sizes = {.outer = rounding.outer,
                              .axis = rounding.axis,
                              .inner = rounding.inner,
                              .block = rounding.block,
                              .dtype = type};
    rounding.scales = ARENA_ARRAY(arena, float, qdq_scale_count(&sizes) + 1);
    return rounding;
}

static Rounding of_values(const Value *value, Dtype type, const GroupRanges *ranges) {
    Rounding rounding = {.type = type};
    if (ranges && dtype_is_integer(type)) {
        const ValueRange ends = group_range(ranges, value->id, type).ends;
        rounding.low = ends.low;
        rounding.high = ends.high;
    }
    return rounding;
}

GroupRoundings group_roundings(const MeasuredModel *model, const Group *group,
                               const Candidate *candidate, const GroupRanges *ranges,
                               Arena *arena) {
    GroupRoundings found = {0};
    const bool rounds = candidate->activations != DTYPE_FLOAT &&
                        !(group->keeps_values && dtype_is_integer(candidate->activations));
    for (size_t i = 0; rounds && i < group->values.count; i++) {
        const Value *value = group->values.items[i];
        VEC_PUSH(arena, &found,
                 ((GroupRounding){value, of_values(value, candidate->activations, ranges)}));
    }
    for (size_t i = 0; candidate->weights != DTYPE_FLOAT && i < group->weights.count; i++) {
        const Value *value = group->weights.items[i];
        VEC_PUSH(arena, &found,
                 ((GroupRounding){value, of_weights(model, value, candidate, arena)}));
    }
    return found;
}
