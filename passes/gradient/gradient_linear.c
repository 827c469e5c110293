// SPDX-License-Identifier: Apache-2.0
/* Layers that carry a state from call to call, made again of operators that have gradients: a causal
 * convolution, and attention whose state is a matrix. Attention's steps stand side by side where their
 * number is known, and not too large; else they are a Scan's. */
#include <math.h>

#include "fuse_graph.h"
#include "gradient_rule.h"

/* ---- CausalConvWithState --------------------------------------------------------------------- */

/* The state, or zeros, stands before the input; its last elements are the next one. */
void gradient_causal_conv(Grad *g, Value **outputs, uint32_t count) {
    Value *x = grad_in(g, 0), *weights = grad_in(g, 1), *past = grad_in(g, 3), *wide;
    const int64_t channels = grad_size(g, weights, 0), kernel = grad_size(g, weights, 2);
    if (grad_rank(g, x) != 3 || channels < 1 || kernel < 1) grad_refuse(g, "of these sizes");
    if (g->failed) return;
    const int64_t pads[] = {0, 0, kernel - 1, 0, 0, 0};
    if (past) {
        wide = GRAD(g, "Concat", past, x);
        node_set_attr_int(wide->producer, "axis", 2);
    } else {
        wide = GRAD(g, "Pad", x, grad_ints(g, pads, 6));
    }
    Value *sums = GRAD(g, "Conv", wide, weights, grad_in(g, 2));
    node_set_attr_int(sums->producer, "group", channels);
    const bool plain = grad_is(g, "activation", "none");
    outputs[0] = plain ? sums : GRAD(g, "Mul", sums, GRAD(g, "Sigmoid", sums));
    if (count < 2) return;
    Value *from = grad_dim(g, x, 2);
    outputs[1] = GRAD(g, "Slice", wide, from, grad_int_list(g, INT32_MAX), grad_int_list(g, 2));
}

/* ---- LinearAttention ------------------------------------------------------------------------- */

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_PAST, IN_DECAY, IN_BETA, IN_COUNT };
enum { LINEAR_STEPS_MOST = 512 };

typedef struct Linear {
    Grad *g;                /* what makes it: of a step, where it is a Scan's */
    int64_t heads, group;   /* of keys; queries that share one */
    int64_t betas;          /* heads of beta: all, or 1 */
    double scale;           /* of what is given */
    Dtype dtype;            /* that is computed in */
    Value *parts[IN_COUNT]; /* of a step: (N, heads, rows, columns); NULL */
    Value *state;           /* (N, heads, size of a key, of a value); NULL: zeros */
} Linear;

static bool read_linear(Grad *g, Linear *l) {
    const int64_t heads = grad_int(g, "kv_num_heads"), queries = grad_int(g, "q_num_heads");
    const Dtype dtype = type_dtype(grad_in(g, IN_QUERY)->type);
    if (heads < 1 || queries < heads || queries % heads)
        grad_refuse(g, "with this number of heads");
    if (g->failed) return false;
    const bool narrow = dtype_is_reduced(dtype);
    *l = (Linear){.g = g, .heads = heads, .group = queries / heads};
    l->dtype = narrow ? DTYPE_FLOAT : dtype;
    l->betas = grad_in(g, IN_BETA) ? grad_size(g, grad_in(g, IN_BETA), 2) : 1;
    l->scale = grad_real(g, "scale");
    if (l->scale < 0 || l->scale > 0) return !g->failed;
    const int64_t size = grad_size(g, grad_in(g, IN_QUERY), 2) / queries;
    l->scale = size > 0 ? 1 / sqrt((double)size) : 1;
    return !g->failed;
}

/* What a step reads of an operand, from (N, all) or (N, 1, all). */
static void take_part(Linear *l, uint32_t i, Value *value) {
    Grad *g = l->g;
    const int64_t rows = i == IN_QUERY ? l->group : i == IN_DECAY ? -1 : 1;
    const int64_t columns = i == IN_DECAY || i == IN_BETA ? 1 : -1;
    const int64_t dims[] = {0, i == IN_BETA ? l->betas : l->heads, rows, columns};
    l->parts[i] = GRAD(g, "Reshape", value, grad_ints(g, dims, 4));
}

/* What a step gives, (N, 1, all). */
static Value *linear_step(Linear *l) {
    static const int64_t joined[] = {0, 1, -1};
    Grad *g = l->g;
    Value *key = l->parts[IN_KEY], *value = l->parts[IN_VALUE], *state = l->state;
    if (l->parts[IN_DECAY] && state)
        state = GRAD(g, "Mul", state, GRAD(g, "Exp", l->parts[IN_DECAY]));
    if (l->parts[IN_BETA]) {
        if (state) value = GRAD(g, "Sub", value, GRAD(g, "MatMul", key, state));
        value = GRAD(g, "Mul", value, l->parts[IN_BETA]);
    }
    Value *more = GRAD(g, "Mul", grad_turn(g, key, 4), value);
    l->state = state ? GRAD(g, "Add", state, more) : more;
    Value *given = GRAD(g, "MatMul", l->parts[IN_QUERY], l->state);
    return GRAD(g, "Reshape", given, grad_ints(g, joined, 3));
}

/* All steps side by side: (N, steps, all). */
static Value *linear_steps(Linear *l, int64_t steps) {
    Grad *g = l->g;
    int64_t *ones = ARENA_ARRAY(g->make.ctx->scratch, int64_t, (size_t)steps + 1);
    Value **given = ARENA_ARRAY(g->make.ctx->scratch, Value *, (size_t)steps + 1);
    Node *splits[IN_COUNT] = {NULL};
    for (int64_t t = 0; t < steps; t++) ones[t] = 1;
    for (uint32_t i = 0; i < IN_COUNT; i++) {
        if (!grad_in(g, i) || i == IN_PAST) continue;
        Value *value = grad_cast(g, grad_in(g, i), l->dtype);
        splits[i] = GRAD(g, "Split", value, grad_ints(g, ones, (uint32_t)steps))->producer;
        node_set_attr_int(splits[i], "axis", 1);
        for (int64_t t = 1; t < steps; t++) make_output(&g->make, splits[i], l->dtype);
    }
    for (int64_t t = 0; t < steps; t++) {
        for (uint32_t i = 0; i < IN_COUNT; i++)
            if (splits[i]) take_part(l, i, splits[i]->outputs[t]);
        given[t] = linear_step(l);
    }
    Value *all = grad_make(g, "Concat", DTYPE_UNDEFINED, given, (size_t)steps);
    node_set_attr_int(all->producer, "axis", 1);
    return all;
}

/* The type of an operand (N, steps, all) in a step. */
static const Type *part_type(const Linear *l, const Value *value) {
    const Type *type = value_shaped_type(value);
    Arena *arena = &l->g->make.ctx->model->arena;
    Dim *dims = ARENA_ARRAY(arena, Dim, 2);
    if (type && type->rank == 3) {
        dims[0] = type->dims[0];
        dims[1] = type->dims[2];
    }
    return type_new_shaped(arena, l->dtype, dims, 2);
}

/* The state before the first step, and its type. */
static Value *first_state(const Linear *l, const Type **type) {
    Grad *g = l->g;
    Value *query = grad_in(g, IN_QUERY);
    Arena *arena = &g->make.ctx->model->arena;
    const int64_t sizes[] = {l->heads, grad_size(g, grad_in(g, IN_KEY), 2) / l->heads,
                             grad_size(g, grad_in(g, IN_VALUE), 2) / l->heads};
    Dim *dims = ARENA_ARRAY(arena, Dim, 4);
    const Type *shape = value_shaped_type(query);
    if (shape && shape->rank == 3) dims[0] = shape->dims[0];
    for (uint32_t i = 0; i < 3; i++) dims[i + 1] = (Dim){.kind = DIM_KNOWN, .size = sizes[i]};
    *type = type_new_shaped(arena, l->dtype, dims, 4);
    if (l->state) return l->state;
    Value *zero = grad_cast(g, grad_number(g, 0, query), l->dtype);
    return GRAD(g, "Expand", zero, GRAD_LIST(g, grad_dim(g, query, 0), grad_ints(g, sizes, 3)));
}

/* The same in a Scan, which reads (steps, N, all). */
static Value *linear_scan(Linear *l) {
    static const int64_t turn[] = {1, 0, 2}, second = 1;
    Grad *g = l->g;
    const Type *type;
    Value *first = first_state(l, &type);
    GradScan scan = grad_scan_begin(g);
    Linear inner = *l;
    inner.g = &scan.inner;
    inner.state = grad_scan_state(&scan, first, type);
    for (uint32_t i = 0; i < IN_COUNT; i++) {
        Value *value = grad_in(g, i);
        if (!value || i == IN_PAST) continue;
        Value *all = grad_transpose(g, grad_cast(g, value, l->dtype), turn, 3);
        take_part(&inner, i, grad_scan_input(&scan, all, part_type(l, value)));
    }
    Value *given = grad_axes(inner.g, "Squeeze", linear_step(&inner), (GradAxes){&second, 1});
    grad_scan_give(&scan, inner.state);
    grad_scan_give(&scan, given);
    Node *node = grad_scan_end(&scan);
    l->state = make_output(&g->make, node, l->dtype);
    return grad_transpose(g, make_output(&g->make, node, l->dtype), turn, 3);
}

void gradient_linear_attention(Grad *g, Value **outputs, uint32_t count) {
    Linear l;
    if (!read_linear(g, &l)) return;
    const int64_t steps = fuse_dim(grad_in(g, IN_QUERY), 1);
    Value *past = grad_in(g, IN_PAST);
    if (past) l.state = grad_cast(g, past, l.dtype);
    const bool apart = steps > 0 && steps <= LINEAR_STEPS_MOST;
    Value *all = apart ? linear_steps(&l, steps) : linear_scan(&l);
    all = GRAD(g, "Mul", all, grad_number(g, l.scale, all));
    outputs[0] = grad_cast(g, all, type_dtype(grad_in(g, IN_QUERY)->type));
    if (count > 1) outputs[1] = grad_cast(g, l.state, type_dtype((past ? past : outputs[0])->type));
}
