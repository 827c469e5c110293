// SPDX-License-Identifier: Apache-2.0
/* See memory_return.h. */
#include "memory_return.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { MUCH = 64 << 20 };

void memory_return(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void memory_return_much(void) {
#if defined __GLIBC__ && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    if (mallinfo2().fordblks >= MUCH) malloc_trim(0);
#endif
}
