// SPDX-License-Identifier: Apache-2.0
/* Tables that Gather picks rows of, such as the vectors of words.
 *
 *   y = Gather(table, i)  ->  y = DequantizeLinear(Gather(numbers, i), Gather(scales, i)), a block a row
 *
 * A DequantizeLinear before the Gather would make the whole table float in every run, as ONNX Runtime does it.
 * From opset 21 on scales may be by blocks of the last axis, and as many as there are rows. */
#include "qdq_table.h"

#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "qdq_node.h"
#include "qdq_plan.h"

enum { TABLE_LEAST = 1 << 12, INDICES = 1 };

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

/* The type of tables beside weights of that one. */
static Dtype table_dtype(const QdqRequest *request) {
    return request->weights == DTYPE_INT8 ? DTYPE_INT8 : request->others;
}

void qdq_table_take(QdqPlan *plan, Node *node) {
    Value *table = node->inputs[0].value;
    const Dtype dtype = table_dtype(&plan->request);
    const int64_t least = qdq_opset_of(DTYPE_INT8, true, true);
    if (dtype != DTYPE_INT8 || plan->request.broken[table->id] || table->referenced ||
        opset_version(node->graph->opsets, NULL) < least)
        return;
    for (const Use *use = table->uses; use; use = use->next)
        if (!use->node || use->index || !picks_rows(use->node) || !qdq_record(plan, use->node) ||
            opset_version(use->node->graph->opsets, NULL) < least)
            return;
    const QdqWeight weight = {.value = table,
                              .use = &node->inputs[0],
                              .product = node,
                              .dtype = dtype,
                              .rows = true,
                              .axis = 1,
                              .block = (uint64_t)qdq_dim(table, 1)};
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

void qdq_table_put(PassCtx *ctx, Node *gather, const QdqTable *table) {
    Value *numbers = pick(ctx, gather, table->numbers, "quantized");
    Value *scales = pick(ctx, gather, table->scales, "scale");
    Node *node = node_new(gather->graph, gather,
                          sym_intern_cstr(&ctx->model->syms, "DequantizeLinear"), NULL);
    node_resize_inputs(node, 2);
    node_set_input(node, 0, numbers);
    node_set_input(node, 1, scales);
    node_set_attr_int(node, "axis", -1);
    node_set_attr_int(node, "block_size", (int64_t)table->block);
    node_add_metadata(node, OWN_QUANTIZER, table_mark);
    take_place(gather, node);
    ctx->counts->rewrites++;
}

/* ---- undoing --------------------------------------------------------------------------------- */

static bool is_of_rows(const Node *node, const Node *numbers, const Node *scales) {
    return picks_rows(numbers) && picks_rows(scales) &&
           numbers->inputs[INDICES].value == scales->inputs[INDICES].value &&
           value_is_constant(numbers->inputs[0].value) &&
           value_is_constant(scales->inputs[0].value) && qdq_rank(numbers->inputs[0].value) == 2 &&
           qdq_rank(scales->inputs[0].value) == 2 && node_attr_int(node, "block_size", 0) > 0;
}

Node *qdq_table_join(PassCtx *ctx, Node *node) {
    if (!node_is_own_quantizer(node) ||
        !sym_equals(node_metadata(node, OWN_QUANTIZER), table_mark) || node->input_count != 2)
        return NULL;
    Node *numbers = node->inputs[0].value->producer, *scales = node->inputs[1].value->producer;
    if (!numbers || !scales || !is_of_rows(node, numbers, scales)) return NULL;
    Value *stored = numbers->inputs[0].value;
    const QdqOperands operands = {scales->inputs[0].value, NULL, 1,
                                  (uint64_t)node_attr_int(node, "block_size", 0)};
    Value *table = qdq_value(ctx, stored, "table", type_dtype(node->outputs[0]->type));
    Node *made = qdq_insert(ctx, "DequantizeLinear", stored, &operands, table);
    node_add_metadata(made, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    Node *gather = node_new(node->graph, node, numbers->op_type, NULL);
    node_share_lists(gather, numbers);
    node_resize_inputs(gather, 2);
    node_set_input(gather, 0, table);
    node_set_input(gather, INDICES, numbers->inputs[INDICES].value);
    take_place(node, gather);
    node_remove(numbers);
    if (scales != numbers) node_remove(scales);
    return made;
}
