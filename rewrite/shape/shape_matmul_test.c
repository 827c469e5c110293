// SPDX-License-Identifier: Apache-2.0
/* Matrix products and Einsum. */
#include "shape_case_test.h"

TEST(test_matmul) {
    static const ShapeCase cases[] = {
        {"MatMul", 13, "", "2,N,4 | 4,5", "2,N,5"},
        {"MatMul", 13, "", "4 | 4,5", "5"},
        {"MatMul", 13, "", "3,4 | 4", "3"},
        {"MatMul", 13, "", "4 | 4", "."},
        {"MatMul", 13, "", "7,1,3,4 | 6,4,5", "7,6,3,5"},
        {"MatMul", 13, "", "N,3,4 | M,4,5", "?,3,5"},
        {"MatMul", 13, "", "3,4 | 5,6", "!"},
        {"MatMul", 13, "", ". | 5,6", "!"},
        {"MatMul", 13, "", "* | 5,6", "*"},
        {"MatMul", 13, "", "0,4 | 4,0", "0,0"},
        {"QLinearMatMul", 10, "", "2,3 | . | . | 3,4 | . | . | . | .", "2,4"},
    };
    CASE_RUN(cases);
}

TEST(test_gemm) {
    static const ShapeCase cases[] = {
        {"Gemm", 13, "", "N,4 | 4,5 | 5", "N,5"},
        {"Gemm", 13, "transA=1;transB=1", "4,N | 5,4", "N,5"},
        {"Gemm", 13, "", "* | 4,5", "?,5"},
        {"Gemm", 13, "", "3 | 4,5", "!"},
        {"Gemm", 13, "", "2,3 | 4,5", "!"},
    };
    CASE_RUN(cases);
}

TEST(test_einsum) {
    static const ShapeCase cases[] = {
        {"Einsum", 12, "equation=ij,jk->ik", "2,N | N,5", "2,5"},
        {"Einsum", 12, "equation=bij, bjk -> bik", "B,2,3 | B,3,4", "B,2,4"},
        {"Einsum", 12, "equation=ij,jk", "2,3 | 3,5", "2,5"},
        {"Einsum", 12, "equation=ba", "2,3", "3,2"},
        {"Einsum", 12, "equation=...ii->...i", "2,3,3", "2,3"},
        {"Einsum", 12, "equation=...ij,...jk->...ik", "7,1,2,3 | 5,3,4", "7,5,2,4"},
        {"Einsum", 12, "equation=i->", "5", "."},
        {"Einsum", 12, "equation=...->...", "*", "*"},
        {"Einsum", 12, "equation=ij->ji", "*", "?,?"},
        {"Einsum", 12, "equation=ij->k", "2,3", "!"},
        {"Einsum", 12, "equation=ij", "2", "!"},
        {"Einsum", 12, "equation=i,j->ij", "2", "!"},
        {"Einsum", 12, "equation=i->i", "2 | 3", "!"},
        {"Einsum", 12, "equation=i$", "2", "!"},
        {"Einsum", 12, "equation=......->", "2", "!"},
        {"Einsum", 12, "equation=i->i->i", "2", "!"},
        {"Einsum", 12, "", "2", "!"},
        {"Einsum", 12, "equation=ij,jk", "2,3 | 4,5", "!"},
    };
    CASE_RUN(cases);
}

TEST(test_det) {
    static const ShapeCase cases[] = {
        {"Det", 11, "", "2,N,3,3", "2,N"},
        {"Det", 11, "", "3,3", "."},
        {"Det", 11, "", "3,4", "!"},
        {"Det", 11, "", "3", "!"},
    };
    CASE_RUN(cases);
}
