// SPDX-License-Identifier: Apache-2.0
/* Shapes of com.microsoft's operators. */
#include "shape_case_test.h"

#define MS(name) "com.microsoft:" name

TEST(test_products) {
    static const ShapeCase cases[] = {
        {MS("FusedMatMul"), 1, "", "B,2,4 | 4,5", "B,2,5"},
        {MS("FusedMatMul"), 1, "transA=1;transB=1", "B,4,2 | B,5,4", "B,2,5"},
        {MS("FusedMatMul"), 1, "transBatchA=1", "2,B,C,4 | B,C,4,5", "B,C,2,5"},
        {MS("FusedMatMul"), 1, "transBatchA=1;transA=1;transB=1", "4,B,2 | 5,4", "B,2,5"},
        {MS("FusedMatMul"), 1, "transA=1", "4 | 4,5", "5"},
        {MS("FusedMatMul"), 1, "transBatchB=1", "2,4 | 4", "!"},
        {MS("FusedMatMul"), 1, "", "2,4 | 5,4", "!"},
        {MS("FusedMatMul"), 1, "", "* | 5,4", "*"},
        {MS("TransposeMatMul"), 1, "transB=1", "2,4 | 5,4", "2,5"},
        {MS("QGemm"), 1, "transA=1", "4,M | . | . | 4,N | N", "M,N"},
        {MS("NhwcConv"), 1, "pads=1,1,1,1", "B,6,7,4 | 8,3,3,4", "B,6,7,8"},
        {MS("NhwcMaxPool"), 1, "kernel_shape=2,2;strides=2,2", "B,6,8,C", "B,3,4,C"},
        {MS("Inverse"), 1, "", "B,3,3", "B,3,3"},
        {MS("Inverse"), 1, "", "B,3,4", "!"},
    };
    CASE_RUN(cases);
}

TEST(test_bytes) {
    static const ShapeCase cases[] = {
        {MS("QLinearAdd"), 1, "", "2,1,N | . | . | 3,N", "2,3,N"},
        {MS("QLinearMul"), 1, "", "2,3 | . | . | 4,3", "!"},
        {MS("QLinearWhere"), 1, "", "2,1 | 1,N | . | . | 2,N | . | .", "2,N"},
        {MS("QLinearConcat"), 1, "axis=1", ". | . | 2,3 | . | . | 2,4 | . | .", "2,7"},
        {MS("QLinearConcat"), 1, "axis=-1", ". | . | 2,3 | . | . | B,N | . | .", "2,?"},
        {MS("QLinearConcat"), 1, "axis=1", ". | . | 2,3 | . | . | 3,3 | . | .", "!"},
        {MS("QLinearConcat"), 1, "axis=1", ". | . | 2,3 | .", "!"},
        {MS("QLinearGlobalAveragePool"), 1, "", "B,C,5,6", "B,C,1,1"},
        {MS("QLinearGlobalAveragePool"), 1, "channels_last=1", "B,5,6,C", "B,1,1,C"},
        {MS("QLinearAveragePool"), 1, "kernel_shape=2,2;channels_last=1", "B,5,6,C", "B,4,5,C"},
    };
    CASE_RUN(cases);
}

TEST(test_norms) {
    static const ShapeCase cases[] = {
        {MS("GatherBlockQuantized"), 1, "", "V,64 | B,S | V,1", "B,S,64"},
        {MS("GatherBlockQuantized"), 1, "gather_axis=1;quantize_axis=0", "32,V,3 | N | 2,V,3",
         "32,N,3"},
        {MS("GatherBlockQuantized"), 1, "", "V,64 | B,S | V", "!"},
        {MS("GatherBlockQuantized"), 1, "quantize_axis=2", "V,64 | B,S | V,1", "!"},
        {MS("GatherBlockQuantized"), 1, "", ". | B", "!"},
        {MS("MoE"), 1, "", "B,S,8 | N,4 | 4,16,8 | - | 4,8,16", "B,S,8"},
        {MS("BiasSplitGelu"), 1, "", "B,S,10 | 10", "B,S,5"},
        {MS("SkipLayerNormalization"), 1, "", "B,S,8 | S,8 | 8", "B,S,8 | B,S,1 | B,S,1 | B,S,8"},
        {MS("EmbedLayerNormalization"), 1, "", "B,S | - | 9,H | 6,H", "B,S,H | B | B,S,H"},
        {MS("EmbedLayerNormalization"), 1, "", "B,S,1 | - | 9,H | 6,H", "!"},
        {MS("SkipGroupNorm"), 1, "", "B,4,4,8 | 8 | 8 | B,8", "B,4,4,8 | B,4,4,8"},
    };
    CASE_RUN(cases);
}

TEST(test_attention) {
    static const ShapeCase cases[] = {
        {MS("Attention"), 1, "num_heads=2", "B,3,10 | 10,24", "B,3,8 | 2,B,2,3,4"},
        {MS("Attention"), 1, "num_heads=2", "B,3,10 | 10,24 | 24 | - | 2,B,2,5,4",
         "B,3,8 | 2,B,2,8,4"},
        {MS("Attention"), 1, "num_heads=2;qkv_hidden_sizes=8,8,6", "B,3,10 | 10,22", "B,3,6"},
        {MS("Attention"), 1, "num_heads=2;qkv_hidden_sizes=8,8", "B,3,10 | 10,22", "!"},
        {MS("Attention"), 1, "", "B,3,10 | 10,24", "!"},
        {MS("MultiHeadAttention"), 1, "num_heads=2", "B,S,8 | B,T,8 | B,T,6",
         "B,S,6 | B,2,T,4 | B,2,T,3 | B,2,S,T"},
        {MS("MultiHeadAttention"), 1, "num_heads=2", "B,S,2,3,4", "B,S,8 | B,2,S,4 | B,2,S,4"},
        {MS("MultiHeadAttention"), 1, "num_heads=2", "B,S,8 | B,T,2,2,4", "B,S,8 | B,2,T,4"},
        {MS("MultiHeadAttention"), 1, "num_heads=2",
         "B,1,8 | B,1,8 | B,1,8 | - | - | - | B,2,9,4 | B,2,9,4 | #5",
         "B,1,8 | B,2,9,4 | B,2,9,4 | B,2,1,6"},
        {MS("QAttention"), 1, "num_heads=2", "B,3,10 | 10,24 | 24 | . | . | - | . | . | 2,B,2,5,4",
         "B,3,8 | 2,B,2,8,4"},
        {MS("MultiHeadAttention"), 1, "num_heads=2",
         "B,3,8 | B,3,8 | B,3,8 | - | - | - | B,2,5,4 | B,2,5,4", "B,3,8 | B,2,8,4 | B,2,8,4"},
        {MS("MultiHeadAttention"), 1, "num_heads=2", "B,S,8 | B,2,T,4 | B,2,T,4",
         "B,S,8 | B,2,T,4"},
        {MS("MultiHeadAttention"), 1, "num_heads=2", "B,S,8", "!"},
        {MS("GroupQueryAttention"), 1, "num_heads=4;kv_num_heads=2",
         "B,3,16 | B,3,8 | B,3,8 | - | - | B | #3", "B,3,16 | B,2,3,4 | B,2,3,4"},
        {MS("GroupQueryAttention"), 1, "num_heads=4;kv_num_heads=2",
         "B,1,32 | - | - | B,2,9,4 | B,2,9,4 | B | #7", "B,1,16 | B,2,9,4 | B,2,9,4"},
        {MS("GroupQueryAttention"), 1, "num_heads=4;kv_num_heads=2;kv_cache_bit_width=4",
         "B,1,32 | - | - | B,2,9,2 | B,2,9,2 | B | #7", "B,1,16 | B,2,9,2 | B,2,9,2 | B,4,1,7"},
        {MS("GroupQueryAttention"), 1, "num_heads=4;kv_num_heads=2",
         "B,1,32 | - | - | B,2,P,4 | B,2,P,4 | B | .", "B,1,16 | B,2,?,4 | B,2,?,4"},
        {MS("GroupQueryAttention"), 1, "num_heads=4;kv_num_heads=3", "B,1,16", "!"},
    };
    CASE_RUN(cases);
}
