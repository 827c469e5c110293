// SPDX-License-Identifier: Apache-2.0
/* Conversions to and from float16 and bfloat16: every 16-bit value, every boundary between two
 * results, NaNs and random bits, with every instruction set that this machine runs. The expected results come
 * from the definition of the formats (ldexp) and of rounding, not from other conversions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "half_kernels.h"
#include "unit_test.h"

typedef struct Format {
    int mantissa_bits, bias;
    uint16_t inf, quiet;
    uint16_t (*from_float)(float);
    float (*to_float)(uint16_t);
    uint16_t (*from_double)(double);
    double (*to_double)(uint16_t);
} Format;

static const Format formats[] = {
    {10, 15, 0x7c00, 0x200, half_from_float, half_to_float, half_from_double, half_to_double},
    {7, 127, 0x7f80, 0x40, bfloat_from_float, bfloat_to_float, bfloat_from_double,
     bfloat_to_double},
};

static HalfNarrow *narrow_of(const HalfKernels *kernels, const Format *format) {
    return format == formats ? kernels->half_from_float : kernels->bfloat_from_float;
}

static HalfWiden *widen_of(const HalfKernels *kernels, const Format *format) {
    return format == formats ? kernels->half_to_float : kernels->bfloat_to_float;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The value of a code that is no NaN; Inf's code as the next power of two, as rounding sees it. */
static double value_of(const Format *format, uint16_t code) {
    int exponent = (code & 0x7fff) >> format->mantissa_bits;
    int fraction = code & ((1 << format->mantissa_bits) - 1);
    double size = exponent ? ldexp((1 << format->mantissa_bits) + fraction,
                                   exponent - format->bias - format->mantissa_bits)
                           : ldexp(fraction, 1 - format->bias - format->mantissa_bits);
    return code & 0x8000 ? -size : size;
}

/* Runs the scalar function and every instruction set, at an odd offset and length. */
static void check_narrow(const Format *format, const float *from, const uint16_t *expected,
                         size_t count) {
    for (size_t i = 0; i < count; i++)
        if (format->from_float(from[i]) != expected[i])
            fail_msg("scalar: %08x gives %04x, not %04x", bits_of(from[i]),
                     format->from_float(from[i]), expected[i]);
    uint16_t *to = malloc((count + 1) * sizeof *to);
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        const HalfKernels *kernels =
            isa_runs(isa, isa_here()) ? half_kernels(isa_needs(isa)) : NULL;
        if (!kernels) continue;
        for (size_t start = 0; start < 3 && start < count; start++) {
            memset(to, 0xa5, (count + 1) * sizeof *to);
            narrow_of(kernels, format)(to, from + start, count - start);
            for (size_t i = start; i < count; i++)
                if (to[i - start] != expected[i])
                    fail_msg("%s: %08x gives %04x, not %04x", isa_name(isa), bits_of(from[i]),
                             to[i - start], expected[i]);
            assert_int_equal(to[count - start], 0xa5a5);
        }
    }
    free(to);
}

TEST(test_every_value_widens_and_returns) {
    enum { ALL = 1 << 16 };
    uint16_t *codes = malloc(ALL * sizeof *codes), *back = malloc(ALL * sizeof *back);
    float *wide = malloc((ALL + 1) * sizeof *wide);
    for (size_t f = 0; f < 2; f++) {
        const Format *format = &formats[f];
        for (unsigned i = 0; i < ALL; i++) codes[i] = (uint16_t)i;
        for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
            const HalfKernels *kernels =
                isa_runs(isa, isa_here()) ? half_kernels(isa_needs(isa)) : NULL;
            if (!kernels) continue;
            wide[ALL] = 42;
            widen_of(kernels, format)(wide, codes, ALL);
            assert_true(wide[ALL] == 42);
            for (unsigned i = 0; i < ALL; i++)
                if (bits_of(wide[i]) != bits_of(format->to_float((uint16_t)i)))
                    fail_msg("%s: %04x widens otherwise than the scalar", isa_name(isa), i);
        }
        for (unsigned i = 0; i < ALL; i++) {
            unsigned size = i & 0x7fff;
            float value = format->to_float((uint16_t)i);
            if (size == format->inf)
                assert_true(isinf(value) && !signbit(value) == !(i >> 15));
            else if (size < format->inf)
                assert_true((double)value == value_of(format, codes[i]));
            else
                assert_int_equal(bits_of(value) >> 16 & 0x7fc0, 0x7fc0);
            assert_int_equal(bits_of(value) >> 31, i >> 15);
            back[i] = size > format->inf ? (uint16_t)(i | format->quiet) : (uint16_t)i;
            assert_int_equal(format->from_double(format->to_double(codes[i])), back[i]);
        }
        check_narrow(format, wide, back, ALL);
    }
    free(codes), free(back), free(wide);
}

/* For neighbors a < b: a, the float after a, before the midpoint, it, after it, before b; negated.
 */
TEST(test_every_boundary) {
    for (size_t f = 0; f < 2; f++) {
        const Format *format = &formats[f];
        size_t count = 0, most = (size_t)format->inf * 12;
        float *from = malloc(most * sizeof *from);
        uint16_t *expected = malloc(most * sizeof *expected);
        for (uint16_t code = 0; code < format->inf; code++) {
            double a = value_of(format, code), b = value_of(format, (uint16_t)(code + 1));
            double middle = a + (b - a) / 2;
            float at = (float)middle;
            assert_true((double)at == middle);
            uint16_t next = (uint16_t)(code + 1), even = code & 1 ? next : code;
            const float values[] = {(float)a,
                                    nextafterf((float)a, INFINITY),
                                    nextafterf(at, 0),
                                    at,
                                    nextafterf(at, INFINITY),
                                    b < 0x1p128 ? nextafterf((float)b, 0) : float_of(0x7f7fffff)};
            const uint16_t results[] = {code, code, code, even, next, next};
            for (int i = 0; i < 12; i++) {
                from[count] = i < 6 ? values[i] : -values[i - 6];
                expected[count++] = (uint16_t)(results[i % 6] | (i < 6 ? 0 : 0x8000));
            }
        }
        /* the smallest subnormals: the float after 0 lies below the midpoint in both formats */
        check_narrow(format, from, expected, count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(format->from_double((double)from[i]), expected[i]);
        free(from), free(expected);
    }
}

/* One double ulp beside a midpoint: rounding to float first would land on the midpoint. */
TEST(test_doubles_round_once) {
    for (size_t f = 0; f < 2; f++) {
        const Format *format = &formats[f];
        for (uint16_t code = 0; code < format->inf; code++) {
            double a = value_of(format, code), b = value_of(format, (uint16_t)(code + 1));
            double middle = a + (b - a) / 2;
            uint16_t next = (uint16_t)(code + 1);
            assert_int_equal(format->from_double(nextafter(middle, 0)), code);
            assert_int_equal(format->from_double(nextafter(middle, HUGE_VAL)), next);
            assert_int_equal(format->from_double(-nextafter(middle, 0)), code | 0x8000);
            assert_int_equal(format->from_double(-nextafter(middle, HUGE_VAL)), next | 0x8000);
        }
        assert_int_equal(format->from_double(1e300), format->inf);
        assert_int_equal(format->from_double(-HUGE_VAL), format->inf | 0x8000);
        assert_int_equal(format->from_double(-5e-324), 0x8000);
        assert_int_equal(format->from_double((double)NAN), format->inf | format->quiet);
    }
}

TEST(test_nans_stay_nans) {
    const float from[] = {float_of(0x7f800001), float_of(0xff800001), float_of(0x7fc00000),
                          float_of(0x7fffffff), float_of(0xffffffff), float_of(0x7f802000),
                          float_of(0x7f810000), float_of(0x7fbfffff), float_of(0xffd54321)};
    const uint16_t half[] = {0x7e00, 0xfe00, 0x7e00, 0x7fff, 0xffff,
                             0x7e01, 0x7e08, 0x7fff, 0xfeaa};
    const uint16_t bfloat[] = {0x7fc0, 0xffc0, 0x7fc0, 0x7fff, 0xffff,
                               0x7fc0, 0x7fc1, 0x7fff, 0xffd5};
    enum { COUNT = sizeof from / sizeof *from, TIMES = 8 };
    float many[COUNT * TIMES]; /* enough for the vector loops as well as their rests */
    uint16_t halves[COUNT * TIMES], bfloats[COUNT * TIMES];
    for (size_t i = 0; i < COUNT * TIMES; i++) {
        memcpy(&many[i], &from[i % COUNT], sizeof *many);
        halves[i] = half[i % COUNT];
        bfloats[i] = bfloat[i % COUNT];
    }
    check_narrow(&formats[0], many, halves, COUNT * TIMES);
    check_narrow(&formats[1], many, bfloats, COUNT * TIMES);
}

static uint64_t random_next(uint64_t *state) { /* xorshift64 */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

TEST(test_random_bits_at_every_level) {
    enum { COUNT = 1 << 20 };
    float *from = malloc(COUNT * sizeof *from);
    uint16_t *expected = malloc(COUNT * sizeof *expected);
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)(random_next(&random) >> 32);
        /* every other one with an exponent that float16 has */
        if (i & 1) bits = (bits & 0x87ffffff) + 0x30000000 + (bits >> 3 & 0x1000000);
        memcpy(&from[i], &bits, sizeof bits);
    }
    for (size_t f = 0; f < 2; f++) {
        for (size_t i = 0; i < COUNT; i++) expected[i] = formats[f].from_float(from[i]);
        check_narrow(&formats[f], from, expected, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            double value = (double)from[i], result = formats[f].to_double(expected[i]);
            if (isfinite(value) && isfinite(result)) {
                uint16_t up = (uint16_t)(expected[i] + 1);
                double unit = fabs(value_of(&formats[f], up) - result);
                assert_true(fabs(value - result) <= unit / 2);
            }
        }
    }
    free(from), free(expected);
}

/* The public functions, with every short length: the right elements and no others are written. */
TEST(test_lengths) {
    enum { MOST = 100 };
    float from[MOST], wide[MOST + 1];
    uint16_t to[MOST + 1];
    for (int i = 0; i < MOST; i++) from[i] = (float)(i - 50) * 0.25f;
    for (size_t count = 0; count <= MOST; count++) {
        for (int f = 0; f < 2; f++) {
            memset(to, 0x55, sizeof to);
            memset(wide, 0x55, sizeof wide);
            (f ? bfloat_convert_from_float : half_convert_from_float)(to, from, count);
            (f ? bfloat_convert_to_float : half_convert_to_float)(wide, to, count);
            assert_memory_equal(wide, from, count * sizeof *from);
            assert_int_equal(to[count], 0x5555);
            assert_int_equal(bits_of(wide[count]), 0x55555555);
        }
    }
}

TEST(test_instruction_sets) {
    assert_ptr_equal(half_kernels(0), half_kernels_portable());
    assert_string_equal(isa_name(ISA_PORTABLE), "portable");
    assert_string_equal(isa_name(ISA_COUNT), "isa?");
    assert_true(isa_runs(ISA_PORTABLE, 0));
    for (Isa isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        assert_true(isa_runs(isa, isa_needs(isa)));
        assert_int_equal(isa_runs(isa, 0), !isa_needs(isa));
        print_message("%s: %s\n", isa_name(isa),
                      isa_runs(isa, isa_here()) ? "tested" : "not on this machine");
    }
}
