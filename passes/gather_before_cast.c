// SPDX-License-Identifier: Apache-2.0
/* gather-before-cast: rows of a constant table are picked before they are converted, for plans.
 *
 *   Gather(Cast(table), i)                      ->  Cast(Gather(table, i))
 *   Gather(DequantizeLinear(table, s, z), i)    ->  DequantizeLinear(Gather(table, i), s', z')
 *
 * so that a run converts what it reads and not the whole table, and a plan holds the table as it is
 * in the model. Conversions are by element, so all bits stay. s' and z' are s and z where there is
 * one scale for all or for each place of another axis, and are gathered along where there is one
 * for each row or for blocks of it; indices of several axes are then made one for the while.
 * GatherND, GatherElements and Slice pick what is converted without scales or with one for all.
 *
 * The table is a constant, or what other such conversions make of one, of at least `least`
 * elements: small ones are better converted once, when compiling. All that reads the converted
 * table picks from it, and not more than it holds.
 */
#include <stddef.h>

#include "constants.h"
#include "fuse_graph.h"
#include "op_types.h"

typedef struct GatherOptions {
    FuseOptions fuse;
    int64_t least;
} GatherOptions;

enum { X, SCALE, ZERO, INPUTS };

/* A node that converts a table. */
typedef struct Conversion {
    Node *node;
    Value *inputs[INPUTS]; /* the last two NULL where it has none */
    bool by_element;       /* no scales, or one for all */
    bool blocked;
    int64_t rank, axis; /* of the table; which has the scales */
} Conversion;

/* ---- what it looks like ---------------------------------------------------------------------- */

/* Elements of a value of known dims; -1 for others. */
static int64_t count_of(const Value *value) {
    int64_t count = 1, rank = fuse_rank(value);
    if (rank < 0) return -1;
    for (int64_t i = 0; i < rank; i++) {
        int64_t dim = fuse_dim(value, i);
        if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return -1;
    }
    return count;
}

static bool converts(const Node *node) {
    return fuse_is(node, "Cast") || fuse_is(node, "DequantizeLinear");
}

/* A constant, as it is or converted. */
static bool is_table(const Value *value) {
    while (value && converts(value->producer)) value = fuse_input(value->producer, 0);
    return value && value_is_constant(value);
}

static bool is_number(const Value *value) {
    if (value_type(value)->kind != TYPE_TENSOR) return false;
    Dtype dtype = type_dtype(value->type);
    return dtype_is_float(dtype) || dtype_is_integer(dtype) || dtype == DTYPE_BOOL;
}

static bool scales_of(const Node *node, Conversion *c) {
    const Value *scale = c->inputs[SCALE], *zero = c->inputs[ZERO];
    const Attr *axis = node_attr(node, "axis"), *block = node_attr(node, "block_size");
    int64_t count = scale ? count_of(scale) : -1;
    if (count < 0 || (zero && count_of(zero) != count) || (axis && axis->ref) ||
        (block && block->ref))
        return false;
    c->blocked = node_attr_int(node, "block_size", 0) != 0;
    c->by_element = count == 1 && !c->blocked;
    c->axis = node_attr_int(node, "axis", 1);
    if (c->by_element) return true;
    if (c->axis < 0) c->axis += c->rank;
    bool fits = fuse_rank(scale) == (c->blocked ? c->rank : 1) &&
                (!zero || fuse_rank(zero) == fuse_rank(scale));
    return fits && c->axis >= 0 && c->axis < c->rank &&
           (c->blocked || count == fuse_dim(c->inputs[X], c->axis));
}

static bool find_conversion(Node *node, Conversion *c) {
    if (!converts(node) || node->output_count != 1 || !node->outputs[0]) return false;
    *c = (Conversion){.node = node, .by_element = true};
    for (uint32_t i = 0; i < INPUTS; i++) c->inputs[i] = fuse_input(node, i);
    const Value *x = c->inputs[X];
    if (!is_table(x) || !is_number(x) || !is_number(node->outputs[0])) return false;
    c->rank = fuse_rank(x);
    if (count_of(x) < 0) return false;
    return fuse_is(node, "Cast") || scales_of(node, c);
}

/* ---- whether it can move --------------------------------------------------------------------- */

/* The axis that a Gather picks from; -1 where it is out of range. */
static int64_t axis_of(const Conversion *c, const Node *gather) {
    const Attr *attr = node_attr(gather, "axis");
    int64_t axis = node_attr_int(gather, "axis", 0);
    if (axis < 0) axis += c->rank;
    return (attr && attr->ref) || axis >= c->rank ? -1 : axis;
}

static bool picks(const Conversion *c, const Use *use) {
    const Node *node = use->node;
    if (!node || use->index != 0 || node->output_count != 1 || !node->outputs[0]) return false;
    if (fuse_is(node, "Gather")) {
        int64_t axis = axis_of(c, node);
        return node->input_count == 2 && node->inputs[1].value && axis >= 0 &&
               (c->by_element || !c->blocked || axis != c->axis);
    }
    return c->by_element && op_record_has(fuse_record(node), OP_SELECTS);
}

static bool may_move(const Fuse *fuse, const Conversion *c) {
    const GatherOptions *options = (const void *)fuse->options;
    const Value *result = c->node->outputs[0];
    int64_t count = count_of(c->inputs[X]);
    if (result->referenced || !result->uses || count < options->least) return false;
    for (const Use *use = result->uses; use; use = use->next)
        if (!picks(c, use) || count_of(use->node->outputs[0]) > count) return false;
    return true;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* Indices as a list. */
static Value *flat_indices(Fuse *fuse, Node *at, Value *indices) {
    static const int64_t all[] = {-1};
    Value *shape = fuse_new_ints(fuse, at->graph, all, 1);
    const Type *type = type_plain_tensor(type_dtype(indices->type));
    return fuse_make(fuse, at, "Reshape", (Value *[]){indices, shape}, type);
}

static Value *append_dims(Fuse *fuse, Node *at, Value *to, const Value *x, int64_t span[2]) {
    const Type *type = type_plain_tensor(DTYPE_INT64);
    uint32_t count = (uint32_t)(span[1] - span[0]);
    int64_t *dims = ARENA_ARRAY(fuse->ctx->scratch, int64_t, count + 1);
    if (!count) return to;
    for (uint32_t i = 0; i < count; i++) dims[i] = fuse_dim(x, span[0] + i);
    Value *list = fuse_new_ints(fuse, at->graph, dims, count);
    if (!to) return list;
    Value *both = fuse_make(fuse, at, "Concat", (Value *[]){to, list}, type);
    node_set_attr_int(both->producer, "axis", 0);
    return both;
}

/* What the result's shape is: the table's with the indices' in place of the axis. */
static Value *whole_shape(Fuse *fuse, Node *at, const Conversion *c, Value *indices) {
    const Type *type = type_plain_tensor(DTYPE_INT64);
    Value *before = append_dims(fuse, at, NULL, c->inputs[X], (int64_t[]){0, c->axis});
    Value *shape = fuse_make(fuse, at, "Shape", (Value *[]){indices, NULL}, type);
    if (before) {
        shape = fuse_make(fuse, at, "Concat", (Value *[]){before, shape}, type);
        node_set_attr_int(shape->producer, "axis", 0);
    }
    return append_dims(fuse, at, shape, c->inputs[X], (int64_t[]){c->axis + 1, c->rank});
}

/* What the gathered rows have of the scales or zero points. */
static Value *gather_scales(Fuse *fuse, Node *at, Value *scales, const Node *gather) {
    if (!scales) return NULL;
    Value *operands[] = {scales, gather->inputs[1].value};
    const Type *type = type_plain_tensor(type_dtype(scales->type));
    Value *rows = fuse_make(fuse, at, "Gather", operands, type);
    node_set_attr_int(rows->producer, "axis",
                      fuse_rank(scales) == 1 ? 0 : node_attr_int(gather, "axis", 0));
    return rows;
}

/* The conversion behind `gather`, which picks from the table now. Its attribute `axis` is that of
 * the result. */
static Node *convert_behind(Fuse *fuse, const Conversion *c, Node *gather, int64_t axis) {
    Value *result = gather->outputs[0];
    Node *next = gather->next;
    Node *made = node_new(gather->graph, next, c->node->op_type, c->node->domain);
    bool only = c->node->outputs[0]->use_count == 1;
    made->name = only ? c->node->name : NULL;
    node_share_lists(made, c->node);
    node_resize_inputs(made, c->node->input_count);
    node_resize_outputs(made, 1);
    node_set_output(gather, 0, NULL);
    node_set_output(made, 0, result);
    const char *stem = arena_printf(fuse->ctx->scratch, "%s_rows", node_label(c->node));
    Value *rows = value_new(gather->graph, sym_fresh(&fuse->ctx->model->syms, stem));
    const Type *type = result->type ? result->type : type_plain_tensor(DTYPE_FLOAT);
    value_set_type(rows,
                   type_with_dtype(&fuse->ctx->model->arena, type, type_dtype(c->inputs[X]->type)));
    node_set_input(gather, 0, c->inputs[X]);
    node_set_output(gather, 0, rows);
    node_set_input(made, 0, rows);
    for (uint32_t i = 1; i < INPUTS; i++)
        if (c->inputs[i]) node_set_input(made, i, c->inputs[i]);
    if (!c->by_element) node_set_attr_int(made, "axis", axis);
    return made;
}

/* A scale for each row: rows of a list of indices are converted along it. */
static void move_rows(Fuse *fuse, const Conversion *c, Node *gather) {
    Value *indices = gather->inputs[1].value;
    bool flat = fuse_rank(indices) != 1;
    if (flat) node_set_input(gather, 1, flat_indices(fuse, gather, indices));
    Value *scale = gather_scales(fuse, gather, c->inputs[SCALE], gather);
    Value *zero = gather_scales(fuse, gather, c->inputs[ZERO], gather);
    Node *made = convert_behind(fuse, c, gather, c->axis);
    node_set_input(made, SCALE, scale);
    if (zero) node_set_input(made, ZERO, zero);
    if (!flat) return;
    Value *result = made->outputs[0];
    Node *at = made->next;
    value_set_type(gather->outputs[0], type_plain_tensor(type_dtype(c->inputs[X]->type)));
    node_set_output(made, 0, NULL);
    Value *list = value_new(made->graph, sym_fresh(&fuse->ctx->model->syms, "rows"));
    value_set_type(list, type_plain_tensor(type_dtype(result->type)));
    node_set_output(made, 0, list);
    Node *shaped =
        node_new(made->graph, at, sym_intern_cstr(&fuse->ctx->model->syms, "Reshape"), NULL);
    node_resize_inputs(shaped, 2);
    node_resize_outputs(shaped, 1);
    node_set_output(shaped, 0, result);
    node_set_input(shaped, 0, list);
    node_set_input(shaped, 1, whole_shape(fuse, shaped, c, indices));
}

static void move_behind(Fuse *fuse, const Conversion *c, Node *gather) {
    if (c->by_element) {
        convert_behind(fuse, c, gather, 0);
        return;
    }
    int64_t axis = axis_of(c, gather);
    if (axis == c->axis) {
        move_rows(fuse, c, gather);
        return;
    }
    Value *scale = c->inputs[SCALE], *zero = c->inputs[ZERO];
    if (c->blocked) {
        scale = gather_scales(fuse, gather, scale, gather);
        zero = gather_scales(fuse, gather, zero, gather);
    }
    /* behind the indices' axes, however many they are, it is counted from the end */
    Node *made = convert_behind(fuse, c, gather, c->axis < axis ? c->axis : c->axis - c->rank);
    node_set_input(made, SCALE, scale);
    if (zero) node_set_input(made, ZERO, zero);
}

static void visit(Fuse *fuse, Node *node) {
    Conversion c;
    if (!find_conversion(node, &c) || !may_move(fuse, &c)) return;
    Value *result = node->outputs[0];
    uint32_t count = 0;
    Node **readers = ARENA_ARRAY(fuse->ctx->scratch, Node *, result->use_count);
    for (const Use *use = result->uses; use; use = use->next) readers[count++] = use->node;
    for (uint32_t i = 0; i < count; i++) move_behind(fuse, &c, readers[i]);
    node_remove_unswept(node);
    fuse->ctx->counts->rewrites++;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool run(PassCtx *ctx, const void *options, Err *err) {
    static const FuseVisit visits[] = {visit, NULL};
    (void)err;
    uint64_t before;
    do { /* what a conversion reads may be another, which moves next */
        before = ctx->counts->rewrites;
        fuse_run(ctx, options, visits);
    } while (ctx->counts->rewrites != before);
    return true;
}

static const PassOption gather_options[] = {
    {"least", OPTION_INT, offsetof(GatherOptions, least), NULL, "65536",
     "the smallest table to do this for, in elements"},
    {0},
};

const PassInfo gather_before_cast_pass = {
    .name = "gather-before-cast",
    .summary =
        "move casts of a table behind its Gather, so that only gathered rows are cast, for plans",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = gather_options,
    .options_size = sizeof(GatherOptions),
    .idempotent = true,
    .run = run,
};
