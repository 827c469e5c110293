// SPDX-License-Identifier: Apache-2.0
/* Between the libraries' Err and a caller's DemiError. */
#ifndef DEMI_ERROR_FILL_H
#define DEMI_ERROR_FILL_H

#include "demi_error.h"
#include "err.h"

/* Fills *error, which may be NULL, unless it already holds one; as far as its own `size` goes. */
void error_fill(DemiError *error, DemiStatus status, const Err *err);

/* The other way, for who calls public functions within: true where status is DEMI_OK; otherwise
 * *err is filled, unless it is set already. A cancelled call is ERR_ENV. */
bool error_take(Err *err, DemiStatus status, const DemiError *error);

#endif
