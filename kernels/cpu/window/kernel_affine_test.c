// SPDX-License-Identifier: Apache-2.0
/* demi.fused's Affine beside BatchNormalization and the activation behind it, bit by bit: channels
 * second and last, sizes around a block's, 16-bit floats on either side; and what it refuses. */
#include <math.h>
#include <stdlib.h>

#include "half.h"
#include "kernel_case_test.h"

enum { MOST = 20000 };

static uint32_t state = 1;
static int64_t random_below(int64_t end) {
    state = state * 1664525u + 1013904223u;
    return (int64_t)(((uint64_t)state * (uint64_t)end) >> 32);
}
static float random_float(void) {
    return (float)random_below(1 << 20) / (1 << 18) - 2;
}

static Workers *workers;

/* (batch, channels, size), and what is asked of it. */
typedef struct Trial {
    int64_t batch, channels, size;
    bool last, relu;
    Dtype from, to;
    float x[MOST], want[MOST];
    float mean[MOST], var[MOST], scale[MOST], bias[MOST];
} Trial;

static Trial random_trial(void) {
    static const int64_t sizes[] = {1, 2, 5, 16, 49, 60, 196};
    static const Dtype dtypes[] = {DTYPE_FLOAT, DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16};
    Trial t = {.batch = 1 + random_below(3),
               .channels = sizes[random_below(7)],
               .size = random_below(8) ? sizes[random_below(7)] : 4097 + random_below(1000),
               .last = random_below(2),
               .relu = random_below(2),
               .from = dtypes[random_below(4)],
               .to = dtypes[random_below(4)]};
    if (random_below(8) == 0) {
        t.channels = 4095 + random_below(3);
        t.size = 1;
    }
    if (t.size > 4096) t.channels = 2;
    if (t.batch * t.channels * t.size > MOST) t.batch = 1;
    if (t.batch * t.channels * t.size > MOST) t.size = 60;
    return t;
}

static float rounded(Dtype dtype, float number) {
    if (dtype == DTYPE_FLOAT16) return half_to_float(half_from_float(number));
    if (dtype == DTYPE_BFLOAT16) return bfloat_to_float(bfloat_from_float(number));
    return number;
}

static void fill(Trial *t) {
    const int64_t count = t->batch * t->channels * t->size;
    for (int64_t i = 0; i < count; i++) t->x[i] = rounded(t->from, 3 * random_float());
    if (count > 2) t->x[count / 2] = t->x[count - 1] = NAN;
    for (int64_t c = 0; c < t->channels; c++) {
        t->mean[c] = random_float();
        t->var[c] = 0.01f + fabsf(random_float());
        t->scale[c] = random_float();
        t->bias[c] = random_float();
    }
}

static void by_operator(Trial *t) {
    static KernelCase c;
    const int64_t dims[] = {t->batch, t->channels, t->size};
    case_begin(&c, "BatchNormalization", 15);
    case_in(&c, DTYPE_FLOAT, 3, dims, t->x);
    const float *const operands[] = {t->scale, t->bias, t->mean, t->var};
    for (int i = 0; i < 4; i++) case_in(&c, DTYPE_FLOAT, 1, dims + 1, operands[i]);
    case_out(&c, DTYPE_FLOAT, 3, dims);
    if (!case_run(&c)) fail_msg("%s", c.err.what);
    const float *y = c.outputs[0].data;
    for (uint64_t i = 0; i < c.outputs[0].count; i++)
        t->want[i] = rounded(t->to, t->relu && y[i] < 0 ? 0 : y[i]);
    case_end(&c);
}

/* The place of element i of (batch, channels, size) where channels are last. */
static int64_t place_of(const Trial *t, int64_t i) {
    const int64_t n = i / (t->channels * t->size), c = i / t->size % t->channels;
    return t->last ? (n * t->size + i % t->size) * t->channels + c : i;
}

static void put(Dtype dtype, void *data, int64_t i, float number) {
    if (dtype == DTYPE_FLOAT) ((float *)data)[i] = number;
    if (dtype == DTYPE_FLOAT16) ((uint16_t *)data)[i] = half_from_float(number);
    if (dtype == DTYPE_BFLOAT16) ((uint16_t *)data)[i] = bfloat_from_float(number);
}
static float get(Dtype dtype, const void *data, int64_t i) {
    if (dtype == DTYPE_FLOAT16) return half_to_float(((const uint16_t *)data)[i]);
    if (dtype == DTYPE_BFLOAT16) return bfloat_to_float(((const uint16_t *)data)[i]);
    return ((const float *)data)[i];
}

static void begin(KernelCase *c, Trial *t, int64_t *dims) {
    const int64_t second[] = {t->batch, t->channels, t->size};
    const int64_t last[] = {t->batch, t->size, t->channels};
    memcpy(dims, t->last ? last : second, sizeof second);
    for (int64_t k = 0; k < t->channels; k++)
        t->scale[k] = (float)((double)t->scale[k] / sqrt((double)t->var[k] + (double)1e-5f));
    case_begin_in(c, "demi.fused", "Affine", 1);
    case_in(c, t->from, 3, dims, NULL);
    const float *const operands[] = {t->mean, t->scale, t->bias};
    for (int i = 0; i < 3; i++) case_in(c, DTYPE_FLOAT, 1, &t->channels, operands[i]);
    case_out(c, t->to, 3, dims);
    case_int(c, "axis", t->last ? -1 : 1);
    if (t->relu) case_text(c, "activation", "Relu");
}

SET_UP {
    workers = workers_new(&test_arena, 2);
}

TEST(test_norms) {
    static Trial t;
    static KernelCase c;
    for (int trial = 0; trial < 400; trial++) {
        int64_t dims[3];
        t = random_trial();
        fill(&t);
        by_operator(&t);
        begin(&c, &t, dims);
        if (trial % 3) c.call.workers = workers;
        const int64_t count = (int64_t)c.inputs[0].count;
        for (int64_t i = 0; i < count; i++) put(t.from, c.inputs[0].data, place_of(&t, i), t.x[i]);
        const bool in_place = t.from == t.to && trial % 2;
        if (in_place) c.outputs[0].data = c.inputs[0].data;
        if (!case_run(&c)) fail_msg("%s", c.err.what);
        for (int64_t i = 0; i < count; i++) {
            const float got = get(t.to, c.outputs[0].data, place_of(&t, i)), want = t.want[i];
            if (isnan(want) ? !isnan(got) : memcmp(&got, &want, sizeof got) != 0)
                fail_msg("trial %d, element %d: %a for %a", trial, (int)i, (double)got,
                         (double)want);
        }
        case_end(&c);
    }
}

TEST(test_refused) {
    static Trial t;
    static KernelCase c;
    t = (Trial){.batch = 1, .channels = 4, .size = 3, .from = DTYPE_FLOAT, .to = DTYPE_FLOAT};
    for (int i = 0; i < 4; i++) {
        static const char *const reasons[] = {
            "axis", "mean, scale or shift", "activation has an unknown name", "activation_params"};
        static const float low[] = {0};
        int64_t dims[3];
        begin(&c, &t, dims);
        if (i == 0) case_int(&c, "axis", 3);
        if (i == 1) case_int(&c, "axis", 2);
        if (i == 2) case_text(&c, "activation", "Sine");
        if (i == 3) {
            case_text(&c, "activation", "Relu");
            case_attr(&c, "activation_params",
                      (PlainAttr){.kind = PLAIN_FLOATS, .count = 1, .v.floats = low});
        }
        assert_false(case_run(&c));
        if (!strstr(c.err.what, reasons[i])) fail_msg("%s", c.err.what);
        case_end(&c);
    }
}
