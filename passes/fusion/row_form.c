// SPDX-License-Identifier: Apache-2.0
/* See row_form.h. */
#include "row_form.h"

#include "constants.h"
#include "make_node.h"

enum { SUM_AXES_INPUT = 13, REDUCE_AXES_INPUT = 18, QUANTIZES_BLOCKS = 21 };

/* ---- making ---------------------------------------------------------------------------------- */

typedef struct Writer {
    Make make;
    const char *mark;
    RowConstants *shared;
    const Type *shape; /* that what is made next has, but for the element type */
} Writer;

static Value *finish(const Writer *w, Value *made) {
    Arena *arena = &w->make.ctx->model->arena;
    value_set_type(made, type_with_dtype(arena, w->shape, type_dtype(made->type)));
    node_add_metadata(made->producer, OWN_QUANTIZER, w->mark);
    return made;
}

static Value *binary(const Writer *w, const char *op, Value *a, Value *b) {
    return finish(w, make_op(&w->make, op, (Value *const[2]){a, b}, 2, DTYPE_FLOAT));
}

static Value *number(const Writer *w, float value, Value **shared) {
    if (!*shared)
        *shared =
            make_constant(&w->make, tensor_new_float_scalar(&w->make.ctx->model->arena, value));
    return *shared;
}

static Value *cast(const Writer *w, Value *from, Dtype to) {
    Value *made = finish(w, make_op(&w->make, "Cast", &from, 1, to));
    node_set_attr_int(made->producer, "to", to);
    return made;
}

/* Over the last axis, which stays with one element. Axes are an input from that opset on. */
static Value *reduce(const Writer *w, const char *op, Value *x, int64_t axes_input) {
    static const int64_t last[1] = {-1};
    Value **axis = &w->shared->axis;
    const bool as_input = opset_version(w->make.at->graph->opsets, NULL) >= axes_input;
    if (as_input && !*axis) *axis = make_ints(&w->make, last, 1);
    Value *const operands[2] = {x, *axis};
    Value *made = finish(w, make_op(&w->make, op, operands, as_input ? 2 : 1, DTYPE_FLOAT));
    if (!as_input) node_set_attr_ints(made->producer, "axes", last, 1);
    node_set_attr_int(made->producer, "keepdims", 1);
    return made;
}

/* Of a number for each row of x. */
static const Type *row_shape(PassCtx *ctx, const Value *x) {
    Arena *arena = &ctx->model->arena;
    const Type *of = value_shaped_type(x);
    if (!of || !of->rank) return type_plain_tensor(DTYPE_FLOAT);
    Dim *dims = arena_copy(arena, of->dims, of->rank * sizeof *dims);
    dims[of->rank - 1] = (Dim){.kind = DIM_KNOWN, .size = 1};
    return type_new_shaped(arena, DTYPE_FLOAT, dims, of->rank);
}

/* Numbers from 0 on by scales of rows. ONNX Runtime takes the only scale of a vector for no block's. */
static Value *bytes_of(const Writer *w, Value *moved, Value *scale, int64_t length) {
    if (opset_version(w->make.at->graph->opsets, NULL) < QUANTIZES_BLOCKS || fuse_rank(moved) < 2) {
        Value *quotient = binary(w, "Div", moved, scale);
        Value *near = finish(w, make_op(&w->make, "Round", &quotient, 1, DTYPE_FLOAT));
        return cast(w, near, DTYPE_UINT8);
    }
    Value *const operands[2] = {moved, scale};
    Value *made = finish(w, make_op(&w->make, "QuantizeLinear", operands, 2, DTYPE_UINT8));
    node_set_attr_int(made->producer, "axis", -1);
    node_set_attr_int(made->producer, "block_size", length);
    return made;
}

RowBytes row_bytes_make(PassCtx *ctx, Node *at, Value *x, int64_t length, RowConstants *shared) {
    Writer w = {{ctx, at, sym_text(x->name)}, QUANTIZER_OF_ROWS, shared, row_shape(ctx, x)};
    Value *low = reduce(&w, "ReduceMin", x, REDUCE_AXES_INPUT);
    Value *high = reduce(&w, "ReduceMax", x, REDUCE_AXES_INPUT);
    Value *level = number(&w, 1.0f / ROW_LEVELS, &shared->level);
    Value *step = binary(&w, "Mul", binary(&w, "Sub", high, low), level);
    Value *least = binary(&w, "Max", step, number(&w, ROW_SCALE_LEAST, &shared->least));
    Value *sum = reduce(&w, "ReduceSum", x, SUM_AXES_INPUT);
    Value *scale = binary(&w, "Add", least, binary(&w, "Mul", sum, number(&w, 0, &shared->zero)));
    w.shape = x->type;
    Value *moved = binary(&w, "Sub", x, low);
    return (RowBytes){x, low, scale, bytes_of(&w, moved, scale, length), NULL};
}

Value *row_product_make(PassCtx *ctx, Node *at, const RowBytes *rows, const RowWeights *weights,
                        Node **integer) {
    const Writer w = {{ctx, at, node_label(at)}, QUANTIZER_OF_PRODUCTS, NULL, at->outputs[0]->type};
    Value *const operands[2] = {rows->bytes, weights->bytes};
    Value *sums = make_op(&w.make, "MatMulInteger", operands, 2, DTYPE_INT32);
    value_set_type(sums, type_with_dtype(&ctx->model->arena, w.shape, DTYPE_INT32));
    *integer = sums->producer;
    Value *scaled = binary(&w, "Mul", cast(&w, sums, DTYPE_FLOAT), rows->scale);
    Value *product = binary(&w, "Mul", scaled, weights->factors);
    return binary(&w, "Add", product, binary(&w, "Mul", rows->low, weights->shifts));
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The operands of a node of two; NULL where `value` is no such node's. */
static Node *binary_of(const Value *value, const char *op) {
    Node *node = value ? value->producer : NULL;
    return fuse_is(node, op) && node->input_count == 2 && fuse_input(node, 0) && fuse_input(node, 1)
               ? node
               : NULL;
}

/* The operand of such a node beside a constant of that number; NULL where there is none. */
static Value *beside_number(const Value *value, const char *op, float wanted) {
    const Node *node = binary_of(value, op);
    for (uint32_t i = 0; node && i < 2; i++) {
        float found;
        if (constant_scalar(fuse_input(node, i), &found) && found == wanted)
            return fuse_input(node, 1 - i);
    }
    return NULL;
}

static bool is_last_axis(const Node *node, Arena *scratch) {
    uint32_t count = 0;
    uint64_t found = 0;
    int64_t *read = NULL;
    const Attr *attr = node_attr(node, "axes");
    const int64_t *axes = attr && !attr->ref ? attr_ints(attr, &count) : NULL;
    const Value *input = fuse_input(node, 1);
    const Tensor *tensor = input ? constant_tensor(input, scratch) : NULL;
    if (tensor && tensor_check(tensor, NULL) &&
        tensor_read_ints(tensor, scratch, 1, &read, &found)) {
        axes = read;
        count = (uint32_t)found;
    }
    const int64_t rank = fuse_rank(fuse_input(node, 0));
    return axes && count == 1 && (axes[0] == -1 || (rank > 0 && axes[0] == rank - 1));
}

/* What is reduced so over the last axis, which stays; NULL where that is not so. */
static Value *reduced(const Value *value, const char *op, Arena *scratch) {
    const Node *node = value ? value->producer : NULL;
    if (!fuse_is(node, op) || !fuse_input(node, 0) || node_attr_int(node, "keepdims", 1) != 1 ||
        !is_last_axis(node, scratch))
        return NULL;
    return fuse_input(node, 0);
}

static bool is_float(const Value *value) {
    return value && type_dtype(value->type) == DTYPE_FLOAT;
}

/* (high - low) * (1 / 255), at least the least scale. */
static bool is_step(const Value *value, const RowBytes *rows, Arena *scratch) {
    const Value *span = beside_number(value, "Max", ROW_SCALE_LEAST);
    span = span ? beside_number(span, "Mul", 1.0f / ROW_LEVELS) : NULL;
    const Node *sub = binary_of(span, "Sub");
    return sub && fuse_input(sub, 1) == rows->low &&
           reduced(fuse_input(sub, 0), "ReduceMax", scratch) == rows->x;
}

static bool is_scale(const RowBytes *rows, Arena *scratch) {
    const Node *add = binary_of(rows->scale, "Add");
    for (uint32_t i = 0; add && i < 2; i++) {
        const Value *sum = beside_number(fuse_input(add, i), "Mul", 0);
        if (sum && reduced(sum, "ReduceSum", scratch) == rows->x &&
            is_step(fuse_input(add, 1 - i), rows, scratch))
            return true;
    }
    return false;
}

static Node *unary_of(const Value *value, const char *op) {
    Node *node = value ? value->producer : NULL;
    return fuse_is(node, op) && fuse_input(node, 0) ? node : NULL;
}

/* The QuantizeLinear, or else the Div before Round and Cast, that makes bytes of numbers and scales. */
static const Node *divides(const Value *bytes) {
    const Node *blocks = binary_of(bytes, "QuantizeLinear"), *to = unary_of(bytes, "Cast");
    const Node *near = to ? unary_of(fuse_input(to, 0), "Round") : NULL;
    if (!blocks) return near ? binary_of(fuse_input(near, 0), "Div") : NULL;
    const int64_t rank = fuse_rank(bytes), length = rank > 0 ? fuse_dim(bytes, -1) : -1;
    const int64_t axis = node_attr_int(blocks, "axis", 1);
    const bool last = axis == -1 || axis == rank - 1;
    return last && length > 0 && node_attr_int(blocks, "block_size", 0) == length ? blocks : NULL;
}

bool row_bytes_find(Value *bytes, Arena *scratch, RowBytes *found) {
    const Node *div = divides(bytes);
    const Node *sub = div ? binary_of(fuse_input(div, 0), "Sub") : NULL;
    if (!sub || type_dtype(bytes->type) != DTYPE_UINT8) return false;
    *found = (RowBytes){fuse_input(sub, 0), fuse_input(sub, 1), fuse_input(div, 1), bytes, div};
    return is_float(found->x) && reduced(found->low, "ReduceMin", scratch) == found->x &&
           is_scale(found, scratch);
}

/* The Mul that alone reads the value, and its other operand. */
static Node *times(const Value *value, Value **by) {
    Node *node = fuse_reader(value);
    *by = fuse_is(node, "Mul") ? fuse_other(node, value) : NULL;
    return *by && is_float(*by) ? node : NULL;
}

bool row_product_find(Node *node, RowProduct *found) {
    Value *added;
    if (!fuse_is(node, "MatMulInteger") || fuse_input(node, 2) || fuse_input(node, 3) ||
        !fuse_input(node, 0) || !fuse_input(node, 1))
        return false;
    *found = (RowProduct){.node = node, .bytes = fuse_input(node, 0)};
    found->weights.bytes = fuse_input(node, 1);
    const Node *wide = fuse_reader(node->outputs[0]);
    if (!node_is_cast(wide) || !is_float(wide->outputs[0])) return false;
    const Node *scaled = times(wide->outputs[0], &found->scale);
    const Node *product = scaled ? times(scaled->outputs[0], &found->weights.factors) : NULL;
    found->root = product ? fuse_reader(product->outputs[0]) : NULL;
    if (!fuse_is(found->root, "Add")) return false;
    added = fuse_other(found->root, product->outputs[0]);
    const Node *shift = binary_of(added, "Mul");
    if (!shift || !value_is_constant(found->weights.factors)) return false;
    const uint32_t constant = value_is_constant(fuse_input(shift, 1)) ? 1 : 0;
    found->low = fuse_input(shift, 1 - constant);
    found->weights.shifts = fuse_input(shift, constant);
    return value_is_constant(found->weights.shifts) && is_float(found->low) &&
           is_float(found->weights.shifts) && fuse_is_inner(added) && fuse_reader(added);
}

Value *row_weights_stored(Value *bytes, bool *turned) {
    uint32_t count = 0;
    const Node *turn = bytes->producer;
    const Attr *attr = fuse_is(turn, "Transpose") ? node_attr(turn, "perm") : NULL;
    const int64_t *perm = attr && !attr->ref ? attr_ints(attr, &count) : NULL;
    *turned = perm && count == 2 && perm[0] == 1 && perm[1] == 0 && fuse_input(turn, 0);
    return *turned ? fuse_input(turn, 0) : bytes;
}
