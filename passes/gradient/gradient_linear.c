// SPDX-License-Identifier: Apache-2.0
/* Layers that carry a state from call to call, made again of operators that have gradients: a causal
 * convolution, and attention whose state is a matrix. The number of attention's steps is known, so that
 * they stand side by side. */
#include <math.h>

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
enum { LINEAR_STEPS_MOST = 4096 };

typedef struct Linear {
    Grad *g;
    int64_t steps, heads, group; /* of keys; queries that share one */
    Dtype dtype;                 /* that is computed in */
    Value **parts[IN_COUNT];     /* by step; NULL */
} Linear;

static bool read_linear(Grad *g, Linear *l) {
    const int64_t heads = grad_int(g, "kv_num_heads"), queries = grad_int(g, "q_num_heads");
    const Dtype dtype = type_dtype(grad_in(g, IN_QUERY)->type);
    if (heads < 1 || queries < heads || queries % heads) grad_refuse(g, "of this many heads");
    const int64_t steps = grad_size(g, grad_in(g, IN_QUERY), 1);
    if (steps < 1 || steps > LINEAR_STEPS_MOST) grad_refuse(g, "of %lld steps", (long long)steps);
    if (g->failed) return false;
    const bool narrow = dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16;
    *l = (Linear){.g = g,
                  .steps = steps,
                  .heads = heads,
                  .group = queries / heads,
                  .dtype = narrow ? DTYPE_FLOAT : dtype};
    return true;
}

/* Steps of an operand (N, steps, all), each as (N, heads, rows, columns), of which one is -1. */
static void split_steps(Linear *l, uint32_t i, int64_t heads, int64_t rows, int64_t columns) {
    Grad *g = l->g;
    const int64_t dims[] = {0, heads, rows, columns};
    Value *value = grad_in(g, i);
    if (!value) return;
    int64_t *ones = ARENA_ARRAY(g->make.ctx->scratch, int64_t, (size_t)l->steps + 1);
    for (int64_t t = 0; t < l->steps; t++) ones[t] = 1;
    Value **parts = ARENA_ARRAY(g->make.ctx->scratch, Value *, (size_t)l->steps + 1);
    value = grad_cast(g, value, l->dtype);
    parts[0] = GRAD(g, "Split", value, grad_ints(g, ones, (uint32_t)l->steps));
    node_set_attr_int(parts[0]->producer, "axis", 1);
    for (int64_t t = 1; t < l->steps; t++)
        parts[t] = make_output(&g->make, parts[0]->producer, l->dtype);
    for (int64_t t = 0; t < l->steps; t++)
        parts[t] = GRAD(g, "Reshape", parts[t], grad_ints(g, dims, 4));
    l->parts[i] = parts;
}

/* The state (N, heads, size of a key, of a value) behind step t; NULL before the first one: zeros. */
static Value *linear_step(const Linear *l, Value *state, int64_t t) {
    Grad *g = l->g;
    Value *key = l->parts[IN_KEY][t], *value = l->parts[IN_VALUE][t];
    if (l->parts[IN_DECAY] && state)
        state = GRAD(g, "Mul", state, GRAD(g, "Exp", l->parts[IN_DECAY][t]));
    if (l->parts[IN_BETA]) {
        if (state) value = GRAD(g, "Sub", value, GRAD(g, "MatMul", key, state));
        value = GRAD(g, "Mul", value, l->parts[IN_BETA][t]);
    }
    Value *more = GRAD(g, "Mul", grad_turn(g, key, 4), value);
    return state ? GRAD(g, "Add", state, more) : more;
}

static double linear_scale(const Linear *l) {
    Grad *g = l->g;
    const double given = grad_real(g, "scale");
    if (given < 0 || given > 0) return given;
    const int64_t size = grad_size(g, grad_in(g, IN_QUERY), 2) / (l->heads * l->group);
    return size > 0 ? 1 / sqrt((double)size) : 1;
}

void gradient_linear_attention(Grad *g, Value **outputs, uint32_t count) {
    static const int64_t joined[] = {0, 1, -1};
    Linear l;
    if (!read_linear(g, &l)) return;
    const int64_t betas = grad_in(g, IN_BETA) ? grad_size(g, grad_in(g, IN_BETA), 2) : 1;
    split_steps(&l, IN_QUERY, l.heads, l.group, -1);
    split_steps(&l, IN_KEY, l.heads, 1, -1);
    split_steps(&l, IN_VALUE, l.heads, 1, -1);
    split_steps(&l, IN_DECAY, l.heads, -1, 1);
    split_steps(&l, IN_BETA, betas, 1, 1);
    Value *past = grad_in(g, IN_PAST), *state = past ? grad_cast(g, past, l.dtype) : NULL;
    Value **given = ARENA_ARRAY(g->make.ctx->scratch, Value *, (size_t)l.steps + 1);
    for (int64_t t = 0; t < l.steps; t++) {
        state = linear_step(&l, state, t);
        given[t] = GRAD(g, "MatMul", l.parts[IN_QUERY][t], state);
        given[t] = GRAD(g, "Reshape", given[t], grad_ints(g, joined, 3));
    }
    Value *all = grad_make(g, "Concat", DTYPE_UNDEFINED, given, (size_t)l.steps);
    node_set_attr_int(all->producer, "axis", 1);
    all = GRAD(g, "Mul", all, grad_number(g, linear_scale(&l), all));
    outputs[0] = grad_cast(g, all, type_dtype(grad_in(g, IN_QUERY)->type));
    if (count > 1) outputs[1] = grad_cast(g, state, type_dtype((past ? past : outputs[0])->type));
}
