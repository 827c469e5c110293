// SPDX-License-Identifier: Apache-2.0
/* The table of candidates; see candidate.h. */
#include "candidate.h"

#include <math.h>
#include <string.h>

static const Candidate candidates[] = {
    {"float", DTYPE_FLOAT, DTYPE_FLOAT, 0},
    {"float16", DTYPE_FLOAT16, DTYPE_FLOAT16, 1},
    {"bfloat16", DTYPE_BFLOAT16, DTYPE_BFLOAT16, 2},
    {"a16w16", DTYPE_UINT16, DTYPE_INT16, 3},
    {"a16w8", DTYPE_UINT16, DTYPE_INT8, 4},
    {"a16w4", DTYPE_UINT16, DTYPE_INT4, 5},
    {"a8w16", DTYPE_UINT8, DTYPE_INT16, 6},
    {"a8w8", DTYPE_UINT8, DTYPE_INT8, 7},
    {"a8w4", DTYPE_UINT8, DTYPE_INT4, 8},
    {"w8", DTYPE_FLOAT, DTYPE_INT8, 9},
    {"w4", DTYPE_FLOAT, DTYPE_INT4, 10},
};

static const char *const aliases[][2] = {
    {"fp32", "float"},    {"float32", "float"}, {"fp16", "float16"}, {"half", "float16"},
    {"bf16", "bfloat16"}, {"int8", "a8w8"},     {"int16", "a16w16"}};

const Candidate *candidate_find(const char *name, Err *err) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(name, aliases[i][0]) == 0) name = aliases[i][1];
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        if (strcmp(name, candidates[i].name) == 0) return &candidates[i];
    err_set(err, ERR_USAGE, "unknown precision '%s'", name);
    err_hint(err,
             "use float, float16, bfloat16, a16w16, a16w8, a16w4, a8w16, a8w8, a8w4, w8, or w4");
    return NULL;
}

double candidate_bits(Dtype dtype) {
    const double bits = dtype_bits(dtype);
    return dtype_is_float(dtype) ? bits * sqrt(1.5) : bits;
}

uint32_t candidate_stored_bits(Dtype dtype) {
    return dtype_bits(dtype);
}
