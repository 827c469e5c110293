// SPDX-License-Identifier: Apache-2.0
/* Tables that Gather picks rows of, such as the vectors of words.
 *
 *   y = Gather(table, i)  ->  y = Mul(Cast(Gather(numbers, i)), Gather(scales, i)), a scale a row
 *                         ->  y = GatherBlockQuantized(numbers, i, scales, zeros), of 4 bits
 *                         ->  n = BitwiseAnd(BitShift(Gather(pairs, i), [0, 4]), 15), packed: two of 4 bits in a byte
 *                             y = Reshape(Mul(Sub(Cast(n), Cast(Gather(zeros, i))), Gather(scales, i)), [0.., columns])
 *
 * A DequantizeLinear before the Gather would make the whole table float in every run, as ONNX Runtime does it. One
 * behind it would have to have blocks of a constant size, which OpenVINO does not take of what is computed. Gather
 * takes no elements of 4 bits. Pairs are shifted to the right alone, since OpenVINO's shift to the left saturates; by
 * two counts at once, which puts the numbers of a pair beside each other without a Concat. */
#include "qdq_table.h"

#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "qdq_node.h"
#include "qdq_plan.h"

enum {
    TABLE_LEAST = 1 << 12,
    COLUMNS_LEAST = 4,  /* fewer, as scales of rows have, and a scale for each row take no less */
    MUL_BROADCASTS = 7, /* the opset from which on it does */
    PACKED_OPSET = 18   /* the first with BitwiseAnd */
};

/* ---- which they are -------------------------------------------------------------------------- */

static bool is_gather(const Node *node) {
    return node && sym_equals(node->op_type, "Gather") && domain_is_default(node->domain) &&
           node->input_count == 2 && node->inputs[0].value && node->inputs[QDQ_INDICES].value &&
           node->output_count == 1 && node->outputs[0] &&
           !model_find_function(node->graph->model, node);
}

/* Of the first axis. */
bool qdq_picks_rows(const Node *node) {
    const int64_t axis = node_attr_int(node, "axis", 0);
    const Attr *attr = node_attr(node, "axis");
    return is_gather(node) && !(attr && attr->ref) &&
           (axis == 0 || axis == -qdq_rank(node->inputs[0].value));
}

bool qdq_is_table(const Value *value) {
    const int64_t rows = qdq_dim(value, 0), columns = qdq_dim(value, 1);
    return qdq_is_float(value) && qdq_rank(value) == 2 && rows > 0 && columns >= COLUMNS_LEAST &&
           columns <= INT32_MAX && rows >= TABLE_LEAST / columns;
}

bool qdq_reads_table(const Node *node) {
    const Value *table = is_gather(node) ? node->inputs[0].value : NULL;
    return table && value_is_constant(table) && qdq_is_table(table) && qdq_picks_rows(node);
}

static bool is_int8(const QuantizedFormat *format) {
    return format && format->dtype == DTYPE_INT8;
}

/* That of 4 bits; NULL where tables have no such. Packed, they have zero points whatever the weights have: what takes
 * numbers apart knows no signs. */
static const QuantizedFormat *short_format(const QdqRequest *request) {
    const Dtype dtype = request->weights ? request->weights->dtype : DTYPE_UNDEFINED;
    if (!dtype_is_integer(dtype) || dtype_bits(dtype) != 4) return NULL;
    if (request->tables == QDQ_TABLES_PACKED) return quantized_format(DTYPE_UINT4);
    return request->tables == QDQ_TABLES_BLOCKS ? request->weights : NULL;
}

/* Rows have the weights' own type. */
static bool has_rows_alike(const QdqRequest *request) {
    return is_int8(request->weights) && !request->activations;
}

/* The format of rows beside the weights' one. */
static const QuantizedFormat *row_format(const QdqRequest *request) {
    return has_rows_alike(request)
               ? request->weights
               : request->others; /* beside values, it is asked for: it costs accuracy */
}

const QuantizedFormat *qdq_table_format(const QdqRequest *request) {
    if (request->tables == QDQ_TABLES_FLOAT) return NULL;
    return has_rows_alike(request) ? request->weights : short_format(request);
}

int64_t qdq_table_opset(const QdqRequest *request) {
    const bool packs = request->tables == QDQ_TABLES_PACKED && short_format(request);
    return packs ? PACKED_OPSET : MUL_BROADCASTS;
}

enum { STEPS_MOST = 8, LOOKS_MOST = 1 << 10 }; /* looks: of all steps, however graphs branch */

/* Whether what is computed is multiplied by the value, as by the cosines of rotary positions: rounding that turns
 * what it is a factor of. `steps` movements, and casts, may yet be followed; true once there are no looks left. */
static bool is_factor(const QdqPlan *plan, const Value *value, int steps, int *looks) {
    for (const Use *use = value->uses; use; use = use->next) {
        const Node *node = use->node;
        const OpRecord *record = node ? qdq_record(plan, node) : NULL;
        if (--*looks < 0) return true;
        if (!record) continue;
        if (sym_equals(node->op_type, "Mul")) {
            const Value *other = qdq_input(node, 1 - use->index);
            if (other && !value_is_constant(other)) return true;
        } else if (record->quantized == QUANTIZED_MOVE || record->quantized == QUANTIZED_JOIN ||
                   node_is_cast(node)) {
            for (uint32_t i = 0; steps && i < node->output_count; i++)
                if (node->outputs[i] && is_factor(plan, node->outputs[i], steps - 1, looks))
                    return true;
        }
    }
    return false;
}

/* All that reads the table picks rows, at that opset or a later one, and bears their rounding. */
static bool is_read_by_rows(const QdqPlan *plan, const Value *table, int64_t opset) {
    for (const Use *use = table->uses; use; use = use->next) {
        int looks = LOOKS_MOST;
        if (!use->node || use->index || !qdq_picks_rows(use->node) ||
            !qdq_record(plan, use->node) || opset_version(use->node->graph->opsets, NULL) < opset ||
            is_factor(plan, use->node->outputs[0], STEPS_MOST, &looks))
            return false;
    }
    return true;
}

/* The block of a table that can be packed; 0 where it can't: blocks are of one size, and what says the dims of the
 * result has to know their number; -2 is another axis of what has four. */
static uint64_t packed_block(const QdqPlan *plan, const Value *table) {
    const int64_t columns = qdq_dim(table, 1);
    if (columns % (QDQ_TABLE_BLOCK / 2) || !is_read_by_rows(plan, table, PACKED_OPSET)) return 0;
    for (const Use *use = table->uses; use; use = use->next)
        if (node_attr_int(use->node, "axis", 0) ||
            qdq_rank(use->node->inputs[QDQ_INDICES].value) < 0)
            return 0;
    return columns % QDQ_TABLE_BLOCK ? QDQ_TABLE_BLOCK / 2 : QDQ_TABLE_BLOCK;
}

void qdq_table_take(QdqPlan *plan, Node *node) {
    Value *table = node->inputs[0].value;
    const QdqRequest *request = &plan->request;
    if (request->tables == QDQ_TABLES_FLOAT || request->broken[table->id] || table->referenced ||
        !is_read_by_rows(plan, table, MUL_BROADCASTS))
        return;
    const bool packs = request->tables == QDQ_TABLES_PACKED;
    QdqWeight weight = {.value = table,
                        .use = &node->inputs[0],
                        .product = node,
                        .format = short_format(request),
                        .rows = true,
                        .axis = 1,
                        .block = packs ? packed_block(plan, table) : QDQ_TABLE_BLOCK};
    weight.packed = packs && weight.format && weight.block;
    if (!weight.format || !weight.block) {
        weight.format = row_format(request);
        weight.block = (uint64_t)qdq_dim(table, 1);
        if (!is_int8(weight.format)) return;
    }
    VEC_PUSH(plan->scratch, &plan->weights, weight);
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* A value that has dims of y's, but for the last, and then those of `like` behind its first `skipped`. */
static Value *value_beside(PassCtx *ctx, const Value *y, const char *suffix, Dtype dtype,
                           const Type *like, uint32_t skipped) {
    Arena *arena = &ctx->model->arena;
    const Type *of = value_shaped_type(y);
    Value *made = qdq_value(ctx, y, suffix, dtype);
    if (!of || !of->rank || !like) return made;
    const uint32_t kept = of->rank - 1, more = like->rank - skipped;
    Dim *dims = ARENA_ARRAY(arena, Dim, kept + more);
    memcpy(dims, of->dims, kept * sizeof *dims);
    memcpy(dims + kept, like->dims + skipped, more * sizeof *dims);
    value_set_type(made, type_new_shaped(arena, dtype, dims, kept + more));
    return made;
}

/* A Gather like that one, of another table: its result has y's dims, but for the last, and those of the table's rows. */
static Value *pick(PassCtx *ctx, Node *gather, Value *table, const char *suffix) {
    Value *picked = value_beside(ctx, gather->outputs[0], suffix, type_dtype(table->type),
                                 value_shaped_type(table), 1);
    Node *node = node_new(gather->graph, gather, gather->op_type, NULL);
    node_share_lists(node, gather);
    node_resize_inputs(node, 2);
    node_resize_outputs(node, 1);
    node_set_input(node, 0, table);
    node_set_input(node, QDQ_INDICES, gather->inputs[QDQ_INDICES].value);
    node_set_output(node, 0, picked);
    node->name = picked->name;
    return picked;
}

/* `made` gives what `node` gave, and has its name. */
void qdq_take_place(Node *node, Node *made) {
    Value *result = node->outputs[0];
    made->name = node->name;
    made->note = node->note;
    node_set_output(node, 0, NULL);
    node_resize_outputs(made, 1);
    node_set_output(made, 0, result);
    node_remove(node);
}

/* A node of two operands at most before `before`, which gives `result`. */
Node *qdq_node_of(PassCtx *ctx, Node *before, const char *op, Value *const operands[2]) {
    Node *node = node_new(before->graph, before, sym_intern_cstr(&ctx->model->syms, op), NULL);
    const uint32_t count = operands[1] ? 2 : 1;
    node_resize_inputs(node, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, operands[i]);
    return node;
}

/* The numbers, of blocks, are made float by an operator of ONNX Runtime's. */
static void put_blocks(PassCtx *ctx, Node *gather, const QdqTable *table) {
    Model *model = ctx->model;
    const Sym domain = sym_intern_cstr(&model->syms, QDQ_BLOCKS_DOMAIN);
    Value *const operands[] = {table->numbers, gather->inputs[QDQ_INDICES].value, table->scales,
                               table->zeros};
    const uint32_t count = table->zeros ? 4 : 3;
    if (opset_version(gather->graph->opsets, domain) < 1)
        model_import_opset(model, gather->graph->opsets, domain, 1);
    Node *node =
        node_new(gather->graph, gather, sym_intern_cstr(&model->syms, QDQ_BLOCKS_OP), domain);
    node_resize_inputs(node, count);
    for (uint32_t i = 0; i < count; i++) node_set_input(node, i, operands[i]);
    node_set_attr_int(node, "gather_axis", 0);
    node_set_attr_int(node, "quantize_axis", 1);
    node_set_attr_int(node, "block_size", (int64_t)table->block);
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_ROWS);
    qdq_take_place(gather, node);
}

/* The result of an operator of two operands at most before `before`. */
static Value *compute(PassCtx *ctx, Node *before, const char *op, Value *const operands[2],
                      Value *result) {
    Node *node = qdq_node_of(ctx, before, op, operands);
    node->name = result->name;
    node_resize_outputs(node, 1);
    node_set_output(node, 0, result);
    return result;
}

static Value *cast(PassCtx *ctx, Node *before, Value *from, Value *result) {
    compute(ctx, before, "Cast", (Value *const[2]){from, NULL}, result);
    node_set_attr_int(result->producer, "to",
                      type_dtype(result->type)); /* as it is spelled from opset 6 on */
    return result;
}

static void put_rows(PassCtx *ctx, Node *gather, const QdqTable *table) {
    Value *numbers = pick(ctx, gather, table->numbers, "quantized");
    Value *scales = pick(ctx, gather, table->scales, "scale");
    Value *wide = qdq_value(ctx, gather->outputs[0], "number", type_dtype(scales->type));
    cast(ctx, gather, numbers, wide);
    Node *product = qdq_node_of(ctx, gather, "Mul", (Value *const[2]){wide, scales});
    node_add_metadata(product, OWN_QUANTIZER, QDQ_MARK_ROWS);
    qdq_take_place(gather, product);
}

/* Numbers of picked bytes, beside each other in a last axis of 2. */
static Value *take_apart(PassCtx *ctx, Node *gather, const QdqTable *table, const Type *pairs) {
    static const uint8_t shifts[] = {0, 4}, mask = 15;
    static const int64_t two = 2;
    Arena *arena = &ctx->model->arena;
    const Value *y = gather->outputs[0];
    const Tensor *by = tensor_new_raw(arena, DTYPE_UINT8, &two, 1, shifts, sizeof shifts);
    const Tensor *last = tensor_new_raw(arena, DTYPE_UINT8, NULL, 0, &mask, sizeof mask);
    Value *shifted = compute(ctx, gather, "BitShift",
                             (Value *const[2]){pick(ctx, gather, table->numbers, "pair"),
                                               qdq_constant(ctx, table->numbers, "shift", by)},
                             value_beside(ctx, y, "shifted", DTYPE_UINT8, pairs, 1));
    node_set_attr_string(shifted->producer, "direction", "RIGHT");
    return compute(ctx, gather, "BitwiseAnd",
                   (Value *const[2]){shifted, qdq_constant(ctx, table->numbers, "mask", last)},
                   value_beside(ctx, y, "number", DTYPE_UINT8, pairs, 1));
}

/* What Reshape makes of a result by blocks: its axes but for the last three, and one of the columns. */
static Value *row_shape(PassCtx *ctx, const Node *gather, const QdqTable *table) {
    const int64_t kept = qdq_rank(gather->inputs[QDQ_INDICES].value), rank = kept + 1;
    int64_t *dims = ARENA_ARRAY(ctx->scratch, int64_t, (size_t)rank); /* 0: as it is */
    dims[kept] = qdq_dim(table->scales, 1) * (int64_t)table->block;
    return qdq_constant(ctx, table->numbers, "shape",
                        tensor_new_raw(&ctx->model->arena, DTYPE_INT64, &rank, 1, dims,
                                       (uint64_t)rank * sizeof *dims));
}

static void put_packed(PassCtx *ctx, Node *gather, const QdqTable *table) {
    const Value *y = gather->outputs[0];
    const Type *bytes = value_shaped_type(table->numbers), *each = value_shaped_type(table->scales);
    Dim dims[QDQ_PACKED_RANK];
    memcpy(dims, bytes->dims, sizeof dims);
    dims[QDQ_PACKED_RANK - 1].size = 2;
    const Type *pairs =
        type_new_shaped(&ctx->model->arena, DTYPE_UINT8,
                        arena_copy(&ctx->model->arena, dims, sizeof dims), QDQ_PACKED_RANK);
    const Dtype floats = type_dtype(table->scales->type);
    Value *numbers = take_apart(ctx, gather, table, pairs);
    Value *zeros = pick(ctx, gather, table->zeros, "zero_point");
    Value *wide =
        cast(ctx, gather, numbers, value_beside(ctx, y, "float_number", floats, pairs, 1));
    Value *zero = cast(ctx, gather, zeros, value_beside(ctx, y, "float_zero", floats, each, 1));
    Value *less = compute(ctx, gather, "Sub", (Value *const[2]){wide, zero},
                          value_beside(ctx, y, "difference", floats, pairs, 1));
    Value *const factors[] = {less, pick(ctx, gather, table->scales, "scale")};
    Value *product =
        compute(ctx, gather, "Mul", factors, value_beside(ctx, y, "blocks", floats, pairs, 1));
    Node *last = qdq_node_of(ctx, gather, "Reshape",
                             (Value *const[2]){product, row_shape(ctx, gather, table)});
    node_add_metadata(last, OWN_QUANTIZER, QDQ_MARK_PACKED);
    qdq_take_place(gather, last);
}

void qdq_table_put(PassCtx *ctx, Node *gather, const QdqTable *table) {
    void (*put)(PassCtx *, Node *, const QdqTable *) = table->packed  ? put_packed
                                                       : table->block ? put_blocks
                                                                      : put_rows;
    put(ctx, gather, table);
    ctx->counts->rewrites++;
}
