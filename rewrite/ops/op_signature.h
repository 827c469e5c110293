// SPDX-License-Identifier: Apache-2.0
/* Operators of the user's own, declared by a signature:
 *
 *     com.x.Rope(T, T?, int64...) -> T; T = float|float16
 *
 * DOMAIN.OPERATOR(inputs) -> outputs; type variables. An operand is a dtype or a type variable, and
 * behind it '?' where it may be absent, '...' where it (the last one) may be repeated. Several
 * outputs stand in brackets. Every variable is given its dtypes after a ';' and occurs among the
 * inputs, so that each output's type follows. All operands are tensors.
 */
#ifndef DEMI_OP_SIGNATURE_H
#define DEMI_OP_SIGNATURE_H

#include "ops.h"
#include "pass.h"

typedef struct OpSignatures {
    const OpSchema *const *items;
    size_t count;
} OpSignatures;

/* In `arena`. ERR_USAGE where one is malformed, or names a domain whose operators demi knows. */
bool op_signatures_parse(const PassStrings *texts, Arena *arena, OpSignatures *out, Err *err);

#endif
