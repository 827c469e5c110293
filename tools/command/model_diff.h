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
#include "graph.h"

typedef enum DiffChange { DIFF_REMOVED, DIFF_ADDED, DIFF_CHANGED } DiffChange;

typedef enum DiffKind {
    DIFF_MODEL,    /* versions and imports */
    DIFF_INPUT,    /* of a graph */
    DIFF_OUTPUT,   /* of a graph */
    DIFF_WEIGHT,   /* initializer */
    DIFF_NODE,
    DIFF_TYPE,     /* of a value that a node gives */
    DIFF_FUNCTION,
    DIFF_KINDS
} DiffKind;

/* One difference; the text lives until the callback returns. */
typedef struct Difference {
    DiffKind kind;
    DiffChange change;
    const char *graph;   /* path; "" for the main graph */
    const char *name;
    const char *op_type; /* of a node; else "" */
    const char *what;    /* CHANGED: what of it; else "" */
    const char *a, *b;   /* what it was and is; "" where it is not there, or too large to say */
} Difference;

typedef void (*DiffVisit)(void *data, const Difference *difference);

/* Calls visit for each difference, in a's order, then what only b has. False with *err set where
 * weights can't be read. Linear in the models' sizes. */
bool model_diff(const Model *a, const Model *b, Arena *scratch, DiffVisit visit, void *data,
                Err *err);

/* "node", "weight", … */
const char *diff_kind_name(DiffKind kind);

#endif
