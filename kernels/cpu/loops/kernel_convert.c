// SPDX-License-Identifier: Apache-2.0
/* Conversions between number types; see kernel_convert.h.
 *
 * The pairs that models cast between all the time have a loop of their own. All others go through
 * blocks of one exact form: int64_t for integers and bool (uint64 keeps its bits, with a flag),
 * double for floats. So there is one reader and one writer a type, not a function a pair.
 */
#include "kernel_convert.h"

#include <math.h>
#include <string.h>

#include "half.h"
#include "kernel_rows.h"
#include "kernel_saturate.h"
#include "kernel_types.h"

enum { BLOCK = 256 };

typedef struct Block {
    bool real, large; /* reals[]; integers[] are uint64_t */
    int64_t integers[BLOCK];
    double reals[BLOCK];
    double codes[256]; /* of the type read, where it is a float of a byte or less */
} Block;

static bool is_number(Dtype dtype) {
    return dtype == DTYPE_BOOL || dtype == DTYPE_FLOAT8E8M0 || dtype_is_float(dtype) ||
           dtype_is_integer(dtype);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The low bits of a byte as an integer. */
static int64_t small_integer(Dtype dtype, uint8_t byte) {
    switch ((int)dtype) {
    case DTYPE_UINT4: return byte & 15;
    case DTYPE_INT4: return ((byte & 15) ^ 8) - 8;
    case DTYPE_UINT2: return byte & 3;
    case DTYPE_INT2: return ((byte & 3) ^ 2) - 2;
    }
    return byte != 0; /* bool */
}

static void read_integers(Block *block, Dtype dtype, const void *in, uint64_t at, uint64_t n) {
    switch ((int)dtype) {
#define READ(D, T, s)                                                                              \
    case DTYPE_##D: {                                                                              \
        const T *from = (const T *)in + at;                                                        \
        ROW_EACH(n, block->integers[i] = (int64_t)from[i])                                         \
        return;                                                                                    \
    }
        KERNEL_INT_LIST(READ)
    }
    const uint8_t *from = (const uint8_t *)in + at;
    for (uint64_t i = 0; i < n; i++) block->integers[i] = small_integer(dtype, from[i]);
}

static void read_reals(Block *block, Dtype dtype, const void *in, uint64_t at, uint64_t n) {
    if (dtype == DTYPE_FLOAT) {
        const float *from = (const float *)in + at;
        ROW_EACH(n, block->reals[i] = (double)from[i])
        return;
    }
    if (dtype == DTYPE_DOUBLE) {
        memcpy(block->reals, (const double *)in + at, n * sizeof(double));
        return;
    }
    if (kernel_element_size(dtype) == 2) {
        float wide[BLOCK];
        const uint16_t *from = (const uint16_t *)in + at;
        reduced_convert_to_float(dtype, wide, from, n);
        ROW_EACH(n, block->reals[i] = (double)wide[i])
        return;
    }
    const uint8_t *from = (const uint8_t *)in + at;
    ROW_EACH(n, block->reals[i] = block->codes[from[i]])
}

/* What each byte is in a type of at most 8 bits. */
static void read_codes(Block *block, Dtype dtype) {
    for (unsigned code = 0; code < 256; code++) dtype_to_double(dtype, code, &block->codes[code]);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The bits of a power of two (OCP Microscaling's scale): 255 is NaN. */
static uint8_t encode_scale(double value, const ConvertRules *rules) {
    int exponent;
    uint8_t past = rules->overflow ? 255 : 254, below = rules->overflow ? 255 : 0;
    if (isnan(value)) return 255;
    if (isinf(value)) return past;
    if (value == 0) return below;
    double fraction = frexp(fabs(value), &exponent); /* 0.5 <= fraction < 1 */
    int code = exponent - 1 + 127;
    if (rules->round == CONVERT_UP) code += fraction > 0.5;
    if (rules->round == CONVERT_NEAREST) code += fraction >= 0.75;
    return code < 0 ? below : code > 254 ? past : (uint8_t)code;
}

/* The least magnitude that rounds past the largest finite number; a tie that rounds to it, which is
 * even in float8e4m3fn only, is not past. */
static bool rounds_past(Dtype dtype, double size) {
    switch ((int)dtype) {
    case DTYPE_FLOAT8E4M3FN: return size > 464;
    case DTYPE_FLOAT8E4M3FNUZ: return size >= 248;
    case DTYPE_FLOAT8E5M2:
    case DTYPE_FLOAT8E5M2FNUZ: return size >= 61440;
    }
    return false;
}

static uint8_t encode_small(Dtype dtype, double value, const ConvertRules *rules) {
    uint64_t bits = 0;
    if (dtype == DTYPE_FLOAT8E8M0) return encode_scale(value, rules);
    if (rules->overflow && rounds_past(dtype, fabs(value)))
        value = copysign(dtype == DTYPE_FLOAT8E5M2 ? HUGE_VAL : (double)NAN, value);
    else if (!rules->overflow && isinf(value))
        value = copysign(0x1p100, value); /* what is finite saturates */
    if (!dtype_from_double(dtype, value, &bits)) return 0;
    return (uint8_t)bits;
}

/* A small float format: bits of its mantissa, exponent bias, largest finite number. */
typedef struct SmallFormat {
    unsigned mantissa, bias;
    float largest;
    uint8_t sign; /* its bit */
    bool no_minus_zero;
} SmallFormat;

static SmallFormat small_format(Dtype dtype) {
    switch ((int)dtype) {
    case DTYPE_FLOAT8E4M3FN: return (SmallFormat){3, 7, 448, 0x80, false};
    case DTYPE_FLOAT8E4M3FNUZ: return (SmallFormat){3, 8, 240, 0x80, true};
    case DTYPE_FLOAT8E5M2: return (SmallFormat){2, 15, 57344, 0x80, false};
    case DTYPE_FLOAT8E5M2FNUZ: return (SmallFormat){2, 16, 57344, 0x80, true};
    case DTYPE_FLOAT6E2M3: return (SmallFormat){3, 1, 7.5f, 0x20, false};
    case DTYPE_FLOAT6E3M2: return (SmallFormat){2, 3, 28, 0x20, false};
    case DTYPE_FLOAT4E2M1: return (SmallFormat){1, 1, 6, 0x08, false};
    }
    return (SmallFormat){.largest = -1}; /* float8e8m0: all by encode_small */
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The code of a float not past the largest, ties to even. Normal numbers are rounded as integers,
 * the carry going into the exponent; subnormal ones by adding a power of two whose last place is
 * theirs. */
static uint8_t encode_within(const SmallFormat *format, float value) {
    float size = fabsf(value), least, shifted;
    uint32_t bits = float_bits(size), drop = 23 - format->mantissa, code;
    uint32_t least_bits = (128 - format->bias) << 23; /* 2^(1 - bias) */
    uint32_t last_place = least_bits + ((23 - format->mantissa) << 23);
    memcpy(&least, &least_bits, sizeof least);
    memcpy(&shifted, &last_place, sizeof shifted);
    if (size < least)
        code = float_bits(size + shifted) - last_place;
    else
        code = ((bits + (1u << (drop - 1)) - 1 + (bits >> drop & 1)) >> drop) -
               ((127 - format->bias) << format->mantissa);
    bool negative = signbit(value) && !(format->no_minus_zero && code == 0);
    return (uint8_t)(code | (negative ? format->sign : 0));
}

static void write_small(Dtype dtype, const double *from, uint8_t *to, uint64_t n,
                        const ConvertRules *rules) {
    const SmallFormat format = small_format(dtype);
    for (uint64_t i = 0; i < n; i++) {
        float value = (float)from[i];
        bool within = fabsf(value) <= format.largest && (double)value == from[i];
        to[i] = within ? encode_within(&format, value) : encode_small(dtype, from[i], rules);
    }
}

static void write_reals(const Block *block, Dtype dtype, void *out, uint64_t at, uint64_t n,
                        const ConvertRules *rules) {
    const double *from = block->reals;
    switch ((int)dtype) {
#define WRITE(D, T, s)                                                                             \
    case DTYPE_##D: {                                                                              \
        T *to = (T *)out + at;                                                                     \
        ROW_EACH(n, to[i] = saturate_##s(from[i]))                                                 \
        return;                                                                                    \
    }
        KERNEL_INT_LIST(WRITE)
#undef WRITE
    case DTYPE_FLOAT: {
        float *to = (float *)out + at;
        ROW_EACH(n, to[i] = (float)from[i])
        return;
    }
    case DTYPE_DOUBLE: memcpy((double *)out + at, from, n * sizeof(double)); return;
    case DTYPE_FLOAT16:
        for (uint64_t i = 0; i < n; i++) ((uint16_t *)out)[at + i] = half_from_double(from[i]);
        return;
    case DTYPE_BFLOAT16:
        for (uint64_t i = 0; i < n; i++) ((uint16_t *)out)[at + i] = bfloat_from_double(from[i]);
        return;
    }
    uint8_t *to = (uint8_t *)out + at;
    unsigned mask = (1u << dtype_bits(dtype)) - 1;
    if (dtype == DTYPE_BOOL)
        ROW_EACH(n, to[i] = from[i] != 0)
    else if (dtype_is_integer(dtype))
        ROW_EACH(n, to[i] = (uint8_t)((unsigned)saturate_i32(from[i]) & mask))
    else
        write_small(dtype, from, to, n, rules);
}

/* A double that rounds to narrower floats as the integer does: of 64 bits, those that a double has
 * no place for are collected in its last one (rounding to odd). */
static double narrowable(int64_t value, bool large) {
    bool negative = !large && value < 0;
    uint64_t size = negative ? 0 - (uint64_t)value : (uint64_t)value;
    if (size >> 53) size = (size & ~UINT64_C(0x7ff)) | (uint64_t)((size & 0x7ff) != 0) << 11;
    return negative ? -(double)size : (double)size;
}

static void write_integers(Block *block, Dtype dtype, void *out, uint64_t at, uint64_t n) {
    const int64_t *from = block->integers;
    switch ((int)dtype) {
#define WRITE(D, T, s)                                                                             \
    case DTYPE_##D: {                                                                              \
        T *to = (T *)out + at;                                                                     \
        ROW_EACH(n, to[i] = (T)from[i])                                                            \
        return;                                                                                    \
    }
        KERNEL_INT_LIST(WRITE)
#undef WRITE
    case DTYPE_FLOAT: {
        float *to = (float *)out + at;
        if (block->large)
            ROW_EACH(n, to[i] = (float)(uint64_t)from[i])
        else
            ROW_EACH(n, to[i] = (float)from[i])
        return;
    }
    case DTYPE_DOUBLE: {
        double *to = (double *)out + at;
        if (block->large)
            ROW_EACH(n, to[i] = (double)(uint64_t)from[i])
        else
            ROW_EACH(n, to[i] = (double)from[i])
        return;
    }
    }
    uint8_t *to = (uint8_t *)out + at;
    unsigned mask = (1u << dtype_bits(dtype)) - 1;
    for (uint64_t i = 0; i < n; i++)
        to[i] = dtype == DTYPE_BOOL ? from[i] != 0 : (uint8_t)((uint64_t)from[i] & mask);
}

/* ---- whole arrays ---------------------------------------------------------------------------- */

/* X(from, its C type, to, its C type, value) of x */
#define DIRECT_LIST(X)                                                                             \
    X(FLOAT, float, DOUBLE, double, (double)x)                                                     \
    X(FLOAT, float, INT64, int64_t, saturate_i64((double)x))                                       \
    X(FLOAT, float, INT32, int32_t, saturate_i32((double)x))                                       \
    X(FLOAT, float, BOOL, uint8_t, x != 0)                                                         \
    X(DOUBLE, double, FLOAT, float, (float)x)                                                      \
    X(INT64, int64_t, INT32, int32_t, (int32_t)x)                                                  \
    X(INT64, int64_t, FLOAT, float, (float)x)                                                      \
    X(INT64, int64_t, BOOL, uint8_t, x != 0)                                                       \
    X(INT32, int32_t, INT64, int64_t, x)                                                           \
    X(INT32, int32_t, FLOAT, float, (float)x)                                                      \
    X(INT8, int8_t, FLOAT, float, (float)x)                                                        \
    X(UINT8, uint8_t, FLOAT, float, (float)x)                                                      \
    X(BOOL, uint8_t, FLOAT, float, x != 0)                                                         \
    X(BOOL, uint8_t, INT64, int64_t, x != 0)                                                       \
    X(BOOL, uint8_t, INT32, int32_t, x != 0)

static bool convert_directly(Dtype to, void *out, Dtype from, const void *in, uint64_t count) {
    if (dtype_is_reduced(to) && from == DTYPE_FLOAT)
        return reduced_convert_from_float(to, out, in, count), true;
    if (to == DTYPE_FLOAT && dtype_is_reduced(from))
        return reduced_convert_to_float(from, out, in, count), true;
#define DIRECT(F, S, D, T, value)                                                                  \
    if (from == DTYPE_##F && to == DTYPE_##D) {                                                    \
        const S *source = in;                                                                      \
        T *target = out;                                                                           \
        ROW_EACH(count, const S x = source[i]; target[i] = (T)(value))                             \
        return true;                                                                               \
    }
    DIRECT_LIST(DIRECT)
    return false;
}

bool kernel_convert(Dtype to, void *out, Dtype from, const void *in, uint64_t count,
                    const ConvertRules *rules) {
    static const ConvertRules usual = {false, CONVERT_UP};
    if (!rules) rules = &usual;
    if (!is_number(to) || !is_number(from)) return false;
    if (count == 0) return true;
    if (to == from) {
        memcpy(out, in, count * kernel_element_size(to));
        return true;
    }
    if (convert_directly(to, out, from, in, count)) return true;
    Block block;
    block.real = dtype_is_float(from) || from == DTYPE_FLOAT8E8M0;
    block.large = from == DTYPE_UINT64;
    if (block.real && kernel_element_size(from) == 1) read_codes(&block, from);
    bool narrow = dtype_bits(to) <= 16 && (dtype_is_float(to) || to == DTYPE_FLOAT8E8M0);
    for (uint64_t at = 0; at < count; at += BLOCK) {
        uint64_t n = count - at < BLOCK ? count - at : BLOCK;
        if (block.real)
            read_reals(&block, from, in, at, n);
        else
            read_integers(&block, from, in, at, n);
        if (!block.real && narrow)
            for (uint64_t i = 0; i < n; i++)
                block.reals[i] = narrowable(block.integers[i], block.large);
        if (block.real || narrow)
            write_reals(&block, to, out, at, n, rules);
        else
            write_integers(&block, to, out, at, n);
    }
    return true;
}

void kernel_store_real(Dtype dtype, void *data, uint64_t i, double value) {
    kernel_convert(dtype, (char *)data + i * kernel_element_size(dtype), DTYPE_DOUBLE, &value, 1,
                   NULL);
}
