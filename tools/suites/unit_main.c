// SPDX-License-Identifier: Apache-2.0
/* The program of a library's unit tests:
 *
 *     build/release/kernels_tests                       all of them, each file in a process of its own
 *     build/release/kernels_tests gemm_test             those of gemm_test.c
 *     build/release/kernels_tests gemm_test 'test_s*'   those of them whose names match
 */
#define _POSIX_C_SOURCE 200809L /* fork */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

MemTrap test_trap;
Arena test_arena;

static TestRow *unit_tests; /* by file and line */

static bool comes_before(const TestRow *a, const TestRow *b) {
    const int order = strcmp(a->file, b->file);
    return order < 0 || (order == 0 && a->line < b->line);
}

void unit_test_add(TestRow *test) {
    TestRow **at = &unit_tests;
    while (*at && comes_before(*at, test)) at = &(*at)->next;
    test->next = *at;
    *at = test;
}

/* The first test of the next file, or NULL. */
static TestRow *next_file(const TestRow *test) {
    TestRow *next = test->next;
    while (next && !strcmp(next->file, test->file)) next = next->next;
    return next;
}

/* gemm_test of kernels/cpu/gemm/gemm_test.c. */
static const char *file_name(const TestRow *test, char name[static 64]) {
    const char *slash = strrchr(test->file, '/');
    snprintf(name, 64, "%s", slash ? slash + 1 : test->file);
    name[strcspn(name, ".")] = 0;
    return name;
}

static const TestRow *running;

static int set_up(void **state) {
    running = *state;
    *state = NULL;
    arena_init(&test_arena, &test_trap);
    if (setjmp(test_trap.env)) return -1;
    return running->set_up ? running->set_up(state) : 0;
}

static void run_one(void **state) {
    if (setjmp(test_trap.env)) fail_msg("out of memory");
    running->run(*state);
}

static int tear_down(void **state) {
    if (setjmp(test_trap.env)) return -1;
    const int failed = running->tear_down ? running->tear_down(state) : 0;
    arena_free(&test_arena);
    return failed;
}

/* Runs the tests of the file, whose first one this is; false where one failed. */
static bool run_file(TestRow *first) {
    const TestRow *end = next_file(first);
    CMFixtureFunction before = NULL, after = NULL;
    char name[64];
    size_t count = 0;
    for (const TestRow *test = first; test != end; test = test->next) count++;
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    if (!tests) return false;
    count = 0;
    for (TestRow *test = first; test != end; test = test->next) {
        if (!test->run && test->set_up) before = test->set_up;
        if (!test->run && test->tear_down) after = test->tear_down;
        if (!test->run) continue;
        test->set_up = before;
        test->tear_down = after;
        tests[count++] = (struct CMUnitTest){test->name, run_one, set_up, tear_down, test};
    }
    const int failed = _cmocka_run_group_tests(file_name(first, name), tests, count, NULL, NULL);
    free(tests);
    return failed == 0;
}

/* False where a test failed, or the process died. */
static bool run_apart(TestRow *first) {
    char name[64];
    int status = 0;
    printf("%s\n", file_name(first, name));
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) exit(!run_file(first));
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int run_all(void) {
    char name[64];
    unsigned failed = 0;
    for (TestRow *first = unit_tests; first; first = next_file(first)) {
        if (run_apart(first)) continue;
        fprintf(stderr, "%s: FAILED\n", file_name(first, name));
        failed++;
    }
    if (failed) fprintf(stderr, "%u files with failures\n", failed);
    return failed != 0;
}

int main(int argc, char **argv) {
    char name[64];
    if (argc == 1) return run_all();
    if (argc == 3) cmocka_set_test_filter(argv[2]);
    for (TestRow *first = unit_tests; argc <= 3 && first; first = next_file(first))
        if (!strcmp(argv[1], file_name(first, name))) return !run_file(first);
    fprintf(stderr, "usage: %s [FILE [PATTERN]], where FILE is one of\n", argv[0]);
    for (const TestRow *first = unit_tests; first; first = next_file(first))
        fprintf(stderr, "    %s\n", file_name(first, name));
    return 2;
}
