// SPDX-License-Identifier: Apache-2.0
/* The pools; see hostile_values.h. */
#include "hostile_values.h"

#include <math.h>
#include <string.h>

#include "kernel.h"

enum { MOST_ELEMENTS = 4096 };

#define PICK(rng, pool) ((pool)[rng_below((rng), sizeof(pool) / sizeof *(pool))])

/* splitmix64 */
static uint64_t rng_next(Rng *rng) {
    uint64_t z = rng->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t rng_below(Rng *rng, uint64_t bound) {
    return bound ? rng_next(rng) % bound : 0;
}

bool rng_chance(Rng *rng, unsigned percent) {
    return rng_below(rng, 100) < percent;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

uint64_t hostile_count(uint32_t rank, const int64_t *dims) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] == 0) return 0;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, (uint64_t)dims[i], &count)) return UINT64_MAX;
    return count;
}

void hostile_cut(HostileShape *shape) {
    do shape->rank--;
    while (hostile_count(shape->rank, shape->dims) > MOST_ELEMENTS);
}

HostileShape hostile_shape(Rng *rng) {
    static const int64_t small[] = {1, 1, 2, 2, 2, 3, 4, 5, 8},
                         huge[] = {1, INT64_C(1) << 31, INT64_C(1) << 40, INT64_MAX, INT32_MAX};
    HostileShape shape = {.rank = (uint32_t)rng_below(rng, HOSTILE_RANK)};
    int64_t side = PICK(rng, small);
    bool even = rng_chance(rng, 60), empty = rng_chance(rng, 8);
    for (uint32_t i = 0; i < shape.rank; i++)
        shape.dims[i] = empty && rng_chance(rng, 50) ? PICK(rng, huge)
                        : even                       ? side
                                                     : PICK(rng, small);
    if (empty && shape.rank) shape.dims[rng_below(rng, shape.rank)] = 0;
    if (hostile_count(shape.rank, shape.dims) > MOST_ELEMENTS) hostile_cut(&shape);
    return shape;
}

HostileShape hostile_list(Rng *rng) {
    HostileShape shape = {.rank = !rng_chance(rng, 10), .dims = {(int64_t)rng_below(rng, 7)}};
    return shape;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int64_t hostile_index(Rng *rng) {
    static const int64_t small[] = {0, 0, 1, 1, 2, 3, -1, -1, -2, 4}, wild[] = {-5,
                                                                                8,
                                                                                INT32_MIN,
                                                                                INT32_MAX,
                                                                                INT64_MIN,
                                                                                INT64_MAX,
                                                                                INT64_C(1) << 31,
                                                                                INT64_C(1) << 40,
                                                                                INT64_MIN + 1,
                                                                                INT64_C(1) << 62,
                                                                                255,
                                                                                -128};
    return rng_chance(rng, 80) ? PICK(rng, small) : PICK(rng, wild);
}

int64_t hostile_int(Rng *rng, const char *name, uint32_t rank) {
    int64_t r = rank;
    const int64_t axes[] = {-r - 1,           -r,        -1,       0, 0, 1, 1, r - 1, r,
                            INT64_C(1) << 31, INT64_MAX, INT64_MIN};
    bool is_dtype = strcmp(name, "to") == 0 || strstr(name, "dtype") || strstr(name, "precision") ||
                    strstr(name, "type");
    if (is_dtype && rng_chance(rng, 85)) return (int64_t)rng_below(rng, DTYPE_COUNT + 2);
    if (strstr(name, "axis") || strstr(name, "axes") || strcmp(name, "perm") == 0)
        return PICK(rng, axes);
    if (rng_chance(rng, 50)) return (int64_t)rng_below(rng, 3);
    return hostile_index(rng);
}

float hostile_float(Rng *rng) {
    const float pool[] = {0.0f, 1.0f,  1.0f,     0.5f,   -1.0f, 2.0f,   -0.0f,     3.5f,
                          NAN,  1e38f, INFINITY, 1e-45f, -1e9f, -1e-3f, -INFINITY, 255.0f};
    return rng_chance(rng, 60) ? (float)rng_below(rng, 9) * 0.5f - 1 : PICK(rng, pool);
}

const char *hostile_word(Rng *rng) {
    static const char *const words[] = {
        "",
        "NOTSET",
        "SAME_UPPER",
        "SAME_LOWER",
        "VALID",
        "linear",
        "cubic",
        "nearest",
        "bilinear",
        "bicubic",
        "zeros",
        "border",
        "reflection",
        "constant",
        "reflect",
        "edge",
        "wrap",
        "none",
        "add",
        "mul",
        "max",
        "min",
        "mean",
        "sum",
        "avg",
        "tanh",
        "erf",
        "ij,jk->ik",
        "...ii->...i",
        "i->",
        "ab,ab",
        "->",
        "ij,j",
        "i,,i->i",
        "TF",
        "IDF",
        "TFIDF",
        "SUM",
        "AVERAGE",
        "MAX",
        "LOGISTIC",
        "SOFTMAX",
        "PROBIT",
        "BRANCH_LEQ",
        "LEAF",
        "L1",
        "L2",
        "LINEAR",
        "RBF",
        "POLY",
        "SIGMOID",
        "Sigmoid",
        "Tanh",
        "Relu",
        "Affine",
        "HardSigmoid",
        "forward",
        "reverse",
        "bidirectional",
        "DCR",
        "CRD",
        "half_pixel",
        "align_corners",
        "tf_crop_and_resize",
        "asymmetric",
        "floor",
        "ceil",
        "round_prefer_ceil",
        "stretch",
        "not_larger",
        "LOWER",
        "UPPER",
        "left",
        "right",
        "en_US",
        "[a-z]+",
        "(((((",
        "[",
        "float",
        "output_half_pixel",
        "adam",
        "delta",
        "gated",
        "gated_delta",
        "linear",
        "silu",
        "a very long word that no operator knows, to be cut where it is too long for a message",
        "\xff\xfe",
        "%s%n"};
    return PICK(rng, words);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static uint64_t random_element(Rng *rng, Dtype dtype) {
    uint64_t bits = 0;
    unsigned width = dtype_bits(dtype);
    if (dtype == DTYPE_BOOL) return rng_below(rng, 2);
    if (dtype_is_float(dtype))
        dtype_from_double(dtype, (double)hostile_float(rng), &bits);
    else if (rng_chance(rng, 3))
        bits = rng_next(rng);
    else
        bits = (uint64_t)hostile_index(rng);
    return width < 64 ? bits & ((UINT64_C(1) << width) - 1) : bits;
}

static void fill(Arena *arena, Rng *rng, Dtype dtype, DemiData *tensor) {
    uint64_t count = hostile_count(tensor->rank, tensor->dims);
    size_t size = kernel_element_size(dtype);
    char *data = arena_array(arena, count + !count, size);
    for (uint64_t i = 0; i < count; i++) {
        if (dtype == DTYPE_STRING) {
            const char *word = hostile_word(rng);
            ((DemiString *)(void *)data)[i] = (DemiString){strlen(word), word};
            continue;
        }
        for (size_t at = 0; at < size; at += 8) { /* complex numbers have two */
            uint64_t bits = random_element(rng, size > 8 ? DTYPE_DOUBLE : dtype);
            memcpy(data + i * size + at, &bits, size - at < 8 ? size - at : 8);
        }
    }
    tensor->data = data;
}

DemiData hostile_tensor(Arena *arena, Rng *rng, Dtype dtype, const HostileShape *shape) {
    DemiData tensor = DEMI_DATA_INIT;
    tensor.kind = DEMI_DATA_TENSOR_KIND;
    tensor.dtype = (int32_t)dtype;
    tensor.rank = shape->rank;
    tensor.dims = arena_copy(arena, shape->dims, shape->rank * sizeof *shape->dims);
    fill(arena, rng, dtype, &tensor);
    return tensor;
}
