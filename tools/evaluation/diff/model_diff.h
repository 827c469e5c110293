// SPDX-License-Identifier: Apache-2.0
/* What differs between two models: nodes, types, shapes, weights, interface, versions.
 *
 * Parts are matched by name: values and weights by theirs, nodes by theirs or, where they have
 * none, by their first output's, a second one of the same name by its number; subgraphs by the node
 * and attribute that hold them; functions by domain, name and overload. Order, doc strings,
 * metadata and where weights are stored do not count. Weights are compared by value and read in
 * pieces.
 */
#ifndef DEMI_MODEL_DIFF_H
#define DEMI_MODEL_DIFF_H

#include "arena.h"
#include "demi_trials.h"
#include "graph.h"

/* The text of a difference lives until the callback returns. */
typedef void (*DiffVisit)(void *data, const DemiDifference *difference);

/* Calls visit for each difference, in a's order, then what only b has. False with *err set where
 * weights can't be read. Linear in the models' sizes. */
bool model_diff(const Model *a, const Model *b, Arena *scratch, DiffVisit visit, void *data,
                Err *err);

#endif
