// SPDX-License-Identifier: Apache-2.0
/* ConvLast, ConvTransposeLast, MaxPoolLast, AveragePoolLast against the operators whose channels come second, on the
 * same data turned: random windows, strides, dilations, pads, groups, sizes. */
#include "half.h"
#include "igemm.h"
#include "kernel_case_test.h"

#include <math.h>
#include <stdlib.h>

enum { RANK = 4 };

static uint32_t state = 1;
static int64_t random_below(int64_t end) {
    state = state * 1664525u + 1013904223u;
    return (int64_t)(((uint64_t)state * (uint64_t)end) >> 32);
}

typedef struct Shape {
    uint32_t spatial;
    int64_t images, groups, channels, filters; /* of a group */
    int64_t in[2], taps[2], strides[2], dilations[2], pads[4];
    bool bias, residual, same, ceil, count_pads, constant;
    const char *activation; /* or NULL */
    bool bfloats; /* the one with channels last is of bfloat16, and data are numbers of that */
} Shape;

static Shape random_shape(void) {
    Shape s = {.spatial = 1 + (uint32_t)random_below(2)};
    static const int64_t sizes[] = {1, 2, 3, 4, 7, 16, 17, 40};
    static const char *const activations[] = {NULL, NULL, "Relu", "HardSwish"};
    s.images = 1 + random_below(3);
    s.groups = random_below(3) ? 1 : 1 + random_below(20);
    s.channels = random_below(4) ? sizes[random_below(8)] : 1;
    s.filters = random_below(4) ? sizes[random_below(8)] : 1;
    s.same = random_below(6) == 0;
    for (uint32_t i = 0; i < s.spatial; i++) {
        s.taps[i] = random_below(4) ? 1 + random_below(4) : 5 + 2 * random_below(3);
        s.strides[i] = 1 + random_below(3);
        s.dilations[i] = 1 + random_below(2);
        s.pads[i] = random_below(s.taps[i] + 1);
        s.pads[i + s.spatial] = random_below(s.taps[i] + 1);
        s.in[i] = (s.taps[i] - 1) * s.dilations[i] + 1 + random_below(14);
    }
    s.bias = random_below(2);
    s.residual = random_below(3) == 0;
    s.activation = activations[random_below(4)];
    s.ceil = random_below(3) == 0;
    s.count_pads = random_below(2);
    s.constant = random_below(2);
    return s;
}

static int64_t out_size(const Shape *s, uint32_t i, bool ceil) {
    if (s->same) return (s->in[i] + s->strides[i] - 1) / s->strides[i];
    const int64_t room =
        s->in[i] + s->pads[i] + s->pads[i + s->spatial] - (s->taps[i] - 1) * s->dilations[i] - 1;
    int64_t steps = room / s->strides[i] + (ceil && room % s->strides[i] != 0);
    if (ceil && steps * s->strides[i] >= s->in[i] + s->pads[i]) steps--;
    return steps + 1;
}

/* (N, C, spatial …) or (N, spatial …, C) */
static void dims_of(const Shape *s, int64_t channels, const int64_t *spatial, bool last,
                    int64_t *dims) {
    dims[0] = s->images;
    dims[last ? s->spatial + 1 : 1] = channels;
    dims[last ? 1 : 2] = spatial[0];
    if (s->spatial > 1) dims[last ? 2 : 3] = spatial[1];
}

static void turn(const float *from, float *to, int64_t images, int64_t channels, int64_t pixels) {
    for (int64_t n = 0; n < images; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t p = 0; p < pixels; p++)
                to[(n * pixels + p) * channels + c] = from[(n * channels + c) * pixels + p];
}

static void set_ints(KernelCase *c, const char *name, const int64_t *items, uint32_t count) {
    case_attr(c, name, (PlainAttr){.kind = PLAIN_INTS, .count = count, .v.ints = items});
}

static void set_window(KernelCase *c, const Shape *s) {
    set_ints(c, "kernel_shape", s->taps, s->spatial);
    set_ints(c, "strides", s->strides, s->spatial);
    set_ints(c, "dilations", s->dilations, s->spatial);
    if (s->same)
        case_text(c, "auto_pad", "SAME_UPPER");
    else
        set_ints(c, "pads", s->pads, 2 * s->spatial);
}

/* Of few bits, which bfloat16 has, too. */
static float *random_data(Arena *arena, int64_t count, bool bfloats) {
    float *items = ARENA_ARRAY(arena, float, (uint64_t)count + 1);
    for (int64_t i = 0; i < count; i++)
        items[i] = bfloats ? (float)random_below(1 << 8) / 128 - 1
                           : (float)random_below(1 << 16) / 32768 - 1;
    return items;
}

/* Runs the operator with the channels second (domain "") or last, and gives its result. */
typedef struct Run {
    KernelCase c;
    int64_t x[RANK], y[RANK], w[RANK];
    bool constant[RANK];
} Run;

/* An operand of the type. */
static void give(KernelCase *c, bool bfloats, uint32_t rank, const int64_t *dims,
                 const float *data) {
    case_in(c, bfloats ? DTYPE_BFLOAT16 : DTYPE_FLOAT, rank, dims, bfloats ? NULL : data);
    const KernelTensor *made = &c->inputs[c->call.input_count - 1];
    if (bfloats) bfloat_convert_from_float(made->data, data, made->count);
}

static float item(const KernelTensor *tensor, uint64_t i) {
    if (tensor->dtype == DTYPE_FLOAT) return ((const float *)tensor->data)[i];
    return bfloat_to_float(((const uint16_t *)tensor->data)[i]);
}

/* How far results may be apart: those that see `strange`, too, which are far from what others are. */
typedef struct Slack {
    float slack, strange;
} Slack;

static void compare(const Shape *s, const KernelTensor *second, const KernelTensor *last,
                    int64_t channels, Slack allowed) {
    const float slack = allowed.slack;
    const float sees = isfinite(allowed.strange) ? fabsf(allowed.strange) * 1e-6f : 0;
    const float relative = s->bfloats ? 1.0f / 256 : slack / 100;
    const int64_t pixels = (int64_t)second->count / s->images / channels;
    float *turned = malloc(second->count * sizeof *turned + 1);
    assert_int_equal(second->count, last->count);
    turn(second->data, turned, s->images, channels, pixels);
    for (uint64_t i = 0; i < last->count; i++) {
        const float got = item(last, i);
        const float most = fabsf(turned[i]) > 1e4f && sees > slack ? sees : slack;
        if (!(fabsf(turned[i] - got) <= most) &&
            !(fabsf(turned[i] - got) <= relative * fabsf(got)) && !(turned[i] == got) &&
            !(isnan(turned[i]) && isnan(got)))
            fail_msg("element %llu: %g, expected %g", (unsigned long long)i, (double)got,
                     (double)turned[i]);
    }
    free(turned);
}

/* For those that go another way than by their rule: how many went each. */
enum { CHOICES_MOST = 16 };
static unsigned chosen[CHOICES_MOST];
static Workers *workers;

static void choose(Run *run) {
    run->c.call.workers = workers;
    if (random_below(4)) case_choose(&run->c, (uint64_t)random_below(1 << 16));
}

static void run_conv(Run *run, const Shape *s, bool last, float *const *data) {
    const int64_t channels = s->groups * s->channels, filters = s->groups * s->filters;
    int64_t out[2], pixels = 1, results = 1;
    for (uint32_t i = 0; i < s->spatial; i++) {
        out[i] = out_size(s, i, false);
        pixels *= s->in[i];
        results *= out[i];
    }
    memset(run, 0, sizeof *run);
    case_begin_in(&run->c, "demi.fused", last ? "ConvLast" : "Conv", 1);
    run->c.call.provider = KERNEL_PROVIDER_OWN;
    dims_of(s, channels, s->in, last, run->x);
    dims_of(s, filters, out, last, run->y);
    run->w[0] = filters;
    run->w[1] = s->channels;
    for (uint32_t i = 0; i < s->spatial; i++) run->w[2 + i] = s->taps[i];
    const bool bfloats = last && s->bfloats;
    float *const turned[] = {malloc((size_t)(s->images * channels * pixels + 1) * sizeof(float)),
                             malloc((size_t)(s->images * filters * results + 1) * sizeof(float))};
    if (last) turn(data[0], turned[0], s->images, channels, pixels);
    if (last) turn(data[3], turned[1], s->images, filters, results);
    give(&run->c, bfloats, s->spatial + 2, run->x, last ? turned[0] : data[0]);
    give(&run->c, bfloats, s->spatial + 2, run->w, data[1]);
    if (s->bias)
        give(&run->c, bfloats && random_below(2), 1, run->w, data[2]);
    else
        case_omit(&run->c);
    if (s->residual) give(&run->c, bfloats, s->spatial + 2, run->y, last ? turned[1] : data[3]);
    case_out(&run->c, bfloats ? DTYPE_BFLOAT16 : DTYPE_FLOAT, s->spatial + 2, run->y);
    free(turned[0]);
    free(turned[1]);
    run->constant[1] = s->constant;
    run->c.call.constant = run->constant;
    set_window(&run->c, s);
    case_int(&run->c, "group", s->groups);
    if (s->activation) case_text(&run->c, "activation", s->activation);
    if (last && !bfloats) run->c.call.row++; /* behind that of bfloat16 */
    if (last) choose(run);
    if (!case_run(&run->c)) fail_msg("%s", run->c.err.what);
    chosen[run->c.call.choice]++;
}

/* Both operators on the same random data; `strange` is one of its elements where it is not 0. */
static void compare_convs(const Shape *s, Slack allowed) {
    static Run second, last;
    Arena arena;
    arena_init(&arena, &test_trap);
    const int64_t taps = s->taps[0] * (s->spatial > 1 ? s->taps[1] : 1);
    const int64_t pixels = s->in[0] * (s->spatial > 1 ? s->in[1] : 1);
    const int64_t inputs = s->images * s->groups * s->channels * pixels;
    const int64_t most = s->images * s->groups * s->filters * 32 * 32 * 4;
    float *const data[] = {
        random_data(&arena, inputs, s->bfloats),
        random_data(&arena, s->groups * s->filters * s->channels * taps, s->bfloats),
        random_data(&arena, s->groups * s->filters, s->bfloats),
        random_data(&arena, most, s->bfloats)};
    if (allowed.strange != 0) data[0][random_below(inputs)] = allowed.strange;
    run_conv(&second, s, false, data);
    run_conv(&last, s, true, data);
    compare(s, &second.c.outputs[0], &last.c.outputs[0], s->groups * s->filters, allowed);
    case_end(&second.c);
    case_end(&last.c);
    arena_free(&arena);
}

SET_UP {
    workers = workers_new(&test_arena, 2);
}

TEST(test_convolutions) {
    for (int i = 0; i < 600; i += case_step()) {
        const Shape s = random_shape();
        const int64_t taps = s.taps[0] * (s.spatial > 1 ? s.taps[1] : 1);
        compare_convs(&s, (Slack){2e-6f * (float)(s.channels * taps + 4), 0});
    }
}

/* Depthwise: taps of neighboring outputs are shared where they lie side by side. */
TEST(test_depthwise) {
    for (int i = 0; i < 300; i += case_step()) {
        Shape s = random_shape();
        s.groups = 2 + random_below(70);
        s.channels = s.filters = 1;
        for (uint32_t k = 0; k < 2; k++) {
            s.taps[k] = 3 + 2 * random_below(2);
            s.dilations[k] = 1 + (random_below(6) == 0);
            s.pads[k] = random_below(s.taps[k] + 1);
            s.pads[k + 2] = random_below(s.taps[k] + 1);
            s.in[k] = (s.taps[k] - 1) * s.dilations[k] + 1 + random_below(20);
        }
        compare_convs(&s, (Slack){2e-6f * 29, 0});
    }
}

/* Taps of squares and lines, of many channels, go by tiles, where odd sizes, pads and epilogues have
 * edges of their own; what is not finite in a tile is not spread over it. */
TEST(test_tiles) {
    static const float strange[] = {NAN, INFINITY, -INFINITY, 3e38F, 1e9F};
    static const struct {
        uint32_t spatial;
        int64_t taps[2];
    } forms[] = {{2, {3, 3}}, {1, {5, 1}}, {1, {3, 1}}, {2, {1, 5}},
                 {2, {3, 1}}, {2, {1, 3}}, {2, {5, 1}}};
    for (int i = 0; i < 960; i += case_step()) {
        const int form = i % 2 ? 0 : 1 + i / 8 % 6;
        Shape s = {.images = 1 + random_below(2), .groups = 1, .constant = true};
        s.spatial = forms[form].spatial;
        s.channels = (i / 2 % 2 ? 1 : 32) + random_below(40); /* few: by choice alone */
        s.filters = (i / 2 % 2 ? 1 : 32) + random_below(100);
        for (uint32_t k = 0; k < 2; k++) {
            const bool single = forms[form].taps[k] == 1;
            s.taps[k] = forms[form].taps[k];
            s.strides[k] = s.dilations[k] = 1;
            s.pads[k] = single ? 0 : random_below(k ? 4 : 3);
            s.pads[k + 2] = single ? 0 : random_below(3);
            s.in[k] = s.taps[k] + random_below(20);
        }
        s.bias = random_below(2);
        s.residual = random_below(2);
        s.activation = random_below(2) ? "Relu" : NULL;
        const bool is_strange = i / 2 % 4 == 0;
        compare_convs(
            &s, (Slack){1e-6f * (float)(s.channels * 9 + 4), is_strange ? strange[i / 8 % 5] : 0});
    }
}

/* Words of two channels, in rows of taps and tap by tap, in groups and by channel. */
TEST(test_bfloats) {
    for (int i = 0; i < 900 && igemm_has_bfloats(isa_here()); i++) {
        Shape s = random_shape();
        s.bfloats = true;
        s.channels = 2 * (1 + random_below(i % 3 ? 12 : 60));
        if (i % 4 == 0) {
            s.groups = 2 + random_below(70);
            s.channels = s.filters = 1;
            s.constant = true;
        } else if (i % 4 == 1) { /* rows of taps, of an odd number, too */
            s.groups = 1;
            s.channels = random_below(3) ? 1 + random_below(9) : 1;
            s.taps[s.spatial - 1] = 2 + random_below(3);
            s.in[s.spatial - 1] += 4;
            s.dilations[s.spatial - 1] = 1;
        } else if (s.groups > 1) {
            s.groups = 1 + random_below(3);
        }
        compare_convs(&s, (Slack){1e-4f, i % 8 == 1 ? NAN : 0}); /* those alone that see it */
    }
}

/* All ways were gone, behind the tests above. */
TEST(test_choices) {
    size_t count;
    const KernelRow *row = kernel_find("demi.fused", "ConvLast", 1, &count);
    row++; /* behind that of bfloat16 */
    assert_true(row->prepare->choices < CHOICES_MOST);
    for (uint32_t i = 0; i <= row->prepare->choices; i++) {
        if (chosen[i] < 5) fail_msg("choice %u was taken %u times", i, chosen[i]);
    }
}

static void begin_pool(Run *run, const Shape *s, Dtype dtype, bool last, bool mean) {
    const int64_t channels = s->groups * s->channels;
    int64_t out[2];
    for (uint32_t i = 0; i < s->spatial; i++) out[i] = out_size(s, i, s->ceil);
    memset(run, 0, sizeof *run);
    const char *name = mean ? "AveragePool" : "MaxPool";
    const char *name_last = mean ? "AveragePoolLast" : "MaxPoolLast";
    case_begin_in(&run->c, last ? "demi.fused" : "", last ? name_last : name, last ? 1 : 19);
    dims_of(s, channels, s->in, last, run->x);
    dims_of(s, channels, out, last, run->y);
    case_in(&run->c, dtype, s->spatial + 2, run->x, NULL);
    case_out(&run->c, dtype, s->spatial + 2, run->y);
    set_window(&run->c, s);
    if (s->ceil) case_int(&run->c, "ceil_mode", 1);
    if (mean && s->count_pads) case_int(&run->c, "count_include_pad", 1);
}

static Shape pool_shape(void) {
    Shape s = random_shape();
    s.ceil = s.ceil && !s.same;
    for (uint32_t k = 0; k < 2 * s.spatial; k++) /* pads are less than a window */
        if (s.pads[k] >= s.taps[k % s.spatial]) s.pads[k] = s.taps[k % s.spatial] - 1;
    return s;
}

TEST(test_pools) {
    for (int i = 0; i < 600; i += case_step()) {
        const Shape s = pool_shape();
        static Run second, last;
        begin_pool(&second, &s, DTYPE_FLOAT, false, i & 1);
        begin_pool(&last, &s, DTYPE_FLOAT, true, i & 1);
        KernelTensor *x = &second.c.inputs[0];
        for (uint64_t k = 0; k < x->count; k++)
            ((float *)x->data)[k] = k % 97 == 5 ? NAN : (float)random_below(1 << 12) / 64 - 32;
        const int64_t channels = s.groups * s.channels;
        turn(x->data, last.c.inputs[0].data, s.images, channels,
             (int64_t)x->count / s.images / channels);
        if (!case_run(&second.c)) fail_msg("%s", second.c.err.what);
        if (!case_run(&last.c)) fail_msg("%s", last.c.err.what);
        float *const results[] = {second.c.outputs[0].data, last.c.outputs[0].data};
        for (int which = 0; which < 2; which++) /* NaN is NaN */
            for (uint64_t k = 0; k < second.c.outputs[0].count; k++)
                if (isnan(results[which][k])) results[which][k] = 12345;
        compare(&s, &second.c.outputs[0], &last.c.outputs[0], channels, (Slack){1e-5f * 32, 0});
        case_end(&second.c);
        case_end(&last.c);
    }
}

/* Any 16 bits: what comes out is what the same floats give. */
TEST(test_pools_of_halves) {
    for (int i = 0; i < 400; i += case_step()) {
        const Shape s = pool_shape();
        const bool bfloat = i & 1;
        static Run wide, narrow;
        begin_pool(&wide, &s, DTYPE_FLOAT, true, false);
        begin_pool(&narrow, &s, bfloat ? DTYPE_BFLOAT16 : DTYPE_FLOAT16, true, false);
        const KernelTensor *x = &narrow.c.inputs[0], *y = &narrow.c.outputs[0];
        for (uint64_t k = 0; k < x->count; k++) {
            static const uint16_t ends[] = {0x8000, 0,      0xff80, 0x7f80,
                                            0xfc00, 0x7c00, 0xffff, 0x7fff};
            const uint16_t bits = (uint16_t)(k % 7 ? random_below(1 << 16) : ends[random_below(8)]);
            ((uint16_t *)x->data)[k] = bits;
            ((float *)wide.c.inputs[0].data)[k] =
                bfloat ? bfloat_to_float(bits) : half_to_float(bits);
        }
        if (!case_run(&wide.c)) fail_msg("%s", wide.c.err.what);
        if (!case_run(&narrow.c)) fail_msg("%s", narrow.c.err.what);
        for (uint64_t k = 0; k < y->count; k++) {
            const uint16_t bits = ((const uint16_t *)y->data)[k];
            const float got = bfloat ? bfloat_to_float(bits) : half_to_float(bits);
            const float want = ((const float *)wide.c.outputs[0].data)[k];
            if (isnan(want) ? !isnan(got) : memcmp(&got, &want, sizeof got) != 0)
                fail_msg("pool %d: %a for %a", i, (double)got, (double)want);
        }
        case_end(&wide.c);
        case_end(&narrow.c);
    }
}

/* Of three spatial axes there is none. */
TEST(test_rank) {
    KernelCase c;
    case_begin_in(&c, "demi.fused", "ConvLast", 1);
    case_in(&c, DTYPE_FLOAT, 5, CASE_DIMS(1, 2, 2, 2, 3), NULL);
    case_in(&c, DTYPE_FLOAT, 5, CASE_DIMS(4, 3, 1, 1, 1), NULL);
    case_out(&c, DTYPE_FLOAT, 5, CASE_DIMS(1, 2, 2, 2, 4));
    assert_false(case_run(&c));
    assert_string_equal(c.err.what, "data of rank 5");
    case_end(&c);
}

/* ---- transposed convolutions ----------------------------------------------------------------- */

static int64_t transposed_size(const Shape *s, uint32_t i, int64_t more) {
    return s->strides[i] * (s->in[i] - 1) + more + (s->taps[i] - 1) * s->dilations[i] + 1 -
           s->pads[i] - s->pads[i + s->spatial];
}

/* data: X, W, B. `more`: the output's padding. */
static void run_transposed(Run *run, const Shape *s, bool last, const int64_t *more,
                           float *const *data) {
    const bool bfloats = last && s->bfloats;
    int64_t out[2], pixels = 1;
    for (uint32_t i = 0; i < s->spatial; i++) {
        out[i] = transposed_size(s, i, more[i]);
        pixels *= s->in[i];
    }
    memset(run, 0, sizeof *run);
    case_begin_in(&run->c, last ? "demi.fused" : "", last ? "ConvTransposeLast" : "ConvTranspose",
                  last ? 1 : 11);
    run->c.call.provider = KERNEL_PROVIDER_OWN;
    dims_of(s, s->channels, s->in, last, run->x);
    dims_of(s, s->filters, out, last, run->y);
    run->w[0] = s->channels;
    run->w[1] = s->filters;
    for (uint32_t i = 0; i < s->spatial; i++) run->w[2 + i] = s->taps[i];
    float *turned = malloc((size_t)(s->images * s->channels * pixels + 1) * sizeof(float));
    assert_non_null(turned);
    turn(data[0], turned, s->images, s->channels, pixels);
    give(&run->c, bfloats, s->spatial + 2, run->x, last ? turned : data[0]);
    give(&run->c, bfloats, s->spatial + 2, run->w, data[1]);
    if (s->bias) give(&run->c, bfloats, 1, &run->w[1], data[2]);
    case_out(&run->c, bfloats ? DTYPE_BFLOAT16 : DTYPE_FLOAT, s->spatial + 2, run->y);
    free(turned);
    run->constant[1] = s->constant;
    run->c.call.constant = run->constant;
    set_window(&run->c, s);
    set_ints(&run->c, "output_padding", more, s->spatial);
    if (last && !bfloats) run->c.call.row++; /* behind that of bfloat16 */
    run->c.call.workers = workers;
    if (!case_run(&run->c)) fail_msg("%s", run->c.err.what);
}

/* `strange` is one of x's elements where it is not 0. */
static void compare_transposed(Shape *s, float strange) {
    static Run second, last;
    Arena arena;
    arena_init(&arena, &test_trap);
    int64_t more[2];
    for (uint32_t i = 0; i < s->spatial; i++) {
        more[i] = random_below(3) ? 0 : random_below(s->strides[i]);
        while (transposed_size(s, i, more[i]) < 1) s->in[i]++;
    }
    const int64_t taps = s->taps[0] * (s->spatial > 1 ? s->taps[1] : 1);
    const int64_t pixels = s->in[0] * (s->spatial > 1 ? s->in[1] : 1);
    float *const data[] = {random_data(&arena, s->images * s->channels * pixels, s->bfloats),
                           random_data(&arena, s->channels * s->filters * taps, s->bfloats),
                           random_data(&arena, s->filters, s->bfloats)};
    if (strange != 0) data[0][random_below(s->images * s->channels * pixels)] = strange;
    run_transposed(&second, s, false, more, data);
    run_transposed(&last, s, true, more, data);
    const Slack slack = {2e-6f * (float)(s->channels * taps + 4), 0};
    compare(s, &second.c.outputs[0], &last.c.outputs[0], s->filters, slack);
    case_end(&second.c);
    case_end(&last.c);
    arena_free(&arena);
}

/* Of any window; and of such whose inputs make outputs of their own, in lines that are longer than a
 * block of rows, too. */
TEST(test_transposed) {
    const bool has_bfloats = igemm_has_bfloats(isa_here());
    for (int i = 0; i < 600; i += case_step()) {
        Shape s = random_shape();
        s.groups = 1;
        s.same = false;
        s.bfloats = has_bfloats && i % 3 == 0;
        if (s.bfloats) s.channels += s.channels % 2;
        for (uint32_t k = 0; k < s.spatial; k++) s.in[k] = 1 + random_below(14);
        if (i % 4 == 1) {
            memset(s.pads, 0, sizeof s.pads);
            for (uint32_t k = 0; k < s.spatial; k++) {
                s.taps[k] = s.strides[k];
                s.dilations[k] = 1;
                if (s.strides[k] > 1)
                    s.pads[k] = random_below(4) == 0; /* which more may make up for */
            }
            if (random_below(8) == 0) s.in[s.spatial - 1] = 90 + random_below(20);
        }
        compare_transposed(&s, random_below(4) ? 0 : INFINITY);
    }
}
