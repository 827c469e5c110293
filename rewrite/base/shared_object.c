// SPDX-License-Identifier: Apache-2.0
/* By POSIX's dlopen; see shared_object.h. */
#include "shared_object.h"

#include <stddef.h>

#ifdef DEMI_STATIC

void *object_open(const char *name, ObjectScope scope, const char **why) {
    (void)name, (void)scope;
    *why = "this demi is linked statically: it loads no libraries";
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

#else

#include <dlfcn.h>

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

#endif
