// SPDX-License-Identifier: Apache-2.0
/* Valid models that end a runtime people use: what a conversion should not write where writing
 * something else costs nothing, and should name where it does. */
#ifndef DEMI_PEER_FAULT_H
#define DEMI_PEER_FAULT_H

#include "graph.h"

/* True for a Transpose that, once it is float16, ends ONNX Runtime 1.31 with SIGSEGV while its
 * optimizer fuses it into the MatMul that reads it (MatmulTransposeFusion; found by trying all
 * permutations of ranks 3 and 4 and their neighbors): one that moves the first dimension behind
 * the other batch dimensions, [1,0,2], [1,2,0], [1,2,0,3], …, and is read by a MatMul whose other
 * operand is a constant matrix. In float32 the same is fused and runs. */
bool peer_fault_transpose(const Node *node);

/* True for a Concat of nothing but what DequantizeLinear gives, which only QuantizeLinear reads: ONNX Runtime 1.32 makes
 * a QLinearConcat of all of these whatever type their scales have, and then refuses scales that are not float32. */
bool peer_fault_join(const Node *node);

#endif
