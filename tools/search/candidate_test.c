// SPDX-License-Identifier: Apache-2.0
/* Names of candidates: every pair that formats.def has is one, by its short name where that is enough. */
#include <string.h>

#include "candidate.h"
#include "unit_test.h"

static const Dtype types[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_UINT16, DTYPE_INT16};
static const CandidateRules rules = {"any", types, 4, NULL};

static void check(const CandidateRules *of, const char *name, const char *called, Dtype activations,
                  Dtype weights) {
    Arena arena;
    Err err = {0};
    arena_init(&arena, &test_trap);
    const Candidate *found = candidate_read(name, of, &arena, &err);
    if (!found) fail_msg("%s: %s", name, err.what);
    assert_string_equal(found->name, called);
    assert_int_equal(found->activations, activations);
    assert_int_equal(found->weights, weights);
    assert_true(!found->value_format == dtype_is_float(activations) ||
                !dtype_is_integer(activations));
    arena_free(&arena);
}

TEST(test_names) {
    check(&rules, "fp32", "float", DTYPE_FLOAT, DTYPE_FLOAT);
    check(&rules, "half", "float16", DTYPE_FLOAT16, DTYPE_FLOAT16);
    check(&rules, "int8", "a8w8", DTYPE_UINT8, DTYPE_INT8);
    check(&rules, "a16w4", "a16w4", DTYPE_UINT16, DTYPE_INT4);
    check(&rules, "w4", "w4", DTYPE_FLOAT, DTYPE_INT4);
    check(&rules, "float:int4", "w4", DTYPE_FLOAT, DTYPE_INT4);
    check(&rules, "uint16:int4", "a16w4", DTYPE_UINT16, DTYPE_INT4);
    check(&rules, "int8:int4", "int8:int4", DTYPE_INT8, DTYPE_INT4);
    check(&rules, "float:fp8", "float:fp8", DTYPE_FLOAT, DTYPE_FLOAT8E4M3FN);
    check(&rules, "bf16:int8", "bfloat16:int8", DTYPE_BFLOAT16, DTYPE_INT8);
    check(&rules, "float16:float16", "float16", DTYPE_FLOAT16, DTYPE_FLOAT16);
}

/* Bits stand for the first type that a runtime takes. */
TEST(test_rules) {
    static const Dtype is_signed[] = {DTYPE_INT8};
    const CandidateRules one = {"one", is_signed, 1, NULL};
    Arena arena;
    Err err = {0};
    check(&one, "a8w8", "a8w8", DTYPE_INT8, DTYPE_INT8);
    check(&one, "int8:int8", "a8w8", DTYPE_INT8, DTYPE_INT8);
    check(&one, "uint8:int8", "uint8:int8", DTYPE_UINT8, DTYPE_INT8);
    arena_init(&arena, &test_trap);
    assert_null(candidate_read("a16w8", &one, &arena, &err));
    assert_string_equal(err.what, "candidate 'a16w8': one does not take 16-bit activations");
    arena_free(&arena);
}

/* All rows of the table, whatever they are. */
TEST(test_every_pair) {
    Arena arena;
    arena_init(&arena, &test_trap);
    for (uint32_t v = 1; v < quantized_value_type_count; v++)
        for (size_t w = 1; quantized_weight_words[w]; w++) {
            Err err = {0};
            const char *pair =
                arena_printf(&arena, "%s:%s", quantized_format(quantized_value_types[v])->word,
                             quantized_weight_words[w]);
            const Candidate *found = candidate_read(pair, &rules, &arena, &err);
            assert_non_null(found);
            const Candidate *again = candidate_read(found->name, &rules, &arena, &err);
            assert_non_null(again);
            assert_true(again->value_format == found->value_format &&
                        again->weight_format == found->weight_format);
        }
    arena_free(&arena);
}
