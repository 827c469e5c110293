// SPDX-License-Identifier: Apache-2.0
/* Which constant is a product's weights, and how it is to be stored; see qdq_plan.h. */
#include "constants.h"
#include "op_types.h"
#include "qdq_plan.h"
#include "qdq_scale.h"

int32_t qdq_weight_axis(const Node *node, const OpRecord *record, const Value *weights) {
    const int64_t rank = qdq_rank(weights);
    switch ((OpChannels)record->channels) {
    case CHANNELS_NONE: break;
    case CHANNELS_FIRST: return rank > 0 ? 0 : -1;
    case CHANNELS_SECOND: return rank > 1 ? 1 : -1;
    case CHANNELS_LAST: return rank > 1 ? (int32_t)rank - 1 : -1;
    case CHANNELS_EQUATION: return qdq_equation_axis(node, weights);
    case CHANNELS_TRANS_B: return rank == 2 ? !node_attr_int(node, "transB", 0) : -1;
    }
    return -1;
}

Use *qdq_bias_use(const Node *product) {
    const OpRecord *record = node_record(product);
    if (!record) return NULL;
    if (record->bias)
        return qdq_input(product, record->bias) ? &product->inputs[record->bias] : NULL;
    const Value *y = product->outputs[0];
    Node *sum = y && y->use_count == 1 ? y->uses->node : NULL;
    const OpRecord *added = sum ? node_record(sum) : NULL;
    const bool pair =
        added && added->quantized == QUANTIZED_PAIR && op_record_has(added, OP_LINEAR | OP_STEADY);
    return pair && sum->input_count == 2 ? &sum->inputs[1 - y->uses->index] : NULL;
}

/* Where the product reads its weights; NULL where the use is no such one, or the node stays float. */
static const OpRecord *weights_read_by(const QdqPlan *plan, const Use *use) {
    const OpRecord *record = use->node ? qdq_record(plan, use->node) : NULL;
    const bool product = record && (record->quantized == QUANTIZED_PRODUCT ||
                                    record->quantized == QUANTIZED_WEIGHTS);
    return product && use->index == qdq_weights_operand(use->node, record) &&
                   qdq_is_float(qdq_input(use->node, 0))
               ? record
               : NULL;
}

/* Whether such weights can have scales by blocks of what is summed, which those of 4 bits must. */
static bool has_blocks(const OpRecord *record, const Value *weights) {
    return qdq_rank(weights) == 2 &&
           (record->channels == CHANNELS_LAST || record->channels == CHANNELS_TRANS_B);
}

/* Whether all that read the value read it as weights, with the same axis of channels: what they read
 * may be rounded, and one scale fits all. */
static bool weights_alike(const QdqPlan *plan, const Value *value) {
    const int64_t rank = qdq_rank(value);
    const Use *first = value->uses;
    const OpRecord *record = first ? weights_read_by(plan, first) : NULL;
    if (!record || value->referenced || rank <= 0) return false;
    const int32_t axis = qdq_weight_axis(first->node, record, value);
    const bool blocks = has_blocks(record, value);
    for (const Use *use = first->next; use; use = use->next) {
        record = weights_read_by(plan, use);
        if (!record || qdq_weight_axis(use->node, record, value) != axis ||
            has_blocks(record, value) != blocks)
            return false;
    }
    return true;
}

/* A Transpose of a constant that products alone read, as exporters write a layer that is applied
 * several times. */
static bool turns(const QdqPlan *plan, const Value *value) {
    const Node *turn = value->producer;
    if (!turn || !sym_equals(turn->op_type, "Transpose")) return false;
    QdqNode *at = &plan->nodes[turn->id];
    if (at->turn == QDQ_TURN_UNKNOWN) {
        const bool constant =
            qdq_record(plan, turn) && qdq_input(turn, 0) && value_is_constant(qdq_input(turn, 0));
        at->turn = constant && weights_alike(plan, value) ? QDQ_TURN_WEIGHTS : QDQ_TURN_OTHER;
    }
    return at->turn != QDQ_TURN_OTHER;
}

bool qdq_turn_axis(const Node *turn, int64_t rank, int32_t *axis) {
    uint32_t count = 0;
    const Attr *attr = node_attr(turn, "perm");
    const int64_t *perm = attr_ints(attr, &count);
    if (*axis < 0) return true;
    if (!attr) {
        *axis = (int32_t)(rank - 1 - *axis);
        return true;
    }
    if (!perm || count != (uint32_t)rank || perm[*axis] < 0 || perm[*axis] >= rank) return false;
    *axis = (int32_t)perm[*axis];
    return true;
}

Dtype qdq_weight_stored(const Value *weights) {
    const Node *node = weights ? weights->producer : NULL;
    if (node && sym_equals(node->op_type, "Transpose"))
        node = qdq_input(node, 0) ? qdq_input(node, 0)->producer : NULL;
    const Value *stored =
        node && sym_equals(node->op_type, "DequantizeLinear") ? qdq_input(node, 0) : NULL;
    return stored && value_is_constant(stored) ? type_dtype(stored->type) : DTYPE_UNDEFINED;
}

static const char *fault_of(const QdqPlan *plan, const Value *value) {
    if (!value_is_constant(value)) {
        if (qdq_weight_stored(value))
            return arena_printf(&plan->model->arena, "its weights are %s already",
                                dtype_name(qdq_weight_stored(value)));
        if (value->trained) return "training updates its weights";
        if (value->input && value->init)
            return "its weights are the default value of an input, which --freeze-inputs makes "
                   "constant";
        return "its weights are computed";
    }
    const Tensor *tensor = constant_tensor(value, plan->scratch);
    if (!tensor || !qdq_is_float(value) || !tensor_check(tensor, NULL))
        return "its weights are not a tensor of float32, float16, or bfloat16";
    if (tensor_count(tensor) == 0) return "its weights are empty";
    return plan->request.broken[value->id] ? "its weights are not finite" : NULL;
}

/* Of the sizes that may be chosen, that one, or the first that divides the depth; `block` where any may. 0 where
 * there is none. */
static uint64_t fitting_block(const QdqRequest *request, uint64_t block, int64_t depth) {
    if (!request->blocks[0]) return depth > 0 && (uint64_t)depth < block ? (uint64_t)depth : block;
    for (int i = 0; depth > 0 && i < QDQ_BLOCKS_MOST && request->blocks[i]; i++) {
        const bool asked = !request->block || request->blocks[i] == request->block;
        if (asked && (uint64_t)depth % request->blocks[i] == 0) return request->blocks[i];
    }
    return 0;
}

/* Blocks of the format's own size; a runtime that chooses among sizes takes those alone that divide the depth. */
static uint64_t own_block(const QdqRequest *request, uint64_t block, int64_t depth) {
    return request->blocks[0] && (depth <= 0 || (uint64_t)depth % block) ? 0 : block;
}

/* By what is summed instead of by channels, where the weights are a matrix. */
static const char *choose_blocks(const QdqRequest *request, const OpRecord *record,
                                 QdqWeight *weight) {
    const QuantizedFormat *format = weight->format;
    const uint64_t block = request->block ? request->block : format->block;
    const bool matrix = weight->axis >= 0 && has_blocks(record, weight->value);
    if (!matrix && format->block)
        return "only the weights of matrix products can have scales by blocks";
    if (!matrix || !block) return NULL;
    const int64_t depth = qdq_dim(weight->value, 1 - weight->axis);
    /* OpenVINO takes blocks that divide the depth alone: those that would be longer do */
    weight->block = format->scales ? own_block(request, format->block, depth)
                                   : fitting_block(request, block, depth);
    if (!weight->block) return "no block size that the runtime takes divides what is summed";
    weight->axis = 1 - weight->axis;
    return NULL;
}

bool qdq_weight_find(const QdqPlan *plan, Node *node, const OpRecord *record, QdqWeight *weight,
                     const char **blame) {
    const uint32_t operand = qdq_weights_operand(node, record);
    Value *value = qdq_input(node, operand);
    weight->product = node;
    weight->use = &node->inputs[operand];
    weight->axis = qdq_weight_axis(node, record, value);
    if (!value_is_constant(value) && turns(plan, value)) {
        if (!qdq_turn_axis(value->producer, qdq_rank(value), &weight->axis)) return false;
        weight->use = &value->producer->inputs[0];
        value = weight->use->value;
    }
    weight->value = value;
    *blame = fault_of(plan, value);
    return !*blame;
}

/* Whether what the product multiplies its weights by is quantized. */
static bool reads_integers(const QdqPlan *plan, const Node *node, const OpRecord *record) {
    const Value *x = qdq_input(node, 0);
    if (record->quantized != QUANTIZED_PRODUCT || !x) return false;
    return dtype_is_integer(plan->request.activations) ||
           dtype_is_integer(plan->values[x->id].dtype);
}

const char *qdq_weight_layout(const QdqRequest *request, const OpRecord *record, bool integers,
                              QdqWeight *weight) {
    const bool filters = record->channels == CHANNELS_FIRST || record->channels == CHANNELS_SECOND;
    const bool whole = request->per_tensor || (request->conv_channels && !filters) ||
                       (request->integer_channels && dtype_is_float(weight->format->dtype));
    if (whole && !weight->format->block) weight->axis = -1;
    if (integers && qdq_rank(weight->value) > 2 && record->channels == CHANNELS_LAST)
        weight->axis =
            -1; /* ONNX Runtime's kernels of integers take no other of a batch of matrices */
    return choose_blocks(request, record, weight);
}

bool qdq_weight_take(QdqPlan *plan, Node *node, const QuantizedFormat *format, const char **blame) {
    const QdqRequest *request = &plan->request;
    const OpRecord *record = node_record(node);
    QdqWeight weight = {.format = format};
    if (!qdq_weight_find(plan, node, record, &weight, blame)) return false;
    const int64_t opset = opset_version(weight.value->graph->opsets, NULL);
    *blame = qdq_weight_layout(request, record, reads_integers(plan, node, record), &weight);
    if (*blame && request->others) {
        weight.format = format = request->others;
        *blame = choose_blocks(request, record, &weight);
    }
    if (*blame) return false;
    if (weight.axis >= 0 && !weight.block && opset < qdq_opset_of(DTYPE_INT8, true, false))
        weight.axis = -1;
    const int64_t least = qdq_opset_of_weights(format, type_dtype(weight.value->type),
                                               weight.axis >= 0, weight.block);
    if (opset < least) {
        *blame = arena_printf(&plan->model->arena,
                              "%s weights are illegal at opset %d; legal from opset %d",
                              dtype_name(format->dtype), (int)opset, (int)least);
        return false;
    }
    if (weight.use->node != node) {
        QdqNode *turn = &plan->nodes[weight.use->node->id];
        weight.again = turn->turn == QDQ_TURN_TAKEN;
        turn->turn = QDQ_TURN_TAKEN;
    }
    VEC_PUSH(plan->scratch, &plan->weights, weight);
    return true;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static bool is_copy(const QdqPlan *plan, const Node *node) {
    const Value *from = qdq_input(node, 0), *to = node->output_count == 1 ? node->outputs[0] : NULL;
    return from && to && sym_equals(node->op_type, "Identity") && qdq_record(plan, node) &&
           qdq_is_float(from) && value_is_constant(from) && from->graph == node->graph;
}

/* A product's weights, or what a Transpose turns for products. */
static bool is_weight(const QdqPlan *plan, const Use *use) {
    if (!use->node) return false;
    if (weights_read_by(plan, use)) return true;
    return sym_equals(use->node->op_type, "Transpose") && use->node->output_count == 1 &&
           use->node->outputs[0] && qdq_record(plan, use->node) &&
           weights_alike(plan, use->node->outputs[0]);
}

void qdq_skip_copies(QdqPlan *plan) {
    for (size_t g = 0; g < plan->graphs.count; g++)
        for (Node *node = plan->graphs.items[g]->first, *after; node; node = after) {
            after = node_after(node);
            if (!is_copy(plan, node)) continue;
            Value *copy = node->outputs[0];
            for (Use *use = copy->uses, *next; use; use = next) {
                next = use->next;
                if (is_weight(plan, use) && use_graph(use) == node->graph)
                    use_set(use, node->inputs[0].value);
            }
            if (copy->uses || copy->referenced) continue;
            plan->values[copy->id].value = NULL;
            node_remove(node);
        }
}
