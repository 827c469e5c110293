// SPDX-License-Identifier: Apache-2.0
/* Which weights that are quantized already a request would store otherwise: those that strip-qdq makes float, so that
 * insert-qdq stores them anew. */
#ifndef DEMI_STORED_WEIGHTS_H
#define DEMI_STORED_WEIGHTS_H

#include "qdq_plan.h"

typedef enum StoredAs {
    STORED_WANTED, /* as the request would have them: their type and blocks, or scales that several blocks share */
    STORED_OTHERWISE, /* the request would store them in another way */
    STORED_INTEGERS,  /* what they are multiplied by is quantized, too */
    STORED_NOT,       /* no weights that the request has a type for */
} StoredAs;

/* Of a DequantizeLinear of constants, and the products that read it, or a Transpose of it: the first of these answers
 * that one of them gives, from the last on. Its type must be inferred. */
StoredAs stored_dequantized(const QdqRequest *request, const Node *dequantize, Arena *scratch);

/* Of one of com.microsoft's operators (wide_weights.h). */
StoredAs stored_in_operator(const QdqRequest *request, const Node *node);

/* Of the last of the nodes that pick rows of a table and make them float, as insert-qdq puts them. */
StoredAs stored_in_table(const QdqRequest *request, const Node *last);

#endif
