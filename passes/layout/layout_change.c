// SPDX-License-Identifier: Apache-2.0
/* Changes of nodes into those that have their channels last; see layout_node.h. Numbers of axes that
 * are operands go through a Gather, which folds where they are constant. */
#include <string.h>

#include "constants.h"
#include "layout_node.h"

enum { PADS = 1, STARTS = 1, SLICE_AXES = 3, PAD_AXES = 3, SCALES = 2, SIZES = 3 };

/* ---- turning --------------------------------------------------------------------------------- */

static const Type *turned_type(Fuse *fuse, const Type *type, bool back) {
    Arena *arena = &fuse->ctx->model->arena;
    Dim *dims = ARENA_ARRAY(arena, Dim, type->rank);
    for (uint32_t i = 0; i < type->rank; i++) {
        const uint32_t last = (uint32_t)layout_axis(i, type->rank);
        dims[back ? i : last] = type->dims[back ? last : i];
    }
    return type_new_shaped(arena, type_dtype(type), dims, type->rank);
}

/* False where channels or all spatial axes are 1: the elements' order stays. */
static bool moves(const Value *value, bool back) {
    const int64_t rank = fuse_rank(value), spatial = back ? 1 : 2;
    if (fuse_dim(value, back ? rank - 1 : 1) == 1) return false;
    for (int64_t i = spatial; i < spatial + rank - 2; i++)
        if (fuse_dim(value, i) != 1) return true;
    return false;
}

/* As a Reshape; NULL where more than one dim is open. */
static Value *turn_view(Fuse *fuse, Node *at, Value *value, const Type *type) {
    int64_t shape[LAYOUT_RANK_MOST], open = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        const bool known = type->dims[i].kind == DIM_KNOWN;
        if (i > 0 && known && type->dims[i].size == 0) return NULL;
        shape[i] = known ? type->dims[i].size : i == 0 ? 0 : -1;
        open += shape[i] == -1;
    }
    if (open > 1) return NULL;
    Value *const operands[2] = {value, fuse_new_ints(fuse, at->graph, shape, type->rank)};
    return fuse_make(fuse, at, "Reshape", operands, type);
}

Value *layout_turn(Fuse *fuse, Node *at, Value *value, bool back) {
    if (layout_is_turn(value->producer, !back)) return fuse_input(value->producer, 0);
    const Type *type = turned_type(fuse, value_type(value), back);
    const uint32_t rank = type->rank;
    Value *view = moves(value, back) ? NULL : turn_view(fuse, at, value, type);
    if (view) return view;
    int64_t perm[LAYOUT_RANK_MOST];
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t last = (uint32_t)layout_axis(i, rank);
        perm[back ? i : last] = back ? last : i;
    }
    Value *turned = fuse_make(fuse, at, "Transpose", (Value *const[2]){value, NULL}, type);
    node_set_attr_ints(turned->producer, "perm", perm, rank);
    return turned;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Elements `places` [count] of a list. */
static Value *pick(const LayoutChange *c, Value *list, const int64_t *places, uint32_t count) {
    Arena *arena = &c->fuse->ctx->model->arena;
    Dim *dim = ARENA_NEW(arena, Dim);
    *dim = (Dim){.kind = DIM_KNOWN, .size = count};
    const Type *type = type_new_shaped(arena, type_dtype(list->type), dim, 1);
    Value *const operands[2] = {list, fuse_new_ints(c->fuse, c->node->graph, places, count)};
    return fuse_make(c->fuse, c->node, "Gather", operands, type);
}

/* Operand i, a list with an element for each axis (or two, one behind the other). */
static void reorder(const LayoutChange *c, uint32_t i, uint32_t rank, uint32_t times) {
    int64_t places[2 * LAYOUT_RANK_MOST];
    for (uint32_t t = 0; t < times; t++)
        for (uint32_t a = 0; a < rank; a++)
            places[t * rank + (uint32_t)layout_axis(a, rank)] = t * rank + a;
    Value *list = fuse_input(c->node, i);
    if (list && fuse_dim(list, 0) == (int64_t)times * rank)
        node_set_input(c->node, i, pick(c, list, places, times * rank));
}

/* Operand i, a list of axes. */
static void renumber(const LayoutChange *c, uint32_t i, uint32_t rank) {
    int64_t table[LAYOUT_RANK_MOST];
    Value *axes = fuse_input(c->node, i);
    for (uint32_t a = 0; a < rank; a++) table[a] = layout_axis(a, rank);
    Value *const operands[2] = {fuse_new_ints(c->fuse, c->node->graph, table, rank), axes};
    node_set_input(c->node, i, fuse_make(c->fuse, c->node, "Gather", operands, axes->type));
}

static void change_axis(const LayoutChange *c, uint32_t rank) {
    const OpAttr *known = op_schema_attr(node_schema(c->node), "axis");
    if (!known) return;
    int64_t axis = node_attr_int(c->node, "axis", known->has_default ? known->value.i : 0);
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank) node_set_attr_int(c->node, "axis", layout_axis(axis, rank));
}

static void change_axes(const LayoutChange *c, uint32_t rank) {
    uint32_t count;
    const Attr *attr = node_attr(c->node, "axes");
    const int64_t *axes = attr ? attr_ints(attr, &count) : NULL;
    int64_t numbers[LAYOUT_RANK_MOST];
    if (fuse_input(c->node, 1)) renumber(c, 1, rank);
    if (!axes) return;
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = layout_axis(axes[i] < 0 ? axes[i] + rank : axes[i], rank);
    node_set_attr_ints(c->node, "axes", numbers, count);
}

static void change_rank(const LayoutChange *c) {
    int64_t axes[LAYOUT_RANK_MOST];
    const uint32_t count = layout_rank_axes(c->node, c->fuse->ctx->scratch, axes);
    for (uint32_t i = 0; i < count; i++)
        axes[i]--; /* spatial ones are one place further to the front */
    if (fuse_input(c->node, 1))
        node_set_input(c->node, 1, fuse_new_ints(c->fuse, c->node->graph, axes, count));
    else
        node_set_attr_ints(c->node, "axes", axes, count);
}

static void change_slices(const LayoutChange *c, uint32_t rank) {
    int64_t axes[LAYOUT_RANK_MOST];
    if (fuse_input(c->node, SLICE_AXES)) {
        renumber(c, SLICE_AXES, rank);
        return;
    }
    const uint32_t count = (uint32_t)fuse_dim(fuse_input(c->node, STARTS), 0);
    for (uint32_t i = 0; i < count; i++) axes[i] = layout_axis(i, rank);
    if (c->node->input_count <= SLICE_AXES) node_resize_inputs(c->node, SLICE_AXES + 1);
    node_set_input(c->node, SLICE_AXES, fuse_new_ints(c->fuse, c->node->graph, axes, count));
}

/* A constant of the data's rank or a lower one, which it is broadcast from. */
static Value *turned_constant(const LayoutChange *c, Value *value, uint32_t rank) {
    const Type *type = value_type(value);
    if (type->rank < rank) {
        Arena *arena = &c->fuse->ctx->model->arena;
        Dim *dims = ARENA_ARRAY(arena, Dim, rank);
        int64_t shape[LAYOUT_RANK_MOST];
        for (uint32_t i = 0; i < rank; i++) {
            const bool has = i >= rank - type->rank;
            dims[i] = has ? type->dims[i - (rank - type->rank)] : (Dim){DIM_KNOWN, .size = 1};
            shape[i] = dims[i].size;
        }
        Value *const operands[2] = {value, fuse_new_ints(c->fuse, c->node->graph, shape, rank)};
        value = fuse_make(c->fuse, c->node, "Reshape", operands,
                          type_new_shaped(arena, type_dtype(type), dims, rank));
    }
    return layout_turn(c->fuse, c->node, value, false);
}

static void change_inputs(const LayoutChange *c, uint32_t rank) {
    for (uint32_t i = 0; i < c->node->input_count; i++)
        if (layout_follows(c->node, i))
            node_set_input(c->node, i, c->inputs[i]);
        else if (layout_is_data(c->node, i))
            node_set_input(c->node, i, turned_constant(c, fuse_input(c->node, i), rank));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The operator of demi.fused that is called so and `Last`. */
static Node *change_window(const LayoutChange *c) {
    Node *node = c->node;
    const char *name = arena_printf(c->fuse->ctx->scratch, "%sLast", sym_text(node->op_type));
    Node *made = fuse_new(c->fuse, node, name, node, node->input_count);
    node_share_lists(made, node);
    for (uint32_t i = 0; i < node->input_count; i++) node_set_input(made, i, fuse_input(node, i));
    if (node_attr(made, "storage_order")) node_remove_attr(made, "storage_order");
    return made;
}

static Node *change_global(const LayoutChange *c, const char *op, uint32_t rank) {
    enum { AXES_ARE_INPUT = 18 };
    int64_t axes[LAYOUT_RANK_MOST];
    const bool input = fuse_opset(c->node) >= AXES_ARE_INPUT;
    for (uint32_t i = 1; i + 1 < rank; i++) axes[i - 1] = i;
    Node *made =
        node_new(c->node->graph, c->node, sym_intern_cstr(&c->fuse->ctx->model->syms, op), NULL);
    made->name = c->node->name;
    node_resize_inputs(made, input ? 2 : 1);
    node_resize_outputs(made, 1);
    node_set_input(made, 0, fuse_input(c->node, 0));
    if (input)
        node_set_input(made, 1, fuse_new_ints(c->fuse, made->graph, axes, rank - 2));
    else
        node_set_attr_ints(made, "axes", axes, rank - 2);
    node_set_attr_int(made, "keepdims", 1);
    return made;
}

/* What the node becomes, with its operands as they are to be. */
static Node *change_node(const LayoutChange *c, uint32_t rank) {
    switch ((OpLayout)fuse_record(c->node)->layout) {
    case LAYOUT_FIRST:
    case LAYOUT_ORDER:
    case LAYOUT_DATA:
    case LAYOUT_EACH: break;
    case LAYOUT_AXIS: change_axis(c, rank); break;
    case LAYOUT_AXES: change_axes(c, rank); break;
    case LAYOUT_SLICES: change_slices(c, rank); break;
    case LAYOUT_PADS:
        if (fuse_input(c->node, PAD_AXES))
            renumber(c, PAD_AXES, rank);
        else
            reorder(c, PADS, rank, 2);
        break;
    case LAYOUT_SIZES:
        reorder(c, SCALES, rank, 1);
        reorder(c, SIZES, rank, 1);
        break;
    case LAYOUT_RANK: change_rank(c); break;
    case LAYOUT_WINDOW: return change_window(c);
    case LAYOUT_MEAN: return change_global(c, "ReduceMean", rank);
    case LAYOUT_MOST: return change_global(c, "ReduceMax", rank);
    }
    return c->node;
}

void layout_change(const LayoutChange *c) {
    Node *node = c->node;
    const uint32_t rank = (uint32_t)fuse_rank(node->outputs[0]);
    Model *model = c->fuse->ctx->model;
    change_inputs(c, rank);
    Node *made = change_node(c, rank);
    for (uint32_t i = 0; i < node->output_count; i++) {
        Value *before = node->outputs[i];
        c->outputs[i] = NULL;
        if (!before || !layout_turns(node, i)) continue;
        const char *stem = arena_printf(c->fuse->ctx->scratch, "%s_last", sym_text(before->name));
        Value *turned = value_new(node->graph, sym_fresh(&model->syms, stem));
        value_set_type(turned, turned_type(c->fuse, value_type(before), false));
        node_set_output(node, i, NULL);
        if (i < made->output_count) node_set_output(made, i, turned);
        c->outputs[i] = turned;
    }
    if (made != node) node_remove_unswept(node);
    c->fuse->ctx->counts->rewrites++;
}
