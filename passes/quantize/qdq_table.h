// SPDX-License-Identifier: Apache-2.0
/* Tables whose rows are picked, quantized by rows. */
#ifndef DEMI_QDQ_TABLE_H
#define DEMI_QDQ_TABLE_H

#include "qdq_plan.h"

enum {
    QDQ_TABLE_BLOCK = 32, /* of tables of 4 bits, where that divides the columns */
    QDQ_PACKED_RANK = 4   /* of a packed table's constants */
};

/* A matrix as integers of 8 bits, and a scale for each row; or of 4 bits, and scales for blocks of its rows. */
typedef struct QdqTable {
    Value *numbers,
        *scales;    /* constants [rows, columns] and [rows, 1 or columns / block, rounded up] */
    Value *zeros;   /* of blocks, as scales; NULL: none */
    uint64_t block; /* 0: a scale for each row */
    /* Numbers are bytes [rows, blocks, block / 2, 1], each the number 2k in its lower half and 2k + 1 in its upper one;
     * scales, and zero points as bytes, are [rows, blocks, 1, 1]. */
    bool packed;
} QdqTable;

/* A product of rows that both were picked from, or of blocks com.microsoft's GatherBlockQuantized, or what takes bytes
 * apart, takes the place of the Gather, which is gone. */
void qdq_table_put(PassCtx *ctx, Node *gather, const QdqTable *table);

/* The reverse: where `node` is the last that was put, a Gather of the whole table takes its place, and the
 * DequantizeLinear that makes it float is returned; else NULL. */
Node *qdq_table_join(PassCtx *ctx, Node *node);

/* Whether metadata says that it is such a last one. */
bool qdq_table_ends(const Node *node);

/* ---- for the files of this room -------------------------------------------------------------- */

/* What OWN_QUANTIZER says of the last of the nodes that pick rows, and then make them float. */
#define QDQ_MARK_ROWS   "rows"
#define QDQ_MARK_PACKED "packed"

#define QDQ_BLOCKS_OP     "GatherBlockQuantized"
#define QDQ_BLOCKS_DOMAIN "com.microsoft"

enum { QDQ_INDICES = 1 }; /* Gather's operand, and that operator's */

/* A Gather along the first axis. */
bool qdq_picks_rows(const Node *node);

/* A matrix that is worth quantizing: scales take less than what is saved. */
bool qdq_is_table(const Value *value);

/* What the request stores tables in because it stores weights so, not for want of that; NULL: nothing. And the opset
 * from which on. */
const QuantizedFormat *qdq_table_format(const QdqRequest *request);
int64_t qdq_table_opset(const QdqRequest *request);

/* A node of two operands at most before `before`, without results yet. The second operand may be NULL. */
Node *qdq_node_of(PassCtx *ctx, Node *before, const char *op, Value *const operands[2]);

/* `made` gives what `node` gave, and has its name and note; `node` is gone. */
void qdq_take_place(Node *node, Node *made);

#endif
