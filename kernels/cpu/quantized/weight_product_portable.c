// SPDX-License-Identifier: Apache-2.0
/* Rows by panels of weight_product.h in plain C. */
#include <string.h>

#include "simd.h"
#include "weight_product.h"

static inline uint32_t load_word(const void *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

/* The highest four bits, signed. */
static inline float top(uint32_t word) {
    const int32_t item = (int32_t)(word >> 28);
    return (float)(item < 8 ? item : item - 16);
}

#define WEIGHT_TARGET
#define WEIGHT_NAME(x)         weight_portable_##x
#define WEIGHT_LANES           1
#define WEIGHT_VEC             float
#define WEIGHT_WORDS           uint32_t
#define WEIGHT_VECS(rows)      ((rows) <= 4 ? 4 : 2)
#define WEIGHT_ZERO            0
#define WEIGHT_FILL(x)         (x)
#define WEIGHT_LOAD(p)         (*(p))
#define WEIGHT_STORE(p, v)     (*(p) = (v))
#define WEIGHT_SUB(a, b)       ((a) - (b))
#define WEIGHT_MUL(a, b)       ((a) * (b))
#define WEIGHT_STEP(sum, a, b) ((sum) + (a) * (b))
#define WEIGHT_LOAD_WORDS(p)   load_word(p)
#define WEIGHT_TOP(w)          top(w)
#define WEIGHT_UP(w)           ((w) << 4)
#define WEIGHT_BYTES(p)        ((float)*(const int8_t *)(const void *)(p))
#include "weight_tile.inc"

const WeightIsa *weight_isa_portable(void) {
    return &weight_portable_isa;
}
