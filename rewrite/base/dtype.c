// SPDX-License-Identifier: Apache-2.0
/* One table of facts about element types. */
#include "dtype.h"

#include <string.h>

#include "checked.h"

typedef enum Kind { KIND_OTHER, KIND_FLOAT, KIND_INTEGER } Kind;

typedef struct DtypeFacts {
    const char *name;
    uint8_t bits;
    Kind kind;
} DtypeFacts;

static const DtypeFacts facts[DTYPE_COUNT] = {
    [DTYPE_UNDEFINED] = {"undefined", 0, KIND_OTHER},
    [DTYPE_FLOAT] = {"float", 32, KIND_FLOAT},
    [DTYPE_UINT8] = {"uint8", 8, KIND_INTEGER},
    [DTYPE_INT8] = {"int8", 8, KIND_INTEGER},
    [DTYPE_UINT16] = {"uint16", 16, KIND_INTEGER},
    [DTYPE_INT16] = {"int16", 16, KIND_INTEGER},
    [DTYPE_INT32] = {"int32", 32, KIND_INTEGER},
    [DTYPE_INT64] = {"int64", 64, KIND_INTEGER},
    [DTYPE_STRING] = {"string", 0, KIND_OTHER},
    [DTYPE_BOOL] = {"bool", 8, KIND_OTHER},
    [DTYPE_FLOAT16] = {"float16", 16, KIND_FLOAT},
    [DTYPE_DOUBLE] = {"double", 64, KIND_FLOAT},
    [DTYPE_UINT32] = {"uint32", 32, KIND_INTEGER},
    [DTYPE_UINT64] = {"uint64", 64, KIND_INTEGER},
    [DTYPE_COMPLEX64] = {"complex64", 64, KIND_OTHER},
    [DTYPE_COMPLEX128] = {"complex128", 128, KIND_OTHER},
    [DTYPE_BFLOAT16] = {"bfloat16", 16, KIND_FLOAT},
    [DTYPE_FLOAT8E4M3FN] = {"float8e4m3fn", 8, KIND_FLOAT},
    [DTYPE_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8, KIND_FLOAT},
    [DTYPE_FLOAT8E5M2] = {"float8e5m2", 8, KIND_FLOAT},
    [DTYPE_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8, KIND_FLOAT},
    [DTYPE_UINT4] = {"uint4", 4, KIND_INTEGER},
    [DTYPE_INT4] = {"int4", 4, KIND_INTEGER},
    [DTYPE_FLOAT4E2M1] = {"float4e2m1", 4, KIND_FLOAT},
    [DTYPE_FLOAT8E8M0] = {"float8e8m0", 8, KIND_FLOAT},
    [DTYPE_UINT2] = {"uint2", 2, KIND_INTEGER},
    [DTYPE_INT2] = {"int2", 2, KIND_INTEGER},
    [DTYPE_FLOAT6E2M3] = {"float6e2m3", 6, KIND_FLOAT},
    [DTYPE_FLOAT6E3M2] = {"float6e3m2", 6, KIND_FLOAT},
};

static const struct {
    const char *name;
    Dtype dtype;
} other_names[] = {
    {"float32", DTYPE_FLOAT},  {"fp32", DTYPE_FLOAT},     {"float64", DTYPE_DOUBLE},
    {"fp16", DTYPE_FLOAT16},   {"half", DTYPE_FLOAT16},   {"bf16", DTYPE_BFLOAT16},
};

static const DtypeFacts *facts_of(Dtype dtype) {
    return (unsigned)dtype < DTYPE_COUNT ? &facts[dtype] : &facts[DTYPE_UNDEFINED];
}

const char *dtype_name(Dtype dtype) {
    return (unsigned)dtype < DTYPE_COUNT ? facts[dtype].name : "dtype?";
}

Dtype dtype_from_name(const char *name, size_t length) {
    for (unsigned i = 1; i < DTYPE_COUNT; i++)
        if (strlen(facts[i].name) == length && !memcmp(facts[i].name, name, length))
            return (Dtype)i;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strlen(other_names[i].name) == length && !memcmp(other_names[i].name, name, length))
            return other_names[i].dtype;
    return DTYPE_UNDEFINED;
}

unsigned dtype_bits(Dtype dtype) { return facts_of(dtype)->bits; }

bool dtype_bytes(Dtype dtype, uint64_t count, uint64_t *bytes) {
    uint64_t bits = dtype_bits(dtype);
    if (bits == 0) return false;
    uint64_t total;
    if (!checked_mul(count, bits, &total) || !checked_add(total, 7, &total)) return false;
    *bytes = total / 8;
    return true;
}

bool dtype_is_float(Dtype dtype) { return facts_of(dtype)->kind == KIND_FLOAT; }
bool dtype_is_integer(Dtype dtype) { return facts_of(dtype)->kind == KIND_INTEGER; }
