// SPDX-License-Identifier: Apache-2.0
/* fold-shapes: what nodes compute of known sizes becomes constant.
 *
 *   Reshape (y, Concat (Gather (Shape (x), 0), c))   of x float[2, …], c = {-1}
 *       ->  Reshape (y, {2, -1})
 *
 * Values of integers and bools whose contents follow from shapes and constants alone, as infer-shapes
 * finds them, become constants; what computed them is dead then, and goes with eliminate-dead-code. Of a
 * Reshape whose shape is known but for sizes that it hands on, these become 0, or else a single one
 * -1, which says the same. A size need not be known for that: where it was handed on, it is the same. Declared sizes are believed. Nothing that takes much more bytes than it
 * replaces is stored. Also infers shapes.
 */
#include "infer_shapes.h"
#include "op_types.h"
#include "passes.h"
#include "fuse_graph.h"
#include "simplify_graph.h"

typedef struct Fold {
    const ShapeOperand *const *known; /* by value id */
    uint32_t count;                   /* of them: values made since have a higher id */
} Fold;

static const ShapeOperand *known_of(const Fold *fold, const Value *value) {
    return value->id < fold->count ? fold->known[value->id] : NULL;
}

/* ---- contents -------------------------------------------------------------------------------- */

static bool is_whole(const ShapeOperand *known) {
    if (!known || !known->items || !known->has_rank || known->wrapped) return false;
    for (uint32_t i = 0; i < known->item_count; i++)
        if (known->items[i].kind != SHAPE_KNOWN) return false;
    return true;
}

/* Little-endian, as tensors are stored. */
static void put_number(unsigned char *to, unsigned bytes, int64_t number) {
    for (unsigned i = 0; i < bytes; i++) to[i] = (unsigned char)((uint64_t)number >> 8 * i);
}

/* NULL where the value is not known, of a type without whole bytes, or large. */
static const Tensor *contents_of(PassCtx *ctx, const Fold *fold, const Value *value) {
    const ShapeOperand *known = known_of(fold, value);
    if (value_type(value)->kind != TYPE_TENSOR || !is_whole(known)) return NULL;
    Dtype dtype = type_dtype(value->type);
    unsigned bytes = dtype_bits(dtype) / 8;
    bool number = dtype == DTYPE_BOOL || dtype_is_integer(dtype);
    if (!number || !bytes || known->dtype != dtype || known->item_count * bytes > SIMPLIFY_GROW)
        return NULL;
    int64_t *dims = ARENA_ARRAY(ctx->scratch, int64_t, known->rank + 1);
    for (uint32_t i = 0; i < known->rank; i++) dims[i] = known->dims[i].value;
    unsigned char *data = arena_alloc(ctx->scratch, (size_t)known->item_count * bytes + 1);
    for (uint32_t i = 0; i < known->item_count; i++)
        put_number(data + (size_t)i * bytes, bytes, known->items[i].value);
    return tensor_new_raw(&ctx->model->arena, dtype, dims, known->rank, data,
                          (uint64_t)known->item_count * bytes);
}

static void fold_node(PassCtx *ctx, Node *node, void *data) {
    const Fold *fold = data;
    bool any = false;
    if (simplify_is(node, "Constant") || !node_schema(node) || !node_may_become_constant(node))
        return;
    const Tensor **tensors = ARENA_ARRAY(ctx->scratch, const Tensor *, node->output_count + 1);
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (!value || !value->uses) continue;
        tensors[i] = contents_of(ctx, fold, value);
        if (!tensors[i]) return;
        any = true;
    }
    if (any) node_become_constant(ctx, node, tensors);
}

/* ---- shapes that are known but for a size ---------------------------------------------------- */

/* The shape as a constant: known items; 0 where the operand has the same size in that place; -1 for
 * one that is left. False where that does not say the same: -1 stands for one size, and for none
 * where another one turns out to be 0. Where the model's own 0 is a size (`allows_zero`), it stays. */
static bool shape_numbers(const ShapeOperand *shape, const ShapeOperand *of, bool allows_zero,
                          int64_t *numbers) {
    uint32_t open = 0, copied = 0, own = 0; /* own: the model's -1 */
    for (uint32_t i = 0; i < shape->item_count; i++) {
        const ShapeNum item = shape->items[i];
        bool known = item.kind == SHAPE_KNOWN;
        bool same = item.kind == SHAPE_SYMBOL && of && of->has_rank && i < of->rank &&
                    shape_num_same(of->dims[i], item);
        numbers[i] = known ? item.value : same ? 0 : -1;
        if (known && item.value == 0 && allows_zero) return false;
        copied += same || numbers[i] == 0;
        open += !known && !same;
        own += known && item.value == -1;
    }
    return open == 0 ? own <= 1 : open == 1 && own == 0 && copied == 0;
}

static Value *new_shape(PassCtx *ctx, Node *reader, const int64_t *numbers, uint32_t count) {
    Model *model = ctx->model;
    const int64_t length = count;
    Dim *dim = ARENA_NEW(&model->arena, Dim);
    *dim = (Dim){.kind = DIM_KNOWN, .size = length};
    const char *stem = arena_printf(ctx->scratch, "%s_shape", node_label(reader));
    Value *value = value_new(reader->graph, sym_fresh(&model->syms, stem));
    unsigned char *data = arena_alloc(ctx->scratch, (size_t)count * 8 + 1);
    for (uint32_t i = 0; i < count; i++) put_number(data + (size_t)i * 8, 8, numbers[i]);
    value_set_type(value, type_new_shaped(&model->arena, DTYPE_INT64, dim, 1));
    value_set_init(
        value, tensor_new_raw(&model->arena, DTYPE_INT64, &length, 1, data, (uint64_t)count * 8));
    return value;
}

static void fold_reshape(PassCtx *ctx, Node *node, void *data) {
    const Fold *fold = data;
    if (!simplify_is(node, "Reshape") || node->input_count < 2 || !node->inputs[1].value ||
        !node->inputs[0].value)
        return;
    const bool allows_zero = node_attr_int(node, "allowzero", 0) != 0;
    const ShapeOperand *shape = known_of(fold, node->inputs[1].value);
    if (!node->inputs[1].value->producer || !shape || !shape->items || !shape->has_rank ||
        shape->rank != 1 || is_whole(shape) || shape->item_count > SIMPLIFY_GROW / 8)
        return;
    const ShapeOperand *of = known_of(fold, node->inputs[0].value);
    int64_t *numbers = ARENA_ARRAY(ctx->scratch, int64_t, shape->item_count + 1);
    if (!shape_numbers(shape, of, allows_zero, numbers)) return;
    if (allows_zero) node_remove_attr(node, "allowzero");
    node_set_input(node, 1, new_shape(ctx, node, numbers, shape->item_count));
    ctx->counts->rewrites++;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    Fold fold = {.known = infer_shapes_known(ctx, err), .count = ctx->model->value_count};
    if (!fold.known) return false;
    each_node(ctx, fold_node, &fold);
    if (model_has_free_initializers(ctx->model)) each_node(ctx, fold_reshape, &fold);
    return true;
}

const PassInfo fold_shapes_pass = {
    .name = "fold-shapes",
    .summary = "turn computations on known sizes into constants",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES | FACT_SHAPES,
    .idempotent = true,
    .run = run,
};
