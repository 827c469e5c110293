// SPDX-License-Identifier: Apache-2.0
/* What other tools leave in their models and nothing depends on: it is put right, and said. */
#ifndef DEMI_REPAIR_H
#define DEMI_REPAIR_H

#include "pass.h"

/* Of a model that strict_check refuses:
 *   - types and shapes that outputs and value_info declare, and operators do not give, become those that
 *     they give;
 *   - value_info entries that repeat a name, or stand for a value of another graph, and say something else
 *     than what it has, are dropped;
 *   - Casts whose results are declared as another type, where what reads them takes that alone, give it:
 *     such as converters to float16 leave behind comparisons;
 *   - graphs without a name get one.
 * Each with a remark, which says that it was done `when`: "before the passes". False where operators
 * themselves do not fit: then nothing is changed but names. The caller checks again. */
bool repair_model(PassCtx *ctx, const char *when);

#endif
