// SPDX-License-Identifier: Apache-2.0
/* Opening NVIDIA's libraries where they may lie. */
#ifndef DEMI_CUDA_LIBRARY_H
#define DEMI_CUDA_LIBRARY_H

#include "err.h"

/* Opens the library: where the system looks, then where the toolkit puts it, then where pip puts NVIDIA's wheels in
 * the environment that demi is installed in, and in that of $VIRTUAL_ENV. NULL with ERR_ENV. */
void *cuda_library_open(const char *name, Err *err);
/* Its symbol; NULL with ERR_ENV. */
void *cuda_library_symbol(void *library, const char *name, const char *symbol, Err *err);

#endif
