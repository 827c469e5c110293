// SPDX-License-Identifier: Apache-2.0
/* What follows from the table of formats.def. All floating kinds are read and written by the same integer
 * code. */
#include "dtype.h"

#include <math.h>
#include <string.h>

#include "checked.h"

typedef enum Kind {
    KIND_OTHER,
    KIND_BOOL,
    KIND_SIGNED,
    KIND_UNSIGNED,
    KIND_FLOAT,
    KIND_COMPLEX,
} Kind;

/* Which codes of a floating kind are not finite numbers. */
typedef enum Special {
    SPECIAL_IEEE,  /* exponent of all ones: Inf where the mantissa is 0, else NaN */
    SPECIAL_FN,    /* all ones but the sign: NaN */
    SPECIAL_FNUZ,  /* the code of -0: NaN */
    SPECIAL_NONE,  /* none */
    SPECIAL_SCALE, /* no sign, zero or mantissa: powers of two, all ones is NaN */
} Special;

typedef struct FloatFormat {
    uint8_t exponent_bits, mantissa_bits;
    int16_t bias;
    Special special;
    bool saturates; /* finite values past the largest become it rather than Inf */
} FloatFormat;

typedef enum Role { ROLE_STORED, ROLE_WORKING, ROLE_REDUCED } Role;

typedef struct DtypeFacts {
    const char *name, *others;
    uint8_t bits;
    Kind kind;
    Role role;
    FloatFormat format; /* of KIND_FLOAT */
} DtypeFacts;

static const DtypeFacts facts[DTYPE_COUNT] = {
#define FORMAT(NAME, name, others, bits, kind, exponent, mantissa, bias, special, saturates, role) \
    [DTYPE_##NAME] = {name,        others,                                                         \
                      bits,        KIND_##kind,                                                    \
                      ROLE_##role, {exponent, mantissa, bias, SPECIAL_##special, saturates}},
#include "formats.def"
};

static const DtypeFacts *facts_of(Dtype dtype) {
    return (unsigned)dtype < DTYPE_COUNT ? &facts[dtype] : &facts[DTYPE_UNDEFINED];
}

const char *dtype_name(Dtype dtype) {
    return (unsigned)dtype < DTYPE_COUNT ? facts[dtype].name : "dtype?";
}

/* Is it one of the words that lie in `list`, with spaces between? */
static bool is_among(const char *list, const char *name, size_t length) {
    for (const char *word = list; *word; word += *word == ' ') {
        const size_t here = strcspn(word, " ");
        if (here == length && !memcmp(word, name, length)) return true;
        word += here;
    }
    return false;
}

Dtype dtype_from_name(const char *name, size_t length) {
    for (unsigned i = 1; i < DTYPE_COUNT; i++)
        if (is_among(facts[i].name, name, length) || is_among(facts[i].others, name, length))
            return (Dtype)i;
    return DTYPE_UNDEFINED;
}

unsigned dtype_bits(Dtype dtype) {
    return facts_of(dtype)->bits;
}

bool dtype_bytes(Dtype dtype, uint64_t count, uint64_t *bytes) {
    uint64_t bits = dtype_bits(dtype), whole;
    if (bits == 0 || !checked_mul(count / 8, bits, &whole)) return false;
    /* groups of eight elements fill whole bytes; the rest is at most seven elements */
    if (!checked_add(whole, (count % 8 * bits + 7) / 8, &whole) || whole > INT64_MAX) return false;
    *bytes = whole;
    return true;
}

bool dtype_is_float(Dtype dtype) {
    return facts_of(dtype)->kind == KIND_FLOAT;
}

static Role role_of(int64_t dtype) {
    return dtype >= 0 && dtype < DTYPE_COUNT ? facts[dtype].role : ROLE_STORED;
}

bool dtype_is_reduced(int64_t dtype) {
    return role_of(dtype) == ROLE_REDUCED;
}

bool dtype_is_working(int64_t dtype) {
    return role_of(dtype) != ROLE_STORED;
}

bool dtype_is_integer(Dtype dtype) {
    Kind kind = facts_of(dtype)->kind;
    return kind == KIND_SIGNED || kind == KIND_UNSIGNED;
}

enum { DOUBLE_MANTISSA = 52 };
#define DOUBLE_INF   0x7ff0000000000000u
#define DOUBLE_QUIET 0x0008000000000000u

static uint64_t double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double bits_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The lowest `width` bits; width is 1 to 64. */
static uint64_t low_bits(unsigned width) {
    return UINT64_MAX >> (64 - width);
}

/* The sign's bit, or 0 where the format has none. */
static uint64_t sign_bit(const FloatFormat *format) {
    if (format->special == SPECIAL_SCALE) return 0;
    return (uint64_t)1 << (format->exponent_bits + format->mantissa_bits);
}

/* All codes but the sign. */
static uint64_t magnitude_mask(const FloatFormat *format) {
    return low_bits((unsigned)format->exponent_bits + format->mantissa_bits);
}

/* The code of Inf in an IEEE format. */
static uint64_t inf_code(const FloatFormat *format) {
    return low_bits(format->exponent_bits) << format->mantissa_bits;
}

/* The code of the largest finite number. */
static uint64_t max_code(const FloatFormat *format) {
    switch (format->special) {
    case SPECIAL_IEEE: return inf_code(format) - 1;
    case SPECIAL_FN:
    case SPECIAL_SCALE: return magnitude_mask(format) - 1;
    case SPECIAL_FNUZ:
    case SPECIAL_NONE: break;
    }
    return magnitude_mask(format);
}

/* The value of a code that is a finite number, without sign. */
static double finite_value(const FloatFormat *format, uint64_t code) {
    int exponent = (int)(code >> format->mantissa_bits) - format->bias;
    uint64_t fraction = code & (((uint64_t)1 << format->mantissa_bits) - 1);
    if (format->special == SPECIAL_SCALE) return ldexp(1.0, exponent);
    if (code >> format->mantissa_bits)
        fraction |= (uint64_t)1 << format->mantissa_bits;
    else
        exponent++; /* subnormals have the exponent of the smallest normals */
    return ldexp((double)fraction, exponent - format->mantissa_bits);
}

/* The double for a code (without its sign), by its bits: Inf and NaNs included. */
static uint64_t float_decode(const FloatFormat *format, uint64_t code) {
    if (code <= max_code(format)) return double_bits(finite_value(format, code));
    if (format->special != SPECIAL_IEEE) return DOUBLE_INF | DOUBLE_QUIET;
    uint64_t payload = code - inf_code(format);
    return DOUBLE_INF | payload << (DOUBLE_MANTISSA - format->mantissa_bits);
}

double dtype_largest(Dtype dtype) {
    const DtypeFacts *its = facts_of(dtype);
    if (its->kind == KIND_FLOAT) return finite_value(&its->format, max_code(&its->format));
    if (its->kind == KIND_SIGNED) return (double)low_bits(its->bits - 1u);
    return its->kind == KIND_UNSIGNED ? (double)low_bits(its->bits) : 0;
}

double dtype_least(Dtype dtype) {
    const DtypeFacts *its = facts_of(dtype);
    if (its->kind == KIND_UNSIGNED) return 0;
    if (its->kind == KIND_FLOAT && !sign_bit(&its->format)) return finite_value(&its->format, 0);
    return its->kind == KIND_SIGNED ? -1 - dtype_largest(dtype) : -dtype_largest(dtype);
}

double dtype_roundoff(Dtype dtype) {
    const DtypeFacts *its = facts_of(dtype);
    return its->kind == KIND_FLOAT ? ldexp(1.0, -1 - its->format.mantissa_bits) : 0;
}

double dtype_least_normal(Dtype dtype) {
    const DtypeFacts *its = facts_of(dtype);
    return its->kind == KIND_FLOAT ? ldexp(1.0, 1 - its->format.bias) : 0;
}

bool dtype_to_double(Dtype dtype, uint64_t bits, double *value) {
    const DtypeFacts *its = facts_of(dtype);
    if (its->kind == KIND_OTHER || its->kind == KIND_COMPLEX) return false;
    bits &= low_bits(its->bits);
    if (its->kind == KIND_BOOL) {
        *value = bits != 0;
    } else if (its->kind == KIND_UNSIGNED) {
        *value = (double)bits;
    } else if (its->kind == KIND_SIGNED) {
        bool negative = bits >> (its->bits - 1);
        *value = negative ? -(double)(low_bits(its->bits) - bits + 1) : (double)bits;
    } else {
        bool negative = bits & sign_bit(&its->format);
        if (its->format.special == SPECIAL_FNUZ && bits == sign_bit(&its->format))
            *value = bits_double(DOUBLE_INF | DOUBLE_QUIET);
        else
            *value = bits_double((uint64_t)negative << 63 |
                                 float_decode(&its->format, bits & magnitude_mask(&its->format)));
    }
    return true;
}

/* value / 2^shift, rounded to nearest, ties to even. */
static uint64_t shift_rounded(uint64_t value, int shift) {
    if (shift <= 0) return value;
    if (shift > 63) return 0; /* the values here have at most 53 bits: less than half */
    uint64_t half = (uint64_t)1 << (shift - 1), lost = value & (2 * half - 1);
    uint64_t kept = value >> shift;
    return kept + (lost > half || (lost == half && (kept & 1)));
}

/* The code nearest to a finite positive magnitude; may lie past the largest finite one. */
static uint64_t float_round(const FloatFormat *format, double size) {
    int exponent, least = 1 - format->bias;
    uint64_t fraction = (uint64_t)ldexp(frexp(size, &exponent), DOUBLE_MANTISSA + 1);
    exponent--; /* size = fraction / 2^52 * 2^exponent, where 1 <= fraction / 2^52 < 2 */
    int base = exponent > least ? exponent : least;
    uint64_t rounded =
        shift_rounded(fraction, DOUBLE_MANTISSA - format->mantissa_bits + base - exponent);
    /* A normal number's leading bit adds one to its exponent; a carry out of the mantissa does too.
     */
    return ((uint64_t)(base - least) << format->mantissa_bits) + rounded;
}

/* The power of two nearest to a positive value; halfway, the one with the even code. */
static uint64_t scale_round(const FloatFormat *format, double size) {
    int exponent;
    double fraction = frexp(size, &exponent); /* 0.5 <= fraction < 1 */
    int code = exponent - 1 + format->bias;
    if (code < 0) return 0;
    return (uint64_t)code + (fraction > 0.75 || (fraction == 0.75 && (code & 1)));
}

/* The code (without sign) for a NaN with these bits; false where the format has none. */
static bool nan_code(const FloatFormat *format, uint64_t nan, uint64_t *code) {
    if (format->special == SPECIAL_NONE) return false;
    *code = magnitude_mask(format);
    if (format->special == SPECIAL_FNUZ) *code = sign_bit(format);
    if (format->special != SPECIAL_IEEE) return true;
    uint64_t payload = nan & low_bits(DOUBLE_MANTISSA);
    payload >>= DOUBLE_MANTISSA - format->mantissa_bits;
    if (payload == 0) payload = (uint64_t)1 << (format->mantissa_bits - 1); /* not Inf: quiet */
    *code = inf_code(format) | payload;
    return true;
}

static bool float_encode(const FloatFormat *format, uint64_t value, uint64_t *bits) {
    uint64_t sign = value >> 63 ? sign_bit(format) : 0, size = value & low_bits(63), code = 0;
    if (size > DOUBLE_INF) {
        if (!nan_code(format, size, &code)) return false;
        *bits = sign | code;
        return true;
    }
    if (format->special == SPECIAL_SCALE && (size == 0 || value >> 63)) return false;
    uint64_t max = max_code(format);
    if (size == DOUBLE_INF)
        code = max + 1;
    else if (format->special == SPECIAL_SCALE)
        code = scale_round(format, bits_double(size));
    else if (size != 0)
        code = float_round(format, bits_double(size));
    if (code > max) {
        bool to_inf = format->special == SPECIAL_IEEE && (!format->saturates || size == DOUBLE_INF);
        code = to_inf ? max + 1 : max;
    }
    if (format->special == SPECIAL_FNUZ && code == 0) sign = 0; /* that code is NaN */
    *bits = sign | code;
    return true;
}

static bool integer_encode(const DtypeFacts *its, double value, uint64_t *bits) {
    if (isnan(value)) return false;
    bool is_signed = its->kind == KIND_SIGNED;
    uint64_t max = low_bits(is_signed ? its->bits - 1u : its->bits);
    uint64_t lowest = is_signed ? max + 1 : 0; /* magnitude of the smallest value */
    double rounded = rint(value);
    uint64_t limit = rounded < 0 ? lowest : max;
    /* Of the 64-bit limits, the conversion or the sum rounds to the power of two, as it should. */
    bool beyond = fabs(rounded) >= (double)limit + 1.0;
    uint64_t size = beyond ? limit : (uint64_t)fabs(rounded);
    *bits = (rounded < 0 ? 0 - size : size) & low_bits(its->bits);
    return true;
}

bool dtype_from_double(Dtype dtype, double value, uint64_t *bits) {
    const DtypeFacts *its = facts_of(dtype);
    switch (its->kind) {
    case KIND_BOOL: *bits = value != 0; return true;
    case KIND_SIGNED:
    case KIND_UNSIGNED: return integer_encode(its, value, bits);
    case KIND_FLOAT:
        if (dtype != DTYPE_DOUBLE) return float_encode(&its->format, double_bits(value), bits);
        *bits = double_bits(value);
        return true;
    case KIND_OTHER:
    case KIND_COMPLEX: break;
    }
    return false;
}

/* The set of a dtype's values: all m * 2^e with |m| < 2^precision and e >= last_place, between
 * lowest and highest; and which of the special ones. */
typedef struct ValueSet {
    int precision, last_place;
    double lowest, highest;
    bool zero, minus_zero, inf, nan;
} ValueSet;

static ValueSet values_of(const DtypeFacts *its) {
    const FloatFormat *format = &its->format;
    if (its->kind == KIND_BOOL) return (ValueSet){.precision = 1, .highest = 1, .zero = true};
    if (its->kind != KIND_FLOAT) {
        int width = its->kind == KIND_SIGNED ? its->bits - 1 : its->bits;
        double past = ldexp(1.0, width);
        return (ValueSet){.precision = width,
                          .lowest = its->kind == KIND_SIGNED ? -past : 0,
                          .highest = width > DOUBLE_MANTISSA ? past : past - 1,
                          .zero = true};
    }
    bool scale = format->special == SPECIAL_SCALE;
    double highest = finite_value(format, max_code(format));
    return (ValueSet){.precision = format->mantissa_bits + 1,
                      .last_place = (scale ? 0 : 1) - format->bias - format->mantissa_bits,
                      .lowest = scale ? 0 : -highest,
                      .highest = highest,
                      .zero = !scale,
                      .minus_zero = !scale && format->special != SPECIAL_FNUZ,
                      .inf = format->special == SPECIAL_IEEE,
                      .nan = format->special != SPECIAL_NONE};
}

/* The dtype of a complex one's two components, or the dtype itself. */
static Dtype component_of(Dtype dtype) {
    if (dtype == DTYPE_COMPLEX64) return DTYPE_FLOAT;
    return dtype == DTYPE_COMPLEX128 ? DTYPE_DOUBLE : dtype;
}

bool dtype_lossless(Dtype from, Dtype to) {
    if (from == to) return true;
    bool complex_from = facts_of(from)->kind == KIND_COMPLEX;
    if (complex_from && facts_of(to)->kind != KIND_COMPLEX) return false;
    const DtypeFacts *a = facts_of(component_of(from)), *b = facts_of(component_of(to));
    if (a->kind == KIND_OTHER || b->kind == KIND_OTHER) return false;
    ValueSet is = values_of(a), has = values_of(b);
    return is.precision <= has.precision && is.last_place >= has.last_place &&
           is.lowest >= has.lowest && is.highest <= has.highest && is.zero <= has.zero &&
           is.minus_zero <= has.minus_zero && is.inf <= has.inf && is.nan <= has.nan;
}
