// SPDX-License-Identifier: Apache-2.0
/* fuse-one-hot: a product of rows that are 1 in one place picks rows of the weights, for plans.
 *
 *   MatMul(Cast(Equal(x, [0 … n-1])), W)        x of [..., 1]
 *   MatMul(OneHot(x, n, [0, 1]), W)
 *       ->  Gather(Pad(W), Min(Max(x, -1), n) + 1)
 *
 * W is a constant [n, columns] of finite numbers, so that all other products are 0. A row of zeros
 * before and behind it is what places that are none pick; OneHot counts negative ones from the end.
 * x is int32 or int64; Max and Min take these from opset 12 on. The wide rows are read by nothing
 * else. Not in faithful plans, as 0 has a sign.
 */
#include <math.h>

#include "constants.h"
#include "fuse_graph.h"

enum { INTEGER_OPSET = 12, MOST_WEIGHTS = 1 << 24 };

typedef struct OneHot {
    Fuse *fuse;
    Node *product;
    Value *x; /* places, of the product's rows */
    Value *w; /* [count, columns] */
    int64_t count;
    bool squeeze; /* x has one axis more, of 1 */
    bool wraps;   /* places below 0 are counted from the end */
} OneHot;

/* ---- what it looks like ---------------------------------------------------------------------- */

static bool is_index(const Value *value) {
    if (!value || value_type(value)->kind != TYPE_TENSOR) return false;
    const Dtype dtype = type_dtype(value->type);
    return dtype == DTYPE_INT32 || dtype == DTYPE_INT64;
}

static const int64_t *read_ints(const OneHot *o, const Value *value, uint64_t *count) {
    int64_t *items;
    if (!value || !value_is_constant(value)) return NULL;
    const Tensor *tensor = constant_tensor(value, o->fuse->ctx->scratch);
    if (!tensor || !tensor_check(tensor, NULL) || tensor_count(tensor) > MOST_WEIGHTS ||
        !tensor_read_ints(tensor, o->fuse->ctx->scratch, MOST_WEIGHTS, &items, count))
        return NULL;
    return items;
}

static const float *read_floats(const OneHot *o, const Value *value, uint64_t *count) {
    if (!value || !value_is_constant(value) || !fuse_takes(value)) return NULL;
    const Tensor *tensor = constant_tensor(value, o->fuse->ctx->scratch);
    if (!tensor || !tensor_check(tensor, NULL) || tensor_count(tensor) > MOST_WEIGHTS) return NULL;
    *count = tensor_count(tensor);
    float *items = ARENA_ARRAY(o->fuse->ctx->scratch, float, *count + 1);
    return tensor_read_floats(tensor, 0, *count, items, NULL) ? items : NULL;
}

/* 0, 1, … along the last axis, of a rank that broadcasts into that of x. */
static bool counts_up(const OneHot *o, const Value *value) {
    uint64_t count;
    const int64_t rank = fuse_rank(value), *items = read_ints(o, value, &count);
    if (!items || rank < 1 || rank > fuse_rank(o->x) || (int64_t)count != o->count ||
        fuse_dim(value, -1) != o->count)
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (items[i] != (int64_t)i) return false;
    return true;
}

static bool find_equal(OneHot *o, const Node *cast) {
    const Node *equal =
        fuse_is(cast, "Cast") && fuse_input(cast, 0) ? fuse_input(cast, 0)->producer : NULL;
    if (!fuse_is(equal, "Equal") || !fuse_reader(equal->outputs[0])) return false;
    for (uint32_t i = 0; i < 2 && equal->input_count == 2; i++) {
        o->x = fuse_input(equal, i);
        o->squeeze = true;
        if (is_index(o->x) && fuse_rank(o->x) > 1 && fuse_dim(o->x, -1) == 1 &&
            fuse_input(equal, 1 - i) && counts_up(o, fuse_input(equal, 1 - i)))
            return true;
    }
    return false;
}

static bool find_one_hot(OneHot *o, const Node *node) {
    uint64_t count = 0, two = 0;
    if (!fuse_is(node, "OneHot") || node->input_count != 3) return false;
    const Attr *axis = node_attr(node, "axis");
    const int64_t *depth = read_ints(o, fuse_input(node, 1), &count);
    const float *values = read_floats(o, fuse_input(node, 2), &two);
    o->x = fuse_input(node, 0);
    o->wraps = true;
    return is_index(o->x) && !(axis && axis->ref) && node_attr_int(node, "axis", -1) == -1 &&
           fuse_rank(o->x) > 0 && depth && count == 1 && *depth == o->count && values && two == 2 &&
           values[0] == 0 && values[1] == 1;
}

static bool is_finite(const OneHot *o) {
    uint64_t count;
    const float *items = read_floats(o, o->w, &count);
    for (uint64_t i = 0; items && i < count; i++)
        if (!isfinite(items[i])) return false;
    return items;
}

/* ---- picking --------------------------------------------------------------------------------- */

static Value *new_place(OneHot *o, int64_t number) {
    Arena *arena = &o->fuse->ctx->model->arena;
    const Dtype dtype = type_dtype(o->x->type);
    const int32_t narrow = (int32_t)number;
    const bool wide = dtype == DTYPE_INT64;
    Value *value = value_new(o->product->graph, sym_fresh(&o->fuse->ctx->model->syms, "place"));
    value_set_type(value, type_new_shaped(arena, dtype, NULL, 0));
    value_set_init(value,
                   tensor_new_raw(arena, dtype, NULL, 0, wide ? (const void *)&number : &narrow,
                                  wide ? sizeof number : sizeof narrow));
    return value;
}

static Value *make(OneHot *o, const char *op, Value *a, Value *b, const Type *type) {
    return fuse_make(o->fuse, o->product, op, (Value *[]){a, b}, type);
}

/* Rows of the padded weights. */
static Value *places(OneHot *o) {
    Value *x = o->x;
    if (o->squeeze) {
        const uint32_t rank = (uint32_t)fuse_rank(x) - 1;
        int64_t *same = ARENA_ARRAY(o->fuse->ctx->scratch, int64_t, rank); /* 0: as it is */
        for (uint32_t i = 0; i < rank; i++) same[i] = 0;
        const Type *shaped = type_new_shaped(&o->fuse->ctx->model->arena, type_dtype(x->type),
                                             value_type(x)->dims, rank);
        x = make(o, "Reshape", x, fuse_new_ints(o->fuse, o->product->graph, same, rank), shaped);
    }
    const Type *type = x->type;
    if (o->wraps) {
        Value *below = make(o, "Less", x, new_place(o, 0), type_plain_tensor(DTYPE_BOOL));
        Value *from_end = make(o, "Add", x, new_place(o, o->count), type);
        Value *either = make(o, "Where", below, from_end, type);
        node_resize_inputs(either->producer, 3);
        node_set_input(either->producer, 2, x);
        x = either;
    }
    x = make(o, "Max", x, new_place(o, -1), type);
    x = make(o, "Min", x, new_place(o, o->count), type);
    return make(o, "Add", x, new_place(o, 1), type);
}

static void visit(Fuse *fuse, Node *node) {
    OneHot o = {.fuse = fuse, .product = node, .w = fuse_input(node, 1)};
    if (fuse->faithful || !fuse_is(node, "MatMul") || fuse_opset(node) < INTEGER_OPSET || !o.w ||
        !fuse_input(node, 0) || !fuse_takes(node->outputs[0]) || fuse_rank(o.w) != 2)
        return;
    const Value *rows = fuse_input(node, 0);
    o.count = fuse_dim(o.w, 0);
    if (fuse_reader(rows) != node || o.count < 1 || o.count >= INT32_MAX || !rows->producer) return;
    const bool found = fuse_is(rows->producer, "OneHot") ? find_one_hot(&o, rows->producer)
                                                         : find_equal(&o, rows->producer);
    if (!found || !is_finite(&o)) return;
    static const int64_t around[] = {1, 0, 1, 0};
    Value *pads = fuse_new_ints(fuse, node->graph, around, 4);
    Value *table = make(&o, "Pad", o.w, pads, type_plain_tensor(type_dtype(o.w->type)));
    Value *picked = make(&o, "Gather", table, places(&o), node->outputs[0]->type);
    fuse_replace_root(fuse, picked->producer, node);
}

FUSE_PASS(fuse_one_hot, "fuse-one-hot",
          "replace products with one-hot vectors by a gather of rows, for plans", visit);
