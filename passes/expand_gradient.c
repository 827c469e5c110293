// SPDX-License-Identifier: Apache-2.0
/* expand-gradient: a Gradient of ai.onnx.preview.training becomes the backward graph itself, in
 * standard operators, which any runtime has.
 *
 *   y = Mul (a, b)                                      y = Mul (a, b)
 *   da = Gradient <xs = ["a"], zs = ["b"], y = "y"> (a, b)  ->  da = Mul (ones, b)
 *
 * xs, zs and y are names where the node stands: a training graph sees the main graph. y is a function
 * of the xs and zs, whatever is computed before these, and of what its other operands are in the
 * graph. Where the node reads other values than the ones it names, the nodes between are computed
 * again from those. Of a y that is no scalar the sum is differentiated. An x that y does not depend
 * on has zeros.
 *
 * Gradients of gradients are expanded from the inside out. passes/gradient/ has what is done with a
 * node, and which operators have gradients.
 */
#include <string.h>

#include "clone_nodes.h"
#include "fuse_graph.h"
#include "gradient.h"
#include "infer_shapes.h"
#include "make_node.h"
#include "op_types.h"
#include "passes.h"
#include "value_names.h"

/* A Gradient, and the values that it names. */
typedef struct Named {
    Node *node;
    Value **xs, **zs, *y;
    uint32_t x_count, z_count;
} Named;

/* ---- what it names --------------------------------------------------------------------------- */

static Value **list_named(PassCtx *ctx, const Node *node, const char *list, uint32_t *count) {
    const Bytes *names = attr_strings(node_attr(node, list), count);
    return values_named(node->graph, names, *count, ctx->scratch);
}

static bool check_named(const Named *named, const char *list, Value *const *values, uint32_t count,
                        Err *err) {
    uint32_t length;
    const Bytes *names = attr_strings(node_attr(named->node, list), &length);
    for (uint32_t i = 0; i < count; i++) {
        if (!values[i])
            return node_error(named->node, err, ERR_MODEL,
                              "its %s name '%.*s', which does not exist", list, (int)names[i].size,
                              (const char *)names[i].data);
    }
    return true;
}

static bool check_twice(PassCtx *ctx, const Named *named, Err *err) {
    bool *met = ARENA_ARRAY(ctx->scratch, bool, ctx->model->value_count + 1);
    for (uint32_t i = 0; i < named->x_count + named->z_count; i++) {
        const Value *value = i < named->x_count ? named->xs[i] : named->zs[i - named->x_count];
        if (met[value->id])
            return node_error(named->node, err, ERR_MODEL, "it names '%s' twice",
                              sym_text(value->name));
        met[value->id] = true;
    }
    return true;
}

static bool check_real(const Named *named, const Value *value, Err *err) {
    const Dtype dtype = type_dtype(value->type);
    const bool real =
        value_type(value)->kind == TYPE_TENSOR && (fuse_takes(value) || dtype == DTYPE_DOUBLE);
    return real ||
           node_error(named->node, err, ERR_MODEL,
                      dtype ? "'%s' is not floating-point" : "the type of '%s' is not known",
                      sym_text(value->name));
}

static bool read_names(PassCtx *ctx, Named *named, Err *err) {
    const Node *node = named->node;
    Bytes y = {0};
    if (!attr_string(node_attr(node, "y"), &y) || !(named->y = value_named(node->graph, y)))
        return node_error(node, err, ERR_MODEL, "its y names '%.*s', which does not exist",
                          (int)y.size, y.size ? (const char *)y.data : "");
    named->xs = list_named(ctx, node, "xs", &named->x_count);
    named->zs = list_named(ctx, node, "zs", &named->z_count);
    if (!check_named(named, "xs", named->xs, named->x_count, err) ||
        !check_named(named, "zs", named->zs, named->z_count, err) || !check_twice(ctx, named, err))
        return false;
    const uint32_t inputs = named->x_count + named->z_count;
    if (node->input_count != inputs || node->output_count > named->x_count)
        return node_error(node, err, ERR_MODEL,
                          "it has %u inputs and %u outputs, and names %u xs and %u zs",
                          node->input_count, node->output_count, named->x_count, named->z_count);
    for (uint32_t i = 0; i < inputs; i++)
        if (!fuse_input(node, i)) return node_error(node, err, ERR_MODEL, "input %u is omitted", i);
    for (uint32_t i = 0; i < named->x_count; i++)
        if (!check_real(named, named->xs[i], err) || !check_real(named, fuse_input(node, i), err))
            return false;
    return check_real(named, named->y, err);
}

static GradientAsk ask_of(const Named *named) {
    return (GradientAsk){.at = named->node,
                         .ys = &named->y,
                         .xs = named->xs,
                         .zs = named->zs,
                         .y_count = 1,
                         .x_count = named->x_count,
                         .z_count = named->z_count};
}

/* ---- where it reads others ------------------------------------------------------------------- */

/* `at` and the nodes around it must come behind what y is computed from, which only its name says. */
static bool put_before(const Named *named, const GradientNodes *nodes, PassCtx *ctx, Err *err) {
    bool *behind = ARENA_ARRAY(ctx->scratch, bool, ctx->model->node_count + 1);
    for (const Node *at = named->node; at; at = at->graph->owner)
        for (const Node *node = at; node; node = node->next) behind[node->id] = true;
    for (size_t i = 0; i < nodes->count; i++) {
        Node *node = nodes->items[i];
        if (!behind[node->id]) continue;
        Node *at = named->node;
        while (at && at->graph != node->graph) at = at->graph->owner;
        if (node == at)
            return node_error(named->node, err, ERR_MODEL, "'%s' is computed from its own output",
                              sym_text(named->y->name));
        if (at) node_move_before(node, at);
    }
    return true;
}

/* True of the value itself, and of one that a conversion casts for the Gradient, which stays float. */
static bool is_value(const Value *given, const Value *named) {
    return given == named || (given->producer && node_is_own_cast(given->producer) &&
                              fuse_input(given->producer, 0) == named);
}

static Value *as_type(PassCtx *ctx, Node *at, Value *value, Dtype to) {
    const Make make = {ctx, at, sym_text(value->name)};
    const bool same = type_dtype(value->type) == to;
    Value *made = make_op(&make, same ? "Identity" : "Cast", &value, 1, to);
    if (!same) node_set_attr_int(made->producer, "to", to);
    value_set_type(made, type_with_dtype(&ctx->model->arena, value_type(value), to));
    return made;
}

/* Copies of the nodes that depend on values which are others here. */
static void compute_again(PassCtx *ctx, Named *named, const GradientNodes *nodes) {
    Node *at = named->node;
    CloneNodes clone = clone_begin(ctx->model, ctx->scratch);
    bool any = false;
    for (uint32_t i = 0; i < at->input_count; i++) {
        Value **place = i < named->x_count ? &named->xs[i] : &named->zs[i - named->x_count];
        Value *given = at->inputs[i].value;
        if (is_value(given, *place)) continue;
        Value *same = as_type(ctx, at, given, type_dtype((*place)->type));
        clone_map(&clone, *place, same);
        *place = same;
        any = true;
    }
    for (size_t i = 0; any && i < nodes->count; i++) {
        const Node *node = nodes->items[i];
        uint32_t count;
        Value **reads = gradient_reads(node, ctx->scratch, &count);
        bool depends = false;
        for (uint32_t k = 0; k < count; k++)
            depends = depends || clone_value(&clone, reads[k]) != reads[k];
        if (depends) clone_node(&clone, node, at->graph, at);
    }
    named->y = clone_value(&clone, named->y);
}

/* ---- expanding ------------------------------------------------------------------------------- */

static Value *zeros_of(PassCtx *ctx, Node *at, Value *x) {
    const Make make = {ctx, at, sym_text(x->name)};
    Value *shape = make_op(&make, "Shape", &x, 1, DTYPE_INT64);
    Value *zeros = make_op(&make, "ConstantOfShape", &shape, 1, type_dtype(x->type));
    static const uint64_t zero;
    static const int64_t one = 1;
    uint64_t size = 0;
    if (dtype_bytes(type_dtype(x->type), 1, &size) && size <= sizeof zero)
        node_set_attr_tensor(
            zeros->producer, "value",
            tensor_new_raw(&ctx->model->arena, type_dtype(x->type), &one, 1, &zero, size));
    return zeros;
}

/* Output i is what `value` was; what was made (by ids) is that itself, unless it has become one
 * already. Returns the output. */
static Value *put_output(PassCtx *ctx, Node *node, uint32_t i, Value *value, uint32_t made) {
    Value *result = node->outputs[i];
    const Dtype to = type_dtype(result->type);
    if (value->id < made || !value->producer || type_dtype(value->type) != to)
        value = as_type(ctx, node, value, to);
    Node *from = value->producer;
    const uint32_t place = value->output_index;
    node_set_output(node, i, NULL);
    node_set_output(from, place, result);
    value_replace_uses(value, result);
    return result;
}

static void put_outputs(PassCtx *ctx, const Named *named, Value **gradients, uint32_t made) {
    Node *node = named->node;
    const uint32_t count = ctx->model->value_count;
    Value **became = ARENA_ARRAY(ctx->scratch, Value *, count); /* by what was made: an output */
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!node->outputs[i]) continue;
        Value *value = gradients[i] ? gradients[i] : zeros_of(ctx, node, named->xs[i]);
        const uint32_t id = value->id;
        if (id < count && became[id]) value = became[id];
        Value *result = put_output(ctx, node, i, value, made);
        if (id < count && id >= made && !became[id]) became[id] = result;
    }
}

static bool expand(PassCtx *ctx, Named *named, Err *err) {
    GradientAsk ask = ask_of(named);
    const GradientNodes nodes = gradient_nodes(&ask, ctx->scratch);
    if (!put_before(named, &nodes, ctx, err)) return false;
    const Node *before = named->node->prev;
    const uint32_t made = ctx->model->value_count;
    compute_again(ctx, named, &nodes);
    ask = ask_of(named);
    Value **gradients = ARENA_ARRAY(ctx->scratch, Value *, named->x_count + 1);
    if (!gradient_expand(ctx, &ask, gradients, err)) return false;
    bool any = false;
    Node *node = named->node;
    for (uint32_t i = 0; i < named->x_count; i++) any = any || gradients[i];
    if (!any)
        return node_error(node, err, ERR_MODEL, "'%s' depends on none of its xs",
                          sym_text(named->y->name));
    put_outputs(ctx, named, gradients, made);
    gradient_sweep(ctx, before, node);
    node_remove_unswept(node);
    ctx->counts->rewrites++;
    return true;
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef VEC(Node *) Gradients;

static Gradients find_gradients(PassCtx *ctx, const GraphList *graphs) {
    Gradients found = {0};
    for (size_t i = 0; i < graphs->count; i++)
        for (Node *node = graphs->items[i]->first; node; node = node_after(node))
            if (node_names_values(node)) VEC_PUSH(ctx->scratch, &found, node);
    return found;
}

/* One whose y needs no other that is still there; its names are read. */
static bool find_ready(PassCtx *ctx, const Gradients *found, Named *ready, Err *err) {
    for (size_t i = 0; i < found->count; i++) {
        *ready = (Named){.node = found->items[i]};
        if (!read_names(ctx, ready, err)) return false;
        const GradientAsk ask = ask_of(ready);
        const GradientNodes nodes = gradient_nodes(&ask, ctx->scratch);
        bool waits = false;
        for (size_t k = 0; k < nodes.count; k++)
            waits = waits || (node_names_values(nodes.items[k]) && nodes.items[k] != ready->node);
        if (!waits) return true;
    }
    return node_error(found->items[0], err, ERR_MODEL, "its y is computed from its own output");
}

static bool infer(PassCtx *ctx, Err *err) {
    const PassCounts counts = *ctx->counts;
    const void *defaults = arena_alloc(ctx->scratch, infer_shapes_pass.options_size);
    const bool inferred = infer_shapes_pass.run(ctx, defaults, err);
    *ctx->counts = counts;
    return inferred;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    const GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    Gradients left = find_gradients(ctx, &graphs);
    if (left.count && !infer(ctx, err)) return false;
    while (left.count) {
        Named ready;
        if (!find_ready(ctx, &left, &ready, err) || !expand(ctx, &ready, err)) return false;
        for (size_t i = 0; i < graphs.count; i++) graph_sweep(graphs.items[i]);
        if (!infer(ctx, err)) return false;
        left = find_gradients(ctx, &graphs);
    }
    return true;
}

const PassInfo expand_gradient_pass = {
    .name = "expand-gradient",
    .summary = "replace each Gradient by the backward graph, in standard operators",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .idempotent = true,
    .run = run,
};
