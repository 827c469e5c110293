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
 * are constants behind a DequantizeLinear, or of com.microsoft's operators that have quantized ones
 * (wide_weights.h); a remark names the first of these that stays. With products=true, weights of products alone become float,
 * in a model without quantized activations, so that both can be quantized anew. With insert=PASS, the insert-qdq that
 * comes next, those weights alone that it would store otherwise (stored_weights.h), whatever else is quantized; remarks
 * count those that stay, and rows=true first takes back what quantize-rows made. Pairs of what is float32 between are
 * looked at. What raising the opset and fold-batch-norm did before stays.
 */
#include <stddef.h>
#include <string.h>

#include "compare.h"
#include "constants.h"
#include "dequantized.h"
#include "node_exclude.h"
#include "op_record.h"
#include "op_types.h"
#include "passes.h"
#include "qdq_node.h"
#include "qdq_table.h"
#include "precise_nodes.h"
#include "stored_weights.h"
#include "undo_rows.h"
#include "wide_weights.h"

typedef struct StripQdqOptions {
    bool all, products, rows;
    const char *insert;
    PassStrings keep, keep_ops, only;
} StripQdqOptions;

static const PassOption options_table[] = {
    {"all", OPTION_BOOL, offsetof(StripQdqOptions, all), NULL, NULL,
     "also remove Q/DQ pairs that demi did not insert, and dequantize weights of "
     "com.microsoft's operators"},
    {"products", OPTION_BOOL, offsetof(StripQdqOptions, products), NULL, NULL,
     "only dequantize the weights of products, and only if the model has no quantized activations"},
    {"insert", OPTION_STRING, offsetof(StripQdqOptions, insert), NULL, NULL,
     "with products: the insert-qdq that comes next; weights that are as it would store them stay, "
     "and so do those of "
     "products with quantized activations"},
    {"rows", OPTION_BOOL, offsetof(StripQdqOptions, rows), NULL, NULL,
     "with insert: first take back what quantize-rows made"},
    {"keep", OPTION_STRINGS, offsetof(StripQdqOptions, keep), NULL, NULL,
     "with products: nodes to skip, by PATTERN"},
    {"keep-ops", OPTION_STRINGS, offsetof(StripQdqOptions, keep_ops), NULL, NULL,
     "with products: operators to skip"},
    {"only", OPTION_STRINGS, offsetof(StripQdqOptions, only), NULL, NULL,
     "with products: the products whose weights to dequantize, by PATTERN"},
    {0},
};

typedef struct Strip {
    PassCtx *ctx;
    bool all, products;
    const QdqRequest *request; /* what is stored next; NULL: nobody says */
    const char *const
        *excluded; /* [excluded_count], with products: not NULL of nodes that are skipped */
    uint32_t excluded_count;
    size_t wanted, integers; /* weights that stay: STORED_WANTED, STORED_INTEGERS */
    VEC(Value *) unread;     /* constants that may be read by nothing now, each once */
    bool *listed;            /* [value_count]: it is among them */
    uint32_t value_count;    /* of values that there are, and that may come */
    WideWeights *wide;
    const Node *kept; /* the first node whose weights stay quantized, and why; NULL: none */
    const char *why;
    size_t kept_count;
} Strip;

/* Those that came since are not. */
static bool is_excluded(const Strip *s, const Node *node) {
    return node->id < s->excluded_count && s->excluded[node->id];
}

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

/* Notes what the node reads. */
static void list_operands(Strip *s, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        Value *value = node->inputs[i].value;
        if (!value || value->id >= s->value_count || s->listed[value->id]) continue;
        s->listed[value->id] = true;
        VEC_PUSH(s->ctx->scratch, &s->unread, value);
    }
}

static void drop_node(Strip *s, Node *node) {
    list_operands(s, node);
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

/* How codes and scales lie along a constant of these dims. */
static bool find_layout(const Node *node, const Tensor *of, Dequantized *layout) {
    int64_t axis = node_attr_int(node, "axis", 1), block = node_attr_int(node, "block_size", 0);
    const bool one = tensor_count(layout->scales) == 1 && !block;
    if (axis < 0) axis += of->rank;
    if (block < 0 || (!one && (axis < 0 || axis >= (int64_t)of->rank))) return false;
    layout->block = (uint64_t)block;
    layout->outer = layout->axis = layout->inner = 1;
    for (uint32_t i = 0; i < of->rank; i++) {
        const uint64_t dim = (uint64_t)of->dims[i];
        if (!one && i < (uint32_t)axis)
            layout->outer *= dim;
        else if (!one && i == (uint32_t)axis)
            layout->axis = dim;
        else
            layout->inner *= dim;
    }
    return true;
}

/* The constant as the node makes it float; NULL where it can't be said. */
static const Tensor *dequantized(const Strip *s, const Node *node) {
    Arena *arena = &s->ctx->model->arena;
    const Value *stored = operand(node, 0), *zero = operand(node, 2);
    const Tensor *tensor = constant_tensor(stored, arena);
    Dequantized of = {.numbers = tensor,
                      .scales = constant_tensor(operand(node, 1), arena),
                      .zeros = zero ? constant_tensor(zero, arena) : NULL};
    if (!tensor || !of.scales || (zero && !of.zeros) || !tensor_check(tensor, NULL) ||
        !tensor_check(of.scales, NULL) || (zero && !tensor_check(of.zeros, NULL)) ||
        !find_layout(node, tensor, &of))
        return NULL;
    of.dtype = (Dtype)tensor->dtype;
    if (zero) of.zero_dtype = (Dtype)of.zeros->dtype;
    const Dtype floats = type_dtype(node->outputs[0]->type);
    tensor = dequantized_tensor(arena, &of, tensor->dims, tensor->rank, sym_text(stored->name));
    return tensor && floats != DTYPE_FLOAT ? tensor_new_cast(arena, tensor, floats) : tensor;
}

static bool is_product(const Strip *s, const Node *node) {
    const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
    return record && !is_excluded(s, node) &&
           (record->quantized == QUANTIZED_PRODUCT || record->quantized == QUANTIZED_WEIGHTS);
}

/* All that reads the value are products, or a Transpose of weights that these read. */
static bool is_read_by_products(const Strip *s, const Value *value, bool turned) {
    for (const Use *use = value->uses; use; use = use->next) {
        const Node *node = use->node;
        const bool turns = node && !turned && sym_equals(node->op_type, "Transpose") &&
                           domain_is_default(node->domain) && node->output_count == 1 &&
                           node->outputs[0] && is_read_by_products(s, node->outputs[0], true);
        if (!node || (!turns && !is_product(s, node))) return false;
    }
    return value->uses;
}

/* Of constants; but for scales, `twice`, that are quantized themselves. */
static bool is_stored(const Node *node, bool twice) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        const Node *scales = twice && i == 1 && value ? value->producer : NULL;
        if (value && !value_is_constant(value) &&
            !(is_op(scales, "DequantizeLinear") && is_stored(scales, false)))
            return false;
    }
    return true;
}

/* None of what reads the value, or a Transpose of it, is to be skipped. */
static bool may_change(const Strip *s, const Value *value) {
    for (const Use *use = value->uses; use; use = use->next) {
        if (use->node && is_excluded(s, use->node)) return false;
        if (use->node && sym_equals(use->node->op_type, "Transpose") &&
            use->node->output_count == 1 && use->node->outputs[0] &&
            !may_change(s, use->node->outputs[0]))
            return false;
    }
    return true;
}

/* Weights are to be stored otherwise than they are; counts those that stay. */
static bool changes(Strip *s, StoredAs as) {
    s->wanted += as == STORED_WANTED;
    s->integers += as == STORED_INTEGERS;
    return as == STORED_OTHERWISE;
}

static bool is_weights(Strip *s, const Node *node) {
    const Value *result = node->outputs[0];
    if (!qdq_is_float(result) || !is_stored(node, s->products)) return false;
    if (s->request)
        return may_change(s, result) &&
               changes(s, stored_dequantized(s->request, node, s->ctx->scratch));
    if (s->products) return is_read_by_products(s, result, false);
    return s->all || qdq_is_own(node, QDQ_MARK_WEIGHTS);
}

/* The constant takes the place of the node's result, and its name. */
static void strip_weights(Strip *s, Node *node) {
    Value *result = node->outputs[0], *stored = operand(node, 0), *scales = operand(node, 1);
    if (!value_is_constant(scales) && scales->producer) strip_weights(s, scales->producer);
    const Tensor *tensor = dequantized(s, node);
    if (!tensor || value_is_named_output(result)) return;
    Value *made = qdq_constant(s->ctx, stored, "float", tensor);
    value_swap_names(made, result);
    value_replace_uses(result, made);
    drop_node(s, node);
}

/* Of operators that have quantized weights. In functions, types are some call's. */
static void strip_operator(Strip *s, Node *node) {
    if (s->products && is_excluded(s, node)) return;
    if (s->request    ? !changes(s, stored_in_operator(s->request, node))
        : s->products ? !wide_weights_are_of_product(node)
                      : !s->all && !node_metadata(node, OWN_QUANTIZER))
        return;
    list_operands(s, node);
    const char *why =
        node->graph->function ? "it is in a function" : wide_weights_put(s->wide, node);
    if (!why) return;
    if (!s->kept_count++) {
        s->kept = node;
        s->why = why;
    }
}

static void remark_count(const Strip *s, size_t count, const char *says) {
    Arena *arena = &s->ctx->model->arena;
    if (count)
        pass_remark(s->ctx->counts, arena,
                    arena_printf(arena, "%zu constant%s as stored: %s", count,
                                 count == 1 ? " stays" : "s stay", says));
}

static void remark(const Strip *s) {
    Arena *arena = &s->ctx->model->arena;
    if (s->wanted)
        remark_count(s, s->wanted,
                     arena_printf(arena, "%s %s already", s->wanted == 1 ? "it is" : "they are",
                                  s->request->weights->word));
    remark_count(s, s->integers,
                 "the activations of their products are quantized, too (--to float32 undoes both)");
    if (!s->kept) return;
    pass_remark(s->ctx->counts, arena,
                arena_printf(arena, "%zu node%s quantized weights, such as '%s' (%s): %s",
                             s->kept_count, s->kept_count == 1 ? " keeps its" : "s keep their",
                             node_label(s->kept), sym_text(s->kept->op_type), s->why));
}

/* ---- products of rows ------------------------------------------------------------------------ */

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
    for (size_t i = 0; i < products.count; i++) undo_rows_of(s->ctx, products.items[i]);
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

static bool quantizes_values(const Model *model, Arena *scratch) {
    const GraphList graphs = model_graphs(model, scratch);
    for (size_t g = 0; g < graphs.count; g++)
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node))
            if (sym_equals(node->op_type, "QuantizeLinear")) return true;
    return false;
}

/* What matches nothing here is said where weights are stored. Nodes that have to be exact stay float there. */
static bool find_excluded(Strip *s, const StripQdqOptions *options, Err *err) {
    const NodePatterns patterns = {.keep = options->keep,
                                   .keep_ops = options->keep_ops,
                                   .only = options->only,
                                   .allow_unmatched = true};
    const char **excluded = node_exclusions(s->ctx->model, &patterns, s->ctx->scratch, err);
    const char **precise = excluded && s->request ? precise_nodes(s->ctx, err) : NULL;
    s->excluded = excluded;
    s->excluded_count = s->ctx->model->node_count;
    for (uint32_t i = 0; precise && i < s->excluded_count; i++)
        if (!excluded[i]) excluded[i] = precise[i];
    return excluded && (precise || !s->request);
}

/* Weights of an operator that has quantized ones, of a table, or behind a DequantizeLinear; or the latter's pair. */
static void visit(Strip *s, Node *node) {
    if (wide_weights_are_of(node)) {
        strip_operator(s, node);
        return;
    }
    if (node->graph->function) return; /* types there are some call's */
    const bool joins = s->request ? qdq_table_ends(node) && !is_excluded(s, node) &&
                                        changes(s, stored_in_table(s->request, node))
                                  : !s->products;
    Node *joined = joins ? qdq_table_join(s->ctx, node) : NULL;
    if (joined) strip_weights(s, joined);
    if (joined || !is_op(node, "DequantizeLinear")) return;
    Node *q = s->products ? NULL : pair_of(s, node);
    if (q)
        strip_pair(s, node, q);
    else if (is_weights(s, node))
        strip_weights(s, node);
}

static bool begin(Strip *s, const StripQdqOptions *options, QdqRequest *request, Err *err) {
    const bool inserts = options->products && options->insert;
    GraphList graphs = model_graphs(s->ctx->model, s->ctx->scratch);
    if (inserts && !qdq_request_read(options->insert, &s->ctx->model->arena, request, err))
        return false;
    if (inserts && request->weights) s->request = request;
    for (size_t g = 0; g < graphs.count; g++)
        if ((!s->products || (inserts && options->rows)) && !graphs.items[g]->function)
            undo_rows(s, graphs.items[g]);
    return !s->products || find_excluded(s, options, err);
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const StripQdqOptions *options = opts;
    /* each node adds two constants at most */
    const uint32_t most = ctx->model->value_count + 2 * ctx->model->node_count;
    QdqRequest request;
    Strip s = {.ctx = ctx, .all = options->all, .products = options->products, .value_count = most};
    if (s.products && !options->insert && quantizes_values(ctx->model, ctx->scratch)) return true;
    s.listed = ARENA_ARRAY(ctx->scratch, bool, s.value_count);
    s.wide = wide_weights_new(ctx, most);
    if (!begin(&s, options, &request, err)) return false;
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t g = 0; g < graphs.count; g++)
        for (Node *node = graphs.items[g]->first, *next; node; node = next) {
            next = node->next;
            visit(&s, node);
        }
    remark(&s);
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
