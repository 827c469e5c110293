// SPDX-License-Identifier: Apache-2.0
/* Comparisons, And, Or, Xor, Not, and the bitwise operators.
 *
 * Comparisons follow IEEE 754: NaN is not equal to anything and in no order. Strings compare by
 * their bytes. bool elements of a file may be any byte; every one but 0 is true here, and results
 * are 0 or 1. Shifts by the width or more, or by a negative count, shift everything out.
 */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_rows.h"
#include "kernel_types.h"

/* ---- comparisons ----------------------------------------------------------------------------- */

#define ORDERS(D, T, s)                                                                            \
    BINARY_ROWS(less_##s, uint8_t, T, x < y)                                                       \
    BINARY_ROWS(less_equal_##s, uint8_t, T, x <= y)                                                \
    BINARY_ROWS(greater_##s, uint8_t, T, x > y)                                                    \
    BINARY_ROWS(greater_equal_##s, uint8_t, T, x >= y)
KERNEL_NUMBER_LIST(ORDERS)

#define EQUALS(D, T, s) BINARY_ROWS(equal_##s, uint8_t, T, x == y)
KERNEL_FLOAT_LIST(EQUALS)
KERNEL_UNSIGNED_LIST(EQUALS)

static inline bool same_text(KernelString a, KernelString b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.text, b.text, a.size) == 0);
}

BINARY_ROWS(equal_bool, uint8_t, uint8_t, !x == !y)
BINARY_ROWS_SLOW(equal_text, uint8_t, KernelString, KernelString, same_text(x, y))

bool kernel_equal(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {
        KERNEL_BY_FLOAT(equal),
        KERNEL_BY_WIDTH(equal), [DTYPE_BOOL] = equal_bool, [DTYPE_STRING] = equal_text};
    return kernel_broadcast_binary(call, functions);
}

#define COMPARISON(name)                                                                           \
    bool kernel_##name(KernelCall *call) {                                                         \
        static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_FLOAT(name),            \
                                                                 KERNEL_BY_INT(name)};             \
        return kernel_broadcast_binary(call, functions);                                           \
    }
COMPARISON(less)
COMPARISON(less_equal)
COMPARISON(greater)
COMPARISON(greater_equal)

/* ---- bool ------------------------------------------------------------------------------------ */

BINARY_ROWS(and_bool, uint8_t, uint8_t, (x != 0) & (y != 0))
BINARY_ROWS(or_bool, uint8_t, uint8_t, (x | y) != 0)
BINARY_ROWS(xor_bool, uint8_t, uint8_t, (x != 0) ^ (y != 0))
UNARY_ROWS(not_bool, uint8_t, uint8_t, double, x == 0)

bool kernel_and(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {[DTYPE_BOOL] = and_bool};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_or(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {[DTYPE_BOOL] = or_bool};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_xor(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {[DTYPE_BOOL] = xor_bool};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_not(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {[DTYPE_BOOL] = not_bool};
    return kernel_unary(call, functions, NULL);
}

/* ---- bits ------------------------------------------------------------------------------------ */

#define BITS(D, T, s)                                                                              \
    BINARY_ROWS(bits_and_##s, T, T, x &y)                                                          \
    BINARY_ROWS(bits_or_##s, T, T, x | y)                                                          \
    BINARY_ROWS(bits_xor_##s, T, T, x ^ y)                                                         \
    UNARY_ROWS(bits_not_##s, T, T, double, ~x)                                                     \
    BINARY_ROWS(shift_left_##s, T, T, y < 8 * sizeof(T) ? (uint64_t)x << (y & 63) : 0)             \
    BINARY_ROWS(shift_right_##s, T, T, y < 8 * sizeof(T) ? (uint64_t)x >> (y & 63) : 0)
KERNEL_UNSIGNED_LIST(BITS)

/* x >> 63 and the like copy the sign everywhere; >> of negative numbers is arithmetic in every
 * compiler this is built with. */
#define SIGNED_SHIFT(D, T, s)                                                                      \
    BINARY_ROWS(shift_right_##s, T, T,                                                             \
                (int64_t)x >> (y >= 0 && y < (int)(8 * sizeof(T)) ? (int)y : 63))
KERNEL_SIGNED_LIST(SIGNED_SHIFT)

bool kernel_bitwise_and(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_WIDTH(bits_and)};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_bitwise_or(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_WIDTH(bits_or)};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_bitwise_xor(KernelCall *call) {
    static const BroadcastFunction functions[DTYPE_COUNT] = {KERNEL_BY_WIDTH(bits_xor)};
    return kernel_broadcast_binary(call, functions);
}

bool kernel_bitwise_not(KernelCall *call) {
    static const UnaryFunction functions[DTYPE_COUNT] = {KERNEL_BY_WIDTH(bits_not)};
    return kernel_unary(call, functions, NULL);
}

bool kernel_bit_shift(KernelCall *call) {
    static const BroadcastFunction left[DTYPE_COUNT] = {KERNEL_BY_WIDTH(shift_left)};
    static const BroadcastFunction right[DTYPE_COUNT] = {KERNEL_BY_INT(shift_right)};
    const ShiftAttrs *attrs = call->attrs;
    if (attrs->direction < 0) return kernel_fail(call, "direction is neither LEFT nor RIGHT");
    return kernel_broadcast_binary(call, attrs->direction ? right : left);
}
