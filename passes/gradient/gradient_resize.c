// SPDX-License-Identifier: Apache-2.0
/* The gradient of Resize, which is linear along each axis: resized alone, the unit matrix says how much
 * of each element goes where, whatever the mode. */
#include "gradient_rule.h"

/* The node's operand of sizes or scales, for two axes: this one, and one that stays. */
static Value *of_axis(Grad *g, uint32_t i, int64_t axis, Value *stays) {
    Value *own = GRAD(g, "Gather", grad_in(g, i), grad_int_list(g, axis));
    Value *both = GRAD(g, "Concat", own, stays);
    node_set_attr_int(both->producer, "axis", 0);
    return both;
}

/* (out, in): what each element of `in` gives to each of `out`. */
static Value *weights_along(Grad *g, int64_t axis) {
    const Dtype dtype = type_dtype(grad_in(g, 0)->type);
    Value *in = grad_dim(g, grad_in(g, 0), axis);
    Value *zeros = GRAD(g, "Expand", grad_number(g, 0, grad_in(g, 0)), GRAD_LIST(g, in, in));
    Value *unit = GRAD(g, "EyeLike", zeros);
    const uint32_t place = grad_in(g, 2) ? 2 : 3;
    Value *stays =
        place == 3 ? in : GRAD(g, "Reshape", grad_number(g, 1, grad_in(g, 2)), grad_int_list(g, 1));
    Value *wanted = of_axis(g, place, axis, stays);
    Node *again = make_node(&g->make, sym_text(g->node->op_type), NULL, place + 1);
    node_set_input(again, 0, unit);
    node_set_input(again, place, wanted);
    grad_keep_attrs(g, again);
    return make_output(&g->make, again, dtype);
}

/* The value with an axis and the last one exchanged. */
static Value *axis_last(Grad *g, Value *value, int64_t axis, uint32_t rank) {
    int64_t *perm = ARENA_ARRAY(g->make.ctx->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    perm[axis] = rank - 1;
    perm[rank - 1] = axis;
    return grad_transpose(g, value, perm, rank);
}

void gradient_resize(Grad *g) {
    Value *x = grad_in(g, 0), *y = grad_out(g, 0), *flow = grad_flow(g, 0);
    const uint32_t rank = grad_rank(g, x);
    if (grad_is(g, "coordinate_transformation_mode", "tf_crop_and_resize"))
        grad_refuse(g, "of tf_crop_and_resize");
    if (node_attr(g->node, "axes")) grad_refuse(g, "with axes");
    if (!grad_in(g, 2) && !grad_in(g, 3)) grad_refuse(g, "without scales and sizes");
    if (op_schema_attr(g->schema, "keep_aspect_ratio_policy") &&
        !grad_is(g, "keep_aspect_ratio_policy", "stretch"))
        grad_refuse(g, "that keeps the aspect ratio");
    for (uint32_t i = 0; i < rank && !g->failed; i++) {
        if (i < 2 && rank > 2 && grad_same_dim(x, y, i)) continue; /* samples and channels */
        Value *weights = weights_along(g, i);
        flow = GRAD(g, "MatMul", axis_last(g, flow, i, rank), weights);
        flow = axis_last(g, flow, i, rank);
    }
    grad_give(g, 0, flow);
}
