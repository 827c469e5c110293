// SPDX-License-Identifier: Apache-2.0
/* Tables whose rows are picked, quantized by rows. */
#ifndef DEMI_QDQ_TABLE_H
#define DEMI_QDQ_TABLE_H

#include "pass.h"

/* A matrix as integers, and a scale for each row. */
typedef struct QdqTable {
    Value *numbers, *scales; /* constants [rows, columns] and [rows, 1] */
} QdqTable;

/* A product of rows that both were picked from takes the place of the Gather, which is gone. */
void qdq_table_put(PassCtx *ctx, Node *gather, const QdqTable *table);

/* The reverse: where `node` is such a product, a Gather of the whole table takes its place, and the
 * DequantizeLinear that makes it float is returned; else NULL. */
Node *qdq_table_join(PassCtx *ctx, Node *node);

#endif
