// SPDX-License-Identifier: Apache-2.0
/* See stored_weights.h. Layouts are compared, not numbers: what is stored with that type and those blocks loses by being
 * rounded once more, whoever chose its scales. */
#include "stored_weights.h"

#include "constants.h"
#include "op_types.h"
#include "qdq_node.h"
#include "qdq_table.h"
#include "wide_weights.h"

static StoredAs worse(StoredAs a, StoredAs b) {
    return a > b ? a : b;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool has_zeros_alone(const Value *zero, Arena *scratch) {
    const Tensor *tensor = zero ? constant_tensor(zero, scratch) : NULL;
    if (!zero) return true;
    if (!tensor || !tensor_check(tensor, NULL)) return false;
    const uint64_t size = tensor_raw_size(tensor);
    uint8_t *bytes = arena_alloc(scratch, size + 1);
    if (!tensor_read_raw(tensor, 0, bytes, size, NULL)) return false;
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i]) return false;
    return true;
}

/* The type itself, or, of one with zero points, the signed one, which needs none. */
static bool is_type(const QuantizedFormat *format, Dtype dtype) {
    return dtype == format->dtype || dtype == quantized_format_without_zeros(format)->dtype;
}

/* Scales are constants, or quantized themselves. */
static bool has_scales(const QuantizedFormat *format, const Value *scales) {
    const Node *producer = value_is_constant(scales) ? NULL : scales->producer;
    if (!producer)
        return !format->two_level &&
               (format->scales ? type_dtype(scales->type) == format->scales : qdq_is_float(scales));
    return format->two_level && qdq_input(producer, 0) &&
           type_dtype(qdq_input(producer, 0)->type) == format->scales;
}

/* ---- DequantizeLinear ------------------------------------------------------------------------ */

static bool has_one_scale(const Value *scales) {
    const Type *type = value_shaped_type(scales);
    for (uint32_t i = 0; type && i < type->rank; i++)
        if (type->dims[i].kind != DIM_KNOWN || type->dims[i].size != 1) return false;
    return type;
}

/* Scales for fewer places do as well: they say no more when they are found anew. */
static bool has_layout(const Node *dequantize, const QdqWeight *weight) {
    const int64_t block = node_attr_int(dequantize, "block_size", 0);
    int64_t axis = node_attr_int(dequantize, "axis", 1);
    if (axis < 0) axis += qdq_rank(weight->value);
    if (weight->block) return (uint64_t)block == weight->block && axis == weight->axis;
    return !block &&
           (has_one_scale(qdq_input(dequantize, 1)) || (weight->axis >= 0 && axis == weight->axis));
}

static StoredAs compare(const QdqWeight *weight, const Node *dequantize, Arena *scratch) {
    const Value *stored = qdq_input(dequantize, 0), *zero = qdq_input(dequantize, 2);
    const Dtype dtype = type_dtype(stored->type);
    const bool free = weight->format->zeros && dtype == weight->format->dtype;
    const bool same = is_type(weight->format, dtype) &&
                      has_scales(weight->format, qdq_input(dequantize, 1)) &&
                      (free || has_zeros_alone(zero, scratch)) && has_layout(dequantize, weight);
    return same ? STORED_WANTED : STORED_OTHERWISE;
}

/* What a product is computed of besides its weights was made float of integers. */
static bool reads_integers(const Node *product, uint32_t weights) {
    const Value *x = qdq_input(product, weights ? 0 : 1);
    const Node *made = x ? x->producer : NULL;
    return made && sym_equals(made->op_type, "DequantizeLinear") && qdq_input(made, 0) &&
           !value_is_constant(qdq_input(made, 0));
}

/* The opset has what storing weights so takes; scales by channel are one for all where it has none. */
static bool is_legal(const QdqWeight *weight, const Graph *graph) {
    const int64_t opset = opset_version(graph->opsets, NULL);
    const bool axis =
        weight->block || (weight->axis >= 0 && opset >= qdq_opset_of(DTYPE_INT8, true, false));
    return opset >= qdq_opset_of_weights(weight->format, type_dtype(weight->value->type), axis,
                                         weight->block);
}

/* Of a product that reads the result, or a Transpose of it. */
static StoredAs of_product(const QdqRequest *request, const Node *dequantize, const Use *use,
                           const Node *turn, Arena *scratch) {
    const Node *node = use->node;
    const OpRecord *record = node && node_schema(node) ? node_record(node) : NULL;
    if (!record || use->index != qdq_weights_operand(node, record) ||
        (record->quantized != QUANTIZED_PRODUCT && record->quantized != QUANTIZED_WEIGHTS))
        return STORED_NOT;
    QdqWeight weight = {.value = dequantize->outputs[0],
                        .format = request->weights,
                        .axis = qdq_weight_axis(node, record, use->value)};
    if (reads_integers(node, use->index)) return STORED_INTEGERS;
    if ((turn && !qdq_turn_axis(turn, qdq_rank(use->value), &weight.axis)) ||
        qdq_weight_layout(request, record, false, &weight) || !is_legal(&weight, node->graph))
        return STORED_NOT;
    return compare(&weight, dequantize, scratch);
}

static StoredAs of_gather(const QdqRequest *request, const Node *dequantize, const Use *use,
                          Arena *scratch) {
    const QuantizedFormat *format = qdq_table_format(request);
    QdqWeight weight = {.value = dequantize->outputs[0], .format = format, .axis = 1};
    const int64_t opset = opset_version(use->node->graph->opsets, NULL);
    if (!format || use->index || !qdq_is_table(use->value) || !qdq_picks_rows(use->node) ||
        opset < qdq_table_opset(request))
        return STORED_NOT;
    if (format->block)
        weight.block = QDQ_TABLE_BLOCK;
    else
        weight.axis = 0;
    return compare(&weight, dequantize, scratch);
}

StoredAs stored_dequantized(const QdqRequest *request, const Node *dequantize, Arena *scratch) {
    StoredAs found = STORED_WANTED;
    const Value *result = dequantize->outputs[0];
    if (!result->uses || result->referenced) return STORED_NOT;
    for (const Use *use = result->uses; use; use = use->next) {
        const Node *node = use->node;
        if (!node || !domain_is_default(node->domain)) return STORED_NOT;
        const bool turns = sym_equals(node->op_type, "Transpose") && node->outputs[0]->uses;
        if (sym_equals(node->op_type, "Gather"))
            found = worse(found, of_gather(request, dequantize, use, scratch));
        else if (!turns)
            found = worse(found, of_product(request, dequantize, use, NULL, scratch));
        for (const Use *next = turns ? node->outputs[0]->uses : NULL; next; next = next->next)
            found = worse(found, of_product(request, dequantize, next, node, scratch));
    }
    return found;
}

/* ---- operators that have them ---------------------------------------------------------------- */

/* A product's weights become a matrix [K, N]. */
static StoredAs of_wide_product(const QdqRequest *request, const Node *node) {
    const int64_t depth = node_attr_int(node, "K", 0);
    QdqWeight weight = {.value = node->outputs[0], .format = request->weights, .axis = 0};
    weight.block = request->block ? request->block : weight.format->block;
    if (request->blocks[0] && weight.format->block) {
        uint64_t fits = 0;
        for (int i = 0; i < QDQ_BLOCKS_MOST && request->blocks[i] && !fits; i++)
            if (depth > 0 && (uint64_t)depth % request->blocks[i] == 0) fits = request->blocks[i];
        if (!fits) return STORED_NOT;
    }
    return is_legal(&weight, node->graph) ? STORED_OTHERWISE : STORED_NOT;
}

static StoredAs of_wide_table(const QdqRequest *request, const Node *node) {
    const QuantizedFormat *format = qdq_table_format(request);
    const Value *numbers = qdq_input(node, 0);
    const int64_t bits = node_attr_int(node, "bits", 4),
                  axis = node_attr_int(node, "quantize_axis", 1);
    const int64_t opset = opset_version(node->graph->opsets, NULL);
    if (!format || !numbers || qdq_rank(numbers) != 2 || node_attr_int(node, "gather_axis", 0) ||
        opset < qdq_table_opset(request))
        return STORED_NOT;
    const bool same = request->tables == QDQ_TABLES_BLOCKS && format->block && bits == 4 &&
                      (axis == 1 || axis == -1) &&
                      node_attr_int(node, "block_size", 128) == QDQ_TABLE_BLOCK;
    return same ? STORED_WANTED : STORED_OTHERWISE;
}

StoredAs stored_in_operator(const QdqRequest *request, const Node *node) {
    if (wide_weights_are_of_product(node)) return of_wide_product(request, node);
    return sym_equals(node->op_type, QDQ_BLOCKS_OP) ? of_wide_table(request, node) : STORED_NOT;
}

StoredAs stored_in_table(const QdqRequest *request, const Node *last) {
    const QuantizedFormat *format = qdq_table_format(request);
    const bool packed = sym_equals(node_metadata(last, OWN_QUANTIZER), QDQ_MARK_PACKED);
    if (!format) return STORED_NOT;
    if (!packed) return format->block ? STORED_OTHERWISE : STORED_WANTED;
    return format->block && request->tables == QDQ_TABLES_PACKED ? STORED_WANTED : STORED_OTHERWISE;
}
