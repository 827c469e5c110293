// SPDX-License-Identifier: Apache-2.0
/* What unit tests are made of: cmocka with the headers that it wants before it, and UNIT_TESTS, which
 * a file X_test.c ends with:
 *
 *     UNIT_TESTS(X_test) {
 *         const struct CMUnitTest tests[] = {cmocka_unit_test(test_a), cmocka_unit_test(test_b)};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * Those of a library are one program, tools/suites/unit_main.c with a table that CMakeLists.txt makes. */
#ifndef DEMI_UNIT_TEST_H
#define DEMI_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Before the body of a function that runs the file's tests and returns how many failed. */
#define UNIT_TESTS(name)                                                                           \
    int name(void);                                                                                \
    int name(void)

/* The files of a program, by name; a row of NULL ends them. */
typedef struct UnitTests {
    const char *name;
    int (*run)(void);
} UnitTests;
extern const UnitTests unit_tests[];

#endif
