// SPDX-License-Identifier: Apache-2.0
/* See cuda_library.h. */
#define _POSIX_C_SOURCE 200809L /* glob */
#include "cuda_library.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared_object.h"

#define PACKAGES "lib/python3*/site-packages/" /* of an environment */
enum { PATH_MOST = 4096 };

/* `folder` as a pattern that only it fits, and what is below it. False where that is too long. */
static bool write_pattern(char *to, const char *folder, const char *below, const char *name) {
    size_t length = 0;
    for (; *folder && length + 2 < PATH_MOST; folder++) {
        if (*folder == '\\' || *folder == '*' || *folder == '?' || *folder == '[')
            to[length++] = '\\';
        to[length++] = *folder;
    }
    const size_t left = PATH_MOST - length;
    const int added = snprintf(to + length, left, "/%snvidia/*/lib/%s", below, name);
    return !*folder && added > 0 && (size_t)added < left;
}

/* The library of one of NVIDIA's wheels, which are in nvidia/PART/lib of a folder of packages. */
static void *open_wheel(const char *folder, const char *below, const char *name) {
    char pattern[PATH_MOST];
    void *library = NULL;
    const char *why;
    glob_t found;
    if (!write_pattern(pattern, folder, below, name) || glob(pattern, 0, NULL, &found)) return NULL;
    for (size_t i = 0; !library && i < found.gl_pathc; i++)
        library = object_open(found.gl_pathv[i], OBJECT_ALONE, &why);
    globfree(&found);
    return library;
}

static void *open_wheels(const char *name) {
    char own[PATH_MOST];
    void *library = NULL;
    if (object_own_folder(own, sizeof own)) {
        library = open_wheel(own, "../", name);                        /* of demi's own package */
        if (!library) library = open_wheel(own, "../" PACKAGES, name); /* of a program in bin */
    }
    const char *active = getenv("VIRTUAL_ENV");
    if (!library && active && *active == '/') library = open_wheel(active, PACKAGES, name);
    return library;
}

void *cuda_library_open(const char *name, Err *err) {
    static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                                          "/usr/lib/x86_64-linux-gnu"};
    const char *why;
    void *library = object_open(name, OBJECT_ALONE, &why);
    for (size_t i = 0; !library && i < sizeof folders / sizeof *folders; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        library = object_open(path, OBJECT_ALONE, &why);
    }
    if (!library) library = open_wheels(name);
    if (library) return library;
    err_set(err, ERR_ENV, "%s is missing", name);
    err_hint(err, "install it, or name its folder in LD_LIBRARY_PATH");
    return NULL;
}

void *cuda_library_symbol(void *library, const char *name, const char *symbol, Err *err) {
    void *found = object_symbol(library, symbol);
    if (!found) err_set(err, ERR_ENV, "%s has no %s", name, symbol);
    return found;
}
