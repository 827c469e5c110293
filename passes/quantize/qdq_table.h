// SPDX-License-Identifier: Apache-2.0
/* Tables whose rows are picked, quantized by rows. */
#ifndef DEMI_QDQ_TABLE_H
#define DEMI_QDQ_TABLE_H

#include "pass.h"

/* A matrix as integers of 8 bits, and a scale for each row; or of 4 bits, and scales for blocks of its rows. */
typedef struct QdqTable {
    Value *numbers,
        *scales;    /* constants [rows, columns] and [rows, 1 or columns / block, rounded up] */
    Value *zeros;   /* of blocks, as scales; NULL: none */
    uint64_t block; /* 0: a scale for each row */
} QdqTable;

/* A product of rows that both were picked from, or of blocks com.microsoft's GatherBlockQuantized, takes the
 * place of the Gather, which is gone. */
void qdq_table_put(PassCtx *ctx, Node *gather, const QdqTable *table);

/* The reverse: where `node` is such a node, a Gather of the whole table takes its place, and the
 * DequantizeLinear that makes it float is returned; else NULL. */
Node *qdq_table_join(PassCtx *ctx, Node *node);

#endif
