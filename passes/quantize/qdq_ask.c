// SPDX-License-Identifier: Apache-2.0
/* What the files of this room ask of nodes and values; see qdq_plan.h. */
#include <math.h>

#include "constants.h"
#include "op_types.h"
#include "qdq_plan.h"

enum { OUTPUT_DTYPE = 23 }; /* the opset from which on DequantizeLinear has that attribute */

const OpRecord *qdq_record(const QdqPlan *plan, const Node *node) {
    if (plan->nodes[node->id].kind != NOTE_NONE) return NULL;
    if (plan->model->functions.count && model_find_function(plan->model, node)) return NULL;
    return node_schema(node) ? node_record(node) : NULL;
}

Value *qdq_input(const Node *node, uint32_t i) {
    return i < node->input_count ? node->inputs[i].value : NULL;
}

bool qdq_is_float(const Value *value) {
    const Dtype dtype = value ? type_dtype(value->type) : DTYPE_UNDEFINED;
    return value && value_type(value)->kind == TYPE_TENSOR &&
           (dtype == DTYPE_FLOAT || dtype_is_reduced(dtype));
}

int64_t qdq_rank(const Value *value) {
    const Type *type = value_shaped_type(value);
    return type ? (int64_t)type->rank : -1;
}

int64_t qdq_dim(const Value *value, int64_t axis) {
    const Type *type = value_shaped_type(value);
    if (!type || axis < 0 || axis >= (int64_t)type->rank) return -1;
    const Dim *dim = &type->dims[axis];
    return dim->kind == DIM_KNOWN && dim->size >= 0 ? dim->size : -1;
}

/* Whether that version of DequantizeLinear takes it; QuantizeLinear gives it from the same opset on. */
static bool takes(const OpSchema *schema, Dtype dtype, bool axis, bool block) {
    return type_set_has(op_param_types(schema, &schema->inputs[0]), OPTYPE_TENSOR, dtype) &&
           (!axis || op_schema_attr(schema, "axis")) &&
           (!block || op_schema_attr(schema, "block_size"));
}

int64_t qdq_opset_of(Dtype dtype, bool axis, bool block) {
    int64_t first = INT64_MAX;
    const OpSchema *schema = ops_find("", "DequantizeLinear", OPS_OPSET_ONNX);
    for (; schema; schema = ops_find("", "DequantizeLinear", schema->since - 1))
        if (takes(schema, dtype, axis, block)) first = schema->since;
    return first;
}

/* The same for scales of this type. */
static int64_t opset_of_scale(Dtype floats) {
    int64_t first = INT64_MAX;
    const OpSchema *schema = ops_find("", "DequantizeLinear", OPS_OPSET_ONNX);
    for (; schema; schema = ops_find("", "DequantizeLinear", schema->since - 1))
        if (type_set_has(op_param_types(schema, &schema->inputs[1]), OPTYPE_TENSOR, floats))
            first = schema->since;
    return first;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t qdq_opset_of_weights(const QuantizedFormat *format, Dtype floats, bool axis, bool block) {
    const int64_t least = qdq_opset_of(format->dtype, axis, block);
    if (!format->scales) return later(least, opset_of_scale(floats));
    /* which are not the result's type: DequantizeLinear has to say that */
    const int64_t numbers = later(least, OUTPUT_DTYPE);
    return later(numbers, format->two_level ? qdq_opset_of(format->scales, false, false)
                                            : opset_of_scale(format->scales));
}

static bool has_range(const QdqPlan *plan, const Value *value) {
    const RangeRow *range = plan->values[value->id].range;
    return range && isfinite(range->low) && isfinite(range->high);
}

bool qdq_can(const QdqPlan *plan, const Value *value) {
    const Dtype dtype = plan->request.activations;
    if (!dtype || !qdq_is_float(value) || value_is_constant(value) || value->graph->function)
        return false;
    const int64_t opset = opset_version(value->graph->opsets, NULL);
    return has_range(plan, value) && opset >= qdq_opset_of(dtype, false, false) &&
           opset >= opset_of_scale(type_dtype(value->type));
}
