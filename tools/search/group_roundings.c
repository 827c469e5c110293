// SPDX-License-Identifier: Apache-2.0
/* See group_roundings.h. */
#include "group_roundings.h"

#include "constants.h"
#include "qdq_drift.h"
#include "qdq_plan.h"
#include "qdq_scale.h"
#include "weight_storage.h"

/* Whether insert-qdq has a bias make up for what rounding adds to the weights' sums (qdq_store.c): it
 * knows what the product's other factor is on average where that is quantized, too. */
static bool is_made_up_for(const Node *product, const Value *weights, Dtype activations) {
    int32_t axis;
    const Use *bias = dtype_is_integer(activations) ? qdq_bias_use(product) : NULL;
    return bias && value_is_constant(bias->value) &&
           qdq_operand_channels(product, (uint32_t)qdq_rank(weights), &axis);
}

/* The sizes before, along and behind the axis; of one scale for all it is one place. */
static void set_sizes(Rounding *rounding, const Type *shape, int32_t axis) {
    rounding->outer = rounding->inner = 1;
    rounding->axis = axis < 0 ? 1 : (uint64_t)shape->dims[axis].size;
    for (int32_t i = 0; i < (int32_t)shape->rank; i++)
        if (i != axis)
            *(i < axis ? &rounding->outer : &rounding->inner) *= (uint64_t)shape->dims[i].size;
}

static Rounding of_weights(const MeasuredModel *model, const Value *weights,
                           const Candidate *candidate, Arena *arena) {
    const Type *shape = value_shaped_type(weights);
    const Node *product = model->works[weights->id]->node;
    Rounding rounding = {.type = candidate->weights, .outer = 1, .inner = 1};
    WeightStorage layout;
    weight_storage_find(model, weights, candidate, &layout);
    if (!layout.format || !shape) return rounding;
    rounding.type = layout.format->dtype;
    rounding.format = layout.format;
    rounding.block = layout.block;
    set_sizes(&rounding, shape, layout.axis);
    rounding.even = layout.axis >= 0 && !layout.block && !model->request->float_biases &&
                    is_made_up_for(product, weights, candidate->activations);
    const QdqWeights sizes = {.outer = rounding.outer,
                              .axis = rounding.axis,
                              .inner = rounding.inner,
                              .block = rounding.block,
                              .dtype = rounding.type};
    const uint64_t scales = qdq_scale_count(&sizes);
    rounding.scales = ARENA_ARRAY(arena, float, scales + 1);
    if (!rounding_is_stored(rounding.type)) return rounding;
    rounding.zeros = ARENA_ARRAY(arena, uint8_t, scales + 1);
    rounding.bytes =
        ARENA_ARRAY(arena, unsigned char, rounding.outer *rounding.axis *rounding.inner + 1);
    return rounding;
}

static Rounding of_values(const MeasuredModel *model, const Value *value,
                          const Candidate *candidate, const GroupRanges *ranges) {
    const Dtype type = candidate->activations;
    Rounding rounding = {.type = type, .symmetric = model->request->symmetric};
    if (ranges && candidate->value_format) {
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
    const bool rounds =
        candidate->activations != DTYPE_FLOAT && !(group->keeps_values && candidate->value_format);
    for (size_t i = 0; rounds && i < group->values.count; i++) {
        const Value *value = group->values.items[i];
        VEC_PUSH(arena, &found,
                 ((GroupRounding){value, of_values(model, value, candidate, ranges)}));
    }
    for (size_t i = 0; candidate->weights != DTYPE_FLOAT && i < group->weights.count; i++) {
        const Value *value = group->weights.items[i];
        VEC_PUSH(arena, &found,
                 ((GroupRounding){value, of_weights(model, value, candidate, arena)}));
    }
    return found;
}
