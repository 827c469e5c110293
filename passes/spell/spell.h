// SPDX-License-Identifier: Apache-2.0
/* What spell-out's recipes are made of. A recipe spells one operator of com.microsoft in ONNX's
 * operators and in demi's fused ones, before the node, which goes when the recipe has succeeded.
 *
 * 16-bit operands are widened first, and results rounded once at the end, so that what is between has
 * no rounding that the operator has not; operators of demi.fused, which read and write any float
 * type, have them as they are. New values have their element types, but no shapes yet. */
#ifndef DEMI_SPELL_H
#define DEMI_SPELL_H

#include "fuse_graph.h"

typedef struct Spell {
    Fuse fuse;
    Node *node;    /* that is spelt */
    Err *err;      /* set where a recipe refuses */
    int64_t opset; /* the version of ai.onnx */
} Spell;

typedef bool SpellRecipe(Spell *spell);

/* ERR_MODEL with why the runtime can't have the node. Returns false. */
bool spell_refuse(Spell *spell, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Refuses versions of ai.onnx before `least`. */
bool spell_needs(Spell *spell, int64_t least);

/* Refuses the node where output i is read: kernels do not have it. */
bool spell_lacks(Spell *spell, uint32_t output, const char *what);

/* Refuses values that are no float, float16 or bfloat16. */
bool spell_takes(Spell *spell, const Value *value);

/* ---- operands -------------------------------------------------------------------------------- */

/* Input i; NULL where it is omitted. */
Value *spell_input(const Spell *spell, uint32_t i);

/* The same as a float, where it is in 16 bit. */
Value *spell_wide(Spell *spell, uint32_t i);

/* True where output i is there and read. */
bool spell_wants(const Spell *spell, uint32_t output);

int64_t spell_int(const Spell *spell, const char *name, int64_t otherwise);
float spell_real(const Spell *spell, const char *name, float otherwise);

/* ---- making ---------------------------------------------------------------------------------- */

/* A node op(a, b, c) of ai.onnx, NULL for what is omitted; its result is of `dtype`. */
Value *spell_make(Spell *spell, const char *op, Value *const operands[3], Dtype dtype);
#define SPELL(spell, op, dtype, ...) spell_make(spell, op, (Value *const[3]){__VA_ARGS__}, dtype)

/* A node of ai.onnx, of demi.fused, or of the domain of the node that is spelt, with that many operands
 * and one result. */
Node *spell_plain(Spell *spell, const char *op, uint32_t inputs, Dtype dtype);
Node *spell_fused(Spell *spell, const char *op, uint32_t inputs, Dtype dtype);
Node *spell_own(Spell *spell, const char *op, uint32_t inputs, Dtype dtype);

/* A further result of a node that one of these made. */
Value *spell_output(Spell *spell, Node *node, Dtype dtype);

/* Constants: a list of int64, `count` floats that are all `number` (a scalar where count is 0), a
 * zero of a type of integers. */
Value *spell_ints(Spell *spell, const int64_t *items, uint32_t count);
Value *spell_floats(Spell *spell, float number, int64_t count);
Value *spell_zero(Spell *spell, Dtype dtype);

/* A constant of that tensor, which is the model's. */
Value *spell_constant(Spell *spell, const Tensor *tensor);

/* a + b, or a where there is no b; either may be NULL. */
Value *spell_sum(Spell *spell, Value *a, Value *b);

/* What is normalized, and what with; NULL where it is not there. */
typedef struct Norm {
    Value *x, *skip, *scale, *bias;
    int64_t axis;
    float epsilon;
    bool rms;
} Norm;

/* demi.fused's LayerNormalization of it. */
Node *spell_norm(Spell *spell, const Norm *norm);

/* Gives `made` those of the node's attributes that have these names, which mean the same there. False,
 * refusing, where one is of a kind that it can't be. `names` ends with NULL. */
bool spell_keep_attrs(Spell *spell, Node *made, const char *const *names);
extern const char *const spell_window_attrs[]; /* of convolutions and pools */

enum { SPELL_RANK_MOST = 16 }; /* of what recipes transpose or reshape */
Value *spell_transpose(Spell *spell, Value *x, const int64_t *perm, uint32_t rank);
Value *spell_cast(Spell *spell, Value *x, Dtype to);

/* Axes of a value as ONNX numbers them, those of channels behind the rest put second, or the other
 * way round. The rank is known. */
Value *spell_channels(Spell *spell, Value *x, uint32_t rank, bool first);

/* `value` is output i from now on, in that output's type. Each made value is given at most once. */
void spell_give(Spell *spell, uint32_t output, Value *value);

/* A product of bytes: the operands, their zero points and scales; NULL where there is none. */
typedef struct SpellProduct {
    Value *a, *b, *a_zero, *b_zero, *a_scale, *b_scale, *bias;
    float alpha;
    Value *whole; /* integers that are added to the product of integers */
} SpellProduct;

/* The product as floats. */
Value *spell_byte_product(Spell *spell, const SpellProduct *job);

/* ---- recipes --------------------------------------------------------------------------------- */

/* X(domain, operator, recipe), by domain and name. Several operators may have one recipe. */
#define SPELL_RECIPES(X)                                                                           \
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

SpellRecipe spell_bias_softmax, spell_gated_add, spell_gated_rms_norm, spell_linear_attention_gate,
    spell_matmul_bnb4, spell_attention, spell_dequantize, spell_quantize, spell_bias_gelu,
    spell_bias_split_gelu, spell_dynamic_quantize_matmul, spell_embed_layer_norm, spell_fast_gelu,
    spell_fused_conv, spell_fused_gemm, spell_fused_matmul, spell_group_norm,
    spell_matmul_integer_to_float, spell_nhwc_conv, spell_nhwc_max_pool, spell_q_attention,
    spell_q_gemm, spell_q_add, spell_q_average_pool, spell_q_concat, spell_q_conv,
    spell_q_global_average_pool, spell_q_leaky_relu, spell_q_mul, spell_q_sigmoid, spell_q_softmax,
    spell_q_where, spell_simplified_layer_norm, spell_skip_layer_norm;

#endif
