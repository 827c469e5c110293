// SPDX-License-Identifier: Apache-2.0
/* What decompose's recipes are made of. A recipe decomposes one operator of com.microsoft in ONNX's
 * operators and in demi's fused ones, before the node, which goes when the recipe has succeeded.
 *
 * 16-bit operands are widened first, and results rounded once at the end, so that what is between has
 * no rounding that the operator has not; operators of demi.fused, which read and write any float
 * type, have them as they are. New values have their element types, but no shapes yet. */
#ifndef DEMI_DECOMPOSE_H
#define DEMI_DECOMPOSE_H

#include "fuse_graph.h"

typedef struct Decompose {
    Fuse fuse;
    Node *node;    /* that is decomposed */
    Err *err;      /* set where a recipe refuses */
    int64_t opset; /* the version of ai.onnx */
} Decompose;

typedef bool DecomposeRecipe(Decompose *decompose);

/* ERR_MODEL with why the runtime can't have the node. Returns false. */
bool decompose_refuse(Decompose *decompose, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Refuses versions of ai.onnx before `least`. */
bool decompose_needs(Decompose *decompose, int64_t least);

/* Refuses the node where output i is read: kernels do not have it. */
bool decompose_lacks(Decompose *decompose, uint32_t output, const char *what);

/* Refuses values that are no float, float16 or bfloat16. */
bool decompose_takes(Decompose *decompose, const Value *value);

/* ---- operands -------------------------------------------------------------------------------- */

/* Input i; NULL where it is omitted. */
Value *decompose_input(const Decompose *decompose, uint32_t i);

/* The same as a float, where it is in 16 bit. */
Value *decompose_wide(Decompose *decompose, uint32_t i);

/* True where output i is there and read. */
bool decompose_wants(const Decompose *decompose, uint32_t output);

int64_t decompose_int(const Decompose *decompose, const char *name, int64_t otherwise);
float decompose_real(const Decompose *decompose, const char *name, float otherwise);

/* ---- making ---------------------------------------------------------------------------------- */

/* A node op(a, b, c) of ai.onnx, NULL for what is omitted; its result is of `dtype`. */
Value *decompose_make(Decompose *decompose, const char *op, Value *const operands[3], Dtype dtype);
#define DECOMPOSE(decompose, op, dtype, ...)                                                       \
    decompose_make(decompose, op, (Value *const[3]){__VA_ARGS__}, dtype)

/* A node of ai.onnx, of demi.fused, or of the domain of the node that is decomposed, with that many operands
 * and one result. */
Node *decompose_plain(Decompose *decompose, const char *op, uint32_t inputs, Dtype dtype);
Node *decompose_fused(Decompose *decompose, const char *op, uint32_t inputs, Dtype dtype);
Node *decompose_own(Decompose *decompose, const char *op, uint32_t inputs, Dtype dtype);

/* A further result of a node that one of these made. */
Value *decompose_output(Decompose *decompose, Node *node, Dtype dtype);

/* Constants: a list of int64, `count` floats that are all `number` (a scalar where count is 0), a
 * zero of a type of integers. */
Value *decompose_ints(Decompose *decompose, const int64_t *items, uint32_t count);
Value *decompose_floats(Decompose *decompose, float number, int64_t count);
Value *decompose_zero(Decompose *decompose, Dtype dtype);

/* A constant of that tensor, which is the model's. */
Value *decompose_constant(Decompose *decompose, const Tensor *tensor);

/* a + b, or a where there is no b; either may be NULL. */
Value *decompose_sum(Decompose *decompose, Value *a, Value *b);

/* What is normalized, and what with; NULL where it is not there. */
typedef struct Norm {
    Value *x, *skip, *scale, *bias;
    int64_t axis;
    float epsilon;
    bool rms;
} Norm;

/* demi.fused's LayerNormalization of it. */
Node *decompose_norm(Decompose *decompose, const Norm *norm);

/* Gives `made` those of the node's attributes that have these names, which mean the same there. False,
 * refusing, where one is of a kind that it can't be. `names` ends with NULL. */
bool decompose_keep_attrs(Decompose *decompose, Node *made, const char *const *names);
extern const char *const decompose_window_attrs[]; /* of convolutions and pools */

enum { DECOMPOSE_RANK_MOST = 16 }; /* of what recipes transpose or reshape */
Value *decompose_transpose(Decompose *decompose, Value *x, const int64_t *perm, uint32_t rank);
Value *decompose_cast(Decompose *decompose, Value *x, Dtype to);

/* Axes of a value as ONNX numbers them, those of channels behind the rest put second, or the other
 * way round. The rank is known. */
Value *decompose_channels(Decompose *decompose, Value *x, uint32_t rank, bool first);

/* `value` is output i from now on, in that output's type. Each made value is given at most once. */
void decompose_give(Decompose *decompose, uint32_t output, Value *value);

/* A product of bytes: the operands, their zero points and scales; NULL where there is none. */
typedef struct DecomposeProduct {
    Value *a, *b, *a_zero, *b_zero, *a_scale, *b_scale, *bias;
    float alpha;
    Value *whole; /* integers that are added to the product of integers */
} DecomposeProduct;

/* The product as floats. */
Value *decompose_byte_product(Decompose *decompose, const DecomposeProduct *job);

/* ---- recipes --------------------------------------------------------------------------------- */

/* X(domain, operator, recipe), by domain and name. Several operators may have one recipe. */
#define DECOMPOSE_RECIPES(X)                                                                       \
    X("", "SimplifiedLayerNormalization", simplified_layer_norm)                                   \
    X("com.microsoft", "Attention", attention)                                                     \
    X("com.microsoft", "BiasGelu", bias_gelu)                                                      \
    X("com.microsoft", "BiasSoftmax", bias_softmax)                                                \
    X("com.microsoft", "BiasSplitGelu", bias_split_gelu)                                           \
    X("com.microsoft", "DequantizeLinear", dequantize)                                             \
    X("com.microsoft", "DynamicQuantizeMatMul", dynamic_quantize_matmul)                           \
    X("com.microsoft", "EmbedLayerNormalization", embed_layer_norm)                                \
    X("com.microsoft", "FastGelu", fast_gelu)                                                      \
    X("com.microsoft", "FusedConv", fused_conv)                                                    \
    X("com.microsoft", "FusedGemm", fused_gemm)                                                    \
    X("com.microsoft", "FusedMatMul", fused_matmul)                                                \
    X("com.microsoft", "GatedAdd", gated_add)                                                      \
    X("com.microsoft", "GatedRMSNorm", gated_rms_norm)                                             \
    X("com.microsoft", "Gelu", bias_gelu)                                                          \
    X("com.microsoft", "GroupNorm", group_norm)                                                    \
    X("com.microsoft", "LinearAttentionGate", linear_attention_gate)                               \
    X("com.microsoft", "MatMulBnb4", matmul_bnb4)                                                  \
    X("com.microsoft", "MatMulIntegerToFloat", matmul_integer_to_float)                            \
    X("com.microsoft", "NhwcConv", nhwc_conv)                                                      \
    X("com.microsoft", "NhwcMaxPool", nhwc_max_pool)                                               \
    X("com.microsoft", "QAttention", q_attention)                                                  \
    X("com.microsoft", "QEmbedLayerNormalization", embed_layer_norm)                               \
    X("com.microsoft", "QGemm", q_gemm)                                                            \
    X("com.microsoft", "QLinearAdd", q_add)                                                        \
    X("com.microsoft", "QLinearAveragePool", q_average_pool)                                       \
    X("com.microsoft", "QLinearConcat", q_concat)                                                  \
    X("com.microsoft", "QLinearConv", q_conv)                                                      \
    X("com.microsoft", "QLinearGlobalAveragePool", q_global_average_pool)                          \
    X("com.microsoft", "QLinearLeakyRelu", q_leaky_relu)                                           \
    X("com.microsoft", "QLinearMul", q_mul)                                                        \
    X("com.microsoft", "QLinearSigmoid", q_sigmoid)                                                \
    X("com.microsoft", "QLinearSoftmax", q_softmax)                                                \
    X("com.microsoft", "QLinearWhere", q_where)                                                    \
    X("com.microsoft", "QuantizeLinear", quantize)                                                 \
    X("com.microsoft", "SkipGroupNorm", group_norm)                                                \
    X("com.microsoft", "SkipLayerNormalization", skip_layer_norm)                                  \
    X("com.microsoft", "SkipSimplifiedLayerNormalization", skip_layer_norm)                        \
    X("com.microsoft", "TransposeMatMul", fused_matmul)

DecomposeRecipe decompose_bias_softmax, decompose_gated_add, decompose_gated_rms_norm,
    decompose_linear_attention_gate, decompose_matmul_bnb4, decompose_attention,
    decompose_dequantize, decompose_quantize, decompose_bias_gelu, decompose_bias_split_gelu,
    decompose_dynamic_quantize_matmul, decompose_embed_layer_norm, decompose_fast_gelu,
    decompose_fused_conv, decompose_fused_gemm, decompose_fused_matmul, decompose_group_norm,
    decompose_matmul_integer_to_float, decompose_nhwc_conv, decompose_nhwc_max_pool,
    decompose_q_attention, decompose_q_gemm, decompose_q_add, decompose_q_average_pool,
    decompose_q_concat, decompose_q_conv, decompose_q_global_average_pool, decompose_q_leaky_relu,
    decompose_q_mul, decompose_q_sigmoid, decompose_q_softmax, decompose_q_where,
    decompose_simplified_layer_norm, decompose_skip_layer_norm;

#endif
