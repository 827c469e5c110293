// SPDX-License-Identifier: Apache-2.0
/* Loops over elements, once for every type: what elementwise kernels are made of.
 *
 * Each macro defines a function from an expression; in it x, y are the operands' elements. The
 * result may be the very array of an operand (never one that overlaps it otherwise), and the loops
 * say so, so that they vectorise without tests for overlap.
 */
#ifndef DEMI_KERNEL_ROWS_H
#define DEMI_KERNEL_ROWS_H

#include "kernel_broadcast.h"
#include "row_clones.h"

#define ROW_EACH(n, statement)                                                                     \
    ROW_LOOP for (uint64_t i = 0; i < (n); i++) {                                                  \
        statement;                                                                                 \
    }

/* A BroadcastFunction: R from x and y of type T. */
#define BINARY_ROWS(name, R, T, expression) BINARY_ROWS_FOR(, name, R, T, expression)
#define BINARY_ROWS_FOR(attributes, name, R, T, expression)                                        \
    attributes static void name(const BroadcastTile *tile, const void *context) {                  \
        (void)context;                                                                             \
        const uint64_t n = tile->columns;                                                          \
        for (uint64_t row = 0; row < tile->rows; row++) {                                          \
            R *out = (R *)tile->at[0] + row * tile->row_step[0];                                   \
            const T *a = (const T *)tile->at[1] + row * tile->row_step[1];                         \
            const T *b = (const T *)tile->at[2] + row * tile->row_step[2];                         \
            if (tile->step[1] && tile->step[2])                                                    \
                ROW_EACH(n, const T x = a[i]; const T y = b[i]; out[i] = (R)(expression))          \
            else if (tile->step[1]) {                                                              \
                const T y = *b;                                                                    \
                ROW_EACH(n, const T x = a[i]; out[i] = (R)(expression))                            \
            } else {                                                                               \
                const T x = *a;                                                                    \
                const uint64_t step = tile->step[2];                                               \
                if (step)                                                                          \
                    ROW_EACH(n, const T y = b[i]; out[i] = (R)(expression))                        \
                else                                                                               \
                    ROW_EACH(n, const T y = *b; out[i] = (R)(expression))                          \
            }                                                                                      \
        }                                                                                          \
    }

/* The same with one loop: for work that does not vectorise anyway. */
#define BINARY_ROWS_SLOW(name, R, T, U, expression)                                                \
    static void name(const BroadcastTile *tile, const void *context) {                             \
        (void)context;                                                                             \
        for (uint64_t row = 0; row < tile->rows; row++) {                                          \
            R *out = (R *)tile->at[0] + row * tile->row_step[0];                                   \
            const T *a = (const T *)tile->at[1] + row * tile->row_step[1];                         \
            const U *b = (const U *)tile->at[2] + row * tile->row_step[2];                         \
            const uint64_t a_step = tile->step[1], b_step = tile->step[2];                         \
            for (uint64_t i = 0; i < tile->columns; i++) {                                         \
                const T x = a[i * a_step];                                                         \
                const U y = b[i * b_step];                                                         \
                out[i] = (R)(expression);                                                          \
            }                                                                                      \
        }                                                                                          \
    }

/* Numbers a unary function is made with, from attributes or scalar operands. */
typedef struct UnaryNumbers {
    double a, b;
} UnaryNumbers;

typedef void (*UnaryFunction)(void *out, const void *in, uint64_t n, const UnaryNumbers *numbers);

/* A UnaryFunction: R from x of type T; p and q are the numbers as N. */
#define UNARY_ROWS(name, R, T, N, expression) UNARY_ROWS_FOR(, name, R, T, N, expression)
#define UNARY_ROWS_FOR(attributes, name, R, T, N, expression)                                      \
    attributes static void name(void *out_data, const void *in_data, uint64_t n,                   \
                                const UnaryNumbers *numbers) {                                     \
        R *out = out_data;                                                                         \
        const T *in = in_data;                                                                     \
        const N p = (N)numbers->a, q = (N)numbers->b;                                              \
        (void)p, (void)q;                                                                          \
        ROW_EACH(n, const T x = in[i]; out[i] = (R)(expression))                                   \
    }

/* Output 0 from input 0 by the function of its dtype; 16-bit floats by that of floats, rounded once. */
bool kernel_unary(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT],
                  const UnaryNumbers *numbers);
/* The same, but by `quick` (quick_rows.h) where elements are float and the plan is not faithful. */
bool kernel_unary_quick(KernelCall *call, const UnaryFunction functions[DTYPE_COUNT],
                        const UnaryNumbers *numbers, UnaryFunction quick);

#endif
