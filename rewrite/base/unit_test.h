// SPDX-License-Identifier: Apache-2.0
/* What unit tests are made of: cmocka with the headers that it wants before it, and TEST:
 *
 *     TEST(test_sizes) {
 *         assert_int_equal(arena_size(&test_arena), 0);
 *     }
 *
 * A test is registered where it is defined: there is no list to keep. Those of a library are one
 * program, tools/suites/unit_main.c, which runs each file's in their order there. */
#ifndef DEMI_UNIT_TEST_H
#define DEMI_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arena.h"

/* A test that memory runs out of by way of this trap fails. */
extern MemTrap test_trap;
/* Empty when a test begins, and freed after it. Its trap is test_trap. */
extern Arena test_arena;

/* A test, or what goes before and after the tests that follow it in its file (`run` is NULL). */
typedef struct TestRow {
    const char *name, *file;
    int line;
    void (*run)(void *state);
    CMFixtureFunction set_up, tear_down;
    struct TestRow *next;
} TestRow;
void unit_test_add(TestRow *test);

#define UNIT_TEST_ADD(id, ...)                                                                     \
    __attribute__((constructor)) static void id##_add(void) {                                      \
        static TestRow test = {#id, __FILE__, __LINE__, __VA_ARGS__, NULL};                        \
        unit_test_add(&test);                                                                      \
    }

/* Before the body of a test. */
#define TEST(name)                                                                                 \
    static void name(void);                                                                        \
    static void name##_run(void *given) {                                                          \
        (void)given;                                                                               \
        name();                                                                                    \
    }                                                                                              \
    UNIT_TEST_ADD(name, name##_run, NULL, NULL)                                                    \
    static void name(void)

/* Before the body of a test that takes the state which its fixture made: TEST_WITH(test_a, Net *n). */
#define TEST_WITH(name, parameter)                                                                 \
    static void name(parameter);                                                                   \
    static void name##_run(void *given) {                                                          \
        name(given);                                                                               \
    }                                                                                              \
    UNIT_TEST_ADD(name, name##_run, NULL, NULL)                                                    \
    static void name(parameter)

/* Before the body of what goes before, or after, each test that follows in the file. */
#define SET_UP    UNIT_TEST_FIXTURE(set_up, set_up_run, NULL)
#define TEAR_DOWN UNIT_TEST_FIXTURE(tear_down, NULL, tear_down_run)
#define UNIT_TEST_FIXTURE(name, before, after)                                                     \
    static void name(void);                                                                        \
    static int name##_run(void **given) {                                                          \
        (void)given;                                                                               \
        name();                                                                                    \
        return 0;                                                                                  \
    }                                                                                              \
    UNIT_TEST_ADD(name, NULL, before, after)                                                       \
    static void name(void)

/* The same, of two functions as cmocka has them: they make the tests' state, and free it. */
#define TEST_FIXTURE(before, after)                                                                \
    UNIT_TEST_ADD(before, NULL, before, after)                                                     \
    struct TestRow

/* How far tests with many cases, numbered from 0, go on each time: all run in release builds and at night
 * (tools/test --nightly sets DEMI_WHOLE), one in five with sanitizers, which take ten times as long. It is odd, so
 * that each bit of the number is met both ways. */
static inline int case_step(void) {
#ifdef DEMI_SANITIZED
    return getenv("DEMI_WHOLE") ? 1 : 5;
#else
    return 1;
#endif
}

#endif
