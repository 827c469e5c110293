// SPDX-License-Identifier: Apache-2.0
/* RNN, GRU and LSTM made again step by step, of operators that have gradients. Where the number of steps
 * is known, and not too large, they stand side by side; else they are a Scan's. Where sequences have
 * lengths of their own, steps behind a sequence's end hand on its state and give zeros, and reverse
 * directions read each sequence turned round. */
#include <string.h>

#include "fuse_graph.h"
#include "gradient_rule.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { MOST_GATES = 4, MOST_FUNCTIONS = 3, STEPS_MOST = 512, HIDDEN_MOST = 1 << 24 };

/* One direction of a layer. */
typedef struct Layer {
    Grad *g;
    uint32_t direction, gates;
    int64_t steps, hidden; /* steps: -1 where they are not known */
    const char *functions[MOST_FUNCTIONS];
    Value *r;               /* (hidden, gates * hidden) */
    Value *w_bias, *r_bias; /* (gates * hidden), NULL */
    Value *peepholes[3];    /* (hidden), NULL */
    Value *h, *c;           /* the state */
} Layer;

typedef void Step(Layer *l, Value *x); /* x (N, gates * hidden): what the inputs give */

/* ---- operands -------------------------------------------------------------------------------- */

/* Direction d of an operand that has one for each. */
static Value *of_direction(const Layer *l, uint32_t i) {
    Grad *g = l->g;
    Value *value = grad_in(g, i);
    return value ? GRAD(g, "Gather", value, grad_int_number(g, l->direction)) : NULL;
}

/* `count` equal parts along the last axis. */
static void split(Grad *g, Value *value, int64_t size, uint32_t count, Value **parts) {
    int64_t sizes[2 * MOST_GATES];
    for (uint32_t i = 0; i < count; i++) sizes[i] = size;
    parts[0] = value;
    if (count == 1) return;
    parts[0] = GRAD(g, "Split", value, grad_ints(g, sizes, count));
    node_set_attr_int(parts[0]->producer, "axis", -1);
    for (uint32_t i = 1; i < count; i++)
        parts[i] = make_output(&g->make, parts[0]->producer, type_dtype(value->type));
}

static void read_bias(Layer *l) {
    Value *bias = of_direction(l, IN_B), *parts[2];
    if (!bias) return;
    split(l->g, bias, l->gates * l->hidden, 2, parts);
    l->w_bias = parts[0];
    l->r_bias = parts[1];
}

static Value *state(const Layer *l, uint32_t i) {
    Grad *g = l->g;
    if (grad_in(g, i)) return of_direction(l, i);
    Value *dims = GRAD_LIST(g, grad_dim(g, grad_in(g, IN_X), 1), grad_int_list(g, l->hidden));
    return GRAD(g, "Expand", grad_number(g, 0, grad_in(g, IN_X)), dims);
}

/* Functions without numbers of their own are operators of the same name. */
static const char *function_named(const Layer *l, Bytes name) {
    const char *text =
        arena_printf(l->g->make.ctx->scratch, "%.*s", (int)name.size, (const char *)name.data);
    const OpSchema *schema = ops_find("", text, l->g->opset);
    const bool plain = schema && strlen(text) == name.size && schema->max_input == 1 &&
                       schema->max_output == 1 && !schema->attr_count;
    return plain ? text : NULL;
}

static bool read_functions(Layer *l, const char *const *usual, uint32_t count) {
    uint32_t given;
    const Bytes *names = attr_strings(node_attr(l->g->node, "activations"), &given);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = l->direction * count + i;
        l->functions[i] = !given ? usual[i] : at < given ? function_named(l, names[at]) : NULL;
        if (!l->functions[i]) grad_refuse(l->g, "of these activations");
    }
    return !l->g->failed;
}

static Value *applied(const Layer *l, uint32_t i, Value *value) {
    return GRAD(l->g, l->functions[i], value);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static Value *recurrent_part(const Layer *l) {
    Value *part = GRAD(l->g, "MatMul", l->h, l->r);
    return l->r_bias ? GRAD(l->g, "Add", part, l->r_bias) : part;
}

static void step_rnn(Layer *l, Value *x) {
    Value *part = recurrent_part(l);
    l->h = applied(l, 0, GRAD(l->g, "Add", x, part));
}

/* Gates z, r, h. */
static void step_gru(Layer *l, Value *x) {
    Grad *g = l->g;
    Value *from_x[3], *from_h[3];
    split(g, x, l->hidden, 3, from_x);
    split(g, recurrent_part(l), l->hidden, 3, from_h);
    Value *z = applied(l, 0, GRAD(g, "Add", from_x[0], from_h[0]));
    Value *r = applied(l, 0, GRAD(g, "Add", from_x[1], from_h[1]));
    Value *part;
    if (grad_int(g, "linear_before_reset")) {
        part = GRAD(g, "Mul", r, from_h[2]);
    } else {
        Value *weights[3], *bias[3];
        split(g, l->r, l->hidden, 3, weights);
        part = GRAD(g, "MatMul", GRAD(g, "Mul", r, l->h), weights[2]);
        if (l->r_bias) {
            split(g, l->r_bias, l->hidden, 3, bias);
            part = GRAD(g, "Add", part, bias[2]);
        }
    }
    Value *fresh = applied(l, 1, GRAD(g, "Add", from_x[2], part));
    l->h = GRAD_CALC(g, "(1 - p) * q + p * r", z, fresh, l->h);
}

static Value *peeped(const Layer *l, uint32_t i, Value *gate, Value *cell) {
    if (!l->peepholes[i]) return gate;
    return GRAD(l->g, "Add", gate, GRAD(l->g, "Mul", l->peepholes[i], cell));
}

/* Gates i, o, f, c; peepholes i, o, f. */
static void step_lstm(Layer *l, Value *x) {
    Grad *g = l->g;
    Value *gates[4], *part = recurrent_part(l);
    split(g, GRAD(g, "Add", x, part), l->hidden, 4, gates);
    Value *in = applied(l, 0, peeped(l, 0, gates[0], l->c));
    Value *keep = grad_int(g, "input_forget") ? GRAD_CALC(g, "1 - p", in)
                                              : applied(l, 0, peeped(l, 2, gates[2], l->c));
    Value *fresh = applied(l, 1, gates[3]);
    Value *kept = GRAD(g, "Mul", keep, l->c);
    l->c = GRAD(g, "Add", kept, GRAD(g, "Mul", in, fresh));
    Value *out = applied(l, 0, peeped(l, 1, gates[1], l->c));
    l->h = GRAD(g, "Mul", out, applied(l, 2, l->c));
}

/* ---- sequences ------------------------------------------------------------------------------- */

static Value *turned(Grad *g, Value *value) {
    Value *back =
        GRAD(g, "ReverseSequence", value, grad_cast(g, grad_in(g, IN_LENGTHS), DTYPE_INT64));
    node_set_attr_int(back->producer, "time_axis", 0);
    node_set_attr_int(back->producer, "batch_axis", 1);
    return back;
}

/* The last step first. */
static Value *flipped(Grad *g, Value *value) {
    Value *last = grad_int_list(g, -1), *end = grad_int_list(g, INT64_MIN);
    return grad_make(g, "Slice", DTYPE_UNDEFINED,
                     (Value *const[]){value, last, end, grad_int_list(g, 0), last}, 5);
}

/* What the inputs give to all steps, (steps, N, gates * hidden), turned round where sequences have
 * lengths. */
static Value *from_inputs(const Layer *l, bool reverse) {
    static const int64_t swapped[] = {1, 0};
    static const int64_t same[] = {0, 0, -1};
    Grad *g = l->g;
    Value *x = grad_in(g, IN_X);
    if (fuse_rank(x) < 0) x = GRAD(g, "Reshape", x, grad_ints(g, same, 3)); /* its rank is 3 */
    if (grad_in(g, IN_LENGTHS) && reverse) x = turned(g, x);
    Value *from_x = GRAD(g, "MatMul", x, grad_transpose(g, of_direction(l, IN_W), swapped, 2));
    return l->w_bias ? GRAD(g, "Add", from_x, l->w_bias) : from_x;
}

/* A step that sequences may have ended before: returns what it gives. goes_on (N, 1), NULL: all do. */
static Value *run_step(Layer *l, Step *step, Value *x, Value *goes_on) {
    Grad *g = l->g;
    Value *h = l->h, *c = l->c;
    step(l, x);
    if (!goes_on) return l->h;
    Value *given = GRAD_CALC(g, "Where(p, q, 0)", goes_on, l->h);
    l->h = GRAD_CALC(g, "Where(p, q, r)", goes_on, l->h, h);
    if (c) l->c = GRAD_CALC(g, "Where(p, q, r)", goes_on, l->c, c);
    return given;
}

/* All steps; returns what they give, (steps, N, hidden), in the order of the inputs. */
static Value *run_steps(Layer *l, Step *step, bool reverse) {
    Grad *g = l->g;
    static const int64_t first = 0, second = 1;
    Value *lengths = grad_in(g, IN_LENGTHS), *from_x = from_inputs(l, reverse);
    Value **given = ARENA_ARRAY(g->make.ctx->scratch, Value *, (size_t)l->steps + 1);
    for (int64_t t = 0; t < l->steps; t++) {
        const int64_t at = reverse && !lengths ? l->steps - 1 - t : t;
        Value *x = GRAD(g, "Gather", from_x, grad_int_number(g, at)), *goes_on = NULL;
        if (lengths) {
            Value *number = grad_cast(g, grad_int_number(g, t), type_dtype(lengths->type));
            goes_on = GRAD_AS(g, "Less", DTYPE_BOOL, number, lengths);
            goes_on = grad_axes(g, "Unsqueeze", goes_on, (GradAxes){&second, 1});
        }
        given[at] = run_step(l, step, x, goes_on);
        given[at] = grad_axes(g, "Unsqueeze", given[at], (GradAxes){&first, 1});
    }
    Value *all = grad_make(g, "Concat", DTYPE_UNDEFINED, given, (size_t)l->steps);
    node_set_attr_int(all->producer, "axis", 0);
    return lengths && reverse ? turned(g, all) : all;
}

/* The type of (N, size) in a step. */
static const Type *step_type(const Layer *l, Dtype dtype, int64_t size) {
    const Type *x = value_shaped_type(grad_in(l->g, IN_X));
    Arena *arena = &l->g->make.ctx->model->arena;
    Dim *dims = ARENA_ARRAY(arena, Dim, 2);
    if (x && x->rank == 3) dims[0] = x->dims[1];
    dims[1] = (Dim){.kind = DIM_KNOWN, .size = size};
    return type_new_shaped(arena, dtype, dims, 2);
}

/* (steps, N, 1): which sequences have not ended. */
static Value *going_on(const Layer *l) {
    static const int64_t second = 1, last = 2;
    Grad *g = l->g;
    Value *lengths = grad_in(g, IN_LENGTHS), *from = grad_int_number(g, 0);
    Value *steps = GRAD(g, "Gather", grad_shape(g, grad_in(g, IN_X)), from);
    Value *numbers = GRAD(g, "Range", from, steps, grad_int_number(g, 1));
    numbers = grad_cast(g, numbers, type_dtype(lengths->type));
    numbers = grad_axes(g, "Unsqueeze", numbers, (GradAxes){&second, 1});
    return grad_axes(g, "Unsqueeze", GRAD_AS(g, "Less", DTYPE_BOOL, numbers, lengths),
                     (GradAxes){&last, 1});
}

/* The same in a Scan. */
static Value *scan_steps(Layer *l, Step *step, bool reverse) {
    Grad *g = l->g;
    Value *lengths = grad_in(g, IN_LENGTHS), *from_x = from_inputs(l, reverse), *goes_on = NULL;
    if (reverse && !lengths) from_x = flipped(g, from_x);
    const Dtype dtype = type_dtype(from_x->type);
    const Type *state = step_type(l, dtype, l->hidden);
    GradScan scan = grad_scan_begin(g);
    Layer inner = *l;
    inner.g = &scan.inner;
    inner.h = grad_scan_state(&scan, l->h, state);
    if (l->c) inner.c = grad_scan_state(&scan, l->c, state);
    Value *x = grad_scan_input(&scan, from_x, step_type(l, dtype, l->gates * l->hidden));
    if (lengths) goes_on = grad_scan_input(&scan, going_on(l), step_type(l, DTYPE_BOOL, 1));
    Value *given = run_step(&inner, step, x, goes_on);
    grad_scan_give(&scan, inner.h);
    if (l->c) grad_scan_give(&scan, inner.c);
    grad_scan_give(&scan, given);
    Node *node = grad_scan_end(&scan);
    l->h = make_output(&g->make, node, dtype);
    if (l->c) l->c = make_output(&g->make, node, dtype);
    Value *all = make_output(&g->make, node, dtype);
    return !reverse ? all : lengths ? turned(g, all) : flipped(g, all);
}

/* Directions side by side along a new axis. */
static Value *stacked(Grad *g, Value **parts, uint32_t count, int64_t axis) {
    for (uint32_t i = 0; i < count; i++)
        parts[i] = grad_axes(g, "Unsqueeze", parts[i], (GradAxes){&axis, 1});
    if (count == 1) return parts[0];
    Value *all = grad_make(g, "Concat", DTYPE_UNDEFINED, parts, count);
    node_set_attr_int(all->producer, "axis", axis);
    return all;
}

typedef struct Kind {
    Step *step;
    uint32_t gates, functions;
    const char *usual[MOST_FUNCTIONS];
} Kind;

static bool check(Grad *g) {
    if (node_attr(g->node, "clip")) grad_refuse(g, "with clip");
    if (grad_int(g, "layout")) grad_refuse(g, "with layout 1");
    const int64_t hidden = grad_size(g, grad_in(g, IN_R), 2);
    if (hidden < 1 || hidden > HIDDEN_MOST) grad_refuse(g, "of this hidden size");
    return !g->failed;
}

static Value *run_direction(Layer *l, const Kind *kind, bool reverse) {
    static const int64_t swapped[] = {1, 0};
    Grad *g = l->g;
    if (!read_functions(l, kind->usual, kind->functions)) return grad_in(g, IN_X);
    l->r = grad_transpose(g, of_direction(l, IN_R), swapped, 2);
    read_bias(l);
    l->h = state(l, IN_H);
    if (kind->gates == 4) {
        l->c = state(l, IN_C);
        if (grad_in(g, IN_P)) split(g, of_direction(l, IN_P), l->hidden, 3, l->peepholes);
    }
    const bool apart = l->steps > 0 && l->steps <= STEPS_MOST;
    return apart ? run_steps(l, kind->step, reverse) : scan_steps(l, kind->step, reverse);
}

static void make_layer(Grad *g, const Kind *kind, Value **outputs, uint32_t count) {
    if (!check(g)) return;
    const bool both = grad_is(g, "direction", "bidirectional");
    const uint32_t directions = both ? 2 : 1;
    Value *all[2] = {NULL, NULL}, *last[2] = {NULL, NULL}, *cells[2] = {NULL, NULL};
    for (uint32_t d = 0; d < directions && !g->failed; d++) {
        Layer l = {.g = g,
                   .direction = d,
                   .gates = kind->gates,
                   .steps = fuse_dim(grad_in(g, IN_X), 0),
                   .hidden = grad_size(g, grad_in(g, IN_R), 2)};
        all[d] = run_direction(&l, kind, d == 1 || grad_is(g, "direction", "reverse"));
        last[d] = l.h;
        cells[d] = l.c;
    }
    if (g->failed) return;
    if (count > 0) outputs[0] = stacked(g, all, directions, 1);
    if (count > 1) outputs[1] = stacked(g, last, directions, 0);
    if (count > 2) outputs[2] = stacked(g, cells, directions, 0);
}

#define KIND(name, gates, functions, ...)                                                          \
    void gradient_##name(Grad *g, Value **outputs, uint32_t count) {                               \
        static const Kind kind = {step_##name, gates, functions, {__VA_ARGS__}};                   \
        make_layer(g, &kind, outputs, count);                                                      \
    }
#include "recurrent_kinds.def"
