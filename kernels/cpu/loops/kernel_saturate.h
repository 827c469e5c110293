// SPDX-License-Identifier: Apache-2.0
/* Reals as integers without undefined behavior: truncated toward zero; what does not fit becomes
 * the nearest limit and NaN becomes 0. */
#ifndef DEMI_KERNEL_SATURATE_H
#define DEMI_KERNEL_SATURATE_H

#include <stdint.h>

/* X(DTYPE, C type, suffix, smallest, largest, first power of two past it) */
#define SATURATE_LIST(X)                                                                           \
    X(INT8, int8_t, i8, INT8_MIN, INT8_MAX, 0x1p7)                                                 \
    X(INT16, int16_t, i16, INT16_MIN, INT16_MAX, 0x1p15)                                           \
    X(INT32, int32_t, i32, INT32_MIN, INT32_MAX, 0x1p31)                                           \
    X(INT64, int64_t, i64, INT64_MIN, INT64_MAX, 0x1p63)                                           \
    X(UINT8, uint8_t, u8, 0, UINT8_MAX, 0x1p8)                                                     \
    X(UINT16, uint16_t, u16, 0, UINT16_MAX, 0x1p16)                                                \
    X(UINT32, uint32_t, u32, 0, UINT32_MAX, 0x1p32)                                                \
    X(UINT64, uint64_t, u64, 0, UINT64_MAX, 0x1p64)

#define SATURATE_FUNCTION(D, T, s, least, most, past)                                              \
    static inline T saturate_##s(double value) {                                                   \
        if (!(value > (double)(least))) return value == value ? (least) : 0;                       \
        return value >= (past) ? (most) : (T)value;                                                \
    }
SATURATE_LIST(SATURATE_FUNCTION)
#undef SATURATE_FUNCTION

#endif
