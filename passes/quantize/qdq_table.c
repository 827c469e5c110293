// SPDX-License-Identifier: Apache-2.0
/* Tables that Gather picks rows of, such as the vectors of words.
 *
 *   y = Gather(table, i)  ->  y = Mul(Cast(Gather(numbers, i)), Gather(scales, i)), a scale a row
 *
 * A DequantizeLinear before the Gather would make the whole table float in every run, as ONNX Runtime does it. One
 * behind it would have to have blocks of a constant size, which OpenVINO does not take of what is computed. */
#include "qdq_table.h"

#include <string.h>

#include "cast_node.h"
#include "constants.h"
#include "op_types.h"
#include "qdq_node.h"
#include "qdq_plan.h"

enum {
    TABLE_LEAST = 1 << 12,
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

/* The type of tables beside weights of that one. */
static Dtype table_dtype(const QdqRequest *request) {
    return request->weights == DTYPE_INT8 ? DTYPE_INT8 : request->others;
}

void qdq_table_take(QdqPlan *plan, Node *node) {
    Value *table = node->inputs[0].value;
    const Dtype dtype = table_dtype(&plan->request);
    if (dtype != DTYPE_INT8 || plan->request.broken[table->id] || table->referenced) return;
    for (const Use *use = table->uses; use; use = use->next)
        if (!use->node || use->index || !picks_rows(use->node) || !qdq_record(plan, use->node) ||
            opset_version(use->node->graph->opsets, NULL) < MUL_BROADCASTS)
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

/* A node of two operands at most before `before`, which gives `result`. */
static Node *node_of(PassCtx *ctx, Node *before, const char *op, Value *const operands[2]) {
    Node *node = node_new(before->graph, before, sym_intern_cstr(&ctx->model->syms, op), NULL);
    const uint32_t count = operands[1] ? 2 : 1;
    node_resize_inputs(node, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, operands[i]);
    return node;
}

void qdq_table_put(PassCtx *ctx, Node *gather, const QdqTable *table) {
    Value *numbers = pick(ctx, gather, table->numbers, "quantized");
    Value *scales = pick(ctx, gather, table->scales, "scale");
    const Dtype floats = type_dtype(scales->type);
    Value *wide = qdq_value(ctx, gather->outputs[0], "number", floats);
    Node *cast = node_of(ctx, gather, "Cast", (Value *const[2]){numbers, NULL});
    cast_set_to(cast, floats);
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

Node *qdq_table_join(PassCtx *ctx, Node *node) {
    if (!node_is_own_quantizer(node) || node->input_count != 2 ||
        !sym_equals(node_metadata(node, OWN_QUANTIZER), table_mark))
        return NULL;
    Node *cast = node->inputs[0].value->producer, *scales = gather_of(node->inputs[1].value);
    Node *numbers = node_is_cast(cast) ? gather_of(cast->inputs[0].value) : NULL;
    if (!numbers || !scales || numbers->inputs[INDICES].value != scales->inputs[INDICES].value)
        return NULL;
    Value *stored = numbers->inputs[0].value;
    const int64_t columns = qdq_dim(stored, 1);
    const Dtype floats = type_dtype(node->outputs[0]->type);
    if (columns < 1 || type_dtype(scales->inputs[0].value->type) != floats) return NULL;
    const QdqOperands operands = {scales->inputs[0].value, NULL, 1, (uint64_t)columns};
    Value *table = qdq_value(ctx, stored, "table", floats);
    Node *made = qdq_insert(ctx, "DequantizeLinear", stored, &operands, table);
    node_add_metadata(made, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    Node *gather = node_new(node->graph, node, numbers->op_type, NULL);
    node_share_lists(gather, numbers);
    node_resize_inputs(gather, 2);
    node_set_input(gather, 0, table);
    node_set_input(gather, INDICES, numbers->inputs[INDICES].value);
    take_place(node, gather);
    node_remove(cast);
    node_remove(numbers);
    node_remove(scales);
    return made;
}
