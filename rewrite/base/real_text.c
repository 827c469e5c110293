// SPDX-License-Identifier: Apache-2.0
/* Real numbers as text in every locale; see real_text.h. snprintf and strtod do the work, on copies
 * in which the locale's decimal point takes the place of ours. */
#include "real_text.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_COPY = 1100, POINT_MOST = 8 };

/* Some locales have a sign of several bytes. */
static const char *decimal_point(void) {
    const char *point = localeconv()->decimal_point;
    return point && point[0] && strlen(point) < POINT_MOST ? point : ".";
}

size_t real_format(char buffer[REAL_TEXT], int digits, double value) {
    char text[REAL_TEXT + POINT_MOST];
    const char *point = decimal_point();
    snprintf(text, sizeof text, "%.*g", digits, value);
    char *at = strstr(text, point);
    if (at) {
        size_t length = strlen(point);
        *at = '.';
        memmove(at + 1, at + length, strlen(at + length) + 1);
    }
    size_t length = strlen(text);
    memcpy(buffer, text, length + 1);
    return length;
}

/* A number for strtod, with the locale's point. False where it is too long to be one. */
static bool copy_number(char copy[NUMBER_COPY + POINT_MOST], const char *text, size_t length) {
    const char *point = decimal_point();
    size_t size = 0;
    bool pointed = false;
    if (length == 0 || length >= NUMBER_COPY) return false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        /* strtod would also read hexadecimal numbers, nan(…), leading space, the locale's point */
        bool sign = c == '+' || c == '-' || c == '.';
        if (!sign && !isalnum((unsigned char)c)) return false;
        if (c == 'x' || c == 'X' || (c == '.' && pointed)) return false;
        pointed |= c == '.';
        for (const char *p = c == '.' ? point : &text[i]; p;) {
            copy[size++] = *p++;
            if (c != '.' || !*p) p = NULL;
        }
    }
    copy[size] = '\0';
    return true;
}

static bool names_infinity(const char *text) {
    return strchr(text, 'i') || strchr(text, 'I');
}

/* Not every C library gives a NaN the sign that the text has: musl doesn't. */
static float sign_of(const char *text) {
    return *text == '-' ? -1 : 1;
}

bool real_read_float(const char *text, size_t length, float *value) {
    char copy[NUMBER_COPY + POINT_MOST], *end;
    if (!copy_number(copy, text, length)) return false;
    *value = copysignf(strtof(copy, &end), sign_of(copy));
    return *end == '\0' && (!isinf(*value) || names_infinity(copy));
}

bool real_read_rounded(const char *text, size_t length, double *value) {
    char copy[NUMBER_COPY + POINT_MOST], *end;
    if (!copy_number(copy, text, length)) return false;
    *value = copysign(strtod(copy, &end), sign_of(copy));
    return *end == '\0';
}

bool real_read(const char *text, size_t length, double *value) {
    if (!real_read_rounded(text, length, value)) return false;
    return !isinf(*value) || memchr(text, 'i', length) || memchr(text, 'I', length);
}
