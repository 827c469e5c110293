// SPDX-License-Identifier: Apache-2.0
/* Real numbers as text with a decimal point, whatever the locale. snprintf and strtod write and
 * read the locale's own sign, which a program that uses the library may have changed; what is
 * written to be read again, and whatever is read, goes through here. */
#ifndef DEMI_BASE_REAL_TEXT_H
#define DEMI_BASE_REAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { REAL_TEXT = 40 }; /* bytes that a number needs, with its NUL */

/* As "%.*g" prints it, NUL-terminated; digits is at most 17. Returns the length. */
size_t real_format(char buffer[REAL_TEXT], int digits, double value);

/* Reads all `length` bytes as a decimal number, inf or nan, rounded to the nearest. False for
 * anything else: other text, hexadecimal numbers, space, numbers past the type's range, and such as
 * have more than a thousand digits. */
bool real_read(const char *text, size_t length, double *value);
bool real_read_float(const char *text, size_t length, float *value);
/* The same, but numbers past the range are infinite. */
bool real_read_rounded(const char *text, size_t length, double *value);

#endif
