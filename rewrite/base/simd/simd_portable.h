// SPDX-License-Identifier: Apache-2.0
/* Vectors of simd.h in plain C: four lanes, which compilers make SSE's or NEON's of. What each name means is
 * said here, for all instruction sets.
 *
 * floats_step rounds the product and the sum where there is no fused instruction, as here; that is the only
 * name by which the bits of a lane differ between instruction sets, beside floats_sum, whose order does. */
#ifndef DEMI_SIMD_PORTABLE_H
#define DEMI_SIMD_PORTABLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"

#define SIMD_LANES     4
#define SIMD_REGISTERS 8 /* that every processor has */

typedef struct Floats {
    float lane[SIMD_LANES];
} Floats;
typedef struct Words {
    int32_t lane[SIMD_LANES];
} Words;
typedef uint32_t Lanes; /* how many there are; from the eighth bit on, each lane's */

#define EACH_LANE(Type, expression)                                                                \
    Type result;                                                                                   \
    for (int i = 0; i < SIMD_LANES; i++) result.lane[i] = (expression);                            \
    return result

/* ---- lanes ----------------------------------------------------------------------------------- */

/* The first `count`; all of them if there are not as many. */
SIMD_INLINE Lanes lanes_first(uint64_t count) {
    return count < SIMD_LANES ? (Lanes)count : SIMD_LANES;
}

/* ---- float ----------------------------------------------------------------------------------- */

SIMD_INLINE Floats floats_load(const float *from) {
    Floats result;
    memcpy(&result, from, sizeof result);
    return result;
}
SIMD_INLINE void floats_store(float *to, Floats v) {
    memcpy(to, &v, sizeof v);
}
/* Lanes that are not chosen are 0, and their memory is neither read nor written. Not inline here: they are few,
 * and are in the code of all vectors. */
static __attribute__((noinline, unused)) Floats floats_load_some(const float *from, Lanes some) {
    Floats result = {{0, 0, 0, 0}};
    memcpy(&result, from, some * sizeof *from);
    return result;
}
static __attribute__((noinline, unused)) void floats_store_some(float *to, Lanes some, Floats v) {
    memcpy(to, &v, some * sizeof *to);
}
SIMD_INLINE Floats floats_fill(float x) {
    EACH_LANE(Floats, x);
}
SIMD_INLINE Floats floats_zero(void) {
    return floats_fill(0);
}
SIMD_INLINE Floats floats_add(Floats a, Floats b) {
    EACH_LANE(Floats, a.lane[i] + b.lane[i]);
}
SIMD_INLINE Floats floats_sub(Floats a, Floats b) {
    EACH_LANE(Floats, a.lane[i] - b.lane[i]);
}
SIMD_INLINE Floats floats_mul(Floats a, Floats b) {
    EACH_LANE(Floats, a.lane[i] * b.lane[i]);
}
/* sum + a * b */
SIMD_INLINE Floats floats_step(Floats sum, Floats a, Floats b) {
    EACH_LANE(Floats, sum.lane[i] + a.lane[i] * b.lane[i]);
}
/* The larger, the smaller; b where either is NaN. */
SIMD_INLINE Floats floats_max(Floats a, Floats b) {
    EACH_LANE(Floats, a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
SIMD_INLINE Floats floats_min(Floats a, Floats b) {
    EACH_LANE(Floats, a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}
/* Lane i is v's lane index[i]. */
SIMD_INLINE Floats floats_pick(Floats v, Words index) {
    EACH_LANE(Floats, v.lane[index.lane[i]]);
}
/* Of SIMD_LANES bytes. */
SIMD_INLINE Floats floats_of_int8(const void *from) {
    int8_t bytes[SIMD_LANES];
    memcpy(bytes, from, sizeof bytes);
    EACH_LANE(Floats, (float)bytes[i]);
}

/* To the nearest whole number, ties to even. */
SIMD_INLINE Floats floats_round(Floats v) {
    EACH_LANE(Floats, rintf(v.lane[i]));
}

/* Those that are chosen, and those of v that are NaN; v with NaN in those that are chosen so. */
SIMD_INLINE Lanes lanes_or_nans(Lanes some, Floats v) {
    for (uint32_t i = 0; i < SIMD_LANES; i++) some |= (Lanes)(v.lane[i] != v.lane[i]) << (i + 8);
    return some;
}
SIMD_INLINE Floats floats_nan_where(Floats v, Lanes some) {
    EACH_LANE(Floats, some >> (i + 8) & 1 ? __builtin_nanf("") : v.lane[i]);
}
/* Every other element from `from` on, nothing behind the last. */
SIMD_INLINE Floats floats_load_by_two(const float *from) {
    EACH_LANE(Floats, from[2 * i]);
}
/* As floats_step, of one. */
SIMD_INLINE float float_step(float sum, float a, float b) {
    return sum + a * b;
}

/* ---- words ----------------------------------------------------------------------------------- */

SIMD_INLINE Words words_load(const void *from) {
    Words result;
    memcpy(&result, from, sizeof result);
    return result;
}
SIMD_INLINE void words_store(void *to, Words v) {
    memcpy(to, &v, sizeof v);
}
static __attribute__((noinline, unused)) Words words_load_some(const void *from, Lanes some) {
    Words result = {{0, 0, 0, 0}};
    memcpy(&result, from, some * sizeof *result.lane);
    return result;
}
static __attribute__((noinline, unused)) void words_store_some(void *to, Lanes some, Words v) {
    memcpy(to, &v, some * sizeof *v.lane);
}
SIMD_INLINE Words words_fill(int32_t x) {
    EACH_LANE(Words, x);
}
SIMD_INLINE Words words_zero(void) {
    return words_fill(0);
}
/* Modulo 2^32, as all sums of words are. */
SIMD_INLINE Words words_add(Words a, Words b) {
    EACH_LANE(Words, (int32_t)((uint32_t)a.lane[i] + (uint32_t)b.lane[i]));
}
/* sum + a's two int16 by b's */
SIMD_INLINE Words words_dot_pairs(Words sum, Words a, Words b) {
    int16_t x[2 * SIMD_LANES], y[2 * SIMD_LANES];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    for (int i = 0; i < SIMD_LANES; i++) {
        uint32_t two = (uint32_t)(x[2 * i] * y[2 * i]);
        two += (uint32_t)(x[2 * i + 1] * y[2 * i + 1]);
        sum.lane[i] = (int32_t)((uint32_t)sum.lane[i] + two);
    }
    return sum;
}
/* With SIMD_BFLOATS alone: sum + a's two bfloat16 by b's, in float, subnormals taken for 0:
 * floats_dot_bfloats(sum, a, b). */
SIMD_INLINE Words words_and(Words a, Words b) {
    EACH_LANE(Words, a.lane[i] & b.lane[i]);
}
SIMD_INLINE Words words_max(Words a, Words b) {
    EACH_LANE(Words, a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
/* The sum of all lanes; the largest of them, as unsigned numbers. */
SIMD_INLINE uint32_t words_sum(Words v) {
    uint32_t sum = 0;
    for (int i = 0; i < SIMD_LANES; i++) sum += (uint32_t)v.lane[i];
    return sum;
}
SIMD_INLINE uint32_t words_largest_unsigned(Words v) {
    uint32_t most = 0;
    for (int i = 0; i < SIMD_LANES; i++)
        most = (uint32_t)v.lane[i] > most ? (uint32_t)v.lane[i] : most;
    return most;
}
SIMD_INLINE Words words_xor(Words a, Words b) {
    EACH_LANE(Words, a.lane[i] ^ b.lane[i]);
}
/* sum + a's four uint8 by b's four int8; with SIMD_QUADS in one instruction */
SIMD_INLINE Words words_dot_quads(Words sum, Words a, Words b) {
    uint8_t x[4 * SIMD_LANES];
    int8_t y[4 * SIMD_LANES];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    for (int i = 0; i < 4 * SIMD_LANES; i++) sum.lane[i / 4] += x[i] * y[i];
    return sum;
}
/* The same of uint8 of which none is above 15. */
SIMD_INLINE Words words_dot_nibbles(Words sum, Words a, Words b) {
    return words_dot_quads(sum, a, b);
}
/* Words four bits lower, zeros above. */
SIMD_INLINE Words words_down_4(Words v) {
    EACH_LANE(Words, (int32_t)((uint32_t)v.lane[i] >> 4));
}
/* Words four, or eight bits higher; the number, signed, that the highest four, or eight bits are. */
SIMD_INLINE Words words_up_8(Words v) {
    EACH_LANE(Words, (int32_t)((uint32_t)v.lane[i] << 8));
}
SIMD_INLINE Floats floats_of_top_8(Words v) {
    EACH_LANE(Floats, (float)(v.lane[i] >> 24));
}
SIMD_INLINE Words words_up_4(Words v) {
    EACH_LANE(Words, (int32_t)((uint32_t)v.lane[i] << 4));
}
SIMD_INLINE Floats floats_of_top_4(Words v) {
    EACH_LANE(Floats, (float)(v.lane[i] >> 28));
}

SIMD_INLINE Floats floats_of_words(Words v) {
    EACH_LANE(Floats, (float)v.lane[i]);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The first `count` of int8 or uint8 as float; others are anything, and not read. int8 may come out moved by
 * SIMD_BYTES_MOVED, where that is what is cheap. */
#define SIMD_BYTES_MOVED 0
SIMD_INLINE Floats floats_of_bytes_first(const void *from, uint32_t count, bool is_signed) {
    uint8_t bytes[SIMD_LANES] = {0};
    memcpy(bytes, from, count);
    EACH_LANE(Floats, (float)(is_signed ? (int8_t)bytes[i] : bytes[i]));
}

/* How floats become bytes: within bounds, which the type less its zero point has, rounded to nearest, ties to
 * even, and moved by the zero point. NaN becomes any byte. */
typedef struct ByteEnd {
    float low, high;
    int32_t zero;
} ByteEnd;

SIMD_INLINE ByteEnd byte_end(float low, float high, int32_t zero, bool is_signed) {
    (void)is_signed;
    return (ByteEnd){low, high, zero};
}

/* The first `columns` of the lanes of `vecs` vectors, one behind the other. */
SIMD_INLINE void bytes_store(const ByteEnd *end, char *to, uint32_t columns, const Floats *v,
                             uint32_t vecs) {
    for (uint32_t i = 0; i < vecs * SIMD_LANES && i < columns; i++) {
        float x = v[i / SIMD_LANES].lane[i % SIMD_LANES];
        x = end->low > x ? end->low : x;
        x = end->high < x ? end->high : x;
        to[i] = (char)(uint8_t)((uint32_t)(x == x ? (int32_t)rintf(x) : 0) + (uint32_t)end->zero);
    }
}

#endif
