// SPDX-License-Identifier: Apache-2.0
/* Softmax, LogSoftmax and Hardmax: exp(x - max) over its sum, the logarithm of that, and a one at
 * the largest element.
 *
 * Before version 13 the axes from `axis` on are one: the operators work on a matrix. Sums are made
 * in double. A row of all -Inf gives NaN, as the formula does.
 */
#include <math.h>

#include "kernel_clones.h"
#include "kernel_functions.h"
#include "kernel_math.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "kernel_reduce.h"
#include "quick_rows.h"

enum { SOFT_WEIGHT = 4 };

typedef enum SoftKind { SOFT, LOG_SOFT, HARD } SoftKind;

/* (n, inner) elements, with space of [inner] for each column's largest and sum. */
typedef struct SoftBlock {
    uint64_t n, inner;
    bool quick; /* elements are float and the plan is not faithful */
    const void *x;
    void *y, *top;
    double *sum;
} SoftBlock;

#include "real_float.inc"
#include "real_row.inc"
#include "kernel_softmax_body.inc"
#include "real_end.inc"
#include "real_double.inc"
#include "real_row.inc"
#include "kernel_softmax_body.inc"
#include "real_end.inc"

/* The axis may be the rank before version 13: rows of one element. Scalars are rows of one. */
static bool find_loops(KernelCall *call, AxisLoops *loops) {
    const NormAttrs *attrs = call->attrs;
    const KernelTensor *x = &call->inputs[0];
    bool matrix = call->row->layout == &op_attrs_softmax_1;
    uint32_t axis;
    *loops = (AxisLoops){x->count, 1, 1};
    if (x->rank == 0 || (matrix && attrs->axis == x->rank)) return true;
    if (!kernel_axis(call, attrs->axis, x->rank, &axis)) return false;
    *loops = axis_loops(x, axis);
    if (matrix) *loops = (AxisLoops){loops->outer, loops->n * loops->inner, 1};
    return true;
}

static bool soft(KernelCall *call, SoftKind kind) {
    AxisLoops loops;
    if (!kernel_want_same_count(call) || !find_loops(call, &loops)) return false;
    if (call->inputs[0].count == 0) return true;
    if (call->inputs[0].dtype == DTYPE_FLOAT)
        run_float(call, loops, kind);
    else if (call->inputs[0].dtype == DTYPE_DOUBLE)
        run_double(call, loops, kind);
    else
        return kernel_fail(call, "no floating-point values");
    return true;
}

bool kernel_softmax(KernelCall *call) {
    return soft(call, SOFT);
}
bool kernel_log_softmax(KernelCall *call) {
    return soft(call, LOG_SOFT);
}
bool kernel_hardmax(KernelCall *call) {
    return soft(call, HARD);
}
