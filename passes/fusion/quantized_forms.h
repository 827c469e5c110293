// SPDX-License-Identifier: Apache-2.0
/* Operators of fuse-quantized beside products and sums: visitors of nodes, as fuse_graph.h has
 * them, that put an operator on bytes in a node's place or leave all as it is. */
#ifndef DEMI_QUANTIZED_FORMS_H
#define DEMI_QUANTIZED_FORMS_H

#include "quantized_value.h"

void quantized_fuse_mul(Fuse *fuse, Node *node);    /* Q(act(DQ(A) * DQ(B))), Q(DQ(A) / DQ(B)) */
void quantized_fuse_round(Fuse *fuse, Node *node);  /* DQ(Q(X)), also of 16 bits */
void quantized_fuse_mean(Fuse *fuse, Node *node);   /* means and sums of DQ(X), over axes */
void quantized_fuse_pool(Fuse *fuse, Node *node);   /* Q(AveragePool(DQ(X))) */
void quantized_fuse_resize(Fuse *fuse, Node *node); /* Q(Resize(DQ(X))) by interpolation */

/* Rows with scales of their own, which are found when the model runs, and products of them (row_form.h):
 * QuantizeRows, and then QMatMul. */
void quantized_fuse_row_bytes(Fuse *fuse, Node *node);
void quantized_fuse_row_product(Fuse *fuse, Node *node);

#endif
