// SPDX-License-Identifier: Apache-2.0
/* Schemas made of the SCHEMA rows of operators/fused.def. */
#include "fused_ops.h"

#include <string.h>

enum {
    FLOAT_TYPES = 1 << DTYPE_FLOAT | 1 << DTYPE_FLOAT16 | 1 << DTYPE_BFLOAT16,
    BYTE_TYPES = 1 << DTYPE_INT8 | 1 << DTYPE_UINT8,
    VARS = 15
};

static const TypeSet floats = {{[OPTYPE_TENSOR] = FLOAT_TYPES}};
static const TypeSet bools = {{[OPTYPE_TENSOR] = 1 << DTYPE_BOOL}};
static const TypeSet ints = {{[OPTYPE_TENSOR] = 1 << DTYPE_INT64}};
static const TypeSet numbers = {{[OPTYPE_TENSOR] = FLOAT_TYPES | BYTE_TYPES}};
/* Type variables, one for each operand: the second is of `second`, the fourth of `fourth`. */
#define ALL_VARS(types, second, fourth)                                                            \
    {                                                                                              \
        {"T1", &(types)}, {"T2", &(second)}, {"T3", &(types)}, {"T4", &(fourth)},                  \
            {"T5", &(types)}, {"T6", &(types)}, {"T7", &(types)}, {"T8", &(types)},                \
            {"T9", &(types)}, {"T10", &(types)}, {"T11", &(types)}, {"T12", &(types)},             \
            {"T13", &(types)}, {"T14", &(types)}, {"T15", &(types)},                               \
    }
static const OpTypeVar floats_vars[VARS] = ALL_VARS(floats, floats, floats);
static const OpTypeVar masked_vars[VARS] = ALL_VARS(floats, floats, bools);
static const OpTypeVar indexed_vars[VARS] = ALL_VARS(numbers, ints, numbers);
static const OpTypeVar sized_vars[VARS] = ALL_VARS(numbers, numbers, ints);
static const OpTypeVar numbers_vars[VARS] = ALL_VARS(numbers, numbers, numbers);

#define LIST(...) __VA_ARGS__
#define SINGLE(text, var)                                                                          \
    { text, NULL, var, OP_SINGLE, true, 0 }
#define OPTIONAL(text, var)                                                                        \
    { text, NULL, var, OP_OPTIONAL, true, 0 }
#define NONE(text, type)                                                                           \
    {                                                                                              \
        text, ATTR_##type, false, false, 0, {                                                      \
            0                                                                                      \
        }                                                                                          \
    }
#define INT(text, default_)                                                                        \
    {                                                                                              \
        text, ATTR_INT, false, true, 0, {                                                          \
            .i = (default_)                                                                        \
        }                                                                                          \
    }
#define FLOAT(text, default_)                                                                      \
    {                                                                                              \
        text, ATTR_FLOAT, false, true, 0, {                                                        \
            .f = (default_)                                                                        \
        }                                                                                          \
    }
#define TEXT(text, default_)                                                                       \
    {                                                                                              \
        text, ATTR_STRING, false, true, 0, {                                                       \
            .s = (default_)                                                                        \
        }                                                                                          \
    }

#define COUNT(type, list) (sizeof((const type[]){LIST list}) / sizeof(type))

#define OPERATOR(domain, name, ...) __VA_ARGS__
#define SCHEMA(types, least_in, least_out, inputs, outputs, attrs)                                 \
    _Static_assert(COUNT(OpParam, inputs) + COUNT(OpParam, outputs) <= VARS,                       \
                   "more variables: VARS");
#include "operators.def"

#define OPERATOR_onnx(name, ...)
#define OPERATOR_ml(name, ...)
#define OPERATOR_preview(name, ...)
#define OPERATOR_training(name, ...)
#define OPERATOR_microsoft(name, ...)
#define OPERATOR_fused(text, ...)                                                                  \
    {.domain = FUSED_DOMAIN,                                                                       \
     .name = #text,                                                                                \
     .since = FUSED_OPSET,                                                                         \
     .until = INT32_MAX,                                                                           \
     .determinism = OP_DETERMINISTIC,                                                              \
     __VA_ARGS__},
#define OPERATOR(domain, name, ...) OPERATOR_##domain(name, __VA_ARGS__)
#define SCHEMA(types, least_in, least_out, list_in, list_out, list_attrs)                          \
    .min_input = least_in, .max_input = COUNT(OpParam, list_in), .min_output = least_out,          \
    .max_output = COUNT(OpParam, list_out), .input_count = COUNT(OpParam, list_in),                \
    .output_count = COUNT(OpParam, list_out),                                                      \
    .var_count = COUNT(OpParam, list_in) + COUNT(OpParam, list_out),                               \
    .attr_count = COUNT(OpAttr, list_attrs), .inputs = (const OpParam[]){LIST list_in},            \
    .outputs = (const OpParam[]){LIST list_out}, .vars = types##_vars,                             \
    .attrs = (const OpAttr[]){LIST list_attrs},
static const OpSchema schemas[] = {
#include "operators.def"
};

enum { SCHEMAS = sizeof schemas / sizeof *schemas };

const OpSchema *fused_ops_find(const char *name, size_t length) {
    for (size_t i = 0; i < SCHEMAS; i++)
        if (strlen(schemas[i].name) == length && memcmp(schemas[i].name, name, length) == 0)
            return &schemas[i];
    return NULL;
}

size_t fused_ops_count(void) {
    return SCHEMAS;
}

const OpSchema *fused_ops_at(size_t index) {
    return &schemas[index];
}
