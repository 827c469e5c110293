// SPDX-License-Identifier: Apache-2.0
/* Checks of a model.
 *
 * model_verify checks the structure's own invariants (use lists, ownership, names unique in their
 * graph, definitions before uses, everything that is read is defined, tensors as long as their
 * shapes say). It holds for every valid model and after every pass; passes are tested with it.
 * Operators are checked against their schemas by model_check. Both take memory from `scratch`.
 */
#ifndef DEMI_VERIFY_H
#define DEMI_VERIFY_H

#include "graph.h"

/* ERR_MODEL naming the graph and node of the first violation. */
bool model_verify(const Model *model, Arena *scratch, Err *err);

/* model_verify, and every node of a known operator against its schema at the imported opset:
 * the operator exists there and is not deprecated, input and output counts, required attributes and
 * attribute types, and (types that are known) the allowed types of every operand. */
bool model_check(const Model *model, Arena *scratch, Err *err);

#endif
