// SPDX-License-Identifier: Apache-2.0
/* The operators that handle whole values (EXEC of operators/): control flow, sequences, optionals. */
#ifndef DEMI_EXEC_OPERATORS_H
#define DEMI_EXEC_OPERATORS_H

#include "exec.h"

#define OPERATOR(domain, name, ...) __VA_ARGS__
#define EXEC(function)              bool exec_##function(Exec *exec, const LoadedStep *step);
#include "operators.def"

#endif
