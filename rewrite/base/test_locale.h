// SPDX-License-Identifier: Apache-2.0
/* For tests: a locale with another decimal sign, made with localedef where it is asked for, since
 * few systems have any but C. */
#ifndef DEMI_BASE_TEST_LOCALE_H
#define DEMI_BASE_TEST_LOCALE_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

static char test_locale_folder[] = "/tmp/demi-locale-XXXXXX";

/* Removes what test_locale_set made, and goes back to C. */
static inline void test_locale_reset(void) {
    char command[200];
    setlocale(LC_ALL, "C");
    snprintf(command, sizeof command, "rm -rf %s", test_locale_folder);
    if (system(command) != 0) fail_msg("%s", command);
    memcpy(test_locale_folder + strlen(test_locale_folder) - 6, "XXXXXX", 6);
}

/* Sets LC_NUMERIC to a locale with this sign, as localedef spells it: "," or "<U066B>". Fails the
 * test where there is no localedef or it can't make one (on Debian: the package locales). */
static inline void test_locale_set(const char *point) {
    char command[400], path[100];
    assert_non_null(mkdtemp(test_locale_folder));
    snprintf(path, sizeof path, "%s/source", test_locale_folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "escape_char /\nLC_NUMERIC\ndecimal_point \"%s\"\nthousands_sep \"\"\ngrouping -1\n"
            "END LC_NUMERIC\n",
            point);
    assert_int_equal(fclose(file), 0);
    /* it warns of categories that are missing, and says so by its exit code */
    snprintf(command, sizeof command, "localedef --no-archive -c -f UTF-8 -i %s %s/odd 2>/dev/null",
             path, test_locale_folder);
    int status = system(command);
    setenv("LOCPATH", test_locale_folder, 1);
    if (!setlocale(LC_NUMERIC, "odd"))
        fail_msg("no locale was made (exit %d): %s", status, command);
    if (strcmp(localeconv()->decimal_point, ".") == 0) fail_msg("the locale has a point");
}

#endif
