// SPDX-License-Identifier: Apache-2.0
/* Recurrent layers, attention, Fourier transforms, ai.onnx.ml, optimizers. */
#include "shape_case_test.h"

TEST(test_recurrent) {
    static const ShapeCase cases[] = {
        {"LSTM", 14, "hidden_size=8", "S,B,3 | 1,32,3 | 1,32,8", "S,1,B,8 | 1,B,8 | 1,B,8"},
        {"GRU", 14, "direction=bidirectional", "S,B,3 | 2,24,3 | 2,24,8", "S,2,B,8 | 2,B,8"},
        {"RNN", 14, "layout=1", "B,S,3 | 1,8,3 | 1,8,8", "B,S,1,8 | B,1,8"},
        {"LSTM", 14, "hidden_size=-1", "S,B,3 | * | *", "!"},
        {"LSTM", 14, "direction=sideways", "S,B,3 | * | *", "!"},
        {"LSTM", 14, "", "* | * | *", "?,1,?,? | 1,?,? | 1,?,?"},
        {"LSTM", 14, "", "2,3 | * | *", "!"},
        {"com.microsoft:DynamicQuantizeLSTM", 1, "", "S,B,3 | 1,3,32 | 1,8,32",
         "S,1,B,8 | 1,B,8 | 1,B,8"},
        {"com.microsoft:DynamicQuantizeLSTM", 1, "direction=bidirectional;hidden_size=8",
         "S,B,3 | * | *", "S,2,B,8 | 2,B,8 | 2,B,8"},
    };
    CASE_RUN(cases);
}

TEST(test_attention) {
    static const ShapeCase cases[] = {
        {"demi.fused:Attention", 1, "q_axes=0,2,1,3;y_axes=0,2,1,3", "B,S,2,4 | B,2,T,4 | B,2,T,5",
         "B,S,2,5"},
        {"demi.fused:Attention", 1, "", "1,2,1,4 | 1,2,T,4 | B,2,T,5 | - | 1,1,S,T", "B,2,S,5"},
        {"demi.fused:Attention", 1, "y_axes=-1,1,0,2", "N,S,4 | N,T,4 | N,T,5 | 1,T", "S,N,5"},
        {"demi.fused:Attention", 1, "q_axes=0,3,1,4", "1,7,3,2,4 | 1,2,T,4 | 1,2,T,5 | *",
         "?,2,7,5"},
        {"demi.fused:Attention", 1, "", "* | 1,2,T,4 | 1,2,T,5", "?,?,?,5"},
        {"demi.fused:Attention", 1, "q_axes=0,2,1", "1,2,3,4 | 1,2,5,4 | 1,2,5,4", "!"},
        {"demi.fused:Attention", 1, "q_axes=0,1,1,2", "1,2,3,4 | 1,2,5,4 | 1,2,5,4", "!"},
        {"demi.fused:Attention", 1, "y_axes=0,1,2,4", "1,2,3,4 | 1,2,5,4 | 1,2,5,4", "!"},
        {"demi.fused:Attention", 1, "", "1,2,3,4 | 1,2,5,4 | 1,2,5,4 | 1,1,2,5", "!"},
        {"Attention", 23, "", "B,8,S,64 | B,8,T,64 | B,8,T,32",
         "B,8,S,32 | B,8,T,64 | B,8,T,32 | B,8,S,T"},
        {"Attention", 23, "q_num_heads=8;kv_num_heads=4", "B,S,512 | B,T,256 | B,T,128",
         "B,S,256 | B,4,T,64 | B,4,T,32 | B,8,S,T"},
        {"Attention", 23, "", "1,8,2,64 | 1,8,3,64 | 1,8,3,64 | - | 1,8,5,64 | 1,8,5,64",
         "1,8,2,64 | 1,8,8,64 | 1,8,8,64 | 1,8,2,8"},
        {"Attention", 23, "", "B,S,512 | B,T,256 | B,T,128", "!"},
        {"Attention", 23, "q_num_heads=7;kv_num_heads=4", "B,S,512 | B,T,256 | B,T,128", "!"},
        {"Attention", 23, "q_num_heads=0;kv_num_heads=0", "B,S,512 | B,T,256 | B,T,128", "!"},
        {"Attention", 23, "", "5 | * | *", "!"},
        {"LinearAttention", 27, "q_num_heads=4;kv_num_heads=2", "B,T,32 | B,T,16 | B,T,20",
         "B,T,40 | B,2,8,10"},
        {"ai.onnx.preview:FlexAttention", 1, "", "B,8,S,64 | B,8,T,64 | B,8,T,32", "B,8,S,32"},
        {"RotaryEmbedding", 23, "", "B,8,S,64 | * | *", "B,8,S,64"},
    };
    CASE_RUN(cases);
}

TEST(test_signal) {
    static const ShapeCase cases[] = {
        {"DFT", 17, "axis=1", "1,10,10,1", "1,10,10,2"},
        {"DFT", 17, "axis=1;onesided=1", "1,10,10,1", "1,6,10,2"},
        {"DFT", 17, "axis=3", "1,10,10,1", "!"},
        {"DFT", 17, "axis=1;onesided=1;inverse=1", "1,6,10,2", "1,10,10,1"},
        {"DFT", 20, "onesided=1", "1,10,10,1 | #8 | #1", "1,5,10,2"},
        {"DFT", 20, "onesided=1;inverse=1", "1,10,6,2 | - | #-2", "1,10,10,1"},
        {"DFT", 20, "", "N,10,1 | - | .", "N,10,2"},
        {"DFT", 20, "", "N,10,1 | . | .", "?,?,2"},
        {"DFT", 20, "onesided=1;inverse=1", "N,10,2 | - | .", "?,?,1"},
        {"STFT", 17, "", "1,128,1 | #8 | 16", "1,15,9,2"},
        {"STFT", 17, "onesided=0", "N,128,1 | #8 | - | #16", "N,15,16,2"},
        {"STFT", 17, "", "1,128 | #8 | 16", "1,15,9,2"},
        {"STFT", 17, "", "128 | #8 | 16", "!"},
        {"STFT", 17, "", "1,128,1 | #0 | 16", "!"},
        {"STFT", 17, "", "1,8,1 | #1 | 16", "!"},
        {"STFT", 17, "", "N,L,1 | . | *", "N,?,?,2"},
    };
    CASE_RUN(cases);
}

TEST(test_ml) {
    static const ShapeCase cases[] = {
        {"ai.onnx.ml:TreeEnsembleRegressor", 3, "n_targets=2", "N,4", "N,2"},
        {"ai.onnx.ml:LinearClassifier", 1, "", "N,4", "N | N,?"},
        {"ai.onnx.ml:LinearClassifier", 1, "", "4", "1 | 1,?"},
        {"ai.onnx.ml:OneHotEncoder", 1, "cats_int64s=1,2,3", "N,4", "N,4,3"},
        {"ai.onnx.ml:ArrayFeatureExtractor", 1, "", "N,4 | 1,2", "N,2"},
        {"ai.onnx.ml:ArrayFeatureExtractor", 1, "", "4 | 2", "1,2"},
        {"ai.onnx.ml:Scaler", 1, "", "N,4", "N,4"},
    };
    CASE_RUN(cases);
}

TEST(test_training) {
    static const ShapeCase cases[] = {
        {"ai.onnx.preview.training:Adam", 1, "", ". | . | 2 | 3 | 2 | 3 | 2 | 3 | 2 | 3",
         "2 | 3 | 2 | 3 | 2 | 3"},
        {"ai.onnx.preview.training:Momentum", 1, "", ". | . | 2 | 2 | 5", "2 | 5"},
    };
    CASE_RUN(cases);
}
