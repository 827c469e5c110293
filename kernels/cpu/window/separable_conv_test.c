// SPDX-License-Identifier: Apache-2.0
/* SeparableConvLast against its convolutions one by one: the same bits, of float and of bfloat16,
 * whatever is absent, for random windows, sizes and numbers of threads; and what does not fit together
 * is refused. */
#include "half.h"
#include "igemm.h"
#include "kernel_case_test.h"

#include "workers.h"

enum { RANK = 4 };

static uint32_t state = 1;
static int64_t below(int64_t end) {
    state = state * 1664525u + 1013904223u;
    return (int64_t)(((uint64_t)state * (uint64_t)end) >> 32);
}

typedef struct Shape {
    int64_t images, depth, channels, columns; /* of X, of the convolution, and behind it */
    int64_t in[2], out[2], taps[2], strides[2], dilations[2], pads[4];
    bool before, behind, biases, residual, constant, bfloats;
    const char *act[3]; /* before, of the convolution, behind */
} Shape;

static Shape random_shape(void) {
    static const char *const activations[] = {"", "Relu", "HardSwish", "Clip", "Silu"};
    Shape s = {.images = 1 + below(3),
               .depth = 1 + below(below(8) ? 70 : 1024),
               .channels = 1 + below(100),
               .columns = 1 + below(70)};
    const int64_t parts = below(4);
    s.before = parts != 0;
    s.behind = parts != 1;
    s.biases = below(2);
    s.residual = s.behind && below(2);
    s.constant = below(2);
    if (!s.before) s.depth = s.channels;
    for (uint32_t i = 0; i < 2; i++) {
        s.taps[i] = 1 + below(9);
        s.strides[i] = 1 + below(3);
        s.dilations[i] = 1 + below(2);
        s.pads[i] = below(6);
        s.pads[i + 2] = below(6);
        s.in[i] = (s.taps[i] - 1) * s.dilations[i] + 1 + below(30);
        s.out[i] = (s.in[i] + s.pads[i] + s.pads[i + 2] - (s.taps[i] - 1) * s.dilations[i] - 1) /
                       s.strides[i] +
                   1;
    }
    for (int i = 0; i < 3; i++) s.act[i] = activations[below(5)];
    return s;
}

/* Biases are float, the rest is of the shape's type. */
typedef struct Data {
    const float *b, *c, *d;
    const void *x, *w, *v, *u, *z;
} Data;

static float *numbers(Arena *arena, int64_t count) {
    float *items = ARENA_ARRAY(arena, float, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) items[i] = (float)below(1 << 16) / 32768 - 1;
    return items;
}

static const void *elements(Arena *arena, bool bfloats, int64_t count) {
    const float *items = numbers(arena, count);
    if (!bfloats) return items;
    uint16_t *narrow = ARENA_ARRAY(arena, uint16_t, (uint64_t)count);
    bfloat_convert_from_float(narrow, items, (uint64_t)count);
    return narrow;
}

static Data random_data(Arena *arena, const Shape *s) {
    const bool bfloats = s->bfloats;
    const int64_t out = s->images * s->out[0] * s->out[1];
    return (Data){.x = elements(arena, bfloats, s->images * s->in[0] * s->in[1] * s->depth),
                  .w = elements(arena, bfloats, s->channels * s->taps[0] * s->taps[1]),
                  .b = numbers(arena, s->channels),
                  .v = elements(arena, bfloats, s->channels * s->depth),
                  .c = numbers(arena, s->channels),
                  .u = elements(arena, bfloats, s->columns * s->channels),
                  .d = numbers(arena, s->columns),
                  .z = elements(arena, bfloats, out * s->columns)};
}

static void set_ints(KernelCase *c, const char *name, const int64_t *items, uint32_t count) {
    case_attr(c, name, (PlainAttr){.kind = PLAIN_INTS, .count = count, .v.ints = items});
}

static void set_window(KernelCase *c, const Shape *s) {
    set_ints(c, "strides", s->strides, 2);
    set_ints(c, "dilations", s->dilations, 2);
    set_ints(c, "pads", s->pads, 4);
    case_int(c, "group", s->channels);
}

static void set_activation(KernelCase *c, const char *name, const char *params, const char *value) {
    static const float bounds[] = {-0.25F, 0.5F};
    case_text(c, name, value);
    if (strcmp(value, "Clip") == 0)
        case_attr(c, params, (PlainAttr){.kind = PLAIN_FLOATS, .count = 2, .v.floats = bounds});
}

/* What is missing is NULL. */
static void take(KernelCase *c, bool bfloats, uint32_t rank, const int64_t *dims,
                 const void *data) {
    if (data)
        case_in(c, bfloats ? DTYPE_BFLOAT16 : DTYPE_FLOAT, rank, dims, data);
    else
        case_omit(c);
}

/* A ConvLast with its weights, bias and residual (or NULL); its case stays. */
typedef struct Step {
    bool bfloats;
    const int64_t *x, *w, *y;
    const void *data[4];
    const char *activation;
    const Shape *window; /* NULL: of single pixels */
} Step;

/* The row of bfloat16 stands first. */
static void begin(KernelCase *c, const char *op, bool bfloats) {
    case_begin_in(c, "demi.fused", op, 1);
    if (!bfloats) c->call.row++;
}

static const void *run_step(KernelCase *c, const Step *step) {
    static const bool constants[] = {false, true, true, false};
    const bool bfloats = step->bfloats;
    begin(c, "ConvLast", bfloats);
    take(c, bfloats, RANK, step->x, step->data[0]);
    take(c, bfloats, RANK, step->w, step->data[1]);
    take(c, false, 1, step->w, step->data[2]);
    take(c, bfloats, RANK, step->y, step->data[3]);
    case_out(c, bfloats ? DTYPE_BFLOAT16 : DTYPE_FLOAT, RANK, step->y);
    if (bfloats) c->call.constant = constants;
    if (step->window) set_window(c, step->window);
    set_activation(c, "activation", "activation_params", step->activation);
    if (!case_run(c)) fail_msg("%s", c->err.what);
    return c->outputs[0].data;
}

/* All dims of a shape. */
typedef struct Dims {
    int64_t x[RANK], e[RANK], f[RANK], y[RANK], w[RANK], v[RANK], u[RANK];
} Dims;

static Dims dims_of(const Shape *s) {
    return (Dims){.x = {s->images, s->in[0], s->in[1], s->depth},
                  .e = {s->images, s->in[0], s->in[1], s->channels},
                  .f = {s->images, s->out[0], s->out[1], s->channels},
                  .y = {s->images, s->out[0], s->out[1], s->behind ? s->columns : s->channels},
                  .w = {s->channels, 1, s->taps[0], s->taps[1]},
                  .v = {s->channels, s->depth, 1, 1},
                  .u = {s->columns, s->channels, 1, 1}};
}

static void begin_whole(KernelCase *c, const Shape *s, const Dims *d, const Data *data) {
    const bool bfloats = s->bfloats;
    begin(c, "SeparableConvLast", bfloats);
    take(c, bfloats, RANK, d->x, data->x);
    take(c, bfloats, RANK, d->w, data->w);
    take(c, false, 1, d->w, s->biases ? data->b : NULL);
    take(c, bfloats, RANK, d->v, s->before ? data->v : NULL);
    take(c, false, 1, d->v, s->before && s->biases ? data->c : NULL);
    take(c, bfloats, RANK, d->u, s->behind ? data->u : NULL);
    take(c, false, 1, d->u, s->behind && s->biases ? data->d : NULL);
    take(c, bfloats, RANK, d->y, s->residual ? data->z : NULL);
    case_out(c, bfloats ? DTYPE_BFLOAT16 : DTYPE_FLOAT, RANK, d->y);
    set_window(c, s);
    set_activation(c, "activation", "activation_params", s->act[1]);
    set_activation(c, "inner_activation", "inner_params", s->act[0]);
    set_activation(c, "outer_activation", "outer_params", s->act[2]);
}

static void compare(const Shape *s, const Dims *d, const Data *data, Workers *workers) {
    static const bool constants[8] = {false, true, true, true, true, true, true, false};
    KernelCase before, conv, behind, whole;
    const void *have = data->x;
    if (s->before)
        have = run_step(&before, &(Step){s->bfloats,
                                         d->x,
                                         d->v,
                                         d->e,
                                         {have, data->v, s->biases ? data->c : NULL, NULL},
                                         s->act[0],
                                         NULL});
    have = run_step(&conv, &(Step){s->bfloats,
                                   d->e,
                                   d->w,
                                   d->f,
                                   {have, data->w, s->biases ? data->b : NULL, NULL},
                                   s->act[1],
                                   s});
    if (s->behind)
        have = run_step(&behind, &(Step){s->bfloats,
                                         d->f,
                                         d->u,
                                         d->y,
                                         {have, data->u, s->biases ? data->d : NULL,
                                          s->residual ? data->z : NULL},
                                         s->act[2],
                                         NULL});
    begin_whole(&whole, s, d, data);
    whole.call.workers = workers;
    if (s->constant || s->bfloats) whole.call.constant = constants;
    case_choose(&whole, (uint64_t)below(1 << 16));
    if (!case_run(&whole)) fail_msg("%s", whole.err.what);
    assert_memory_equal(whole.outputs[0].data, have,
                        whole.outputs[0].count * kernel_element_size(whole.outputs[0].dtype));
    case_end(&whole);
    if (s->behind) case_end(&behind);
    case_end(&conv);
    if (s->before) case_end(&before);
}

static void try_same_bits(bool bfloats) {
    Arena threads;
    arena_init(&threads, &test_trap);
    Workers *workers = workers_new(&threads, 3);
    for (int i = 0; i < 300; i++) {
        Shape s = random_shape();
        s.bfloats = bfloats;
        if (bfloats) { /* words of two channels */
            s.channels += s.channels % 2;
            s.depth = s.before ? s.depth + s.depth % 2 : s.channels;
        }
        const Dims d = dims_of(&s);
        Arena arena;
        arena_init(&arena, &test_trap);
        const Data data = random_data(&arena, &s);
        compare(&s, &d, &data, i % 2 ? workers : NULL);
        arena_free(&arena);
    }
    arena_free(&threads);
}

TEST(test_same_bits) {
    try_same_bits(false);
}

TEST(test_same_bits_of_bfloats) {
    if (igemm_has_bfloats(isa_here())) try_same_bits(true);
}

/* Each dim of each operand, made another one. */
TEST(test_refused) {
    const Shape s = {.images = 2,
                     .depth = 3,
                     .channels = 5,
                     .columns = 7,
                     .in = {6, 6},
                     .out = {4, 4},
                     .taps = {3, 3},
                     .strides = {1, 1},
                     .dilations = {1, 1},
                     .before = true,
                     .behind = true,
                     .biases = true,
                     .residual = true,
                     .act = {"", "", ""}};
    const Dims right = dims_of(&s);
    const Data data = random_data(&test_arena, &s);
    for (uint32_t operand = 0; operand < 9; operand++)
        for (uint32_t axis = 0; axis < RANK; axis++) {
            KernelCase c;
            begin_whole(&c, &s, &right, &data);
            KernelTensor *t = operand < 8 ? &c.inputs[operand] : &c.outputs[0];
            if (axis >= t->rank) {
                case_end(&c);
                continue;
            }
            ((int64_t *)(uintptr_t)t->dims)[axis]--;
            assert_false(case_run(&c));
            assert_true(c.err.what[0]);
            case_end(&c);
        }
}
