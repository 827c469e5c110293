// SPDX-License-Identifier: Apache-2.0
/* Is a model its reference but for precision? What can be told without running either.
 *
 * Casts between float, float16 and bfloat16 and Constant nodes are looked through on both sides.
 * What remains must be the same graph: the same nodes with the same operands, in order; the same
 * names, shapes, metadata, doc strings and unknown fields of nodes; the same weights, or the
 * reference's rounded to nearest even. float32 may have become float16 or bfloat16 wherever a type
 * is said, and opsets may have been raised. Types of both models must be exact (infer-dtypes).
 */
#ifndef DEMI_MODEL_AGAINST_H
#define DEMI_MODEL_AGAINST_H

#include "arena.h"
#include "graph.h"

/* One difference, as a line without newline; the text lives until the callback returns. */
typedef void (*AgainstVisit)(void *data, const char *line);

/* Calls visit for each difference of `model` from `reference`. False with *err set where weights
 * can't be read. Linear in the models' sizes, but for sorting names. */
bool model_against(const Model *model, const Model *reference, Arena *scratch, AgainstVisit visit,
                   void *data, Err *err);

#endif
