// SPDX-License-Identifier: Apache-2.0
/* com.microsoft's Inverse: of matrices in stacks, by Gauss and Jordan with partial pivoting, in
 * double. A matrix that has none gives infinities and NaN. */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_pace.h"
#include "kernel_reals.h"

static void exchange(double *a, double *b, uint64_t n) {
    for (uint64_t k = 0; k < n; k++) {
        const double swap = a[k];
        a[k] = b[k];
        b[k] = swap;
    }
}

/* a: [n][n], becomes the identity; y: [n][n], the identity, becomes a's inverse. */
static void invert(double *a, double *y, uint64_t n, KernelPace *pace) {
    for (uint64_t c = 0; c < n; c++) {
        uint64_t pivot = c;
        for (uint64_t r = c + 1; r < n; r++)
            if (fabs(a[r * n + c]) > fabs(a[pivot * n + c])) pivot = r;
        if (pivot != c) {
            exchange(a + c * n, a + pivot * n, n);
            exchange(y + c * n, y + pivot * n, n);
        }
        const double factor = 1 / a[c * n + c];
        for (uint64_t k = 0; k < n; k++) {
            a[c * n + k] *= factor;
            y[c * n + k] *= factor;
        }
        for (uint64_t r = 0; r < n; r++) {
            kernel_pace(pace, 2 * n);
            const double times = a[r * n + c];
            for (uint64_t k = 0; r != c && k < n; k++) {
                a[r * n + k] -= times * a[c * n + k];
                y[r * n + k] -= times * y[c * n + k];
            }
        }
    }
}

bool kernel_inverse(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    if (x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2])
        return kernel_fail(call, "the matrices are not square");
    const uint64_t n = (uint64_t)x->dims[x->rank - 1], size = n * n;
    if (!kernel_want_same_count(call)) return false;
    if (x->count == 0) return true;
    const double *from = kernel_doubles(call, x);
    double *to = kernel_reals_for(call, y, DTYPE_DOUBLE);
    if (!from || !to) return false;
    KernelPace pace = {call, 0};
    double *matrix = ARENA_ARRAY(call->scratch, double, size);
    for (uint64_t i = 0; i < x->count / size; i++) {
        for (uint64_t k = 0; k < size; k++) {
            matrix[k] = from[i * size + k];
            to[i * size + k] = k % (n + 1) ? 0 : 1;
        }
        invert(matrix, to + i * size, n, &pace);
    }
    kernel_reals_done(y, to, DTYPE_DOUBLE);
    return true;
}
