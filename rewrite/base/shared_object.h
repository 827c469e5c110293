// SPDX-License-Identifier: Apache-2.0
/* Libraries that are opened while the program runs: plug-ins, oneDNN, CUDA's, Open MPI. The only place
 * that knows how the system does that, and that a program may be linked so that it can't
 * (DEMI_STATIC). */
#ifndef DEMI_BASE_SHARED_OBJECT_H
#define DEMI_BASE_SHARED_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ObjectScope {
    OBJECT_ALONE, /* nothing else sees its symbols */
    OBJECT_SHARED /* what is loaded later does: for libraries that load parts of their own */
} ObjectScope;

/* A name with a slash is a path, any other is looked for where the system looks for libraries. NULL on
 * failure, with *why a line that the system owns until the next call in this thread; never NULL. */
void *object_open(const char *name, ObjectScope scope, const char **why);

/* Whether the process has it already. */
bool object_is_loaded(const char *name);

/* The address of a function or variable; NULL: there is none of that name. */
void *object_symbol(void *object, const char *name);

void object_close(void *object);

/* The folder that the file with this function lies in, a program or a library, without links and without a
 * slash at its end. False where that is unknown or longer than `size`. */
bool object_own_folder(char *to, size_t size);

#endif
