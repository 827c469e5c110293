// SPDX-License-Identifier: Apache-2.0
/* Tables that Gather picks rows of, such as the vectors of words.
 *
 *   y = Gather(table, i)  ->  y = Mul(Cast(Gather(numbers, i)), Gather(scales, i)), a scale a row
 *
 * A DequantizeLinear before the Gather would make the whole table float in every run, as ONNX Runtime does it. One
 * behind it would have to have blocks of a constant size, which OpenVINO does not take of what is computed. */
#include "qdq_table.h"

#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "qdq_node.h"
#include "qdq_plan.h"

enum {
    TABLE_LEAST = 1 << 12,
    TABLE_BLOCK = 32,
    INDICES = 1,
    MUL_BROADCASTS = 7 /* the opset from which on it does */
};

static const char table_mark[] = "rows";

/* ---- which they are -------------------------------------------------------------------------- */

static bool is_gather(const Node *node) {
    return node && sym_equals(node->op_type, "Gather") && domain_is_default(node->domain) &&
           node->input_count == 2 && node->inputs[0].value && node->inputs[INDICES].value &&
           node->output_count == 1 && node->outputs[0] &&
           !model_find_function(node->graph->model, node);
}

/* Of the first axis. */
static bool picks_rows(const Node *node) {
    const int64_t axis = node_attr_int(node, "axis", 0);
    const Attr *attr = node_attr(node, "axis");
    return is_gather(node) && !(attr && attr->ref) &&
           (axis == 0 || axis == -qdq_rank(node->inputs[0].value));
}

bool qdq_reads_table(const Node *node) {
    const Value *table = is_gather(node) ? node->inputs[0].value : NULL;
    if (!table || !value_is_constant(table) || !qdq_is_float(table) || qdq_rank(table) != 2 ||
        !picks_rows(node))
        return false;
    const int64_t rows = qdq_dim(table, 0), columns = qdq_dim(table, 1);
    return rows > 0 && columns > 0 && columns <= INT32_MAX && rows >= TABLE_LEAST / columns;
}

/* Of 4 bits, by blocks; else by rows, of 8. */
static bool has_blocks(const QdqRequest *request) {
    const Dtype dtype = request->weights ? request->weights->dtype : DTYPE_UNDEFINED;
    return request->block_tables && dtype_is_integer(dtype) && dtype_bits(dtype) == 4;
}

static bool is_int8(const QuantizedFormat *format) {
    return format && format->dtype == DTYPE_INT8;
}

/* The format of tables beside the weights' one. */
static const QuantizedFormat *table_format(const QdqRequest *request) {
    if (has_blocks(request)) return request->weights;
    const bool alone = is_int8(request->weights) && !request->activations;
    return alone ? request->weights
                 : request->others; /* beside values, it is asked for: it costs accuracy */
}

enum { STEPS_MOST = 8 };

/* Whether what is computed is multiplied by the value, as by the cosines of rotary positions: rounding that turns
 * what it is a factor of. `steps` movements may yet be followed. */
static bool is_factor(const QdqPlan *plan, const Value *value, int steps) {
    for (const Use *use = value->uses; use; use = use->next) {
        const Node *node = use->node;
        const OpRecord *record = node ? qdq_record(plan, node) : NULL;
        if (!record) continue;
        if (sym_equals(node->op_type, "Mul")) {
            const Value *other = qdq_input(node, 1 - use->index);
            if (other && !value_is_constant(other)) return true;
        } else if (record->quantized == QUANTIZED_MOVE || record->quantized == QUANTIZED_JOIN) {
            for (uint32_t i = 0; steps && i < node->output_count; i++)
                if (node->outputs[i] && is_factor(plan, node->outputs[i], steps - 1)) return true;
        }
    }
    return false;
}

void qdq_table_take(QdqPlan *plan, Node *node) {
    Value *table = node->inputs[0].value;
    const QuantizedFormat *format = table_format(&plan->request);
    const bool blocks = has_blocks(&plan->request);
    if (plan->request.float_tables || (!is_int8(format) && !blocks) ||
        plan->request.broken[table->id] || table->referenced)
        return;
    for (const Use *use = table->uses; use; use = use->next)
        if (!use->node || use->index || !picks_rows(use->node) || !qdq_record(plan, use->node) ||
            opset_version(use->node->graph->opsets, NULL) < MUL_BROADCASTS ||
            is_factor(plan, use->node->outputs[0], STEPS_MOST))
            return;
    const QdqWeight weight = {.value = table,
                              .use = &node->inputs[0],
                              .product = node,
                              .format = format,
                              .rows = true,
                              .axis = 1,
                              .block = blocks ? TABLE_BLOCK : (uint64_t)qdq_dim(table, 1)};
    VEC_PUSH(plan->scratch, &plan->weights, weight);
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* A Gather like that one, of another table: its result has y's dims, but for the last. */
static Value *pick(PassCtx *ctx, Node *gather, Value *table, const char *suffix) {
    Arena *arena = &ctx->model->arena;
    const Value *y = gather->outputs[0];
    const Type *of = value_shaped_type(y), *from = value_shaped_type(table);
    Value *picked = qdq_value(ctx, y, suffix, type_dtype(table->type));
    if (of && from && of->rank) {
        Dim *dims = ARENA_ARRAY(arena, Dim, of->rank);
        memcpy(dims, of->dims, of->rank * sizeof *dims);
        dims[of->rank - 1] = from->dims[1];
        value_set_type(picked, type_new_shaped(arena, type_dtype(table->type), dims, of->rank));
    }
    Node *node = node_new(gather->graph, gather, gather->op_type, NULL);
    node_share_lists(node, gather);
    node_resize_inputs(node, 2);
    node_resize_outputs(node, 1);
    node_set_input(node, 0, table);
    node_set_input(node, INDICES, gather->inputs[INDICES].value);
    node_set_output(node, 0, picked);
    node->name = picked->name;
    return picked;
}

/* `made` gives what `node` gave, and has its name. */
static void take_place(Node *node, Node *made) {
    Value *result = node->outputs[0];
    made->name = node->name;
    made->note = node->note;
    node_set_output(node, 0, NULL);
    node_resize_outputs(made, 1);
    node_set_output(made, 0, result);
    node_remove(node);
}

/* A node of two operands at most before `before`, which gives `result`. */
static Node *node_of(PassCtx *ctx, Node *before, const char *op, Value *const operands[2]) {
    Node *node = node_new(before->graph, before, sym_intern_cstr(&ctx->model->syms, op), NULL);
    const uint32_t count = operands[1] ? 2 : 1;
    node_resize_inputs(node, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, operands[i]);
    return node;
}

static const char blocks_op[] = "GatherBlockQuantized", blocks_domain[] = "com.microsoft";

/* The numbers, of blocks, are made float by an operator of ONNX Runtime's. */
static void put_blocks(PassCtx *ctx, Node *gather, const QdqTable *table) {
    Model *model = ctx->model;
    const Sym domain = sym_intern_cstr(&model->syms, blocks_domain);
    Value *const operands[] = {table->numbers, gather->inputs[INDICES].value, table->scales,
                               table->zeros};
    const uint32_t count = table->zeros ? 4 : 3;
    if (opset_version(gather->graph->opsets, domain) < 1)
        model_import_opset(model, gather->graph->opsets, domain, 1);
    Node *node = node_new(gather->graph, gather, sym_intern_cstr(&model->syms, blocks_op), domain);
    node_resize_inputs(node, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, operands[i]);
    node_set_attr_int(node, "gather_axis", 0);
    node_set_attr_int(node, "quantize_axis", 1);
    node_set_attr_int(node, "block_size", (int64_t)table->block);
    node_add_metadata(node, OWN_QUANTIZER, table_mark);
    take_place(gather, node);
    ctx->counts->rewrites++;
}

void qdq_table_put(PassCtx *ctx, Node *gather, const QdqTable *table) {
    if (table->block) {
        put_blocks(ctx, gather, table);
        return;
    }
    Value *numbers = pick(ctx, gather, table->numbers, "quantized");
    Value *scales = pick(ctx, gather, table->scales, "scale");
    const Dtype floats = type_dtype(scales->type);
    Value *wide = qdq_value(ctx, gather->outputs[0], "number", floats);
    Node *cast = node_of(ctx, gather, "Cast", (Value *const[2]){numbers, NULL});
    node_set_attr_int(cast, "to", floats); /* as it is spelled from opset 6 on */
    cast->name = wide->name;
    node_resize_outputs(cast, 1);
    node_set_output(cast, 0, wide);
    Node *product = node_of(ctx, gather, "Mul", (Value *const[2]){wide, scales});
    node_add_metadata(product, OWN_QUANTIZER, table_mark);
    take_place(gather, product);
    ctx->counts->rewrites++;
}

/* ---- undoing --------------------------------------------------------------------------------- */

static Node *gather_of(const Value *value) {
    Node *node = value ? value->producer : NULL;
    return node && picks_rows(node) && value_is_constant(node->inputs[0].value) &&
                   qdq_rank(node->inputs[0].value) == 2
               ? node
               : NULL;
}

/* The float table of those constants behind a DequantizeLinear, and a Gather of it in the node's place. */
static Node *join(PassCtx *ctx, Node *node, const QdqTable *table, Value *indices) {
    const QdqOperands operands = {table->scales, table->zeros, 1, table->block, DTYPE_UNDEFINED};
    Value *made = qdq_value(ctx, table->numbers, "table", type_dtype(node->outputs[0]->type));
    Node *dequantize = qdq_insert(ctx, "DequantizeLinear", table->numbers, &operands, made);
    node_add_metadata(dequantize, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    take_place(node, node_of(ctx, node, "Gather", (Value *const[2]){made, indices}));
    return dequantize;
}

/* Of blocks, as anybody may have put it; NULL where it is none. */
static Node *join_blocks(PassCtx *ctx, Node *node) {
    if (!sym_equals(node->op_type, blocks_op) || !sym_equals(node->domain, blocks_domain) ||
        node->input_count < 3 || model_find_function(ctx->model, node))
        return NULL;
    QdqTable table = {node->inputs[0].value, node->inputs[2].value,
                      node->input_count > 3 ? node->inputs[3].value : NULL,
                      (uint64_t)node_attr_int(node, "block_size", 128)};
    const int64_t axis = node_attr_int(node, "quantize_axis", 1);
    const Dtype dtype = type_dtype(table.numbers->type);
    if (!value_is_constant(table.numbers) || !value_is_constant(table.scales) ||
        (table.zeros && !value_is_constant(table.zeros)) || dtype_bits(dtype) != 4 ||
        qdq_rank(table.numbers) != 2 || node_attr_int(node, "gather_axis", 0) ||
        (axis != 1 && axis != -1) || !type_dtype(node->outputs[0]->type))
        return NULL;
    return join(ctx, node, &table, node->inputs[INDICES].value);
}

/* Of rows, as put here. */
static Node *join_rows(PassCtx *ctx, Node *node) {
    if (!node_is_own_quantizer(node) || node->input_count != 2 ||
        !sym_equals(node_metadata(node, OWN_QUANTIZER), table_mark))
        return NULL;
    Node *cast = node->inputs[0].value->producer, *scales = gather_of(node->inputs[1].value);
    Node *numbers = node_is_cast(cast) ? gather_of(cast->inputs[0].value) : NULL;
    if (!numbers || !scales || numbers->inputs[INDICES].value != scales->inputs[INDICES].value)
        return NULL;
    const int64_t columns = qdq_dim(numbers->inputs[0].value, 1);
    const QdqTable table = {numbers->inputs[0].value, scales->inputs[0].value, NULL,
                            (uint64_t)columns};
    if (columns < 1 || type_dtype(table.scales->type) != type_dtype(node->outputs[0]->type))
        return NULL;
    Node *made = join(ctx, node, &table, numbers->inputs[INDICES].value);
    node_remove(cast);
    node_remove(numbers);
    node_remove(scales);
    return made;
}

Node *qdq_table_join(PassCtx *ctx, Node *node) {
    Node *made = join_blocks(ctx, node);
    return made ? made : join_rows(ctx, node);
}
