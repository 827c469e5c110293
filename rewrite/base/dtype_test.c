// SPDX-License-Identifier: Apache-2.0
/* Names, sizes, values and losslessness of element types. Values are compared with tables worked
 * out from the formats' publications, losslessness with brute force over all elements. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "half.h"
#include "unit_test.h"

static double value_of(Dtype dtype, uint64_t bits) {
    double value = -12345;
    assert_true(dtype_to_double(dtype, bits, &value));
    return value;
}

static uint64_t bits_of(Dtype dtype, double value) {
    uint64_t bits = 0;
    assert_true(dtype_from_double(dtype, value, &bits));
    return bits;
}

/* The same number, with the same sign of zero; all NaNs are the same. */
static bool same(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b && !signbit(a) == !signbit(b);
}

static bool is_scalar(Dtype dtype) {
    double value;
    return dtype_to_double(dtype, 0, &value);
}

TEST(test_names) {
    for (int i = 1; i < DTYPE_COUNT; i++) {
        const char *name = dtype_name((Dtype)i);
        assert_int_equal(dtype_from_name(name, strlen(name)), i);
        assert_int_equal(dtype_from_name(name, strlen(name) - 1) == (Dtype)i, 0);
    }
    assert_int_equal(dtype_from_name("float32", 7), DTYPE_FLOAT);
    assert_int_equal(dtype_from_name("half", 4), DTYPE_FLOAT16);
    assert_int_equal(dtype_from_name("bf16", 4), DTYPE_BFLOAT16);
    assert_int_equal(dtype_from_name("bf16", 3), DTYPE_UNDEFINED);
    assert_int_equal(dtype_from_name("undefined", 9), DTYPE_UNDEFINED);
    assert_int_equal(dtype_from_name("", 0), DTYPE_UNDEFINED);
    assert_string_equal(dtype_name(DTYPE_UNDEFINED), "undefined");
    assert_string_equal(dtype_name(DTYPE_COUNT), "dtype?");
    assert_string_equal(dtype_name((Dtype)-1), "dtype?");
}

static void check_bytes(Dtype dtype, uint64_t count, uint64_t expected) {
    uint64_t bytes = 0;
    assert_true(dtype_bytes(dtype, count, &bytes));
    assert_true(bytes == expected);
}

TEST(test_bytes) {
    check_bytes(DTYPE_FLOAT, 0, 0);
    check_bytes(DTYPE_FLOAT, 3, 12);
    check_bytes(DTYPE_COMPLEX128, 3, 48);
    check_bytes(DTYPE_INT4, 3, 2);
    check_bytes(DTYPE_UINT2, 5, 2);
    const uint64_t six_bits[] = {0, 1, 2, 3, 3, 4, 5, 6, 6, 7};
    for (uint64_t count = 0; count < 10; count++)
        check_bytes(DTYPE_FLOAT6E2M3, count, six_bits[count]);
    check_bytes(DTYPE_UINT8, INT64_MAX, INT64_MAX);
    check_bytes(DTYPE_DOUBLE, INT64_MAX / 8, INT64_MAX / 8 * 8);
    check_bytes(DTYPE_INT4, UINT64_MAX - 1, INT64_MAX);
    uint64_t bytes;
    assert_false(dtype_bytes(DTYPE_INT4, UINT64_MAX, &bytes));
    assert_false(dtype_bytes(DTYPE_UINT8, (uint64_t)INT64_MAX + 1, &bytes));
    assert_false(dtype_bytes(DTYPE_DOUBLE, (uint64_t)1 << 60, &bytes));
    assert_false(dtype_bytes(DTYPE_COMPLEX128, UINT64_MAX, &bytes));
    assert_false(dtype_bytes(DTYPE_STRING, 1, &bytes));
    assert_false(dtype_bytes(DTYPE_UNDEFINED, 0, &bytes));
    assert_false(dtype_bytes((Dtype)99, 1, &bytes));
}

TEST(test_kinds) {
    int floats = 0, integers = 0, others = 0;
    for (int i = 0; i <= DTYPE_COUNT; i++) {
        bool is_float = dtype_is_float((Dtype)i), is_integer = dtype_is_integer((Dtype)i);
        assert_false(is_float && is_integer);
        floats += is_float;
        integers += is_integer;
        others += is_scalar((Dtype)i) && !is_float && !is_integer;
    }
    assert_int_equal(floats, 12); /* 4 wide, 5 float8, 2 float6, float4 */
    assert_int_equal(integers, 12);
    assert_int_equal(others, 1); /* bool */
}

TEST(test_elements_return) {
    for (int i = 1; i < DTYPE_COUNT; i++) {
        Dtype dtype = (Dtype)i;
        unsigned width = dtype == DTYPE_BOOL ? 1 : dtype_bits(dtype);
        if (!is_scalar(dtype) || width > 16) continue;
        for (uint64_t bits = 0; bits < 1u << width; bits++) {
            uint64_t back = bits_of(dtype, value_of(dtype, bits));
            if (back != bits)
                fail_msg("%s: %x returns as %x", dtype_name(dtype), (unsigned)bits, (unsigned)back);
            /* what lies above the element is ignored */
            uint64_t above = width < 8 && dtype != DTYPE_BOOL ? ~(uint64_t)0 << width : 0;
            assert_true(same(value_of(dtype, bits | above), value_of(dtype, bits)));
        }
    }
}

TEST(test_wide_elements_return) {
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 200000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t bits = random >> 32;
        assert_true(bits_of(DTYPE_FLOAT, value_of(DTYPE_FLOAT, bits)) == bits);
        assert_true(bits_of(DTYPE_INT32, value_of(DTYPE_INT32, bits)) == bits);
        assert_true(bits_of(DTYPE_UINT32, value_of(DTYPE_UINT32, bits)) == bits);
        assert_true(bits_of(DTYPE_DOUBLE, value_of(DTYPE_DOUBLE, random)) == random);
    }
    assert_true(value_of(DTYPE_INT64, (uint64_t)1 << 63) == -0x1p63);
    assert_true(value_of(DTYPE_INT64, UINT64_MAX) == -1);
    assert_true(value_of(DTYPE_UINT64, UINT64_MAX) == 0x1p64);
}

TEST(test_known_values) {
    static const struct {
        Dtype dtype;
        uint64_t bits;
        double value;
    } known[] = {
        {DTYPE_FLOAT8E4M3FN, 0x01, 0x1p-9},
        {DTYPE_FLOAT8E4M3FN, 0x08, 0x1p-6},
        {DTYPE_FLOAT8E4M3FN, 0x7e, 448},
        {DTYPE_FLOAT8E4M3FN, 0x7f, (double)NAN},
        {DTYPE_FLOAT8E4M3FN, 0xff, (double)NAN},
        {DTYPE_FLOAT8E4M3FN, 0x80, -0.0},
        {DTYPE_FLOAT8E4M3FNUZ, 0x01, 0x1p-10},
        {DTYPE_FLOAT8E4M3FNUZ, 0x7f, 240},
        {DTYPE_FLOAT8E4M3FNUZ, 0xff, -240},
        {DTYPE_FLOAT8E4M3FNUZ, 0x80, (double)NAN},
        {DTYPE_FLOAT8E5M2, 0x01, 0x1p-16},
        {DTYPE_FLOAT8E5M2, 0x7b, 57344},
        {DTYPE_FLOAT8E5M2, 0x7c, HUGE_VAL},
        {DTYPE_FLOAT8E5M2, 0xfc, -HUGE_VAL},
        {DTYPE_FLOAT8E5M2, 0x7d, (double)NAN},
        {DTYPE_FLOAT8E5M2FNUZ, 0x01, 0x1p-17},
        {DTYPE_FLOAT8E5M2FNUZ, 0x7f, 57344},
        {DTYPE_FLOAT8E5M2FNUZ, 0x80, (double)NAN},
        {DTYPE_FLOAT8E8M0, 0x00, 0x1p-127},
        {DTYPE_FLOAT8E8M0, 0x7f, 1},
        {DTYPE_FLOAT8E8M0, 0xfe, 0x1p127},
        {DTYPE_FLOAT8E8M0, 0xff, (double)NAN},
        {DTYPE_FLOAT4E2M1, 0x1, 0.5},
        {DTYPE_FLOAT4E2M1, 0x3, 1.5},
        {DTYPE_FLOAT4E2M1, 0xf, -6},
        {DTYPE_FLOAT6E2M3, 0x01, 0.125},
        {DTYPE_FLOAT6E2M3, 0x1f, 7.5},
        {DTYPE_FLOAT6E2M3, 0x20, -0.0},
        {DTYPE_FLOAT6E3M2, 0x01, 0.0625},
        {DTYPE_FLOAT6E3M2, 0x3f, -28},
        {DTYPE_FLOAT16, 0x3555, 0x1.554p-2},
        {DTYPE_BFLOAT16, 0x0001, 0x1p-133},
        {DTYPE_INT4, 0x8, -8},
        {DTYPE_UINT4, 0xf, 15},
        {DTYPE_INT2, 0x3, -1},
        {DTYPE_UINT2, 0x3, 3},
        {DTYPE_BOOL, 0x02, 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!same(value_of(known[i].dtype, known[i].bits), known[i].value))
            fail_msg("%s: %x", dtype_name(known[i].dtype), (unsigned)known[i].bits);
}

/* Elements of one dtype in the order of their values, for finding neighbors. */
typedef struct Element {
    double value;
    uint64_t bits;
} Element;

static int by_value(const void *a, const void *b) {
    double x = ((const Element *)a)->value, y = ((const Element *)b)->value;
    return (x > y) - (x < y);
}

/* All finite elements but -0, sorted. */
static size_t sorted_elements(Dtype dtype, Element *elements) {
    size_t count = 0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << dtype_bits(dtype); bits++) {
        double value = value_of(dtype, bits);
        if (isfinite(value) && !(value == 0 && signbit(value)))
            elements[count++] = (Element){value, bits};
    }
    qsort(elements, count, sizeof *elements, by_value);
    return count;
}

TEST(test_rounding_between_neighbors) {
    Element *elements = malloc(65536 * sizeof *elements);
    for (int i = 1; i < DTYPE_COUNT; i++) {
        Dtype dtype = (Dtype)i;
        if (!is_scalar(dtype) || dtype == DTYPE_BOOL || dtype_bits(dtype) > 16) continue;
        size_t count = sorted_elements(dtype, elements);
        for (size_t k = 0; k + 1 < count; k++) {
            double low = elements[k].value, high = elements[k + 1].value;
            double middle = low + (high - low) / 2;
            double even = elements[k].bits & 1 ? high : low;
            if (value_of(dtype, bits_of(dtype, nextafter(middle, -HUGE_VAL))) != low ||
                value_of(dtype, bits_of(dtype, nextafter(middle, HUGE_VAL))) != high ||
                value_of(dtype, bits_of(dtype, middle)) != even)
                fail_msg("%s: between %g and %g", dtype_name(dtype), low, high);
        }
    }
    free(elements);
}

TEST(test_past_the_largest) {
    const Dtype saturating[] = {DTYPE_FLOAT8E4M3FN,   DTYPE_FLOAT8E4M3FNUZ, DTYPE_FLOAT8E5M2,
                                DTYPE_FLOAT8E5M2FNUZ, DTYPE_FLOAT4E2M1,     DTYPE_FLOAT6E2M3,
                                DTYPE_FLOAT6E3M2};
    const double largest[] = {448, 240, 57344, 57344, 6, 7.5, 28};
    for (size_t i = 0; i < sizeof largest / sizeof *largest; i++) {
        for (double value = largest[i]; value < 1e300; value *= 1.03) {
            assert_true(value_of(saturating[i], bits_of(saturating[i], value)) == largest[i]);
            assert_true(value_of(saturating[i], bits_of(saturating[i], -value)) == -largest[i]);
        }
        double at_inf = value_of(saturating[i], bits_of(saturating[i], HUGE_VAL));
        assert_true(at_inf == (saturating[i] == DTYPE_FLOAT8E5M2 ? HUGE_VAL : largest[i]));
    }
    assert_int_equal(bits_of(DTYPE_FLOAT8E8M0, 1e300), 0xfe);
    assert_int_equal(bits_of(DTYPE_FLOAT8E8M0, HUGE_VAL), 0xfe);
    assert_int_equal(bits_of(DTYPE_FLOAT8E8M0, 5e-324), 0);
    assert_int_equal(bits_of(DTYPE_FLOAT16, 65519.99), 0x7bff);
    assert_int_equal(bits_of(DTYPE_FLOAT16, 65520), 0x7c00);
    assert_int_equal(bits_of(DTYPE_BFLOAT16, -1e300), 0xff80);
    assert_int_equal(bits_of(DTYPE_FLOAT, 0x1.ffffffp127), 0x7f800000);
    assert_int_equal(bits_of(DTYPE_FLOAT, 0x1.fffffep127), 0x7f7fffff);
    assert_int_equal(bits_of(DTYPE_INT8, 127.4), 127);
    assert_int_equal(bits_of(DTYPE_INT8, 1e9), 127);
    assert_int_equal(bits_of(DTYPE_INT8, -HUGE_VAL), 0x80);
    assert_int_equal(bits_of(DTYPE_UINT8, -3), 0);
    assert_int_equal(bits_of(DTYPE_INT4, -9), 0x8);
    assert_true(bits_of(DTYPE_INT64, 1e19) == INT64_MAX);
    assert_true(bits_of(DTYPE_INT64, -1e19) == (uint64_t)1 << 63);
    assert_true(bits_of(DTYPE_INT64, 0x1.fffffffffffffp62) == 0x7ffffffffffffc00u);
    assert_true(bits_of(DTYPE_UINT64, 1e20) == UINT64_MAX);
    assert_true(bits_of(DTYPE_UINT64, 0x1p63) == (uint64_t)1 << 63);
    assert_int_equal(bits_of(DTYPE_UINT32, 4294967295.5), UINT32_MAX);
}

TEST(test_no_counterpart) {
    const Dtype without_nan[] = {DTYPE_INT8,       DTYPE_INT64,      DTYPE_UINT2,
                                 DTYPE_FLOAT4E2M1, DTYPE_FLOAT6E2M3, DTYPE_FLOAT6E3M2};
    const Dtype no_scalar[] = {DTYPE_UNDEFINED, DTYPE_STRING, DTYPE_COMPLEX64, DTYPE_COMPLEX128,
                               DTYPE_COUNT};
    uint64_t bits = 77;
    double value = 77;
    for (size_t i = 0; i < sizeof without_nan / sizeof *without_nan; i++)
        assert_false(dtype_from_double(without_nan[i], (double)NAN, &bits));
    for (size_t i = 0; i < sizeof no_scalar / sizeof *no_scalar; i++) {
        assert_false(dtype_from_double(no_scalar[i], 1, &bits));
        assert_false(dtype_to_double(no_scalar[i], 1, &value));
    }
    assert_false(dtype_from_double(DTYPE_FLOAT8E8M0, 0, &bits));
    assert_false(dtype_from_double(DTYPE_FLOAT8E8M0, -1, &bits));
    assert_false(dtype_from_double(DTYPE_FLOAT8E8M0, -HUGE_VAL, &bits));
    assert_true(bits == 77 && value == 77);
    assert_int_equal(bits_of(DTYPE_BOOL, (double)NAN), 1);
    assert_int_equal(bits_of(DTYPE_BOOL, -0.0), 0);
}

/* Agrees with half.h, which has its own code. */
TEST(test_agrees_with_half) {
    uint64_t random = 1;
    for (int i = 0; i < 300000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        double value = ldexp((double)(int64_t)random, (int)(random % 320) - 220);
        assert_int_equal(bits_of(DTYPE_FLOAT16, value), half_from_double(value));
        assert_int_equal(bits_of(DTYPE_BFLOAT16, value), bfloat_from_double(value));
    }
}

/* Whether every element of `from` (of up to 16 bits) survives the way to `to` and back. */
static bool survives(Dtype from, Dtype to) {
    uint64_t end = from == DTYPE_BOOL ? 2 : (uint64_t)1 << dtype_bits(from);
    for (uint64_t bits = 0; bits < end; bits++) {
        double value = value_of(from, bits);
        uint64_t there;
        if (!dtype_from_double(to, value, &there)) return false;
        if (!same(value_of(to, there), value)) return false;
    }
    return true;
}

TEST(test_lossless_by_brute_force) {
    int pairs = 0;
    for (int i = 1; i < DTYPE_COUNT; i++) {
        Dtype from = (Dtype)i;
        if (!is_scalar(from) || dtype_bits(from) > 16) continue;
        for (int j = 1; j < DTYPE_COUNT; j++) {
            Dtype to = (Dtype)j;
            if (!is_scalar(to)) continue;
            pairs++;
            if (dtype_lossless(from, to) != survives(from, to))
                fail_msg("%s to %s", dtype_name(from), dtype_name(to));
        }
    }
    assert_int_equal(pairs, 19 * 25);
}

/* What is too wide to try out: by the definitions. */
TEST(test_lossless_wide) {
    const Dtype wide[] = {DTYPE_FLOAT, DTYPE_DOUBLE, DTYPE_INT32,     DTYPE_UINT32,
                          DTYPE_INT64, DTYPE_UINT64, DTYPE_COMPLEX64, DTYPE_COMPLEX128};
    enum { WIDE = sizeof wide / sizeof *wide };
    static const char expected[WIDE][WIDE + 1] = {
        "11000011", /* float to float, double, int32, uint32, int64, uint64, complex64, complex128
                     */
        "01000001", "01101001", "01011101", "00001000", "00000100", "00000011", "00000001",
    };
    for (int i = 0; i < WIDE; i++)
        for (int j = 0; j < WIDE; j++)
            if (dtype_lossless(wide[i], wide[j]) != (expected[i][j] == '1'))
                fail_msg("%s to %s", dtype_name(wide[i]), dtype_name(wide[j]));
    for (int i = 0; i < WIDE; i++)
        for (int j = 1; j < DTYPE_COUNT; j++)
            if (dtype_bits((Dtype)j) <= 16) assert_false(dtype_lossless(wide[i], (Dtype)j));
    assert_true(dtype_lossless(DTYPE_FLOAT16, DTYPE_COMPLEX64));
    assert_true(dtype_lossless(DTYPE_STRING, DTYPE_STRING));
    assert_false(dtype_lossless(DTYPE_STRING, DTYPE_FLOAT));
    assert_false(dtype_lossless(DTYPE_FLOAT, DTYPE_STRING));
    assert_false(dtype_lossless(DTYPE_UNDEFINED, DTYPE_FLOAT));
    assert_false(dtype_lossless(DTYPE_FLOAT, (Dtype)1000));
}

/* By all codes: what is largest and least, the smallest normal value, and the most that rounding changes a
 * value by (halfway between 1 and the next one). */
TEST(test_limits) {
    for (unsigned d = 1; d < DTYPE_COUNT; d++) {
        const Dtype dtype = (Dtype)d;
        const unsigned bits = dtype_bits(dtype);
        double largest = -1, least = HUGE_VAL, one = 0, next = HUGE_VAL, value;
        if (bits == 0 || bits > 16 || !(dtype_is_float(dtype) || dtype_is_integer(dtype))) continue;
        for (uint64_t code = 0; code < UINT64_C(1) << bits; code++) {
            assert_true(dtype_to_double(dtype, code, &value));
            if (!isfinite(value)) continue;
            largest = fmax(largest, value);
            least = fmin(least, value);
            if (value == 1) one = 1;
            if (value > 1) next = fmin(next, value);
        }
        assert_true(dtype_largest(dtype) == largest);
        assert_true(dtype_least(dtype) == least);
        if (dtype_is_integer(dtype)) continue;
        assert_true(one == 1 && dtype_roundoff(dtype) == (next - 1) / 2);
    }
    assert_true(dtype_largest(DTYPE_FLOAT) == FLT_MAX && dtype_largest(DTYPE_DOUBLE) == DBL_MAX);
    assert_true(dtype_least_normal(DTYPE_FLOAT) == FLT_MIN &&
                dtype_least_normal(DTYPE_FLOAT16) == 0x1p-14);
    assert_true(dtype_largest(DTYPE_INT32) == INT32_MAX && dtype_least(DTYPE_INT32) == INT32_MIN);
    assert_true(dtype_largest(DTYPE_BOOL) == 0 && dtype_roundoff(DTYPE_INT8) == 0);
}

TEST(test_roles) {
    for (int64_t d = -3; d < DTYPE_COUNT + 2; d++) {
        const bool reduced = d == DTYPE_FLOAT16 || d == DTYPE_BFLOAT16;
        assert_int_equal(dtype_is_reduced(d), reduced);
        assert_int_equal(dtype_is_working(d), reduced || d == DTYPE_FLOAT);
        assert_false(dtype_is_working(d + (INT64_C(1) << 32)));
    }
}
