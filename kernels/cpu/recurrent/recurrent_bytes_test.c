// SPDX-License-Identifier: Apache-2.0
/* DynamicQuantizeLSTM on every instruction set the machine has, against its definition in double:
 * weights of int8 and uint8, with zero points or without, scales for all or for each column,
 * constant or not, sizes around those of words and vectors, directions, lengths, peepholes, initial
 * states; and what it refuses. And dynamic_bytes against plain divisions. */
#include "recurrent_bytes.h"

#include <math.h>

#include "dynamic_bytes.h"
#include "kernel_case_test.h"

static uint32_t state = 1;
static uint32_t random_below(uint32_t end) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * end) >> 32);
}
static float random_float(void) {
    return (float)random_below(1 << 20) / (float)(1 << 19) - 1;
}

static KernelCase c;

/* ---- quantizing ------------------------------------------------------------------------------ */

static uint8_t plain_byte(float x, DynamicScale by) {
    const float quotient = x / by.scale;
    if (quotient != quotient) return 0;
    const double v = (double)nearbyintf(fminf(fmaxf(quotient, -1000), 1000)) + (double)by.zero;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Elements that are whole multiples of a half step are where inverse and quotient may differ. */
TEST(test_bytes) {
    enum { N = 1000 };
    float x[N];
    uint8_t bytes[N];
    for (uint32_t i = 0; i < 400; i++) {
        const uint64_t n = random_below(N);
        const float size = ldexpf(1 + random_float() / 4, (int)random_below(250) - 125);
        for (uint64_t k = 0; k < n; k++)
            x[k] = (i % 2 ? random_float() : (float)((int)random_below(511) - 255) / 510) * size;
        if (n && i % 16 == 5) x[random_below((uint32_t)n)] = NAN;
        if (n && i % 64 == 7) x[random_below((uint32_t)n)] = INFINITY;
        const DynamicRange range = dynamic_range(x, n);
        float low = 0, high = 0;
        for (uint64_t k = 0; k < n; k++) low = fminf(low, x[k]), high = fmaxf(high, x[k]);
        assert_true(range.low == low && range.high == high);
        const DynamicScale by = dynamic_scale(range);
        dynamic_bytes(bytes, x, n, by);
        for (uint64_t k = 0; k < n; k++) assert_int_equal(bytes[k], plain_byte(x[k], by));
    }
}

/* ---- the layer ------------------------------------------------------------------------------- */

typedef struct Layer {
    int64_t length, batch, input, hidden, directions;
    bool is_signed, by_column, has_zeros, reverse;
    float *x, *bias, *h, *c, *p, *w_scale, *r_scale; /* bias to p may be NULL */
    uint8_t *w, *r, *w_zero, *r_zero;
    int32_t *lengths; /* or NULL */
} Layer;

static float *floats(Arena *arena, int64_t count, float size) {
    float *items = ARENA_ARRAY(arena, float, (uint64_t)count + 1);
    for (int64_t i = 0; i < count; i++) items[i] = random_float() * size;
    return items;
}

static float *scales(Arena *arena, int64_t count) {
    float *items = floats(arena, count, 0.0005F);
    for (int64_t i = 0; i < count; i++) items[i] += 0.002F;
    return items;
}

static uint8_t *bytes_of(Arena *arena, int64_t count) {
    uint8_t *items = ARENA_ARRAY(arena, uint8_t, (uint64_t)count + 1);
    for (int64_t i = 0; i < count; i++) items[i] = (uint8_t)random_below(256);
    return items;
}

static uint8_t *zeros_of(Arena *arena, const Layer *l, int64_t count) {
    uint8_t *items = bytes_of(arena, count);
    for (int64_t i = 0; !l->has_zeros && i < count; i++) items[i] = l->is_signed ? 0 : 128;
    return items;
}

static Layer layer_make(Arena *arena, int i) {
    Layer l = {.length = 1 + random_below(4),
               .batch = 1 + random_below(i % 3 ? 1 : 3),
               .input = 1 + random_below(40),
               .hidden = 1 + random_below(40),
               .directions = 1 + random_below(2),
               .is_signed = i % 2,
               .by_column = i / 2 % 2,
               .has_zeros = i / 4 % 2,
               .reverse = random_below(2)};
    if (i % 10 == 9) l.length = 70; /* more rows than are multiplied at once */
    const int64_t d = l.directions, width = 4 * l.hidden, all = d * l.batch * l.hidden;
    const int64_t count = l.by_column ? d * width : d;
    l.x = floats(arena, l.length * l.batch * l.input, 2);
    l.w = bytes_of(arena, d * l.input * width);
    l.r = bytes_of(arena, d * l.hidden * width);
    l.w_scale = scales(arena, count);
    l.r_scale = scales(arena, count);
    l.w_zero = zeros_of(arena, &l, count);
    l.r_zero = zeros_of(arena, &l, count);
    if (random_below(2)) l.bias = floats(arena, d * 2 * width, 0.5F);
    if (random_below(2)) l.h = floats(arena, all, 1);
    if (random_below(2)) l.c = floats(arena, all, 1);
    if (random_below(2)) l.p = floats(arena, d * 3 * l.hidden, 0.5F);
    if (random_below(2)) l.lengths = ARENA_ARRAY(arena, int32_t, (uint64_t)l.batch);
    for (int64_t b = 0; l.lengths && b < l.batch; b++)
        l.lengths[b] = (int32_t)random_below((uint32_t)l.length + 1);
    return l;
}

/* ---- its definition -------------------------------------------------------------------------- */

typedef struct Weights {
    const uint8_t *bytes, *zeros;
    const float *scales;
    int64_t depth, width, direction;
} Weights;

static int stored(const Layer *l, uint8_t byte) {
    return l->is_signed ? (int8_t)byte : byte;
}

/* to[r][width] += rows [depth] times the weights, by the rows' common range. */
static void multiply(const Layer *l, const Weights *w, const float *x, int64_t rows, double *to) {
    const DynamicScale by = dynamic_scale(dynamic_range(x, (uint64_t)(rows * w->depth)));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t n = 0; n < w->width; n++) {
            const int64_t at = l->by_column ? w->direction * w->width + n : w->direction;
            int64_t sum = 0;
            for (int64_t k = 0; k < w->depth; k++)
                sum += (plain_byte(x[r * w->depth + k], by) - by.zero) *
                       (stored(l, w->bytes[(w->direction * w->depth + k) * w->width + n]) -
                        stored(l, w->zeros[at]));
            to[r * w->width + n] += (double)sum * (double)by.scale * (double)w->scales[at];
        }
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* One step of sequence b: gates i o f c. */
static void cell(const Layer *l, int64_t d, const double *gate, float *h, double *state_c) {
    const int64_t n = l->hidden;
    const float *p = l->p ? l->p + d * 3 * n : NULL;
    for (int64_t i = 0; i < n; i++) {
        const double was = state_c[i];
        const double in = sigmoid(gate[i] + (p ? (double)p[i] * was : 0));
        const double forget = sigmoid(gate[2 * n + i] + (p ? (double)p[2 * n + i] * was : 0));
        state_c[i] = forget * was + in * tanh(gate[3 * n + i]);
        const double out = sigmoid(gate[n + i] + (p ? (double)p[n + i] * state_c[i] : 0));
        h[i] = (float)(out * tanh(state_c[i]));
    }
}

static void direction(const Layer *l, Arena *arena, int64_t d, float *y) {
    const int64_t n = l->hidden, width = 4 * n, batch = l->batch;
    const Weights w = {l->w, l->w_zero, l->w_scale, l->input, width, d};
    const Weights r = {l->r, l->r_zero, l->r_scale, n, width, d};
    double *inputs = ARENA_ARRAY(arena, double, (uint64_t)(l->length * batch * width));
    double *gates = ARENA_ARRAY(arena, double, (uint64_t)(batch * width));
    double *cells = ARENA_ARRAY(arena, double, (uint64_t)(batch * n));
    float *h = ARENA_ARRAY(arena, float, (uint64_t)(batch * n));
    for (int64_t i = 0; l->h && i < batch * n; i++) h[i] = l->h[d * batch * n + i];
    for (int64_t i = 0; l->c && i < batch * n; i++) cells[i] = (double)l->c[d * batch * n + i];
    multiply(l, &w, l->x, l->length * batch, inputs);
    for (int64_t s = 0; s < l->length; s++) {
        memset(gates, 0, (size_t)(batch * width) * sizeof *gates);
        multiply(l, &r, h, batch, gates);
        for (int64_t b = 0; b < batch; b++) {
            const int64_t length = l->lengths ? l->lengths[b] : l->length;
            if (s >= length) continue;
            const int64_t t = d || (l->reverse && l->directions == 1) ? length - 1 - s : s;
            double *gate = gates + b * width;
            for (int64_t i = 0; i < width; i++) {
                gate[i] += inputs[(t * batch + b) * width + i];
                if (l->bias)
                    gate[i] += (double)l->bias[d * 2 * width + i] +
                               (double)l->bias[d * 2 * width + width + i];
            }
            cell(l, d, gate, h + b * n, cells + b * n);
            memcpy(y + ((t * l->directions + d) * batch + b) * n, h + b * n, (size_t)n * sizeof *h);
        }
    }
}

/* ---- trying ---------------------------------------------------------------------------------- */

/* Dims that last as long as the case. */
static const int64_t *kept(uint32_t rank, const int64_t *dims) {
    return arena_copy(&c.arena, dims, rank * sizeof *dims);
}

static void add_floats(uint32_t rank, const int64_t *dims, const float *data) {
    if (data)
        case_in(&c, DTYPE_FLOAT, rank, kept(rank, dims), data);
    else
        case_omit(&c);
}

static void begin(const Layer *l, const IsaSet *cpu) {
    const int64_t d = l->directions, width = 4 * l->hidden, counts[] = {d, width};
    const Dtype dtype = l->is_signed ? DTYPE_INT8 : DTYPE_UINT8;
    const uint32_t rank = l->by_column ? 2 : 1;
    case_begin_in(&c, "com.microsoft", "DynamicQuantizeLSTM", 1);
    c.call.cpu = cpu;
    add_floats(3, CASE_DIMS(l->length, l->batch, l->input), l->x);
    case_in(&c, dtype, 3, kept(3, CASE_DIMS(d, l->input, width)), l->w);
    case_in(&c, dtype, 3, kept(3, CASE_DIMS(d, l->hidden, width)), l->r);
    add_floats(2, CASE_DIMS(d, 2 * width), l->bias);
    if (l->lengths)
        case_in(&c, DTYPE_INT32, 1, kept(1, CASE_DIMS(l->batch)), l->lengths);
    else
        case_omit(&c);
    add_floats(3, CASE_DIMS(d, l->batch, l->hidden), l->h);
    add_floats(3, CASE_DIMS(d, l->batch, l->hidden), l->c);
    add_floats(2, CASE_DIMS(d, 3 * l->hidden), l->p);
    add_floats(rank, counts, l->w_scale);
    case_in(&c, dtype, rank, kept(rank, counts), l->w_zero);
    add_floats(rank, counts, l->r_scale);
    case_in(&c, dtype, rank, kept(rank, counts), l->r_zero);
    case_out(&c, DTYPE_FLOAT, 4, kept(4, CASE_DIMS(l->length, d, l->batch, l->hidden)));
    case_text(&c, "direction", d == 2 ? "bidirectional" : l->reverse ? "reverse" : "forward");
}

static void try_layer(int i, const IsaSet *cpu) {
    /* A state next to the middle between two bytes may become either. */
    const double most = 4e-3;
    const bool constant[12] = {false, i % 4 < 2, i % 4 != 1};
    Arena arena;
    arena_init(&arena, &test_trap);
    const Layer l = layer_make(&arena, i);
    const int64_t count = l.length * l.directions * l.batch * l.hidden;
    float *want = ARENA_ARRAY(&arena, float, (uint64_t)count + 1);
    for (int64_t d = 0; d < l.directions; d++) direction(&l, &arena, d, want);
    begin(&l, cpu);
    c.call.constant = constant;
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    const float *y = c.outputs[0].data;
    for (int64_t k = 0; k < count; k++)
        if (!(fabs((double)y[k] - (double)want[k]) <= most))
            fail_msg("layer %d: element %lld is %g where %g belongs", i, (long long)k, (double)y[k],
                     (double)want[k]);
    case_end(&c);
    arena_free(&arena);
}

TEST(test_layers) {
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_runs(isa, isa_here())) continue;
        const IsaSet cpu = isa_needs(isa);
        for (int i = 0; i < 80; i++) try_layer(i, &cpu);
    }
}

static void refuses(const Layer *l, uint32_t input, const int64_t *dims, const char *says) {
    begin(l, NULL);
    c.inputs[input] = case_tensor(&c, c.inputs[input].dtype, 1, dims, NULL);
    assert_false(case_run(&c));
    if (!strstr(c.err.what, says)) fail_msg("%s", c.err.what);
    case_end(&c);
}

TEST(test_refusals) {
    const Layer l = layer_make(&test_arena, 0);
    refuses(&l, 1, CASE_DIMS(3), "not have rank 3");
    refuses(&l, 2, CASE_DIMS(3), "not have rank 3");
    refuses(&l, 8, CASE_DIMS(3), "do not fit the weights");
    refuses(&l, 11, CASE_DIMS(3), "do not fit the weights");
}
