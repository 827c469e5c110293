// SPDX-License-Identifier: Apache-2.0
/* QAveragePool, QConvTranspose (both also with the channels last) and QResize against their
 * definitions in double, element by element: bytes to the nearest, either where two are as near;
 * random windows, padding, strides, zero points and types; products with every instruction set that this
 * processor has. */
#include "byte_case_test.h"

static const Dtype kinds[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_FLOAT};

static void check(const KernelTensor *y, uint64_t i, double v, int64_t zero) {
    check_near(y, i, v, zero, &(Bound){1e-5, 1e-4, 5e-4});
}

static void set_ints(KernelCase *c, const char *name, const int64_t *items, uint32_t count) {
    int64_t *kept = arena_copy(&c->arena, items, count * sizeof *items);
    case_attr(c, name, (PlainAttr){.kind = PLAIN_INTS, .count = count, .v.ints = kept});
}

/* Data of two spatial axes, of which the first may be missing. */
typedef struct Shape {
    bool last, one_axis;
    int64_t images, channels, in[2], out[2], taps[2], strides[2], dilations[2], begin[2], end[2];
} Shape;

/* The dims of data; their number. */
static uint32_t dims_of(const Shape *s, int64_t channels, const int64_t size[2], int64_t dims[4]) {
    uint32_t rank = 0;
    dims[rank++] = s->images;
    if (!s->last) dims[rank++] = channels;
    if (!s->one_axis) dims[rank++] = size[0];
    dims[rank++] = size[1];
    if (s->last) dims[rank++] = channels;
    return rank;
}

/* Where element [image, channel, row, column] is. */
static uint64_t place(const Shape *s, int64_t channels, const int64_t size[2],
                      const int64_t at[4]) {
    const int64_t pixel = at[2] * size[1] + at[3], pixels = size[0] * size[1];
    return (uint64_t)(s->last ? (at[0] * pixels + pixel) * channels + at[1]
                              : (at[0] * channels + at[1]) * pixels + pixel);
}

static bool next_place(int64_t at[4], const int64_t sizes[4]) {
    for (int i = 4; i-- > 0; at[i] = 0)
        if (++at[i] < sizes[i]) return true;
    return false;
}

static void set_window(KernelCase *c, const Shape *s) {
    const uint32_t first = s->one_axis, rank = 2 - first;
    int64_t pads[4];
    for (uint32_t i = 0; i < rank; i++) {
        pads[i] = s->begin[i + first];
        pads[i + rank] = s->end[i + first];
    }
    set_ints(c, "kernel_shape", s->taps + first, rank);
    set_ints(c, "strides", s->strides + first, rank);
    set_ints(c, "dilations", s->dilations + first, rank);
    set_ints(c, "pads", pads, 2 * rank);
}

static Shape random_window(int64_t taps_most) {
    Shape s = {.last = random_below(2), .one_axis = random_below(4) == 0};
    s.images = 1 + random_below(2);
    s.channels = 1 + random_below(random_below(2) ? 5 : 70);
    for (int i = 0; i < 2; i++) {
        const bool none = i == 0 && s.one_axis;
        s.taps[i] = none ? 1 : 1 + random_below(taps_most);
        s.strides[i] = none ? 1 : 1 + random_below(3);
        s.dilations[i] = none ? 1 : 1 + random_below(3);
        s.begin[i] = none ? 0 : random_below(s.taps[i]);
        s.end[i] = none ? 0 : random_below(s.taps[i]);
        s.in[i] = none ? 1 : 1 + random_below(14);
    }
    return s;
}

/* ---- pools ----------------------------------------------------------------------------------- */

typedef struct Mean {
    int64_t sum, count, counted; /* elements, and with padding */
} Mean;

static Mean mean_at(const Shape *s, const KernelTensor *x, const int64_t at[4], int64_t zero) {
    Mean m = {0};
    for (int64_t a = 0; a < s->taps[0]; a++)
        for (int64_t b = 0; b < s->taps[1]; b++) {
            const int64_t i = at[2] * s->strides[0] + a * s->dilations[0] - s->begin[0];
            const int64_t j = at[3] * s->strides[1] + b * s->dilations[1] - s->begin[1];
            m.counted += i < s->in[0] + s->end[0] && j < s->in[1] + s->end[1];
            if (i < 0 || j < 0 || i >= s->in[0] || j >= s->in[1]) continue;
            const int64_t from[] = {at[0], at[1], i, j};
            m.sum += byte_of(x, place(s, s->channels, s->in, from)) - zero;
            m.count++;
        }
    return m;
}

static void run_pool(Shape *s, bool count_pads) {
    const Dtype y = kinds[random_below(2)];
    const float factor = 0.25f * (float)(1 + random_below(9));
    int64_t dims[4], at[4] = {0};
    static KernelCase c;
    for (int i = 0; i < 2; i++) {
        const int64_t room =
            s->in[i] + s->begin[i] + s->end[i] - (s->taps[i] - 1) * s->dilations[i];
        if (room < 1) return;
        /* the last window may reach past the padding, as ceil_mode has it */
        s->out[i] = (room - 1) / s->strides[i] + 1 + (random_below(3) == 0 && i == 1);
    }
    case_begin_in(&c, "demi.fused", s->last ? "QAveragePoolLast" : "QAveragePool", 1);
    case_in(&c, kinds[random_below(2)], dims_of(s, s->channels, s->in, dims), dims, NULL);
    random_bytes(&c.inputs[0]);
    const int64_t x_zero = given_zero(&c, c.inputs[0].dtype), zero = given_zero(&c, y);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &factor);
    int64_t results[4];
    case_out(&c, y, dims_of(s, s->channels, s->out, results), results);
    set_window(&c, s);
    case_int(&c, "count_include_pad", count_pads);
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    const int64_t sizes[] = {s->images, s->channels, s->out[0], s->out[1]};
    do {
        const Mean m = mean_at(s, &c.inputs[0], at, x_zero);
        const int64_t by = count_pads ? m.counted : m.count;
        check(&c.outputs[0], place(s, s->channels, s->out, at),
              m.count ? (double)factor * (double)m.sum / (double)by : 0, zero);
    } while (next_place(at, sizes));
    case_end(&c);
}

TEST(test_pools) {
    for (int i = 0; i < 400; i++) {
        Shape s = random_window(i % 50 == 0 ? 40 : 4); /* so many that 16 bits hold no sum */
        if (i % 50 == 0) s.one_axis = false;
        if (i % 50 == 0) s.in[0] = s.in[1] = 40;
        if (i % 50 == 0) s.dilations[0] = s.dilations[1] = 1;
        run_pool(&s, random_below(2));
    }
}

/* ---- transposed convolutions ----------------------------------------------------------------- */

/* Adds what each input gives to each output; sums [places of the result]. */
static void scatter(const Shape *s, const KernelCase *c, int64_t filters, int64_t zero,
                    int64_t *sums) {
    const KernelTensor *x = &c->inputs[0], *w = &c->inputs[1];
    const int64_t taps[] = {s->channels, filters, s->taps[0], s->taps[1]};
    const int64_t sizes[] = {s->images, s->channels, s->in[0], s->in[1]};
    int64_t at[4] = {0};
    do {
        const int64_t item = byte_of(x, place(s, s->channels, s->in, at)) - zero;
        int64_t tap[4] = {at[1]};
        do {
            const int64_t i = at[2] * s->strides[0] + tap[2] * s->dilations[0] - s->begin[0];
            const int64_t j = at[3] * s->strides[1] + tap[3] * s->dilations[1] - s->begin[1];
            const int64_t to[] = {at[0], tap[1], i, j};
            const uint64_t by =
                (uint64_t)(((tap[0] * filters + tap[1]) * taps[2] + tap[2]) * taps[3] + tap[3]);
            if (i >= 0 && j >= 0 && i < s->out[0] && j < s->out[1])
                sums[place(s, filters, s->out, to)] += item * byte_of(w, by);
        } while (next_place(tap, taps) && tap[0] == at[1]);
    } while (next_place(at, sizes));
}

static void run_transposed(Shape *s, int64_t filters, IsaSet cpu) {
    const Dtype y = kinds[random_below(3)];
    const bool constant[8] = {false, random_below(2)}, bounded = random_below(2);
    const bool by_filter = random_below(2);
    const float bounds[] = {-40, 55};
    float factors[64], shifts[64];
    int64_t dims[4], weights[4] = {s->channels, filters, s->taps[0], s->taps[1]}, results[4];
    int64_t at[4] = {0};
    static KernelCase c;
    for (int i = 0; i < 2; i++) {
        s->out[i] = (s->in[i] - 1) * s->strides[i] + (s->taps[i] - 1) * s->dilations[i] + 1 -
                    s->begin[i] - s->end[i] + (s->strides[i] > 1 ? random_below(s->strides[i]) : 0);
        if (s->out[i] < 1) return;
    }
    for (int i = 0; i < 64; i++) {
        factors[i] = (float)(1 + random_below(50)) * 0.0002f;
        shifts[i] = (float)(random_below(41) - 20) * 1.7f;
    }
    case_begin_in(&c, "demi.fused", s->last ? "QConvTransposeLast" : "QConvTranspose", 1);
    case_in(&c, kinds[random_below(2)], dims_of(s, s->channels, s->in, dims), dims, NULL);
    if (s->one_axis) weights[2] = s->taps[1];
    case_in(&c, DTYPE_INT8, s->one_axis ? 3 : 4, weights, NULL);
    random_bytes(&c.inputs[0]);
    random_bytes(&c.inputs[1]);
    const int64_t x_zero = given_zero(&c, c.inputs[0].dtype), zero = given_zero(&c, y);
    case_in(&c, DTYPE_FLOAT, by_filter, &filters, factors);
    case_in(&c, DTYPE_FLOAT, 1, &filters, shifts);
    for (int i = 0; bounded && i < 2; i++) case_in(&c, DTYPE_FLOAT, 0, NULL, &bounds[i]);
    case_out(&c, y, dims_of(s, filters, s->out, results), results);
    set_window(&c, s);
    c.call.constant = constant;
    c.call.cpu = &cpu;
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    int64_t *sums = ARENA_ARRAY(&c.arena, int64_t, c.outputs[0].count);
    scatter(s, &c, filters, x_zero, sums);
    const int64_t sizes[] = {s->images, filters, s->out[0], s->out[1]};
    do {
        const uint64_t k = place(s, filters, s->out, at);
        double v = (double)factors[by_filter ? at[1] : 0] * (double)sums[k] + (double)shifts[at[1]];
        if (bounded) v = fmin(fmax(v, -40), 55);
        check(&c.outputs[0], k, v, zero);
    } while (next_place(at, sizes));
    case_end(&c);
}

TEST(test_transposed) {
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int i = 0; i < 150 && isa_runs(isa, isa_here()); i++) {
            Shape s = random_window(5);
            s.in[0] = s.one_axis ? 1 : 1 + s.in[0] / 2;
            run_transposed(&s, 1 + random_below(random_below(2) ? 5 : 40), isa_needs(isa));
        }
}

/* ---- interpolation --------------------------------------------------------------------------- */

static double coordinate(int how, int64_t o, int64_t in, int64_t out) {
    const double x = (double)o, scale = (double)out / (double)in;
    switch (how) {
    case 0: return (x + 0.5) / scale - 0.5;
    case 1: return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    case 2: return out == 1 ? 0 : x * (double)(in - 1) / (double)(out - 1);
    default: return x / scale;
    }
}

/* Of the two elements beside it, or the one at the end. */
static double between(int how, int64_t o, int64_t in, int64_t out, int64_t sides[2]) {
    const double x = in == out ? (double)o : coordinate(how, o, in, out), low = floor(x);
    for (int k = 0; k < 2; k++) {
        sides[k] = (int64_t)low + k;
        if (sides[k] < 0) sides[k] = 0;
        if (sides[k] > in - 1) sides[k] = in - 1;
    }
    return x - low;
}

static void run_resize(Shape *s, int how) {
    static const char *const hows[] = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                       "asymmetric"};
    const Dtype y = kinds[random_below(2)];
    const float factor = 0.25f * (float)(1 + random_below(9));
    int64_t dims[4], sizes[4], at[4] = {0};
    static KernelCase c;
    case_begin_in(&c, "demi.fused", "QResize", 1);
    const uint32_t rank = dims_of(s, s->channels, s->in, dims);
    const int64_t count = rank;
    case_in(&c, kinds[random_below(2)], rank, dims, NULL);
    random_bytes(&c.inputs[0]);
    const int64_t x_zero = given_zero(&c, c.inputs[0].dtype);
    dims_of(s, s->channels, s->out, sizes);
    case_omit(&c);
    case_in(&c, DTYPE_INT64, 1, &count, sizes);
    const int64_t zero = given_zero(&c, y);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &factor);
    c.outputs[c.call.output_count++] = (KernelTensor){.present = true, .dtype = y};
    case_text(&c, "mode", "linear");
    case_text(&c, "coordinate_transformation_mode", hows[how]);
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    const int64_t all[] = {s->images, s->channels, s->out[0], s->out[1]};
    assert_int_equal(c.outputs[0].count, all[0] * all[1] * all[2] * all[3]);
    do {
        int64_t rows[2], columns[2];
        const double down = between(how, at[2], s->in[0], s->out[0], rows);
        const double along = between(how, at[3], s->in[1], s->out[1], columns);
        double v = 0;
        for (int k = 0; k < 4; k++) {
            const int64_t from[] = {at[0], at[1], rows[k / 2], columns[k % 2]};
            v += (k / 2 ? down : 1 - down) * (k % 2 ? along : 1 - along) *
                 (double)(byte_of(&c.inputs[0], place(s, s->channels, s->in, from)) - x_zero);
        }
        check(&c.outputs[0], place(s, s->channels, s->out, at), v * (double)factor, zero);
    } while (next_place(at, all));
    case_end(&c);
}

TEST(test_resize) {
    for (int i = 0; i < 300; i++) {
        Shape s = random_window(1);
        for (int k = 0; k < 2; k++) s.out[k] = i % 5 == k ? s.in[k] : 1 + random_below(30);
        if (s.one_axis) s.out[0] = 1;
        run_resize(&s, i % 4);
    }
}

/* ---- what a plan may say that is wrong ------------------------------------------------------- */

TEST(test_refusals) {
    static const int64_t results[][4] = {{1, 4, 1, 1}, {1, 2, 5, 5}};
    static const int64_t weights[] = {4, 2, 3, 3};
    static const int64_t square[] = {3, 3}, steps[] = {17, 1}, large[] = {70000};
    const uint8_t zero = 0;
    const float one = 1;
    for (int wrong = 0; wrong < 6; wrong++) { /* the last of each kind is right */
        static KernelCase c;
        const bool pool = wrong < 3;
        case_begin_in(&c, "demi.fused", pool ? "QAveragePool" : "QConvTranspose", 1);
        case_in(&c, wrong == 0 ? DTYPE_FLOAT : DTYPE_UINT8, 4, CASE_DIMS(1, 4, 3, 3), NULL);
        if (!pool) case_in(&c, DTYPE_INT8, 4, weights, NULL);
        case_omit(&c);
        case_in(&c, DTYPE_UINT8, 0, NULL, &zero);
        case_in(&c, DTYPE_FLOAT, 0, NULL, &one);
        case_out(&c, wrong == 1 ? DTYPE_INT8 : DTYPE_UINT8, 4, results[!pool]);
        set_ints(&c, "kernel_shape", square, 2);
        if (wrong == 3) set_ints(&c, "strides", steps, 2);
        if (wrong == 4) case_int(&c, "group", 2);
        assert_int_equal(case_run(&c), wrong % 3 == 2);
        assert_int_equal(c.err.what[0] != 0, wrong % 3 != 2);
        case_end(&c);
    }
    static KernelCase c; /* of more elements than float can add up */
    case_begin_in(&c, "demi.fused", "QAveragePool", 1);
    case_in(&c, DTYPE_UINT8, 3, CASE_DIMS(1, 1, 80000), NULL);
    case_omit(&c);
    case_in(&c, DTYPE_UINT8, 0, NULL, &zero);
    case_in(&c, DTYPE_FLOAT, 0, NULL, &one);
    case_out(&c, DTYPE_UINT8, 3, CASE_DIMS(1, 1, 10001));
    set_ints(&c, "kernel_shape", large, 1);
    assert_false(case_run(&c));
    case_end(&c);
}
