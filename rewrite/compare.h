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

typedef struct CompareOptions {
    /* Compares the raw bytes (equally many) of two tensors; NULL: both are read. False with *err
     * set where they differ or can't be read. */
    bool (*same_data)(void *data, const Tensor *a, const Tensor *b, Err *err);
    void *data;
} CompareOptions;

/* True where a and b are equal. Otherwise ERR_MODEL that names the first difference: graph, node
 * and operand of a, `expected` what a has and `actual` what b has where that is short. options may
 * be NULL. Linear in the size of the models. */
bool model_compare(const Model *a, const Model *b, const CompareOptions *options, Err *err);

/* Compares the raw bytes of two tensors, reading both in pieces; what same_data does by default. */
bool tensor_compare_raw(const Tensor *a, const Tensor *b, uint64_t size, Err *err);

#endif
