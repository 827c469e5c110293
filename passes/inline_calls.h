// SPDX-License-Identifier: Apache-2.0
/* Bodies of a model's own functions in place of their calls; see inline_calls.c. */
#ifndef DEMI_INLINE_CALLS_H
#define DEMI_INLINE_CALLS_H

#include "pass.h"

/* Inlines the calls, in the model's graph and its subgraphs, of each function i of the model with
 * chosen[i], and of those that the bodies call in turn; NULL: of all. The graph around gets the imports
 * that it lacks. Where a body is of other versions of operators, ERR_MODEL with `refusal` for the call;
 * NULL: the call stays. ERR_MODEL, too, where the bodies come to more than memory has room for. Types and
 * shapes of what is put in are not inferred. */
bool calls_inline(PassCtx *ctx, const bool *chosen, const char *refusal, Err *err);

#endif
