// SPDX-License-Identifier: Apache-2.0
/* Takes back what qdq_table.c put: finds the constants of a quantized table behind what picks its rows, and puts a
 * DequantizeLinear of the whole table and a Gather of that in its place. Metadata marks the last node.
 * com.microsoft's GatherBlockQuantized is wide_weights.c's. */
#include "constants.h"
#include "op_types.h"
#include "qdq_node.h"
#include "qdq_numbers.h"
#include "qdq_plan.h"
#include "qdq_table.h"

/* What gives the value, but for casts that a conversion put behind. */
static Node *source_of(const Value *value) {
    Node *node = value ? value->producer : NULL;
    while (node && node_is_cast(node)) node = node->inputs[0].value->producer;
    return node;
}

static bool is_marked(const Node *node, const char *mark) {
    return node_is_own_quantizer(node) && node->input_count == 2 &&
           sym_equals(node_metadata(node, OWN_QUANTIZER), mark);
}

/* The Gather of a constant of that rank that the value comes from; NULL where it does from none. */
static Node *gather_of(const Value *value, int64_t rank) {
    Node *node = source_of(value);
    return node && qdq_picks_rows(node) && value_is_constant(node->inputs[0].value) &&
                   qdq_rank(node->inputs[0].value) == rank
               ? node
               : NULL;
}

/* The float table of those constants behind a DequantizeLinear, and a Gather of it in the node's place. */
static Node *join(PassCtx *ctx, Node *node, const QdqTable *table, Value *indices) {
    const QdqOperands operands = {table->scales, table->zeros, 1, table->block, DTYPE_UNDEFINED};
    Value *made = qdq_value(ctx, table->numbers, "table", type_dtype(node->outputs[0]->type));
    Node *dequantize = qdq_insert(ctx, "DequantizeLinear", table->numbers, &operands, made);
    node_add_metadata(dequantize, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    qdq_take_place(node, qdq_node_of(ctx, node, "Gather", (Value *const[2]){made, indices}));
    return dequantize;
}

/* Removes the node that gives the value, and what nothing else reads, up to the indices. */
static void drop_behind(Value *value, const Value *indices) {
    Node *node = value->producer;
    if (value_is_constant(value)) qdq_drop_unread(value);
    if (!node || value_is_constant(value) || value == indices || value->uses || value->referenced)
        return;
    Value *operands[] = {node->inputs[0].value,
                         node->input_count > 1 ? node->inputs[1].value : NULL};
    node_remove(node);
    for (size_t i = 0; i < 2; i++)
        if (operands[i]) drop_behind(operands[i], indices);
}

/* Of rows, as put here. */
static Node *join_rows(PassCtx *ctx, Node *node) {
    if (!is_marked(node, QDQ_MARK_ROWS)) return NULL;
    Node *cast = node->inputs[0].value->producer, *scales = gather_of(node->inputs[1].value, 2);
    Node *numbers = node_is_cast(cast) ? gather_of(cast->inputs[0].value, 2) : NULL;
    if (!numbers || !scales ||
        numbers->inputs[QDQ_INDICES].value != scales->inputs[QDQ_INDICES].value)
        return NULL;
    const int64_t columns = qdq_dim(numbers->inputs[0].value, 1);
    const QdqTable table = {numbers->inputs[0].value, scales->inputs[0].value, NULL,
                            (uint64_t)columns, false};
    if (columns < 1 || type_dtype(table.scales->type) != type_dtype(node->outputs[0]->type))
        return NULL;
    Value *indices = numbers->inputs[QDQ_INDICES].value, *picked = node->inputs[1].value;
    Node *made = join(ctx, node, &table, indices);
    drop_behind(cast->outputs[0], indices);
    drop_behind(picked, indices);
    return made;
}

/* A matrix of the constant's bytes, or of its low halves, as elements of that type; NULL where it has others than these
 * need. */
static Value *read_as(PassCtx *ctx, const Value *constant, Dtype dtype, const int64_t dims[2],
                      bool halves) {
    Arena *arena = &ctx->model->arena;
    const Tensor *from = constant_tensor(constant, ctx->scratch);
    Tensor *made = tensor_new_raw(arena, dtype, dims, 2, NULL, 0);
    if (!from || !tensor_check(from, NULL)) return NULL;
    const uint64_t size = tensor_raw_size(from), count = (uint64_t)(dims[0] * dims[1]);
    dtype_bytes(dtype, count, &made->size);
    if (size != (halves ? count : made->size)) return NULL;
    uint8_t *bytes = arena_alloc(arena, size + 1), *packed = bytes;
    if (!tensor_read_raw(from, 0, bytes, size, NULL)) return NULL;
    if (halves) packed = arena_alloc(arena, made->size + 1);
    for (uint64_t i = 0; halves && i < count; i++)
        qdq_put_code(packed, dtype_bits(dtype), i, bytes[i]);
    made->bytes = packed;
    return qdq_constant(ctx, constant, "matrix", made);
}

/* The operand of `node`, which must be that operator. */
static Value *operand_of(const Node *node, const char *op, uint32_t i) {
    return node && sym_equals(node->op_type, op) && domain_is_default(node->domain) &&
                   node->input_count == 2
               ? node->inputs[i].value
               : NULL;
}

/* What takes packed numbers apart, as put here. */
typedef struct Packed {
    Node *numbers, *zeros, *scales; /* each a Gather, of one set of indices */
    int64_t rows, blocks, block;
} Packed;

static bool find_packed(const Node *node, Packed *packed) {
    const Node *product = source_of(node->inputs[0].value);
    const Node *less = source_of(operand_of(product, "Mul", 0));
    const Node *masked = source_of(operand_of(less, "Sub", 0));
    const Node *shifted = source_of(operand_of(masked, "BitwiseAnd", 0));
    packed->numbers = gather_of(operand_of(shifted, "BitShift", 0), QDQ_PACKED_RANK);
    packed->zeros = gather_of(operand_of(less, "Sub", 1), QDQ_PACKED_RANK);
    packed->scales = gather_of(operand_of(product, "Mul", 1), QDQ_PACKED_RANK);
    if (!packed->numbers || !packed->zeros || !packed->scales) return false;
    const Value *indices = packed->numbers->inputs[QDQ_INDICES].value,
                *bytes = packed->numbers->inputs[0].value, *zeros = packed->zeros->inputs[0].value;
    packed->rows = qdq_dim(bytes, 0);
    packed->blocks = qdq_dim(bytes, 1);
    packed->block = 2 * qdq_dim(bytes, 2);
    return packed->zeros->inputs[QDQ_INDICES].value == indices &&
           packed->scales->inputs[QDQ_INDICES].value == indices &&
           type_dtype(bytes->type) == DTYPE_UINT8 && type_dtype(zeros->type) == DTYPE_UINT8 &&
           packed->rows > 0 && packed->blocks > 0 && packed->block > 0;
}

static Node *join_packed(PassCtx *ctx, Node *node) {
    Packed packed;
    if (!is_marked(node, QDQ_MARK_PACKED) || !find_packed(node, &packed)) return NULL;
    Value *indices = packed.numbers->inputs[QDQ_INDICES].value,
          *scales = packed.scales->inputs[0].value;
    Value *product = node->inputs[0].value, *shape = node->inputs[1].value;
    const int64_t all[] = {packed.rows, packed.blocks * packed.block},
                  each[] = {packed.rows, packed.blocks};
    const QdqTable table = {read_as(ctx, packed.numbers->inputs[0].value, DTYPE_UINT4, all, false),
                            read_as(ctx, scales, type_dtype(scales->type), each, false),
                            read_as(ctx, packed.zeros->inputs[0].value, DTYPE_UINT4, each, true),
                            (uint64_t)packed.block, false};
    if (!table.numbers || !table.scales || !table.zeros) return NULL;
    Node *made = join(ctx, node, &table, indices);
    drop_behind(product, indices);
    qdq_drop_unread(shape);
    return made;
}

bool qdq_table_ends(const Node *node) {
    return is_marked(node, QDQ_MARK_ROWS) || is_marked(node, QDQ_MARK_PACKED);
}

Node *qdq_table_join(PassCtx *ctx, Node *node) {
    if (!node->output_count || !node->outputs[0] || !qdq_is_float(node->outputs[0])) return NULL;
    Node *made = join_rows(ctx, node);
    return made ? made : join_packed(ctx, node);
}
