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

/* False where a test failed, or the process died. */
static bool run_apart(const UnitTests *file) {
    int status = 0;
    printf("%s\n", file->name);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) exit(file->run() != 0);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int run_all(void) {
    unsigned failed = 0;
    for (const UnitTests *file = unit_tests; file->name; file++) {
        if (run_apart(file)) continue;
        fprintf(stderr, "%s: FAILED\n", file->name);
        failed++;
    }
    if (failed) fprintf(stderr, "%u files with failures\n", failed);
    return failed != 0;
}

int main(int argc, char **argv) {
    if (argc == 1) return run_all();
    if (argc == 3) cmocka_set_test_filter(argv[2]);
    for (const UnitTests *file = unit_tests; argc <= 3 && file->name; file++)
        if (!strcmp(argv[1], file->name)) return file->run() != 0;
    fprintf(stderr, "usage: %s [FILE [PATTERN]], where FILE is one of\n", argv[0]);
    for (const UnitTests *file = unit_tests; file->name; file++)
        fprintf(stderr, "    %s\n", file->name);
    return 2;
}
