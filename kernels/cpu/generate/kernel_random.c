// SPDX-License-Identifier: Apache-2.0
/* Random operators: Dropout, Bernoulli, RandomNormal, RandomUniform (and Like), Multinomial.
 *
 * Without a seed of its own an operator takes the call's, which differs from run to run. Numbers
 * are drawn as doubles in the order of the elements and rounded to the output's type.
 */
#include "kernel_random.h"

#include <math.h>
#include <string.h>

#include "kernel_convert.h"
#include "kernel_functions.h"

/* ---- the generator --------------------------------------------------------------------------- */

enum { MT_SHIFT = 397 };

static void seed_word(Random *random, uint32_t seed) {
    uint32_t *state = random->state;
    state[0] = seed;
    for (uint32_t i = 1; i < RANDOM_STATE; i++)
        state[i] = 1812433253u * (state[i - 1] ^ state[i - 1] >> 30) + i;
    random->next = RANDOM_STATE;
}

static void seed_words(Random *random, const uint32_t key[2]) {
    uint32_t *state = random->state, i = 1, k = 0;
    seed_word(random, 19650218u);
    for (uint32_t n = 0; n < RANDOM_STATE; n++) {
        state[i] = (state[i] ^ (state[i - 1] ^ state[i - 1] >> 30) * 1664525u) + key[k] + k;
        k ^= 1;
        if (++i == RANDOM_STATE) state[0] = state[RANDOM_STATE - 1], i = 1;
    }
    for (uint32_t n = 1; n < RANDOM_STATE; n++) {
        state[i] = (state[i] ^ (state[i - 1] ^ state[i - 1] >> 30) * 1566083941u) - i;
        if (++i == RANDOM_STATE) state[0] = state[RANDOM_STATE - 1], i = 1;
    }
    state[0] = 0x80000000u;
}

void kernel_random_seed(Random *random, uint64_t seed) {
    *random = (Random){.next = RANDOM_STATE};
    if (seed >> 32)
        seed_words(random, (uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)});
    else
        seed_word(random, (uint32_t)seed);
}

static uint32_t twist(uint32_t upper, uint32_t lower) {
    uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
}

static void renew(Random *random) {
    uint32_t *state = random->state;
    for (uint32_t i = 0; i < RANDOM_STATE - MT_SHIFT; i++)
        state[i] = state[i + MT_SHIFT] ^ twist(state[i], state[i + 1]);
    for (uint32_t i = RANDOM_STATE - MT_SHIFT; i < RANDOM_STATE - 1; i++)
        state[i] = state[i + MT_SHIFT - RANDOM_STATE] ^ twist(state[i], state[i + 1]);
    state[RANDOM_STATE - 1] = state[MT_SHIFT - 1] ^ twist(state[RANDOM_STATE - 1], state[0]);
    random->next = 0;
}

static uint32_t draw(Random *random) {
    if (random->next == RANDOM_STATE) renew(random);
    uint32_t y = random->state[random->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

double kernel_random_real(Random *random) {
    uint32_t upper = draw(random) >> 5, lower = draw(random) >> 6;
    return (upper * 67108864.0 + lower) / 9007199254740992.0;
}

double kernel_random_normal(Random *random) {
    double x, y, square;
    if (random->has_normal) {
        random->has_normal = false;
        return random->normal;
    }
    do {
        x = 2 * kernel_random_real(random) - 1;
        y = 2 * kernel_random_real(random) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    double factor = sqrt(-2 * log(square) / square);
    random->normal = factor * x;
    random->has_normal = true;
    return factor * y;
}

/* A `seed` that is a whole number is that number; another one its bits. */
static Random *start(KernelCall *call, const AttrFloats *seed) {
    Random *random = ARENA_NEW(call->scratch, Random);
    uint64_t value = call->seed;
    if (seed && seed->present) {
        float real = seed->items[0];
        uint32_t bits;
        memcpy(&bits, &real, sizeof bits);
        value = real >= 0 && real < 0x1p32f && real == floorf(real) ? (uint64_t)real : bits;
    }
    kernel_random_seed(random, value);
    return random;
}

/* ---- RandomNormal, RandomUniform ------------------------------------------------------------- */

static bool check_numbers(KernelCall *call, const KernelTensor *tensor) {
    uint64_t probe[2] = {0};
    return kernel_convert(tensor->dtype, probe, tensor->dtype, probe + 1, 1, NULL) ||
           kernel_fail(call, "it is not defined for %s", dtype_name(tensor->dtype));
}

enum { DRAWS = 256 };

static bool make_numbers(KernelCall *call, double (*number)(Random *), double base, double width) {
    const RandomAttrs *attrs = call->attrs;
    const KernelTensor *out = &call->outputs[0];
    if (!check_numbers(call, out)) return false;
    Random *random = start(call, &attrs->seed);
    size_t size = kernel_element_size(out->dtype);
    for (uint64_t i = 0; i < out->count; i += DRAWS) {
        double numbers[DRAWS];
        uint64_t n = out->count - i < DRAWS ? out->count - i : DRAWS;
        for (uint64_t k = 0; k < n; k++) numbers[k] = base + width * number(random);
        kernel_convert(out->dtype, (char *)out->data + i * size, DTYPE_DOUBLE, numbers, n, NULL);
    }
    return true;
}

bool kernel_random_normals(KernelCall *call) {
    const RandomAttrs *attrs = call->attrs;
    return make_numbers(call, kernel_random_normal, (double)attrs->p, (double)attrs->q);
}

bool kernel_random_uniforms(KernelCall *call) {
    const RandomAttrs *attrs = call->attrs;
    double low = (double)attrs->p;
    return make_numbers(call, kernel_random_real, low, (double)attrs->q - low);
}

/* ---- Bernoulli, Multinomial ------------------------------------------------------------------ */

bool kernel_bernoulli(KernelCall *call) {
    const RandomAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    if (!check_numbers(call, in) || !check_numbers(call, out)) return false;
    if (in->count != out->count) return kernel_fail(call, "the number of elements changes");
    Random *random = start(call, &attrs->seed);
    for (uint64_t i = 0; i < out->count; i++)
        kernel_store_real(out->dtype, out->data, i,
                          kernel_random_real(random) < kernel_real(in, i) ? 1 : 0);
    return true;
}

/* The sums of e^(x - the largest x) up to each class; 0 in all where there is no number. */
static void add_up(const KernelTensor *in, uint64_t row, uint64_t classes, double *sums) {
    double most = -HUGE_VAL, sum = 0;
    for (uint64_t k = 0; k < classes; k++) {
        double x = kernel_real(in, row * classes + k);
        most = x > most ? x : most;
    }
    for (uint64_t k = 0; k < classes; k++) {
        double weight = exp(kernel_real(in, row * classes + k) - most);
        if (weight > 0) sum += weight; /* not NaN */
        sums[k] = sum;
    }
}

/* The first class whose sum is past `value`. */
static uint64_t pick(const double *sums, uint64_t classes, double value) {
    uint64_t low = 0, high = classes - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (sums[middle] > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool kernel_multinomial(KernelCall *call) {
    const RandomAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    if (!check_numbers(call, in) || !check_numbers(call, out)) return false;
    if (in->rank != 2 || out->rank != 2 || in->dims[0] != out->dims[0])
        return kernel_fail(call, "its input is of rank %u, not 2", in->rank);
    uint64_t classes = (uint64_t)in->dims[1], samples = (uint64_t)out->dims[1];
    if (out->count && !classes) return kernel_fail(call, "there are no classes");
    Random *random = start(call, &attrs->seed);
    double *sums = ARENA_ARRAY(call->scratch, double, classes + 1);
    for (uint64_t row = 0; row < (out->count ? (uint64_t)in->dims[0] : 0); row++) {
        add_up(in, row, classes, sums);
        for (uint64_t i = 0; i < samples; i++) {
            double value = kernel_random_real(random) * sums[classes - 1];
            kernel_store_real(out->dtype, out->data, row * samples + i,
                              (double)pick(sums, classes, value));
        }
    }
    return true;
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Whether elements are dropped, and the fraction of them: attributes once, inputs from version 12
 * on; versions 7 and 10 do nothing. */
static bool read_ratio(KernelCall *call, bool *training, double *ratio) {
    const DropoutAttrs *attrs = call->attrs;
    const KernelTensor *given = kernel_input(call, 1), *mode = kernel_input(call, 2);
    bool by_inputs = call->row->layout == &op_attrs_dropout && call->row->since >= 12;
    *training = call->row->since < 7 && !attrs->is_test;
    *ratio = call->row->since < 7 ? (double)attrs->ratio : 0.5;
    if (by_inputs && mode) {
        if (mode->dtype != DTYPE_BOOL || mode->count != 1)
            return kernel_fail(call, "training_mode is not a single bool");
        *training = *(const uint8_t *)mode->data;
    }
    if (by_inputs && given) {
        if (!dtype_is_float(given->dtype) || given->count != 1)
            return kernel_fail(call, "ratio is not a single number");
        *ratio = kernel_real(given, 0);
    }
    return !*training || (*ratio >= 0 && *ratio < 1) ||
           kernel_fail(call, "ratio %g is not from 0 up to 1", *ratio);
}

static void drop(Random *random, double ratio, const KernelTensor *in, const KernelTensor *out,
                 const KernelTensor *mask) {
    for (uint64_t i = 0; i < in->count; i++) {
        double kept = kernel_random_real(random) >= ratio;
        if (mask) kernel_store_real(mask->dtype, mask->data, i, kept);
        if (out)
            kernel_store_real(out->dtype, out->data, i, kept * kernel_real(in, i) / (1 - ratio));
    }
}

bool kernel_dropout(KernelCall *call) {
    const DropoutAttrs *attrs = call->attrs;
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    const KernelTensor *mask = kernel_result(call, 1);
    bool training;
    double ratio;
    if (!check_numbers(call, in) || !read_ratio(call, &training, &ratio)) return false;
    if (out->count != in->count ||
        (mask && (mask->count != in->count || !check_numbers(call, mask))))
        return kernel_fail(call, "its results do not fit its input");
    if (training && ratio > 0) {
        Random *random = start(call, NULL);
        if (attrs->seed != ATTR_ABSENT) kernel_random_seed(random, (uint64_t)attrs->seed);
        drop(random, ratio, in, out, mask);
        return true;
    }
    if (out && in->count) memcpy(out->data, in->data, in->count * kernel_element_size(in->dtype));
    for (uint64_t i = 0; mask && i < mask->count; i++)
        kernel_store_real(mask->dtype, mask->data, i, 1);
    return true;
}
