// SPDX-License-Identifier: Apache-2.0
/* Steps of upgrade-opset that concern operands: old broadcasting, bounds and fill values that
 * became inputs, indices, splits, and Scan's batch. Each check asks what its apply will ask. */
#include <float.h>
#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "upgrade.h"

/* ---- broadcasting before opset 7 ------------------------------------------------------------- */

/* Puts `count` dimensions of 1 behind input i, whose rank is `rank`. */
static void append_dims(Upgrade *upgrade, Node *node, uint32_t i, int64_t rank, int64_t count) {
    enum { OPSET = 7 };
    int64_t *axes = ARENA_ARRAY(upgrade->ctx->scratch, int64_t, (size_t)count);
    for (int64_t k = 0; k < count; k++) axes[k] = rank + k;
    Value *inputs[] = {node->inputs[i].value, NULL};
    Value *wide = upgrade_node(upgrade, node, node, "Unsqueeze", OPSET, inputs, "aligned");
    node_set_attr_ints(wide->producer, "axes", axes, (uint32_t)count);
    node_set_input(node, i, wide);
}

/* Dimensions of 1 that B lacks behind its own, to begin at `axis` of A; -1 where unknown. */
static int64_t missing_dims(Upgrade *upgrade, const Node *node) {
    int64_t a = upgrade_rank(upgrade, node, 0), b = upgrade_rank(upgrade, node, 1);
    int64_t axis;
    if (!attr_int(node_attr(node, "axis"), &axis) || node_attr_int(node, "broadcast", 0) == 0)
        return 0; /* trailing, or equal shapes */
    if (a < 0 || b < 0) return -1;
    if (axis < 0) axis += a;
    return axis >= 0 && axis <= a - b ? a - axis - b : -1;
}

/* False where dims that will lie beside each other, `missing` of 1 behind B's, are known not to fit:
 * inference finds nothing in old versions, whose results have A's shape, but would in new ones. */
static bool dims_fit(Upgrade *upgrade, const Node *node, int64_t missing) {
    const int64_t a = upgrade_rank(upgrade, node, 0), b = upgrade_rank(upgrade, node, 1);
    for (int64_t i = 0; i < b && i + missing < a; i++) {
        const int64_t beside = upgrade_dim(upgrade, node, 0, (uint32_t)(a - 1 - i - missing));
        const int64_t own = upgrade_dim(upgrade, node, 1, (uint32_t)(b - 1 - i));
        if (beside >= 0 && own >= 0 && beside != own && beside != 1 && own != 1) return false;
    }
    return true;
}

/* 6 -> 7 of binary operators: B was laid beside A from `axis` on; now from the end. */
bool upgrade_check_axis_broadcast(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_check_plain(upgrade, node, "axis broadcast", err)) return false;
    const int64_t missing = missing_dims(upgrade, node);
    if (missing < 0)
        return upgrade_refuse(upgrade, node, err, "it is unknown how its operands' shapes align");
    return dims_fit(upgrade, node, missing) ||
           upgrade_refuse(upgrade, node, err, "its operands' shapes do not fit");
}

void upgrade_apply_axis_broadcast(Upgrade *upgrade, Node *node) {
    int64_t missing = missing_dims(upgrade, node);
    if (missing > 0) append_dims(upgrade, node, 1, upgrade_rank(upgrade, node, 1), missing);
    node_remove_attr(node, "axis");
    node_remove_attr(node, "broadcast");
}

/* As missing_dims, for a slope a channel. */
static int64_t missing_slope_dims(Upgrade *upgrade, const Node *node) {
    int64_t x = upgrade_rank(upgrade, node, 0), slope = upgrade_rank(upgrade, node, 1);
    if (slope == 0 || slope > 1) return 0;
    if (slope == 1 && (upgrade_dim(upgrade, node, 1, 0) == 1 || (x >= 0 && x <= 2))) return 0;
    return slope == 1 && x > 2 ? x - 2 : -1;
}

/* 6 -> 7: one slope a channel was meant by a list of them; now it is laid beside X from the end. */
bool upgrade_check_prelu_slope(Upgrade *upgrade, const Node *node, Err *err) {
    if (missing_slope_dims(upgrade, node) >= 0) return true;
    return upgrade_refuse(upgrade, node, err, "the rank of its input or slope is unknown");
}

void upgrade_apply_prelu_slope(Upgrade *upgrade, Node *node) {
    int64_t missing = missing_slope_dims(upgrade, node);
    if (missing > 0) append_dims(upgrade, node, 1, 1, missing);
}

/* ---- Cast ------------------------------------------------------------------------------------ */

static Dtype cast_target(const Node *node) {
    Bytes to;
    if (!attr_string(node_attr(node, "to"), &to)) return DTYPE_UNDEFINED;
    char name[32] = {0};
    for (size_t i = 0; i < to.size && i + 1 < sizeof name; i++) {
        char c = (char)to.data[i];
        name[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return dtype_from_name(name, strlen(name));
}

/* 5 -> 6: the type's number instead of its name. */
bool upgrade_check_cast_to(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_check_plain(upgrade, node, "to", err)) return false;
    return cast_target(node) ||
           upgrade_refuse(upgrade, node, err, "'to' is not the name of a type");
}

void upgrade_apply_cast_to(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    node_set_attr_int(node, "to", cast_target(node));
}

/* ---- Clip, Pad: numbers of the data's type --------------------------------------------------- */

/* An attribute that says more than its absence does, in *bound. */
static bool says_bound(const Node *node, const char *name, float without, float *bound) {
    return attr_float(node_attr(node, name), bound) && *bound != without;
}

/* 6 -> 11: the bounds are inputs; the defaults are still the float type's ends. */
bool upgrade_check_clip_bounds(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_check_plain(upgrade, node, "min max", err)) return false;
    float bound;
    bool any =
        says_bound(node, "min", -FLT_MAX, &bound) || says_bound(node, "max", FLT_MAX, &bound);
    return !any || upgrade_can_make_like(upgrade, node, 0) ||
           upgrade_refuse(upgrade, node, err, "the type of its input is unknown");
}

void upgrade_apply_clip_bounds(Upgrade *upgrade, Node *node) {
    static const char *const names[] = {"min", "max"};
    static const float without[] = {-FLT_MAX, FLT_MAX};
    for (uint32_t i = 0; i < 2; i++) {
        float bound;
        if (says_bound(node, names[i], without[i], &bound))
            upgrade_set_input(node, i + 1, upgrade_scalar_like(upgrade, node, bound, names[i]));
        node_remove_attr(node, names[i]);
    }
}

/* 2 -> 11: the value to fill with is an input; 0 where it is left out. */
bool upgrade_check_pad_value(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_check_plain(upgrade, node, "value", err)) return false;
    float value;
    return !says_bound(node, "value", 0.0f, &value) || upgrade_can_make_like(upgrade, node, 0) ||
           upgrade_refuse(upgrade, node, err, "the type of its input is unknown");
}

void upgrade_apply_pad_value(Upgrade *upgrade, Node *node) {
    float value;
    if (says_bound(node, "value", 0.0f, &value))
        upgrade_set_input(node, 2, upgrade_scalar_like(upgrade, node, value, "value"));
    node_remove_attr(node, "value");
}

/* ---- OneHot ---------------------------------------------------------------------------------- */

/* True where no index can be negative. */
static bool indices_are_positive(Upgrade *upgrade, const Node *node) {
    Dtype dtype = upgrade_dtype(upgrade, node, 0);
    if (dtype == DTYPE_UINT8 || dtype == DTYPE_UINT16 || dtype == DTYPE_UINT32 ||
        dtype == DTYPE_UINT64)
        return true;
    const Value *value = upgrade_input(node, 0);
    const Node *maker = value ? value->producer : NULL;
    if (maker && op_record_has(node_record(maker), OP_NOT_NEGATIVE)) return true;
    int64_t *indices;
    uint64_t count;
    if (!upgrade_constant_ints(upgrade, node, 0, &indices, &count)) return false;
    for (uint64_t i = 0; i < count; i++)
        if (indices[i] < 0) return false;
    return true;
}

/* 9 -> 11: indices from -depth on count from the end, where any negative one was off. They become
 * depth, which is off still. */
bool upgrade_check_one_hot_range(Upgrade *upgrade, const Node *node, Err *err) {
    (void)err;
    indices_are_positive(upgrade, node);
    return true;
}

static Value *to_int64(Upgrade *upgrade, Node *node, uint32_t input, const char *stem) {
    enum { OPSET = 11 };
    Value *inputs[] = {node->inputs[input].value, NULL};
    Value *made = upgrade_node(upgrade, node, node, "Cast", OPSET, inputs, stem);
    node_set_attr_int(made->producer, "to", DTYPE_INT64);
    return made;
}

void upgrade_apply_one_hot_range(Upgrade *upgrade, Node *node) {
    enum { OPSET = 11 };
    if (indices_are_positive(upgrade, node)) return;
    Value *indices = to_int64(upgrade, node, 0, "indices");
    Value *depth = to_int64(upgrade, node, 1, "depth");
    Value *zero = upgrade_int(upgrade, node, 0, 0, "zero");
    Value *below = upgrade_node(upgrade, node, node, "Less", OPSET,
                                (Value *const[]){indices, zero, NULL}, "below");
    Value *inside = upgrade_node(upgrade, node, node, "Where", OPSET,
                                 (Value *const[]){below, depth, indices, NULL}, "indices");
    node_set_input(node, 0, inside);
}

/* ---- Split ----------------------------------------------------------------------------------- */

/* 1 -> 2: sizes are an attribute only, no operand. */
bool upgrade_check_split_sizes(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_input(node, 1)) return true;
    return upgrade_refuse(upgrade, node, err, "its sizes are an operand");
}

void upgrade_apply_split_sizes(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    if (node->input_count > 1) node_resize_inputs(node, 1);
}

/* 13 -> 18: equal parts must be asked for by their number. */
bool upgrade_check_split_count(Upgrade *upgrade, const Node *node, Err *err) {
    (void)upgrade, (void)node, (void)err;
    return true;
}

void upgrade_apply_split_count(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    if (!upgrade_input(node, 1)) node_set_attr_int(node, "num_outputs", node->output_count);
}

/* ---- Scan ------------------------------------------------------------------------------------ */

/* 8 -> 9: the batch dimension is gone. It is what an outer Scan without state goes along, whose
 * body is the Scan of one batch element. */
bool upgrade_check_scan_batch(Upgrade *upgrade, const Node *node, Err *err) {
    const Graph *body = attr_graph(node_attr(node, "body"));
    if (!upgrade_check_plain(upgrade, node, "body num_scan_inputs directions", err)) return false;
    if (upgrade_input(node, 0))
        return upgrade_refuse(upgrade, node, err, "sequences of different lengths");
    if (!body || body->inputs.count + 1 != node->input_count ||
        body->outputs.count != node->output_count)
        return upgrade_refuse(upgrade, node, err, "its body does not fit its operands");
    return true;
}

/* The declaration of a value of that body's element type, whatever its shape. */
static ValueDecl *declare_like(Upgrade *upgrade, const Type *type) {
    Arena *arena = &upgrade->model->arena;
    ValueDecl *decl = ARENA_NEW(arena, ValueDecl);
    Dtype dtype = type_dtype(type);
    decl->type = dtype ? type_plain_tensor(dtype) : NULL;
    return decl;
}

static Value *value_in(Upgrade *upgrade, Graph *graph, Sym stem) {
    return value_new(graph, sym_fresh(&upgrade->model->syms, sym_text(stem)));
}

/* An empty graph around the body: its inputs feed a Scan of the body, whose outputs are its. */
static Graph *wrap_body(Upgrade *upgrade, Node *scan, Graph *body) {
    Model *model = upgrade->model;
    Graph *outer = graph_new(model, scan->graph);
    outer->owner = scan;
    outer->name = sym_fresh(&model->syms, "scan_batch");
    Node *inner = node_new(outer, NULL, scan->op_type, NULL);
    node_resize_inputs(inner, (uint32_t)body->inputs.count);
    for (uint32_t i = 0; i < inner->input_count; i++) {
        Value *formal = body->inputs.items[i], *value = value_in(upgrade, outer, formal->name);
        value->input = declare_like(upgrade, formal->input->type);
        VEC_PUSH(&model->arena, &outer->inputs, value);
        node_set_input(inner, i, value);
    }
    node_resize_outputs(inner, (uint32_t)body->outputs.count);
    for (uint32_t i = 0; i < inner->output_count; i++) {
        const GraphOutput *formal = body->outputs.items[i];
        Value *value = value_in(upgrade, outer, formal->use.value->name);
        node_set_output(inner, i, value);
        graph_add_output(outer, value, declare_like(upgrade, formal->decl->type));
    }
    return outer;
}

void upgrade_apply_scan_batch(Upgrade *upgrade, Node *node) {
    Graph *body = attr_graph(node_attr(node, "body"));
    Graph *outer = wrap_body(upgrade, node, body);
    Node *inner = outer->first;
    uint32_t count;
    const int64_t *directions = attr_ints(node_attr(node, "directions"), &count);
    node_set_attr_graph(inner, "body", body);
    body->parent = outer;
    body->owner = inner;
    node_set_attr_int(inner, "num_scan_inputs", node_attr_int(node, "num_scan_inputs", 1));
    if (directions) node_set_attr_ints(inner, "scan_input_directions", directions, count);
    VEC_PUSH(upgrade->ctx->scratch, &upgrade->added, ((NewNode){inner, 9}));
    node_set_attr_graph(node, "body", outer);
    node_remove_attr(node, "directions");
    for (uint32_t i = 1; i < node->input_count; i++)
        node_set_input(node, i - 1, node->inputs[i].value);
    node_resize_inputs(node, node->input_count - 1);
    node_set_attr_int(node, "num_scan_inputs", node->input_count);
}
