// SPDX-License-Identifier: Apache-2.0
/* Which nodes can have their channels last; see layout_node.h. */
#include "layout_node.h"

#include "constants.h"
#include "placement_cost.h"

enum {
    WINDOW_RANK_MOST = 4,   /* there are kernels for one and two spatial axes */
    MACS_PER_ELEMENT = 300, /* of a convolution, whose time is less by that of moving an element */
    MACS_OF_TILES = 80,     /* the same of 3x3 taps that are computed by tiles, */
    MACS_OF_COLORS = 40,    /* and of an image's: taps of a row are one product, there */
    TILE_CHANNELS = 32,     /* least that they are made of (winograd.c) */
    COLORS = 4,             /* most channels of an image */
    LEAST_MACS = 1 << 20,   /* of both: less is not worth a step more */
    GROUP_LEAST = 4,        /* channels of a group that are worth it, where it is not one alone */
};

static OpLayout kind_of(const Node *node) {
    const OpRecord *record = fuse_record(node);
    return record ? (OpLayout)record->layout : LAYOUT_FIRST;
}

static int64_t rank_of(const Node *node) {
    return node->output_count && node->outputs[0] ? fuse_rank(node->outputs[0]) : -1;
}

/* One element, whatever its rank. */
static bool is_single(const Value *value) {
    const int64_t rank = fuse_rank(value);
    for (int64_t i = 0; i < rank; i++)
        if (fuse_dim(value, i) != 1) return false;
    return rank >= 0;
}

static bool is_int64(const Value *value) {
    return value_type(value)->kind == TYPE_TENSOR && type_dtype(value->type) == DTYPE_INT64;
}

/* ---- by kind --------------------------------------------------------------------------------- */

static bool each_can(const Node *node, int64_t rank) {
    if (node->input_count > 1 && fuse_opset(node) < 7) return false; /* operands may be aligned */
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = fuse_input(node, i);
        if (!value || is_single(value)) continue;
        const int64_t of = fuse_rank(value);
        if (of < 0 || of > rank || (of < rank && !value_is_constant(value))) return false;
        for (int64_t k = 0; of < rank && k < of; k++)
            if (fuse_dim(value, k) < 0) return false;
    }
    return true;
}

/* The node's `axis` is within its rank. */
static bool has_axis(const Node *node, int64_t rank) {
    const OpSchema *schema = node_schema(node);
    const OpAttr *known = schema ? op_schema_attr(schema, "axis") : NULL;
    const Attr *attr = node_attr(node, "axis");
    int64_t axis = known && known->has_default ? known->value.i : INT64_MAX;
    return known && (!attr || attr_int(attr, &axis)) && axis >= -rank && axis < rank;
}

/* Normalizations over what follows the axis, as softmax was before version 13, are none. */
static bool axis_can(const Node *node, int64_t rank) {
    const OpSchema *schema = node_schema(node);
    const bool moves = fuse_record(node)->work == WORK_MOVES;
    const Value *scale = moves ? NULL : fuse_input(node, 1);
    if (!schema || (!moves && !scale && schema->since < 13)) return false;
    if (node_attr(node, "block_size")) return false; /* scales are laid out as the data is */
    for (uint32_t i = 1; moves && i < node->input_count; i++)
        if (op_record_gives(fuse_record(node), i) && fuse_rank(fuse_input(node, i)) != rank)
            return false;
    return (scale && is_single(scale)) || has_axis(node, rank);
}

/* An axis that there is not must not become one that there is. */
static bool axes_can(const Node *node, int64_t rank) {
    const Value *operand = fuse_input(node, 1);
    const Attr *attr = node_attr(node, "axes");
    uint32_t count = 0;
    const int64_t *axes = attr ? attr_ints(attr, &count) : NULL;
    if (node_attr_int(node, "keepdims", 1) == 0 || (attr && !axes) || count > LAYOUT_RANK_MOST)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (axes[i] < -rank || axes[i] >= rank) return false;
    return !operand || is_int64(operand);
}

static bool slices_can(const Node *node, int64_t rank) {
    const Value *starts = fuse_input(node, 1), *axes = fuse_input(node, 3);
    if (fuse_opset(node) < 10 || !starts) return false;
    const int64_t count = fuse_dim(starts, 0);
    return axes ? is_int64(axes) : is_int64(starts) && count >= 0 && count <= rank;
}

static bool pads_can(const Node *node, int64_t rank) {
    const Value *pads = fuse_input(node, 1), *axes = fuse_input(node, 3);
    return fuse_opset(node) >= 11 && pads &&
           (axes ? is_int64(axes) : fuse_dim(pads, 0) == 2 * rank);
}

static bool sizes_can(const Node *node, int64_t rank) {
    const Value *scales = fuse_input(node, 2), *sizes = fuse_input(node, 3);
    if (fuse_opset(node) < 11 || node_attr(node, "axes") ||
        fuse_attr_is(node, "coordinate_transformation_mode", "tf_crop_and_resize", false))
        return false;
    return (sizes && fuse_dim(sizes, 0) == rank) || (scales && fuse_dim(scales, 0) == rank);
}

uint32_t layout_rank_axes(const Node *node, Arena *scratch, int64_t axes[LAYOUT_RANK_MOST]) {
    const int64_t in = fuse_rank(fuse_input(node, 0)), out = rank_of(node);
    const int64_t rank = in > out ? in : out, less = in > out ? out : in;
    const Value *operand = fuse_input(node, 1);
    const Attr *attr = node_attr(node, "axes");
    const Tensor *constant =
        operand && value_is_constant(operand) ? constant_tensor(operand, scratch) : NULL;
    uint32_t few = 0;
    uint64_t count = 0;
    int64_t *read = NULL;
    const int64_t *list = attr ? attr_ints(attr, &few) : NULL;
    if (list)
        count = few;
    else if (constant && tensor_check(constant, NULL) &&
             tensor_read_ints(constant, scratch, LAYOUT_RANK_MOST, &read, &count))
        list = read;
    if (!list || less < LAYOUT_RANK_LEAST || rank > LAYOUT_RANK_MOST ||
        count != (uint64_t)(rank - less))
        return 0;
    for (uint64_t i = 0; i < count; i++) {
        if (list[i] < -rank || list[i] >= rank) return 0;
        axes[i] = list[i] < 0 ? list[i] + rank : list[i];
        if (axes[i] < 2) return 0;
    }
    return (uint32_t)count;
}

static bool rank_can(const Node *node, Arena *scratch) {
    int64_t axes[LAYOUT_RANK_MOST];
    return layout_rank_axes(node, scratch, axes) > 0;
}

static bool window_can(const Node *node, int64_t rank) {
    if (fuse_is(node, "ConvTranspose") && !fuse_has_phases(node)) return false;
    const Value *x = fuse_input(node, 0), *w = fuse_input(node, 1);
    const bool bytes = fuse_takes_bytes(x);
    if (rank > WINDOW_RANK_MOST || (!bytes && !fuse_takes(x)) ||
        (w && !is_single(w) && fuse_rank(w) != rank))
        return false;
    return node->output_count == 1 || !node->outputs[1];
}

static bool kind_can(const Node *node, int64_t rank, Arena *scratch) {
    switch (kind_of(node)) {
    case LAYOUT_FIRST:
    case LAYOUT_ORDER: return false;
    case LAYOUT_DATA: return true;
    case LAYOUT_EACH: return each_can(node, rank);
    case LAYOUT_AXIS: return axis_can(node, rank);
    case LAYOUT_AXES: return axes_can(node, rank);
    case LAYOUT_SLICES: return slices_can(node, rank);
    case LAYOUT_PADS: return pads_can(node, rank);
    case LAYOUT_SIZES: return sizes_can(node, rank);
    case LAYOUT_RANK: return rank_can(node, scratch);
    case LAYOUT_WINDOW: return window_can(node, rank);
    case LAYOUT_MEAN:
    case LAYOUT_MOST: return true;
    }
    return false;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool layout_can(const Node *node, Arena *scratch) {
    const int64_t rank = rank_of(node);
    const Value *x = fuse_input(node, 0);
    if (kind_of(node) == LAYOUT_FIRST || rank < LAYOUT_RANK_LEAST || rank > LAYOUT_RANK_MOST || !x)
        return false;
    if (kind_of(node) != LAYOUT_EACH && kind_of(node) != LAYOUT_RANK && fuse_rank(x) != rank)
        return false;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] && layout_turns(node, i) &&
            (fuse_rank(node->outputs[i]) != rank ||
             value_type(node->outputs[i])->kind != TYPE_TENSOR))
            return false;
    return kind_can(node, rank, scratch);
}

bool layout_turns(const Node *node, uint32_t i) {
    return i == 0 || kind_of(node) != LAYOUT_DATA || !is_single(node->outputs[i]);
}

bool layout_is_data(const Node *node, uint32_t i) {
    const Value *value = fuse_input(node, i);
    const OpLayout kind = kind_of(node);
    if (!value) return false;
    if (kind == LAYOUT_EACH) return !is_single(value);
    if (kind == LAYOUT_WINDOW)
        return i == 0 || (i > 2 && fuse_rank(value) == rank_of(node) && !is_single(value));
    return i == 0 || (kind == LAYOUT_AXIS && fuse_record(node)->work == WORK_MOVES &&
                      op_record_gives(fuse_record(node), i));
}

bool layout_follows(const Node *node, uint32_t i) {
    return layout_is_data(node, i) && !value_is_constant(fuse_input(node, i));
}

bool layout_is_turn(const Node *node, bool back) {
    uint32_t count;
    if (!node || kind_of(node) != LAYOUT_ORDER || rank_of(node) < 0) return false;
    const Value *x = fuse_input(node, 0);
    const Attr *attr = node_attr(node, "perm");
    const int64_t *perm = attr ? attr_ints(attr, &count) : NULL;
    if (!x || !perm || attr->ref || fuse_rank(x) != (int64_t)count || count < LAYOUT_RANK_LEAST ||
        count > LAYOUT_RANK_MOST)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t last = (uint32_t)layout_axis(i, count);
        if (perm[back ? i : last] != (back ? last : i)) return false;
    }
    return true;
}

/* Of constant floats, 3x3 side by side, as winograd.h has them. */
static bool is_of_tiles(const Node *node, const Value *w) {
    const int64_t rank = fuse_rank(w);
    if (rank != WINDOW_RANK_MOST || !value_is_constant(w) ||
        type_dtype(value_type(w)) != DTYPE_FLOAT || node_attr_int(node, "group", 1) != 1 ||
        fuse_dim(w, 0) < TILE_CHANNELS || fuse_dim(w, 1) < TILE_CHANNELS)
        return false;
    for (int64_t i = 2; i < rank; i++)
        if (fuse_dim(w, i) != 3) return false;
    static const char *const names[] = {"strides", "dilations"};
    for (int n = 0; n < 2; n++) {
        uint32_t count = 0;
        const Attr *attr = node_attr(node, names[n]);
        const int64_t *items = attr ? attr_ints(attr, &count) : NULL;
        for (uint32_t i = 0; i < count; i++)
            if (!items || items[i] != 1) return false;
    }
    return true;
}

static int macs_per_element(const Node *node, const Value *w) {
    const bool image = node_attr_int(node, "group", 1) == 1 && fuse_dim(w, 1) <= COLORS &&
                       fuse_dim(w, fuse_rank(w) - 1) > 1;
    if (image) return MACS_OF_COLORS;
    return is_of_tiles(node, w) ? MACS_OF_TILES : MACS_PER_ELEMENT;
}

int64_t layout_gain(const Node *node, Arena *scratch) {
    const OpRecord *record = fuse_record(node);
    const Value *w = fuse_input(node, 1);
    const bool transposed = fuse_is(node, "ConvTranspose");
    if (!record || (record->work != WORK_CONV && !transposed) || !w || !layout_can(node, scratch))
        return 0;
    const int64_t channels = fuse_dim(w, 1), group = node_attr_int(node, "group", 1);
    if (group > 1 && channels < GROUP_LEAST && channels != 1) return 0;
    double macs = (double)placement_elements(transposed ? fuse_input(node, 0) : node->outputs[0]);
    for (int64_t i = 1; i < fuse_rank(w); i++)
        if (fuse_dim(w, i) > 0) macs *= (double)fuse_dim(w, i);
    const int each = macs < LEAST_MACS ? MACS_PER_ELEMENT : macs_per_element(node, w);
    return macs < 1e12 ? (int64_t)(macs / each) : (int64_t)3e10;
}

/* Bounded, so that sums over all readers of all values fit. Bytes take half the time of floats. */
int64_t layout_cost(const Value *value) {
    static const uint64_t most = UINT64_C(1) << 34;
    bool moves = fuse_dim(value, 1) != 1;
    for (int64_t i = 2; moves && i < fuse_rank(value); i++)
        if (fuse_dim(value, i) != 1) {
            const uint64_t elements = placement_elements(value) / (fuse_takes_bytes(value) ? 2 : 1);
            return (int64_t)(elements < most ? elements : most) + 1;
        }
    return 1;
}
