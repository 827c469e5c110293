// SPDX-License-Identifier: Apache-2.0
/* Exact comparison of two models: is what was written what was meant?
 *
 * Everything a file can say is compared: names, order, presence of fields, declarations,
 * attributes, metadata, kept unknown fields, and which definition each name refers to. Not compared
 * is what no file says (known types, notes, ids) and where raw data lies: raw_data, an external
 * file and a lazy cast are equal when their bytes are. Of a tensor in an external file its
 * external_data entries are not compared either.
 */
#ifndef DEMI_COMPARE_H
#define DEMI_COMPARE_H

#include "graph.h"

/* How much of a graph was compared already, where it is compared in parts. Starts as {0}. */
typedef struct GraphCursor {
    const Node *node;         /* the last one compared; NULL: none was */
    const KeyValue *metadata; /* likewise */
    uint32_t nodes;
    size_t inputs, outputs, initializers, sparse_initializers, infos, annotations;
} GraphCursor;

typedef struct CompareOptions {
    /* Compares the raw bytes (equally many) of two tensors; NULL: both are read. False with *err
     * set where they differ or can't be read. */
    bool (*same_data)(void *data, const Tensor *a, const Tensor *b, Err *err);
    void *data;
    GraphCursor *compared; /* what graph_compare_part has compared of a's main graph: the one of b
                              holds the remainder; NULL: all of it */
} CompareOptions;

/* True where a and b are equal. Otherwise ERR_MODEL that names the first difference: graph, node
 * and operand of a, `expected` what a has and `actual` what b has where that is short. options may
 * be NULL. Linear in the size of the models. */
bool model_compare(const Model *a, const Model *b, const CompareOptions *options, Err *err);

/* True where b holds what comes next in `a`, the main graph of its model, behind
 * *options->compared, which moves on: some of its nodes, inputs, initializers, …, each in a's
 * order. The graph's name, doc string and unknown fields are left to the last part, which is for
 * model_compare. What a name refers to outside its part is not compared: in models whose names are
 * unique, names suffice. */
bool graph_compare_part(const Graph *a, const Graph *b, const CompareOptions *options, Err *err);

/* Compares the raw bytes of two tensors, reading both in pieces; what same_data does by default. */
bool tensor_compare_raw(const Tensor *a, const Tensor *b, uint64_t size, Err *err);

#endif
