// SPDX-License-Identifier: Apache-2.0
/* By POSIX's dlopen; see shared_object.h. */
#define _GNU_SOURCE /* dladdr, realpath */
#include "shared_object.h"

#ifdef DEMI_STATIC

void *object_open(const char *name, ObjectScope scope, const char **why) {
    (void)name, (void)scope;
    *why = "this demi is statically linked and cannot load libraries";
    return NULL;
}

bool object_is_loaded(const char *name) {
    (void)name;
    return false;
}

void *object_symbol(void *object, const char *name) {
    (void)object, (void)name;
    return NULL;
}

void object_close(void *object) {
    (void)object;
}

bool object_own_folder(char *to, size_t size) {
    (void)to, (void)size;
    return false;
}

#else

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *object_open(const char *name, ObjectScope scope, const char **why) {
    void *object = dlopen(name, RTLD_NOW | (scope == OBJECT_SHARED ? RTLD_GLOBAL : RTLD_LOCAL));
    if (object) return object;
    *why = dlerror();
    if (!*why) *why = "unknown reason";
    return NULL;
}

bool object_is_loaded(const char *name) {
    void *object = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (object) dlclose(object);
    return object != NULL;
}

void *object_symbol(void *object, const char *name) {
    return dlsym(object, name);
}

void object_close(void *object) {
    dlclose(object);
}

bool object_own_folder(char *to, size_t size) {
    static const char here = 0;
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname) return false;
    /* a program that PATH found is known by its name alone */
    const bool path = strchr(info.dli_fname, '/') != NULL;
    char *whole = realpath(path ? info.dli_fname : "/proc/self/exe", NULL);
    char *slash = whole ? strrchr(whole, '/') : NULL;
    bool ok = slash != NULL;
    if (ok) {
        *slash = '\0';
        ok = snprintf(to, size, "%s", whole) < (int)size;
    }
    free(whole);
    return ok;
}

#endif
