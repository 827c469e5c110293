// SPDX-License-Identifier: Apache-2.0
/* Attention, and what stands around it, made again of operators that have gradients. */
#include <math.h>

#include "gradient_rule.h"

/* ---- Attention ------------------------------------------------------------------------------- */

typedef struct Heads {
    Grad *g;
    int64_t q_heads, kv_heads;
    bool flat; /* Q, K and V are (N, length, heads * size) */
} Heads;

enum { MOST_SHARED = 1024 }; /* queries' heads that one of the keys' is repeated for */

/* (N, heads, length, size). */
static Value *by_head(const Heads *h, uint32_t i, int64_t heads) {
    static const int64_t turn[] = {0, 2, 1, 3};
    Grad *g = h->g;
    const int64_t dims[] = {0, 0, heads, -1};
    Value *value = grad_in(g, i);
    if (!h->flat) return value;
    return grad_transpose(g, GRAD(g, "Reshape", value, grad_ints(g, dims, 4)), turn, 4);
}

/* Each head as often as queries have it: heads (a, b) become (a, a, b, b). */
static Value *repeated(const Heads *h, Value *value) {
    static const int64_t third = 2;
    Grad *g = h->g;
    const int64_t times = h->kv_heads ? h->q_heads / h->kv_heads : 1;
    if (times == 1) return value;
    Value **parts = ARENA_ARRAY(g->make.ctx->scratch, Value *, (size_t)times + 1);
    Value *apart = grad_axes(g, "Unsqueeze", value, (GradAxes){&third, 1});
    for (int64_t i = 0; i < times; i++) parts[i] = apart;
    Value *all = grad_make(g, "Concat", DTYPE_UNDEFINED, parts, (size_t)times);
    node_set_attr_int(all->producer, "axis", 2);
    Value *shape = GRAD_AS(g, "Shape", DTYPE_INT64, value);
    Value *batch = GRAD(g, "Gather", shape, grad_int_list(g, 0));
    static const int64_t rest[] = {2, 3};
    Value *sizes = GRAD(g, "Gather", shape, grad_ints(g, rest, 2));
    Value *dims = GRAD(g, "Concat", batch, grad_int_list(g, h->q_heads), sizes);
    node_set_attr_int(dims->producer, "axis", 0);
    return GRAD(g, "Reshape", all, dims);
}

static Value *with_past(Grad *g, uint32_t past, Value *value) {
    if (!grad_in(g, past)) return value;
    Value *all = GRAD(g, "Concat", grad_in(g, past), value);
    node_set_attr_int(all->producer, "axis", 2);
    return all;
}

/* 0, 1, … below the size of axis 2. */
static Value *positions(Grad *g, Value *value) {
    Value *shape = GRAD_AS(g, "Shape", DTYPE_INT64, value);
    Value *size = GRAD(g, "Gather", shape, grad_int_number(g, 2));
    Value *from = grad_int_number(g, 0), *step = grad_int_number(g, 1);
    return GRAD(g, "Range", from, size, step);
}

/* What masks add to the scores: 0, or minus infinity. */
static Value *added(Grad *g, Value *allowed, Value *like) {
    Value *none = grad_number(g, 0, like), *lowest = grad_number(g, -(double)INFINITY, like);
    return GRAD_AS(g, "Where", type_dtype(like->type), allowed, none, lowest);
}

/* A key may be seen by the queries from its own place on. */
static Value *causal(Grad *g, Value *query, Value *key, Value *like) {
    static const int64_t second = 1;
    Value *rows = positions(g, query);
    if (grad_in(g, 4)) {
        Value *shape = GRAD_AS(g, "Shape", DTYPE_INT64, grad_in(g, 4));
        rows = GRAD(g, "Add", rows, GRAD(g, "Gather", shape, grad_int_number(g, 2)));
    }
    rows = grad_axes(g, "Unsqueeze", rows, (GradAxes){&second, 1});
    return added(g, GRAD_AS(g, "LessOrEqual", DTYPE_BOOL, positions(g, key), rows), like);
}

static Value *mask_of(Grad *g, Value *like) {
    Value *mask = grad_in(g, 3);
    return mask && type_dtype(mask->type) == DTYPE_BOOL ? added(g, mask, like) : mask;
}

/* A row that sees nothing has shares of 0. */
static Value *shares_of(Grad *g, Value *scores, bool masked) {
    static const int64_t last = -1;
    Value *blind = NULL;
    if (masked) {
        Value *most = grad_reduce(g, "ReduceMax", scores, (GradAxes){&last, 1});
        blind = GRAD_AS(g, "Equal", DTYPE_BOOL, most, grad_number(g, -(double)INFINITY, most));
        scores = GRAD_CALC(g, "Where(p, 0, q)", blind, scores);
    }
    Value *shares = GRAD(g, "Softmax", scores);
    node_set_attr_int(shares->producer, "axis", -1);
    return masked ? GRAD_CALC(g, "Where(p, 0, q)", blind, shares) : shares;
}

static Value *scores_of(const Heads *h, Value *query, Value *key) {
    Grad *g = h->g;
    Value *scores = GRAD(g, "MatMul", query, grad_turn(g, key, 4));
    float scale;
    if (!attr_float(node_attr(g->node, "scale"), &scale)) {
        const int64_t all = grad_size(g, grad_in(g, 0), -1);
        scale = (float)(1 / sqrt((double)(h->flat ? all / h->q_heads : all)));
    }
    scores = GRAD(g, "Mul", scores, grad_number(g, (double)scale, scores));
    return grad_real(g, "softcap") > 0 ? GRAD_CALC(g, "$softcap * Tanh(p / $softcap)", scores)
                                       : scores;
}

static void check_attention(Grad *g) {
    static const char *const windows[] = {"left_window_size", "right_window_size"};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        if (node_attr(g->node, windows[i]) && grad_int(g, windows[i]) >= 0)
            grad_refuse(g, "with %s", windows[i]);
    if (grad_in(g, 6)) grad_refuse(g, "with key lengths");
}

static bool read_heads(Grad *g, Heads *h) {
    const Value *q = grad_in(g, 0), *k = grad_in(g, 1);
    *h = (Heads){.g = g, .flat = grad_rank(g, q) == 3};
    h->q_heads = h->flat ? grad_int(g, "q_num_heads") : grad_size(g, q, 1);
    h->kv_heads = h->flat ? grad_int(g, "kv_num_heads") : grad_size(g, k, 1);
    if (!g->failed && (h->q_heads <= 0 || h->kv_heads <= 0 || h->q_heads % h->kv_heads ||
                       h->q_heads / h->kv_heads > MOST_SHARED))
        grad_refuse(g, "with this number of heads");
    return !g->failed;
}

void gradient_attention(Grad *g, Value **outputs, uint32_t count) {
    static const int64_t turn[] = {0, 2, 1, 3}, joined[] = {0, 0, -1};
    Heads h;
    check_attention(g);
    if (!read_heads(g, &h)) return;
    Value *query = by_head(&h, 0, h.q_heads);
    Value *key = with_past(g, 4, by_head(&h, 1, h.kv_heads));
    Value *value = with_past(g, 5, by_head(&h, 2, h.kv_heads));
    if (count > 1) outputs[1] = key;
    if (count > 2) outputs[2] = value;
    const Dtype dtype = type_dtype(query->type);
    const Dtype wide = (Dtype)grad_int(g, "softmax_precision");
    Value *scores = scores_of(&h, query, repeated(&h, key));
    Value *mask = mask_of(g, scores);
    if (mask) scores = GRAD(g, "Add", scores, mask);
    if (grad_int(g, "is_causal")) scores = GRAD(g, "Add", scores, causal(g, query, key, scores));
    if (wide) scores = grad_cast(g, scores, wide);
    Value *shares = shares_of(g, scores, mask || grad_int(g, "is_causal"));
    value = repeated(&h, value);
    Value *sums = GRAD(g, "MatMul", grad_cast(g, shares, dtype), value);
    if (h.flat) {
        sums = grad_transpose(g, sums, turn, 4);
        sums = GRAD(g, "Reshape", sums, grad_ints(g, joined, 3));
    }
    outputs[0] = sums;
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

/* `count` of the last axis's elements from `first` on, each `step`-th. */
static Value *part(Grad *g, Value *value, int64_t first, int64_t end, int64_t step) {
    Node *slice = make_node(&g->make, "Slice", NULL, 5);
    Value *const operands[] = {value, grad_int_list(g, first), grad_int_list(g, end),
                               grad_int_list(g, -1), grad_int_list(g, step)};
    for (uint32_t i = 0; i < 5; i++) node_set_input(slice, i, operands[i]);
    return make_output(&g->make, slice, type_dtype(value->type));
}

/* Angles of each place, for all heads: (N or nothing, length, 1, half). */
static Value *angles(Grad *g, uint32_t i) {
    static const int64_t heads = -2;
    Value *table = grad_in(g, i);
    if (grad_in(g, 3)) table = GRAD(g, "Gather", table, grad_in(g, 3));
    return grad_axes(g, "Unsqueeze", table, (GradAxes){&heads, 1});
}

static Value *joined(Grad *g, Value *a, Value *b) {
    Value *both = GRAD(g, "Concat", a, b);
    node_set_attr_int(both->producer, "axis", -1);
    return both;
}

void gradient_rotary(Grad *g, Value **outputs, uint32_t count) {
    static const int64_t turn[] = {0, 2, 1, 3}, last = -1;
    (void)count;
    Value *x = grad_in(g, 0), *at = x;
    const bool flat = grad_rank(g, x) == 3, pairs = grad_int(g, "interleaved");
    const int64_t heads = grad_int(g, "num_heads"), dims[] = {0, 0, heads, -1};
    if (flat && heads < 1) grad_refuse(g, "with this number of heads");
    if (g->failed) return;
    const int64_t head = flat ? grad_size(g, x, 2) / heads : grad_size(g, x, 3);
    const int64_t given = grad_int(g, "rotary_embedding_dim"), size = given ? given : head;
    if (size < 2 || size > head || size % 2) grad_refuse(g, "of these sizes");
    at = flat ? GRAD(g, "Reshape", x, grad_ints(g, dims, 4)) : grad_transpose(g, x, turn, 4);
    Value *a = pairs ? part(g, at, 0, size, 2) : part(g, at, 0, size / 2, 1);
    Value *b = pairs ? part(g, at, 1, size, 2) : part(g, at, size / 2, size, 1);
    Value *cosine = angles(g, 1), *sine = angles(g, 2);
    Value *real = GRAD(g, "Mul", cosine, a);
    real = GRAD(g, "Sub", real, GRAD(g, "Mul", sine, b));
    Value *imaginary = GRAD(g, "Mul", sine, a);
    imaginary = GRAD(g, "Add", imaginary, GRAD(g, "Mul", cosine, b));
    if (pairs) {
        const int64_t back[] = {0, 0, 0, -1};
        real = grad_axes(g, "Unsqueeze", real, (GradAxes){&last, 1});
        Value *both = joined(g, real, grad_axes(g, "Unsqueeze", imaginary, (GradAxes){&last, 1}));
        real = GRAD(g, "Reshape", both, grad_ints(g, back, 4));
    } else {
        real = joined(g, real, imaginary);
    }
    if (size < head) real = joined(g, real, part(g, at, size, head, 1));
    outputs[0] = flat ? grad_reshape_like(g, real, x) : grad_transpose(g, real, turn, 4);
}
