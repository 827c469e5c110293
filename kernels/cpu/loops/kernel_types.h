// SPDX-License-Identifier: Apache-2.0
/* Lists of element types for X(DTYPE, C type, suffix), so that a family is written once.
 *
 * Operations that wrap do not care about signs: they are instantiated for unsigned integers, and
 * the tables give both kinds of a width the same function.
 */
#ifndef DEMI_KERNEL_TYPES_H
#define DEMI_KERNEL_TYPES_H

#include <stdint.h>

#define KERNEL_FLOAT_LIST(X) X(FLOAT, float, f32) X(DOUBLE, double, f64)
#define KERNEL_SIGNED_LIST(X)                                                                      \
    X(INT8, int8_t, i8) X(INT16, int16_t, i16) X(INT32, int32_t, i32) X(INT64, int64_t, i64)
#define KERNEL_UNSIGNED_LIST(X)                                                                    \
    X(UINT8, uint8_t, u8) X(UINT16, uint16_t, u16) X(UINT32, uint32_t, u32) X(UINT64, uint64_t, u64)
#define KERNEL_INT_LIST(X)    KERNEL_SIGNED_LIST(X) KERNEL_UNSIGNED_LIST(X)
#define KERNEL_NUMBER_LIST(X) KERNEL_FLOAT_LIST(X) KERNEL_INT_LIST(X)

/* Initializers of a table by dtype: one function a type, or one a width for integers. */
#define KERNEL_BY_FLOAT(name) [DTYPE_FLOAT] = name##_f32, [DTYPE_DOUBLE] = name##_f64
#define KERNEL_BY_WIDTH(name)                                                                      \
    [DTYPE_UINT8] = name##_u8, [DTYPE_INT8] = name##_u8, [DTYPE_UINT16] = name##_u16,              \
    [DTYPE_INT16] = name##_u16, [DTYPE_UINT32] = name##_u32, [DTYPE_INT32] = name##_u32,           \
    [DTYPE_UINT64] = name##_u64, [DTYPE_INT64] = name##_u64
#define KERNEL_BY_SIGNED(name)                                                                     \
    [DTYPE_INT8] = name##_i8, [DTYPE_INT16] = name##_i16, [DTYPE_INT32] = name##_i32,              \
    [DTYPE_INT64] = name##_i64
#define KERNEL_BY_UNSIGNED(name)                                                                   \
    [DTYPE_UINT8] = name##_u8, [DTYPE_UINT16] = name##_u16, [DTYPE_UINT32] = name##_u32,           \
    [DTYPE_UINT64] = name##_u64
#define KERNEL_BY_INT(name) KERNEL_BY_SIGNED(name), KERNEL_BY_UNSIGNED(name)

#endif
