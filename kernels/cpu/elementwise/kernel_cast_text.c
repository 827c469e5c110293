// SPDX-License-Identifier: Apache-2.0
/* Casts between strings and numbers; see kernel_cast_text.h.
 *
 * The locale's decimal sign, which the program that loads the library may have changed, is not
 * looked at in what is written.
 */
#include "kernel_cast_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_convert.h"
#include "real_text.h"

enum { NUMBER_LIMIT = 1100, /* longer than any double's exact digits */ TEXT_LIMIT = 48 };

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_word(const char *text, const char *word) {
    size_t i = 0;
    for (; text[i] && word[i]; i++)
        if (tolower((unsigned char)text[i]) != word[i]) return false;
    return !text[i] && !word[i];
}

static bool read_real(char *text, double *value) {
    const char *start = text + (*text == '+' || *text == '-');
    bool special = is_word(start, "inf") || is_word(start, "infinity") || is_word(start, "nan");
    for (const char *c = text; *c && !special; c++)
        if (!strchr("0123456789+-.eE", *c)) return false;
    return real_read_rounded(text, strlen(text), value);
}

/* Decimal digits alone, within 64 bits; the bits in *value, those of a negative one negated. */
static bool read_integer(const char *text, uint64_t *value) {
    bool negative = *text == '-';
    text += *text == '+' || *text == '-';
    *value = 0;
    if (!*text) return false;
    for (; *text; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, digit, value))
            return false;
    }
    if (negative && *value > UINT64_C(1) << 63) return false;
    if (negative) *value = 0 - *value;
    return true;
}

/* The text without space around it, NUL-terminated; false where it is too long to be a number. */
static bool copy_trimmed(KernelString string, char copy[NUMBER_LIMIT]) {
    const char *text = string.text;
    uint64_t size = string.size;
    for (; size && isspace((unsigned char)*text); text++) size--;
    while (size && isspace((unsigned char)text[size - 1])) size--;
    if (size == 0 || size >= NUMBER_LIMIT || memchr(text, 0, size)) return false;
    memcpy(copy, text, size);
    copy[size] = 0;
    return true;
}

static bool fits_integer(Dtype dtype, const char *text, uint64_t whole) {
    if (dtype == DTYPE_UINT64) return *text != '-' || whole == 0;
    return *text == '-' || whole <= INT64_MAX;
}

static bool read_element(KernelString string, Dtype dtype, void *to) {
    char text[NUMBER_LIMIT];
    uint64_t whole = 0;
    double real = 0;
    if (!copy_trimmed(string, text)) return false;
    if (dtype == DTYPE_BOOL && (is_word(text, "true") || is_word(text, "false"))) {
        *(uint8_t *)to = is_word(text, "true");
        return true;
    }
    bool wide = dtype == DTYPE_INT64 || dtype == DTYPE_UINT64;
    if (wide && read_integer(text, &whole) && fits_integer(dtype, text, whole)) {
        memcpy(to, &whole, sizeof whole);
        return true;
    }
    if (!read_real(text, &real)) return false;
    return kernel_convert(dtype, to, DTYPE_DOUBLE, &real, 1, NULL);
}

bool kernel_cast_from_text(KernelCall *call, const KernelTensor *in, KernelTensor *out) {
    const KernelString *strings = in->data;
    size_t size = kernel_element_size(out->dtype);
    for (uint64_t i = 0; i < in->count; i++)
        if (!read_element(strings[i], out->dtype, (char *)out->data + i * size)) {
            int shown = strings[i].size < 40 ? (int)strings[i].size : 40;
            return kernel_fail(call, "cannot convert \"%.*s\" to %s", shown, strings[i].text,
                               dtype_name(out->dtype));
        }
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The fewest decimal digits, and the power of ten of the first, that read back as these bits. */
static int find_digits(Dtype dtype, double size, char digits[TEXT_LIMIT], int *exponent) {
    uint64_t wanted = 0, got = 0;
    dtype_from_double(dtype, size, &wanted);
    int count = 0;
    for (int most = 1; most <= 17; most++) {
        char text[TEXT_LIMIT];
        snprintf(text, sizeof text, "%.*e", most - 1, size);
        dtype_from_double(dtype, strtod(text, NULL), &got);
        char *c = text;
        for (count = 0; *c != 'e'; c++)
            if (*c >= '0' && *c <= '9') digits[count++] = *c;
        *exponent = (int)strtol(c + 1, NULL, 10);
        if (got == wanted) break;
    }
    while (count > 1 && digits[count - 1] == '0') count--;
    return count;
}

static size_t write_plain(const char *digits, int count, int exponent, char *to) {
    size_t n = 0;
    if (exponent < 0) {
        to[n++] = '0';
        to[n++] = '.';
        for (int i = -1; i > exponent; i--) to[n++] = '0';
    }
    for (int i = 0; i < count || i <= exponent; i++) {
        to[n++] = i < count ? digits[i] : '0';
        if (i == exponent) to[n++] = '.';
    }
    if (to[n - 1] == '.') to[n++] = '0';
    return n;
}

static size_t write_real(Dtype dtype, double value, char to[TEXT_LIMIT]) {
    char digits[TEXT_LIMIT];
    int exponent = 0;
    size_t n = 0;
    if (isnan(value)) return (size_t)snprintf(to, TEXT_LIMIT, "nan");
    if (signbit(value)) to[n++] = '-';
    if (isinf(value)) return n + (size_t)snprintf(to + n, TEXT_LIMIT - n, "inf");
    int count = value == 0 ? 1 : find_digits(dtype, fabs(value), digits, &exponent);
    if (value == 0) digits[0] = '0';
    if (exponent >= -4 && exponent < 16) return n + write_plain(digits, count, exponent, to + n);
    to[n++] = digits[0];
    if (count > 1) to[n++] = '.';
    for (int i = 1; i < count; i++) to[n++] = digits[i];
    return n + (size_t)snprintf(to + n, TEXT_LIMIT - n, "e%c%02d", exponent < 0 ? '-' : '+',
                                abs(exponent));
}

static size_t write_element(const KernelTensor *in, uint64_t i, char to[TEXT_LIMIT]) {
    if (in->dtype == DTYPE_BOOL)
        return (size_t)snprintf(to, TEXT_LIMIT, "%s",
                                ((const uint8_t *)in->data)[i] ? "True" : "False");
    if (!dtype_is_integer(in->dtype)) return write_real(in->dtype, kernel_real(in, i), to);
    int64_t value = 0;
    kernel_convert(DTYPE_INT64, &value, in->dtype,
                   (const char *)in->data + i * kernel_element_size(in->dtype), 1, NULL);
    if (in->dtype == DTYPE_UINT64)
        return (size_t)snprintf(to, TEXT_LIMIT, "%" PRIu64, (uint64_t)value);
    return (size_t)snprintf(to, TEXT_LIMIT, "%" PRId64, value);
}

bool kernel_cast_to_text(KernelCall *call, const KernelTensor *in, KernelTensor *out) {
    KernelString *strings = out->data;
    if (in->dtype == DTYPE_COMPLEX64 || in->dtype == DTYPE_COMPLEX128)
        return kernel_fail(call, "cannot convert %s to text", dtype_name(in->dtype));
    for (uint64_t i = 0; i < in->count; i++) {
        char text[TEXT_LIMIT];
        size_t size = write_element(in, i, text);
        strings[i] = (KernelString){size, memcpy(kernel_chars(call, size), text, size)};
    }
    return true;
}
