// SPDX-License-Identifier: Apache-2.0
/* For tests: where their files go. tools/test has TMPDIR in memory, where nothing waits for a disk. */
#ifndef DEMI_BASE_TEST_FOLDER_H
#define DEMI_BASE_TEST_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

/* Writes the path of a file of that name, a template of mkstemp's or mkdtemp's, in TMPDIR or /tmp. */
static inline void test_place(char *path, size_t size, const char *name) {
    const char *folder = getenv("TMPDIR");
    const int length = snprintf(path, size, "%s/%s", folder ? folder : "/tmp", name);
    if (length < 0 || (size_t)length >= size) abort();
}

#endif
