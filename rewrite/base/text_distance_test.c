// SPDX-License-Identifier: Apache-2.0
/* The nearest name, and what is too far to be one. */
#include <stdio.h>
#include <string.h>

#include "text_distance.h"
#include "unit_test.h"

static const char *nearest(const char *wanted, const char *const *candidates) {
    NearestName found = nearest_name_of(wanted);
    for (; *candidates; candidates++) nearest_name_try(&found, *candidates);
    return found.best;
}

TEST(test_nearest) {
    static const char *const names[] = {"Relu", "PRelu",         "LeakyRelu",
                                        "Conv", "ConvTranspose", NULL};
    assert_string_equal(nearest("Rellu", names), "Relu");
    assert_string_equal(nearest("relu", names), "Relu");
    assert_string_equal(nearest("Pelu", names), "Relu"); /* of equals, the first */
    assert_string_equal(nearest("ConvTransposed", names), "ConvTranspose");
    assert_string_equal(nearest("Cnov", names), "Conv");
    assert_null(nearest("Softmax", names));
    assert_null(nearest("xxxx", names));
}

TEST(test_short_and_empty) {
    static const char *const names[] = {"a", "", NULL};
    assert_string_equal(nearest("a", names), "a");
    assert_string_equal(nearest("", names), "");
    static const char *const none[] = {NULL};
    assert_null(nearest("a", none));
}

/* Only 64 bytes between what both begin and end with count; longer names cost no more. */
TEST(test_long) {
    char wanted[400], other[400];
    memset(wanted, 'x', sizeof wanted);
    memset(other, 'x', sizeof other);
    wanted[399] = other[399] = '\0';
    other[300] = 'y';
    const char *names[] = {other, NULL};
    assert_ptr_equal(nearest(wanted, names), other);
    NearestName found = nearest_name_of(wanted);
    nearest_name_try(&found, other);
    assert_int_equal(found.distance, 1);
    memset(other, 'y', 63);
    assert_null(nearest(wanted, names));
}

/* Names in a model share long beginnings. */
TEST(test_shared_beginnings) {
    static const char path[] = "/model/encoder/layers/layers.11/self_attention/attention/output/";
    char wanted[128], far[128], near[128];
    snprintf(wanted, sizeof wanted, "%sdense/MatMull", path);
    snprintf(far, sizeof far, "%sLayerNorm/Sqrt", path);
    snprintf(near, sizeof near, "%sdense/MatMul", path);
    const char *const names[] = {far, near, NULL};
    assert_ptr_equal(nearest(wanted, names), near);
}

TEST(test_globs) {
    static const char *const names[] = {"/model/norm1/Add", "/decoder/conv/Conv", "Softmax_12",
                                        NULL};
    static const struct {
        const char *glob, *best;
    } cases[] = {
        {"/modle/*", "/model/norm1/Add"},
        {"*/Covn", "/decoder/conv/Conv"},
        {"softmax_1?", "Softmax_12"},
        {"/dec/*/Conv", "/decoder/conv/Conv"},
        {"*xyzzyx*", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        NearestName found = nearest_name_of(cases[i].glob);
        for (const char *const *name = names; *name; name++) nearest_name_try_glob(&found, *name);
        if (cases[i].best)
            assert_string_equal(found.best, cases[i].best);
        else
            assert_null(found.best);
    }
}
