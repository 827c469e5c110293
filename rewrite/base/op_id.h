// SPDX-License-Identifier: Apache-2.0
/* Operators by number, which tables of what is known of them are indexed by.
 *
 * The numbers are those of the OPERATOR blocks in operators/, sorted by domain and name: the build
 * writes op_ids.inc from them (tools/cmake/op_ids.cmake). They mean nothing outside the program.
 */
#ifndef DEMI_BASE_OP_ID_H
#define DEMI_BASE_OP_ID_H

#include <stdint.h>

typedef enum OpId {
    OP_NONE, /* not an operator that demi knows */
#define OP_ID(domain, name) OP_##domain##_##name,
#include "op_ids.inc"
#undef OP_ID
    OP_ID_COUNT
} OpId;

/* The domains that the words of operators/ stand for. */
#define OP_DOMAIN_onnx      ""
#define OP_DOMAIN_ml        "ai.onnx.ml"
#define OP_DOMAIN_preview   "ai.onnx.preview"
#define OP_DOMAIN_training  "ai.onnx.preview.training"
#define OP_DOMAIN_microsoft "com.microsoft"
#define OP_DOMAIN_fused     "demi.fused"

/* The operator's number; OP_NONE where there is none. The domain is "" for ai.onnx. O(log operators). */
OpId op_id(const char *domain, const char *name);

/* The reverse; "" of OP_NONE. */
const char *op_domain(OpId op);
const char *op_name(OpId op);

/* The rows of an operator in a table of one kind (operators/op_table.inc). */
typedef struct OpSpan {
    uint16_t first, count;
} OpSpan;

#endif
