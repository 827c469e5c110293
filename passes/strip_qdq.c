// SPDX-License-Identifier: Apache-2.0
/* strip-qdq: takes insert-qdq back.
 *
 * Before: xd = DQ(Q(x, s, o), s, o) @own; w = DQ(wq, ws, wo) @own; y = Conv(xd, w)
 * After:  y = Conv(x, w)                          w is a float constant again
 *
 * Pairs that demi inserted go, and what they rounded is not rounded any more; weights come back as
 * the floats that they were read as, so they keep their rounding; so do scales that are quantized themselves. What
 * quantize-rows made is a MatMul again. With all=true so do pairs of
 * anybody's, where QuantizeLinear and DequantizeLinear have the same constants, and weights that
 * are constants behind a DequantizeLinear. Only what is float32 between is looked at. What raising
 * the opset and fold-batch-norm did before stays.
 */
#include <stddef.h>
#include <string.h>

#include "compare.h"
#include "constants.h"
#include "make_node.h"
#include "op_types.h"
#include "passes.h"
#include "qdq_node.h"
#include "qdq_table.h"
#include "row_form.h"

typedef struct StripQdqOptions {
    bool all;
} StripQdqOptions;

static const PassOption options_table[] = {
    {"all", OPTION_BOOL, offsetof(StripQdqOptions, all), NULL, NULL,
     "also remove Q/DQ pairs that demi did not insert"},
    {0},
};

typedef struct Strip {
    PassCtx *ctx;
    bool all;
    VEC(Value *) unread;  /* constants that may be read by nothing now, each once */
    bool *listed;         /* [value_count]: it is among them */
    uint32_t value_count; /* of values that there are, and that may come */
} Strip;

static bool is_op(const Node *node, const char *op) {
    return node && domain_is_default(node->domain) && sym_equals(node->op_type, op) &&
           node->input_count >= 2 && node->output_count == 1 && node->inputs[0].value &&
           node->inputs[1].value && node->outputs[0] &&
           !model_find_function(node->graph->model, node);
}

static bool is_float(const Value *value) {
    return value_type(value)->kind == TYPE_TENSOR && type_dtype(value->type) == DTYPE_FLOAT;
}

static Value *operand(const Node *node, uint32_t i) {
    return i < node->input_count ? node->inputs[i].value : NULL;
}

/* Constants of one shape and data, or one value, or none. */
static bool same_constant(const Strip *s, const Value *a, const Value *b) {
    if (a == b) return true;
    if (!a || !b || !value_is_constant(a) || !value_is_constant(b)) return false;
    const Tensor *x = constant_tensor(a, s->ctx->scratch), *y = constant_tensor(b, s->ctx->scratch);
    if (!x || !y || !tensor_check(x, NULL) || !tensor_check(y, NULL) || x->dtype != y->dtype ||
        x->rank != y->rank)
        return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->dims[i] != y->dims[i]) return false;
    Err ignored = {0};
    return tensor_compare_raw(x, y, tensor_raw_size(x), &ignored);
}

/* Notes what the node read, then removes it. */
static void drop_node(Strip *s, Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        Value *value = node->inputs[i].value;
        if (!value || value->id >= s->value_count || s->listed[value->id]) continue;
        s->listed[value->id] = true;
        VEC_PUSH(s->ctx->scratch, &s->unread, value);
    }
    node_remove_unswept(node);
    s->ctx->counts->rewrites++;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The QuantizeLinear whose result `node`, a DequantizeLinear, makes float again; NULL where the two
 * are no pair. */
static Node *pair_of(const Strip *s, Node *node) {
    Node *q = operand(node, 0)->producer;
    if (!is_op(q, "QuantizeLinear") || !is_float(q->inputs[0].value) || !is_float(node->outputs[0]))
        return NULL;
    const bool own = qdq_is_own(node, QDQ_MARK_VALUE) && qdq_is_own(q, QDQ_MARK_VALUE);
    if (!own && !s->all) return NULL;
    for (uint32_t i = 1; i < 3; i++)
        if (!same_constant(s, operand(q, i), operand(node, i))) return NULL;
    return node_attr_int(q, "axis", 1) == node_attr_int(node, "axis", 1) &&
                   node_attr_int(q, "block_size", 0) == node_attr_int(node, "block_size", 0)
               ? q
               : NULL;
}

static bool is_graph_output(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node) return true;
    return false;
}

/* An Identity in the DequantizeLinear's place: a graph gives out values of its own alone, and an output of the
 * model has a name of its own. */
static void pass_on(Node *node, Value *source) {
    Value *result = node->outputs[0];
    Node *made =
        node_new(node->graph, node, sym_intern_cstr(&node->graph->model->syms, "Identity"), NULL);
    made->name = node->name;
    node_resize_inputs(made, 1);
    node_set_input(made, 0, source);
    node_set_output(node, 0, NULL);
    node_resize_outputs(made, 1);
    node_set_output(made, 0, result);
}

static void strip_pair(Strip *s, Node *node, Node *q) {
    Value *result = node->outputs[0], *source = q->inputs[0].value;
    const bool named = value_is_named_output(result), elsewhere = source->graph != result->graph;
    if ((named && (source->input || elsewhere || value_is_named_output(source) ||
                   value_is_constant(source))) ||
        (elsewhere && is_graph_output(result))) {
        pass_on(node, source);
    } else {
        if (named) value_swap_names(result, source);
        value_replace_uses(result, source);
    }
    drop_node(s, node);
    if (!q->outputs[0]->uses && !q->outputs[0]->referenced) drop_node(s, q);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Numbers of a constant as doubles; NULL where it has others than `count`, or types without. */
static double *read_numbers(const Strip *s, const Value *value, uint64_t *count) {
    Arena *scratch = s->ctx->scratch;
    const Tensor *tensor = constant_tensor(value, scratch);
    if (!tensor || !tensor_check(tensor, NULL)) return NULL;
    const Dtype dtype = (Dtype)tensor->dtype;
    const unsigned bits = dtype_bits(dtype);
    *count = tensor_count(tensor);
    uint8_t *raw = arena_alloc(scratch, tensor_raw_size(tensor) + 1);
    double *items = ARENA_ARRAY(scratch, double, *count + 1);
    if (!bits || bits > 32 || (bits < 8 && 8 % bits) ||
        !tensor_read_raw(tensor, 0, raw, tensor_raw_size(tensor), NULL))
        return NULL;
    for (uint64_t i = 0; i < *count; i++) {
        uint64_t number = 0;
        if (bits < 8)
            number = (uint64_t)raw[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1);
        else
            memcpy(&number, raw + i * (bits / 8), bits / 8);
        if (!dtype_to_double(dtype, number, &items[i])) return NULL;
    }
    return items;
}

/* How scales lie along a constant of these dims. */
typedef struct Layout {
    uint64_t axis, inner, block, blocks, scales;
} Layout;

static bool find_layout(const Node *node, const Tensor *of, uint64_t scales, Layout *layout) {
    int64_t axis = node_attr_int(node, "axis", 1), block = node_attr_int(node, "block_size", 0);
    *layout = (Layout){.axis = 1, .inner = tensor_count(of), .block = 1, .blocks = 1, .scales = 1};
    if (scales == 1 && !block) return true;
    if (axis < 0) axis += of->rank;
    if (axis < 0 || axis >= (int64_t)of->rank || block < 0) return false;
    uint64_t outer = 1;
    layout->inner = 1;
    for (uint32_t i = 0; i < of->rank; i++) {
        const uint64_t dim = (uint64_t)of->dims[i];
        if (i < (uint32_t)axis) outer *= dim;
        if (i == (uint32_t)axis) layout->axis = dim;
        if (i > (uint32_t)axis) layout->inner *= dim;
    }
    layout->block = block ? (uint64_t)block : 1;
    layout->blocks = (layout->axis + layout->block - 1) / layout->block;
    layout->scales = block ? outer * layout->blocks * layout->inner : layout->axis;
    return layout->scales == scales;
}

static uint64_t scale_at(const Layout *layout, bool blocked, uint64_t i) {
    if (layout->scales == 1) return 0;
    const uint64_t a = i / layout->inner % layout->axis, o = i / layout->inner / layout->axis;
    if (!blocked) return a;
    return (o * layout->blocks + a / layout->block) * layout->inner + i % layout->inner;
}

/* The constant as the node makes it float; NULL where it can't be said. */
static const Tensor *dequantized(const Strip *s, const Node *node) {
    uint64_t count, scales, zeros = 0;
    Layout layout;
    const Value *stored = operand(node, 0), *zero = operand(node, 2);
    const Tensor *tensor = constant_tensor(stored, s->ctx->scratch);
    const double *items = read_numbers(s, stored, &count);
    const double *scale = read_numbers(s, operand(node, 1), &scales);
    const double *offset = zero ? read_numbers(s, zero, &zeros) : NULL;
    if (!tensor || !items || !scale || (zero && (!offset || zeros != scales)) ||
        !find_layout(node, tensor, scales, &layout))
        return NULL;
    float *out = ARENA_ARRAY(s->ctx->scratch, float, count + 1);
    const bool blocked = node_attr_int(node, "block_size", 0) != 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = scale_at(&layout, blocked, i);
        out[i] = (float)(items[i] - (offset ? offset[at] : 0)) * (float)scale[at];
    }
    return tensor_new_raw(&s->ctx->model->arena, DTYPE_FLOAT, tensor->dims, tensor->rank, out,
                          count * sizeof *out);
}

static bool is_weights(const Strip *s, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i].value && !value_is_constant(node->inputs[i].value)) return false;
    return is_float(node->outputs[0]) && (s->all || qdq_is_own(node, QDQ_MARK_WEIGHTS));
}

/* The constant takes the place of the node's result, and its name. */
static void strip_weights(Strip *s, Node *node) {
    Value *result = node->outputs[0], *stored = operand(node, 0);
    Arena *scratch = s->ctx->scratch;
    s->ctx->scratch = arena_child(scratch);
    const Tensor *tensor = dequantized(s, node);
    arena_free(s->ctx->scratch);
    s->ctx->scratch = scratch;
    if (!tensor || value_is_named_output(result)) return;
    Value *made = qdq_constant(s->ctx, stored, "float", tensor);
    value_swap_names(made, result);
    value_replace_uses(result, made);
    drop_node(s, node);
}

/* ---- products of rows ------------------------------------------------------------------------ */

/* Of that constant with those scales, as one made before, or a new one. */
static Value *dequantize_shared(PassCtx *ctx, Value *stored, Value *factors, int32_t axis) {
    for (const Use *use = stored->uses; use; use = use->next)
        if (qdq_is_own(use->node, QDQ_MARK_WEIGHTS) && fuse_input(use->node, 1) == factors &&
            node_attr_int(use->node, "axis", -1) == axis)
            return use->node->outputs[0];
    const QdqOperands operands = {factors, NULL, axis, 0, DTYPE_UNDEFINED};
    Value *made = qdq_value(ctx, stored, "float", DTYPE_FLOAT);
    Node *node = qdq_insert(ctx, "DequantizeLinear", stored, &operands, made);
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_WEIGHTS);
    return made;
}

/* A MatMul of the rows, and a DequantizeLinear of the weights, which products that share them share, take the place of
 * the product whose MatMulInteger `node` is. False where it is none. */
static bool undo_product(PassCtx *ctx, Node *node) {
    static const int64_t exchanged[2] = {1, 0};
    RowProduct p;
    RowBytes rows;
    bool turned;
    if (!row_product_find(node, &p) || !row_bytes_find(p.bytes, ctx->scratch, &rows) ||
        rows.scale != p.scale || rows.low != p.low)
        return false;
    Value *stored = row_weights_stored(p.weights.bytes, &turned), *factors = p.weights.factors;
    if (!value_is_constant(stored) || type_dtype(stored->type) != DTYPE_INT8 ||
        fuse_rank(stored) != 2 || fuse_rank(factors) > 1 || fuse_rank(factors) < 0)
        return false;
    Fuse fuse = {.ctx = ctx};
    const Make make = {ctx, node, node_label(node)};
    const int32_t axis = fuse_rank(factors) == 0 ? -1 : !turned;
    Value *weights = dequantize_shared(ctx, stored, factors, axis);
    if (turned) {
        weights = make_op(&make, "Transpose", &weights, 1, DTYPE_FLOAT);
        node_set_attr_ints(weights->producer, "perm", exchanged, 2);
    }
    Node *product = make_node(&make, "MatMul", NULL, 2);
    node_resize_outputs(product, 1);
    node_set_input(product, 0, rows.x);
    node_set_input(product, 1, weights);
    product->name = node->name;
    fuse_replace_root(&fuse, product, p.root);
    return true;
}

/* What only operators that quantize rows read, if these go. */
static void list_constants(Strip *s, const Graph *graph) {
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; node_is_own_quantizer(node) && i < node->input_count; i++) {
            Value *value = node->inputs[i].value;
            if (!value || s->listed[value->id] || !value_is_constant(value)) continue;
            s->listed[value->id] = true;
            VEC_PUSH(s->ctx->scratch, &s->unread, value);
        }
}

/* Products of rows that were quantized at run time are float ones of dequantized weights, which go then. */
static void undo_rows(Strip *s, const Graph *graph) {
    VEC(Node *) products = {0};
    for (Node *node = graph->first; node; node = node_after(node))
        if (is_op(node, "MatMulInteger")) VEC_PUSH(s->ctx->scratch, &products, node);
    if (products.count) list_constants(s, graph);
    for (size_t i = 0; i < products.count; i++) undo_product(s->ctx, products.items[i]);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void drop_unread(const Strip *s) {
    for (size_t i = 0; i < s->unread.count; i++) {
        Value *value = s->unread.items[i];
        if (value->uses || value->referenced || !value_is_constant(value)) continue;
        if (value->producer)
            node_remove_unswept(value->producer);
        else
            graph_remove_initializer(value);
    }
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const StripQdqOptions *options = opts;
    /* each node adds two constants at most */
    const uint32_t most = ctx->model->value_count + 2 * ctx->model->node_count;
    Strip s = {.ctx = ctx, .all = options->all, .value_count = most};
    (void)err;
    s.listed = ARENA_ARRAY(ctx->scratch, bool, s.value_count);
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t g = 0; g < graphs.count; g++)
        if (!graphs.items[g]->function) undo_rows(&s, graphs.items[g]);
    for (size_t g = 0; g < graphs.count; g++) {
        if (graphs.items[g]->function) continue; /* types there are some call's */
        for (Node *node = graphs.items[g]->first, *next; node; node = next) {
            next = node->next;
            Node *joined = qdq_table_join(ctx, node);
            if (joined) strip_weights(&s, joined);
            if (joined || !is_op(node, "DequantizeLinear")) continue;
            Node *q = pair_of(&s, node);
            if (q)
                strip_pair(&s, node, q);
            else if (is_weights(&s, node))
                strip_weights(&s, node);
        }
    }
    model_batch_removals(ctx->model);
    drop_unread(&s);
    model_sweep(ctx->model, ctx->scratch);
    return true;
}

const PassInfo strip_qdq_pass = {
    .name = "strip-qdq",
    .summary = "remove the Q/DQ pairs that insert-qdq inserted, and dequantize the weights",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(StripQdqOptions),
    .idempotent = true,
    .run = run,
};
