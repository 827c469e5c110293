// SPDX-License-Identifier: Apache-2.0
/* See weight_storage.h. */
#include "weight_storage.h"

static bool try_format(const MeasuredModel *model, const Value *weights, const Candidate *candidate,
                       const QuantizedFormat *format, WeightStorage *found) {
    const Node *product = model->works[weights->id]->node;
    const OpRecord *record = op_record_find("", product->op_type->text);
    if (!format || !record) return false;
    QdqWeight weight = {.value = (Value *)(uintptr_t)weights,
                        .format = format,
                        .axis = qdq_weight_axis(product, record, weights)};
    const bool integers = candidate->value_format && record->quantized == QUANTIZED_PRODUCT;
    if (qdq_weight_layout(model->request, record, integers, &weight)) return false;
    *found = (WeightStorage){format, weight.axis, weight.block};
    return true;
}

bool weight_storage_find(const MeasuredModel *model, const Value *weights,
                         const Candidate *candidate, WeightStorage *found) {
    *found = (WeightStorage){NULL, -1, 0};
    return !candidate->weight_format ||
           try_format(model, weights, candidate, candidate->weight_format, found) ||
           try_format(model, weights, candidate, candidate->other_weights, found);
}

Dtype weight_storage_type(const MeasuredModel *model, const Value *weights,
                          const Candidate *candidate) {
    WeightStorage layout;
    weight_storage_find(model, weights, candidate, &layout);
    return layout.format ? layout.format->dtype : candidate->weights;
}
