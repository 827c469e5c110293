// SPDX-License-Identifier: Apache-2.0
/* fuse-packed-tables: rows of a table of packed 4-bit numbers, picked and made float by one step, for plans.
 *
 *   n = BitwiseAnd(BitShift(Gather(B, i), [0, 4]), 15)
 *   y = Reshape(Mul(Sub(Cast(n), Cast(Gather(Z, i))), Gather(S, i)), …)
 *       ->  y = GatherBlockQuantized(B, i, S, Z)
 *
 * That is the form of insert-qdq{tables=packed} (qdq_table.h): bytes B [rows, blocks, block / 2, 1], zero points Z and
 * scales S [rows, blocks, 1, 1], which may be 16-bit ones that are widened after they were picked; the product may be narrowed, too, or
 * be one of 16-bit numbers. The results are the same to the last bit.
 */
#include <string.h>

#include "constants.h"
#include "fuse_graph.h"

enum { TABLE = 0, INDICES = 1, RANK = 4, OPERANDS = 4 };

typedef struct Packed {
    Value *numbers, *zeros, *scales, *indices;
    int64_t rows, blocks, block;
} Packed;

/* The node of that operator which gives the value. */
static const Node *source_of(const Value *value, const char *op) {
    return value && fuse_is(value->producer, op) ? value->producer : NULL;
}

/* The constant of four axes whose rows the value is, by those indices, which the first one found sets. */
static Value *table_of(const Value *value, Value **indices) {
    const Node *gather = source_of(value, "Gather");
    Value *table = gather ? fuse_input(gather, TABLE) : NULL;
    if (!table || !value_is_constant(table) || fuse_rank(table) != RANK ||
        node_attr_int(gather, "axis", 0) != 0 ||
        (*indices && *indices != fuse_input(gather, INDICES)))
        return NULL;
    *indices = fuse_input(gather, INDICES);
    return table;
}

/* The constant has these bytes and no others. */
static bool has_bytes(Fuse *fuse, const Value *value, const uint8_t *bytes, uint64_t count) {
    uint8_t have[2];
    const Tensor *tensor = value ? constant_tensor(value, fuse->ctx->scratch) : NULL;
    return tensor && type_dtype(value_type(value)) == DTYPE_UINT8 && tensor_check(tensor, NULL) &&
           tensor_raw_size(tensor) == count && tensor_read_raw(tensor, 0, have, count, NULL) &&
           memcmp(have, bytes, count) == 0;
}

/* What the bytes of the table are taken apart by. */
static Value *numbers_of(Fuse *fuse, const Value *numbers, Value **indices) {
    static const uint8_t shifts[] = {0, 4}, mask[] = {15};
    const Node *cast = source_of(numbers, "Cast");
    const Node *masked = cast ? source_of(fuse_input(cast, 0), "BitwiseAnd") : NULL;
    const Node *shifted = masked ? source_of(fuse_input(masked, 0), "BitShift") : NULL;
    const bool known = shifted && fuse_attr_is(shifted, "direction", "RIGHT", false) &&
                       has_bytes(fuse, fuse_input(masked, 1), mask, sizeof mask) &&
                       has_bytes(fuse, fuse_input(shifted, 1), shifts, sizeof shifts);
    return known ? table_of(fuse_input(shifted, 0), indices) : NULL;
}

static bool has_dims(const Value *value, const Packed *p, int64_t third) {
    return fuse_dim(value, 0) == p->rows && fuse_dim(value, 1) == p->blocks &&
           fuse_dim(value, 2) == third && fuse_dim(value, 3) == 1;
}

/* Products of a number and a scale are exact in float where scales have 16 bits, so that rounding them to the type of the
 * scales is what a product in that type does. */
static bool rounds_once(const Node *product, const Value *scales, bool casts) {
    const Dtype type = type_dtype(value_type(product->outputs[0]));
    return fuse_takes(scales) &&
           (type == DTYPE_FLOAT || (!casts && type == type_dtype(value_type(scales))));
}

static bool find(Fuse *fuse, const Node *reshape, Packed *p) {
    const Node *narrowed = source_of(fuse_input(reshape, 0), "Cast");
    const Node *product = source_of(fuse_input(narrowed ? narrowed : reshape, 0), "Mul");
    const Node *less = product ? source_of(fuse_input(product, 0), "Sub") : NULL;
    const Node *zeros = less ? source_of(fuse_input(less, 1), "Cast") : NULL;
    const Value *scales = product ? fuse_input(product, 1) : NULL;
    const Node *widened = source_of(scales, "Cast");
    *p = (Packed){.indices = NULL};
    if (!zeros || !(p->numbers = numbers_of(fuse, fuse_input(less, 0), &p->indices)) ||
        !(p->zeros = table_of(fuse_input(zeros, 0), &p->indices)) ||
        !(p->scales = table_of(widened ? fuse_input(widened, 0) : scales, &p->indices)))
        return false;
    const Value *y = reshape->outputs[0];
    p->rows = fuse_dim(p->numbers, 0);
    p->blocks = fuse_dim(p->numbers, 1);
    p->block = 2 * fuse_dim(p->numbers, 2);
    return p->rows > 0 && p->blocks > 0 && p->block > 0 && has_dims(p->numbers, p, p->block / 2) &&
           has_dims(p->zeros, p, 1) && has_dims(p->scales, p, 1) &&
           type_dtype(value_type(p->numbers)) == DTYPE_UINT8 &&
           type_dtype(value_type(p->zeros)) == DTYPE_UINT8 &&
           rounds_once(product, p->scales, narrowed || widened) && fuse_takes(y) &&
           fuse_rank(p->indices) >= 0 && fuse_rank(y) == fuse_rank(p->indices) + 1 &&
           fuse_dim(y, -1) == p->blocks * p->block;
}

/* ---- putting --------------------------------------------------------------------------------- */

static Value *constant(Fuse *fuse, const Value *like, const Tensor *tensor) {
    Model *model = fuse->ctx->model;
    Value *made = value_new(like->graph, sym_fresh(&model->syms, like->name->text));
    value_set_type(made, type_of_tensor(&model->arena, tensor));
    value_set_init(made, tensor);
    return made;
}

/* The constant's elements as a matrix of that many columns, and of that type. */
static Value *matrix(Fuse *fuse, const Value *of, Dtype dtype, int64_t rows, int64_t columns) {
    Arena *arena = &fuse->ctx->model->arena;
    const Tensor *from = constant_tensor(of, arena);
    const int64_t dims[] = {rows, columns};
    if (!from || !tensor_check(from, NULL)) return NULL;
    Tensor *tensor = arena_copy(arena, from, sizeof *from);
    tensor->dims = arena_copy(arena, dims, sizeof dims);
    tensor->rank = 2;
    return constant(
        fuse, of, tensor->dtype == (int32_t)dtype ? tensor : tensor_new_cast(arena, tensor, dtype));
}

/* Zero points, two in a byte, each row in whole bytes. */
static Value *pack_zeros(Fuse *fuse, const Packed *p) {
    Arena *arena = &fuse->ctx->model->arena;
    const int64_t dims[] = {p->rows, (p->blocks + 1) / 2};
    const uint64_t rows = (uint64_t)p->rows, blocks = (uint64_t)p->blocks, line = (uint64_t)dims[1];
    const Tensor *from = constant_tensor(p->zeros, fuse->ctx->scratch);
    uint8_t *bytes = arena_alloc(fuse->ctx->scratch, rows * blocks),
            *packed = arena_alloc(fuse->ctx->scratch, rows * line);
    if (!from || !tensor_check(from, NULL) || !tensor_read_raw(from, 0, bytes, rows * blocks, NULL))
        return NULL;
    memset(packed, 0, rows * line);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t b = 0; b < blocks; b++)
            packed[r * line + b / 2] |= (uint8_t)((bytes[r * blocks + b] & 15) << (b % 2 ? 4 : 0));
    return constant(fuse, p->zeros,
                    tensor_new_raw(arena, DTYPE_UINT8, dims, 2, packed, rows * line));
}

/* A Cast of what the node gives, to the type of what `root` does. */
static Node *narrowed_result(Fuse *fuse, Node *node, Node *root) {
    Arena *arena = &fuse->ctx->model->arena;
    const Type *type = value_type(root->outputs[0]);
    Value *wide = value_new(root->graph, sym_fresh(&fuse->ctx->model->syms, "rows"));
    value_set_type(wide, type_with_dtype(arena, type, DTYPE_FLOAT));
    node_set_output(node, 0, wide);
    Node *cast =
        node_new(root->graph, root, sym_intern_cstr(&fuse->ctx->model->syms, "Cast"), NULL);
    node_resize_inputs(cast, 1);
    node_resize_outputs(cast, 1);
    node_set_input(cast, 0, wide);
    node_set_attr_int(cast, "to", type_dtype(type));
    return cast;
}

static void visit(Fuse *fuse, Node *reshape) {
    Packed p;
    if (!fuse_is(reshape, "Reshape") || !find(fuse, reshape, &p)) return;
    Model *model = fuse->ctx->model;
    Value *const operands[OPERANDS] = {
        matrix(fuse, p.numbers, DTYPE_UINT8, p.rows, p.blocks * p.block / 2), p.indices,
        matrix(fuse, p.scales, DTYPE_FLOAT, p.rows, p.blocks), pack_zeros(fuse, &p)};
    for (int i = 0; i < OPERANDS; i++)
        if (!operands[i]) return;
    const Sym domain = sym_intern_cstr(&model->syms, "com.microsoft");
    if (opset_version(reshape->graph->opsets, domain) < 1)
        model_import_opset(model, reshape->graph->opsets, domain, 1);
    Node *made = node_new(reshape->graph, reshape,
                          sym_intern_cstr(&model->syms, "GatherBlockQuantized"), domain);
    made->name = reshape->name;
    node_resize_inputs(made, OPERANDS);
    node_resize_outputs(made, 1);
    for (uint32_t i = 0; i < OPERANDS; i++) node_set_input(made, i, operands[i]);
    node_set_attr_int(made, "gather_axis", 0);
    node_set_attr_int(made, "quantize_axis", 1);
    node_set_attr_int(made, "block_size", p.block);
    if (type_dtype(value_type(reshape->outputs[0])) != DTYPE_FLOAT)
        made = narrowed_result(fuse, made, reshape);
    fuse_replace_root(fuse, made, reshape);
}

FUSE_PASS(fuse_packed_tables, "fuse-packed-tables",
          "fuse picking rows of a packed 4-bit table and dequantizing them, for plans", visit);
