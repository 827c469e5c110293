// SPDX-License-Identifier: Apache-2.0
/* See cuda_library.h. */
#include "cuda_library.h"

#include <stdio.h>

#include "shared_object.h"

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
