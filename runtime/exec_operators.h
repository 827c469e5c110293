// SPDX-License-Identifier: Apache-2.0
/* The operators that handle whole values: control flow, sequences, optionals. exec_operators.def
 * lists them. */
#ifndef DEMI_EXEC_OPERATORS_H
#define DEMI_EXEC_OPERATORS_H

#include "exec.h"

#define EXEC_OPERATOR(domain, op, function)                                                        \
    bool exec_##function(Exec *exec, const LoadedStep *step);
#include "exec_operators.def"
#undef EXEC_OPERATOR

#endif
