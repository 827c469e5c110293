// SPDX-License-Identifier: Apache-2.0
/* See memory_return.h. */
#include "memory_return.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void memory_return(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
