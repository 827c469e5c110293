// SPDX-License-Identifier: Apache-2.0
/* demi check of a plan. */
#ifndef DEMI_CHECK_PLAN_H
#define DEMI_CHECK_PLAN_H

#include "console.h"

/* The plan `path` is one, its bytes are those that were written, and where `against` is not NULL, it
 * was made of that file; with --full, also of the data outside of it that the file names, as
 * compiling it again gives the same bytes. False with the error set. */
bool check_plan(Program *program, const Parsed *parsed, const char *path, Err *err);

#endif
