// SPDX-License-Identifier: Apache-2.0
/* fuse-rotary: rotary embedding in its parts becomes one node, for plans.
 *
 *   Add(Mul(x, c), Mul(Concat(Neg(x2), x1), s))  ->  demi.fused.Rotary(x, c, s)
 *
 * x1 is the first half of x along the last axis, whose size is known and even, and x2 the other one:
 * Slices by constants with steps of 1, or the two halves of a Split. The Concat is along that axis.
 * c and s broadcast to x, whose shape the result has. The products, and what is rotated, are read by
 * nothing else; the halves may be. Not in faithful plans.
 */
#include "constants.h"
#include "fuse_graph.h"

/* ---- halves ---------------------------------------------------------------------------------- */

/* Input i of a Slice, a constant list of one number. */
static bool one_number(const Fuse *fuse, const Node *node, uint32_t i, int64_t *number) {
    const Value *value = fuse_input(node, i);
    const Tensor *tensor = value ? constant_tensor(value, fuse->ctx->scratch) : NULL;
    int64_t *items;
    uint64_t count;
    if (!tensor || !value_is_constant(value) || !tensor_check(tensor, NULL) ||
        !tensor_read_ints(tensor, fuse->ctx->scratch, 1, &items, &count) || count != 1)
        return false;
    *number = items[0];
    return true;
}

static bool is_last_axis(int64_t axis, const Value *x) {
    return axis == -1 || (axis >= 0 && axis == fuse_rank(x) - 1);
}

/* True where the Slice takes that half of x along its last axis, of `size` elements. */
static bool slices_half(const Fuse *fuse, const Node *slice, bool second, int64_t size) {
    int64_t start, end, axis, step = 1;
    if (slice->input_count < 4 || !one_number(fuse, slice, 1, &start) ||
        !one_number(fuse, slice, 2, &end) || !one_number(fuse, slice, 3, &axis) ||
        (fuse_input(slice, 4) && !one_number(fuse, slice, 4, &step)))
        return false;
    if (start < 0 && start >= -size) start += size;
    if (end < 0 && end >= -size) end += size;
    return step == 1 && is_last_axis(axis, slice->inputs[0].value) &&
           (second ? start == size / 2 && end >= size : start == 0 && end == size / 2);
}

/* What `half` is a half of; NULL where it is none. The halves' sizes follow from their shapes. */
static Value *whole_of(const Fuse *fuse, const Value *half, bool second) {
    Node *node = half ? half->producer : NULL;
    if (!fuse_is(node, "Slice") && !fuse_is(node, "Split")) return NULL;
    Value *x = fuse_input(node, 0);
    const int64_t size = x ? fuse_dim(x, -1) : -1;
    if (size < 2 || size % 2 || !fuse_takes(x)) return NULL;
    if (fuse_is(node, "Slice")) return slices_half(fuse, node, second, size) ? x : NULL;
    const bool halves = node->output_count == 2 && node->outputs[second] == half &&
                        fuse_dim(half, -1) == size / 2 &&
                        is_last_axis(node_attr_int(node, "axis", 0), x);
    return halves ? x : NULL;
}

/* x of Concat(Neg(x2), x1); NULL for another value. */
static Value *rotated(const Fuse *fuse, const Value *value) {
    const Node *concat = value->producer;
    if (!fuse_is(concat, "Concat") || concat->input_count != 2 || !fuse_reader(value)) return NULL;
    const Value *turned = fuse_input(concat, 0), *first = fuse_input(concat, 1);
    const Node *neg = turned ? turned->producer : NULL;
    if (!fuse_is(neg, "Neg") || !fuse_reader(turned)) return NULL;
    Value *x = whole_of(fuse, first, false);
    if (!x || whole_of(fuse, fuse_input(neg, 0), true) != x ||
        !is_last_axis(node_attr_int(concat, "axis", 0), x))
        return NULL;
    return x;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* What `x` is multiplied with in a product that nothing else reads; NULL where it is none. */
static Value *factor_of(Value *product, const Value *x) {
    Node *mul = product ? product->producer : NULL;
    if (!fuse_is(mul, "Mul") || fuse_opset(mul) < 7 || !fuse_reader(product)) return NULL;
    Value *factor = fuse_other(mul, x);
    return factor && fuse_takes(factor) ? factor : NULL;
}

static bool find_sine(const Fuse *fuse, Value *product, Value **x, Value **sine) {
    const Node *mul = product ? product->producer : NULL;
    if (!fuse_is(mul, "Mul") || mul->input_count != 2) return false;
    for (uint32_t i = 0; i < 2; i++) {
        Value *value = fuse_input(mul, i);
        *x = value ? rotated(fuse, value) : NULL;
        if (*x && (*sine = factor_of(product, value))) return true;
    }
    return false;
}

static void visit(Fuse *fuse, Node *add) {
    Value *x, *sine, *cosine;
    if (fuse->faithful || !fuse_is(add, "Add") || fuse_opset(add) < 7 || add->input_count != 2)
        return;
    for (uint32_t i = 0; i < 2; i++) {
        if (!find_sine(fuse, fuse_input(add, i), &x, &sine)) continue;
        cosine = factor_of(fuse_input(add, 1 - i), x);
        if (!cosine || !fuse_same_shape(add->outputs[0], x)) continue;
        Node *made = fuse_new(fuse, add, "Rotary", add, 3);
        node_set_input(made, 0, x);
        node_set_input(made, 1, cosine);
        node_set_input(made, 2, sine);
        fuse_replace_root(fuse, made, add);
        return;
    }
}

FUSE_PASS(fuse_rotary, "fuse-rotary",
          "fuse the parts of rotary embedding into one operator, for plans", visit);
