// SPDX-License-Identifier: Apache-2.0
/* Det: determinants by elimination with partial pivoting, in double. That of a 0 x 0 matrix is 1.
 */
#include <math.h>

#include "kernel_functions.h"
#include "kernel_pace.h"
#include "kernel_reals.h"

/* a: [n][n], is overwritten. */
static double determinant(double *a, uint64_t n, KernelPace *pace) {
    double result = 1;
    for (uint64_t c = 0; c < n; c++) {
        uint64_t pivot = c;
        for (uint64_t r = c + 1; r < n; r++)
            if (fabs(a[r * n + c]) > fabs(a[pivot * n + c])) pivot = r;
        for (uint64_t k = 0; pivot != c && k < n; k++) {
            double swap = a[c * n + k];
            a[c * n + k] = a[pivot * n + k];
            a[pivot * n + k] = swap;
        }
        if (pivot != c) result = -result;
        result *= a[c * n + c];
        if (a[c * n + c] == 0) return 0;
        for (uint64_t r = c + 1; r < n; r++) {
            kernel_pace(pace, n - c);
            double factor = a[r * n + c] / a[c * n + c];
            for (uint64_t k = c + 1; k < n; k++) a[r * n + k] -= factor * a[c * n + k];
        }
    }
    return result;
}

bool kernel_det(KernelCall *call) {
    const KernelTensor *x = &call->inputs[0], *y = &call->outputs[0];
    if (x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2])
        return kernel_fail(call, "the matrices are not square");
    uint64_t n = (uint64_t)x->dims[x->rank - 1], size = n * n;
    if (!kernel_want_count(call, y, kernel_span(x, 0, x->rank - 2), "the output")) return false;
    const double *from = kernel_doubles(call, x);
    double *to = kernel_reals_for(call, y, DTYPE_DOUBLE);
    double *matrix = ARENA_ARRAY(call->scratch, double, size + 1);
    KernelPace pace = {call, 0};
    if (!from || !to) return false;
    for (uint64_t i = 0; i < y->count; i++) {
        for (uint64_t k = 0; k < size; k++) matrix[k] = from[i * size + k];
        to[i] = determinant(matrix, n, &pace);
    }
    kernel_reals_done(y, to, DTYPE_DOUBLE);
    return true;
}
