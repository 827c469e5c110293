// SPDX-License-Identifier: Apache-2.0
/* When two values have the same shape, for the fusing passes; see fuse_graph.h.
 *
 * Known dims and symbols are compared. Where both leave a dim open (sizes of an image, mostly),
 * they are equal if both have them from one value, by operators that keep all dims but that of the
 * channels: elementwise ones (which shape.h knows), and convolutions whose window steps by one and
 * is padded by as much as it covers.
 */
#include "fuse_graph.h"
#include "shape_args.h"

enum { MOST_STEPS = 64, CHANNELS = 1 };

/* ---- where extents come from ----------------------------------------------------------------- */

static bool is_conv(const Node *node) {
    return fuse_is(node, "Conv") ||
           (sym_equals(node->domain, FUSED_DOMAIN) && sym_equals(node->op_type, "Conv"));
}

static int64_t item_of(const Node *node, const char *name, uint32_t i, int64_t otherwise) {
    const Attr *attr = node_attr(node, name);
    uint32_t count;
    const int64_t *items = attr_ints(attr, &count);
    if (!attr) return otherwise;
    return i < count ? items[i] : -1;
}

/* True where the convolution's image comes out as large as it went in. */
static bool keeps_extents(const Node *conv) {
    const Value *w = fuse_input(conv, 1);
    int64_t rank = w ? fuse_rank(w) - 2 : -1;
    bool same = fuse_attr_is(conv, "auto_pad", "SAME_UPPER", false) ||
                fuse_attr_is(conv, "auto_pad", "SAME_LOWER", false);
    if (rank < 1 || (!same && !fuse_attr_is(conv, "auto_pad", "NOTSET", true))) return false;
    for (uint32_t i = 0; i < (uint32_t)rank; i++) {
        int64_t taps = fuse_dim(w, 2 + i), dilation = item_of(conv, "dilations", i, 1);
        int64_t before = item_of(conv, "pads", i, 0);
        int64_t after = item_of(conv, "pads", (uint32_t)rank + i, 0);
        if (item_of(conv, "strides", i, 1) != 1 || taps < 1 || taps > INT32_MAX) return false;
        if (same) continue;
        if (dilation < 1 || dilation > INT32_MAX || before < 0 || after < 0 || before > INT32_MAX ||
            after > INT32_MAX || before + after != dilation * (taps - 1))
            return false;
    }
    return true;
}

/* True where broadcasting `value` to x changes no dim of x. */
static bool adds_nothing(const Value *value, const Value *x) {
    int64_t rank = fuse_rank(value), of = fuse_rank(x);
    if (rank < 0 || rank > of) return false;
    for (int64_t i = 1; i <= rank; i++)
        if (fuse_dim(value, -i) != 1 && of - i != CHANNELS &&
            !dim_same(&value_type(value)->dims[rank - i], &value_type(x)->dims[of - i]))
            return false;
    return true;
}

static const Value *root_of(const Value *value, int *steps);

/* The operand whose extents the result of an elementwise operator of two has; NULL where none is
 * known to. */
static const Value *broadcast_root(const Node *node, int *steps) {
    const Value *a = fuse_input(node, 0), *b = fuse_input(node, 1);
    if (!a || !b || node->input_count != 2) return NULL;
    if (adds_nothing(b, a)) return a;
    if (adds_nothing(a, b)) return b;
    if (fuse_rank(a) != fuse_rank(b)) return NULL;
    return root_of(a, steps) == root_of(b, steps) ? a : NULL;
}

/* The value one step before with the same extents; NULL where there is none. */
static const Value *before(const Node *node, int *steps) {
    if (!node || !node->input_count || !node->inputs[0].value) return NULL;
    if (is_conv(node)) return keeps_extents(node) ? node->inputs[0].value : NULL;
    const ShapeRow *row = shape_args_row(node);
    if (row && shape_row_keeps(row)) return node->inputs[0].value;
    if (row && shape_row_broadcasts(row)) return broadcast_root(node, steps);
    return NULL;
}

/* The first value, going back, that this one has its dims but the channels' from. */
static const Value *root_of(const Value *value, int *steps) {
    while (++*steps < MOST_STEPS && value->output_index == 0) {
        const Value *from = before(value->producer, steps);
        if (!from || fuse_rank(from) != fuse_rank(value)) break;
        value = from;
    }
    return value;
}

/* ---- the question ---------------------------------------------------------------------------- */

bool fuse_same_shape(const Value *a, const Value *b) {
    const Type *x = value_shaped_type(a), *y = value_shaped_type(b);
    bool same = x && y && x->rank == y->rank, open = false;
    for (uint32_t i = 0; same && i < x->rank; i++) {
        if (dim_same(&x->dims[i], &y->dims[i])) continue;
        same = i != CHANNELS && x->rank > 2;
        open = true;
    }
    if (!same || !open) return same;
    int steps_a = 0, steps_b = 0;
    return root_of(a, &steps_a) == root_of(b, &steps_b);
}
