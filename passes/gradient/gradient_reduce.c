// SPDX-License-Identifier: Apache-2.0
/* Gradients of reductions, of running sums, and of what divides by a sum: Softmax and its kin. */
#include "gradient_rule.h"

/* ---- reductions ------------------------------------------------------------------------------ */

typedef struct Reduced {
    Value *x, *y, *dy; /* y and dy with the axes that are gone put in again, of size 1 */
    Value *axes;       /* as an operand; NULL: all, or none */
    const int64_t *list;
    uint32_t count;
    bool same; /* there are no axes: nothing is reduced */
} Reduced;

/* Puts the axes in again, whatever rank there is: the shape of a sum that keeps them. */
static Value *with_axes_kept(Grad *g, const Reduced *r, Value *value) {
    if (grad_int(g, "keepdims")) return value;
    if (r->list) return grad_axes(g, "Unsqueeze", value, (GradAxes){r->list, r->count});
    return r->axes ? GRAD(g, "Unsqueeze", value, r->axes)
                   : value; /* one number goes with any rank */
}

static Reduced reduced(Grad *g) {
    Reduced r = {.x = grad_in(g, 0), .axes = grad_in(g, 1)};
    r.list = grad_list(g, "axes", &r.count);
    if (r.axes && value_shaped_type(r.axes) && value_type(r.axes)->rank == 1 &&
        value_type(r.axes)->dims[0].kind == DIM_KNOWN && value_type(r.axes)->dims[0].size == 0)
        r.axes = NULL; /* an empty list, as if it were not there */
    r.same = !r.axes && !r.list && grad_int(g, "noop_with_empty_axes");
    r.y = grad_out(g, 0);
    r.dy = grad_flow(g, 0);
    if (r.same) return r;
    r.y = with_axes_kept(g, &r, r.y);
    r.dy = with_axes_kept(g, &r, r.dy);
    return r;
}

/* The reduction of something else over the same axes, which are kept. */
static Value *reduce_as(Grad *g, const Reduced *r, const char *op, Value *value) {
    if (r->same) return value;
    if (r->list) return grad_reduce(g, op, value, (GradAxes){r->list, r->count});
    Value *made = GRAD(g, op, value, r->axes);
    node_set_attr_int(made->producer, "keepdims", 1);
    return made;
}

void gradient_reduce_sum(Grad *g) {
    const Reduced r = reduced(g);
    if (r.same)
        grad_give(g, 0, r.dy);
    else
        grad_give(g, 0, GRAD(g, "Expand", r.dy, grad_shape(g, r.x)));
}

void gradient_reduce_mean(Grad *g) {
    const Reduced r = reduced(g);
    if (r.same) {
        grad_give(g, 0, r.dy);
        return;
    }
    Value *size = reduce_as(g, &r, "ReduceSum", grad_fill(g, 1, r.x));
    grad_give(g, 0, GRAD(g, "Expand", GRAD(g, "Div", r.dy, size), grad_shape(g, r.x)));
}

/* Those that are equally large share what flows. */
void gradient_reduce_extreme(Grad *g) {
    const Reduced r = reduced(g);
    Value *hits = grad_cast(g, GRAD_CALC(g, "p == q", r.x, r.y), type_dtype(r.x->type));
    Value *count = reduce_as(g, &r, "ReduceSum", hits);
    grad_give(g, 0, GRAD_CALC(g, "p * q / r", r.dy, hits, count));
}

/* The product of the others: of each element, those before it times those behind it would need a
 * scan; where no element is 0, it is y / x, and else the product without the zeros, which flows into
 * the one zero there is. */
void gradient_reduce_prod(Grad *g) {
    const Reduced r = reduced(g);
    Value *is_zero = GRAD_CALC(g, "p == 0", r.x);
    Value *filled = GRAD_CALC(g, "Where(p, 1, q)", is_zero, r.x);
    Value *rest = reduce_as(g, &r, "ReduceProd", filled);
    Value *zeros = grad_cast(g, is_zero, type_dtype(r.x->type));
    Value *others = GRAD(g, "Sub", reduce_as(g, &r, "ReduceSum", zeros), zeros);
    Value *product = GRAD_CALC(g, "Where(p == 0, q / r, 0)", others, rest, filled);
    grad_give(g, 0, GRAD(g, "Mul", r.dy, product));
}

void gradient_reduce_l1(Grad *g) {
    const Reduced r = reduced(g);
    grad_give(g, 0, GRAD_CALC(g, "p * Sign(q)", r.dy, r.x));
}

void gradient_reduce_l2(Grad *g) {
    const Reduced r = reduced(g);
    Value *norm = GRAD_CALC(g, "Where(p == 0, 1, p)", r.y);
    grad_give(g, 0, GRAD_CALC(g, "p * q / r", r.dy, r.x, norm));
}

void gradient_reduce_log_sum(Grad *g) {
    const Reduced r = reduced(g);
    grad_give(g, 0, GRAD(g, "Expand", GRAD_CALC(g, "p / Exp(q)", r.dy, r.y), grad_shape(g, r.x)));
}

void gradient_reduce_log_sum_exp(Grad *g) {
    const Reduced r = reduced(g);
    grad_give(g, 0, GRAD_CALC(g, "p * Exp(q - r)", r.dy, r.x, r.y));
}

void gradient_reduce_sum_square(Grad *g) {
    const Reduced r = reduced(g);
    grad_give(g, 0, GRAD_CALC(g, "p * (2 * q)", r.dy, r.x));
}

/* ---- running sums ---------------------------------------------------------------------------- */

/* The node's way along its axis, or back. */
static Value *running(Grad *g, const char *op, Value *value, bool back) {
    Value *made = GRAD(g, op, value, grad_in(g, 1));
    node_set_attr_int(made->producer, "exclusive", grad_int(g, "exclusive"));
    node_set_attr_int(made->producer, "reverse", back != (grad_int(g, "reverse") != 0));
    return made;
}

void gradient_cumsum(Grad *g) {
    grad_give(g, 0, running(g, "CumSum", grad_flow(g, 0), true));
}

/* Of an element that is not 0, the sum of dy * y over all products that have it, over the element. Into
 * a zero flows what the products were without it, where it is the only one in them. */
void gradient_cumprod(Grad *g) {
    Value *x = grad_in(g, 0);
    Value *is_zero = GRAD_CALC(g, "x == 0", NULL);
    Value *filled = GRAD_CALC(g, "Where(p, 1, x)", is_zero);
    Value *zeros = running(g, "CumSum", grad_cast(g, is_zero, type_dtype(x->type)), false);
    Value *rest =
        GRAD_CALC(g, "Where(p == 1, dy * q, 0)", zeros, running(g, "CumProd", filled, false));
    Value *others = running(g, "CumSum", GRAD_CALC(g, "dy * y", NULL), true);
    Value *single = running(g, "CumSum", rest, true);
    others = GRAD(g, "Div", others, filled);
    grad_give(g, 0, GRAD_CALC(g, "Where(p, q, r)", is_zero, single, others));
}

/* ---- shares of a sum ------------------------------------------------------------------------- */

void gradient_softmax(Grad *g) {
    const int64_t axis = grad_int(g, "axis");
    Value *part = GRAD_CALC(g, "dy * y", NULL);
    Value *sum = grad_reduce(g, "ReduceSum", part, (GradAxes){&axis, 1});
    grad_give(g, 0, GRAD_CALC(g, "p - y * q", part, sum));
}

void gradient_log_softmax(Grad *g) {
    const int64_t axis = grad_int(g, "axis");
    Value *sum = grad_reduce(g, "ReduceSum", grad_flow(g, 0), (GradAxes){&axis, 1});
    grad_give(g, 0, GRAD_CALC(g, "dy - Exp(y) * p", sum));
}

/* y = x / n, of the p-norm n along an axis. A norm of 0 is no divisor. */
void gradient_lp_normalization(Grad *g) {
    const int64_t axis = grad_int(g, "axis");
    const bool squares = grad_int(g, "p") == 2;
    Value *x = grad_in(g, 0);
    Value *norm = grad_reduce(g, squares ? "ReduceL2" : "ReduceL1", x, (GradAxes){&axis, 1});
    norm = GRAD_CALC(g, "Where(p == 0, 1, p)", norm);
    Value *along = grad_reduce(g, "ReduceSum", GRAD_CALC(g, "dy * y", NULL), (GradAxes){&axis, 1});
    Value *turn = squares ? grad_out(g, 0) : GRAD(g, "Sign", x);
    grad_give(g, 0, GRAD_CALC(g, "(dy - p * q) / r", turn, along, norm));
}
