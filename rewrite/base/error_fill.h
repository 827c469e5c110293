// SPDX-License-Identifier: Apache-2.0
/* From the libraries' Err to a caller's DemiError. */
#ifndef DEMI_ERROR_FILL_H
#define DEMI_ERROR_FILL_H

#include "demi_error.h"
#include "err.h"

/* Fills *error, which may be NULL, unless it already holds one; as far as its own `size` goes. */
void error_fill(DemiError *error, DemiStatus status, const Err *err);

#endif
