// SPDX-License-Identifier: Apache-2.0
/* Counts by operator; see step_cost.h. Sizes are in double: a wrong shape gives a wrong number and
 * nothing worse. */
#include "step_cost.h"

#include "dtype.h"
#include "kernel.h"
#include "op_record.h"

static double count_of(const DemiData *value, uint32_t from) {
    if (value->kind != DEMI_DATA_TENSOR_KIND) return 0;
    double count = 1;
    for (uint32_t i = from; i < value->rank; i++) count *= (double)value->dims[i];
    return count;
}

static double bytes_of(const DemiData *value) {
    double bytes = 0;
    if (value->kind == DEMI_DATA_TENSOR_KIND)
        bytes = count_of(value, 0) * (double)kernel_element_size((Dtype)value->dtype);
    for (size_t i = 0; value->kind == DEMI_DATA_SEQUENCE_KIND && i < value->count; i++)
        bytes += bytes_of(&value->items[i]);
    return bytes;
}

/* The last one, or of a transposed left operand the one before. */
static double inner_dim(const DemiData *left, const DemiData *out) {
    uint32_t rank = left->rank;
    if (rank < 2 || out->rank < 2) return rank ? (double)left->dims[rank - 1] : 0;
    bool plain = left->dims[rank - 2] == out->dims[out->rank - 2];
    return (double)left->dims[plain ? rank - 1 : rank - 2];
}

/* Keys are [batch, length, hidden] or [batch, heads, length, size]; the past is of the latter form.
 */
static double key_count(const DemiStep *step) {
    enum { KEY = 1, PAST = 4 };
    const DemiData *key = &step->inputs[KEY];
    double count = key->rank >= 3 ? (double)key->dims[key->rank - 2] : 0;
    if (step->input_count > PAST && step->inputs[PAST].kind == DEMI_DATA_TENSOR_KIND &&
        step->inputs[PAST].rank == 4)
        count += (double)step->inputs[PAST].dims[2];
    return count;
}

static double multiplications(const DemiStep *step, const OpRecord *record) {
    if (step->input_count <= record->weights || step->output_count == 0) return 0;
    const DemiData *left = &step->inputs[0], *weights = &step->inputs[record->weights];
    const DemiData *out = &step->outputs[0];
    if (left->kind != DEMI_DATA_TENSOR_KIND || weights->kind != DEMI_DATA_TENSOR_KIND) return 0;
    double results = count_of(out, 0);
    switch ((OpWork)record->work) {
    case WORK_FEW:
    case WORK_MOVES:
    case WORK_OTHER: return 0;
    case WORK_CONV: return results * count_of(weights, 1);
    case WORK_DECONV: return count_of(left, 0) * count_of(weights, 1);
    case WORK_MATMUL: return results * inner_dim(left, out);
    case WORK_GEMM:
        return out->rank == 2 && out->dims[0] ? results * count_of(left, 0) / (double)out->dims[0]
                                              : 0;
    case WORK_ATTENTION: return (count_of(left, 0) + results) * key_count(step);
    case WORK_LAYER: {
        double all = count_of(weights, 0);
        if (step->input_count > 2) all += count_of(&step->inputs[2], 0);
        return left->rank == 3 ? (double)left->dims[0] * (double)left->dims[1] * all : 0;
    }
    }
    return 0;
}

StepCost step_cost(const DemiStep *step) {
    StepCost cost = {0, 0};
    for (size_t i = 0; i < step->input_count; i++) cost.bytes += bytes_of(&step->inputs[i]);
    for (size_t i = 0; i < step->output_count; i++) cost.bytes += bytes_of(&step->outputs[i]);
    const OpRecord *record = op_record_find(step->domain, step->op_type);
    if (record) cost.flops = 2 * multiplications(step, record);
    return cost;
}
