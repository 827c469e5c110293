// SPDX-License-Identifier: Apache-2.0
/* canonicalize: removes nodes that give what they read, and merges those that follow each other.
 *
 *   Identity (x), Dropout (x) when it does not train, Concat (x), Max (x)      ->  x
 *   Reshape, Expand, Slice, Flatten, Tile … (x) to the shape that x has        ->  x
 *   Transpose (x) in order, Pad (x) by 0, Mul (x, 1), Div (x, 1), Sub (x, 0)   ->  x
 *   Transpose (Transpose (x))                                                  ->  Transpose (x), or x
 *   Reshape (Squeeze (x), shape)                                               ->  Reshape (x, shape)
 *   Transpose (Reshape (x)) that moves axes of one element                      ->  Reshape (x, shape)
 *   Reshapes and Transposes in a row that fewer of them can stand for          ->  these
 *   Gather (x, {0, 1, …}) of all places of an axis                             ->  Reshape (x, shape)
 *   Slice (Slice (x)) along different axes                                     ->  Slice (x)
 *   Slice (x, 0, a), Slice (x, a, …) … that are all of x together              ->  Split (x)
 *   Concat (a, Concat (b, c)) along one axis                                   ->  Concat (a, b, c)
 *   Squeeze (Unsqueeze (x)), Reshape (Flatten (x)) … to the shape that x has    ->  x
 *
 * All results are the same bits: x + 0 of floats is not x where that is -0, so only x - 0 and x + -0
 * go, and x + 0 before a Softmax and the like, which give the same for both. Shapes have to be known to
 * be the same, dim by dim, as numbers or names. What has a name that is an interface's, and what a graph
 * gives out that no node of it makes, stays.
 */
#include <math.h>
#include <string.h>

#include "constants.h"
#include "fuse_graph.h"
#include "merge_concats.h"
#include "merge_moves.h"
#include "merge_slices.h"
#include "op_facts.h"
#include "simplify_graph.h"

/* ---- constants ------------------------------------------------------------------------------- */

static bool are_all(PassCtx *ctx, const Tensor *tensor, uint64_t count, double number) {
    float *floats = ARENA_ARRAY(ctx->scratch, float, count);
    if (!tensor_read_floats(tensor, 0, count, floats, NULL)) return false;
    for (uint64_t i = 0; i < count; i++)
        if ((double)floats[i] != number || !signbit(floats[i]) != !signbit(number)) return false;
    return true;
}

/* True where the value is a constant of nothing but this number, of integers or, with its sign, of
 * floats. The first element mostly tells; MOST elements at most are looked at. */
static bool is_all(PassCtx *ctx, const Value *value, double number) {
    enum { MOST_INTS = 1 << 16, MOST = 1 << 22 };
    const Tensor *tensor =
        value && value_is_constant(value) ? constant_tensor(value, ctx->scratch) : NULL;
    int64_t *ints;
    uint64_t count;
    if (!tensor || !tensor_check(tensor, NULL)) return false;
    if (tensor_read_ints(tensor, ctx->scratch, MOST_INTS, &ints, &count)) {
        for (uint64_t i = 0; i < count; i++)
            if ((double)ints[i] != number) return false;
        return count > 0;
    }
    count = tensor_count(tensor);
    return fuse_takes(value) && count > 0 && count <= MOST && are_all(ctx, tensor, 1, number) &&
           are_all(ctx, tensor, count, number);
}

static bool is_float(const Value *value) {
    return dtype_is_float(type_dtype(value->type));
}

/* ---- nodes that give what they read ---------------------------------------------------------- */

/* Operators of that many operands that give the one there is. */
static bool is_single(const Node *node) {
    return node->input_count == 1 && node->output_count == 1;
}

static bool keeps_shape(const Node *node) {
    return node->inputs[0].value && fuse_same_shape(node->inputs[0].value, node->outputs[0]);
}

static bool is_training(PassCtx *ctx, const Node *node) {
    const Value *mode = fuse_input(node, 2);
    if (fuse_opset(node) < 7) return node_attr_int(node, "is_test", 0) == 0;
    return mode && !is_all(ctx, mode, 0);
}

static bool is_dropout(PassCtx *ctx, const Node *node) {
    const Value *mask = node->output_count > 1 ? node->outputs[1] : NULL;
    return !(mask && (mask->uses || mask->referenced)) && !is_training(ctx, node);
}

static bool is_ordered(const Node *node) {
    uint32_t count;
    const int64_t *order = attr_ints(node_attr(node, "perm"), &count);
    if (!order) return fuse_rank(node->inputs[0].value) == 1;
    for (uint32_t i = 0; i < count; i++)
        if (order[i] != (int64_t)i) return false;
    return true;
}

/* Most elements that x can have along an axis: its size, or where that alone is open, what fits into 256
 * TiB, which is more than any machine's memory. Exporters write 10^9 or 2^31 - 1 for "to the end". */
static double most_along(const Value *x, int64_t axis) {
    const int64_t rank = fuse_rank(x);
    const unsigned bits = dtype_bits(type_dtype(x->type));
    double most = (double)(INT64_C(1) << 51) / (bits ? bits : 8);
    if (fuse_dim(x, axis) >= 0) return (double)fuse_dim(x, axis);
    for (int64_t i = 0; i < rank; i++) {
        if (i == axis) continue;
        if (fuse_dim(x, i) < 1) return (double)INT64_MAX;
        most /= (double)fuse_dim(x, i);
    }
    return most;
}

/* Ends that are beyond the size of each axis, or of the first ones where none are told. */
static bool ends_behind(PassCtx *ctx, const Node *node) {
    enum { MOST_AXES = 64 };
    const Value *x = fuse_input(node, 0), *operands[2] = {fuse_input(node, 2), fuse_input(node, 3)};
    const int64_t rank = fuse_rank(x);
    int64_t *lists[2] = {NULL, NULL};
    uint64_t counts[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        const Tensor *tensor = operands[i] && value_is_constant(operands[i])
                                   ? constant_tensor(operands[i], ctx->scratch)
                                   : NULL;
        if (!operands[i]) continue;
        if (!tensor || !tensor_check(tensor, NULL) ||
            !tensor_read_ints(tensor, ctx->scratch, MOST_AXES, &lists[i], &counts[i]))
            return false;
    }
    if (!lists[0] || rank < 0 || (lists[1] && counts[0] != counts[1])) return false;
    for (uint64_t i = 0; i < counts[0]; i++) {
        int64_t axis = lists[1] ? lists[1][i] : (int64_t)i;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank || (double)lists[0][i] < most_along(x, axis)) return false;
    }
    return true;
}

/* Steps backwards keep the shape, too. From 0 to the largest number is all, whatever the shape. */
static bool is_whole_slice(PassCtx *ctx, const Node *node) {
    if (fuse_input(node, 4) && !is_all(ctx, fuse_input(node, 4), 1)) return false;
    return keeps_shape(node) ||
           (is_all(ctx, fuse_input(node, 1), 0) &&
            (is_all(ctx, fuse_input(node, 2), (double)INT64_MAX) || ends_behind(ctx, node)));
}

static bool is_empty_pad(PassCtx *ctx, const Node *node) {
    uint32_t count;
    const Attr *attr = node_attr(node, fuse_opset(node) < 2 ? "paddings" : "pads");
    if (fuse_opset(node) >= 11) return is_all(ctx, fuse_input(node, 1), 0);
    const int64_t *pads = attr_ints(attr, &count);
    if (!pads) return false;
    for (uint32_t i = 0; i < count; i++)
        if (pads[i]) return false;
    return true;
}

/* A Reshape that asks for as many axes as there are, each of the size that it has but for one, which is
 * -1: that is what it was, then. */
static bool asks_for_same(PassCtx *ctx, const Node *node) {
    enum { MOST_AXES = 64 };
    const Value *x = node->inputs[0].value;
    int64_t *items;
    uint64_t count, open = 0;
    if (!simplify_is(node, "Reshape") ||
        !simplify_read_ints(ctx, fuse_input(node, 1), MOST_AXES, &items, &count) ||
        fuse_rank(x) != (int64_t)count)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        open += items[i] == -1;
        const bool copied = items[i] == 0 && node_attr_int(node, "allowzero", 0) == 0;
        if (!copied && items[i] != -1 && items[i] != fuse_dim(x, (int64_t)i)) return false;
    }
    return open <= 1;
}

/* True of a Transpose that moves nothing but axes of one element: order stays. */
static bool moves_ones(const Node *node) {
    uint32_t count;
    int64_t last = -1;
    const int64_t *order = attr_ints(node_attr(node, "perm"), &count);
    const Value *x = fuse_input(node, 0);
    if (!simplify_is(node, "Transpose") || !order || !x || fuse_rank(x) != (int64_t)count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (order[i] < 0 || fuse_dim(x, order[i]) == 1) continue;
        if (order[i] < last) return false;
        last = order[i];
    }
    return true;
}

static bool only_reshapes(const Node *node) {
    const OpSchema *schema = node_schema(node); /* NULL for a fused operator that a plan has */
    if (moves_ones(node)) return true;
    return schema && op_record_has(fuse_record(node), OP_IN_ORDER) &&
           op_has_flags(schema, OP_KEEPS_COUNT);
}

/* What the node before it reads, where both only reshape and come to the same shape; NULL where not. */
static Value *undone(const Node *node) {
    const Node *inner = node->inputs[0].value->producer;
    Value *source = inner ? fuse_input(inner, 0) : NULL;
    return source && only_reshapes(node) && only_reshapes(inner) &&
                   fuse_same_shape(source, node->outputs[0])
               ? source
               : NULL;
}

/* True where only operators read the value that give the same bits for 0 and -0. */
static bool hides_zeros_sign(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node || !op_record_has(fuse_record(use->node), OP_ZERO_SIGN)) return false;
    return !value->referenced;
}

/* The operand that an elementwise operator of two gives, the other one being neutral. */
static Value *not_neutral(PassCtx *ctx, const Node *node) {
    Value *a = fuse_input(node, 0), *b = fuse_input(node, 1);
    bool mul = simplify_is(node, "Mul"), add = simplify_is(node, "Add");
    bool from_right = simplify_is(node, "Div") || simplify_is(node, "Sub");
    if (!a || !b || node->input_count != 2 || !(mul || add || from_right)) return NULL;
    double neutral = mul || simplify_is(node, "Div") ? 1 : add && is_float(a) ? -0.0 : 0;
    Value *kept = is_all(ctx, b, neutral) ? a : NULL;
    if (!kept && !from_right && is_all(ctx, a, neutral)) kept = b;
    if (!kept && add && is_float(a) && hides_zeros_sign(node->outputs[0]))
        kept = is_all(ctx, b, 0) ? a : is_all(ctx, a, 0) ? b : NULL;
    return kept && fuse_same_shape(kept, node->outputs[0]) ? kept : NULL;
}

/* The operand that the node's first output is; NULL where it is another value. */
static Value *same_value(PassCtx *ctx, const Node *node) {
    const OpRecord *record = fuse_record(node);
    Value *x = fuse_input(node, 0);
    if (!x) return NULL;
    if (simplify_is(node, "Identity")) return x;
    if (op_record_has(record, OP_OF_ONE) && is_single(node)) return x;
    if (op_record_has(record, OP_IN_ORDER))
        return keeps_shape(node) || asks_for_same(ctx, node) ? x : undone(node);
    if (simplify_is(node, "Dropout")) return is_dropout(ctx, node) ? x : NULL;
    if (simplify_is(node, "Transpose")) return is_ordered(node) ? x : NULL;
    if (simplify_is(node, "Slice")) return is_whole_slice(ctx, node) ? x : NULL;
    if (simplify_is(node, "Pad")) return is_empty_pad(ctx, node) ? x : NULL;
    return not_neutral(ctx, node);
}

/* ---- nodes that follow each other ------------------------------------------------------------ */

static void merge_transposes(PassCtx *ctx, Node *outer) {
    uint32_t count, inner_count;
    const Node *inner = outer->inputs[0].value->producer;
    if (!simplify_is(inner, "Transpose") || !inner->inputs[0].value) return;
    const int64_t *order = attr_ints(node_attr(outer, "perm"), &count);
    const int64_t *before = attr_ints(node_attr(inner, "perm"), &inner_count);
    if (!order || !before || count != inner_count) return;
    int64_t *both = ARENA_ARRAY(ctx->scratch, int64_t, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (order[i] < 0 || order[i] >= count) return;
        both[i] = before[order[i]];
    }
    node_set_attr_ints(outer, "perm", both, count);
    node_set_input(outer, 0, inner->inputs[0].value);
    ctx->counts->rewrites++;
}

/* True where what the node gives has the same size in that place as what it reads, which is open. */
static bool keeps_open_dim(const Node *node, uint64_t at) {
    uint32_t count;
    const Type *from = value_shaped_type(node->inputs[0].value),
               *to = value_shaped_type(node->outputs[0]);
    if (!from || at >= from->rank || from->dims[at].kind == DIM_KNOWN) return false;
    if (simplify_is(node, "Transpose")) {
        const int64_t *order = attr_ints(node_attr(node, "perm"), &count);
        return order && at < count && order[at] == (int64_t)at;
    }
    return to && at < to->rank && dim_same(&from->dims[at], &to->dims[at]);
}

/* The constant shape of a Reshape, for what `inner`, which gives its operand, reads: with the operand's
 * sizes where it asks for them and they are known, *asks then, and as it is where an open one is what
 * `inner` reads of, too. NULL where it is not constant or does not say the same there. */
static int64_t *read_shape(PassCtx *ctx, const Node *reshape, const Node *inner, uint64_t *count,
                           bool *asks) {
    enum { MOST_DIMS = 1024 };
    int64_t *items;
    *asks = false;
    if (!simplify_read_ints(ctx, fuse_input(reshape, 1), MOST_DIMS, &items, count)) return NULL;
    for (uint64_t i = 0; i < *count; i++) {
        if (items[i] != 0) continue;
        if (node_attr_int(reshape, "allowzero", 0)) return NULL;
        if (keeps_open_dim(inner, i)) continue;
        items[i] = fuse_dim(reshape->inputs[0].value, (int64_t)i);
        if (items[i] <= 0) return NULL;
        *asks = true;
    }
    return items;
}

static void merge_reshapes(PassCtx *ctx, Node *outer) {
    const Node *inner = outer->inputs[0].value->producer;
    Fuse fuse = {.ctx = ctx};
    uint64_t count;
    bool asks;
    if (!inner || !only_reshapes(inner) || !fuse_input(inner, 0)) return;
    int64_t *items = read_shape(ctx, outer, inner, &count, &asks);
    if (!items || (asks && !model_has_free_initializers(ctx->model))) return;
    if (asks) node_set_input(outer, 1, fuse_new_ints(&fuse, outer->graph, items, (uint32_t)count));
    node_set_input(outer, 0, inner->inputs[0].value);
    ctx->counts->rewrites++;
}

/* A Reshape of `source` to the shape of the node's result takes the node's place. NULL, and nothing
 * happens, where more than one size is open. */
static Node *become_reshape(PassCtx *ctx, Node *node, Value *source) {
    enum { SINCE = 5 };
    Value *result = node->outputs[0];
    const int64_t rank = fuse_rank(result);
    Fuse fuse = {.ctx = ctx};
    uint32_t open = 0;
    if (!model_has_free_initializers(ctx->model) || fuse_opset(node) < SINCE || rank < 0)
        return NULL;
    int64_t *dims = ARENA_ARRAY(ctx->scratch, int64_t, (size_t)rank + 1);
    for (int64_t i = 0; i < rank; i++) {
        dims[i] = fuse_dim(result, i);
        open += dims[i] < 0;
        if (dims[i] == 0 || open > 1) return NULL;
    }
    Sym op = sym_intern_cstr(&ctx->model->syms, "Reshape");
    Node *reshape = node_new(node->graph, node, op, NULL);
    reshape->name = node->name;
    node_resize_inputs(reshape, 2);
    node_resize_outputs(reshape, 1);
    node_set_input(reshape, 0, source);
    node_set_input(reshape, 1, fuse_new_ints(&fuse, node->graph, dims, (uint32_t)rank));
    node_set_output(node, 0, NULL);
    node_set_output(reshape, 0, result);
    node_remove_unswept(node);
    ctx->counts->rewrites++;
    return reshape;
}

/* True of a Gather of all places along an axis of known size, each once and in order. */
static bool gathers_all(PassCtx *ctx, const Node *node) {
    enum { MOST_PLACES = 1 << 16 };
    int64_t *items;
    uint64_t count;
    Value *x = fuse_input(node, 0);
    if (!simplify_is(node, "Gather") || !x ||
        !simplify_read_ints(ctx, fuse_input(node, 1), MOST_PLACES, &items, &count))
        return false;
    int64_t axis = node_attr_int(node, "axis", 0);
    if (axis < 0) axis += fuse_rank(x);
    if (axis < 0 || axis >= fuse_rank(x) || fuse_dim(x, axis) != (int64_t)count) return false;
    for (uint64_t i = 0; i < count; i++)
        if (items[i] != (int64_t)i && items[i] != (int64_t)i - (int64_t)count) return false;
    return true;
}

/* The node as a Reshape, where it is one: a Transpose of axes of one element behind a Reshape, so that
 * both are one, or a Gather of all there is. NULL where not. */
static Node *reshape_of(PassCtx *ctx, Node *node) {
    const Node *inner = node->inputs[0].value->producer;
    if (gathers_all(ctx, node)) return become_reshape(ctx, node, node->inputs[0].value);
    if (!moves_ones(node) || !inner || !only_reshapes(inner) || !fuse_input(inner, 0)) return NULL;
    return become_reshape(ctx, node, inner->inputs[0].value);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void remove_unread(Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && (node->outputs[i]->uses || node->outputs[i]->referenced)) return;
    node_remove_unswept(node);
}

static void visit(PassCtx *ctx, Node *node, void *data) {
    (void)data;
    if (!fuse_record(node)) return;
    Node *reshape = fuse_input(node, 0) ? reshape_of(ctx, node) : NULL;
    if (reshape) node = reshape;
    const Value *source = NULL;
    while (fuse_input(node, 0) && source != node->inputs[0].value) {
        source = node->inputs[0].value;
        if (simplify_is(node, "Transpose")) merge_transposes(ctx, node);
        if (simplify_is(node, "Reshape")) merge_reshapes(ctx, node);
        if (simplify_is(node, "Slice")) slices_merge(ctx, node);
    }
    if (simplify_is(node, "Concat")) concats_merge(ctx, node);
    Value *same = same_value(ctx, node), *result = node->outputs[0];
    bool alike = same && type_same_dtypes(same->type, result->type);
    if (!alike || !result->uses || !value_bypass(result, same)) return;
    ctx->counts->rewrites++;
    remove_unread(node);
}

/* Whole rows first: what is merged two by two leaves nodes behind that nothing reads, but that read. */
static void visit_row(PassCtx *ctx, Node *node, void *data) {
    (void)data;
    if (fuse_record(node)) moves_merge(ctx, node);
}

typedef struct Slices {
    VEC(Node *) nodes;
} Slices;

static void list_slice(PassCtx *ctx, Node *node, void *data) {
    Slices *slices = data;
    if (simplify_is(node, "Slice")) VEC_PUSH(ctx->scratch, &slices->nodes, node);
}

/* The last first: what Slices read is one of a Split only where these are Splits by then. */
static void put_splits(PassCtx *ctx) {
    Slices slices = {0};
    each_node(ctx, list_slice, &slices);
    for (size_t i = slices.nodes.count; i-- > 0;) slices_become_split(ctx, slices.nodes.items[i]);
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++) graph_sweep(graphs.items[i]);
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    each_node(ctx, visit_row, NULL);
    each_node(ctx, visit, NULL);
    put_splits(ctx);
    return true;
}

const PassInfo canonicalize_pass = {
    .name = "canonicalize",
    .summary = "canonicalize: remove nodes that return their input, and merge consecutive reshapes "
               "and transposes",
    .needs = FACT_DTYPES | FACT_SHAPES,
    .gives = FACT_DTYPES | FACT_SHAPES,
    .idempotent = true,
    .run = run,
};
