// SPDX-License-Identifier: Apache-2.0
/* Plain loops over rows of the result; see plain_product.h. Integers are computed unsigned, where
 * wrapping is defined, and the signed result has the same bits. */
#include "plain_product.h"

#include "gemm.h"

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

void plain_product(KernelCall *call, Dtype dtype, const PlainProduct *p) {
    unsigned threads = gemm_threads(call, (double)p->m * (double)p->n * (double)p->k, p->m);
    size_t size = kernel_element_size(dtype);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (uint64_t i = 0; i < p->m; i++) {
        if (dtype == DTYPE_DOUBLE)
            plain_double(p, i);
        else if (size == 4)
            plain_uint32(p, i);
        else
            plain_uint64(p, i);
    }
}
