// SPDX-License-Identifier: Apache-2.0
/* fold-pads: zeros that a Pad puts around an image become the padding of what reads it.
 *
 *   Conv (Pad (x, pads)) {pads = p}  ->  Conv (x) {pads = p + pads}
 *   AveragePool (Pad (x, pads))      ->  AveragePool (x) {pads = pads, count_include_pad = 1}
 *
 * Both operators define their own padding as zeros, so the values are the same. The pads are constants,
 * not negative, and of spatial axes alone; the Pad fills in +0, and nothing else reads its result. A
 * pool divides by all that it sees of a Pad's result: its own padding has to count, too, or be none,
 * and its sizes must not be rounded up. It takes less padding than its window is long, as engines
 * refuse more.
 */
#include <math.h>

#include "constants.h"
#include "fuse_graph.h"
#include "simplify_graph.h"

enum { PADS = 1, FILL, AXES, MOST_SPATIAL = 8, FIRST_SPATIAL = 2, MOST_PADDING = 1 << 30 };

/* Zeros before and behind each spatial axis. */
typedef struct Padding {
    uint32_t rank; /* spatial axes */
    int64_t items[2 * MOST_SPATIAL];
} Padding;

/* ---- the Pad --------------------------------------------------------------------------------- */

static bool fills_zeros(const Node *pad) {
    float number;
    const Value *fill = fuse_input(pad, FILL);
    if (!fuse_attr_is(pad, "mode", "constant", true)) return false;
    if (fuse_opset(pad) < 11)
        return fuse_attr_float(pad, "value", 0, &number) && number == 0 && !signbit(number);
    return !fill || (constant_scalar(fill, &number) && number == 0 && !signbit(number));
}

/* The list of pads, and the axes that they are of; NULL where it is for all of them. */
static bool read_pads(PassCtx *ctx, const Node *pad, const int64_t **pads, uint64_t *count,
                      int64_t **axes) {
    const uint64_t most = (uint64_t)2 * (MOST_SPATIAL + FIRST_SPATIAL);
    uint64_t axis_count;
    *axes = NULL;
    if (fuse_opset(pad) < 11) {
        uint32_t length;
        *pads = attr_ints(node_attr(pad, "pads"), &length);
        *count = length;
        return *pads && fuse_opset(pad) >= 2;
    }
    int64_t *items;
    if (!simplify_read_ints(ctx, fuse_input(pad, PADS), most, &items, count)) return false;
    *pads = items;
    if (!fuse_input(pad, AXES)) return true;
    return simplify_read_ints(ctx, fuse_input(pad, AXES), most, axes, &axis_count) &&
           axis_count * 2 == *count;
}

static bool find_padding(PassCtx *ctx, const Node *pad, Padding *padding) {
    const int64_t *pads;
    int64_t *axes;
    uint64_t count;
    if (!fills_zeros(pad) || !read_pads(ctx, pad, &pads, &count, &axes)) return false;
    const int64_t rank = axes ? fuse_rank(pad->inputs[0].value) : (int64_t)(count / 2);
    if (count % 2 || rank <= FIRST_SPATIAL || rank > MOST_SPATIAL + FIRST_SPATIAL) return false;
    *padding = (Padding){.rank = (uint32_t)rank - FIRST_SPATIAL};
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = i % (count / 2), behind = i >= count / 2;
        int64_t axis = axes ? axes[at] : (int64_t)at;
        if (axis < 0) axis += rank;
        if (pads[i] < 0 || pads[i] > MOST_PADDING || axis < 0 || axis >= rank) return false;
        if (axis >= FIRST_SPATIAL)
            padding->items[behind * padding->rank + (uint64_t)(axis - FIRST_SPATIAL)] = pads[i];
        else if (pads[i])
            return false;
    }
    return true;
}

/* ---- what reads it --------------------------------------------------------------------------- */

/* The node's own padding is added; false where it is not known before the node runs. */
static bool add_own(const Node *node, Padding *padding, bool *any) {
    uint32_t count;
    const bool none = fuse_attr_is(node, "auto_pad", "VALID", false);
    const Attr *attr = node_attr(node, "pads");
    *any = false;
    if (!none && !fuse_attr_is(node, "auto_pad", "NOTSET", true)) return false;
    if (none || !attr) return true;
    const int64_t *own = attr_ints(attr, &count);
    if (!own || count != 2 * padding->rank) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (own[i] < 0 || own[i] > MOST_PADDING) return false;
        *any = *any || own[i];
        padding->items[i] += own[i];
    }
    return true;
}

/* True where a pool gives the same by its own padding, the sum of both. */
static bool pool_takes(const Node *pool, const Padding *padding, bool own) {
    uint32_t count;
    const int64_t *window = attr_ints(node_attr(pool, "kernel_shape"), &count);
    if (fuse_opset(pool) < 7 || node_attr_int(pool, "ceil_mode", 0) || !window ||
        count != padding->rank || (own && !node_attr_int(pool, "count_include_pad", 0)))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (padding->items[i] >= window[i] || padding->items[count + i] >= window[i]) return false;
    return true;
}

/* What pads itself by the sum of both, in *padding, where the Pad is gone. */
static bool is_taken(const Use *use, const Value *result, Padding *padding) {
    bool own;
    const Node *node = use->node;
    if (!node || node->graph != result->graph || use->index != 0 || !add_own(node, padding, &own))
        return false;
    return simplify_is(node, "Conv") ||
           (simplify_is(node, "AveragePool") && pool_takes(node, padding, own));
}

static void take(Node *node, const Padding *padding) {
    node_remove_attr(node, "auto_pad");
    node_set_attr_ints(node, "pads", padding->items, 2 * padding->rank);
    if (simplify_is(node, "AveragePool")) node_set_attr_int(node, "count_include_pad", 1);
}

static void visit(PassCtx *ctx, Node *pad, void *data) {
    (void)data;
    Padding padding, sum;
    if (!simplify_is(pad, "Pad") || !fuse_record(pad) || !fuse_input(pad, 0)) return;
    const Value *result = pad->outputs[0];
    if (result->referenced || !result->uses || !find_padding(ctx, pad, &padding)) return;
    for (const Use *use = result->uses; use; use = use->next) {
        sum = padding;
        if (!is_taken(use, result, &sum)) return;
    }
    for (Use *use = result->uses, *next; use; use = next) {
        next = use->next;
        sum = padding;
        if (!is_taken(use, result, &sum)) continue;
        take(use->node, &sum);
        use_set(use, pad->inputs[0].value);
    }
    node_remove_unswept(pad);
    ctx->counts->rewrites++;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    (void)err;
    each_node(ctx, visit, NULL);
    return true;
}

const PassInfo fold_pads_pass = {
    .name = "fold-pads",
    .summary = "fold zero Pads into the padding of convolutions and average pooling",
    .needs = FACT_DTYPES | FACT_SHAPES,
    .gives = FACT_DTYPES | FACT_SHAPES,
    .idempotent = true,
    .run = run,
};
