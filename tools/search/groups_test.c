// SPDX-License-Identifier: Apache-2.0
/* Which values and weights make a group, and which products are its work. */
#include <stdlib.h>

#include "test_model.h"

#include "groups.h"

/* "x: w | a: | …": values of each group, its weights behind them as "value+value: weight". */
static void check(const char *text, const char *expected) {
    char found[2048] = "";
    Groups groups;
    Model *model = test_model(text);
    groups_find(&groups, model, &test_arena);
    for (uint32_t g = 0; g < groups.count; g++) {
        const Group *group = &groups.items[g];
        if (g) strcat(found, " | ");
        for (size_t i = 0; i < group->values.count; i++) {
            if (i) strcat(found, "+");
            strcat(found, group->values.items[i]->name->text);
        }
        strcat(found, ":");
        for (size_t i = 0; i < group->weights.count; i++) {
            strcat(found, " ");
            strcat(found, group->weights.items[i]->name->text);
        }
    }
    assert_string_equal(found, expected);
    model_free(model);
}

/* "product left,right …" of each work; a weight is "w". */
static void check_works(const char *text, const char *expected) {
    char found[2048] = "";
    Groups groups;
    Model *model = test_model(text);
    groups_find(&groups, model, &test_arena);
    for (size_t i = 0; i < groups.works.count; i++) {
        const GroupWork *work = &groups.works.items[i];
        const size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, "%s%s %d,%s%d", i ? "; " : "",
                 work->node->op_type->text, (int)work->left, work->weights ? "w" : "",
                 (int)work->right);
    }
    assert_string_equal(found, expected);
    model_free(model);
}

TEST(test_weights_are_of_what_reads) {
    check("g (float[2,3] x) => (float[2,4] y) <float[3,3] a = {1, 2, 3, 4, 5, 6, 7, 8, 9},\n"
          "  float[3,4] b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[2,3] p, float[2,3] q>\n"
          "{ p = MatMul (x, a)  q = Relu (p)  y = MatMul (q, b) }\n",
          "x: a | p: | q: b | y:");
}

/* q, k and v read one value: their weights are one group's. */
TEST(test_branches_share) {
    check(
        "g (float[2,3] x) => (float[2,3] q, float[2,3] k)\n"
        "<float[3,3] a = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3,3] b = {1, 2, 3, 4, 5, 6, 7, 8, 9}>\n"
        "{ q = MatMul (x, a)  k = MatMul (x, b) }\n",
        "x: a b | q: | k:");
}

TEST(test_movement_is_seen_through) {
    check("g (float[2,3] x) => (float[3,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6},\n"
          "  float[2,3] a, float[3,2] t, float[3,2] i>\n"
          "{ a = Relu (x)  t = Transpose <perm = [1, 0]> (a)  i = Identity (t)\n"
          "  y = MatMul (i, w) }\n",
          "x: | a: w | y:");
}

/* What joins two values computes its own; a table's rows are made. */
TEST(test_joining_is_not_moving) {
    check("g (float[2,3] x, float[2,3] z, int64[2] i) => (float[4,3] y, float[2,3] r)\n"
          "<float[3,3] table = {1, 2, 3, 4, 5, 6, 7, 8, 9}>\n"
          "{ y = Concat <axis = 0> (x, z)  r = Gather (table, i) }\n",
          "x: | z: | y: | r:");
}

TEST(test_shared_weights_join) {
    check("g (float[2,3] x) => (float[2,3] y) <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9},\n"
          "  float[2,3] a, float[2,3] b> { a = MatMul (x, w)  b = Relu (a)  y = MatMul (b, w) }\n",
          "x+b: w | a: | y:");
}

/* What does not depend on inputs has no group, nor has what is of another type. */
TEST(test_constants_have_none) {
    check("g (float[2,3] x, double[2] d) => (float[2,3] y, double[2] e)\n"
          "<float[3] w = {1, 2, 3}, float[3] n> { n = Neg (w)  y = Add (x, n)  e = Neg (d) }\n",
          "x: | y:");
}

TEST(test_works) {
    check_works("g (float[2,3] x, float[3,2] z) => (float[2,4] y)\n"
                "<float[2,4] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2,2] v = {1, 2, 3, 4},\n"
                "  float[2,2] p, float[2,4] q>\n"
                "{ p = MatMul (x, z)  q = Gemm (p, w)  y = MatMul (v, q) }\n",
                "MatMul 0,1; Gemm 2,w2; MatMul 3,w3");
}

/* Also one that data movement hands on, and not what is beside it. */
TEST(test_outputs_are_kept) {
    Groups groups;
    Model *model = test_model("g (float[2,3] x) => (float[3,2] y) <float[2,3] a, float[2,3] b>\n"
                              "{ a = Relu (x)  b = Neg (a)  y = Transpose (b) }\n");
    groups_find(&groups, model, &test_arena);
    assert_int_equal(groups.count, 3);
    for (uint32_t g = 0; g < 3; g++) assert_false(groups.items[g].keeps_values);
    groups_keep_outputs(&groups, model);
    for (uint32_t g = 0; g < 3; g++) assert_int_equal(groups.items[g].keeps_values, g == 2);
    model_free(model);
}

/* A branch that captures a value depends on it. */
TEST(test_captures_vary) {
    check("g (bool c, float[3] x) => (float[3] y) <float[3] k = {1, 2, 3}> {\n"
          "  y = If (c) <then_branch = t () => (float[3] a) { a = Neg (x) },\n"
          "              else_branch = e () => (float[3] b) { b = Abs (k) }>\n"
          "}\n",
          "x: | y:");
}
