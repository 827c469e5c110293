// SPDX-License-Identifier: Apache-2.0
/* Counts by operator; see step_cost.h. Sizes are in double: a wrong shape gives a wrong number and
 * nothing worse. */
#include "step_cost.h"

#include <string.h>

#include "dtype.h"
#include "head_axes.h"
#include "kernel.h"
#include "op_attrs.h"
#include "op_record.h"

static double count_of(const DemiData *value, uint32_t from) {
    if (value->kind != DEMI_DATA_TENSOR_KIND) return 0;
    double count = 1;
    for (uint32_t i = from; i < value->rank; i++) count *= (double)value->dims[i];
    return count;
}

double step_value_bytes(const DemiData *value) {
    double bytes = 0;
    if (value->kind == DEMI_DATA_TENSOR_KIND)
        bytes = count_of(value, 0) * (double)kernel_element_size((Dtype)value->dtype);
    for (size_t i = 0; value->kind == DEMI_DATA_SEQUENCE_KIND && i < value->count; i++)
        bytes += step_value_bytes(&value->items[i]);
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

/* Of attention whose operands have their axes in any order. */
static double fused_attention(const DemiStep *step, const FusedAttentionAttrs *attrs) {
    enum { QUERIES, KEYS, PAST_KEYS = 5 };
    const AttrInts *const axes[] = {&attrs->q_axes, &attrs->k_axes};
    const DemiData *of[] = {&step->inputs[QUERIES], &step->inputs[KEYS]}, *past = NULL;
    double dims[2][HEAD_AXES];
    if (step->input_count > PAST_KEYS && step->inputs[PAST_KEYS].kind == DEMI_DATA_TENSOR_KIND)
        past = &step->inputs[PAST_KEYS];
    for (int i = 0; i < 2; i++) {
        HeadAxes found;
        if (!head_axes_find(axes[i], of[i]->rank, &found)) return 0;
        for (int k = 0; k < HEAD_AXES; k++)
            dims[i][k] = found.axis[k] < 0 ? 1 : (double)of[i]->dims[found.axis[k]];
        if (i == KEYS && past && past->rank == of[i]->rank && found.axis[HEAD_ROWS] >= 0)
            dims[i][HEAD_ROWS] += (double)past->dims[found.axis[HEAD_ROWS]];
    }
    const double results = count_of(&step->outputs[0], 0);
    const double queries = dims[0][HEAD_BATCH] * dims[0][HEAD_HEADS] * dims[0][HEAD_ROWS];
    return (queries * dims[0][HEAD_SIZE] + results) * dims[KEYS][HEAD_ROWS];
}

/* Places of a channels-last value, times `channels`. */
static double pixels(const DemiData *value, double channels) {
    const double last = value->rank ? (double)value->dims[value->rank - 1] : 0;
    return last > 0 ? count_of(value, 0) / last * channels : 0;
}

/* Y = U conv(V X): what is before the convolution has X's places, the rest those of Y. */
static double separable(const DemiStep *step) {
    enum { DATA = 0, FILTERS = 1, BEFORE = 3, BEHIND = 5 };
    const DemiData *out = &step->outputs[0];
    double all = pixels(out, count_of(&step->inputs[FILTERS], 0));
    if (step->input_count > BEFORE && step->inputs[BEFORE].kind == DEMI_DATA_TENSOR_KIND)
        all += pixels(&step->inputs[DATA], count_of(&step->inputs[BEFORE], 0));
    if (step->input_count > BEHIND && step->inputs[BEHIND].kind == DEMI_DATA_TENSOR_KIND)
        all += pixels(out, count_of(&step->inputs[BEHIND], 0));
    return all;
}

static double multiplications(const DemiStep *step, const OpRecord *record, const void *attrs) {
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
    case WORK_SEPARABLE: return separable(step);
    case WORK_ATTENTION:
        if (strcmp(record->domain, "demi.fused") == 0)
            return attrs ? fused_attention(step, attrs) : 0;
        return (count_of(left, 0) + results) * key_count(step);
    case WORK_LAYER: {
        double all = count_of(weights, 0);
        if (step->input_count > 2) all += count_of(&step->inputs[2], 0);
        return left->rank == 3 ? (double)left->dims[0] * (double)left->dims[1] * all : 0;
    }
    }
    return 0;
}

double step_multiplications(const DemiStep *step, const void *attrs) {
    const OpRecord *record = op_record_find(step->domain, step->op_type);
    return record ? multiplications(step, record, attrs) : 0;
}

StepCost step_cost(const DemiStep *step) {
    StepCost cost = {.flops = 2 * step->multiplications};
    for (size_t i = 0; i < step->input_count; i++) cost.bytes += step_value_bytes(&step->inputs[i]);
    for (size_t i = 0; i < step->output_count; i++)
        cost.bytes += step_value_bytes(&step->outputs[i]);
    return cost;
}
