// SPDX-License-Identifier: Apache-2.0
/* Plain loops over rows of the result; see plain_product.h. Integers are computed unsigned, where
 * wrapping is defined, and the signed result has the same bits. */
#include "plain_product.h"

#include "kernel_parts.h"

#define PLAIN(T, name)                                                                             \
    static void plain_##name(const PlainProduct *p, uint64_t i) {                                  \
        T *y = (T *)p->y + i * p->n;                                                               \
        for (uint64_t k = 0; k < p->k; k++) {                                                      \
            T x = ((const T *)p->a)[i * p->a_row + k * p->a_column];                               \
            const T *b = (const T *)p->b + k * p->b_row;                                           \
            if (p->b_column == 1)                                                                  \
                for (uint64_t j = 0; j < p->n; j++) y[j] += x * b[j];                              \
            else                                                                                   \
                for (uint64_t j = 0; j < p->n; j++) y[j] += x * b[j * p->b_column];                \
        }                                                                                          \
    }
PLAIN(double, double)
PLAIN(uint32_t, uint32)
PLAIN(uint64_t, uint64)

#define PLAIN_PART(name)                                                                           \
    static void part_##name(const void *p, uint64_t first, uint64_t end, unsigned lane) {          \
        (void)lane;                                                                                \
        for (uint64_t i = first; i < end; i++) plain_##name(p, i);                                 \
    }
PLAIN_PART(double)
PLAIN_PART(uint32)
PLAIN_PART(uint64)

void plain_product(KernelCall *call, Dtype dtype, const PlainProduct *p) {
    const bool is_double = dtype == DTYPE_DOUBLE, is_short = kernel_element_size(dtype) == 4;
    kernel_run_parts(call->workers,
                     kernel_work_cut(call, (double)p->m * (double)p->n * (double)p->k, p->m),
                     is_double  ? part_double
                     : is_short ? part_uint32
                                : part_uint64,
                     p);
}
